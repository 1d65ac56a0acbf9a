// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints every published row of the pcie-bench study beside the same measurement in the lab
//! `pciebench`. With `--write`, also updates the tables of `docs/pciebench.md`.

use std::error::Error;
use std::path::Path;

use crosslane_reproduce::pciebench::{Labs, iommu, systems, table};

fn main() -> Result<(), Box<dyn Error>> {
    let labs = Labs::open()?;
    let results = labs.results()?;
    print!("{}", table(&results));
    let fitted = labs.fitted().len();
    println!("\n{} rows, {fitted} fitted constants\n", results.len());
    let translated = iommu::results()?;
    print!("{}\n{}", iommu::table(&translated), iommu::summary(&translated));
    let mut others = systems::results()?;
    others.extend(systems::windows()?);
    print!("\n{}\n{}", systems::summary(&others), systems::beyond(&others));
    if std::env::args().any(|argument| argument == "--write") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pciebench.md");
        let old = std::fs::read_to_string(&path)?;
        let new = iommu::document(&labs.document(&old, &results)?, &translated)?;
        let new = systems::document(&new, &others)?;
        std::fs::write(&path, new)?;
    }
    Ok(())
}
