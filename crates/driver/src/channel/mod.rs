// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels: transfers are posted to them, and waited for.
//!
//! A channel has one account of descriptors: `posted` and `completed`, absolute since its last
//! restart, as the engine counts them. Every step that waits leaves the account whole, so a
//! future may be dropped at any point: what it had begun is finished by the next call.

mod completion;
mod descriptors;
mod options;
mod posting;
mod recovery;
mod results;
mod setup;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use crosslane_host::Bus;
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::engine::channel;

use crate::buffer::{Claim, lock};
use crate::connection::Connection;
use crate::device::Device;
use crate::error::{DriverError, TransferError, TransferFault};
use crate::shared::{Abandoned, ChannelKey, OpenChannel};
use descriptors::{Descriptor, Descriptors, StatusBlock};
pub use options::{
    ChannelCounters, ChannelKind, ChannelOptions, Completed, CompletionLevel, DescriptorSource,
    Notification, Statistics, Target, Ticket, Transfer,
};
use recovery::Cause;
use results::Results;
pub(crate) use setup::payload_on_the_way;

/// A transfer that is on its way.
struct Pending<B: Bus> {
    target: Target<B>,
    level: CompletionLevel,
    deadline: Picoseconds,
    total_bytes: u64,
    /// Number of its first descriptor.
    first: u64,
    /// Number of the descriptor behind its last.
    end: u64,
    /// When the doorbell was rung.
    posted: Picoseconds,
    /// Whether its result has been given already (level accepted).
    is_given: bool,
    /// Its part of a buffer.
    claim: Option<Claim<B>>,
    /// The lane that it goes to.
    connection: Option<Arc<Connection<B>>>,
}

/// What a channel is doing.
enum State {
    /// It takes transfers.
    Running,
    /// It is to be stopped and restarted, and that is not finished.
    Recovering(Cause),
    /// It has stopped, and why.
    Stopped(TransferFault),
}

/// An open channel. It has one owner; share work by opening one channel each.
///
/// Dropping it without [`close`](Self::close) takes nothing from the device: ring, status block
/// and the parts of buffers stay with it until the channel is opened again, or for good.
pub struct Channel<B: Bus> {
    device: Device<B>,
    slot: OpenChannel<B>,
    options: ChannelOptions,
    descriptors: Descriptors<B>,
    status: StatusBlock<B>,
    state: State,
    /// What the peer channel's registers and its lane were set up for.
    applied: Option<Weak<Connection<B>>>,
    /// Error bits of every port when the channel was opened.
    baseline: Vec<(RoutingId, u32)>,
    /// Descriptors since the last restart.
    posted: u64,
    /// Those of them that are complete.
    completed: u64,
    /// Sequence of the status block that was looked at last.
    seen: u32,
    /// Whether the doorbell has still to be rung.
    doorbell_due: bool,
    /// Whether the engine has been told to stop for good.
    is_closed: bool,
    /// The last descriptors posted, as far as they have still to be written.
    unwritten: Vec<Descriptor>,
    /// Whether descriptors may have been laid down that were never posted: their future was
    /// dropped, or the device did not answer.
    has_unposted: bool,
    pending: VecDeque<Pending<B>>,
    /// Parts of buffers whose transfers have failed, until the channel has been restarted.
    quarantine: Vec<Claim<B>>,
    results: Results,
    next_ticket: u64,
    statistics: Statistics,
}

impl<B: Bus> fmt::Debug for Channel<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({}, {} pending)", self.place(), self.pending.len())
    }
}

impl<B: Bus> Channel<B> {
    /// Posts transfers: descriptors, then one doorbell; of a batch that is longer than what the
    /// engine fetches ahead it hears already when so much is written. Nothing is posted unless all
    /// can be. Waits for room where the ring or table is full of transfers that are on their way.
    ///
    /// # Errors
    /// A transfer that cannot be (empty, beyond its buffer, not aligned to 4 B, in flight
    /// already, of the wrong kind, a level that the channel cannot promise), a batch larger than
    /// the ring or table, or a channel that has stopped.
    pub async fn post(&mut self, transfers: &[Transfer<B>]) -> Result<Vec<Ticket>, DriverError> {
        self.post_batch(transfers, true).await
    }

    /// The same without interrupts: a channel that sleeps until one learns of these transfers with
    /// the next that has one, which is to be posted behind them.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub async fn post_unreported(
        &mut self,
        transfers: &[Transfer<B>],
    ) -> Result<Vec<Ticket>, DriverError> {
        self.post_batch(transfers, false).await
    }

    /// Waits until a transfer is complete, has failed, or its deadline has passed. A deadline,
    /// also one of a transfer ahead of it, cancels all that is posted to the channel: it is then
    /// stopped and restarted, and takes new transfers.
    ///
    /// # Errors
    /// Why it failed, with what was moved and what was not.
    pub async fn wait(&mut self, ticket: Ticket) -> Result<Completed, TransferError> {
        self.wait_for(ticket).await
    }

    /// Looks whether a transfer is complete, without waiting for it; a deadline that has passed
    /// is dealt with as in [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn poll(&mut self, ticket: Ticket) -> Result<Option<Completed>, TransferError> {
        self.look_for(ticket).await
    }

    /// Posts one transfer and waits for it.
    ///
    /// # Errors
    /// As [`post`](Self::post) and [`wait`](Self::wait).
    pub async fn transfer(&mut self, transfer: Transfer<B>) -> Result<Completed, TransferError> {
        let posted = self.post(std::slice::from_ref(&transfer)).await;
        match posted.map(|tickets| tickets.first().copied()) {
            Ok(Some(ticket)) => self.wait(ticket).await,
            Ok(None) => unreachable!("a transfer that was posted has a ticket"),
            Err(error) => Err(self.refusal(error, transfer.target.bytes())),
        }
    }

    /// Stops the channel and gives up every transfer that is not complete; each is reported by
    /// its `wait` as cancelled, with what was moved. The channel then takes new ones. A peer
    /// channel's lane is emptied with it.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn cancel(&mut self) -> Result<(), DriverError> {
        self.recover(Cause::Cancelled).await;
        self.check_recovered()
    }

    /// Starts a stopped channel again. Transfers that had not failed themselves but stood behind
    /// the failed one are reported as not begun. A peer channel's lane is emptied with it. On a
    /// channel that runs it is the same as [`cancel`](Self::cancel).
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn restart(&mut self) -> Result<(), DriverError> {
        self.cancel().await
    }

    /// What the host has counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What the engine has counted.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn counters(&self) -> Result<ChannelCounters, DriverError> {
        let (device, base) = (&self.device, self.slot.registers());
        let pair = async |low, high| device.read_pair(base + low, base + high).await;
        let read = async |register| device.read(base + register).await;
        Ok(ChannelCounters {
            bytes: pair(channel::BYTES_LOW, channel::BYTES_HIGH).await?,
            tlps: read(channel::TLPS).await?,
            fetched: read(channel::FETCHED).await?,
            first_clocks: pair(channel::FIRST_LOW, channel::FIRST_HIGH).await?,
            last_clocks: pair(channel::LAST_LOW, channel::LAST_HIGH).await?,
            no_descriptor_clocks: read(channel::IDLE_NO_DESCRIPTOR).await?,
            no_data_clocks: read(channel::IDLE_NO_DATA).await?,
            no_tag_clocks: read(channel::IDLE_NO_TAG).await?,
            link_clocks: read(channel::IDLE_LINK).await?,
            no_credit_clocks: read(channel::IDLE_NO_CREDIT).await?,
            gap_clocks: read(channel::IDLE_GAP).await?,
        })
    }

    /// Stops the channel and gives it back. Transfers that are not complete are cancelled.
    ///
    /// # Errors
    /// The device does not answer: what it may still use is then kept as if the channel had been
    /// dropped.
    pub async fn close(mut self) -> Result<(), DriverError> {
        self.shut().await?;
        let device = self.device.clone();
        drop(self);
        device.unpin_retired().await
    }

    fn key(&self) -> ChannelKey {
        self.slot.key
    }

    /// `fpga1 C2H 0`.
    fn place(&self) -> String {
        self.slot.shared.place(self.slot.key)
    }

    fn refused(&self, problem: String) -> DriverError {
        DriverError::Refused { place: self.place(), problem }
    }

    /// A transfer of which nothing was posted.
    fn refusal(&self, error: DriverError, total_bytes: u64) -> TransferError {
        TransferError {
            channel: self.place(),
            fault: TransferFault::Refused(Box::new(error)),
            moved_bytes: 0,
            total_bytes,
            address: None,
        }
    }

    async fn read(&self, register: u32) -> Result<u32, DriverError> {
        self.device.read(self.slot.registers() + register).await
    }

    async fn write(&self, register: u32, value: u32) -> Result<(), DriverError> {
        self.device.write(self.slot.registers() + register, value).await
    }
}

impl<B: Bus> Drop for Channel<B> {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        // It may still run: it fetches, and it writes its status block if a link goes down.
        let mut memories: Vec<B::Memory> = self.status.memory.take().into_iter().collect();
        if let Descriptors::Ring { memory, .. } = &mut self.descriptors {
            memories.extend(memory.take());
        }
        let mut claims: Vec<Claim<B>> = self.quarantine.drain(..).collect();
        claims.extend(self.pending.drain(..).filter_map(|pending| pending.claim));
        let abandoned = Abandoned { memories, claims };
        lock(&self.slot.shared.given).abandoned.insert(self.slot.key, abandoned);
    }
}
