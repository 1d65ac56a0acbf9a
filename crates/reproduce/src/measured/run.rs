// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the measurement of a row in a lab.

use std::sync::Arc;
use std::{mem, slice};

use crosslane_driver::DescriptorSource;
use crosslane_experiment::{
    Choices, EngineWork, ExperimentError, FlowEnds, FlowRequest, Options, Outcome, Scenario,
    TrafficWork, Workload, default_in_flight, default_operations,
};
use crosslane_fabric::{Flow, FlowKind, FlowReport};
use crosslane_lab::{CheckedFlows, Lab, RunningLab};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Latencies;

use super::{MeasuredFlow, MeasuredRow, Measurements, Mover, Quantity};
use crate::error::{ReproduceError, Result};
use crate::study::Effort;

/// The seed of the runs; it affects only jitter.
const SEED: u64 = 1;
/// Name of the host of a lab that has only one.
const ONLY_HOST: &str = "host";
/// Most operations of a latency, of which one is made at a time: an odd number, which has a median.
const LATENCIES: u64 = 501;
/// Most operations of a rate, which does not count the start; there are four at least for each one
/// in flight.
const OPERATIONS: u64 = 4000;
/// Fewest operations of a run.
const LEAST_OPERATIONS: u64 = 5;

impl Measurements {
    /// Looks up the flows of all rows in a lab.
    ///
    /// # Errors
    /// A lab that cannot be built, and the first row with an impossible flow.
    pub fn check(&self, lab: &Lab) -> Result<()> {
        let lab = Arc::new(lab.clone());
        let running = lab.build(SEED)?;
        self.rows.iter().try_for_each(|row| row.run(&lab, &running, Effort::Full).map(|_| ()))
    }
}

/// A run of a row.
enum Run {
    /// Of generic requesters, at once.
    Requesters(Vec<Flow>),
    /// Of an engine.
    Engine(Box<Scenario<EngineWork>>),
}

impl MeasuredRow {
    /// Makes the measurement in a lab; returns it in the row's unit.
    ///
    /// # Errors
    /// A lab that cannot be built, an impossible flow, and a run in which anything goes wrong.
    pub fn simulate(&self, lab: &Arc<Lab>, effort: Effort) -> Result<f64> {
        let running = lab.build(SEED)?;
        let figure = match self.run(lab, &running, effort)? {
            Run::Requesters(flows) => requesters_figure(running, flows, self.unit.quantity),
            Run::Engine(scenario) => engine_figure(&scenario, self.unit.quantity),
        };
        let figure = figure.and_then(|figure| match figure.is_finite() && figure > 0.0 {
            true => Ok(figure / self.unit.scale),
            false => Err("nothing was moved in it".to_owned()),
        });
        figure.map_err(|problem| {
            let run = format!("{}, row {}, {}", self.file, self.number, self.label());
            ReproduceError::experiment(run, problem)
        })
    }

    /// Returns the error of an impossible flow, at the flow of the row.
    fn refused(&self, error: ExperimentError) -> ReproduceError {
        let problem = match error {
            ExperimentError::Lab(error) => return ReproduceError::Lab(error),
            ExperimentError::Refused { problem, .. }
            | ExperimentError::Forbidden { problem, .. } => problem,
            other => other.to_string(),
        };
        self.fault("flow", problem)
    }

    fn fault(&self, column: &'static str, problem: String) -> ReproduceError {
        ReproduceError::Field { file: self.file.clone(), line: self.line, column, problem }
    }

    fn operations(&self, effort: Effort, outstanding: u64) -> u64 {
        let by_size = default_operations(self.bytes);
        match (self.unit.quantity, effort) {
            (Quantity::Latency, Effort::Full) => by_size.min(LATENCIES),
            (Quantity::Latency, Effort::Quick) => by_size.min(LATENCIES / 5),
            (Quantity::Rate, Effort::Full) => by_size.min(OPERATIONS).max(4 * outstanding),
            (Quantity::Rate, Effort::Quick) => (by_size.min(OPERATIONS) / 4).max(4 * outstanding),
        }
        .max(LEAST_OPERATIONS)
    }

    /// Looks the flow up in a lab that was built, and returns its run.
    fn run(&self, lab: &Arc<Lab>, running: &RunningLab, effort: Effort) -> Result<Run> {
        let latency = (self.unit.quantity == Quantity::Latency).then_some(1);
        let outstanding = self.outstanding.or(latency);
        let in_flight = outstanding.map_or_else(|| default_in_flight(self.bytes), u64::from);
        let operations = self.operations(effort, in_flight);
        let kinds: &[FlowKind] = match &self.flow.mover {
            Mover::Requester(kind) => slice::from_ref(kind),
            Mover::Both if latency.is_some() => {
                let problem = "a read and a write at once have a rate, and no latency of their own";
                return Err(self.fault("flow", problem.to_owned()));
            }
            Mover::Both => &[FlowKind::Read, FlowKind::Write],
            _ => return self.engine_run(lab, running, (operations, outstanding)),
        };
        let MeasuredFlow { from, to, .. } = &self.flow;
        let choices = Choices::default()
            .with_operations(operations)
            .with_outstanding(outstanding)
            .with_window_bytes(self.window_bytes);
        let flows =
            kinds.iter().map(|kind| FlowRequest::new(from, to, *kind, self.bytes)).collect();
        let work = TrafficWork { flows, choices, ..TrafficWork::default() };
        let planned = Scenario::new(Arc::clone(lab), work).plan(running);
        let planned = planned.map_err(|error| self.refused(error))?;
        Ok(Run::Requesters(planned.into_iter().map(|planned| planned.flow).collect()))
    }

    /// Returns the run of an engine, of so many transfers, so many of them in flight.
    fn engine_run(
        &self,
        lab: &Arc<Lab>,
        running: &RunningLab,
        (transfers, outstanding): (u64, Option<u32>),
    ) -> Result<Run> {
        if self.window_bytes.is_some() {
            let problem = "an engine's transfers have buffers of their own";
            return Err(self.fault("window", problem.to_owned()));
        }
        if !self.bytes.is_multiple_of(4) {
            let problem = "not a multiple of 4 B, an engine's word";
            return Err(self.fault("size", format!("{} B is {problem}", self.bytes)));
        }
        let ends = self.ends(lab, running)?;
        let mut cards = lab.file().endpoints.iter();
        let card = cards.find(|card| card.name == ends.cards[0].name);
        let engine = card.and_then(|card| card.part.engine.as_ref());
        let has_memory = engine.is_some_and(|engine| engine.card_memory.is_some());
        let workload = match (self.flow.mover, has_memory) {
            (Mover::ToHost, false) => Workload::Write,
            (Mover::ToHost, true) => Workload::FromCard,
            (Mover::FromHost, false) => Workload::Read,
            (Mover::FromHost, true) => Workload::ToCard,
            _ => Workload::Peer,
        };
        let options = Options::default()
            .with_size_bytes(self.bytes)
            .with_descriptors(DescriptorSource::Ring { entries: 0 })
            .suited(Some(transfers), outstanding, 1);
        let work = EngineWork { workload: workload(options), flows: vec![ends] };
        let scenario = Scenario::new(Arc::clone(lab), work).with_seed(SEED);
        Ok(Run::Engine(Box::new(scenario)))
    }

    /// Looks up the cards of an engine's flow, and the host at its other end.
    fn ends(&self, lab: &Lab, running: &RunningLab) -> Result<FlowEnds> {
        let (from, to) = (self.flow.from.as_str(), self.flow.to.as_str());
        let (cards, host) = match self.flow.mover {
            Mover::ToHost => (vec![from], Some(to)),
            Mover::FromHost => (vec![to], Some(from)),
            _ => (vec![from, to], None),
        };
        if from == to {
            return Err(self.fault("flow", format!("{from} cannot move data to itself")));
        }
        let ends = FlowEnds::find(lab, running, &cards).map_err(|error| self.refused(error))?;
        let Some(host) = host else { return Ok(ends) };
        let is_only = host == ONLY_HOST && running.hosts.len() == 1;
        match host == ends.memory.name || is_only {
            true => Ok(ends),
            false => {
                let (card, own) = (cards[0], &ends.memory.name);
                Err(self.fault("flow", format!("{card} is in the tree of {own}, not of {host}")))
            }
        }
    }
}

/// Runs flows at once. Returns the payload of all per second, from the first operation's end to the
/// last one's, or the median latency of the only one in seconds; else what went wrong.
fn requesters_figure(
    mut running: RunningLab,
    flows: Vec<Flow>,
    quantity: Quantity,
) -> Result<f64, String> {
    let fabric = &mut running.fabric;
    let started = flows.into_iter().map(|flow| fabric.start_flow(flow));
    let started: Vec<_> = started.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    CheckedFlows::new(fabric).run().map_err(|error| error.to_string())?;
    let mut reports: Vec<_> = started.into_iter().map(|flow| fabric.flow_report(flow)).collect();
    if let Some(failed) = reports.iter_mut().find(|report| report.failed > 0) {
        return Err(mem::take(&mut failed.errors).into_iter().next().unwrap_or_default());
    }
    if let (Quantity::Latency, [report]) = (quantity, &mut *reports) {
        let latencies = Latencies::of(mem::take(&mut report.latencies_ps));
        return Ok(Picoseconds(latencies.typical_ps).as_seconds());
    }
    // Flows at once have as many operations each: the first one of each fills the pipe.
    let span = |report: &FlowReport| (report.first_done, report.last_done);
    let both = |one: (Picoseconds, Picoseconds), other: (Picoseconds, Picoseconds)| {
        (one.0.min(other.0), one.1.max(other.1))
    };
    let (first_done, last_done) = reports.iter().map(span).reduce(both).unwrap_or_default();
    let steady = |report: &FlowReport| report.bytes - report.bytes / report.operations.max(1);
    let bytes: u64 = reports.iter().map(steady).sum();
    match last_done.since(first_done).as_seconds() {
        span if span > 0.0 && bytes > 0 => Ok(bytes as f64 / span),
        _ => Ok(reports.iter().map(FlowReport::bytes_per_second).sum()),
    }
}

/// Runs an engine's transfers. Returns the same as the application sees it.
fn engine_figure(scenario: &Scenario<EngineWork>, quantity: Quantity) -> Result<f64, String> {
    let outcome = scenario.run(&(), None).map_err(|error| error.to_string())?;
    if let Some(error) = outcome.result().errors.into_iter().next().or(outcome.wrong_data()) {
        return Err(error);
    }
    let measured = &outcome.flows[0].measured;
    Ok(match quantity {
        Quantity::Latency => Picoseconds(measured.statistics().typical_ps).as_seconds(),
        Quantity::Rate => measured.application_bytes_per_second(),
    })
}
