// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the tables of `docs/reproductions/rosta.md` anew.

use std::error::Error;
use std::path::Path;

use crosslane_reproduce::reproduction::reproduce;
use crosslane_reproduce::rosta::document;

fn main() -> Result<(), Box<dyn Error>> {
    let reproduction = reproduce("rosta", 1, &())?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproductions/rosta.md");
    let old = std::fs::read_to_string(&path)?;
    std::fs::write(&path, document(&old, &reproduction)?)?;
    println!("{}", reproduction.summary());
    Ok(())
}
