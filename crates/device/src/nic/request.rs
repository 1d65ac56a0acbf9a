// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that a NIC starts itself: fetching work requests, building packets of them and of the other
//! end's reads, and reading payloads from host memory.

use crosslane_fabric::{DevicePort, Received};
use crosslane_pcie::tlp::Header;

use super::layout::{Operation, REQUEST_BYTES, Status, WorkRequest};
use super::packet::{Kind, Packet};
use super::pair::{Request, Role};
use super::{Made, Nic};
use crate::kit::{Completed, part_bytes};

/// Purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Fetch of work requests.
    Fetch,
    /// Payload of a packet from an offset.
    Payload { packet: u32, offset: u32 },
    /// Check that earlier writes can be seen.
    Flush,
}

/// Queue pair and purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub pair: u32,
    pub purpose: Purpose,
}

/// Packet whose data are being requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    packet: u32,
    pub pair: u32,
    key: u32,
    address: u64,
    /// Payload bytes requested so far, and in total.
    asked: u32,
    bytes: u32,
}

impl Nic {
    // --- Lines ---------------------------------------------------------------------------------

    pub(super) fn line_up_fetch(&mut self, number: u32) {
        let Some(pair) = self.pair(number) else { return };
        if pair.fetchable() > 0 && !std::mem::replace(&mut pair.in_fetch_line, true) {
            self.fetch_line.push_back(number);
        }
    }

    /// Lines up a role of a queue pair that may have a packet to build.
    pub(super) fn line_up_make(&mut self, number: u32, role: Role) {
        let Some(pair) = self.pair(number) else { return };
        let has_work = match role {
            Role::Requester => pair.begun < pair.requests.len(),
            Role::Responder => !pair.responses.is_empty(),
        };
        let line = &mut pair.in_make_line[role as usize];
        if has_work && !std::mem::replace(line, true) {
            self.make_line.push_back((number, role));
        }
    }

    /// Lines up the queue pairs whose work requests may be ready by now.
    pub(super) fn line_up_grown(&mut self) {
        for number in std::mem::take(&mut self.young) {
            self.line_up_make(number, Role::Requester);
        }
    }

    // --- Packets -------------------------------------------------------------------------------

    /// Builds one packet if there is work and room for it.
    pub(super) fn make(&mut self, port: &mut DevicePort<'_>) -> bool {
        if self.making.is_some() {
            return false;
        }
        let Some(&(number, role)) = self.make_line.front() else { return false };
        let made = match role {
            Role::Requester => self.make_request(number, port),
            Role::Responder => self.make_response(number),
        };
        match made {
            Make::Room => false,
            Make::Made => {
                // Let the next role have its turn.
                self.make_line.rotate_left(1);
                true
            }
            Make::Nothing => {
                self.make_line.pop_front();
                if let Some(pair) = self.pair(number) {
                    pair.in_make_line[role as usize] = false;
                }
                true
            }
        }
    }

    fn make_request(&mut self, number: u32, port: &mut DevicePort<'_>) -> Make {
        let now_ps = port.now_ps();
        let Some(mtu_bytes) = self.link.as_ref().map(|link| link.parameters.mtu_bytes) else {
            return Make::Nothing;
        };
        let next_request_ps = self.next_request_ps;
        let Some(pair) = self.pair(number) else { return Make::Nothing };
        let (begun, far) = (pair.begun, pair.far);
        let Some(&Request { work, ready_ps, prepared, .. }) = pair.requests.get(begun) else {
            return Make::Nothing;
        };
        if ready_ps > now_ps {
            self.young.push(number);
            self.timer.at(ready_ps, port);
            return Make::Nothing;
        }
        let is_read = work.operation == Operation::Read;
        if (is_read && pair.reading >= pair.reads_allowed) || pair.lacks_slot(&work) {
            // An answer or acknowledgement lines it up again.
            return Make::Nothing;
        }
        if prepared == 0 && next_request_ps > now_ps {
            self.young.push(number);
            self.timer.at(next_request_ps, port);
            return Make::Nothing;
        }
        let left = work.bytes - prepared;
        let bytes = if is_read { 0 } else { left.min(mtu_bytes.into()) as u32 };
        if !self.has_made_room(bytes) {
            return Make::Room;
        }
        if prepared == 0 {
            // The program may use its own memory for any access.
            let near = (work.near_key, work.near_address);
            let is_near = work.operation != Operation::SendInline;
            if is_near && self.regions.check(near.0, near.1, work.bytes, |_| true).is_err() {
                self.end_with(number, Some((work.id, Status::NearMemory)), port);
                return Make::Nothing;
            }
            if work.operation.is_message() && work.bytes > mtu_bytes.into() {
                self.end_with(number, Some((work.id, Status::BadRequest)), port);
                return Make::Nothing;
            }
            self.next_request_ps = now_ps + self.parameters.request_interval.0;
        }
        let Some(pair) = self.pair(number) else { return Make::Nothing };
        if !pair.waits_for_far() {
            pair.sign_ps = now_ps;
        }
        let message = pair.first_message + begun as u64;
        let (key, offset) = (work.far_key, prepared);
        let kind = match work.operation {
            Operation::Write => {
                let address = work.far_address.wrapping_add(prepared);
                Kind::Write { key, address, offset, bytes: work.bytes }
            }
            Operation::Read => {
                pair.reading += 1;
                Kind::ReadRequest { key, address: work.far_address, bytes: work.bytes }
            }
            Operation::Send | Operation::SendInline => {
                pair.sent = pair.sent.wrapping_add(1);
                Kind::Send
            }
        };
        let mut message_in_it = Vec::new();
        if let Some(request) = pair.requests.get_mut(begun) {
            request.prepared += u64::from(bytes);
            message_in_it = std::mem::take(&mut request.message);
        }
        if is_read || left == u64::from(bytes) {
            pair.begun += 1;
        }
        let (payload, near) = match work.operation {
            Operation::SendInline => (message_in_it, None),
            _ => {
                let near = (work.near_key, work.near_address + offset);
                (vec![0; bytes as usize], Some(near))
            }
        };
        let packet = Packet { to: far, message, kind, payload };
        self.begin_packet((number, Role::Requester), packet, near);
        self.line_up_fetch(number);
        let retry_ps = now_ps + self.parameters.retry_timeout.0;
        self.retry.at(retry_ps, port);
        Make::Made
    }

    fn make_response(&mut self, number: u32) -> Make {
        let Some(mtu_bytes) = self.link.as_ref().map(|link| link.parameters.mtu_bytes) else {
            return Make::Nothing;
        };
        let Some(pair) = self.pair(number) else { return Make::Nothing };
        let (far, Some(&response)) = (pair.far, pair.responses.front()) else {
            return Make::Nothing;
        };
        let left = response.bytes - response.prepared;
        let bytes = left.min(mtu_bytes.into()) as u32;
        if !self.has_made_room(bytes) {
            return Make::Room;
        }
        let address = response.address + response.prepared;
        let Some(pair) = self.pair(number) else { return Make::Nothing };
        if left == u64::from(bytes) {
            pair.responses.pop_front();
        } else if let Some(first) = pair.responses.front_mut() {
            first.prepared += u64::from(bytes);
        }
        let kind = Kind::ReadResponse { offset: response.prepared, bytes: response.bytes };
        let payload = vec![0; bytes as usize];
        let packet = Packet { to: far, message: response.message, kind, payload };
        self.begin_packet((number, Role::Responder), packet, Some((response.key, address)));
        Make::Made
    }

    fn has_made_room(&self, bytes: u32) -> bool {
        self.made_bytes + bytes <= self.parameters.send_buffer_bytes
    }

    /// Puts a packet into its line; its data are requested next, if they come from memory.
    fn begin_packet(
        &mut self,
        (pair, role): (u32, Role),
        packet: Packet,
        near: Option<(u32, u64)>,
    ) {
        let bytes = packet.payload.len() as u32;
        self.made_bytes += bytes;
        let (made, room) = (self.made_bytes, self.parameters.send_buffer_bytes);
        assert!(made <= room, "{made} B of packets are made, in a buffer of {room} B");
        let near = near.filter(|_| bytes > 0);
        let missing = if near.is_some() { bytes } else { 0 };
        let made = Made { pair, role, packet, missing };
        let index = match self.made_free.pop() {
            Some(index) => {
                let there = self.made[index as usize].replace(made);
                assert!(there.is_none(), "place {index} of a packet is given away twice");
                index
            }
            None => {
                self.made.push(Some(made));
                self.made.len() as u32 - 1
            }
        };
        if let Some(pair) = self.pair(pair) {
            pair.made[role as usize].push_back(index);
        }
        if let Some((key, address)) = near {
            self.making = Some(Making { packet: index, pair, key, address, asked: 0, bytes });
        } else {
            self.line_up_send(pair, role);
        }
    }

    // --- Reads of host memory ------------------------------------------------------------------

    /// Sends one read of host memory if one is due.
    pub(super) fn ask(&mut self, port: &mut DevicePort<'_>) -> bool {
        self.requester.can_read(port)
            && (self.ask_flush(port) || self.ask_work(port) || self.ask_payload(port))
    }

    fn ask_work(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(number) = self.fetch_line.pop_front() else { return false };
        let limit = self.requester.limit_bytes(&self.function) / REQUEST_BYTES as u32;
        let Some(pair) = self.pair(number) else { return true };
        pair.in_fetch_line = false;
        let offset = pair.layout.request_offset(pair.fetched);
        let Some((address, run)) = pair.memory.locate(offset) else { return true };
        // Rings and runs consist of whole pages, so a place lies in one run.
        let in_page = 4096 - address % 4096;
        let fits = (run.min(in_page) / REQUEST_BYTES) as u32;
        let count = pair.fetchable().min(limit.max(1)).min(fits);
        if count == 0 {
            return true;
        }
        let bytes = count * REQUEST_BYTES as u32;
        pair.is_fetching = true;
        pair.fetched = pair.fetched.wrapping_add(count);
        pair.fetch_begin = pair.fetch.len();
        pair.fetch.resize(pair.fetch_begin + bytes as usize, 0);
        self.read(Target { pair: number, purpose: Purpose::Fetch }, address, bytes, port);
        true
    }

    fn ask_payload(&mut self, port: &mut DevicePort<'_>) -> bool {
        let Some(making) = self.making else { return false };
        let most = self.requester.limit_bytes(&self.function);
        let place = self.regions.locate(making.key, making.address);
        let Some((address, run)) = place else {
            // The memory was deregistered after the packet was begun.
            let purpose = Purpose::Payload { packet: making.packet, offset: making.asked };
            self.read_failed(Target { pair: making.pair, purpose }, port);
            return true;
        };
        let (asked, all) = (making.asked, making.bytes);
        assert!(asked < all, "{asked} B of a packet were asked for, of {all} B");
        let bytes = part_bytes(address, run.min((all - asked).into()), most);
        let (packet, offset) = (making.packet, making.asked);
        let next = Making {
            asked: making.asked + bytes,
            address: making.address + u64::from(bytes),
            ..making
        };
        self.making = (next.asked < next.bytes).then_some(next);
        let purpose = Purpose::Payload { packet, offset };
        self.read(Target { pair: making.pair, purpose }, address, bytes, port);
        true
    }

    /// Sends a read. A tag and room must be available.
    pub(super) fn read(
        &mut self,
        target: Target,
        address: u64,
        bytes: u32,
        port: &mut DevicePort<'_>,
    ) {
        if let Some(pair) = self.pair(target.pair) {
            pair.reads += 1;
        }
        self.requester.read(target, address, bytes, &self.function, port);
    }

    pub(super) fn time_out_reads(&mut self, port: &mut DevicePort<'_>) {
        for target in self.requester.time_out(port) {
            self.read_ended(target.pair);
            self.read_failed(target, port);
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
            Completed::Dropped(target) => self.read_ended(target.pair),
            Completed::Failed(target) => {
                self.read_ended(target.pair);
                self.read_failed(target, port);
            }
            Completed::Data { target, skip, offset, bytes, ends } => {
                let from = skip as usize..(skip + bytes) as usize;
                let data = port.payload(tlp).get(from).unwrap_or_default();
                self.take_data(target, offset, data);
                if ends {
                    self.read_ended(target.pair);
                    self.data_ended(target, port);
                }
            }
        }
    }

    fn take_data(&mut self, target: Target, offset: u32, data: &[u8]) {
        let begin = offset as usize;
        match target.purpose {
            Purpose::Flush => {}
            Purpose::Fetch => {
                let Some(pair) = self.pair(target.pair) else { return };
                let begin = pair.fetch_begin + begin;
                if let Some(place) = pair.fetch.get_mut(begin..begin + data.len()) {
                    place.copy_from_slice(data);
                }
            }
            Purpose::Payload { packet, offset } => {
                let Some(made) = self.made.get_mut(packet as usize).and_then(Option::as_mut) else {
                    return;
                };
                let begin = offset as usize + begin;
                if let Some(place) = made.packet.payload.get_mut(begin..begin + data.len()) {
                    place.copy_from_slice(data);
                    let (bytes, missing) = (data.len() as u32, made.missing);
                    assert!(bytes <= missing, "{bytes} B have come for a packet, {missing} B lack");
                    made.missing -= bytes;
                }
                if made.missing == 0 {
                    let (pair, role) = (made.pair, made.role);
                    self.line_up_send(pair, role);
                }
            }
        }
    }

    fn data_ended(&mut self, target: Target, port: &mut DevicePort<'_>) {
        match target.purpose {
            Purpose::Payload { .. } => {}
            Purpose::Fetch => self.take_work(target.pair, port),
            Purpose::Flush => self.flushed(target.pair),
        }
    }

    /// Takes fetched work requests.
    fn take_work(&mut self, number: u32, port: &mut DevicePort<'_>) {
        let ready_ps = port.now_ps() + self.parameters.request_latency.0;
        let Some(pair) = self.pair(number) else { return };
        pair.is_fetching = false;
        let mut fetched = std::mem::take(&mut pair.fetch);
        let (mut all_good, mut taken) = (true, 0);
        while let Some(first) = fetched[taken..].first_chunk() {
            let Some(work) = WorkRequest::from_bytes(first) else {
                all_good = false;
                break;
            };
            let bytes = work.places() as usize * REQUEST_BYTES as usize;
            // The rest of its message comes with the next fetch.
            let Some(places) = fetched[taken..].get(..bytes) else { break };
            let (message, prepared, is_done) = (work.message(places).to_vec(), 0, false);
            pair.requests.push_back(Request { work, message, ready_ps, prepared, is_done });
            taken += bytes;
        }
        fetched.drain(..taken);
        pair.fetch = fetched;
        if !all_good {
            self.end_pair(number, Status::BadRequest, port);
            return;
        }
        self.line_up_make(number, Role::Requester);
        self.line_up_fetch(number);
    }
}

/// Outcome of building a packet.
enum Make {
    Made,
    /// The role has nothing to build now.
    Nothing,
    /// The packet must wait for room, and so must all others.
    Room,
}
