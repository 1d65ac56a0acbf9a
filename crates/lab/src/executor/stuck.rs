// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The error of a run of host code that was given up.

use std::fmt;

use crosslane_fabric::RunEnd;
use crosslane_host::kinds;
use crosslane_pcie::units::Picoseconds;

use super::MAX_POLLS_AT_ONE_TIME;

/// The reason why a run was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyStuck {
    /// No event is left: a deadlock.
    NothingLeft,
    /// The time limit of the simulation was reached.
    TimeLimit,
    /// Tasks kept running while simulated time stood still.
    NoProgress,
    /// Another part of the lab has failed, or the run had to end before its time.
    Ended,
}

/// A run that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Time at which the run was given up; for a deadlock, the time of the last event.
    pub time: Picoseconds,
    /// The reason.
    pub why: WhyStuck,
    /// Each unfinished task and what it waits for, one sentence each; then the unfinished work of
    /// the fabric and its devices.
    pub waiting: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time;
        match self.why {
            WhyStuck::NothingLeft => {
                write!(f, "the simulation stopped at {time} with unfinished work")?
            }
            WhyStuck::TimeLimit => write!(f, "the time limit, {time}, was reached")?,
            WhyStuck::NoProgress => write!(
                f,
                "time stands still at {time}: tasks were polled {MAX_POLLS_AT_ONE_TIME} times"
            )?,
            WhyStuck::Ended => write!(f, "the run was ended from elsewhere at {time}")?,
        }
        match self.waiting.as_slice() {
            [] => Ok(()),
            lines => write!(f, "; {}", lines.join("; ")),
        }
    }
}

impl std::error::Error for Stuck {}

kinds!(Stuck {
    Self { why: WhyStuck::TimeLimit, .. } => Timeout,
    Self { why: WhyStuck::NothingLeft | WhyStuck::NoProgress, .. } => Failed,
    Self { why: WhyStuck::Ended, .. } => Cancelled,
});

impl Stuck {
    /// Makes an error of a fabric whose run ended at this time, unless it is quiet.
    pub(crate) fn unless_quiet(end: RunEnd, time: Picoseconds) -> Result<(), Self> {
        let (why, waiting) = match end {
            RunEnd::Quiet => return Ok(()),
            RunEnd::Limit => (WhyStuck::TimeLimit, vec!["the fabric is not quiet".into()]),
            RunEnd::Stuck(waiting) => (WhyStuck::NothingLeft, waiting),
        };
        Err(Self { time, why, waiting })
    }
}
