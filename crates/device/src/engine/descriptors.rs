// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of descriptors: tables in the engine, rings in host memory, and the command port.

use crosslane_fabric::{DevicePort, ErrorKind};
use crosslane_pcie::link::PAGE_BYTES;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::BusAddress;
use crosslane_regs::engine::{ChannelError, DescriptorSource, channel};
use crosslane_regs::{ring_descriptor, table_descriptor};

use super::arbiter::in_turn;
use super::channel::{Awaiting, Current, Descriptor, Fault, Kind, Origin, Reading};
use super::{Engine, TABLE_ENTRY_BYTES};

/// Valid lengths of a ring, in descriptors.
const RING_ENTRIES: std::ops::RangeInclusive<u32> = 16..=65536;
/// Alignment of a ring, bytes.
const RING_ALIGNMENT: u64 = 64;
/// Most batches fetched or waiting.
const BATCHES_AHEAD: u32 = 2;
/// Most descriptors of a peer channel that are sent and wait for credit.
const MAX_AWAITING: usize = 64;

/// Fetch that can be sent.
struct Fetch {
    address: u64,
    descriptors: u32,
}

pub(super) fn word(bytes: &[u8], offset: u32) -> u32 {
    let at = offset as usize;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn wide(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Descriptor {
    /// Decodes an entry of a ring.
    fn from_ring(bytes: &[u8]) -> Self {
        use ring_descriptor::{ADDRESS_HIGH, ADDRESS_LOW, CARD_HIGH, CARD_LOW, CONTROL, LENGTH};
        Self {
            address: wide(word(bytes, ADDRESS_LOW), word(bytes, ADDRESS_HIGH)),
            card: wide(word(bytes, CARD_LOW), word(bytes, CARD_HIGH)),
            bytes: word(bytes, LENGTH),
            control: word(bytes, CONTROL),
        }
    }

    /// Decodes an entry of a table.
    fn from_table(bytes: &[u8]) -> Self {
        use table_descriptor::{ADDRESS_HIGH, ADDRESS_LOW, CONTROL, LENGTH};
        Self {
            address: wide(word(bytes, ADDRESS_LOW), word(bytes, ADDRESS_HIGH)),
            card: 0,
            bytes: word(bytes, LENGTH),
            control: word(bytes, CONTROL),
        }
    }

    fn is_good(&self) -> bool {
        self.bytes != 0
    }
}

/// `stored` value of a table entry whose words have all been stored.
pub(super) const ALL_STORED: u8 = 0xf;

impl Engine {
    /// Discards the contents of a channel's table.
    pub(super) fn forget_table(&mut self, index: usize) {
        if let Some(table) = self.table_of(index) {
            self.stored[table].fill(0);
        }
    }

    /// Returns the index of a channel's table, if it has one.
    fn table_of(&self, index: usize) -> Option<usize> {
        let channel = &self.channels[index];
        match channel.kind {
            Kind::H2c if channel.number == 0 => Some(0),
            Kind::C2h if channel.number == 0 => Some(1),
            _ => None,
        }
    }

    /// Returns the capacity of a channel's ring or table in descriptors; `None` if it has none or
    /// its length is invalid.
    pub(super) fn places(&self, index: usize) -> Option<u32> {
        let channel = &self.channels[index];
        match channel.source()? {
            DescriptorSource::Table => {
                self.table_of(index).map(|_| u32::from(self.parameters.table_descriptors))
            }
            DescriptorSource::Ring => {
                let entries = channel.registers.get(channel::RING_ENTRIES);
                let fits = RING_ENTRIES.contains(&entries) && entries.is_power_of_two();
                fits.then_some(entries)
            }
            DescriptorSource::CommandPort => None,
        }
    }

    /// Returns the earliest time at which a channel may take up its next descriptor: the arrival of
    /// the descriptor plus the latency to its first TLP. `None` if it has no descriptor.
    pub(super) fn begins_ps(&self, index: usize) -> Option<u64> {
        let channel = &self.channels[index];
        let since_ps = match channel.source()? {
            DescriptorSource::Table if channel.posted() != 0 => channel.posted_ps(channel.begun),
            DescriptorSource::Ring if channel.next_inline().is_some() => {
                return self.inline_ps(index);
            }
            DescriptorSource::Ring => channel.waiting.front()?.1,
            DescriptorSource::CommandPort if self.command_waits(index) => self.command_since_ps(),
            DescriptorSource::Table | DescriptorSource::CommandPort => return None,
        };
        let p = &self.parameters;
        let write_clocks = if channel.kind == Kind::H2c { 0 } else { p.write_latency_clocks };
        Some(since_ps + p.clocks_ps(p.request_latency_clocks + write_clocks))
    }

    /// Returns the earliest time at which a channel may send its next fetch; `u64::MAX` if it has
    /// none or no time is known.
    pub(super) fn fetches_ps(&self, index: usize) -> u64 {
        if self.fetchable(index) == 0 {
            return u64::MAX;
        }
        let latency_ps = self.parameters.clocks_ps(self.parameters.fetch_latency_clocks);
        let channel = &self.channels[index];
        let tag_ps = self.tags.free_fetch_tag(index).map_or(u64::MAX, |(_, from_ps)| from_ps);
        let tag_ps = tag_ps.max(self.completions_ps());
        tag_ps.max(channel.posted_ps(channel.requested) + latency_ps)
    }

    /// Whether the host has posted a descriptor that the channel has not taken up, even if it is
    /// not fetched yet.
    pub(super) fn is_posted(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        match channel.source() {
            Some(DescriptorSource::CommandPort) => self.command_waits(index),
            _ => channel.posted() != 0,
        }
    }

    /// Sets a fault if more descriptors are posted than the ring or table holds, or if it is
    /// invalid.
    fn check_posted(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        channel.is_unchecked = false;
        if channel.fault.is_some()
            || channel.doorbell == channel.completed
            || channel.source() == Some(DescriptorSource::CommandPort)
        {
            return;
        }
        let open = channel.doorbell.wrapping_sub(channel.completed);
        if self.places(index).is_none_or(|places| open > places) {
            let channel = &mut self.channels[index];
            let address = channel.registers.wide(channel::RING_LOW);
            channel.fault = Some(Fault { error: ChannelError::BadDescriptor, address });
        }
    }

    /// Takes up the channel's next descriptor if it can. Stops the channel if a pending fault is
    /// due.
    pub(super) fn prepare(&mut self, index: usize, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        if !self.channels[index].is_running() {
            return;
        }
        if self.channels[index].is_unchecked {
            self.check_posted(index);
        }
        let channel = &self.channels[index];
        // Descriptors fetched earlier come first.
        if let Some(fault) = channel.fault
            && channel.waiting.is_empty()
        {
            if channel.has_finished() {
                self.stop(index, fault, now_ps);
            }
            return;
        }
        if channel.current.is_some() {
            return;
        }
        let from_host = channel.source() != Some(DescriptorSource::CommandPort);
        let is_full = match channel.kind {
            Kind::H2c => self.reads_enough(index),
            Kind::C2h => self.must_wait_for_copies(index),
            Kind::Peer => channel.awaiting.len() >= MAX_AWAITING,
        };
        if is_full
            || (from_host && channel.gap_until_ps > now_ps)
            || self.begins_ps(index).is_none_or(|begins_ps| begins_ps > now_ps)
        {
            return;
        }
        let inline = channel.next_inline().filter(|_| from_host).copied();
        let (descriptor, origin) = self.next_descriptor(index);
        let can_be = (!descriptor.is_copied() || self.copies(index))
            && inline.is_none_or(|_| self.takes_inline(index, &descriptor))
            && self.fits_packets(index, &descriptor);
        let error = if !descriptor.is_good() || !can_be {
            ChannelError::BadDescriptor
        } else if !self.function.is_bus_master {
            port.report(ErrorKind::NotBusMaster { requester: port.routing_id() });
            ChannelError::NotBusMaster
        } else {
            match inline {
                Some(inline) => self.deliver_inline(index, descriptor, &inline, now_ps),
                None => self.begin(index, descriptor, origin),
            }
            return;
        };
        let fault = Fault { error, address: descriptor.address };
        let channel = &mut self.channels[index];
        channel.waiting.clear();
        channel.fault = Some(fault);
        if channel.has_finished() {
            self.stop(index, fault, now_ps);
        }
    }

    /// Whether a channel's descriptors may copy within the card's memory.
    fn copies(&self, index: usize) -> bool {
        self.channels[index].kind == Kind::C2h && self.in_memory(index)
    }

    /// Whether the next descriptor of a C2H channel must wait for copies before it: because it is
    /// not a copy itself, or because too many are open.
    fn must_wait_for_copies(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        let is_copied = channel.waiting.front().is_some_and(|(next, _)| next.is_copied());
        let most = if is_copied { MAX_AWAITING } else { 1 };
        channel.reading.len() >= most
    }

    /// Whether an H2C channel has reached its limit of descriptors with reads in flight.
    pub(super) fn reads_enough(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        let most = usize::from(self.parameters.reading_descriptors);
        channel.kind == Kind::H2c
            && (channel.reading.len() >= most
                || self.has_packets_enough(index)
                || self.must_wait_inline(index))
    }

    /// Returns the next descriptor of a channel, which must exist.
    fn next_descriptor(&mut self, index: usize) -> (Descriptor, Origin) {
        if self.channels[index].source() == Some(DescriptorSource::CommandPort) {
            return self.take_command();
        }
        let table = self.table_of(index);
        let channel = &mut self.channels[index];
        if channel.next_inline().is_some() {
            channel.inline = None;
        }
        let fetched = channel.waiting.pop_front().map(|(descriptor, _)| descriptor);
        let descriptor = fetched.unwrap_or_else(|| {
            let places = u32::from(self.parameters.table_descriptors);
            let entry = (channel.begun % places) as usize;
            let at = entry * TABLE_ENTRY_BYTES;
            let table = table.expect("a channel without a table takes nothing up from it");
            let read = Descriptor::from_table(&self.tables[table][at..at + TABLE_ENTRY_BYTES]);
            // Each entry is used once, and only if all its words were stored: stores lost on the
            // link must not revive an old descriptor or leave a partial one.
            let stored = std::mem::take(&mut self.stored[table][entry]);
            if stored == ALL_STORED { read } else { Descriptor { bytes: 0, ..read } }
        });
        channel.begun = channel.begun.wrapping_add(1);
        (descriptor, Origin::Host)
    }

    fn begin(&mut self, index: usize, descriptor: Descriptor, origin: Origin) {
        let channel = &mut self.channels[index];
        channel.next_bytes = 0;
        let before = channel.current.replace(Current { descriptor, built: 0, origin });
        assert!(before.is_none(), "{descriptor:x?} is taken up in the middle of {before:x?}");
        if channel.kind == Kind::H2c {
            let Descriptor { bytes, control, .. } = descriptor;
            channel.reading.push_back(Reading { bytes, delivered: 0, control });
            if self.in_memory(index)
                && let Some(board) = &mut self.board
            {
                board.begin(descriptor);
            }
        } else if descriptor.is_copied() {
            self.begin_copy(index, descriptor);
        }
    }

    /// Handles the end of a write channel's descriptor, whose last TLP is handed on whole at
    /// `whole_ps`.
    pub(super) fn written(&mut self, index: usize, current: Current, whole_ps: u64) {
        let descriptor = current.descriptor;
        let (built, bytes) = (current.built, descriptor.bytes);
        assert!(built == bytes, "a descriptor of {bytes} B is written with {built} B");
        // A status block is assembled like the payload of a write.
        let latency_ps = self.parameters.clocks_ps(self.parameters.write_latency_clocks);
        let channel = &mut self.channels[index];
        channel.current = None;
        if current.origin != Origin::Host {
            self.command_written(current.origin);
            return;
        }
        channel.begin_gap(self.engine_free_ps, self.parameters.descriptor_gap.0);
        let awaits = ring_descriptor::control::AWAIT_CREDIT.get(descriptor.control) != 0;
        let credit = (awaits && channel.kind == Kind::Peer).then_some(channel.sent);
        channel.awaiting.push_back(Awaiting {
            bytes: descriptor.bytes,
            control: descriptor.control,
            credit,
        });
        channel.settle_credit(whole_ps + latency_ps, self.parameters.clock.0);
    }

    // --- Rings ---------------------------------------------------------------------------

    /// Returns the number of descriptors that a channel wants to fetch now: a whole batch, or all
    /// that are posted.
    fn fetchable(&self, index: usize) -> u32 {
        let channel = &self.channels[index];
        let posted = channel.doorbell.wrapping_sub(channel.requested);
        if posted == 0
            || channel.source() != Some(DescriptorSource::Ring)
            || channel.fault.is_some()
            || !channel.is_running()
        {
            return 0;
        }
        let open = channel.doorbell.wrapping_sub(channel.completed);
        let batch = u32::from(self.parameters.fetch_batch);
        let ahead = channel.requested.wrapping_sub(channel.begun);
        let wanted = posted.min(batch);
        let has_room = ahead + wanted <= BATCHES_AHEAD * batch;
        let is_valid = has_room && self.places(index).is_some_and(|entries| open <= entries);
        if is_valid { wanted } else { 0 }
    }

    /// Returns the fetch of `wanted` descriptors, or of those before the end of the ring or the
    /// next boundary of a longest read.
    fn next_fetch(&self, index: usize, wanted: u32) -> Option<Fetch> {
        let channel = &self.channels[index];
        let entries = self.places(index)?;
        let first = channel.requested % entries;
        let address = (channel.registers.wide(channel::RING_LOW) & !(RING_ALIGNMENT - 1))
            .wrapping_add(u64::from(first) * u64::from(ring_descriptor::BYTES));
        let p = &self.parameters;
        let most = p.max_read_bytes.min(self.function.max_read_request_bytes);
        let to_boundary = (u64::from(most) - address % u64::from(most)) as u32;
        let descriptors = wanted.min(entries - first).min(to_boundary / ring_descriptor::BYTES);
        Some(Fetch { address, descriptors })
    }

    /// Sends a descriptor fetch, taking the channels in turn from `fetch_turn`. Returns whether it
    /// sent one.
    pub(super) fn build_fetch(&mut self, port: &mut DevicePort<'_>) -> bool {
        for index in in_turn(self.fetch_turn, self.running) {
            let channel = &self.channels[index];
            if channel.doorbell == channel.requested || self.fetches_ps(index) > port.now_ps() {
                continue;
            }
            let wanted = self.fetchable(index);
            let Some(fetch) = self.next_fetch(index, wanted) else { continue };
            if !self.function.is_bus_master {
                port.report(ErrorKind::NotBusMaster { requester: port.routing_id() });
                let (error, address) = (ChannelError::NotBusMaster, fetch.address);
                self.channels[index].fault = Some(Fault { error, address });
                self.prepare(index, port);
                continue;
            }
            let Some((tag, _)) = self.tags.free_fetch_tag(index) else { continue };
            self.fetch_turn = index + 1;
            self.assert_in_ring(index, &fetch);
            let bytes = fetch.descriptors * ring_descriptor::BYTES;
            let deadline_ps = port.now_ps() + self.parameters.completion_timeout.0;
            self.tags.begin(Some(tag), index, fetch.address, bytes, deadline_ps);
            self.time_outs.at(deadline_ps, port);
            let channel = &mut self.channels[index];
            channel.fetches.push_back(tag);
            channel.requested = channel.requested.wrapping_add(fetch.descriptors);
            let id = port.routing_id();
            let tag = self.tags.table.on_the_wire(tag);
            let header = Header::memory_read(id, tag, BusAddress(fetch.address), bytes);
            self.send(header, port, |_| {});
            return true;
        }
        false
    }

    /// Asserts that a fetch asks for posted descriptors, lies in its ring, and obeys the function's
    /// limit.
    fn assert_in_ring(&self, index: usize, fetch: &Fetch) {
        let channel = &self.channels[index];
        let (count, posted) = (fetch.descriptors, channel.doorbell.wrapping_sub(channel.requested));
        assert!(count > 0 && count <= posted, "{count} descriptors are fetched, of {posted}");
        let entries = self.places(index).unwrap_or(0);
        let first = channel.requested.checked_rem(entries).unwrap_or(u32::MAX);
        assert!(
            first.checked_add(count).is_some_and(|end| end <= entries),
            "{count} descriptors are fetched from {first} on, of a ring of {entries}"
        );
        let (bytes, allowed) =
            (count * ring_descriptor::BYTES, self.function.max_read_request_bytes);
        assert!(bytes <= allowed, "a fetch of {bytes} B, and the function is set to {allowed} B");
        let in_page = fetch.address % PAGE_BYTES + u64::from(bytes);
        assert!(in_page <= PAGE_BYTES, "{bytes} B at {:#x} cross a boundary", fetch.address);
    }

    /// Takes the descriptors that have arrived, in order.
    pub(super) fn take_descriptors(&mut self, index: usize, now_ps: u64) {
        // The engine looks at the channels in turn, one per clock; this is the mean delay.
        let there_ps = now_ps + self.parameters.clocks_ps((self.channels.len() as u32 - 1) / 2);
        let seen_ps = there_ps + self.parameters.drain_ps();
        while let Some(tag) = self.channels[index].fetches.front().copied() {
            let slot = *self.tags.get(tag);
            let owner = slot.purpose.channel;
            assert!(owner == index, "channel {index} fetches by tag {tag}, which {owner} has");
            let channel = &mut self.channels[index];
            if let Some(error) = slot.channel_error() {
                let address = slot.address.wrapping_add(u64::from(slot.good));
                channel.fault.get_or_insert(Fault { error, address });
                // The batch fails as a whole; later batches are discarded.
                for tag in channel.fetches.drain(..) {
                    self.tags.abandon(tag);
                }
                return;
            }
            if !slot.is_whole() {
                return;
            }
            let entries = self.tags.data(tag, 0).chunks_exact(ring_descriptor::BYTES as usize);
            let before = channel.waiting.len();
            channel.waiting.extend(entries.map(|entry| (Descriptor::from_ring(entry), there_ps)));
            let fetched = (channel.waiting.len() - before) as u32;
            let (bytes, read) = (fetched * ring_descriptor::BYTES, slot.bytes);
            assert!(bytes == read, "{bytes} B of descriptors have come, of {read} B");
            channel.counters.fetched = channel.counters.fetched.wrapping_add(fetched);
            channel.fetches.pop_front();
            self.tags.give_back(tag, seen_ps);
        }
    }
}
