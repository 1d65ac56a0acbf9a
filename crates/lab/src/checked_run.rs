// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs with the checks that every run in a lab gets: a time limit, nothing left unfinished at the
//! end, and no error on any port. [`CheckedRun`] runs host code, [`CheckedFlows`] the flows of a
//! fabric without any.

use std::convert::Infallible;
use std::future::{Future, ready};

use crosslane_fabric::{ErrorRecord, Fabric, RunEnd};
use crosslane_host::{ErrorKind, Reason};
use crosslane_pcie::units::Picoseconds;
use thiserror::Error;

use crate::error::Result;
use crate::executor::{Simulation, Stuck, WhyStuck};
use crate::lab::{Lab, RunningLab};

/// Simulated time after which a run is given up, unless it sets another limit: far beyond what a
/// run simulates in an hour, so that only code that waits for ever reaches it.
pub const TIME_LIMIT: Picoseconds = Picoseconds::from_secs(1000);

/// A run of host code in a separate simulation.
///
/// ```
/// use crosslane_host::Bus;
/// use crosslane_lab::{CheckedRun, open};
/// use crosslane_pcie::units::{HostId, Picoseconds};
///
/// let run = CheckedRun::new(&open("minimal")?, 1)?;
/// let bus = run.simulation().bus(HostId(0));
/// let ended = run.run("sleeper", async {
///     bus.sleep_until(Picoseconds::from_ns(5)).await;
///     Ok::<_, std::convert::Infallible>(())
/// })?;
/// assert_eq!(ended.ended, Picoseconds::from_ns(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CheckedRun {
    simulation: Simulation,
}

/// The end of a run in which nothing went wrong.
#[derive(Clone, Copy, Debug)]
pub struct Ended<T> {
    /// Result of the program.
    pub value: T,
    /// Simulated time at which the program ended; what it had left to the fabric ended later.
    pub ended: Picoseconds,
}

/// The end of any run, with all that went wrong.
#[derive(Debug)]
pub struct Ending<T, E> {
    /// Result of the program.
    pub program: Result<Result<T, E>, Stuck>,
    /// Simulated time at which the program ended or was given up.
    pub ended: Picoseconds,
    /// Work that a program which succeeded has left, and that can never end.
    pub left: Option<Stuck>,
    /// Errors that ports detected; no more than the fabric keeps.
    pub errors: Vec<ErrorRecord>,
    /// Number of such errors.
    pub error_count: u64,
}

/// The first thing that went wrong in a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunError<E> {
    /// The program failed.
    #[error(transparent)]
    Program(E),
    /// The program can never end, or reached the time limit.
    #[error("{0}")]
    Stuck(Stuck),
    /// The program ended, and something that it began can never end.
    #[error("after the end of the program: {0}")]
    Left(Stuck),
    /// Ports detected errors.
    #[error("{first}{}", of_several(*count))]
    Fabric {
        /// The first one: port, time and kind.
        first: String,
        /// Number of errors.
        count: u64,
    },
}

/// Tells how many errors there are, if there are several.
fn of_several(count: u64) -> String {
    if count == 1 { String::new() } else { format!(" (the first of {count} errors)") }
}

impl CheckedRun {
    /// Builds the lab, enumerated, with the engines that it names.
    ///
    /// # Errors
    /// A lab that cannot be built.
    pub fn new(lab: &Lab, seed: u64) -> Result<Self> {
        Ok(Self::of(lab.build_engines(seed)?))
    }

    /// Takes a lab that was built.
    pub fn of(lab: RunningLab) -> Self {
        let simulation = Simulation::new(lab);
        simulation.set_time_limit(Some(TIME_LIMIT));
        Self { simulation }
    }

    /// Gives the run up at another simulated time.
    #[must_use]
    pub fn with_limit(self, limit: impl Into<Picoseconds>) -> Self {
        self.simulation.set_time_limit(Some(limit.into()));
        self
    }

    /// Returns the simulation: for its buses, and to look at it after the run.
    pub const fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Runs a program to its end, then what it has left: spawned tasks, TLPs, credits. `name` is
    /// the program's in reports of deadlocks.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn run<T, E>(
        &self,
        name: &str,
        program: impl Future<Output = Result<T, E>>,
    ) -> Result<Ended<T>, RunError<E>> {
        self.run_to_errors(name, program).into_result()
    }

    /// Runs what programs of the [`simulation`](Self::simulation) have left.
    ///
    /// # Errors
    /// The first thing that went wrong, in those programs too.
    pub fn finish(&self) -> Result<(), RunError<Infallible>> {
        self.run("finish", ready(Ok(()))).map(|_| ())
    }

    /// Runs as [`run`](Self::run), and leaves what went wrong to the caller. Nothing more is run
    /// after a program that failed.
    pub fn run_to_errors<T, E>(
        &self,
        name: &str,
        program: impl Future<Output = Result<T, E>>,
    ) -> Ending<T, E> {
        let program = self.simulation.run(name, program);
        let ended = self.simulation.now();
        let left = match &program {
            Ok(Ok(_)) => self.simulation.finish().err(),
            _ => None,
        };
        self.simulation.with_fabric(|fabric| Ending::new(program, ended, left, fabric))
    }
}

/// A run of the flows of a fabric, without host code.
pub struct CheckedFlows<'a> {
    fabric: &'a mut Fabric,
    limit: Picoseconds,
}

impl<'a> CheckedFlows<'a> {
    /// A run of the flows that were started, up to [`TIME_LIMIT`].
    pub const fn new(fabric: &'a mut Fabric) -> Self {
        Self { fabric, limit: TIME_LIMIT }
    }

    /// Gives the run up at another simulated time.
    #[must_use]
    pub fn with_limit(self, limit: impl Into<Picoseconds>) -> Self {
        Self { limit: limit.into(), ..self }
    }

    /// Runs the flows to their end, and the fabric until it is quiet, with nothing left in it.
    /// Counters of links are settled for later times by that.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn run(self) -> Result<Ended<()>, RunError<Infallible>> {
        let Self { fabric, limit } = self;
        let flows = CheckedFlows { fabric: &mut *fabric, limit };
        let ended = flows.run_in_slices(limit, |_, _| Ok(limit)).into_result()?;
        match fabric.check_quiet() {
            waiting if waiting.is_empty() => Ok(ended),
            waiting => Err(RunError::Left(Stuck {
                time: ended.ended,
                why: WhyStuck::NothingLeft,
                waiting,
            })),
        }
    }

    /// Runs in slices of simulated time, and leaves what went wrong to the caller. After
    /// each slice `next` gets the fabric, and whether it was the last one; it returns the length
    /// of the next slice, or an error that ends the run.
    pub fn run_in_slices<E>(
        self,
        first: Picoseconds,
        mut next: impl FnMut(&mut Fabric, bool) -> Result<Picoseconds, E>,
    ) -> Ending<(), E> {
        let Self { fabric, limit } = self;
        let mut slice = first;
        let program = loop {
            let until = Picoseconds(fabric.now().0.saturating_add(slice.0)).min(limit);
            let end = fabric.run(Some(until));
            let is_over = end != RunEnd::Limit || until == limit;
            match next(fabric, is_over) {
                Err(error) => break Ok(Err(error)),
                Ok(_) if is_over => break Stuck::unless_quiet(end, fabric.now()).map(Ok),
                Ok(length) => slice = length,
            }
        };
        Ending::new(program, fabric.now(), None, fabric)
    }
}

impl<T, E> Ending<T, E> {
    fn new(
        program: Result<Result<T, E>, Stuck>,
        ended: Picoseconds,
        left: Option<Stuck>,
        fabric: &Fabric,
    ) -> Self {
        let (errors, error_count) = (fabric.errors().to_vec(), fabric.error_count());
        Self { program, ended, left, errors, error_count }
    }

    /// Returns the same ending with another result of a program that succeeded.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ending<U, E> {
        let Self { program, ended, left, errors, error_count } = self;
        let program = program.map(|result| result.map(change));
        Ending { program, ended, left, errors, error_count }
    }

    /// Returns the program's result, if nothing went wrong.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub fn into_result(self) -> Result<Ended<T>, RunError<E>> {
        let first = self.first_error();
        let value = self.program.map_err(RunError::Stuck)?.map_err(RunError::Program)?;
        if let Some(stuck) = self.left {
            return Err(RunError::Left(stuck));
        }
        match first {
            Some((_, first)) => Err(RunError::Fabric { first, count: self.error_count }),
            None => Ok(Ended { value, ended: self.ended }),
        }
    }

    /// Returns time and words of the first error that a port detected.
    pub(crate) fn first_error(&self) -> Option<(Picoseconds, String)> {
        let ErrorRecord { time, port_name, kind, .. } = self.errors.first()?;
        Some((*time, format!("{port_name} at {time}: {kind}")))
    }
}

impl<E: Clone + Into<Reason>> RunError<E> {
    /// Returns the kind of the error: that of the program's own, if it failed.
    pub fn kind(&self) -> ErrorKind {
        Reason::from(self.clone()).kind()
    }
}

impl<E: Into<Reason>> From<RunError<E>> for Reason {
    fn from(error: RunError<E>) -> Self {
        let (kind, error) = match error {
            RunError::Program(error) => return error.into(),
            RunError::Stuck(stuck) => return stuck.into(),
            RunError::Left(stuck) => (stuck.kind(), RunError::<Infallible>::Left(stuck)),
            RunError::Fabric { first, count } => {
                (ErrorKind::Failed, RunError::<Infallible>::Fabric { first, count })
            }
        };
        Self::new(kind, error)
    }
}
