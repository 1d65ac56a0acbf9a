// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run of host code was given up.

use std::fmt;

use crosslane_pcie::units::Picoseconds;

use super::MAX_POLLS_AT_ONE_TIME;

/// Why it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyStuck {
    /// Nothing can happen any more: a deadlock.
    NothingLeft,
    /// The time limit of the simulation was reached.
    TimeLimit,
    /// Tasks went on and on without simulated time doing so.
    NoProgress,
}

/// A run that was given up: when, and what every task waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// When: of a deadlock, when something happened last.
    pub time: Picoseconds,
    /// Why.
    pub why: WhyStuck,
    /// Each task that has not ended and what it waits for, one sentence each; behind them what
    /// the fabric and its devices have not ended.
    pub waiting: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time;
        match self.why {
            WhyStuck::NothingLeft => write!(f, "after {time} nothing can happen any more")?,
            WhyStuck::TimeLimit => write!(f, "the time limit, {time}, was reached")?,
            WhyStuck::NoProgress => write!(
                f,
                "time stands still at {time}: tasks were polled {MAX_POLLS_AT_ONE_TIME} times"
            )?,
        }
        match self.waiting.as_slice() {
            [] => Ok(()),
            lines => write!(f, "; {}", lines.join("; ")),
        }
    }
}

impl std::error::Error for Stuck {}
