// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Updates the tables of a page in `docs/reproductions`: `document NAME`.

use std::error::Error;
use std::path::Path;

use crosslane_explain::{STEPS, explain};
use crosslane_lab::EngineKind;
use crosslane_reproduce::document::document;
use crosslane_reproduce::reproduction::reproduce;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("the name of a reproduction is missing")?;
    let reproduction = reproduce(&name, 1, EngineKind::Model, &(), &|run| {
        Ok(explain(run, None, STEPS, &|_| ())?)
    })?;
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproductions");
    let path = pages.join(format!("{name}.md"));
    let old = std::fs::read_to_string(&path)?;
    std::fs::write(&path, document(&old, &reproduction)?)?;
    println!("{}", reproduction.summary());
    Ok(())
}
