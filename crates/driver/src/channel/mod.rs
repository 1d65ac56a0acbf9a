// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels, to which transfers are posted.
//!
//! A channel has one account of descriptors: `posted` and `completed`, absolute since its last
//! restart, as the engine counts them. The account is whole at every await, so a future may be
//! dropped at any point: the next call finishes its work.

mod completion;
mod descriptors;
mod options;
mod packets;
mod posting;
mod push;
mod recovery;
mod setup;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use crosslane_host::{AnyMemory, Call, ErrorKind, lock};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_regs::engine::channel;

use crate::buffer::Claim;
use crate::connection::Connection;
use crate::device::Device;
use crate::error::{DriverError, Result, TransferError, TransferFault};
use crate::shared::{Abandoned, ChannelKey, OpenChannel};
use crate::window::Window;
use completion::Results;
use descriptors::{Descriptor, Descriptors, StatusBlock};
pub use options::{
    ChannelCounters, ChannelKind, ChannelOptions, Completed, CompletionLevel, DescriptorSource,
    Notification, Statistics, Target, Ticket, Transfer,
};
pub use packets::{Packet, PacketPart, ReceivedPacket};
use posting::Ready;
pub use push::INLINE_BYTES;
use recovery::Cause;
pub(crate) use setup::payload_on_the_way;

/// A transfer in flight.
struct Pending {
    target: Target,
    level: CompletionLevel,
    deadline: Picoseconds,
    total_bytes: u64,
    /// Number of the first descriptor.
    first: u64,
    /// Number of the descriptor after the last.
    end: u64,
    /// Time of the doorbell.
    posted: Picoseconds,
    /// Whether the result has been handed out already (level accepted).
    is_given: bool,
    /// The claimed part of the buffer.
    claim: Option<Claim>,
    /// Connection to the receive queue that the transfer goes to.
    connection: Option<Arc<Connection>>,
}

enum State {
    /// Takes transfers.
    Running,
    /// Must be stopped and restarted; not finished.
    Recovering(Cause),
    /// Stopped with this fault.
    Stopped(TransferFault),
}

/// An open channel. It has one owner; share work by opening one channel each.
///
/// Dropping it without [`close`](Self::close) frees nothing: the device keeps the ring, status
/// block and claimed parts of buffers until the channel is opened again, or for good.
pub struct Channel {
    device: Device,
    slot: OpenChannel,
    options: ChannelOptions,
    descriptors: Descriptors,
    status: StatusBlock,
    state: State,
    /// Connection that the peer channel's registers and its receive queue were set up for.
    applied: Option<Weak<Connection>>,
    /// Error bits of every port at the opening of the channel.
    baseline: Vec<(RoutingId, u32)>,
    /// Descriptors posted since the last restart.
    posted: u64,
    /// Descriptors complete since the last restart.
    completed: u64,
    /// Sequence number of the status block read last.
    seen: u32,
    /// Whether the doorbell must still be rung.
    doorbell_due: bool,
    /// Its line in the push aperture, if it pushes descriptors.
    line: Option<Window>,
    /// Line to be pushed before the doorbell that is due.
    line_due: Option<push::Line>,
    /// Whether the engine has been told to stop for good.
    is_closed: bool,
    /// Descriptors of the last batch that are not written yet.
    unwritten: Vec<Descriptor>,
    /// Whether descriptors may have been written but never posted, because their future was dropped
    /// or the device did not answer.
    has_unposted: bool,
    pending: VecDeque<Pending>,
    /// Parts of buffers whose transfers failed, kept until the channel has been restarted.
    quarantine: Vec<Claim>,
    results: Results,
    received: packets::Received,
    next_ticket: u64,
    statistics: Statistics,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({}, {} pending)", self.place(), self.pending.len())
    }
}

impl Channel {
    /// Posts transfers: writes descriptors, then rings the doorbell once. A single descriptor with
    /// nothing before it in flight is pushed first, where the channel [`pushes`](Self::pushes). A
    /// batch longer than the engine's prefetch gets an early doorbell as soon as that much is
    /// written. Posts all or nothing. Waits for room if transfers in flight fill the ring or table.
    ///
    /// # Errors
    /// An invalid transfer (empty, beyond its buffer, not aligned to 4 B, already in flight, of the
    /// wrong kind, or with a level that the channel cannot promise), a batch larger than the ring
    /// or table, or a stopped channel.
    pub async fn post(&mut self, transfers: &[Transfer]) -> Result<Vec<Ticket>> {
        self.post_batch(transfers, &[], true).await
    }

    /// Posts transfers without interrupts: a channel that sleeps until an interrupt learns of their
    /// completion with the next transfer that has one, so post such a transfer after them.
    ///
    /// # Errors
    /// See [`post`](Self::post).
    pub async fn post_unreported(&mut self, transfers: &[Transfer]) -> Result<Vec<Ticket>> {
        self.post_batch(transfers, &[], false).await
    }

    /// Posts one transfer and waits for it.
    ///
    /// # Errors
    /// See [`post`](Self::post) and [`wait`](Self::wait).
    pub async fn transfer(&mut self, transfer: Transfer) -> Result<Completed, TransferError> {
        let posted = self.post(std::slice::from_ref(&transfer)).await;
        match posted.map(|tickets| tickets.first().copied()) {
            Ok(Some(ticket)) => self.wait(ticket).await,
            Ok(None) => unreachable!("a transfer that was posted has a ticket"),
            Err(error) => Err(self.refusal(error, transfer.target.bytes())),
        }
    }

    /// Stops the channel and cancels every incomplete transfer; the `wait` of each reports how much
    /// was moved. The channel then takes new transfers. A peer channel's receive queue is emptied
    /// too.
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn cancel(&mut self) -> Result<()> {
        self.recover(Cause::Cancelled).await;
        self.check_recovered()
    }

    /// Restarts a stopped channel. Transfers queued behind the failed one are reported as not
    /// begun. A peer channel's receive queue is emptied too. On a running channel it is the same as
    /// [`cancel`](Self::cancel).
    ///
    /// # Errors
    /// The device does not answer.
    pub async fn restart(&mut self) -> Result<()> {
        self.cancel().await
    }

    /// Returns the interrupt vector of its completions; `None` if it polls.
    pub fn vector(&self) -> Option<u16> {
        self.slot.vector
    }

    /// Returns the host's counters.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Reads the engine's counters.
    ///
    /// # Errors
    /// The device does not answer.
    pub fn counters(&self) -> Call<'_, Result<ChannelCounters>> {
        Box::pin(async move {
            let (device, base) = (&self.device, self.slot.registers());
            let pair = async |low, high| device.read_pair(base + low, base + high).await;
            let read = async |register| device.read(base + register).await;
            let [packets, packets_dropped, packets_truncated] = self.packet_counters().await?;
            let [pushed, pushes_dropped] = match self.line {
                Some(_) => [read(channel::PUSHED).await?, read(channel::PUSHES_DROPPED).await?],
                None => [0; 2],
            };
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
                packets,
                packets_dropped,
                packets_truncated,
                pushed,
                pushes_dropped,
            })
        })
    }

    /// Stops the channel and gives it back. Incomplete transfers are cancelled.
    ///
    /// # Errors
    /// The device does not answer: the memory that it may still use is then kept, as after a drop.
    pub async fn close(mut self) -> Result<()> {
        self.shut().await?;
        let device = self.device.clone();
        drop(self);
        device.unpin_retired().await
    }

    fn key(&self) -> ChannelKey {
        self.slot.key
    }

    /// Name for messages: `fpga1 C2H 0`.
    fn place(&self) -> String {
        self.slot.shared.place(self.slot.key)
    }

    fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        DriverError::refused(self.place(), kind, problem)
    }

    /// Error of a transfer that was never posted.
    fn refusal(&self, error: DriverError, total_bytes: u64) -> TransferError {
        TransferError {
            channel: self.place(),
            fault: TransferFault::Refused(Box::new(error)),
            moved_bytes: 0,
            total_bytes,
            address: None,
        }
    }

    async fn read(&self, register: u32) -> Result<u32> {
        self.device.read(self.slot.registers() + register).await
    }

    async fn write(&self, register: u32, value: u32) -> Result<()> {
        self.device.write(self.slot.registers() + register, value).await
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        // The channel may still run: it fetches, and it writes its status block if a link goes
        // down.
        let mut memories: Vec<AnyMemory> = self.status.memory.take().into_iter().collect();
        if let Descriptors::Ring { memory, .. } = &mut self.descriptors {
            memories.extend(memory.take());
        }
        let mut claims: Vec<Claim> = self.quarantine.drain(..).collect();
        claims.extend(self.pending.drain(..).filter_map(|pending| pending.claim));
        let abandoned = Abandoned { memories, claims };
        lock(&self.slot.shared.given).abandoned.insert(self.slot.key, abandoned);
    }
}
