// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a session's channels: batches to be sent, and places that packets are received into.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;

use crosslane::driver::{
    Buffer as Registered, ChannelKind, Completed, DriverError, Packet, ReceivedPacket, Target,
    Ticket, Transfer, TransferError,
};
use crosslane::host::Bus;
use crosslane::pcie::units::Picoseconds;

use super::{State, closed};
use crate::call::until_signal;
use crate::error::Failure;
use crate::posted::{ChannelKey, Line, LineKey, PacketsKey, Posted, Waited};

/// Bytes from one place to the next: a multiple of this, so that each begins at a cache line.
pub const STRIDE_BYTES: u64 = 64;
/// Most packets that one look takes in.
const MOST_PACKETS: usize = 1024;

/// A packet that was received, with its bytes.
pub struct Arrived {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// User bits of its last beat.
    pub user: u16,
    /// Whether it has its first and last byte.
    pub is_whole: bool,
}

/// Places that packets of a channel are received into.
pub struct Receiver {
    /// Number in the session.
    number: u64,
    memory: Registered,
    place_bytes: u64,
    /// Places that are posted, by their tickets, oldest first.
    posted: VecDeque<(Ticket, u64)>,
    /// Places that are to be posted.
    free: Vec<u64>,
    /// Packets that nobody has taken, and the fault behind them.
    arrived: VecDeque<Arrived>,
    fault: Option<Failure>,
    /// Coroutines that wait for packets.
    awaited: BTreeSet<u64>,
}

impl Receiver {
    /// Whether there is something that nobody has been told.
    fn is_ready(&self) -> bool {
        !self.arrived.is_empty() || self.fault.is_some()
    }

    /// Whether a coroutine has still to be told that packets have come.
    pub fn has_news(&self) -> bool {
        self.is_ready() && !self.awaited.is_empty()
    }

    /// Whether a coroutine waits for packets that have not come.
    pub fn is_awaited(&self) -> bool {
        !self.is_ready() && !self.awaited.is_empty()
    }

    fn free_before(&mut self, next: Ticket) {
        while let Some(&(ticket, place)) = self.posted.front()
            && ticket < next
        {
            self.posted.pop_front();
            self.free.push(place);
        }
    }

    /// Takes in what the channel has received: the places are free again.
    fn take_in(&mut self, came: Result<Vec<ReceivedPacket>, TransferError>, next: Ticket) {
        match came.map_err(Failure::from).and_then(|packets| self.take_packets_in(packets)) {
            Ok(()) => {}
            Err(failure) => {
                // All that was posted before has ended with it.
                self.free_before(next);
                self.fault.get_or_insert(failure);
            }
        }
    }

    fn take_packets_in(&mut self, packets: Vec<ReceivedPacket>) -> Result<(), Failure> {
        for packet in packets {
            let bytes = packet.read()?;
            if let Some(last) = packet.parts.last() {
                // Those before it that no packet came into have failed.
                self.free_before(Ticket(last.ticket.0 + 1));
            }
            let ReceivedPacket { user, is_whole, .. } = packet;
            self.arrived.push_back(Arrived { bytes, user, is_whole });
        }
        Ok(())
    }
}

/// Outcome that tells a waiter to look at what has arrived.
const COME: Completed =
    Completed { bytes: 0, posted: Picoseconds::ZERO, completed: Picoseconds::ZERO };

impl State {
    /// Sends packets with one doorbell. What is returned ends with the last of them.
    pub fn send_packets(
        &mut self,
        key: LineKey,
        packets: &[Packet],
        deadline: Picoseconds,
    ) -> Result<Posted, Failure> {
        self.line(key)?;
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key).ok_or_else(closed)?;
        // Outcomes of earlier batches that nobody asks for, but that of the last packet.
        while let Some((&last, &first)) = line.batches.first_key_value()
            && !line.open.contains_key(&last)
        {
            line.batches.pop_first();
            for ticket in first..last {
                let known = session.block_on(line.channel.poll(Ticket(ticket)))?;
                drop(known);
            }
        }
        let channel = &mut line.channel;
        let posted = pin!(async {
            match channel.send_packets(packets, deadline).await {
                Err(DriverError::Stopped { .. }) => {
                    channel.restart().await?;
                    channel.send_packets(packets, deadline).await
                }
                posted => posted,
            }
        });
        let tickets = session.block_on(pin!(until_signal(posted)))??;
        let (Some(&Ticket(first)), Some(&Ticket(last))) = (tickets.first(), tickets.last()) else {
            return Err(Failure::argument("there are no packets to be sent"));
        };
        line.open.insert(last, None);
        line.batches.insert(last, first);
        Ok(Posted::Transfer(key, last))
    }

    fn receives_packets(&self, key: ChannelKey) -> bool {
        let is_set = self.options.get(&key).is_some_and(|options| options.packets);
        is_set && key.kind == ChannelKind::C2h
    }

    /// Checks that transfers may be posted to a channel.
    ///
    /// # Errors
    /// It receives packets.
    pub(super) fn check_no_packets(&self, (key, _): LineKey) -> Result<(), Failure> {
        if !self.receives_packets(key) {
            return Ok(());
        }
        let name = self.endpoint(key.card)?;
        let problem = "it is set to receive packets: use packet_receiver()";
        Err(Failure::argument(format!("{name} C2H {}: {problem}", key.number)))
    }

    /// Checks that a channel is to receive packets.
    ///
    /// # Errors
    /// It is not.
    pub fn check_packets(&self, key: ChannelKey) -> Result<(), Failure> {
        if self.receives_packets(key) {
            return Ok(());
        }
        let name = self.endpoint(key.card)?;
        let problem = "it is not set to receive packets: set_channel('c2h', packets=True)";
        Err(Failure::argument(format!("{name} C2H {}: {problem}", key.number)))
    }

    /// Posts places for packets of a channel, and returns the number of their receiver.
    pub fn open_receiver(
        &mut self,
        key: ChannelKey,
        memory: Registered,
        place_bytes: u64,
    ) -> Result<u64, Failure> {
        let line = (key, false);
        if self.line(line)?.receiver.is_some() {
            let name = self.endpoint(key.card)?;
            let problem = format!("{name} C2H {}: a packet receiver is open already", key.number);
            return Err(Failure::busy(problem));
        }
        let number = self.next_number();
        let count = memory.size_bytes() / place_bytes.next_multiple_of(STRIDE_BYTES);
        self.line(line)?.receiver = Some(Receiver {
            number,
            memory,
            place_bytes,
            posted: VecDeque::new(),
            free: (0..count).rev().collect(),
            arrived: VecDeque::new(),
            fault: None,
            awaited: BTreeSet::new(),
        });
        if let Err(failure) = self.post_places(line) {
            self.line(line)?.receiver = None;
            return Err(failure);
        }
        Ok(number)
    }

    /// Posts the places that are free. A channel that has stopped is restarted.
    fn post_places(&mut self, key: LineKey) -> Result<(), Failure> {
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key).ok_or_else(closed)?;
        let (channel, Some(receiver)) = (&mut line.channel, &mut line.receiver) else {
            return Ok(());
        };
        if receiver.free.is_empty() {
            return Ok(());
        }
        let bytes = receiver.place_bytes;
        let transfer = |place: &u64| {
            let start = place * bytes.next_multiple_of(STRIDE_BYTES);
            let target = Target::Buffer(receiver.memory.clone(), start..start + bytes);
            Transfer::new(target, Picoseconds::NEVER)
        };
        // The last one given back is used first: it is still in the caches.
        let transfers: Vec<Transfer> = receiver.free.iter().rev().map(transfer).collect();
        let posted = pin!(async {
            match channel.post(&transfers).await {
                Err(DriverError::Stopped { .. }) => {
                    channel.restart().await?;
                    channel.post(&transfers).await
                }
                posted => posted,
            }
        });
        let tickets = session.block_on(pin!(until_signal(posted)))??;
        receiver.posted.extend(tickets.into_iter().zip(receiver.free.drain(..).rev()));
        Ok(())
    }

    /// Returns a receiver that is open.
    fn receiver(&mut self, key: PacketsKey) -> Result<&mut Receiver, Failure> {
        let found = self.lines.get_mut(&key.line).and_then(|line| line.receiver.as_mut());
        let found = found.filter(|receiver| receiver.number == key.receiver);
        found.ok_or_else(|| Failure::closed("the packet receiver is closed"))
    }

    /// Returns the packets that have arrived, `most` at most, of those that are no longer than
    /// `room_bytes`.
    ///
    /// # Errors
    /// The fault that ended what was posted; a packet that is too long, which stays.
    pub fn take_arrived(
        &mut self,
        key: PacketsKey,
        most: usize,
        room_bytes: u64,
    ) -> Result<Vec<Arrived>, Failure> {
        let receiver = self.receiver(key)?;
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(next) = receiver.arrived.front()
        {
            let bytes = next.bytes.len() as u64;
            if bytes > room_bytes {
                if taken.is_empty() {
                    let problem = format!(
                        "the next packet has {bytes} B, and a row of into= has {room_bytes} B; it \
                         waits for another call"
                    );
                    return Err(Failure::argument(problem));
                }
                break;
            }
            taken.extend(receiver.arrived.pop_front());
        }
        if taken.is_empty()
            && let Some(fault) = receiver.fault.take()
        {
            return Err(fault);
        }
        Ok(taken)
    }

    /// Tells whether packets have arrived, or a fault.
    pub(super) fn packets_known(&mut self, key: PacketsKey) -> Result<Waited, Failure> {
        let receiver = self.receiver(key)?;
        if !receiver.is_ready() {
            return Ok(None);
        }
        receiver.awaited.remove(&key.reception);
        Ok(Some(Ok(COME)))
    }

    pub(super) fn set_packets_awaited(&mut self, key: PacketsKey, is_awaited: bool) {
        let Ok(receiver) = self.receiver(key) else { return };
        if is_awaited {
            receiver.awaited.insert(key.reception);
        } else {
            receiver.awaited.remove(&key.reception);
        }
    }

    pub(super) fn has_receiver(&self, key: PacketsKey) -> bool {
        self.lines.get(&key.line).is_some_and(|line| line.receiver.is_some())
    }

    /// Waits for packets, at most until a time of the bus; with none, only looks.
    pub(super) fn wait_packets(
        &mut self,
        key: PacketsKey,
        until: Picoseconds,
    ) -> Result<Waited, Failure> {
        self.receiver(key)?;
        self.post_places(key.line)?;
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key.line).ok_or_else(closed)?;
        let came = async { Ok::<_, Failure>(line.channel.recv_packets(MOST_PACKETS, until).await) };
        let came = session.block_on(pin!(until_signal(pin!(came))))??;
        self.take_packets(key.line, came)?;
        self.packets_known(key)
    }

    pub(super) fn look_at_packets(&mut self, key: PacketsKey) -> Result<Waited, Failure> {
        let now = self.session.bus().now();
        self.wait_packets(key, now)
    }

    /// Takes in what a channel has received, and posts the places again that are free.
    pub(super) fn take_packets(
        &mut self,
        key: LineKey,
        came: Result<Vec<ReceivedPacket>, TransferError>,
    ) -> Result<(), Failure> {
        let line = self.lines.get_mut(&key).ok_or_else(closed)?;
        let next = line.channel.first_unreceived();
        if let Some(receiver) = &mut line.receiver {
            receiver.take_in(came, next);
        }
        self.post_places(key)
    }

    /// Closes a receiver and its channel: packets that nobody has taken are lost.
    pub fn close_receiver(&mut self, key: PacketsKey) -> Result<(), Failure> {
        if self.receiver(key).is_err() {
            return Ok(());
        }
        let line = self.lines.remove(&key.line).ok_or_else(closed)?;
        let Line { channel, receiver, .. } = line;
        let ended = self.run(channel.close());
        let memory = receiver.map(|receiver| receiver.memory);
        ended?;
        memory.map_or(Ok(()), |memory| self.run(memory.unregister()).map(|_| ()))
    }
}
