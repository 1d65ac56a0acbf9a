// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the pages in `docs/reproductions`.

use std::fmt::Write as _;

use crosslane_lab::{Constant, Provenance};
use crosslane_report::Table;

use crate::error::{ReproduceError, Result};
use crate::explained;
use crate::reproduction::{Reproduction, comparison};

/// Returns the page of a reproduction with its current tables.
///
/// # Errors
/// A page without the marks around its tables, or a lab that cannot be read.
pub fn document(old: &str, reproduction: &Reproduction) -> Result<String> {
    let (name, command) = (reproduction.name, format!("make {}", reproduction.name));
    let lab = crosslane_lab::open(name)?;
    let figures = reproduction.rows().filter(|row| row.published.is_some());
    let blocks = [
        ("summary", format!("{}\n", reproduction.summary())),
        ("comparison", comparison(figures).to_markdown()),
        ("kinds", kinds(reproduction).to_markdown()),
        ("constants", fits(lab.constants()).to_markdown()),
        ("experiments", experiments(reproduction)),
    ];
    with_blocks(old, &format!("docs/reproductions/{name}.md"), &command, blocks)
}

/// Returns the reasons for each row's kind and tolerance; rows that differ only in the number of
/// devices appear once.
fn kinds(reproduction: &Reproduction) -> Table {
    let mut table = Table::headed("Quantity | Conditions | Kind | Why | Allowed because");
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
                format!("{:.1} %: {}", 100.0 * tolerance, row.because)
            }),
        ]);
    }
    table
}

/// Returns a table of the fitted constants.
pub(crate) fn fits<'a>(constants: impl IntoIterator<Item = &'a Constant>) -> Table {
    let mut table = Table::headed("Constant | Value: | Fitted to");
    for constant in constants.into_iter().filter(|one| one.provenance == Provenance::Fit) {
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
            let _ = writeln!(
                text,
                "Why not faster:\n\n{}",
                explained::table(&experiment.why).to_markdown()
            );
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Replaces the text between `<!-- NAME: COMMAND -->` and `<!-- end -->` of a page, for each name
/// and text; `page` is the page's own name.
///
/// # Errors
/// A page without such a block.
pub(crate) fn with_blocks<const N: usize>(
    document: &str,
    page: &str,
    command: &str,
    blocks: [(&str, String); N],
) -> Result<String> {
    let mut document = document.to_owned();
    for (name, text) in blocks {
        document = with_block(&document, name, command, &text)
            .ok_or_else(|| ReproduceError::experiment(page, format!("no block {name}")))?;
    }
    Ok(document)
}

fn with_block(document: &str, name: &str, command: &str, text: &str) -> Option<String> {
    let mark = format!("<!-- {name}: {command} -->\n");
    let (before, rest) = document.split_once(&mark)?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!("{before}{mark}\n{text}\n<!-- end -->{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_replaced_and_the_rest_stays() {
        let document = "a\n<!-- x: make it -->\nold\n<!-- end -->\nb\n";
        let fresh = with_block(document, "x", "make it", "new").unwrap();
        assert_eq!(fresh, "a\n<!-- x: make it -->\n\nnew\n<!-- end -->\nb\n");
        assert_eq!(with_block(document, "y", "make it", "new"), None);
        assert_eq!(with_block("<!-- x: make it -->\n", "x", "make it", "new"), None);
    }
}
