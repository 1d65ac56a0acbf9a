// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device doctor`: what costs a card speed, and the rates that its paths reach.

use std::path::Path;
use std::sync::OnceLock;

use crosslane::machine::{
    Address, DoctorOptions, Machine, PredictionProgress, diagnose_card, diagnose_machine, export,
};
use crosslane::pcie::units::Picoseconds;
use crosslane::results::machine::CardDiagnosis;
use crosslane_report::output::Kind;
use crosslane_report::text;

use super::arguments::DoctorArguments;
use super::machine;
use crate::error::{CommandError, Result, usage};
use crate::files::output_of;
use crate::lab_command::lab_name;
use crate::output::show;
use crate::progress::{Explaining, Progress};

/// `device doctor`.
///
/// # Errors
/// A function that does not exist, a file that cannot be written, and [`CommandError::Run`] where
/// there is a problem, after all findings.
pub fn run(arguments: &DoctorArguments) -> Result<()> {
    let machine = machine(&arguments.output.root);
    let is_json = arguments.output.json;
    let problems = match arguments.address {
        Some(address) => {
            let diagnosis = of_card(arguments, &machine, address)?;
            show(is_json, &diagnosis, |columns| text::card_diagnosis(&diagnosis, columns))?;
            diagnosis.problems
        }
        None => {
            let diagnosis = diagnose_machine(&machine)?;
            show(is_json, &diagnosis, |columns| text::machine_diagnosis(&diagnosis, columns))?;
            diagnosis.problems
        }
    };
    if problems > 0 { Err(CommandError::Run) } else { Ok(()) }
}

/// Writes the lab, if one is wanted, and examines a card and its path.
fn of_card(
    arguments: &DoctorArguments,
    machine: &Machine,
    address: Address,
) -> Result<CardDiagnosis> {
    if arguments.peer == Some(address) {
        return Err(usage(format!("--peer {address}: that is the card itself")));
    }
    if let Some(path) = &arguments.to_lab {
        let tree = machine.tree()?;
        let cards = std::iter::once(address).chain(arguments.peer);
        let cards: Vec<_> = cards.map(|card| tree.function(card)).collect::<Result<_, _>>()?;
        let file = output_of(path, Kind::Lab)?;
        let exported = export(&tree, &lab_name(path), &cards, arguments.engine);
        let exported = exported.map_err(|reason| {
            CommandError::Failed(format!("cannot describe {address} as a lab: {reason}"))
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
    Ok(CardDiagnosis { lab: arguments.to_lab.clone(), ..diagnosis? })
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
    fn is_due(&self) -> bool {
        self.runs.is_due()
    }

    fn moved(&self, bytes: u64, simulated: Picoseconds) {
        self.runs.moved(bytes, simulated);
    }

    fn is_over(&self) -> bool {
        self.runs.is_over()
    }

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

impl PredictionProgress for DoctorProgress {
    fn begin(&self, bytes: u64) {
        self.runs.set_total(bytes);
    }

    fn explain(&self, runs: usize) {
        self.runs.finish();
        let _ = self.explaining.set(Explaining::new(runs as u64));
    }
}
