// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reasons for a channel to wait while data moved, in more detail than the registers have.

use crosslane_fabric::{ChannelKind, ChannelWaits};
use crosslane_pcie::units::Picoseconds;

use super::Engine;
use super::channel::Wait;

impl Engine {
    /// Returns the waits of the first channel of a kind while data moved, since its counters were
    /// reset; `None` if there is none or nothing has moved.
    pub(super) fn waits(&self, kind: ChannelKind) -> Option<ChannelWaits> {
        let counters = self.find_channel(kind, 0).map(|at| &self.channels[at].counters)?;
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
