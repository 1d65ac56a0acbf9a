// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers the question on standard input as the page's module does: what the two say is compared.

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let mut question = String::new();
    std::io::stdin().read_to_string(&mut question)?;
    std::io::stdout().write_all(crosslane_web::answer(&question, &()).as_bytes())
}
