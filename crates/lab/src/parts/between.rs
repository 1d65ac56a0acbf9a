// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of a divided lab whose parts are processes: this one simulates one part, and all get the
//! ending of the whole lab.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane_device::network_processor::{CableEnd, CableMessage};
use crosslane_host::{ErrorKind, Reason, lock};
use crosslane_pcie::units::Picoseconds;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::carrier::{Carrier, Gone};
use super::exchange::{Exchange, Lost, Said};
use super::report::{Carriers, PartTimes, PartsReport};
use super::run::{Runner, together};
use super::threads::WallClock;
use super::wire::{self, Expected, Message};
use super::{Division, Part};
use crate::checked_run::{CheckedRun, Ended, Ending, RunError};
use crate::error::{LabError, Problem, Result};
use crate::executor::{Stuck, WhyStuck};
use crate::progress::Progress;

/// Kinds of errors by their numbers in messages.
const KINDS: [ErrorKind; 10] = [
    ErrorKind::NotFound,
    ErrorKind::Busy,
    ErrorKind::Unsupported,
    ErrorKind::InvalidArgument,
    ErrorKind::Timeout,
    ErrorKind::LinkDown,
    ErrorKind::Denied,
    ErrorKind::Data,
    ErrorKind::Cancelled,
    ErrorKind::Failed,
];
/// Reasons for giving a run up by their numbers in messages.
const WHY: [WhyStuck; 4] =
    [WhyStuck::NothingLeft, WhyStuck::TimeLimit, WhyStuck::NoProgress, WhyStuck::Ended];

/// Outcome of a run between processes.
type Outcome<T> = Result<Ended<T>, RunError<Reason>>;

/// An error: its kind and its sentence.
type ToldReason = (u8, String);
/// A run that was given up: its time, the reason and what waits.
type ToldStuck = (u64, u8, Vec<String>);

/// The end of a part, as the others learn it.
#[derive(Serialize, Deserialize)]
enum End<T> {
    /// Its program has ended or was given up.
    Ended(Told<T>),
    /// It could not be built, or its program panicked.
    Broken(String),
}

#[derive(Serialize, Deserialize)]
struct Told<T> {
    program: Result<Result<T, ToldReason>, ToldStuck>,
    ended_ps: u64,
    left: Option<ToldStuck>,
    /// Time and words of the first error of its ports.
    first_error: Option<(u64, String)>,
    error_count: u64,
    times: PartTimes,
}

fn told_reason(reason: &Reason) -> ToldReason {
    let number = KINDS.iter().position(|kind| *kind == reason.kind());
    (number.unwrap_or(KINDS.len() - 1) as u8, reason.to_string())
}

fn reason((kind, sentence): ToldReason) -> Reason {
    Reason::new(*KINDS.get(usize::from(kind)).unwrap_or(&ErrorKind::Failed), sentence)
}

fn told_stuck(stuck: Stuck) -> ToldStuck {
    let why = WHY.iter().position(|why| *why == stuck.why).unwrap_or_default();
    (stuck.time.0, why as u8, stuck.waiting)
}

fn stuck((time_ps, why, waiting): ToldStuck) -> Stuck {
    let why = *WHY.get(usize::from(why)).unwrap_or(&WhyStuck::NothingLeft);
    Stuck { time: Picoseconds(time_ps), why, waiting }
}

impl<T> Told<T> {
    fn of<E: Into<Reason>>(ending: Ending<T, E>, times: PartTimes) -> Self {
        let first_error = ending.first_error();
        let Ending { program, ended, left, error_count, .. } = ending;
        let program = program.map_err(told_stuck);
        Self {
            program: program.map(|result| result.map_err(|error| told_reason(&error.into()))),
            ended_ps: ended.0,
            left: left.map(told_stuck),
            first_error: first_error.map(|(time, words)| (time.0, words)),
            error_count,
            times,
        }
    }

    fn ending(self) -> Ending<T, Reason> {
        Ending {
            program: self.program.map_err(stuck).map(|result| result.map_err(reason)),
            ended: Picoseconds(self.ended_ps),
            left: self.left.map(stuck),
            errors: Vec::new(),
            error_count: self.error_count,
        }
    }
}

/// The exchange with parts in other processes.
struct CarriedExchange {
    carrier: Arc<dyn Carrier>,
    expected: Expected,
    lookahead: Picoseconds,
    clock: WallClock,
    times: Arc<Mutex<PartTimes>>,
    /// The process that is gone.
    gone: Arc<Mutex<Option<Gone>>>,
}

impl Exchange for CarriedExchange {
    fn exchange(
        &mut self,
        said: Said,
        sent: &mut [Vec<CableMessage>],
        came: &mut Vec<CableMessage>,
    ) -> Result<Vec<Said>, Lost> {
        let signals = sent.iter().map(Vec::len).sum::<usize>() as u64;
        let messages = sent.iter_mut().map(|messages| wire::turn(said, messages)).collect();
        let lost = |gone| {
            lock(&self.gone).get_or_insert(gone);
            Lost
        };
        let begin = (self.clock)();
        let arrived = self.carrier.swap(messages).map_err(lost)?;
        let waited = (self.clock)().saturating_sub(begin);
        // A process that is alone waits for nobody.
        let is_alone = arrived.last == self.carrier.rank();
        let waited = if is_alone { Duration::ZERO } else { waited };
        lock(&self.times).waited(arrived.last, waited, signals);
        let mut all = Vec::new();
        for (rank, bytes) in arrived.messages.iter().enumerate() {
            if rank == self.carrier.rank() {
                all.push(said);
                continue;
            }
            match wire::read(bytes, &self.expected) {
                Ok(Message::Turn(said, mut messages)) => {
                    all.push(said);
                    came.append(&mut messages);
                }
                // It has failed, and says how when all have ended.
                Ok(Message::Ended(_)) => return Err(Lost),
                Err(malformed) => return Err(lost(malformed_by(&*self.carrier, rank, malformed))),
            }
        }
        let first = all.iter().map(|said| said.next.min(said.arrives)).min().unwrap_or_default();
        self.expected.from = Picoseconds(first.0.saturating_add(self.lookahead.0));
        Ok(all)
    }
}

fn malformed_by(carrier: &dyn Carrier, rank: usize, malformed: wire::Malformed) -> Gone {
    Gone { who: carrier.names()[rank].clone(), why: format!("sent {malformed}") }
}

/// Makes the error of a run that a process has ended.
fn ended_by(Gone { who, why }: Gone) -> LabError {
    LabError::nowhere(Problem::Process { who, why })
}

impl Division {
    /// Runs a program in the part that has the rank of this process, as [`run`](Self::run) does,
    /// and exchanges signals and the results with the other processes. All get the same ending.
    ///
    /// The observer gets a [`PartsReport`] at the end, if it has a clock.
    ///
    /// # Errors
    /// A number of processes other than that of the parts, a part that cannot be built or whose
    /// program panics elsewhere, a process that is gone; and what went wrong in the run.
    ///
    /// # Panics
    /// If the program panics here.
    pub fn run_between<T, E>(
        &self,
        carrier: &Arc<dyn Carrier>,
        seed: u64,
        progress: &dyn Progress,
        program: impl Fn(&Part, CheckedRun) -> Ending<T, E> + Sync,
    ) -> Result<Outcome<Vec<T>>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Into<Reason> + Send,
    {
        let (here, parts, processes) = (carrier.rank(), self.parts.len(), carrier.names().len());
        if parts != processes {
            let key = "torus".to_owned();
            let problem =
                format!("{processes} processes, but it can be divided into {parts} parts");
            return Err(LabError::nowhere(Problem::BadValue { key, problem }));
        }
        let clock = progress.clock().unwrap_or(|| Duration::ZERO);
        let begin = clock();
        let times = PartTimes::new(self.parts[here].nodes.len(), parts);
        let (times, gone) = (Arc::new(Mutex::new(times)), Arc::new(Mutex::new(None)));
        let exchange = CarriedExchange {
            carrier: carrier.clone(),
            expected: Expected { ends: self.cut_ends(here), from: self.lookahead },
            lookahead: self.lookahead,
            clock,
            times: times.clone(),
            gone: gone.clone(),
        };
        let runner = Runner { number: here, exchange: Box::new(exchange), times: times.clone() };
        let mut ends = self.run_parts(vec![runner], clock, seed, progress, program);
        let end = ends.pop().expect("one part was run");
        if let Some(gone) = lock(&gone).take() {
            return Err(ended_by(gone));
        }
        let times = lock(&times).clone();
        let (end, here_broken) = match end {
            Ok(Ok(ending)) => (End::Ended(Told::of(ending, times)), None),
            Ok(Err(error)) => (End::Broken(error.to_string()), Some(Ok(error))),
            Err(panic) => (End::Broken("panicked".to_owned()), Some(Err(panic))),
        };
        let all = gather(&**carrier, &end);
        match here_broken {
            Some(Ok(error)) => return Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        let told = all?;
        if progress.clock().is_some() {
            let parts = told.iter().map(|told| told.times.clone()).collect();
            let (wall, lookahead) = (clock().saturating_sub(begin), self.lookahead);
            let by = Carriers::Processes(carrier.names().to_vec());
            progress.parted(&PartsReport { by, parts, wall, lookahead });
        }
        ended_together(told)
    }

    /// Ends of cut cables in a part.
    fn cut_ends(&self, part: usize) -> BTreeSet<CableEnd> {
        let has = |node: u16| self.parts[part].nodes.contains(&node);
        let torus = &self.parts[part].lab.file().tori[0].torus;
        let ends = torus.cables().flat_map(|(one, other)| [(one, other), (other, one)]);
        let cut = ends.filter(|&((here, _), (there, _))| has(here) && !has(there));
        cut.map(|((node, link), _)| CableEnd { node, link }).collect()
    }
}

/// Tells all processes the end of the part here, and returns the ends of all. A part that ended
/// while others were still running tells it once more, when they have ended too.
fn gather<T: Serialize + DeserializeOwned>(
    carrier: &dyn Carrier,
    end: &End<T>,
) -> Result<Vec<Told<T>>> {
    let mine = wire::ended(end);
    loop {
        let arrived = carrier.swap(vec![mine.clone(); carrier.names().len()]);
        let mut messages = arrived.map_err(ended_by)?.messages;
        messages[carrier.rank()] = mine.clone();
        let (mut all, mut broken, mut ended) = (Vec::new(), None, 0);
        for (rank, bytes) in messages.iter().enumerate() {
            let malformed = |malformed| ended_by(malformed_by(carrier, rank, malformed));
            // Signals for a part that has ended go nowhere: nothing is expected of them.
            match wire::read_end(bytes).map_err(malformed)? {
                None => continue,
                Some(bytes) => match wire::end(bytes).map_err(malformed)? {
                    End::Ended(told) => all.push(told),
                    End::Broken(why) => broken = broken.or(Some((rank, why))),
                },
            }
            ended += 1;
        }
        // One that left before all know of it would be missed by the others.
        match broken {
            _ if ended < messages.len() => {}
            Some((rank, why)) => {
                let (who, why) = (carrier.names()[rank].clone(), format!("failed: {why}"));
                return Err(ended_by(Gone { who, why }));
            }
            None => return Ok(all),
        }
    }
}

/// Makes one outcome of the ends of all parts.
fn ended_together<T>(all: Vec<Told<T>>) -> Result<Outcome<Vec<T>>> {
    let first = all.iter().filter_map(|told| told.first_error.clone()).min();
    let count = all.iter().map(|told| told.error_count).sum();
    let ending = together(all.into_iter().map(|told| Ok(Ok(told.ending()))).collect())?;
    Ok(ending.into_result().and_then(|ended| match first {
        Some((_, first)) => Err(RunError::Fabric { first, count }),
        None => Ok(ended),
    }))
}
