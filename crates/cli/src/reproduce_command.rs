// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane reproduce` and `crosslane validate`: published figures beside the lab's.

use std::fmt::Write as _;
use std::time::Instant;

use crosslane::lab::EngineKind;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::{Outcome, Reproduction as Figures};
use crosslane_report::Table;
use crosslane_report::text::paragraph;
use crosslane_reproduce::reproduction::{Reproduction, find, reproduce_with};
use crosslane_reproduce::study::{reproducible, studies};
use crosslane_reproduce::validation::{CHANGE, Validation, numbers, validate};
use crosslane_reproduce::watch::Watch;

use crate::arguments::{ReproduceArguments, ValidateArguments};
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output::{print, print_json};
use crate::output_file::not_written;
use crate::progress::Steps;
use crate::report_file::{command_line, report_of, write_page};
use crate::terminal::{columns, shown};

impl Watch for Steps {
    fn done(&self, scenario: &str, simulated: Picoseconds) {
        Self::done(self, scenario, simulated);
    }

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Runs a reproduction, or lists those that there are.
///
/// # Errors
/// A name that there is not, an experiment that does not run, or an output that cannot be written.
pub fn run(arguments: &ReproduceArguments) -> Result<(), CommandError> {
    let Some(name) = &arguments.name else { return list() };
    let file = report_of(arguments.report.as_ref())?;
    let steps = Steps::new(find(name)?.scenarios, "scenarios");
    let begun = Instant::now();
    let engines = arguments.engines.kind()?;
    let reproduction = reproduce_with(name, arguments.seed, engines, &steps);
    steps.finish();
    let reproduction = reproduction?;
    arguments.engines.print_speed(begun);
    if arguments.json {
        let interrupted = steps.watch.interrupted();
        print_json(&Outcome::Reproduction(Figures { interrupted, ..reproduction.result() }))?;
    } else {
        print(&page(&reproduction))?;
    }
    steps.watch.end(&not_written([&file]))?;
    match &file {
        Some(file) => write_page(&reproduction.page(&command_line())?, file),
        None => Ok(()),
    }
}

fn list() -> Result<(), CommandError> {
    let mut table = Table::headed("reproduction | what is done");
    for known in reproducible() {
        table.row([known.name.to_owned(), known.summary.to_owned()]);
    }
    print(&shown(&table))
}

/// A reproduction as people read it.
fn page(reproduction: &Reproduction) -> String {
    let mut page = String::new();
    if reproduction.own == EngineKind::Rtl {
        page = paragraph(&reproduction.summary(), columns()) + "\n";
    }
    for (number, experiment) in (1..).zip(&reproduction.experiments) {
        let _ = writeln!(page, "{number}. {}", experiment.title);
        for table in &experiment.tables {
            page.push_str(&shown(table));
        }
        for text in &experiment.text {
            page.push_str(&paragraph(text, columns()));
        }
        for explained in &experiment.why {
            page.push_str(&paragraph(&explained.sentence(), columns()));
        }
        page.push('\n');
    }
    page.push_str("The paper's figures beside the lab's\n");
    let comparison = reproduction.comparison().least_first(&["allowed %", "kind"]);
    page.push_str(&shown(&comparison));
    if reproduction.own == EngineKind::Model {
        page.push_str(&paragraph(&reproduction.summary(), columns()));
    }
    page
}

/// Validates sets of measurements: all of them where none is named.
///
/// # Errors
/// A set that there is not, or an experiment that does not run.
pub fn run_validation(arguments: &ValidateArguments) -> Result<(), CommandError> {
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
    let mut validations: Vec<Validation> = Vec::new();
    for name in names {
        if is_asked() {
            break;
        }
        validations.push(validate(name, &steps)?);
    }
    steps.finish();
    if arguments.json {
        let mut document = serde_json::json!({
            "change": CHANGE,
            "sets": validations,
            "version": env!("CARGO_PKG_VERSION"),
        });
        steps.watch.mark(&mut document);
        print_json(&document)?;
    } else {
        let pages: Vec<String> = validations.iter().map(validation_page).collect();
        print(&pages.join("\n"))?;
    }
    steps.watch.end("")
}

fn validation_page(validation: &Validation) -> String {
    let percent = |fraction: f64| format!("{:+.1} %", 100.0 * fraction);
    let mut page = format!(
        "{}: {} published rows, {} compared, {} of them predicted; {} of {} constants fitted\n",
        validation.set,
        validation.rows,
        validation.compared.rows,
        validation.predicted.rows,
        validation.fitted,
        validation.constants,
    );
    for (what, errors) in [("compared", validation.compared), ("predicted", validation.predicted)] {
        let (worst, median) = (percent(errors.worst), 100.0 * errors.median);
        let _ = writeln!(page, "  {what}: worst error {worst}, median {median:.1} %");
    }
    if !validation.outside.is_empty() {
        let outside = validation.outside.join(", ");
        let _ = writeln!(page, "  OUTSIDE their tolerance: {outside}");
    }
    let note = format!(
        "  constants that move the compared rows most when raised by {:.0} % (counts by 1 at \
         least), in shorter runs; {} numbers were raised, {} are zero or cannot have other values",
        100.0 * CHANGE,
        validation.changed,
        validation.fixed,
    );
    page.push_str(&paragraph(&note, columns()));
    page.push('\n');
    if validation.not_raised > 0 {
        let _ = writeln!(page, "  interrupted: {} more were not raised\n", validation.not_raised);
    }
    let mut table = Table::headed("constant | value: | raised to: | rows change: | most: | row")
        .least_first(&["value", "raised to"]);
    for one in &validation.influences {
        table.row([
            one.constant.clone(),
            one.value.to_string(),
            format!("{} {}", (one.changed_to * 1e3).round() / 1e3, one.unit).trim_end().to_owned(),
            format!("{:.2} %", 100.0 * one.average),
            percent(one.largest),
            one.row.clone(),
        ]);
    }
    page.push_str(&shown(&table));
    page
}
