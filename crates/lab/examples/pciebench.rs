// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints every published row of the pcie-bench study beside the same measurement in the lab
//! `pciebench`. With `--write`, writes the tables of `docs/pciebench.md` anew as well.

#[path = "../tests/published/pciebench.rs"]
mod published;

use published::{Labs, document_path, table};

fn main() -> std::io::Result<()> {
    let labs = Labs::open();
    let results = labs.results();
    print!("{}", table(&results));
    let fitted = labs.fitted().len();
    println!("\n{} rows, {fitted} fitted constants", results.len());
    if std::env::args().any(|argument| argument == "--write") {
        std::fs::write(document_path(), labs.document(&results))?;
    }
    Ok(())
}
