// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane lab`: the shipped labs, a check of one's own, and constants with their provenance.

use std::fmt::Write as _;
use std::path::Path;

use crosslane_lab::{Constant, Lab, Provenance, shipped};
use serde_json::{Value, json};

use crate::arguments::LabCommand;
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::quantity::count_words;
use crate::serve_command;
use crate::table::{Align, Table};

/// Does what was asked for.
///
/// # Errors
/// A lab that has a problem, or an output that cannot be written.
pub fn run(command: &LabCommand) -> Result<(), CommandError> {
    match command {
        LabCommand::List { json } => list(*json),
        LabCommand::Check { file } => check(file),
        LabCommand::Serve(arguments) => serve_command::run(arguments),
        LabCommand::Show { lab, json, file } => {
            let lab = Lab::load(lab)?;
            if *file {
                print(lab.file().text())
            } else if *json {
                print_json(&constants_to_json(&lab))
            } else {
                print(&constants_page(&lab))
            }
        }
    }
}

fn list(as_json: bool) -> Result<(), CommandError> {
    if as_json {
        let labs: Vec<Value> = shipped()
            .iter()
            .map(|lab| json!({ "name": lab.name, "summary": lab.summary }))
            .collect();
        return print_json(&json!({ "labs": labs }));
    }
    let mut table = Table::new(&[("lab", Align::Left), ("what it is", Align::Left)]);
    for lab in shipped() {
        table.row([lab.name.to_owned(), lab.summary.to_owned()]);
    }
    print(&table.to_string())
}

fn check(file: &Path) -> Result<(), CommandError> {
    let path = file.to_string_lossy();
    let lab = Lab::load(&path)?;
    let mut names = vec![None];
    names.extend(lab.file().variants.iter().map(|variant| Some(variant.name.clone())));
    let mut page = String::new();
    for name in names {
        let lab = match &name {
            Some(name) => lab.with_variant(name)?,
            None => lab.clone(),
        };
        let running = lab.build(1)?;
        let functions: usize = running.hosts.iter().map(|host| host.tree.functions.len()).sum();
        let variant = name.map_or(String::new(), |name| format!(", variant {name}"));
        let _ = writeln!(
            page,
            "{path}: lab {}{variant} is fine: {}, {}, {}, {}",
            lab.name(),
            count_words(running.hosts.len(), "host", "hosts"),
            count_words(running.fabric.links().len(), "link", "links"),
            count_words(functions, "function", "functions"),
            count_words(lab.constants().count(), "constant", "constants"),
        );
    }
    print(&page)
}

fn constants_page(lab: &Lab) -> String {
    let mut page = format!("{}: {}\n", lab.name(), lab.summary());
    if let Some(source) = &lab.file().source {
        let _ = writeln!(page, "Reproduces {source}.");
    }
    for variant in &lab.file().variants {
        let _ = writeln!(page, "Variant {}:{}: {}", lab.name(), variant.name, variant.summary);
    }
    page.push('\n');
    let mut table = Table::new(&[
        ("constant", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("provenance", Align::Left),
        ("source", Align::Left),
    ]);
    for constant in lab.constants() {
        table.row([
            constant.path(),
            constant.shown_value(),
            constant.unit.to_owned(),
            constant.provenance.to_string(),
            constant.source.clone(),
        ]);
    }
    page.push_str(&table.to_string());
    page.push('\n');
    page.push_str(&provenance_line(lab));
    page
}

/// How many constants there are of each kind.
fn provenance_line(lab: &Lab) -> String {
    let counts: Vec<String> = Provenance::ALL
        .into_iter()
        .map(|kind| (kind, lab.constants().filter(|c| c.provenance == kind).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    format!("{} constants by provenance: {}\n", lab.constants().count(), counts.join(", "))
}

fn constants_to_json(lab: &Lab) -> Value {
    let constants: Vec<Value> = lab.constants().map(constant_to_json).collect();
    let variants: Vec<Value> = lab
        .file()
        .variants
        .iter()
        .map(|variant| json!({ "name": variant.name, "summary": variant.summary }))
        .collect();
    json!({
        "lab": lab.name(),
        "summary": lab.summary(),
        "source": lab.file().source,
        "variant": lab.variant(),
        "variants": variants,
        "constants": constants,
    })
}

fn constant_to_json(constant: &Constant) -> Value {
    json!({
        "path": constant.path(),
        "value": constant.value,
        "unit": constant.unit,
        "provenance": constant.provenance.word(),
        "source": constant.source,
        "line": constant.line,
    })
}
