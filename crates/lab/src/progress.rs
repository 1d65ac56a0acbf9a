// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work in labs.

use std::time::Duration;

use crosslane_pcie::units::Picoseconds;
use crosslane_results::DirectionLoad;

use crate::parts::PartsReport;

/// Observer of long work, called by the threads that do it. Work is the same whoever watches; `()`
/// ignores everything.
pub trait Progress: Sync {
    /// Returns whether it is time to report how the bytes move: somebody watches, and has heard
    /// nothing for a while. It is asked often.
    fn is_due(&self) -> bool {
        false
    }

    /// Reports bytes that have been moved since the last call, and the simulated time of that.
    fn moved(&self, _bytes: u64, _simulated: Picoseconds) {}

    /// Reports the load of each direction of a link since the last call, where links are counted.
    fn loaded(&self, _loads: &[DirectionLoad]) {}

    /// Reports one more step that is done, and its simulated time.
    fn done(&self, _step: &str, _simulated: Picoseconds) {}

    /// Reports one more run without some of the limits of an explained one.
    fn tried(&self) {}

    /// Reports one more explained run.
    fn explained(&self) {}

    /// Returns a clock of the machine, if it is of interest how long the parts of a divided lab
    /// compute and wait: time since any fixed moment.
    fn clock(&self) -> Option<fn() -> Duration> {
        None
    }

    /// Reports how a run of a divided lab went, if there is a [`clock`](Self::clock).
    fn parted(&self, _report: &PartsReport) {}

    /// Returns whether the work has to end before its time.
    fn is_over(&self) -> bool {
        false
    }
}

impl Progress for () {}
