// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another engine's receive lane, claimed for one sender.

use crosslane_host::Bus;
use crosslane_pcie::units::BusAddress;

use crate::channel::Target;
use crate::error::DriverError;
use crate::plan::Plan;

/// What a lane does when its FIFO is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LanePolicy {
    /// Holds the link's credits: nothing behind gets in.
    Stall,
    /// Drops what does not fit and says so.
    Drop,
}

/// How two engines are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// Peer channel of the sender.
    pub channel: u8,
    /// Keep a credit window, as large as the lane's FIFO. Without one the sender never stops, as
    /// the engine of the document.
    pub credits: bool,
    /// When the lane is full.
    pub policy: LanePolicy,
}

impl Default for PeerOptions {
    /// Channel 0, with credits.
    fn default() -> Self {
        Self { channel: 0, credits: true, policy: LanePolicy::Stall }
    }
}

/// What a lane has counted. Times are in clocks of its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Bytes received, modulo 2^32.
    pub received_bytes: u32,
    /// Bytes taken out, modulo 2^32.
    pub drained_bytes: u32,
    /// Bytes in the FIFO.
    pub fill_bytes: u32,
    /// Whether data were lost.
    pub overflow: bool,
    /// First TLP received.
    pub first_clocks: u64,
    /// Last TLP received.
    pub last_clocks: u64,
}

/// A way from one engine's peer channel to a lane of another. The lane comes back when it is
/// closed.
pub struct Peer<B: Bus> {
    _bus: B,
}

impl<B: Bus> Peer<B> {
    /// Where the lane is: for the command port of the sender's user circuit.
    #[must_use]
    pub fn address(&self) -> BusAddress {
        unimplemented!()
    }

    /// Number of the lane at the target.
    #[must_use]
    pub fn lane(&self) -> u8 {
        unimplemented!()
    }

    /// So many bytes to the lane, for a transfer on the sender's peer channel.
    #[must_use]
    pub fn target(&self, bytes: u64) -> Target<B> {
        let _ = bytes;
        unimplemented!()
    }

    /// The way, and what to expect of it.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        unimplemented!()
    }

    /// Compares what the lane drains with the generator's pattern of this seed from now on.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check(&self, seed: u32) -> Result<(), DriverError> {
        let _ = seed;
        unimplemented!()
    }

    /// Words that were wrong since [`check`](Self::check), and the number of the first.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_result(&self) -> Result<crate::user::Check, DriverError> {
        unimplemented!()
    }

    /// What the lane has counted.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn counters(&self) -> Result<LaneCounters, DriverError> {
        unimplemented!()
    }

    /// Gives the lane back.
    ///
    /// # Errors
    /// A device does not answer.
    pub async fn close(self) -> Result<(), DriverError> {
        unimplemented!()
    }
}
