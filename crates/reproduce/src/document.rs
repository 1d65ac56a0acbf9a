// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the pages in `docs/reproductions`.

use std::fmt::Write as _;

use crosslane_lab::{Lab, Provenance};

use crate::error::ReproduceError;
use crate::markdown::with_block;
use crate::reproduction::{Reproduction, comparison};
use crate::table::{Align, Table};

/// The document about the reproduction with its tables as they are now.
///
/// # Errors
/// A document without the marks that the tables stand between, or a lab that cannot be read.
pub fn document(old: &str, reproduction: &Reproduction) -> Result<String, ReproduceError> {
    let (name, command) = (reproduction.name, format!("make {}", reproduction.name));
    let lab = crosslane_lab::open(name)?;
    let figures = reproduction.rows().filter(|row| row.published.is_some());
    let blocks = [
        ("summary", format!("{}\n", reproduction.summary())),
        ("comparison", comparison(figures).to_markdown()),
        ("kinds", kinds(reproduction).to_markdown()),
        ("constants", fits(&lab).to_markdown()),
        ("experiments", experiments(reproduction)),
    ];
    let mut document = old.to_owned();
    for (block, text) in blocks {
        document = with_block(&document, block, &command, &text).ok_or_else(|| {
            let page = format!("docs/reproductions/{name}.md");
            ReproduceError::experiment(page, format!("no block {block}"))
        })?;
    }
    Ok(document)
}

/// Why each row is of its kind, and why so much is allowed; rows that only differ in the number
/// of devices once.
fn kinds(reproduction: &Reproduction) -> Table {
    let mut table = Table::new(&[
        ("Quantity", Align::Left),
        ("Conditions", Align::Left),
        ("Kind", Align::Left),
        ("Why", Align::Left),
        ("Allowed because", Align::Left),
    ]);
    let mut before = None;
    for row in reproduction.rows().filter(|row| row.published.is_some()) {
        let this = (&row.quantity, row.kind, &row.reason);
        if before.replace(this) == Some(this) {
            continue;
        }
        table.row([
            format!("`{}`", row.quantity),
            row.conditions.clone(),
            row.kind.to_string(),
            row.reason.clone(),
            row.tolerance.map_or(String::new(), |tolerance| {
                format!("{:.1} %: {}", 100.0 * tolerance.fraction, tolerance.reason)
            }),
        ]);
    }
    table
}

/// The fitted constants.
fn fits(lab: &Lab) -> Table {
    let mut table = Table::new(&[
        ("Constant", Align::Left),
        ("Value", Align::Right),
        ("Fitted to", Align::Left),
    ]);
    for constant in lab.constants().filter(|one| one.provenance == Provenance::Fit) {
        let value = format!("{} {}", constant.value, constant.unit);
        let path = format!("`{}`", constant.path());
        table.row([path, value.trim_end().to_owned(), constant.source.clone()]);
    }
    table
}

fn experiments(reproduction: &Reproduction) -> String {
    let mut text = String::new();
    for (number, experiment) in (1..).zip(&reproduction.experiments) {
        let _ = writeln!(text, "### {number}. {}\n", experiment.title);
        for table in &experiment.tables {
            let _ = writeln!(text, "{}", table.to_markdown());
        }
        for paragraph in &experiment.text {
            let _ = writeln!(text, "{paragraph}\n");
        }
        if !experiment.why.is_empty() {
            let _ = writeln!(text, "Why not faster:\n\n{}", experiment.why_table().to_markdown());
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
