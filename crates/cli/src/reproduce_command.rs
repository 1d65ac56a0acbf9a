// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane reproduce` and `crosslane validate`: published figures beside the lab's.

use std::time::Instant;

use crosslane::explain::{STEPS, explain};
use crosslane::results::{Outcome, Reproduction as Figures, Validation};
use crosslane_report::Table;
use crosslane_report::output::not_written;
use crosslane_reproduce::reproduction::{find, reproduce};
use crosslane_reproduce::study::{reproducible, studies};
use crosslane_reproduce::text;
use crosslane_reproduce::validation::{CHANGE, numbers, validate};

use crate::arguments::{ReproduceArguments, ValidateArguments};
use crate::error::Result;
use crate::files::{command_line, report_of, write_page};
use crate::interrupt::is_asked;
use crate::output::columns;
use crate::output::{print, show};
use crate::progress::Steps;

/// Runs a reproduction, or lists those that there are.
///
/// # Errors
/// An unknown name, an experiment that fails, or an output that cannot be written.
pub fn run(arguments: &ReproduceArguments) -> Result<()> {
    let Some(name) = &arguments.name else { return list() };
    let file = report_of(arguments.report.as_deref())?;
    let steps = Steps::new(find(name)?.scenarios, "scenarios");
    let begun = Instant::now();
    let engines = arguments.engines.kind()?;
    let reproduction = reproduce(name, arguments.seed, engines, &steps, &|run| {
        Ok(explain(run, None, STEPS, &|_| ())?)
    });
    steps.finish();
    let reproduction = reproduction?;
    arguments.engines.print_speed(begun);
    let interrupted = steps.watch.interrupted();
    let figures = Outcome::Reproduction(Figures { interrupted, ..reproduction.result() });
    show(arguments.json, &figures, |columns| reproduction.text(columns))?;
    steps.watch.end(&not_written([&file]))?;
    match &file {
        Some(file) => write_page(&reproduction.page(&command_line())?, file),
        None => Ok(()),
    }
}

fn list() -> Result<()> {
    let mut table = Table::headed("reproduction | what is done");
    for known in reproducible() {
        table.row([known.name.to_owned(), known.summary.to_owned()]);
    }
    print(&table.to_text(columns().tables))
}

/// Validates sets of measurements: all of them where none is named.
///
/// # Errors
/// An unknown set, or an experiment that fails.
pub fn run_validation(arguments: &ValidateArguments) -> Result<()> {
    let names: Vec<&str> = if arguments.sets.is_empty() {
        studies().collect()
    } else {
        arguments.sets.iter().map(String::as_str).collect()
    };
    let mut counts = Vec::new();
    for name in &names {
        counts.push(numbers(name)? as u64);
    }
    let steps = Steps::new(counts.iter().sum(), "constants");
    let mut sets = Vec::new();
    for name in names {
        if is_asked() {
            break;
        }
        sets.push(validate(name, &steps)?);
    }
    steps.finish();
    let validation = Validation {
        change: CHANGE,
        sets,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interrupted: steps.watch.interrupted(),
    };
    show(arguments.json, &validation, |columns| {
        let texts = validation.sets.iter().map(|set| text::validation(set, columns));
        texts.collect::<Vec<String>>().join("\n")
    })?;
    steps.watch.end("")
}
