// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of a divided lab: a thread for each part, and one ending for all of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crosslane_fabric::{ErrorRecord, MAX_ERRORS};
use crosslane_host::lock;

use super::exchange::Exchange;
use super::report::{Carriers, PartTimes, PartsReport};
use super::threads::{ThreadExchange, WallClock};
use super::{Division, Part};
use crate::checked_run::{CheckedRun, Ending};
use crate::error::{LabError, Result};
use crate::executor::{Stuck, WhyStuck};
use crate::progress::Progress;

/// Time between two looks at whether the run has to end before its time.
const LOOK: Duration = Duration::from_millis(50);

/// The end of a part: of its program, of its building, or its panic.
pub(super) type PartEnd<T, E> = thread::Result<Result<Ending<T, E>>>;

/// A part that is to run here: its number, its exchange with the others, and its times.
pub(super) struct Runner {
    pub number: usize,
    pub exchange: Box<dyn Exchange + Send>,
    pub times: Arc<Mutex<PartTimes>>,
}

impl Division {
    /// Runs a program in each part, each in a thread, and what they leave, with the checks of a
    /// [`CheckedRun`]. `program` gets the part and its run, whose time limit it may change. The
    /// ending is that of the whole lab: of programs that failed, the one that failed first. The
    /// other parts are ended then, at the same place in every run.
    ///
    /// The observer gets a [`PartsReport`] at the end, if it has a clock.
    ///
    /// # Errors
    /// A part that cannot be built.
    ///
    /// # Panics
    /// If the program panics in a part.
    pub fn run<T: Send, E: Send>(
        &self,
        seed: u64,
        progress: &dyn Progress,
        program: impl Fn(&Part, CheckedRun) -> Ending<T, E> + Sync,
    ) -> Result<Ending<Vec<T>, E>> {
        let clock = progress.clock().unwrap_or(|| Duration::ZERO);
        let parts = self.parts.len();
        let times = |part: &Part| PartTimes::new(part.nodes.len(), parts);
        let times: Vec<Arc<Mutex<PartTimes>>> =
            self.parts.iter().map(|part| Arc::new(Mutex::new(times(part)))).collect();
        let exchanges = ThreadExchange::all(&times, clock).into_iter().zip(&times).enumerate();
        let runners = exchanges.map(|(number, (exchange, times))| {
            let exchange = Box::new(exchange) as Box<dyn Exchange + Send>;
            Runner { number, exchange, times: times.clone() }
        });
        let begin = clock();
        let ends = self.run_parts(runners.collect(), clock, seed, progress, program);
        if progress.clock().is_some() {
            let parts = times.iter().map(|times| lock(times).clone()).collect();
            let (wall, lookahead) = (clock().saturating_sub(begin), self.lookahead);
            progress.parted(&PartsReport { by: Carriers::Threads, parts, wall, lookahead });
        }
        together(ends)
    }

    /// Runs parts, each in a thread, and returns their ends in the same order.
    pub(super) fn run_parts<T: Send, E: Send>(
        &self,
        runners: Vec<Runner>,
        clock: WallClock,
        seed: u64,
        progress: &dyn Progress,
        program: impl Fn(&Part, CheckedRun) -> Ending<T, E> + Sync,
    ) -> Vec<PartEnd<T, E>> {
        let stop = Arc::new(AtomicBool::new(false));
        let begin = clock();
        let (ended, ends) = mpsc::channel();
        let mut all: Vec<Option<PartEnd<T, E>>> = runners.iter().map(|_| None).collect();
        thread::scope(|scope| {
            for (at, Runner { number, exchange, times }) in runners.into_iter().enumerate() {
                let (ended, stop, program) = (ended.clone(), &stop, &program);
                let part = &self.parts[number];
                let thread = thread::Builder::new().name(part.name(number));
                let work = move || {
                    let end = part.run(seed, exchange, stop, program);
                    lock(&times).ran = clock().saturating_sub(begin);
                    // The receiver waits for all parts.
                    drop(ended.send((at, end)));
                };
                thread.spawn_scoped(scope, work).expect("the system has threads for the parts");
            }
            drop(ended);
            loop {
                match ends.recv_timeout(LOOK) {
                    Ok((at, end)) => all[at] = Some(end),
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        stop.fetch_or(progress.is_over(), Ordering::Relaxed);
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        all.into_iter().flatten().collect()
    }
}

impl Part {
    fn name(&self, number: usize) -> String {
        let first = self.nodes.first().copied().unwrap_or_default();
        format!("part {number} ({} nodes, node {first} first)", self.nodes.len())
    }

    fn run<T, E>(
        &self,
        seed: u64,
        exchange: Box<dyn Exchange>,
        stop: &Arc<AtomicBool>,
        program: impl Fn(&Self, CheckedRun) -> Ending<T, E>,
    ) -> PartEnd<T, E> {
        catch_unwind(AssertUnwindSafe(|| {
            let run = CheckedRun::of(self.lab.build_engines(seed)?);
            run.simulation().join(exchange, stop.clone());
            Ok(program(self, run))
        }))
    }
}

/// Makes one ending of those of all parts.
pub(super) fn together<T, E>(ends: Vec<PartEnd<T, E>>) -> Result<Ending<Vec<T>, E>> {
    let mut endings = Vec::new();
    let mut broken: Option<LabError> = None;
    for end in ends {
        match end {
            Err(panic) => resume_unwind(panic),
            Ok(Err(error)) => broken = broken.or(Some(error)),
            Ok(Ok(ending)) => endings.push(ending),
        }
    }
    if let Some(error) = broken {
        return Err(error);
    }
    let ended = endings.iter().map(|ending| ending.ended).max().unwrap_or_default();
    let error_count = endings.iter().map(|ending| ending.error_count).sum();
    let mut errors: Vec<ErrorRecord> = Vec::new();
    let (mut values, mut failed, mut stuck, mut left) = (Vec::new(), None, None, None);
    for ending in endings {
        errors.extend(ending.errors);
        left = joined(left, ending.left);
        match ending.program {
            Ok(Ok(value)) => values.push(value),
            Err(reason) => stuck = joined(stuck, Some(reason)),
            Ok(Err(error)) => {
                let is_first = |(time, _): &(_, E)| ending.ended < *time;
                if failed.as_ref().is_none_or(is_first) {
                    failed = Some((ending.ended, error));
                }
            }
        }
    }
    errors.sort_by_key(|error| error.time);
    errors.truncate(MAX_ERRORS);
    let (ended, program) = match (failed, stuck) {
        (Some((time, error)), _) => (time, Ok(Err(error))),
        (None, Some(stuck)) => (ended, Err(stuck)),
        (None, None) => (ended, Ok(Ok(values))),
    };
    Ok(Ending { program, ended, left, errors, error_count })
}

/// Makes one report of those of two parts. A part that was ended by another is no reason.
fn joined(one: Option<Stuck>, other: Option<Stuck>) -> Option<Stuck> {
    match (one, other) {
        (Some(one), Some(other)) => Some(match (one.why, other.why) {
            (_, WhyStuck::Ended) => one,
            (WhyStuck::Ended, _) => other,
            (why, _) => {
                let time = one.time.max(other.time);
                let waiting = one.waiting.into_iter().chain(other.waiting).collect();
                Stuck { time, why, waiting }
            }
        }),
        (one, other) => one.or(other),
    }
}
