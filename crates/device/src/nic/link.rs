// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of the network link. Each direction carries one packet at a time into a buffer whose
//! room the sender knows.

use std::collections::VecDeque;

use crosslane_fabric::NodeId;
use crosslane_pcie::units::Picoseconds;

use super::packet::Packet;
use super::parameters::NetworkParameters;

/// Traffic that one end of a network link has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// All other bytes, including the padding of payloads.
    pub header_bytes: u64,
    /// Time that the link was busy.
    pub busy: Picoseconds,
}

/// One end of the network link.
pub(super) struct Link {
    pub parameters: NetworkParameters,
    /// The NIC at the other end.
    pub far: NodeId,
    /// Time until which the outgoing direction is busy, and the fraction of a picosecond beyond it
    /// (in bits times ps per second).
    free_ps: u64,
    fraction: u64,
    /// Room for packets at the other end, bytes.
    room_bytes: u64,
    /// Time and size of room that will come back.
    returning: VecDeque<(u64, u64)>,
    /// Whether the next packet waits for room that nothing will return yet.
    pub lacks_room: bool,
    /// Packets from the other end and the time at which the NIC handles each, in order.
    pub inbound: VecDeque<(u64, Packet)>,
    /// Payload bytes of the first inbound packet that have been placed.
    pub placed_bytes: u32,
    /// Time at which the link went down, while it is down.
    pub down_since_ps: Option<u64>,
    pub counters: NetworkCounters,
}

impl Link {
    pub fn new(parameters: NetworkParameters, far: NodeId, room_bytes: u32) -> Self {
        Self {
            parameters,
            far,
            free_ps: 0,
            fraction: 0,
            room_bytes: room_bytes.into(),
            returning: VecDeque::new(),
            lacks_room: false,
            inbound: VecDeque::new(),
            placed_bytes: 0,
            down_since_ps: None,
            counters: NetworkCounters::default(),
        }
    }

    /// Returns when a packet of `wire_bytes` can begin, at least `now_ps`; `None` if that is
    /// unknown.
    pub fn begins_ps(&mut self, now_ps: u64, wire_bytes: u32) -> Option<u64> {
        if self.down_since_ps.is_some() {
            return None;
        }
        while self.returning.front().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            self.room_bytes += self.returning.pop_front().map_or(0, |(_, bytes)| bytes);
        }
        let mut room = self.room_bytes;
        let mut has_room_ps = now_ps;
        for (at_ps, bytes) in &self.returning {
            if room >= wire_bytes.into() {
                break;
            }
            room += bytes;
            has_room_ps = *at_ps;
        }
        self.lacks_room = room < wire_bytes.into();
        (!self.lacks_room).then_some(has_room_ps.max(self.free_ps))
    }

    /// Sends a packet now. Returns when the whole packet is at the other end.
    pub fn send(&mut self, now_ps: u64, packet: &Packet) -> u64 {
        let wire_bytes = packet.wire_bytes(&self.parameters);
        if self.free_ps < now_ps {
            (self.free_ps, self.fraction) = (now_ps, 0);
        }
        const PS_PER_SECOND: u64 = 1_000_000_000_000;
        // A packet has less than 2^14 bytes, so 2^17 x 10^12 fits.
        let bits = u64::from(wire_bytes) * 8 * PS_PER_SECOND + self.fraction;
        let time_ps = bits / self.parameters.bits_per_second;
        self.fraction = bits % self.parameters.bits_per_second;
        self.free_ps += time_ps;
        let room = self.room_bytes;
        assert!(u64::from(wire_bytes) <= room, "a packet of {wire_bytes} B, and room for {room} B");
        self.room_bytes -= u64::from(wire_bytes);
        let payload = packet.payload.len() as u64;
        self.counters.packets += 1;
        self.counters.payload_bytes += payload;
        self.counters.header_bytes += u64::from(wire_bytes) - payload;
        self.counters.busy += Picoseconds(time_ps);
        self.free_ps + self.parameters.latency.0
    }

    /// Adds room that comes back at `at_ps`. Returns whether a packet waits for it.
    pub fn give_room(&mut self, at_ps: u64, bytes: u32) -> bool {
        let last_ps = self.returning.back().map_or(0, |(at_ps, _)| *at_ps);
        assert!(at_ps >= last_ps, "room comes back at {at_ps} ps, behind that of {last_ps} ps");
        self.returning.push_back((at_ps, bytes.into()));
        std::mem::take(&mut self.lacks_room)
    }

    /// Whether the first inbound packet can be handled now.
    pub fn has_packet(&self, now_ps: u64, packet_latency_ps: u64) -> bool {
        self.inbound.front().is_some_and(|(ready_ps, _)| {
            let arrived_ps = ready_ps - packet_latency_ps;
            *ready_ps <= now_ps && self.down_since_ps.is_none_or(|down_ps| arrived_ps <= down_ps)
        })
    }

    /// Mends the link and releases the packets it held back. Returns when each of them will be
    /// handled.
    pub fn repair(&mut self, now_ps: u64, packet_latency_ps: u64) -> Vec<u64> {
        let Some(down_ps) = self.down_since_ps.take() else { return Vec::new() };
        let mut times = Vec::new();
        for (ready_ps, _) in &mut self.inbound {
            if *ready_ps - packet_latency_ps > down_ps {
                *ready_ps += now_ps - down_ps;
                times.push(*ready_ps);
            }
        }
        self.free_ps = self.free_ps.max(down_ps) + (now_ps - down_ps);
        times
    }
}
