// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Get engine: messages from host memory into the queues of the links.
//!
//! Read first: [`Sending`] for a message; `send.rs` for the path of its datagrams.

use std::collections::VecDeque;

use crosslane_fabric::{DevicePort, Received};
use crosslane_pcie::tlp::Header;
use crosslane_regs::network_notification::NetworkStatus;
use crosslane_torus_link::frame::{Kind, LONG_PAYLOAD_BYTES, Payload};

use super::NetworkProcessor;
use super::outbound::Outbound;
use super::request::{Key, Party, Request, Routing, put_short};
use super::send::Piece;
use crate::kit::{Completed, part_bytes};

/// Message of a host memory read, and the target of its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    key: Key,
    number: u64,
    /// Index of the link channel for its datagrams.
    out: usize,
    /// Number of the run's first datagram in the channel.
    first: u64,
    /// Offset of the read in the run, bytes.
    offset: u32,
}

/// Run of host memory being read.
struct Run {
    address: u64,
    bytes: u32,
    index: u32,
    is_last: bool,
    asked: u32,
    /// Number of its first datagram in the channel, once one exists.
    first: u64,
}

/// Message being read from host memory.
pub(super) struct Sending {
    /// Number that distinguishes it from others with its key.
    pub number: u64,
    token: u16,
    notify: u64,
    out: usize,
    /// Runs not yet requested whole.
    runs: VecDeque<Run>,
    /// Requests that make up the message so far.
    places: u16,
    /// Whether more requests follow.
    is_open: bool,
    /// Index of the next run.
    next_index: u32,
    /// Bytes received from host memory.
    bytes: u32,
    /// Bytes still to come from host memory.
    missing: u32,
    reads: u32,
    /// Whether a datagram of it has gone to the link.
    pub is_begun: bool,
    /// Status with which it ends once its reads have returned.
    ending: Option<NetworkStatus>,
}

impl Sending {
    /// Notes that its reads are lost.
    pub fn reads_lost(&mut self) {
        self.reads = 0;
    }
}

impl NetworkProcessor {
    // --- Requests ------------------------------------------------------------------------------

    /// Takes a valid request of the get aperture.
    pub(super) fn take_get(&mut self, request: &Request, out: usize) {
        let is_open = |sending: &&mut Sending| {
            sending.is_open && sending.token == request.token && sending.ending.is_none()
        };
        let key = request.key;
        let run = Run {
            address: request.address,
            bytes: request.bytes,
            index: request.index,
            is_last: request.is_last,
            asked: 0,
            first: 0,
        };
        let next_index = request.index + request.bytes.div_ceil(self.unit_of(key.party));
        self.get_places += 1;
        if let Some(sending) = self.sending.get_mut(&key).filter(is_open) {
            sending.places += 1;
            sending.notify = request.notify;
            if request.index != sending.next_index {
                let number = sending.number;
                self.counters.refuse();
                self.end_get(key, number, NetworkStatus::Refused);
                return;
            }
            sending.runs.push_back(run);
            sending.missing += request.bytes;
            (sending.is_open, sending.next_index) = (!request.is_last, next_index);
        } else {
            self.messages_begun += 1;
            let number = self.messages_begun;
            let sending = Sending {
                number,
                token: request.token,
                notify: request.notify,
                out,
                runs: VecDeque::from([run]),
                places: 1,
                is_open: !request.is_last,
                next_index,
                bytes: 0,
                missing: request.bytes,
                reads: 0,
                is_begun: false,
                ending: None,
            };
            self.sending.insert(key, sending);
            self.channels[out].messages.push_back((key, number));
        }
        if request.is_last {
            self.counters.gets = self.counters.gets.wrapping_add(1);
        }
        self.line_up(out);
    }

    /// Whether the request is the next run of the get with its key; `None` without such a get.
    pub(super) fn get_of(&self, request: &Request) -> Option<bool> {
        let sending = self.sending.get(&request.key)?;
        let is_next = sending.is_open && sending.token == request.token;
        Some(is_next && sending.ending.is_none())
    }

    pub(super) fn cancel_get(&mut self, request: &Request) {
        let sending = self.sending.get(&request.key);
        if let Some(sending) = sending.filter(|sending| sending.token == request.token) {
            self.end_get(request.key, sending.number, NetworkStatus::Cancelled);
        }
    }

    /// Ends a get in progress and drops the rest of it.
    pub(super) fn end_get(&mut self, key: Key, number: u64, status: NetworkStatus) {
        let Some(sending) = self.sending.get_mut(&key).filter(|found| found.number == number)
        else {
            return;
        };
        if sending.ending.is_some() {
            return;
        }
        sending.ending = Some(status);
        sending.runs.clear();
        let out = sending.out;
        for piece in &mut self.channels[out].pieces {
            if piece.key == key && piece.number == number {
                piece.is_void = true;
            }
        }
        self.requester.abandon(|target| target.key == key && target.number == number);
        self.sendable(out);
        self.finish_get(key);
        self.line_up(out);
    }

    /// Ends the get with a key, if one exists.
    pub(super) fn end_open_get(&mut self, key: Key, status: NetworkStatus) {
        if let Some(number) = self.sending.get(&key).map(|sending| sending.number) {
            self.end_get(key, number, status);
        }
    }

    /// Ends all gets with datagrams for a link, or for any link.
    pub(super) fn end_gets(&mut self, link: Option<u8>, status: NetworkStatus) {
        let is_meant =
            |sending: &Sending| link.is_none_or(|link| sending.out / 8 == usize::from(link));
        let meant = self.sending.iter().filter(|(_, sending)| is_meant(sending));
        let meant: Vec<(Key, u64)> = meant.map(|(key, sending)| (*key, sending.number)).collect();
        for (key, number) in meant {
            // The link discards what it has received, so no abort is needed.
            if let Some(sending) = self.sending.get_mut(&key) {
                sending.is_begun = false;
            }
            self.end_get(key, number, status);
        }
    }

    /// Sends the notification of a get that has ended, and removes it.
    fn finish_get(&mut self, key: Key) {
        let Some(sending) = self.sending.get(&key).filter(|sending| sending.reads == 0) else {
            return;
        };
        let is_whole = !sending.is_open && sending.missing == 0 && sending.runs.is_empty();
        let status = match sending.ending {
            Some(status) => status,
            None if is_whole => NetworkStatus::Done,
            None => return,
        };
        let Some(sending) = self.sending.remove(&key) else { return };
        let (places, taken) = (u32::from(sending.places), self.get_places);
        assert!(places <= taken, "a message gives back {places} places, of {taken} that are taken");
        self.get_places -= places;
        if status != NetworkStatus::Done && sending.is_begun {
            let payload_bytes = self.parameters.payload_bytes();
            let (kind, payload) = abort(key.party, self.node, payload_bytes);
            self.channels[sending.out].aborts.push_back((key.tag, kind, payload));
            self.sendable(sending.out);
        }
        let Sending { notify, token, bytes, .. } = sending;
        self.outbound.push_back(Outbound::Notify { address: notify, token, status, bytes });
    }

    // --- Reads of host memory ------------------------------------------------------------------

    /// Lines up a channel that may have host memory to read.
    pub(super) fn line_up(&mut self, out: usize) {
        let channel = &mut self.channels[out];
        if !channel.messages.is_empty() && !std::mem::replace(&mut channel.in_line, true) {
            self.line.push_back(out);
        }
    }

    /// Requests the next data of a channel. Returns whether it did anything.
    pub(super) fn ask(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.line.is_empty() || !self.requester.can_read(port) {
            return false;
        }
        let Some(out) = self.line.pop_front() else { return false };
        self.channels[out].in_line = false;
        let Some(&(key, number)) = self.channels[out].messages.front() else { return true };
        let sending = self.sending.get(&key);
        let Some(sending) =
            sending.filter(|found| found.number == number && found.ending.is_none())
        else {
            self.channels[out].messages.pop_front();
            self.line_up(out);
            return true;
        };
        if sending.runs.is_empty() {
            // A message with further runs keeps its position.
            if !sending.is_open {
                self.channels[out].messages.pop_front();
                self.line_up(out);
            }
            return true;
        }
        if !self.function.is_bus_master {
            self.end_get(key, number, NetworkStatus::HostMemory);
            return true;
        }
        if self.ask_for(out, key, port) {
            self.line_up(out);
        }
        true
    }

    /// Requests the next data of a message. Returns whether its channel can continue.
    fn ask_for(&mut self, out: usize, key: Key, port: &mut DevicePort<'_>) -> bool {
        let most = self.requester.limit_bytes(&self.function);
        let payload_bytes = self.parameters.payload_bytes();
        let staging = (self.parameters.staging_bytes / payload_bytes) as usize;
        let own_node = self.node;
        let unit = key.party.unit(payload_bytes);
        let channel = &mut self.channels[out];
        let Some(sending) = self.sending.get_mut(&key) else { return true };
        let number = sending.number;
        let Some(run) = sending.runs.front_mut() else { return true };
        let address = run.address + u64::from(run.asked);
        let bytes = part_bytes(address, (run.bytes - run.asked).into(), most);
        let begun = run.asked.div_ceil(unit);
        // A message of no bytes still takes one datagram.
        let ends = (run.asked + bytes).div_ceil(unit).max(1);
        if channel.pieces.len() + (ends - begun) as usize > staging {
            return false;
        }
        if run.asked == 0 {
            run.first = channel.base + channel.pieces.len() as u64;
        }
        for place in begun..ends {
            let length = unit.min(run.bytes - place * unit);
            let is_last = run.is_last && (place + 1) * unit >= run.bytes;
            let index = run.index + place;
            let routing =
                Routing { destination: 0, source: own_node, index, bytes: length, is_last };
            let (kind, payload) = empty(key.party, routing, payload_bytes);
            channel.pieces.push_back(Piece {
                key,
                number,
                kind,
                index: if kind == Kind::Routed { 0 } else { index as u16 },
                payload,
                missing: length,
                ready_ps: port.now_ps(),
                is_void: false,
            });
        }
        let (first, offset) = (run.first, run.asked);
        run.asked += bytes;
        if run.asked == run.bytes {
            sending.runs.pop_front();
        }
        if bytes == 0 {
            self.sendable(out);
            self.finish_get(key);
            return true;
        }
        sending.reads += 1;
        self.reading += 1;
        let target = Target { key, number, out, first, offset };
        self.requester.read(target, address, bytes, &self.function, port);
        true
    }

    pub(super) fn time_out_reads(&mut self, port: &mut DevicePort<'_>) {
        for target in self.requester.time_out(port) {
            self.read_ended(&target, Err(NetworkStatus::HostMemory));
        }
    }

    pub(super) fn take_completion(
        &mut self,
        tlp: Received,
        header: &Header,
        port: &mut DevicePort<'_>,
    ) {
        match self.requester.complete(header, port) {
            Completed::Nothing => {}
            Completed::Dropped(target) => self.read_ended(&target, Ok(())),
            Completed::Failed(target) => {
                self.read_ended(&target, Err(NetworkStatus::HostMemory));
            }
            Completed::Data { target, skip, offset, bytes, ends } => {
                let from = skip as usize..(skip + bytes) as usize;
                let ready_ps = port.now_ps() + self.parameters.send_latency.0;
                let data = port.payload(tlp).get(from).unwrap_or_default();
                self.take_data(&target, target.offset + offset, data, ready_ps);
                if ends {
                    self.read_ended(&target, Ok(()));
                }
            }
        }
    }

    /// Returns the bytes of a message in each full datagram to or from a party.
    pub(super) fn unit_of(&self, party: Party) -> u32 {
        party.unit(self.parameters.payload_bytes())
    }

    /// Takes data of a run, starting at `offset`.
    fn take_data(&mut self, target: &Target, offset: u32, data: &[u8], ready_ps: u64) {
        let Some(sending) = self.sending.get_mut(&target.key) else { return };
        let (own, number) = (sending.number, target.number);
        assert!(own == number, "data of message {number} come for message {own}");
        let (bytes, missing) = (data.len() as u32, sending.missing);
        assert!(bytes <= missing, "{bytes} B of message {number} come, and it lacks {missing} B");
        sending.bytes += bytes;
        sending.missing -= bytes;
        let (unit, lead) = (self.unit_of(target.key.party) as usize, target.key.party.lead());
        let channel = &mut self.channels[target.out];
        let (mut at, mut left) = (offset as usize, data);
        while !left.is_empty() {
            let count = left.len().min(unit - at % unit);
            let (part, rest) = left.split_at(count);
            let place = (target.first + (at / unit) as u64).checked_sub(channel.base);
            let piece = place.and_then(|place| channel.pieces.get_mut(place as usize));
            if let Some(piece) = piece
                && let Some(payload) = Payload::get_mut(&mut piece.payload)
            {
                let begin = lead + at % unit;
                payload[begin..begin + count].copy_from_slice(part);
                let missing = piece.missing;
                assert!(count as u32 <= missing, "{count} B for a datagram that lacks {missing} B");
                piece.missing -= count as u32;
                piece.ready_ps = ready_ps;
            }
            (at, left) = (at + count, rest);
        }
        self.sendable(target.out);
    }

    fn read_ended(&mut self, target: &Target, result: Result<(), NetworkStatus>) {
        let number = target.number;
        assert!(self.reading > 0, "a read of message {number} ends, and none is under way");
        self.reading -= 1;
        let sending = self.sending.get_mut(&target.key);
        let Some(sending) = sending.filter(|found| found.number == target.number) else { return };
        assert!(sending.reads > 0, "a read of message {number} ends, which has none");
        sending.reads -= 1;
        if let Err(status) = result {
            self.end_get(target.key, target.number, status);
        }
        self.finish_get(target.key);
    }
}

/// Returns a message's datagram whose bytes of data are still to come; `routing` says where it
/// lies in the message.
fn empty(party: Party, routing: Routing, payload_bytes: u32) -> (Kind, Payload) {
    let mut payload = [0; LONG_PAYLOAD_BYTES];
    let payload = &mut payload[..payload_bytes as usize];
    let kind = match party {
        Party::Node(destination) => {
            Routing { destination, ..routing }.put(payload);
            Kind::Routed
        }
        Party::Neighbour { .. } if !routing.is_last => Kind::Middle,
        Party::Neighbour { .. } if routing.bytes == payload_bytes => Kind::Last,
        Party::Neighbour { .. } => {
            put_short(payload, Some(routing.bytes as usize));
            Kind::Short
        }
    };
    (kind, Payload::from(&*payload))
}

/// Returns the datagram that aborts a message.
fn abort(party: Party, source: u16, payload_bytes: u32) -> (Kind, Payload) {
    match party {
        Party::Node(_) => {
            let routing = Routing { destination: 0, source, index: 0, bytes: 0, is_last: true };
            empty(party, routing, payload_bytes)
        }
        Party::Neighbour { .. } => {
            let mut payload = [0; LONG_PAYLOAD_BYTES];
            let payload = &mut payload[..payload_bytes as usize];
            put_short(payload, None);
            (Kind::Short, Payload::from(&*payload))
        }
    }
}
