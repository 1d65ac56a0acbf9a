// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane reproduce` and `crosslane validate`: published and measured figures beside the lab's.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crosslane::explain::{STEPS, explain};
use crosslane::lab::{EngineKind, Lab, shipped};
use crosslane::results::{Outcome, Reproduction as Figures, Validation};
use crosslane_report::Table;
use crosslane_report::output::not_written;
use crosslane_reproduce::measured::{MAX_MEASURED_BYTES, Measurements};
use crosslane_reproduce::reproduction::{find, reproduce};
use crosslane_reproduce::study::{reproducible, studies};
use crosslane_reproduce::text;
use crosslane_reproduce::validation::{
    CHANGE, ITEMS_BEFORE, numbers, numbers_of, validate, validate_measured,
};

use crate::arguments::{ReproduceArguments, ValidateArguments};
use crate::error::{CommandError, Result};
use crate::files::{command_line, read_text, report_of, write_page};
use crate::interrupt::is_asked;
use crate::items::{Items, Work};
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
    let known = find(name)?;
    let engines = arguments.engines.kind()?;
    let beside = if engines == EngineKind::Rtl { known.beside_gateware } else { 0 };
    let steps = Steps::new(known.scenarios + beside, "scenarios");
    let begun = Instant::now();
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

/// A set that is validated.
enum Set<'a> {
    /// A published one, by the name of its lab.
    Published(&'a str),
    /// A lab, by its name, with a file of measurements.
    Measured(&'a str, Box<Lab>, Measurements),
}

impl<'a> Set<'a> {
    /// Returns the sets that a name stands for: a published one, or those of a lab file.
    fn named(name: &'a str, csv: Option<&Path>) -> Result<Vec<Self>> {
        let is_published = studies().any(|study| study == name) || !is_file(name);
        if csv.is_none() && is_published {
            return Ok(vec![Self::Published(name)]);
        }
        let lab = Lab::load(name)?;
        let files: Vec<PathBuf> = match csv {
            Some(csv) => vec![csv.to_owned()],
            None => {
                let folder = Path::new(lab.origin()).parent().unwrap_or(Path::new(""));
                let files = lab.file().measurements.iter();
                files.map(|measurements| folder.join(&measurements.file)).collect()
            }
        };
        if files.is_empty() {
            return Err(CommandError::Failed(format!(
                "{name} names no measurements: give --csv FILE, or write [[measurements]] with \
                 file = \"FILE\" into it"
            )));
        }
        let set =
            |file: &PathBuf| Ok(Self::Measured(name, Box::new(lab.clone()), measurements(file)?));
        files.iter().map(set).collect()
    }

    fn name(&self) -> &'a str {
        match self {
            Self::Published(name) | Self::Measured(name, ..) => name,
        }
    }

    /// Returns the names of its items.
    fn items(&self) -> Result<Vec<String>> {
        let numbers = match self {
            Self::Published(name) => numbers(name)?,
            Self::Measured(_, lab, _) => numbers_of(lab),
        };
        let before = ["rows", "rows of shorter runs"].map(str::to_owned);
        Ok(before.into_iter().chain(numbers).collect())
    }

    /// Returns all that it reads.
    fn inputs(&self) -> Vec<String> {
        match self {
            Self::Published(_) => shipped().iter().map(|lab| lab.text.to_owned()).collect(),
            Self::Measured(_, lab, measurements) => {
                vec![lab.file().text().to_owned(), format!("{measurements:?}")]
            }
        }
    }
}

/// Whether a set's name is that of a lab file: a path, or a file that is there.
fn is_file(name: &str) -> bool {
    let file = name.rsplit_once(':').map_or(name, |(file, _)| file);
    name.contains(['/', '.']) || Path::new(file).is_file()
}

/// Reads a file of measurements.
///
/// # Errors
/// A file that cannot be read, and a problem at one of its lines.
pub fn measurements(file: &Path) -> Result<Measurements> {
    let text = read_text(file, MAX_MEASURED_BYTES)?;
    Ok(Measurements::parse(&file.display().to_string(), &text)?)
}

/// Validates sets of measurements: all published ones where none is named.
///
/// # Errors
/// An unknown set, a lab or a file with a problem, or an experiment that fails.
pub fn run_validation(arguments: &ValidateArguments) -> Result<()> {
    let csv = arguments.csv.as_deref();
    let mut sets = Vec::new();
    for name in &arguments.sets {
        sets.extend(Set::named(name, csv)?);
    }
    if arguments.sets.is_empty() {
        studies().for_each(|name| sets.push(Set::Published(name)));
    }
    let (mut names, mut firsts) = (Vec::new(), Vec::new());
    for set in &sets {
        firsts.push(names.len() as u64);
        let of_set = set.items()?.into_iter();
        names.extend(of_set.map(|item| format!("{}: {item}", set.name())));
    }
    let work = Work {
        items: names.len() as u64,
        inputs: sets.iter().flat_map(Set::inputs).collect(),
        name: &|item| names[item as usize].clone(),
    };
    let items = Items::open(&arguments.items, work)?;
    let ends = firsts.iter().skip(1).copied().chain([names.len() as u64]);
    let constants = firsts.iter().zip(ends).map(|(first, end)| first + ITEMS_BEFORE..end);
    let steps = Steps::new(constants.map(|of_set| items.left(of_set)).sum(), "constants");
    let mut validated = Vec::new();
    for (set, first) in sets.iter().zip(firsts) {
        if is_asked() {
            break;
        }
        let items = (&items, first);
        validated.extend(match set {
            Set::Published(name) => validate(name, &steps, &items)?,
            Set::Measured(name, lab, measurements) => {
                validate_measured(name, lab, measurements, &steps, &items)?
            }
        });
    }
    steps.finish();
    if !items.end(&steps.watch)? {
        return Ok(());
    }
    let validation = Validation {
        change: CHANGE,
        sets: validated,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        interrupted: steps.watch.interrupted(),
    };
    show(arguments.json, &validation, |columns| {
        let texts = validation.sets.iter().map(|set| text::validation(set, columns));
        texts.collect::<Vec<String>>().join("\n")
    })?;
    steps.watch.end("")
}
