// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of a card's paths: predicted by a lab made from the machine's registers, and measured, if
//! this program may open the card and it has this project's engine.

use std::sync::Arc;
use std::time::Duration;

use crosslane_driver::DescriptorSource;
use crosslane_experiment::parallel;
use crosslane_experiment::{
    Choices, FlowRequest, Options, Scenario, TrafficOutcome, TrafficWork, read, write,
};
use crosslane_explain::{ExplainError, Ran, Why, explain_all};
use crosslane_fabric::FlowKind;
use crosslane_host::kinds;
use crosslane_lab::Lab;
use crosslane_open::{DeviceName, Session, SessionOptions};
use crosslane_results::Step;
use crosslane_results::machine::{MeasuredRate, PredictedRate};
use crosslane_vfio::sysfs::{PciFunction, Tree, why_unavailable};
use thiserror::Error;

use super::{Exported, HOST, export};

/// Most bytes of one operation.
const OPERATION_BYTES: u64 = 1 << 20;
/// Bytes that the run of each path moves.
const PREDICTED_BYTES: u64 = 16 << 20;
/// Smallest BAR for which a rate can be predicted.
const LEAST_ROOM_BYTES: u64 = 4096;
/// Operations in flight.
const OUTSTANDING: u32 = 4;
/// Name of the lab.
const LAB: &str = "this-machine";

/// Receiver of a prediction's progress, called by several threads.
pub trait PredictionProgress: crosslane_lab::Progress {
    /// Reports the start of runs that move this many bytes together.
    fn begin(&self, _bytes: u64) {}

    /// Reports the end of the runs; this many are explained next.
    fn explain(&self, _runs: usize) {}
}

impl PredictionProgress for () {}

/// Reason for which no rate can be predicted.
#[derive(Debug, Error)]
pub enum PredictionError {
    /// The card cannot be described as a lab; the sentence says why.
    #[error("{0}")]
    Unsupported(String),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] ExplainError),
}

kinds!(PredictionError {
    Self::Unsupported(_) => Unsupported,
    Self::Run(error) => error.kind(),
});

/// Predicts the rates of writes to host memory, reads of it, and writes to a peer. `has_engine`
/// says whether the cards have this project's engine.
///
/// # Errors
/// A card that cannot be described as a lab, and a run that fails.
pub fn predict(
    tree: &Tree,
    card: &PciFunction,
    peer: Option<&PciFunction>,
    has_engine: bool,
    progress: &impl PredictionProgress,
) -> Result<Vec<PredictedRate>, PredictionError> {
    let cards: Vec<&PciFunction> = std::iter::once(card).chain(peer).collect();
    let export = |cards| export(tree, LAB, cards, has_engine).map_err(PredictionError::Unsupported);
    let both = export(&cards)?;
    // A lab has one common payload, and the peer's may be less than the card's own.
    let alone = export(&[card])?;
    Ok(run(&paths(&alone, &both, card, peer), progress)?)
}

/// A path to be predicted.
struct Path<'a> {
    what: String,
    lab: &'a Exported,
    from: &'a str,
    to: &'a str,
    kind: FlowKind,
    operation_bytes: u64,
}

/// Lists the paths to host memory, in the lab of the card alone, and to a peer with a large enough
/// BAR.
fn paths<'a>(
    alone: &'a Exported,
    both: &'a Exported,
    card: &PciFunction,
    peer: Option<&PciFunction>,
) -> Vec<Path<'a>> {
    let to_host = |what: &str, kind| Path {
        what: what.to_owned(),
        lab: alone,
        from: alone.name(card.address),
        to: HOST,
        kind,
        operation_bytes: OPERATION_BYTES,
    };
    let mut paths = vec![
        to_host("writes to host memory", FlowKind::Write),
        to_host("reads of host memory", FlowKind::Read),
    ];
    // All operations in flight need room behind the peer's largest BAR.
    let room = peer.and_then(|peer| peer.bars.iter().map(|bar| bar.size_bytes).max());
    if let (Some(peer), Some(room)) = (peer, room.filter(|&room| room >= LEAST_ROOM_BYTES)) {
        paths.push(Path {
            what: format!("writes to {}", peer.address),
            lab: both,
            from: both.name(card.address),
            to: both.name(peer.address),
            kind: FlowKind::Write,
            operation_bytes: (room / u64::from(OUTSTANDING)).min(OPERATION_BYTES),
        });
    }
    paths
}

impl Path<'_> {
    fn run(&self) -> Result<Scenario<TrafficWork>, ExplainError> {
        let lab = Arc::new(Lab::from_text("this machine", &self.lab.text)?);
        let request = FlowRequest::new(self.from, self.to, self.kind, self.operation_bytes)
            .with_label(&self.what);
        let choices = Choices::default()
            .with_operations(PREDICTED_BYTES / self.operation_bytes)
            .with_outstanding(OUTSTANDING);
        let work = TrafficWork { flows: vec![request], choices, shuffle: false };
        Ok(Scenario::new(lab, work))
    }
}

fn run(
    paths: &[Path<'_>],
    progress: &impl PredictionProgress,
) -> Result<Vec<PredictedRate>, ExplainError> {
    let runs: Vec<Scenario<TrafficWork>> = paths.iter().map(Path::run).collect::<Result<_, _>>()?;
    progress.begin(PREDICTED_BYTES * runs.len() as u64);
    let outcomes = parallel::try_map(&runs, |run| run.run(progress, None))?;
    progress.explain(runs.len());
    let ran: Vec<Ran> = outcomes.iter().map(Ran::of).collect();
    let whys = explain_all(&runs, &ran, false, progress);
    let rates = paths.iter().zip(&outcomes).zip(whys);
    Ok(rates.map(|((path, outcome), why)| predicted(path, outcome, why)).collect())
}

fn predicted(path: &Path<'_>, outcome: &TrafficOutcome, why: Why) -> PredictedRate {
    let flow = outcome.flows.first();
    let ceiling = flow.and_then(|flow| flow.ceiling.as_ref());
    let why = why.unwrap_or_else(|| Err("interrupted".to_owned()));
    let bottleneck = match &why {
        Ok(explanation) => explanation.steps.first().map_or("none was found".to_owned(), limits),
        Err(reason) => format!("not known: {reason}"),
    };
    PredictedRate {
        what: path.what.clone(),
        bytes_per_second: flow.map(|flow| flow.report.bytes_per_second()),
        ceiling_bytes_per_second: ceiling.map(|it| it.less_dllps_bytes_per_second),
        bottleneck,
        errors: outcome.errors.clone(),
        deadlock: outcome.deadlock.clone(),
        why: why.ok(),
    }
}

fn limits(step: &Step) -> String {
    let words: Vec<&str> = step.limits.iter().map(|limit| limit.words.as_str()).collect();
    words.join(" and ")
}

/// Transfers in each direction, all posted at once, so that the engine never waits while data are
/// compared.
const TRANSFERS: u32 = 16;

/// Measures both directions between the card and host memory; every byte is compared.
///
/// # Errors
/// The reason for which nothing can be measured, a sentence.
pub fn measure(card: &PciFunction) -> Result<Vec<MeasuredRate>, String> {
    if !card.is_bound_to_vfio() {
        let address = card.address;
        return Err(match why_unavailable(card) {
            Some(why) => format!("no program may open it: {why}"),
            None => format!(
                "no program may open it; `sudo crosslane device bind {address}` permits that"
            ),
        });
    }
    let name = DeviceName::Vfio(card.address);
    let said = |error: &dyn std::error::Error| error.to_string();
    let session = Session::open_all(&[name], SessionOptions::default());
    let session = session.map_err(|error| said(&error))?;
    let options = Options::default()
        .with_size_bytes(1 << 20)
        .with_iterations(TRANSFERS.into())
        .with_outstanding(TRANSFERS)
        .with_descriptors(DescriptorSource::Ring { entries: 4096 })
        .with_timeout(Duration::from_secs(10));
    let measuring = session.block_on(async {
        let device = session.device(0).await.map_err(|error| said(&error))?;
        let mut rates = Vec::new();
        for (what, measured) in [
            ("writes to host memory", write(&device, &options).await),
            ("reads of host memory", read(&device, &options).await),
        ] {
            let measured = measured.map_err(|error| said(&error))?;
            if measured.data_errors.words > 0 {
                let words = measured.data_errors.words;
                return Err(format!("{what}: {words} words of 4 B are not what was sent"));
            }
            rates.push(MeasuredRate {
                what: what.to_owned(),
                application_bytes_per_second: measured.application_bytes_per_second(),
                hardware_bytes_per_second: measured.hardware_bytes_per_second(),
            });
        }
        Ok(rates)
    });
    measuring.map_err(|error| said(&error))?
}
