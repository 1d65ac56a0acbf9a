// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files: those that are shipped, and remarks of their check.

use std::fmt::Write as _;

use crosslane_results::quantity::count_words;
use crosslane_results::{LabCheck, LabFileCheck, LabList};

use super::Columns;
use crate::table::Table;

/// Formats the labs that are shipped.
pub fn lab_list(list: &LabList, columns: Columns) -> String {
    let mut table = Table::headed("lab | what it is");
    for lab in &list.labs {
        table.row([&*lab.name, &*lab.summary]);
        for variant in &lab.variants {
            table.row([format!("{}:{}", lab.name, variant.name), variant.summary.clone()]);
        }
    }
    table.to_text(columns.tables)
}

/// Formats the check of a lab file: a paragraph for the lab and for each variant.
pub fn lab_check(check: &LabFileCheck) -> String {
    check.checked.iter().map(|lab| paragraph(&check.file, lab)).collect()
}

fn paragraph(path: &str, check: &LabCheck) -> String {
    let variant = check.variant.as_ref().map_or(String::new(), |name| format!(", variant {name}"));
    let verdict = match check.warnings.len() {
        0 => "is fine".to_owned(),
        count => format!("can be built, with {}", count_words(count, "warning", "warnings")),
    };
    let mut text = format!(
        "{path}: lab {}{variant} {verdict}: {}, {}, {}, {}\n",
        check.lab,
        count_words(check.hosts, "host", "hosts"),
        count_words(check.links, "link", "links"),
        count_words(check.functions, "function", "functions"),
        count_words(check.constants, "constant", "constants"),
    );
    for (word, remarks) in [("warning", &check.warnings), ("note", &check.notes)] {
        for remark in remarks {
            let _ = writeln!(text, "  {word}: {}", remark.sentence);
        }
    }
    text
}
