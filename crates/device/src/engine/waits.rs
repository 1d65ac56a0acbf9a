// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for a channel to wait while data moved, in more detail than the registers have.

use crosslane_pcie::units::Picoseconds;

use super::Engine;
use super::channel::{Kind, Wait};

/// Time that a channel waited, by reason, between its first TLP and its last TLP or last read data.
/// The registers count from their reset to their reading instead, and do not separate the first two
/// reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelWaits {
    /// From the first TLP until the last one is handed on, or the last data arrive.
    pub moving: Picoseconds,
    /// The host had posted nothing.
    pub nothing_posted: Picoseconds,
    /// Posted descriptors were not fetched yet.
    pub no_descriptor: Picoseconds,
    /// Gap after a descriptor.
    pub gap: Picoseconds,
    /// The stream had too little data for the next TLP.
    pub no_data: Picoseconds,
    /// All tags were taken, or the limit of descriptors with reads in flight was reached.
    pub no_tag: Picoseconds,
    /// The peer's credit window was used up.
    pub no_credit: Picoseconds,
}

impl Engine {
    /// Returns the waits of a channel while data moved, since its counters were reset; `None` if
    /// the channel does not exist or nothing has moved.
    #[must_use]
    pub fn waits(&self, kind: Kind, number: usize) -> Option<ChannelWaits> {
        let counters = self.find_channel(kind, number).map(|at| &self.channels[at].counters)?;
        let first_ps = counters.first_ps?;
        let of = |wait: Wait| {
            let last_ps = counters.idle_at_last_ps[wait as usize];
            Picoseconds(last_ps.saturating_sub(counters.idle_at_first_ps[wait as usize]))
        };
        Some(ChannelWaits {
            moving: Picoseconds(counters.last_ps.saturating_sub(first_ps)),
            nothing_posted: of(Wait::Post),
            no_descriptor: of(Wait::Descriptor),
            gap: of(Wait::Gap),
            no_data: of(Wait::Data),
            no_tag: of(Wait::Tag),
            no_credit: of(Wait::Credit),
        })
    }
}
