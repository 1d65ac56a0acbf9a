// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device doctor`: what costs a card speed, and the rates that its paths reach.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use crosslane::explain::SearchProgress;
use crosslane::machine::{
    Address, DoctorError, DoctorOptions, Machine, PredictionProgress, diagnose_card,
    diagnose_machine, export,
};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::machine::{
    CardDiagnosis, Finding, MachineDiagnosis, MeasuredRate, PredictedRate,
};
use crosslane::results::quantity::{count_words, mebibytes, megabytes, percent};
use crosslane_report::Table;

use super::arguments::DoctorArguments;
use super::machine;
use crate::error::CommandError;
use crate::output;
use crate::output_file::{Kind, OutputFile};
use crate::progress::{Explaining, Progress};
use crate::terminal::shown;

/// `device doctor`.
///
/// # Errors
/// A function that does not exist, a file that cannot be written, and [`CommandError::Run`] where
/// there is a problem, after all findings.
pub fn run(arguments: &DoctorArguments) -> Result<(), CommandError> {
    let machine = machine(&arguments.output.root);
    let problems = match arguments.address {
        Some(address) => {
            let diagnosis = of_card(arguments, &machine, address)?;
            print(arguments, &diagnosis, card_page)?;
            diagnosis.problems
        }
        None => {
            let diagnosis = diagnose_machine(&machine)?;
            print(arguments, &diagnosis, machine_page)?;
            diagnosis.problems
        }
    };
    if problems > 0 { Err(CommandError::Run) } else { Ok(()) }
}

fn print<T: serde::Serialize>(
    arguments: &DoctorArguments,
    diagnosis: &T,
    page: impl Fn(&T) -> String,
) -> Result<(), CommandError> {
    match arguments.output.json {
        true => output::print_json(diagnosis),
        false => output::print(&page(diagnosis)),
    }
}

fn machine_page(diagnosis: &MachineDiagnosis) -> String {
    let mut page = format!("this machine\n{}", findings_page(&diagnosis.findings));
    let mut table = Table::headed("address | IDs | class | driver | more");
    for function in &diagnosis.candidates {
        table.row([
            function.address.clone(),
            format!("{}:{}", function.vendor, function.device),
            function.class_words.clone(),
            function.driver.clone().unwrap_or_else(|| "-".to_owned()),
            format!("crosslane device doctor {}", function.address),
        ]);
    }
    match diagnosis.candidates.len() {
        0 => page.push_str("\nThere is no function that a program may have\n"),
        _ => {
            let table = shown(&table);
            let _ = write!(page, "\nFunctions that a program may have\n\n{table}");
        }
    }
    if !diagnosis.kept.is_empty() {
        let count = count_words(diagnosis.kept.len(), "function is", "functions are");
        let _ = writeln!(page, "\n{count} the system's: `crosslane device list` has all");
    }
    page + &last_line(diagnosis.problems)
}

/// Writes the lab, if one is wanted, and examines a card and its path.
fn of_card(
    arguments: &DoctorArguments,
    machine: &Machine,
    address: Address,
) -> Result<CardDiagnosis, CommandError> {
    if arguments.peer == Some(address) {
        return Err(CommandError::Usage(format!("--peer {address}: that is the card itself")));
    }
    if let Some(path) = &arguments.to_lab {
        let tree = machine.tree()?;
        let cards = std::iter::once(address).chain(arguments.peer);
        let cards: Vec<_> = cards.map(|card| tree.function(card)).collect::<Result<_, _>>()?;
        let file = OutputFile::file(path, Kind::Lab)?;
        let exported = export(&tree, &lab_name(path), &cards, arguments.engine);
        let exported = exported.map_err(|reason| {
            CommandError::Input(format!("cannot describe {address} as a lab: {reason}"))
        })?;
        file.write(exported.text.as_bytes())?;
    }
    let options = DoctorOptions::default()
        .with_peer(arguments.peer)
        .with_engine(arguments.engine)
        .with_prediction(!arguments.no_model)
        // A machine in a folder has no cards to be opened.
        .with_measurement(!arguments.no_measure && arguments.output.root == Path::new("/"));
    let progress = DoctorProgress { runs: Progress::new(0), explaining: OnceLock::new() };
    let diagnosis = diagnose_card(machine, address, &options, &progress);
    progress.finish();
    let diagnosis = diagnosis.map_err(|error| match error {
        DoctorError::Function(error) => CommandError::Device(error),
        DoctorError::Prediction(error) => error.into(),
    })?;
    Ok(CardDiagnosis { lab: arguments.to_lab.clone(), ..diagnosis })
}

/// Progress of a prediction: the bytes of its runs, then the runs of their explanations.
struct DoctorProgress {
    runs: Progress,
    explaining: OnceLock<Explaining>,
}

impl DoctorProgress {
    fn finish(&self) {
        self.runs.finish();
        if let Some(explaining) = self.explaining.get() {
            explaining.finish();
        }
    }
}

impl crosslane::experiment::Progress for DoctorProgress {
    fn is_watched(&self) -> bool {
        self.runs.is_watched()
    }

    fn done(&self, bytes: u64, simulated: Picoseconds) {
        self.runs.done(bytes, simulated);
    }

    fn is_over(&self) -> bool {
        self.runs.is_over()
    }
}

impl PredictionProgress for DoctorProgress {
    fn begin(&self, bytes: u64) {
        self.runs.set_total(bytes);
    }

    fn explain(&self, runs: usize) {
        self.runs.finish();
        let _ = self.explaining.set(Explaining::new(runs as u64));
    }
}

impl SearchProgress for DoctorProgress {
    fn tried(&self) {
        if let Some(explaining) = self.explaining.get() {
            explaining.tried();
        }
    }

    fn explained(&self) {
        if let Some(explaining) = self.explaining.get() {
            explaining.explained();
        }
    }
}

fn card_page(diagnosis: &CardDiagnosis) -> String {
    let mut page = format!("{}\n{}", diagnosis.address, findings_page(&diagnosis.findings));
    if let Some(reason) = &diagnosis.not_predicted {
        let _ = writeln!(page, "\nNo rate is predicted: {reason}");
    }
    if !diagnosis.predicted.is_empty() {
        page.push_str("\nPredicted by the fabric model, from what was read and assumptions\n\n");
        page.push_str(&shown(&predicted_table(&diagnosis.predicted)));
    }
    if let Some(path) = &diagnosis.lab {
        let _ = writeln!(page, "\nThe lab is in {}", path.display());
    }
    if let Some(reason) = &diagnosis.not_measured {
        let _ = writeln!(page, "\nNo rate was measured: {reason}");
    } else if let Some(rates) = &diagnosis.measured {
        page.push_str(
            "\nMeasured, every byte compared: as the program sees it (app), and by the engine's \
             timers\n\n",
        );
        page.push_str(&shown(&measured_table(rates)));
    }
    page + &last_line(diagnosis.problems)
}

fn predicted_table(rates: &[PredictedRate]) -> Table {
    let mut table =
        Table::headed("what | MB/s: | MiB/s: | of ceiling: | bottleneck").least_first(&["MiB/s"]);
    for it in rates {
        let Some(rate) = it.bytes_per_second else { continue };
        let share = it.share().map_or("-".to_owned(), |share| format!("{} %", percent(share)));
        let failed = it.errors.first().or(it.deadlock.as_ref());
        let bottleneck = failed.unwrap_or(&it.bottleneck).clone();
        table.row([it.what.clone(), megabytes(rate), mebibytes(rate), share, bottleneck]);
    }
    table
}

fn measured_table(rates: &[MeasuredRate]) -> Table {
    let mut table = Table::headed("what | app MB/s: | MB/s: | MiB/s:");
    for rate in rates {
        table.row([
            rate.what.clone(),
            megabytes(rate.application_bytes_per_second),
            megabytes(rate.hardware_bytes_per_second),
            mebibytes(rate.hardware_bytes_per_second),
        ]);
    }
    table
}

/// Returns a lab's name from that of its file: letters, digits, - and _.
fn lab_name(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = stem.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect();
    if name.is_empty() { "this-machine".to_owned() } else { name }
}

fn findings_page(findings: &[Finding]) -> String {
    let mut table = Table::headed(" | what | found");
    for finding in findings {
        let word = finding.severity.word().to_owned();
        table.row([word, finding.what.clone(), finding.found.clone()]);
    }
    let mut page = shown(&table);
    let help: Vec<&Finding> = findings.iter().filter(|finding| !finding.help.is_empty()).collect();
    if !help.is_empty() {
        page.push_str("\nWhat would help\n\n");
        for finding in help {
            let _ = writeln!(page, "{}: {}", finding.what, finding.help);
        }
    }
    page
}

fn last_line(problems: usize) -> String {
    let words = match problems {
        0 => "no problems".to_owned(),
        count => count_words(count, "problem", "problems"),
    };
    format!("\n{words}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_named_after_its_file() {
        assert_eq!(lab_name(Path::new("x/my board.toml")), "my-board");
        assert_eq!(lab_name(Path::new("/")), "this-machine");
    }
}
