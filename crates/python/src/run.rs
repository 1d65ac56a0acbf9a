// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in a lab, with the results of the command line: their JSON is the same.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crosslane::bench::{How, Traffic, Transfers, run};
use crosslane::experiment::{ExperimentError, OverheadOptions, Scenario, overhead as measure};
use crosslane::explain::Explainable;
use crosslane::lab::{EngineKind, Lab};
use crosslane::network::MachineClock;
use crosslane::open::{Session, SessionOptions};
use crosslane::results::{Outcome, Overhead as Overheads, SCHEMA};
use crosslane_report::text::{Columns, Notes, text};

use crate::call::{Watch, until_signal};
use crate::error::Failure;
use crate::lab::json;

/// Most round trips, as on the command line.
const MAX_ROUNDS: u64 = 1_000_000;

/// The lab in which runs are made, and the watch that may end them.
pub struct Place<'a> {
    /// The lab.
    pub lab: &'a Arc<Lab>,
    /// Kind of its engines.
    pub engine: EngineKind,
    /// Tells of a signal.
    pub watch: &'a Watch,
}

/// Runs that were made, as JSON.
pub struct Made {
    /// The outcome, as the program prints it.
    pub outcome: String,
    /// The figure of each run: the rate of all flows together, or the latency one way.
    pub figures: String,
}

/// Options of single accesses.
pub struct Overhead {
    /// The endpoint.
    pub card: Option<String>,
    /// Register accesses, and small transfers.
    pub rounds: u64,
    /// Bytes of a large transfer.
    pub large: u64,
}

/// Makes flows.
pub fn traffic(
    place: &Place<'_>,
    traffic: &Traffic,
    seed: u64,
    why: bool,
) -> Result<Made, Failure> {
    made(place, "traffic", traffic.scenarios(place.lab, seed)?, seed, why)
}

/// Makes transfers by the driver.
pub fn bench(place: &Place<'_>, bench: &Transfers, seed: u64, why: bool) -> Result<Made, Failure> {
    made(place, &bench.bench, bench.scenarios(place.lab, seed)?, seed, why)
}

/// Rejects a number that the command line rejects.
fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), Failure> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Failure::argument(format!("{name} {value}: it is from {least} to {most}")))
}

/// Makes runs, searches for their limits, and returns the outcome as JSON.
fn made<W: Explainable>(
    place: &Place<'_>,
    bench: &str,
    scenarios: Vec<Scenario<W>>,
    seed: u64,
    why: bool,
) -> Result<Made, Failure> {
    let (engine, progress, trace) = (place.engine, place.watch, None);
    let how = How { bench, engine, seed, why, progress, trace };
    let made = run(place.lab, scenarios, &how)?;
    match made.problem {
        Some(problem) => Err(ExperimentError::failed(problem).into()),
        None => Ok(Made { outcome: json(&made.outcome)?, figures: json(&made.figures)? }),
    }
}

/// Measures single accesses and transfers.
pub fn overhead(place: &Place<'_>, overhead: &Overhead, seed: u64) -> Result<Made, Failure> {
    let (name, bytes) = (place.lab.name(), overhead.large);
    within("rounds", overhead.rounds, 1..=MAX_ROUNDS)?;
    within("large", bytes, 4..=1 << 30)?;
    if !bytes.is_multiple_of(4) {
        return Err(Failure::argument(format!("large {bytes}: it is a multiple of 4 B")));
    }
    let opening = SessionOptions::default().with_seed(seed);
    let session = Session::open_in(place.lab, name, &[overhead.card.as_deref()], opening)?;
    let options = OverheadOptions::default()
        .with_rounds(overhead.rounds)
        .with_large_bytes(bytes)
        .with_seed(seed as u32);
    let rows = session.block_on(until_signal(async {
        let device = session.device(0).await?;
        measure(&device, &MachineClock::new(), &options).await
    }))??;
    session.finish()?;
    let variant = place.lab.variant().map_or_else(String::new, |name| format!(":{name}"));
    let card = &session.cards()[0].name;
    let outcome = json(&Overheads {
        schema: SCHEMA,
        bench: "overhead".to_owned(),
        device: format!("lab:{name}{variant}/{card}"),
        seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
    })?;
    Ok(Made { outcome, figures: json(&[(); 0])? })
}

/// Formats an outcome, JSON, as the program prints it.
pub fn as_text(outcome: &str) -> Result<String, Failure> {
    let outcome = Outcome::parse(outcome).map_err(Failure::argument)?;
    // A terminal's styles are no part of a string.
    let styled = text(&outcome, Notes::default(), Columns::default());
    Ok(anstream::adapter::strip_str(&styled).to_string())
}
