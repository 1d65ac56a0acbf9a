// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handling of the packets of the network, in the order of their arrival. Data go into host memory
//! by posted writes, as fast as the host takes them.
//!
//! A write is acknowledged once a read of no bytes sent after its data has returned, because
//! programs of the receiving node can then see the data (PCIe 6.x 2.4.1: a read does not pass a
//! posted write). One such flush covers all earlier writes.

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Class;

use super::layout::{Entry, EntryKind, Operation, Status};
use super::packet::{Kind, Packet};
use super::pair::{Response, Role};
use super::request::{Purpose, Target};
use super::{Nic, STEP};
use crate::kit::{part_bytes, send_write};

/// Outcome of placing a packet.
enum Placed {
    /// The packet is done.
    Whole,
    /// One more of its TLPs has been sent, and others follow.
    Part,
    /// The packet must wait.
    Not,
}

impl Nic {
    /// Proceeds with the oldest packet received. Returns whether it did anything.
    pub(super) fn place(&mut self, port: &mut DevicePort<'_>) -> bool {
        let latency_ps = self.parameters.packet_latency.0;
        let Some(link) = self.link.as_mut() else { return false };
        if !link.has_packet(port.now_ps(), latency_ps) {
            return false;
        }
        let Some((ready_ps, packet)) = link.inbound.pop_front() else { return false };
        let placed = self.place_packet(&packet, port);
        let Some(link) = self.link.as_mut() else { return false };
        match placed {
            Placed::Whole => {
                let back_ps = port.now_ps() + link.parameters.latency.0;
                let (far, bytes) = (link.far, packet.wire_bytes(&link.parameters));
                link.placed_bytes = 0;
                let other = port.other::<Self>(far).and_then(|other| other.link.as_mut());
                if other.is_some_and(|link| link.give_room(back_ps, bytes)) {
                    port.timer_of(far, back_ps, STEP);
                }
                true
            }
            Placed::Part => {
                link.inbound.push_front((ready_ps, packet));
                true
            }
            Placed::Not => {
                link.inbound.push_front((ready_ps, packet));
                false
            }
        }
    }

    fn place_packet(&mut self, packet: &Packet, port: &mut DevicePort<'_>) -> Placed {
        let now_ps = port.now_ps();
        let number = packet.to;
        let Some(pair) = self.pair(number).filter(|pair| pair.is_connected()) else {
            return Placed::Whole;
        };
        let has_data = !packet.payload.is_empty();
        if has_data && !port.has_room_for(Class::Posted) {
            return Placed::Not;
        }
        pair.sign_ps = now_ps;
        match packet.kind {
            Kind::Write { .. } => self.place_write(packet, port),
            Kind::ReadResponse { offset, .. } => self.place_response(packet, offset, port),
            Kind::Send => self.place_message(packet, port),
            Kind::ReadRequest { key, address, bytes } => {
                self.take_read_request(packet, (key, address, bytes), port);
                Placed::Whole
            }
            Kind::Acknowledge { messages } => {
                self.acknowledged(number, packet.message, messages);
                Placed::Whole
            }
            Kind::Refusal { status } => {
                let id = pair.request(packet.message).map(|request| request.work.id);
                self.end_with(number, id.map(|id| (id, status)), port);
                Placed::Whole
            }
            Kind::Disconnect => {
                self.end_pair(number, Status::ClosedThere, port);
                Placed::Whole
            }
        }
    }

    /// Writes the next bytes of a packet's payload to `place`: a bus address and the bytes
    /// available there.
    fn put(&mut self, packet: &Packet, place: (u64, u64), port: &mut DevicePort<'_>) -> Placed {
        let most = self.parameters.max_write_bytes.min(self.function.max_payload_bytes);
        let Some(link) = self.link.as_mut() else { return Placed::Whole };
        let begin = link.placed_bytes as usize;
        let left = (packet.payload.len() - begin) as u64;
        let (address, run) = place;
        let bytes = part_bytes(address, left.min(run), most) as usize;
        send_write(address, &packet.payload[begin..begin + bytes], port);
        link.placed_bytes += bytes as u32;
        let (placed, all) = (link.placed_bytes as usize, packet.payload.len());
        assert!(bytes > 0 && placed <= all, "{placed} B of a packet of {all} B are placed");
        let is_whole = begin + bytes == packet.payload.len();
        if let Some(pair) = self.pair(packet.to) {
            pair.placed_address = address;
        }
        if is_whole { Placed::Whole } else { Placed::Part }
    }

    fn placed_bytes(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.placed_bytes.into())
    }

    // --- The other end's requests --------------------------------------------------------------

    fn place_write(&mut self, packet: &Packet, port: &mut DevicePort<'_>) -> Placed {
        let Kind::Write { key, address, offset, bytes } = packet.kind else {
            return Placed::Whole;
        };
        let done = self.placed_bytes();
        if offset == 0 && done == 0 {
            let checked = self.regions.check(key, address, bytes, |access| access.write);
            if let Err(status) = checked {
                self.refuse(packet, status, port);
                return Placed::Whole;
            }
        }
        if !packet.payload.is_empty() {
            let Some(place) = self.regions.locate(key, address + done) else {
                self.refuse(packet, Status::FarAccess, port);
                return Placed::Whole;
            };
            let placed = self.put(packet, place, port);
            if let Some(pair) = self.pair(packet.to) {
                pair.is_unflushed = true;
            }
            if !matches!(placed, Placed::Whole) {
                return placed;
            }
        }
        if packet.is_last() {
            self.placed_whole(packet);
        }
        Placed::Whole
    }

    fn place_message(&mut self, packet: &Packet, port: &mut DevicePort<'_>) -> Placed {
        let done = self.placed_bytes();
        let Some(pair) = self.pair(packet.to) else { return Placed::Whole };
        if pair.received == pair.may_receive {
            self.refuse(packet, Status::FarBounds, port);
            return Placed::Whole;
        }
        let offset = pair.layout.message_offset(pair.received) + done;
        let place = pair.memory.locate(offset);
        if !packet.payload.is_empty() {
            let Some(place) = place else { return Placed::Whole };
            let placed = self.put(packet, place, port);
            if !matches!(placed, Placed::Whole) {
                return placed;
            }
        }
        let bytes = packet.payload.len() as u32;
        if let Some(pair) = self.pair(packet.to) {
            pair.received = pair.received.wrapping_add(1);
        }
        let entry = Entry { kind: EntryKind::Message { bytes }, status: Status::Done };
        self.entries.push_back((packet.to, entry));
        self.placed_whole(packet);
        Placed::Whole
    }

    fn take_read_request(
        &mut self,
        packet: &Packet,
        (key, address, bytes): (u32, u64, u64),
        port: &mut DevicePort<'_>,
    ) {
        let limit = usize::from(self.parameters.outstanding_reads);
        let checked = self.regions.check(key, address, bytes, |access| access.read);
        let Some(pair) = self.pair(packet.to) else { return };
        let checked = match pair.responses.len() < limit {
            true => checked,
            false => Err(Status::BadRequest),
        };
        if let Err(status) = checked {
            self.refuse(packet, status, port);
            return;
        }
        let message = packet.message;
        pair.responses.push_back(Response { message, key, address, bytes, prepared: 0 });
        self.line_up_make(packet.to, Role::Responder);
    }

    /// Notes that the host has been handed a whole write or message.
    fn placed_whole(&mut self, packet: &Packet) {
        let Some(pair) = self.pair(packet.to) else { return };
        pair.placed = packet.message;
        self.look_at_placed(packet.to);
    }

    /// Sends the acknowledgements that are due, or requests a flush.
    fn look_at_placed(&mut self, number: u32) {
        let Some(pair) = self.pair(number) else { return };
        if pair.flushing > 0 || pair.placed == pair.acknowledged {
            return;
        }
        if !pair.is_unflushed {
            pair.acknowledged = pair.placed;
            self.line_up_acknowledge(number);
        } else if !std::mem::replace(&mut pair.in_flush_line, true) {
            self.flush_line.push_back(number);
        }
    }

    pub(super) fn ask_flush(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(number) = self.flush_line.pop_front() else { return false };
        let Some(pair) = self.pair(number).filter(|pair| pair.is_connected()) else {
            return true;
        };
        pair.in_flush_line = false;
        pair.flushing = pair.placed;
        pair.is_unflushed = false;
        let address = pair.placed_address;
        self.read(Target { pair: number, purpose: Purpose::Flush }, address, 0, port);
        true
    }

    /// Handles the end of a flush: earlier writes can be seen.
    pub(super) fn flushed(&mut self, number: u32) {
        let Some(pair) = self.pair(number).filter(|pair| pair.is_connected()) else { return };
        pair.acknowledged = pair.flushing;
        pair.flushing = 0;
        self.line_up_acknowledge(number);
        self.look_at_placed(number);
    }

    /// Notes that a program has taken `taken` messages since the start.
    pub(super) fn free_messages(&mut self, number: u32, taken: u32) {
        let Some(pair) = self.pair(number).filter(|pair| pair.is_connected()) else { return };
        // Ignore a count above the messages received.
        if pair.received.wrapping_sub(taken) > pair.layout.messages {
            return;
        }
        pair.may_receive = taken.wrapping_add(pair.layout.messages);
        let news = pair.may_receive.wrapping_sub(pair.told);
        if news >= pair.layout.messages.div_ceil(2) || pair.told == pair.received {
            self.line_up_acknowledge(number);
        }
    }

    /// Refuses a request of the other end and ends the connection, as a reliable connection does.
    fn refuse(&mut self, packet: &Packet, status: Status, port: &mut DevicePort<'_>) {
        let Some(pair) = self.pair(packet.to) else { return };
        let (to, message) = (pair.far, packet.message);
        let kind = Kind::Refusal { status };
        self.notices.push_back(Packet { to, message, kind, payload: Vec::new() });
        self.end_pair(packet.to, Status::RefusedHere, port);
    }

    /// Handles a failed read of host memory.
    pub(super) fn read_failed(&mut self, target: Target, port: &mut DevicePort<'_>) {
        let number = target.pair;
        let index = match target.purpose {
            Purpose::Payload { packet, .. } => Some(packet as usize),
            Purpose::Fetch | Purpose::Flush => None,
        };
        let made = index.and_then(|index| self.made.get(index)?.as_ref());
        let made = made.map(|made| (made.role, made.packet.to, made.packet.message));
        match made {
            Some((Role::Responder, to, message)) => {
                let kind = Kind::Refusal { status: Status::FarMemory };
                self.notices.push_back(Packet { to, message, kind, payload: Vec::new() });
                self.end_pair(number, Status::RefusedHere, port);
            }
            Some((Role::Requester, _, message)) => {
                let id = self.pair(number).and_then(|pair| Some(pair.request(message)?.work.id));
                self.end_with(number, id.map(|id| (id, Status::HostMemory)), port);
            }
            None => self.end_pair(number, Status::HostMemory, port),
        }
    }

    // --- Answers to own requests ---------------------------------------------------------------

    fn place_response(
        &mut self,
        packet: &Packet,
        offset: u64,
        port: &mut DevicePort<'_>,
    ) -> Placed {
        let done = self.placed_bytes();
        let Some(pair) = self.pair(packet.to) else { return Placed::Whole };
        let Some(work) = pair.request(packet.message).map(|request| request.work) else {
            return Placed::Whole;
        };
        if !packet.payload.is_empty() {
            let near = work.near_address + offset + done;
            let Some(place) = self.regions.locate(work.near_key, near) else {
                self.end_with(packet.to, Some((work.id, Status::NearMemory)), port);
                return Placed::Whole;
            };
            let placed = self.put(packet, place, port);
            if !matches!(placed, Placed::Whole) {
                return placed;
            }
        }
        if packet.is_last() {
            let Some(pair) = self.pair(packet.to) else { return Placed::Whole };
            let reading = pair.reading;
            assert!(reading > 0, "message {} is read, and no read is under way", packet.message);
            pair.reading = reading - 1;
            if let Some(request) = pair.request(packet.message) {
                request.is_done = true;
            }
            self.complete(packet.to);
            self.line_up_make(packet.to, Role::Requester);
        }
        Placed::Whole
    }

    fn acknowledged(&mut self, number: u32, message: u64, messages: u32) {
        let Some(pair) = self.pair(number) else { return };
        pair.may_send = messages;
        let (first, begun) = (pair.first_message, pair.begun);
        for (at, request) in (first..).zip(&mut pair.requests).take(begun) {
            if at > message {
                break;
            }
            request.is_done |= request.work.operation != Operation::Read;
        }
        self.complete(number);
        self.line_up_make(number, Role::Requester);
    }

    /// Completes the finished work requests in order.
    fn complete(&mut self, number: u32) {
        while let Some(pair) = self.pair(number)
            && let Some(first) = pair.requests.front().filter(|first| first.is_done)
        {
            let id = first.work.id;
            pair.requests.pop_front();
            assert!(pair.begun > 0, "work request {id} is done and was never begun");
            pair.begun -= 1;
            pair.first_message += 1;
            let entry = Entry { kind: EntryKind::Request { id }, status: Status::Done };
            self.entries.push_back((number, entry));
        }
    }

    /// Writes the next completion entry to the host if there is one and the link has room.
    pub(super) fn write_entry(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.entries.is_empty() || !port.has_room_for(Class::Posted) {
            return false;
        }
        let Some((number, entry)) = self.entries.pop_front() else { return false };
        let Some(pair) = self.pair(number) else { return true };
        let (count, layout) = (pair.entries, pair.layout);
        pair.entries = count.wrapping_add(1);
        let Some((address, _)) = pair.memory.locate(layout.entry_offset(count)) else {
            return true;
        };
        send_write(address, &entry.to_bytes(layout.entry_turn(count)), port);
        true
    }
}
