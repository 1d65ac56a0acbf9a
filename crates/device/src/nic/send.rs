// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transmission of packets to the network, one at a time, connections in turn.

use crosslane_fabric::DevicePort;

use super::packet::{Kind, Packet};
use super::pair::Role;
use super::{Nic, STEP};

impl Nic {
    /// Lines up a role whose first packet may be complete.
    pub(super) fn line_up_send(&mut self, number: u32, role: Role) {
        let Some(pair) = self.pair(number) else { return };
        let Some(&first) = pair.made[role as usize].front() else { return };
        let is_listed = pair.in_send_line[role as usize];
        let made = self.made.get(first as usize).and_then(Option::as_ref);
        if is_listed || made.is_none_or(|made| made.missing > 0) {
            return;
        }
        if let Some(pair) = self.pair(number) {
            pair.in_send_line[role as usize] = true;
        }
        self.send_line.push_back((number, role));
    }

    /// Lines up a queue pair with an acknowledgement or freed message slots to send.
    pub(super) fn line_up_acknowledge(&mut self, number: u32) {
        let Some(pair) = self.pair(number) else { return };
        if !std::mem::replace(&mut pair.in_acknowledge_line, true) {
            self.acknowledge_line.push_back(number);
        }
    }

    /// Sends one packet if there is one and the network takes it.
    pub(super) fn send(&mut self, port: &mut DevicePort<'_>) -> bool {
        let now_ps = port.now_ps();
        let Some(wire_bytes) = self.next_wire_bytes() else { return false };
        let Some(link) = self.link.as_mut() else { return false };
        match link.begins_ps(now_ps, wire_bytes) {
            None => return false,
            Some(begins_ps) if begins_ps > now_ps => {
                self.timer.at(begins_ps, port);
                return false;
            }
            Some(_) => {}
        }
        let Some(packet) = self.take_next(now_ps) else { return true };
        let Some(link) = self.link.as_mut() else { return false };
        let (arrives_ps, far) = (link.send(now_ps, &packet), link.far);
        if let Some(other) = port.other::<Self>(far) {
            let ready_ps = arrives_ps + other.parameters.packet_latency.0;
            if let Some(link) = other.link.as_mut() {
                link.inbound.push_back((ready_ps, packet));
                port.timer_of(far, ready_ps, STEP);
            }
        }
        true
    }

    /// Returns the bytes of the next packet on the wire.
    fn next_wire_bytes(&mut self) -> Option<u32> {
        let parameters = self.link.as_ref()?.parameters;
        if let Some(notice) = self.notices.front() {
            return Some(notice.wire_bytes(&parameters));
        }
        if !self.acknowledge_line.is_empty() {
            return Some(parameters.header_bytes + parameters.acknowledgement_bytes);
        }
        loop {
            let &(number, role) = self.send_line.front()?;
            let first = self.pair(number).and_then(|pair| pair.made[role as usize].front());
            let first = first.copied();
            let made = first.and_then(|first| self.made.get(first as usize)?.as_ref());
            match made {
                Some(made) => return Some(made.packet.wire_bytes(&parameters)),
                // The packet's queue pair has ended.
                None => drop(self.send_line.pop_front()),
            }
        }
    }

    fn take_next(&mut self, now_ps: u64) -> Option<Packet> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        if let Some(number) = self.acknowledge_line.pop_front() {
            let pair = self.pair(number)?;
            pair.in_acknowledge_line = false;
            if !pair.is_connected() {
                return None;
            }
            pair.told = pair.may_receive;
            let kind = Kind::Acknowledge { messages: pair.may_receive };
            let (to, message) = (pair.far, pair.acknowledged);
            return Some(Packet { to, message, kind, payload: Vec::new() });
        }
        let (number, role) = self.send_line.pop_front()?;
        let pair = self.pair(number)?;
        pair.in_send_line[role as usize] = false;
        // Room at the other end is a sign of life.
        pair.sign_ps = now_ps;
        let first = pair.made[role as usize].pop_front()?;
        let made = self.made.get_mut(first as usize)?.take()?;
        self.made_free.push(first);
        let (bytes, all, missing) =
            (made.packet.payload.len() as u32, self.made_bytes, made.missing);
        assert!(missing == 0, "a packet leaves, and {missing} of its {bytes} B have not come");
        assert!(bytes <= all, "a packet of {bytes} B leaves, and {all} B are made");
        self.made_bytes -= bytes;
        self.line_up_send(number, role);
        Some(made.packet)
    }
}
