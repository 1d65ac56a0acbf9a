// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run was not faster, in plain sentences with figures.

use crosslane_pcie::units::Picoseconds;

use crate::measured::Measured;

/// What one direction of a link did while the data moved: from a lab's counters. Times are as
/// the side that sends sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// `fpga1 -> sw1.p1`.
    pub name: String,
    /// How long it was counted.
    pub span: Picoseconds,
    /// Bytes of the wire that DLLPs took.
    pub dllp_bytes: u64,
    /// Time that DLLPs took.
    pub dllp_time: Picoseconds,
    /// Idle, nothing to send.
    pub nothing_to_send: Picoseconds,
    /// Idle for want of credits of the receiver, and which credits.
    pub no_credit: Picoseconds,
    /// Held back by the receiver.
    pub receiver_busy: Picoseconds,
}

/// Why a run was not at its ceiling: one or two sentences, the largest loss first, empty where
/// less than a thousandth is lost. `link` is the slowest direction on the way where it is known;
/// without it the engine's counters alone are used, and the sentence says so.
#[must_use]
pub fn why_not_faster(measured: &Measured, link: Option<&LinkUse>) -> Vec<String> {
    let _ = (measured, link);
    unimplemented!()
}
