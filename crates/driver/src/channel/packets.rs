// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets: sending them, and receiving them from completion records, which the engine writes into
//! the places of their descriptors. `docs/engine.md`, "Packets".

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_host::ErrorKind::{InvalidArgument, Unsupported};
use crosslane_host::{AnyMemory, Bus, DmaMemory};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_regs::engine::channel;
use crosslane_regs::ring_descriptor::{self, record};

use super::Channel;
use super::completion::{KEPT_RESULTS, Known, Watch};
use super::descriptors::Descriptors;
use super::options::{
    ChannelKind, ChannelOptions, Completed, DescriptorSource, Target, Ticket, Transfer,
};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{DriverError, Result, TransferError};
use crate::shared::ChannelKey;

/// A packet to be sent by an H2C channel in packet mode.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its bytes.
    pub target: Target,
    /// `tuser` beside its last beat in the card.
    pub user: u16,
}

impl Packet {
    /// Makes a packet of a part of a buffer, in bytes, with `tuser` 0.
    pub const fn new(buffer: Buffer, part: Range<u64>) -> Self {
        Self { target: Target::Buffer(buffer, part), user: 0 }
    }

    /// Returns the same packet with this `tuser`.
    #[must_use]
    pub fn with_user(self, user: u16) -> Self {
        Self { user, ..self }
    }
}

/// Bytes of a received packet in one posted part of a buffer.
#[derive(Clone, Debug)]
pub struct PacketPart {
    /// Ticket of the transfer that was posted for it.
    pub ticket: Ticket,
    /// The buffer.
    pub buffer: Buffer,
    /// Bytes in the buffer.
    pub range: Range<u64>,
}

/// A packet that a C2H channel in packet mode has received.
#[derive(Clone, Debug)]
pub struct ReceivedPacket {
    /// Its bytes, in order: more than one part if it is longer than what was posted at once.
    pub parts: Vec<PacketPart>,
    /// `tuser` of its last beat; 0 if it is not whole.
    pub user: u16,
    /// Whether it has its first and its last byte. One is not whole if the engine ran out of
    /// descriptors in its midst and drops packets, if its source or this channel was restarted, or
    /// if a link lost a completion record.
    pub is_whole: bool,
}

impl ReceivedPacket {
    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.range.end - part.range.start).sum()
    }

    /// Reads its bytes.
    ///
    /// # Errors
    /// If the buffer cannot be read.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes() as usize];
        let mut at = 0;
        for PacketPart { buffer, range, .. } in &self.parts {
            let end = at + (range.end - range.start) as usize;
            buffer.read(range.start, &mut bytes[at..end])?;
            at = end;
        }
        Ok(bytes)
    }
}

/// A completed descriptor of a packet.
struct Piece {
    part: PacketPart,
    begins: bool,
    ends: bool,
    is_cut: bool,
    user: u16,
}

/// Pieces that have come, and packets that have not been given out.
pub(super) struct Received {
    pieces: VecDeque<Piece>,
    /// The first pieces of the next packet, and whether the first one begins it.
    open: Vec<PacketPart>,
    is_open_whole: bool,
    packets: VecDeque<ReceivedPacket>,
    /// Fault of what was posted behind those packets.
    fault: Option<TransferError>,
    /// Next ticket to look at.
    next: u64,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            open: Vec::new(),
            is_open_whole: true,
            packets: VecDeque::new(),
            fault: None,
            next: 0,
        }
    }
}

impl Received {
    /// Closes the packet that is open, if one is.
    fn close(&mut self, user: u16, ends: bool) {
        let is_whole = std::mem::replace(&mut self.is_open_whole, true) && ends;
        let parts = std::mem::take(&mut self.open);
        if !parts.is_empty() {
            let user = if ends { user } else { 0 };
            self.packets.push_back(ReceivedPacket { parts, user, is_whole });
        }
    }

    /// Adds the next piece.
    fn add(&mut self, piece: Piece) {
        if piece.begins {
            self.close(0, false);
        }
        if self.open.is_empty() {
            self.is_open_whole = piece.begins;
        }
        self.open.push(piece.part);
        if piece.ends || piece.is_cut {
            self.close(piece.user, piece.ends);
        }
    }
}

/// Checks that a channel can move packets, if asked to.
pub(super) fn check(device: &Device, key: ChannelKey, options: ChannelOptions) -> Result<()> {
    let (kind, problem) = match (key, options.descriptors) {
        _ if options.drop_packets && !(options.packets && key.0 == ChannelKind::C2h) => {
            (InvalidArgument, "C2H channels in packet mode drop packets")
        }
        _ if !options.packets => return Ok(()),
        ((ChannelKind::Peer, _) | (_, 1..), _) => {
            (InvalidArgument, "H2C 0 and C2H 0 have a packet mode")
        }
        _ if options.card_memory => {
            (InvalidArgument, "the card's memory has no packets: streams have")
        }
        (_, DescriptorSource::Table | DescriptorSource::CommandPort) => {
            (InvalidArgument, "packets need a ring of descriptors")
        }
        _ if !device.description().packets => (Unsupported, "its engine has no packet mode"),
        _ => return Ok(()),
    };
    Err(DriverError::refused(device.shared().place(key), kind, problem))
}

impl Channel {
    pub(super) fn sends_packets(&self) -> bool {
        self.options.packets && self.key().0 == ChannelKind::H2c
    }

    pub(super) fn receives_packets(&self) -> bool {
        self.options.packets && self.key().0 == ChannelKind::C2h
    }

    /// Posts a batch of packets with one doorbell and one report.
    ///
    /// # Errors
    /// See [`post`](Self::post); a channel that does not send packets.
    pub async fn send_packets(
        &mut self,
        packets: &[Packet],
        deadline: Picoseconds,
    ) -> Result<Vec<Ticket>> {
        if !self.sends_packets() {
            let problem = "packets are sent by H2C channels that were opened for packets";
            return Err(self.refused(InvalidArgument, problem));
        }
        let transfer = |packet: &Packet| Transfer::new(packet.target.clone(), deadline);
        let transfers: Vec<_> = packets.iter().map(transfer).collect();
        let users: Vec<_> = packets.iter().map(|packet| packet.user).collect();
        self.post_batch(&transfers, &users, true).await
    }

    /// Sends one packet and waits until all of it is in the card's stream.
    ///
    /// # Errors
    /// See [`send_packets`](Self::send_packets) and [`wait`](Self::wait).
    pub async fn send_packet(
        &mut self,
        packet: Packet,
        deadline: Picoseconds,
    ) -> Result<Completed, TransferError> {
        let posted = self.send_packets(std::slice::from_ref(&packet), deadline).await;
        match posted.map(|tickets| tickets.first().copied()) {
            Ok(Some(ticket)) => self.wait(ticket).await,
            Ok(None) => unreachable!("a packet that was posted has a ticket"),
            Err(error) => Err(self.refusal(error, packet.target.bytes())),
        }
    }

    /// Waits for the next packet; `None` if none has come by `deadline`. What was posted stays
    /// posted then.
    ///
    /// # Errors
    /// See [`recv_packets`](Self::recv_packets).
    pub async fn recv_packet(
        &mut self,
        deadline: Picoseconds,
    ) -> Result<Option<ReceivedPacket>, TransferError> {
        Ok(self.recv_packets(1, deadline).await?.pop())
    }

    /// Waits for packets in the buffers posted with [`post`](Self::post), and returns those that
    /// have come, `most` at most; none if none has come by `deadline`. Reads no registers while
    /// packets come.
    ///
    /// # Errors
    /// The fault of a channel that has stopped, once for all that was posted; nothing is posted, or
    /// less than the rest of a long packet needs; a channel that does not receive packets.
    pub async fn recv_packets(
        &mut self,
        most: usize,
        deadline: Picoseconds,
    ) -> Result<Vec<ReceivedPacket>, TransferError> {
        if !self.receives_packets() {
            let problem = "packets are received by C2H channels that were opened for packets";
            return Err(self.refusal(self.refused(InvalidArgument, problem), 0));
        }
        let mut watch = Watch::default();
        loop {
            self.finish_what_was_begun().await;
            self.reap_unasked();
            self.take_pieces(most);
            let count = self.received.packets.len().min(most);
            if count > 0 {
                return Ok(self.received.packets.drain(..count).collect());
            }
            if let Some(error) = self.received.fault.take() {
                return Err(error);
            }
            if most == 0 || self.device.bus().now() >= deadline {
                return Ok(Vec::new());
            }
            if self.pending.is_empty() {
                let parts = self.received.open.iter();
                let bytes: u64 = parts.map(|part| part.range.end - part.range.start).sum();
                let problem = match bytes {
                    0 => "nothing is posted that a packet could come into".to_owned(),
                    _ => format!(
                        "a packet is longer than what was posted: {bytes} B of it have come, and \
                         the rest needs more transfers"
                    ),
                };
                return Err(self.refusal(self.refused(InvalidArgument, problem), 0));
            }
            self.advance(0, &mut watch, deadline).await;
        }
    }

    /// Returns the first ticket that a packet may still be given with: of the transfers before,
    /// each was given with a packet or has failed.
    pub fn first_unreceived(&self) -> Ticket {
        let packets = self.received.packets.iter().flat_map(|packet| &packet.parts);
        let first = packets.chain(&self.received.open).next();
        first.map_or(Ticket(self.received.next), |part| part.ticket)
    }

    /// Puts the pieces that have come together, until there are `most` packets.
    fn take_pieces(&mut self, most: usize) {
        let received = &mut self.received;
        while received.packets.len() < most && received.next < self.next_ticket {
            // The fault is told before what was posted after it.
            if received.fault.is_some() && !self.results.has_failed(Ticket(received.next)) {
                break;
            }
            let ticket = Ticket(received.next);
            // Transfers posted behind a fault were cancelled with it: that is one fault.
            let is_good = match self.results.take(ticket) {
                Known::NotYet => break,
                Known::Ended(outcome) => match *outcome {
                    Ok(_) => true,
                    Err(error) => {
                        // Some of the packet may be lost with it.
                        received.close(0, false);
                        received.fault.get_or_insert(error);
                        false
                    }
                },
                Known::Gone => false,
            };
            received.next += 1;
            while received.pieces.front().is_some_and(|next| next.part.ticket <= ticket)
                && let Some(piece) = received.pieces.pop_front()
            {
                if piece.part.ticket == ticket && is_good {
                    received.add(piece);
                }
            }
        }
    }

    /// Reads the counters of packets; zeros if the channel moves none.
    pub(super) async fn packet_counters(&self) -> Result<[u32; 3]> {
        if !self.options.packets {
            return Ok([0; 3]);
        }
        Ok([
            self.read(channel::PACKETS).await?,
            self.read(channel::PACKETS_DROPPED).await?,
            self.read(channel::PACKETS_TRUNCATED).await?,
        ])
    }

    /// Checks that a transfer to be received into is one descriptor: a packet ends its descriptor,
    /// and the next one would go into the rest of the same transfer.
    pub(super) fn check_packet(&self, pieces: &[(BusAddress, u32)]) -> Result<()> {
        if !self.receives_packets() || pieces.len() == 1 {
            return Ok(());
        }
        let problem = format!(
            "the part of the buffer is {} pieces on the bus, and a packet is received into one: \
             post smaller parts, or use huge pages",
            pieces.len()
        );
        Err(self.refused(Unsupported, problem))
    }

    /// Returns the ring, and the offset in it of the record that comes next.
    pub(super) fn next_record(&self) -> (&AnyMemory, u64) {
        let Descriptors::Ring { memory, entries } = &self.descriptors else {
            unreachable!("a channel in packet mode has a ring")
        };
        let place = self.completed % u64::from(*entries) * u64::from(ring_descriptor::BYTES);
        (memory.memory(), place + u64::from(ring_descriptor::RECORD))
    }

    fn read_word(&self, offset_bytes: u64) -> u32 {
        let (memory, _) = self.next_record();
        let mut word = [0; 4];
        // It lies in the ring, so this cannot fail.
        memory.read(offset_bytes, &mut word).map_or(0, |()| u32::from_le_bytes(word))
    }

    /// Ends the transfers whose completion records have come.
    pub(super) fn reap_records(&mut self) {
        while self.receives_packets() && self.completed < self.posted {
            let (_, offset_bytes) = self.next_record();
            let bits = self.read_word(offset_bytes);
            if record::DONE.get(bits) == 0 {
                return;
            }
            let between = u64::from(ring_descriptor::RECORD - ring_descriptor::WRITTEN);
            let written = self.read_word(offset_bytes - between);
            self.end_piece(bits, written);
        }
    }

    /// Ends the transfers that the engine counts as complete and whose records have not come: a
    /// link has lost them, and with them the length.
    pub(super) fn note_lost_records(&mut self, completed: u32) {
        while self.receives_packets()
            && self.completed < self.posted
            && (completed.wrapping_sub(self.completed as u32) as i32) > 0
        {
            self.end_piece(record::CUT.put(1), 0);
        }
    }

    /// Ends the oldest transfer, of which `written` bytes are used.
    fn end_piece(&mut self, bits: u32, written: u32) {
        let ticket = Ticket(self.next_ticket - self.pending.len() as u64);
        let Some(pending) = self.pending.front_mut() else { return };
        // No engine writes more than was posted.
        pending.total_bytes = pending.total_bytes.min(written.into());
        if let Target::Buffer(buffer, part) = &pending.target {
            let range = part.start..part.start + pending.total_bytes;
            self.received.pieces.push_back(Piece {
                part: PacketPart { ticket, buffer: buffer.clone(), range },
                begins: record::BEGINS.get(bits) != 0,
                ends: record::ENDS.get(bits) != 0,
                is_cut: record::CUT.get(bits) != 0,
                user: record::USER.get(bits) as u16,
            });
            if self.received.pieces.len() > KEPT_RESULTS {
                self.received.pieces.pop_front();
            }
        }
        self.end_up_to(self.completed.wrapping_add(1) as u32);
    }
}
