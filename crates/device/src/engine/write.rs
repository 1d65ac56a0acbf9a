// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C2H and peer channels: writes of a stream's data, within a peer's credits.

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::channel::{self, control};
use crosslane_regs::engine::user;

use super::Engine;
use super::arbiter::Outlook;
use super::channel::{Channel, Current, Kind, Next, Origin, Wait, floor_power};
use super::user::{Feed, fill_pattern};
use crate::kit::part_bytes;

/// Returns the address of the next bytes that a write channel sends.
fn target_address(channel: &Channel, current: &Current) -> u64 {
    let address = current.descriptor.address.wrapping_add(u64::from(current.built));
    let aperture = channel.registers.get(channel::APERTURE);
    if channel.kind != Kind::Peer || aperture < 4 {
        return address;
    }
    // Wrap around within the receive queue, which is aligned to its size.
    let within = u64::from(floor_power(aperture)) - 1;
    current.descriptor.address & !within | address & within
}

impl Engine {
    /// Returns the length of a write channel's next TLP, or of its next copied burst. The channel
    /// has a descriptor.
    pub(super) fn next_write_bytes(&self, index: usize, current: &Current) -> u32 {
        if current.is_copied() {
            return self.next_copy_bytes(index, current);
        }
        let address = target_address(&self.channels[index], current);
        let left = current.descriptor.bytes - current.built;
        let left = left.min(self.left_of_copy(index, current));
        let end = self.packet_end(index, self.feed_of(index, current));
        let left = left.min(end.map_or(left, |(bytes, _)| bytes));
        part_bytes(address, left.into(), self.channels[index].limit_bytes)
    }

    /// Returns the number of bytes that a write channel can take from its feed, and when there may
    /// be more; `u64::MAX` if no time is known.
    fn available(&self, feed: Feed, now_ps: u64) -> (u32, u64) {
        match feed {
            Feed::Generator => (u32::MAX, u64::MAX),
            Feed::Stream => self.stream.ready(now_ps),
            Feed::Lane(lane) => self.lanes[lane].fifo.ready(now_ps),
            Feed::Memory => self.board.as_ref().map_or((0, u64::MAX), |board| board.ready(now_ps)),
            Feed::Nothing => (0, u64::MAX),
        }
    }

    /// Returns the data source of a write channel's TLPs.
    fn feed_of(&self, index: usize, current: &Current) -> Feed {
        let channel = &self.channels[index];
        if current.origin == Origin::Ping || channel.number > 0 {
            return Feed::Generator;
        }
        if self.in_memory(index) {
            return Feed::Memory;
        }
        self.user.feed(channel.kind, self.lanes.len())
    }

    /// Looks at a write channel with a descriptor.
    pub(super) fn look_at_write(&self, index: usize, current: &Current, now_ps: u64) -> Outlook {
        let channel = &self.channels[index];
        let bytes = channel.next_bytes;
        let window = channel.registers.get(channel::CREDIT_WINDOW);
        let beyond = channel.sent.wrapping_add(bytes).wrapping_sub(channel.credit) as i32;
        let has_window = channel.kind == Kind::Peer && window > 0;
        let lacks_credit = has_window && i64::from(beyond) > i64::from(window);
        let feed = self.feed_of(index, current);
        let (ready, change_ps) = self.available(feed, now_ps);
        let next = match () {
            () if channel.packet.record.is_some() => Next::Tlp,
            () if self.is_dropping(index) => Next::Wait(Wait::Data),
            () if lacks_credit => Next::Wait(Wait::Credit),
            // Copies send no TLP.
            () if current.is_copied() || ready < bytes => Next::Wait(Wait::Data),
            () => Next::Tlp,
        };
        Outlook { next, change_ps }
    }

    /// Whether a write channel's feed has too little data for its next TLP.
    pub(super) fn write_lacks_data(
        &mut self,
        index: usize,
        current: &Current,
        port: &DevicePort<'_>,
    ) -> bool {
        self.settle_lengths(index, port);
        let bytes = self.channels[index].next_bytes;
        self.available(self.feed_of(index, current), port.now_ps()).0 < bytes
    }

    /// Sends the next TLP of a write channel.
    pub(super) fn build_write(&mut self, index: usize, port: &mut DevicePort<'_>) {
        let Some(mut current) = self.channels[index].current else { return };
        if self.channels[index].packet.record.is_some() {
            return self.build_record(index, port);
        }
        let bytes = self.channels[index].next_bytes;
        let feed = self.feed_of(index, &current);
        let address = target_address(&self.channels[index], &current);
        self.assert_fits(index, &current, address, bytes, self.function.max_payload_bytes);
        let (there, _) = self.available(feed, port.now_ps());
        assert!(there >= bytes, "{feed:?} has {there} B for a TLP of {bytes} B");
        let channel = &mut self.channels[index];
        let (sent, credit) = (channel.sent, channel.credit);
        let window = channel.registers.get(channel::CREDIT_WINDOW);
        let beyond = sent.wrapping_add(bytes).wrapping_sub(credit) as i32;
        assert!(
            channel.kind != Kind::Peer || window == 0 || i64::from(beyond) <= i64::from(window),
            "{bytes} B behind {sent} B, with {credit} B drained of a window of {window} B"
        );
        let mut header = Header::memory_write(port.routing_id(), BusAddress(address), bytes);
        let relaxed = channel.control(control::RELAXED_ORDERING) != 0;
        header.attributes.relaxed_ordering = relaxed && self.function.relaxed_ordering;
        let now_ps = port.now_ps();
        let whole_ps = self.occupy(&header, now_ps);
        let (channel, stream) = (&self.channels[index], &mut self.stream);
        let (lanes, board) = (&mut self.lanes, &mut self.board);
        let (seed, generated) = (self.user.registers.get(user::GENERATOR_SEED), channel.generated);
        let skip = (address & 3) as usize;
        port.send(header, |payload| {
            // Zero the bytes that are not enabled.
            let (before, rest) = payload.split_at_mut(skip);
            let (data, behind) = rest.split_at_mut(bytes as usize);
            if !(before.is_empty() && behind.is_empty()) {
                before.fill(0);
                behind.fill(0);
            }
            match feed {
                Feed::Generator => fill_pattern(seed, generated, data),
                Feed::Stream => stream.pop(data),
                Feed::Lane(lane) => lanes[lane].take_out(data, now_ps),
                Feed::Memory => board.iter_mut().for_each(|board| board.take_out(data)),
                Feed::Nothing => {}
            }
        });
        if current.origin == Origin::Ping && current.built == 0 {
            self.ping_begun(now_ps);
        }
        let end = self.packet_end(index, feed).filter(|(left, _)| *left == bytes);
        if feed == Feed::Stream {
            self.ends.leave(bytes);
        }
        let channel = &mut self.channels[index];
        if feed == Feed::Generator {
            channel.generated += u64::from(bytes);
        }
        channel.sent = channel.sent.wrapping_add(bytes);
        channel.counters.bytes += u64::from(bytes);
        channel.note_tlp(now_ps, whole_ps);
        current.built += bytes;
        (channel.current, channel.next_bytes) = (Some(current), 0);
        if self.in_packets(index) {
            // A record follows the last data.
            self.packet_sent(index, &current, bytes, end.map(|(_, user)| user));
        } else if current.built == current.descriptor.bytes {
            self.written(index, current, whole_ps);
        }
        match (feed, &mut self.board) {
            (Feed::Lane(lane), _) => {
                self.settle_credit_time(lane);
                self.take_stalled(port);
            }
            (Feed::Memory, Some(board)) => board.taken_out(now_ps, whole_ps),
            _ => {}
        }
    }
}
