// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab check`.

use std::fmt::Write as _;
use std::path::Path;

use crosslane::labs::check_file;
use crosslane::results::LabCheck;
use crosslane::results::quantity::count_words;

use crate::error::CommandError;
use crate::output::{print, print_json};

/// Checks a lab file and every variant in it.
///
/// # Errors
/// The first problem of the file, or an output that cannot be written.
pub fn run(file: &Path, is_json: bool) -> Result<(), CommandError> {
    let check = check_file(&file.to_string_lossy())?;
    match is_json {
        true => print_json(&check),
        false => {
            let paragraphs = check.checked.iter().map(|lab| paragraph(&check.file, lab));
            print(&paragraphs.collect::<String>())
        }
    }
}

fn paragraph(path: &str, check: &LabCheck) -> String {
    let variant = check.variant.as_ref().map_or(String::new(), |name| format!(", variant {name}"));
    let verdict = match check.warnings.len() {
        0 => "is fine".to_owned(),
        count => format!("can be built, with {}", count_words(count, "warning", "warnings")),
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{path}: lab {}{variant} {verdict}: {}, {}, {}, {}",
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
