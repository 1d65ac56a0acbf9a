// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in a lab: any [`Work`], with the limits and checks that every run gets.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::{self, TraceRecord, TraceSink};
use crosslane_host::lock;
use crosslane_lab::parts::Carrier;
use crosslane_lab::{
    CheckedRun, Division, Ending, Lab, LabError, LabFile, Part, Progress, Stuck, WhyStuck,
};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Account, Figure};

use crate::error::{ExperimentError, Result};

/// A run of some work in a lab.
#[derive(Clone, Debug)]
pub struct Scenario<W> {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The work: [`EngineWork`](crate::EngineWork), [`TrafficWork`](crate::TrafficWork),
    /// [`StoreWork`](crate::StoreWork), [`GetWork`](crate::GetWork),
    /// [`HaloOptions`](crate::HaloOptions), [`SoakOptions`](crate::SoakOptions) or
    /// [`BridgeWork`](crate::BridgeWork).
    pub work: W,
    /// Random seed.
    pub seed: u64,
    /// Max_Payload_Size to be set first on the paths of flows, bytes.
    pub max_payload_bytes: Option<u32>,
    /// A diagnosis: Acks and UpdateFCs take no time on the wires.
    pub dllps_free: bool,
    /// The processes that simulate the lab together with this one: of
    /// [`HaloOptions`](crate::HaloOptions), all other work ignores them.
    pub carrier: Option<Arc<dyn Carrier>>,
}

/// Makes the sink of the records of a part, or of the whole lab, from the one behind it.
pub(crate) type PartSink<'a> =
    dyn Fn(Option<&Part>, Option<Box<dyn TraceSink>>) -> Option<Box<dyn TraceSink>> + Sync + 'a;

/// Work of a scenario.
pub trait Work: Clone + Send + Sync {
    /// Outcome of the work.
    type Outcome: Outcome + Send + Sync;

    /// Returns its name in progress and errors.
    fn name(&self, lab: &Lab) -> String;

    /// Makes a run, as [`Scenario::run`].
    ///
    /// # Errors
    /// As [`Scenario::run`].
    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<Self::Outcome>;

    /// Makes a run for its figure, as [`Scenario::figure`].
    ///
    /// # Errors
    /// As [`Scenario::figure`].
    fn figure(scenario: &Scenario<Self>) -> Result<Figure> {
        let outcome = scenario.run(&(), None)?;
        match outcome.wrong_data() {
            Some(wrong) => Err(ExperimentError::failed(wrong)),
            None => outcome.figure().ok_or_else(|| ExperimentError::failed("it has no figure")),
        }
    }
}

/// Outcome of a scenario.
pub trait Outcome {
    /// Returns the outcome as plain data, without an explanation.
    fn result(&self) -> crosslane_results::ScenarioResult;

    /// Returns the figure, as [`Scenario::figure`] has it; none of a run that failed.
    fn figure(&self) -> Option<Figure>;

    /// Returns the simulated time that it took.
    fn simulated(&self) -> Picoseconds;

    /// Returns a sentence about data that arrived wrong, if any did.
    fn wrong_data(&self) -> Option<String>;

    /// Returns whether anything went wrong in the run.
    fn has_errors(&self) -> bool {
        self.wrong_data().is_some()
    }

    /// Formats lines about a single run, for people who want to know all.
    fn details(&self) -> String {
        String::new()
    }

    /// Returns the account of the busiest direction, if there is one.
    fn account(&self) -> Option<&Account> {
        None
    }

    /// Returns a sentence about a deadlock, if the run ended in one.
    fn deadlock(&self) -> Option<&str> {
        None
    }
}

impl<W: Work> Scenario<W> {
    /// A run with seed 1, in which no port is set to another payload first.
    pub const fn new(lab: Arc<Lab>, work: W) -> Self {
        let (max_payload_bytes, carrier) = (None, None);
        Self { lab, work, seed: 1, max_payload_bytes, dllps_free: false, carrier }
    }

    /// Returns the name of the run in progress and errors.
    pub fn name(&self) -> String {
        self.work.name(&self.lab)
    }

    /// Sets the random seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Simulates one part of the lab, and the other processes the others.
    #[must_use]
    pub fn with_carrier(self, carrier: Option<Arc<dyn Carrier>>) -> Self {
        Self { carrier, ..self }
    }

    /// Returns the same run in the lab changed by `edit`, as [`Lab::edited`].
    ///
    /// # Errors
    /// As [`Lab::edited`].
    pub fn edited(&self, edit: impl FnOnce(&mut LabFile)) -> Result<Self, LabError> {
        Ok(Self { lab: Arc::new(self.lab.edited(edit)?), ..self.clone() })
    }

    /// Makes the run; `trace` gets the events in it.
    ///
    /// # Errors
    /// A lab that cannot be built, an impossible request, and an interruption by `progress`. Errors
    /// in the run of engines or generic requesters are part of the outcome.
    pub fn run(
        &self,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<W::Outcome> {
        W::run(self, progress, trace)
    }

    /// Makes the run and returns its figure alone: the rate of all flows together as the
    /// application sees it, from the first post to the last completion, or the typical latency one
    /// way.
    ///
    /// # Errors
    /// As [`run`](Self::run), and anything that goes wrong in the run.
    pub fn figure(&self) -> Result<Figure> {
        W::figure(self)
    }

    /// Builds the lab with its engines.
    pub(crate) fn begin(&self, trace: Option<Box<dyn TraceSink>>) -> Result<CheckedRun> {
        let run = CheckedRun::new(&self.lab, self.seed)?;
        self.set_up(&run, trace);
        Ok(run)
    }

    pub(crate) fn set_up(&self, run: &CheckedRun, trace: Option<Box<dyn TraceSink>>) {
        run.simulation().with_fabric(|fabric| {
            fabric.set_dllps_free(self.dllps_free);
            if let Some(trace) = trace {
                fabric.set_trace(trace);
            }
        });
    }

    /// Runs a program in each part of the divided lab, each in a thread, up to a simulated time.
    /// Makes anything that goes wrong an error. The trace comes at the end, sorted
    /// ([`trace::sort`]); `hashed` may put a sink before the one of each part. Also returns the
    /// time at which the last program ended.
    pub(crate) fn execute_parts<T: Send>(
        &self,
        division: &Division,
        limit: Picoseconds,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
        hashed: &PartSink<'_>,
        program: impl Fn(&Part, &CheckedRun) -> Ending<T, ExperimentError> + Sync,
    ) -> Result<(Vec<T>, Picoseconds)> {
        let records = trace.as_ref().map(|_| Arc::new(Mutex::new(Vec::new())));
        let ending = division.run(self.seed, progress, |part, run| {
            let sink = records.clone().map(|records| collector(part, records));
            let run = run.with_limit(limit);
            self.set_up(&run, hashed(Some(part), sink));
            let ending = program(part, &run);
            run.simulation().with_fabric(|fabric| drop(fabric.take_trace()));
            ending
        })?;
        if let (Some(records), Some(mut trace)) = (records, trace) {
            let mut records = lock(&records);
            trace::sort(&mut records);
            records.iter().for_each(|record| trace.record(record));
        }
        let name = self.name();
        match &ending.program {
            Ok(Err(ExperimentError::Interrupted)) | Err(Stuck { why: WhyStuck::Ended, .. }) => {
                Err(ExperimentError::Interrupted)
            }
            _ => well(ending, &name),
        }
    }
}

/// Returns a sink that adds a part's records to those of the whole lab.
fn collector(part: &Part, records: Arc<Mutex<Vec<TraceRecord>>>) -> Box<dyn TraceSink> {
    let part = part.clone();
    let mut kept = Kept { records, own: Vec::new() };
    Box::new(move |record: &TraceRecord| {
        let link = part.whole_link(record.direction.link);
        let direction = DirectionId { link, ..record.direction };
        kept.own.push(TraceRecord { direction, ..*record });
    })
}

/// Records of a part, which join those of the whole lab when its trace ends.
struct Kept {
    records: Arc<Mutex<Vec<TraceRecord>>>,
    own: Vec<TraceRecord>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        lock(&self.records).append(&mut self.own);
    }
}

/// Does work, unless it has to end before its time; that is asked whenever the work has got on.
pub async fn unless_over<T>(
    work: impl Future<Output = T>,
    is_over: impl Fn() -> bool,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if is_over() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Runs the host's program to its end, and ends the trace; errors are left to the caller.
pub(crate) fn execute<T>(
    run: &CheckedRun,
    name: &str,
    progress: &dyn Progress,
    program: impl Future<Output = Result<T>>,
) -> Result<Ending<T, ExperimentError>> {
    let ending = run.run_to_errors(name, async {
        let done = unless_over(program, || progress.is_over()).await;
        done.unwrap_or(Err(ExperimentError::Interrupted))
    });
    run.simulation().with_fabric(|fabric| drop(fabric.take_trace()));
    match ending.program {
        Ok(Err(ExperimentError::Interrupted)) => Err(ExperimentError::Interrupted),
        _ => Ok(ending),
    }
}

/// Does the same, and makes anything that goes wrong an error. Also returns the time at which
/// the program ended.
pub(crate) fn execute_well<T>(
    run: &CheckedRun,
    name: &str,
    progress: &dyn Progress,
    program: impl Future<Output = Result<T>>,
) -> Result<(T, Picoseconds)> {
    well(execute(run, name, progress, program)?, name)
}

/// Makes anything that went wrong an error. Also returns the time at which the program ended.
fn well<T>(ending: Ending<T, ExperimentError>, name: &str) -> Result<(T, Picoseconds)> {
    let ended = ending.into_result().map_err(|error| ExperimentError::run(name, error))?;
    Ok((ended.value, ended.ended))
}
