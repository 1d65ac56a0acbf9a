// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a channel waited for while data moved: more than the registers tell, for those who have
//! the model.

use crosslane_pcie::units::Picoseconds;

use super::Engine;
use super::channel::{Kind, Wait};

/// What a channel waited for between its first TLP and its last one, or the last data that it
/// read. The registers count the same from the reset of the counters until they are read, and do
/// not part the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelWaits {
    /// From the first TLP to the last one handed on, or the last data.
    pub moving: Picoseconds,
    /// The host had posted nothing.
    pub nothing_posted: Picoseconds,
    /// What it had posted was not fetched yet.
    pub no_descriptor: Picoseconds,
    /// The gap after a descriptor.
    pub gap: Picoseconds,
    /// The stream had too little data for the next TLP.
    pub no_data: Picoseconds,
    /// All tags were taken, or as many descriptors were read at once as may be.
    pub no_tag: Picoseconds,
    /// The peer's window was used up.
    pub no_credit: Picoseconds,
}

impl Engine {
    /// What a channel waited for while data moved, since its counters were reset; `None` where
    /// there is no such channel, or nothing has moved.
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
