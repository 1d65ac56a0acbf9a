// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Another engine's receive queue, claimed for one sender.

use std::fmt;
use std::sync::Arc;

use crosslane_host::ErrorKind::Busy;
use crosslane_host::{Bus, setters};
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::lane;

use crate::channel::Target;
use crate::connection::Connection;
use crate::error::{DriverError, Result};
use crate::plan::Plan;
use crate::user::Check;

/// Behaviour of a receive queue whose FIFO is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveQueuePolicy {
    /// Holds the link's credits, which blocks all later traffic.
    Stall,
    /// Drops data that do not fit, and reports it.
    Drop,
}

/// Options of a connection between two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerOptions {
    /// Number of the sender's peer channel.
    pub channel: u8,
    /// Keep a credit window as large as the receive queue's FIFO. Without one the sender never
    /// stops, like the rosta paper's engine.
    pub credits: bool,
    /// Behaviour when the receive queue is full.
    pub policy: ReceiveQueuePolicy,
}

impl Default for PeerOptions {
    /// Channel 0, with credits.
    fn default() -> Self {
        Self { channel: 0, credits: true, policy: ReceiveQueuePolicy::Stall }
    }
}

setters!(PeerOptions {
    with_channel(channel: u8),
    with_credits(credits: bool),
    with_policy(policy: ReceiveQueuePolicy),
});

/// Counters of a receive queue. Times are in clocks of its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveQueueCounters {
    /// Bytes received, modulo 2^32.
    pub received_bytes: u32,
    /// Bytes taken out, modulo 2^32.
    pub drained_bytes: u32,
    /// Bytes in the FIFO.
    pub fill_bytes: u32,
    /// Whether data were lost.
    pub overflow: bool,
    /// Time of the first TLP received.
    pub first_clocks: u64,
    /// Time of the last TLP received.
    pub last_clocks: u64,
}

/// A connection from one engine's peer channel to a receive queue of another. The queue is free
/// again when this is closed, or when this and every transfer to it are gone.
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

    /// Returns the address of the receive queue, for the command port of the sender's user circuit.
    pub fn address(&self) -> BusAddress {
        self.connection.address()
    }

    /// Returns the number of the receive queue at the target.
    pub fn receive_queue(&self) -> u8 {
        self.connection.receive_queue()
    }

    /// Returns the target for a transfer of `bytes` on the sender's peer channel.
    pub fn target(&self, bytes: u64) -> Target<B> {
        Target::Bus(self.address(), bytes)
    }

    /// Returns the plan: the path, and the expected rate.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Starts comparing the data that the receive queue drains with the generator's pattern of this
    /// seed. If the sender's channel is restarted, by `cancel`, `restart`, a deadline or a new
    /// opening, the queue is emptied with it and the comparison restarts at word 0.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check(&self, seed: u32) -> Result<()> {
        self.connection.check(seed).await
    }

    /// Reads the number of wrong words since [`check`](Self::check), and the position of the first.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn check_result(&self) -> Result<Check> {
        let errors = self.connection.read(lane::CHECK_ERRORS).await?;
        Ok(Check::new(errors, self.connection.read(lane::CHECK_FIRST).await?))
    }

    /// Reads the receive queue's counters.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn counters(&self) -> Result<ReceiveQueueCounters> {
        let lane = &self.connection;
        Ok(ReceiveQueueCounters {
            received_bytes: lane.read(lane::RECEIVED).await?,
            drained_bytes: lane.read(lane::DRAINED).await?,
            fill_bytes: lane.read(lane::FILL).await?,
            overflow: lane::status::OVERFLOW.get(lane.read(lane::STATUS).await?) != 0,
            first_clocks: lane.read_pair(lane::FIRST_LOW, lane::FIRST_HIGH).await?,
            last_clocks: lane.read_pair(lane::LAST_LOW, lane::LAST_HIGH).await?,
        })
    }

    /// Gives the receive queue back once all data in flight have arrived.
    ///
    /// # Errors
    /// A device does not answer, or a transfer to the queue is in flight: the queue is then freed
    /// when that has ended.
    pub async fn close(self) -> Result<()> {
        // Transfers in flight hold the connection too.
        if Arc::strong_count(&self.connection) > 1 {
            let problem = "a transfer to it is in flight";
            return Err(DriverError::refused(self.connection.place(), Busy, problem));
        }
        self.connection.close().await
    }
}
