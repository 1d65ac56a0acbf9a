// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of a DMA engine's channels by the device's own count, read outside simulated time.

use crosslane_pcie::units::Picoseconds;

use crate::fabric::{Fabric, NodeState};
use crate::topology::NodeId;

/// Kind of a channel of a DMA engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// Host to card: it reads from the host.
    #[default]
    H2c,
    /// Card to host: it writes to the host.
    C2h,
    /// Peer: it writes to a receive queue of another engine.
    Peer,
}

/// Time that a channel waited, by reason, between its first TLP and its last TLP or last read data.
/// An engine's registers count from their reset to their reading instead, and do not separate the
/// first two reasons.
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

impl Fabric {
    /// Returns the waits of the first channel of a kind of an endpoint's device: see
    /// [`Device::channel_waits`](crate::Device::channel_waits).
    pub fn channel_waits(&self, node: NodeId, kind: ChannelKind) -> Option<ChannelWaits> {
        match self.node_states.get(node.0 as usize)? {
            NodeState::Endpoint(Some(device)) => device.channel_waits(kind),
            _ => None,
        }
    }
}
