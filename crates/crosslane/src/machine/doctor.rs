// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The doctor: whether a machine is ready for cards, what slows a card down, and the rates of its
//! paths.

use crosslane_explain::ExplainError;
use crosslane_host::{kinds, setters};
use crosslane_results::machine::{Candidate, CardDiagnosis, MachineDiagnosis, problems};
use crosslane_vfio::sysfs::{Address, Machine, PciFunction, SysfsError, why_kept};
use smart_default::SmartDefault;
use thiserror::Error;

use super::describe::functions;
use super::findings::{examine_card, examine_machine};
use super::rates::{PredictionError, PredictionProgress, measure, predict};

/// Options of the doctor's examination of a card.
#[derive(Clone, Copy, Debug, SmartDefault)]
#[non_exhaustive]
pub struct DoctorOptions {
    /// Another card, to examine the path between the two.
    pub peer: Option<Address>,
    /// Whether the cards have this project's engine, which predictions then model.
    pub has_engine: bool,
    /// Whether to predict rates.
    #[default(true)]
    pub predicts: bool,
    /// Whether to measure rates, if the card is bound to vfio-pci and has this project's engine.
    pub measures: bool,
}

setters!(DoctorOptions {
    with_peer(peer: Option<Address>),
    with_engine(has_engine: bool),
    with_prediction(predicts: bool),
    with_measurement(measures: bool),
});

/// Reason for which a machine or a card cannot be examined.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// The function does not exist, or the machine has no PCI bus.
    #[error(transparent)]
    Function(#[from] SysfsError),
    /// The run of a prediction failed.
    #[error(transparent)]
    Prediction(#[from] ExplainError),
}

kinds!(DoctorError {
    Self::Function(error) => error.kind(),
    Self::Prediction(error) => error.kind(),
});

/// Examines whether a machine is ready for cards, and lists the functions that a program may use.
///
/// # Errors
/// A machine without a PCI bus.
pub fn diagnose_machine(machine: &Machine) -> Result<MachineDiagnosis, SysfsError> {
    let tree = machine.tree()?;
    let findings = examine_machine(machine);
    let functions = functions(&tree, false).filter(|function| !function.kind.is_bridge());
    let (kept, candidates): (Vec<&PciFunction>, Vec<&PciFunction>) =
        functions.partition(|function| why_kept(function).is_some());
    let candidate = |function: &&PciFunction| Candidate {
        address: function.address.to_string(),
        vendor: format!("{:04x}", function.vendor),
        device: format!("{:04x}", function.device),
        class_words: function.class_words().to_owned(),
        driver: function.driver.clone(),
    };
    Ok(MachineDiagnosis {
        problems: problems(&findings),
        findings,
        candidates: candidates.iter().map(candidate).collect(),
        kept: kept.iter().map(|function| function.address.to_string()).collect(),
    })
}

/// Examines a card and its path to memory, predicts the rates of that path, and measures them.
///
/// # Errors
/// A card or a peer that does not exist, and a prediction that fails.
pub fn diagnose_card(
    machine: &Machine,
    card: Address,
    options: &DoctorOptions,
    progress: &impl PredictionProgress,
) -> Result<CardDiagnosis, DoctorError> {
    let tree = machine.tree()?;
    let card = tree.function(card)?;
    let peer = options.peer.map(|peer| tree.function(peer)).transpose()?;
    let findings = examine_card(machine, &tree, card, peer);
    let predicted =
        options.predicts.then(|| predict(&tree, card, peer, options.has_engine, progress));
    let (predicted, not_predicted) = match predicted {
        Some(Ok(rates)) => (rates, None),
        Some(Err(PredictionError::Unsupported(reason))) => (Vec::new(), Some(reason)),
        Some(Err(PredictionError::Run(error))) => return Err(error.into()),
        None => (Vec::new(), None),
    };
    let measured = options.measures.then(|| measure(card));
    let (measured, not_measured) = match measured {
        Some(Err(reason)) => (Some(Vec::new()), Some(reason)),
        Some(Ok(rates)) => (Some(rates), None),
        None => (None, None),
    };
    Ok(CardDiagnosis {
        address: card.address.to_string(),
        problems: problems(&findings),
        findings,
        predicted,
        not_predicted,
        measured,
        not_measured,
        lab: None,
    })
}
