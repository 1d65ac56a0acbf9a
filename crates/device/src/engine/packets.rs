// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet mode: ends of packets in the stream of H2C channel 0, and completion records, drops and
//! cuts of C2H channel 0. `docs/engine.md`, "Packets".

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::channel::{self, control};
use crosslane_regs::engine::{DescriptorSource, channel::RING_ENTRIES};
use crosslane_regs::ring_descriptor::{self, record};

use super::Engine;
use super::channel::{Channel, Current, Descriptor, Kind};
use super::user::Feed;

/// Most ends of packets between an H2C channel that reads and the consumer of its stream.
const MAX_ENDS: usize = 254;
/// Bytes of a completion record: two words of its descriptor's place in the ring.
const RECORD_BYTES: u32 = ring_descriptor::RECORD + 4 - ring_descriptor::WRITTEN;

/// Ends of the packets in a stream.
#[derive(Default)]
pub(super) struct Ends {
    /// Bytes that have entered and left the stream, absolute.
    entered: u64,
    left: u64,
    /// Position behind the last byte of each packet, and `tuser` of its last beat.
    ends: VecDeque<(u64, u16)>,
}

impl Ends {
    /// Notes that bytes have entered the stream.
    pub fn enter(&mut self, bytes: u32) {
        self.entered += u64::from(bytes);
    }

    /// Ends a packet `before` bytes before the newest one.
    fn end(&mut self, before: u32, user: u16) {
        self.ends.push_back((self.entered - u64::from(before), user));
    }

    /// Notes that the oldest bytes have left the stream.
    pub fn leave(&mut self, bytes: u32) {
        self.left += u64::from(bytes);
        while self.ends.front().is_some_and(|(end, _)| *end <= self.left) {
            self.ends.pop_front();
        }
    }

    /// Forgets all that is in the stream.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.left = self.entered;
    }

    /// Returns the number of bytes up to the end of the oldest packet, and its `tuser`; `None` if
    /// its end has not come.
    fn next(&self) -> Option<(u32, u16)> {
        self.ends.front().map(|(end, user)| ((end - self.left) as u32, *user))
    }
}

/// Completion record that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    ends: bool,
    cut: bool,
    user: u16,
}

/// State of a C2H channel in packet mode. It outlives restarts of the channel, as the stream does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketState {
    /// The first part of the oldest packet has been written or is being dropped.
    is_begun: bool,
    /// The rest of the oldest packet is dropped.
    is_dropped: bool,
    /// The current descriptor begins with the first byte of a packet.
    begins: bool,
    /// Record of the current descriptor, whose data have all been sent.
    pub record: Option<Record>,
}

/// Counters of packets, cleared by `reset_counters`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketCounters {
    pub moved: u32,
    pub dropped: u32,
    pub truncated: u32,
}

impl Channel {
    /// Returns the address of the completion record of descriptor `completed`.
    pub fn record_address(&self) -> u64 {
        let entries = self.registers.get(RING_ENTRIES).max(1);
        let place = u64::from(self.completed % entries) * u64::from(ring_descriptor::BYTES);
        let ring = self.registers.wide(channel::RING_LOW) & !63;
        ring.wrapping_add(place + u64::from(ring_descriptor::WRITTEN))
    }
}

impl Engine {
    /// Whether a channel has a packet mode.
    pub(super) fn has_packet_mode(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        self.parameters.packets && channel.number == 0 && channel.kind != Kind::Peer
    }

    /// Whether a channel is in packet mode.
    pub(super) fn in_packets(&self, index: usize) -> bool {
        // The bit stays clear in a channel without that mode.
        self.channels[index].control(control::PACKETS) != 0 && !self.in_memory(index)
    }

    /// Whether a descriptor is possible in the mode that its channel has.
    pub(super) fn fits_packets(&self, index: usize, descriptor: &Descriptor) -> bool {
        let channel = &self.channels[index];
        let marks = ring_descriptor::control::END_OF_PACKET.get(descriptor.control) != 0;
        !self.in_packets(index)
            || channel.source() == Some(DescriptorSource::Ring)
                && !(marks && channel.kind == Kind::C2h)
    }

    /// Whether the stream of an H2C channel has as many ends of packets as it can have.
    pub(super) fn has_packets_enough(&self, index: usize) -> bool {
        let reading = self.channels[index].reading.len();
        self.in_packets(index) && reading + self.ends.ends.len() >= MAX_ENDS
    }

    /// Notes that an H2C descriptor is delivered, with `behind` bytes of later ones.
    pub(super) fn descriptor_delivered(&mut self, index: usize, bits: u32, behind: u32) {
        use ring_descriptor::control::{END_OF_PACKET, USER};
        if END_OF_PACKET.get(bits) == 0 || !self.in_packets(index) {
            return;
        }
        self.channels[index].counters.packets.moved += 1;
        if self.stream_is_routed(index) {
            self.ends.end(behind, USER.get(bits) as u16);
            self.forget_next_write();
        }
    }

    /// Lets the length of the next write be computed anew.
    fn forget_next_write(&mut self) {
        let index = self.index(Kind::C2h, 0);
        self.channels[index].next_bytes = 0;
    }

    /// Returns the bytes of a write channel's feed up to the end of the oldest packet, and its
    /// `tuser`, if the end has come.
    pub(super) fn packet_end(&self, index: usize, feed: Feed) -> Option<(u32, u16)> {
        let is_known = feed == Feed::Stream && self.in_packets(index);
        is_known.then(|| self.ends.next()).flatten()
    }

    /// Whether a write channel takes nothing because the rest of a packet is being dropped.
    pub(super) fn is_dropping(&self, index: usize) -> bool {
        self.in_packets(index) && self.channels[index].packet.is_dropped
    }

    /// Drops packets for which no descriptor is posted, and rests of such packets, as far as they
    /// have come.
    pub(super) fn drop_packets(&mut self, index: usize, now_ps: u64) {
        let channel = &self.channels[index];
        if channel.kind != Kind::C2h || !self.in_packets(index) || !channel.is_running() {
            return;
        }
        // A stream of an H2C channel without packets is not dropped.
        if self.user.feed(Kind::C2h, self.lanes.len()) != Feed::Stream || !self.in_packets(0) {
            return;
        }
        loop {
            let (ready, _) = self.stream.ready(now_ps);
            let lacks_descriptor = self.drops_packets(index);
            let channel = &mut self.channels[index];
            if ready == 0 || !(channel.packet.is_dropped || lacks_descriptor) {
                return;
            }
            if !channel.packet.is_dropped {
                let counters = &mut channel.counters.packets;
                match channel.packet.is_begun {
                    true => counters.truncated += 1,
                    false => counters.dropped += 1,
                }
                (channel.packet.is_dropped, channel.packet.is_begun) = (true, true);
            }
            let bytes = self.ends.next().map_or(ready, |(bytes, _)| bytes.min(ready));
            if self.ends.next().is_some_and(|(end, _)| end == bytes) {
                (channel.packet.is_dropped, channel.packet.is_begun) = (false, false);
            }
            self.stream.pop(&mut vec![0; bytes as usize]);
            self.ends.leave(bytes);
            channel.next_bytes = 0;
        }
    }

    /// Returns when a channel that drops packets can drop more; `u64::MAX` if no time is known.
    pub(super) fn drops_ps(&self, index: usize, now_ps: u64) -> u64 {
        let is_c2h = self.channels[index].kind == Kind::C2h;
        let drops = is_c2h && self.in_packets(index);
        let drops = drops && (self.is_dropping(index) || self.drops_packets(index));
        if drops { self.stream.ready(now_ps).1 } else { u64::MAX }
    }

    /// Whether a channel drops what comes now, because no descriptor is posted.
    pub(super) fn drops_packets(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        channel.control(control::DROP_PACKETS) != 0
            && channel.current.is_none()
            && channel.fault.is_none()
            && !self.is_posted(index)
    }

    /// Notes that a write channel in packet mode has sent data, of which the last byte is the last
    /// one of a packet if `end` is given. At the end of the descriptor its record falls due.
    pub(super) fn packet_sent(
        &mut self,
        index: usize,
        current: &Current,
        bytes: u32,
        end: Option<u16>,
    ) {
        let packet = &mut self.channels[index].packet;
        if current.built == bytes {
            packet.begins = !packet.is_begun;
        }
        packet.is_begun = end.is_none();
        let is_over = end.is_some() || current.built == current.descriptor.bytes;
        if is_over {
            let user = end.unwrap_or(0);
            packet.record = Some(Record { ends: end.is_some(), cut: false, user });
        }
    }

    /// Forgets the packets of H2C channel 0's stream at its restart: one of which C2H has the first
    /// part is cut there.
    pub(super) fn cut_packet(&mut self) {
        self.ends.clear();
        let index = self.index(Kind::C2h, 0);
        let is_fed = self.user.feed(Kind::C2h, self.lanes.len()) == Feed::Stream;
        if !is_fed || !self.in_packets(index) {
            return;
        }
        let channel = &mut self.channels[index];
        channel.next_bytes = 0;
        let PacketState { is_begun, is_dropped, .. } = channel.packet;
        if is_begun && !is_dropped {
            channel.counters.packets.truncated += 1;
            let is_open = channel.current.is_some_and(|current| current.built > 0);
            if is_open && channel.packet.record.is_none() {
                channel.packet.record = Some(Record { ends: false, cut: true, user: 0 });
            }
        }
        (channel.packet.is_begun, channel.packet.is_dropped) = (false, false);
        self.wake = true;
    }

    /// Sends the completion record of a C2H channel's current descriptor.
    pub(super) fn build_record(&mut self, index: usize, port: &mut DevicePort<'_>) {
        let channel = &mut self.channels[index];
        let (Some(mut current), Some(due)) = (channel.current, channel.packet.record.take()) else {
            return;
        };
        let words = [
            current.built,
            record::DONE.put(1)
                | record::BEGINS.put(channel.packet.begins.into())
                | record::ENDS.put(due.ends.into())
                | record::CUT.put(due.cut.into())
                | record::USER.put(due.user.into()),
        ];
        if due.ends {
            channel.counters.packets.moved += 1;
        }
        let address = BusAddress(channel.record_address());
        let header = Header::memory_write(port.routing_id(), address, RECORD_BYTES);
        let whole_ps = self.send(header, port, |payload| {
            for (place, word) in payload.chunks_exact_mut(4).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        });
        current.descriptor.bytes = current.built;
        self.written(index, current, whole_ps);
    }
}
