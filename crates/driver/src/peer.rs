// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another engine's receive lane, claimed for one sender.

use std::fmt;
use std::sync::Arc;

use crosslane_host::Bus;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::lane;

use crate::channel::Target;
use crate::connection::Connection;
use crate::error::DriverError;
use crate::plan::Plan;
use crate::user::Check;

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
/// closed, or when this and every transfer to it are gone.
pub struct Peer<B: Bus> {
    connection: Arc<Connection<B>>,
    plan: Plan,
}

impl<B: Bus> fmt::Debug for Peer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({} at {})", self.connection.place(), self.address())
    }
}

impl<B: Bus> Peer<B> {
    pub(crate) fn new(connection: Arc<Connection<B>>, plan: Plan) -> Self {
        Self { connection, plan }
    }

    /// Where the lane is: for the command port of the sender's user circuit.
    #[must_use]
    pub fn address(&self) -> BusAddress {
        self.connection.address()
    }

    /// Number of the lane at the target.
    #[must_use]
    pub fn lane(&self) -> u8 {
        self.connection.lane()
    }

    /// So many bytes to the lane, for a transfer on the sender's peer channel.
    #[must_use]
    pub fn target(&self, bytes: u64) -> Target<B> {
        Target::Bus(self.address(), bytes)
    }

    /// The way, and what to expect of it.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Compares what the lane drains with the generator's pattern of this seed from now on. Where
    /// the sender's channel is restarted, by `cancel`, `restart`, a deadline or a new opening,
    /// the lane is emptied with it and the comparison begins at word 0 again.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check(&self, seed: u32) -> Result<(), DriverError> {
        self.connection.check(seed).await
    }

    /// Words that were wrong since [`check`](Self::check), and the number of the first.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_result(&self) -> Result<Check, DriverError> {
        let errors = self.connection.read(lane::CHECK_ERRORS).await?;
        Ok(Check::new(errors, self.connection.read(lane::CHECK_FIRST).await?))
    }

    /// What the lane has counted.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn counters(&self) -> Result<LaneCounters, DriverError> {
        let lane = &self.connection;
        Ok(LaneCounters {
            received_bytes: lane.read(lane::RECEIVED).await?,
            drained_bytes: lane.read(lane::DRAINED).await?,
            fill_bytes: lane.read(lane::FILL).await?,
            overflow: lane::status::OVERFLOW.get(lane.read(lane::STATUS).await?) != 0,
            first_clocks: lane.read_pair(lane::FIRST_LOW, lane::FIRST_HIGH).await?,
            last_clocks: lane.read_pair(lane::LAST_LOW, lane::LAST_HIGH).await?,
        })
    }

    /// Gives the lane back, once what is on its way has arrived.
    ///
    /// # Errors
    /// A device does not answer, or a transfer to the lane is in flight: the lane then comes back
    /// when that has ended.
    pub async fn close(self) -> Result<(), DriverError> {
        // Transfers in flight hold the connection too.
        if Arc::strong_count(&self.connection) > 1 {
            let problem = "a transfer to it is in flight".to_owned();
            return Err(DriverError::Refused { place: self.connection.place(), problem });
        }
        self.connection.close().await
    }
}
