// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory-mapped mode (`docs/engine.md`, "The card's memory"): what H2C channel 0 has read goes to
//! addresses of the card's memory, and what C2H channel 0 writes comes from there.

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_regs::engine::ChannelError;
use crosslane_regs::engine::channel::control;

use super::Engine;
use super::channel::{Current, Descriptor, Fault, Kind, Reading};
use crate::card_memory::{CardMemory, CardMemoryParameters, Copying, Refused};

/// Where the data of a descriptor go that has been taken up.
struct Place {
    /// Card address of the next byte to be written.
    address: u64,
    /// Bytes of the descriptor before it, and from it on.
    done: u32,
    left: u32,
}

/// What the memory says of what was written.
enum Confirmed {
    Bytes(u32),
    /// Here it ends: the memory refused it, or the bus did.
    Fault(Fault),
}

/// What the memory confirms of what a channel writes, in order, with the time.
#[derive(Default)]
struct Confirmations {
    waiting: VecDeque<(u64, Confirmed)>,
    /// Nothing is written any more.
    has_failed: bool,
}

impl Confirmations {
    /// Notes what is confirmed at a time, behind all before it.
    fn push(&mut self, at_ps: u64, confirmed: Confirmed) {
        let before_ps = self.waiting.back().map_or(0, |(at_ps, _)| *at_ps);
        self.has_failed |= matches!(confirmed, Confirmed::Fault(_));
        self.waiting.push_back((at_ps.max(before_ps), confirmed));
    }

    /// Notes what has become of so many bytes. Returns when that is known.
    fn note(&mut self, written: Result<u64, Refused>, bytes: u32) -> u64 {
        match written {
            Ok(at_ps) => {
                self.push(at_ps, Confirmed::Bytes(bytes));
                at_ps
            }
            Err(refused) => {
                self.push(refused.at_ps, Confirmed::Bytes(refused.before));
                let (error, address) = (ChannelError::CardMemory, refused.address);
                self.push(refused.at_ps, Confirmed::Fault(Fault { error, address }));
                refused.at_ps
            }
        }
    }

    /// When the next is confirmed; `u64::MAX` for none.
    fn next_ps(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |(at_ps, _)| *at_ps)
    }

    /// The next of what is confirmed by now, with the time.
    fn next(&mut self, now_ps: u64) -> Option<(u64, Confirmed)> {
        if self.next_ps() > now_ps { None } else { self.waiting.pop_front() }
    }
}

/// H2C: data on their way into the memory.
#[derive(Default)]
struct Writing {
    places: VecDeque<Place>,
    /// What has come of the next burst.
    gathered: Vec<u8>,
    confirmed: Confirmations,
    /// Copying in turn: the next burst is read from here on.
    turn_ps: u64,
}

/// C2H: data on their way back into the memory.
#[derive(Default)]
struct Copies {
    confirmed: Confirmations,
    /// When the stream that they pass is free.
    stream_free_ps: u64,
    /// A buffer that is used again.
    burst: Vec<u8>,
}

/// C2H: data that have been read ahead.
#[derive(Default)]
struct Ahead {
    /// The descriptor that is read, absolute, and bytes of it that were asked for.
    number: u32,
    offset: u32,
    data: VecDeque<u8>,
    /// What has not come yet, and when it does.
    arriving: VecDeque<(u64, u32)>,
    /// The memory has refused what follows, and when that was known.
    failed_ps: Option<u64>,
    /// Copying in turn: the next burst is read from here on.
    turn_ps: u64,
}

impl Ahead {
    fn ready(&self, now_ps: u64) -> u32 {
        let later = self.arriving.iter().filter(|(at_ps, _)| *at_ps > now_ps);
        let (all, later) = (self.data.len() as u32, later.map(|(_, bytes)| bytes).sum::<u32>());
        assert!(later <= all, "{later} B are still to come, of {all} B");
        all - later
    }

    fn next_ps(&self, now_ps: u64) -> u64 {
        let arriving = self.arriving.iter().map(|(at_ps, _)| *at_ps);
        let times = arriving.chain(self.failed_ps).chain([self.turn_ps]);
        times.filter(|at_ps| *at_ps > now_ps).min().unwrap_or(u64::MAX)
    }
}

/// The way of a burst through the stream of the user circuit.
#[derive(Clone, Copy)]
struct Passage {
    /// What its beats take.
    crossing_ps: u64,
    /// From the last of them to the memory.
    latency_ps: u64,
}

/// The card's memory, and what is under way between it and the channels.
pub(super) struct Board {
    memory: CardMemory,
    writing: Writing,
    ahead: Ahead,
    copies: Copies,
}

impl Board {
    pub fn new(parameters: CardMemoryParameters) -> Self {
        let (writing, ahead, copies) = (Writing::default(), Ahead::default(), Copies::default());
        Self { memory: CardMemory::new(parameters), writing, ahead, copies }
    }

    /// Longest burst of a copier that reads and writes in turn, and the time between the two.
    fn in_turn(&self) -> Option<(u32, u64)> {
        match self.memory.parameters.copying {
            Copying::Overlapped => None,
            Copying::InTurn { turnaround_clocks } => {
                let turnaround_ps = self.memory.clocks_ps(turnaround_clocks);
                Some((self.memory.parameters.burst_bytes(), turnaround_ps))
            }
        }
    }

    /// Forgets what is under way for a channel; bursts that were begun are done.
    pub fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::H2c => self.writing = Writing::default(),
            Kind::C2h => (self.ahead, self.copies) = (Ahead::default(), Copies::default()),
            Kind::Peer => {}
        }
    }

    /// An H2C descriptor is taken up.
    pub fn begin(&mut self, descriptor: Descriptor) {
        let Descriptor { card, bytes, .. } = descriptor;
        self.writing.places.push_back(Place { address: card, done: 0, left: bytes });
    }

    /// Whether nothing more is taken: something before it has failed.
    pub fn has_failed(&self) -> bool {
        self.writing.confirmed.has_failed
    }

    /// Takes data that have been read, in order. They are written a burst at a time.
    pub fn take_in(&mut self, mut data: &[u8], now_ps: u64) {
        while let Some(place) = self.writing.places.front()
            && !data.is_empty()
            && !self.writing.confirmed.has_failed
        {
            let burst = match self.in_turn() {
                Some((burst_bytes, _)) => burst_bytes - place.done % burst_bytes,
                None => self.memory.to_burst_end(place.address),
            };
            let burst = burst.min(place.left) as usize;
            let gathered = self.writing.gathered.len();
            assert!(gathered < burst, "{gathered} B are gathered for a burst of {burst} B");
            let count = data.len().min(burst - gathered);
            let (now, later) = data.split_at(count);
            self.writing.gathered.extend_from_slice(now);
            data = later;
            if self.writing.gathered.len() == burst {
                self.write(now_ps);
            }
        }
    }

    /// Writes what has been gathered.
    fn write(&mut self, now_ps: u64) {
        let Some(place) = self.writing.places.front() else { return };
        let from_ps = now_ps + self.in_turn().map_or(0, |(_, turnaround_ps)| turnaround_ps);
        let data = std::mem::take(&mut self.writing.gathered);
        if data.is_empty() {
            return;
        }
        let bytes = data.len() as u32;
        self.writing.confirmed.note(self.memory.write(from_ps, place.address, &data), bytes);
        let Some(place) = self.writing.places.front_mut() else { return };
        let left = place.left;
        assert!(bytes <= left, "{bytes} B are written, and the descriptor has {left} B left");
        place.address = place.address.wrapping_add(u64::from(bytes));
        (place.done, place.left) = (place.done + bytes, place.left - bytes);
        if place.left == 0 {
            self.writing.places.pop_front();
        }
        // The buffer is of use again.
        self.writing.gathered = data;
        self.writing.gathered.clear();
    }

    /// The bus has failed: what came before it is written.
    pub fn fail(&mut self, fault: Fault, now_ps: u64) {
        self.write(now_ps);
        if !self.writing.confirmed.has_failed {
            self.writing.confirmed.push(now_ps, Confirmed::Fault(fault));
        }
    }

    /// The next of what is confirmed to H2C by now.
    fn next_confirmed(&mut self, now_ps: u64) -> Option<Confirmed> {
        let (at_ps, confirmed) = self.writing.confirmed.next(now_ps)?;
        self.writing.turn_ps = self.in_turn().map_or(0, |(_, turnaround_ps)| at_ps + turnaround_ps);
        Some(confirmed)
    }

    /// Copies the oldest bytes for C2H, which are there, to an address of the memory: through the
    /// stream of the user circuit, which takes them so long.
    fn copy(&mut self, address: u64, bytes: u32, now_ps: u64, stream: Passage) {
        let mut data = std::mem::take(&mut self.copies.burst);
        data.resize(bytes as usize, 0);
        self.take_out(&mut data);
        let passed_ps = self.copies.stream_free_ps.max(now_ps) + stream.crossing_ps;
        self.copies.stream_free_ps = passed_ps;
        let turnaround_ps = self.in_turn().map_or(0, |(_, turnaround_ps)| turnaround_ps);
        let from_ps = passed_ps + stream.latency_ps + turnaround_ps;
        let known_ps =
            self.copies.confirmed.note(self.memory.write(from_ps, address, &data), bytes);
        self.taken_out(now_ps, known_ps);
        self.copies.burst = data;
    }

    /// Bytes for C2H that have come.
    pub fn ready(&self, now_ps: u64) -> u32 {
        self.ahead.ready(now_ps)
    }

    /// When more of them may have come; `u64::MAX` for never as things are.
    pub fn next_ready_ps(&self, now_ps: u64) -> u64 {
        self.ahead.next_ps(now_ps)
    }

    /// Takes out the oldest bytes for C2H; so many are there.
    pub fn take_out(&mut self, out: &mut [u8]) {
        let (wanted, all) = (out.len(), self.ahead.data.len());
        assert!(wanted <= all, "{wanted} B are taken out, of {all} B that were read");
        let (front, behind) = self.ahead.data.as_slices();
        let (first, rest) = out.split_at_mut(front.len().min(out.len()));
        first.copy_from_slice(&front[..first.len()]);
        rest.copy_from_slice(&behind[..rest.len()]);
        self.ahead.data.drain(..out.len());
    }

    /// A TLP with bytes that were taken out is handed on whole at this time.
    pub fn taken_out(&mut self, now_ps: u64, whole_ps: u64) {
        self.ahead.arriving.retain(|(at_ps, _)| *at_ps > now_ps);
        if let Some((_, turnaround_ps)) = self.in_turn()
            && self.ahead.data.is_empty()
        {
            self.ahead.turn_ps = whole_ps + turnaround_ps;
        }
    }

    /// Reads ahead of a descriptor what there is room for. Returns whether all of it has been
    /// asked for.
    fn read_ahead(&mut self, descriptor: Descriptor, now_ps: u64) -> bool {
        let in_turn = self.in_turn();
        loop {
            let (bytes, asked) = (descriptor.bytes, self.ahead.offset);
            assert!(asked <= bytes, "{asked} B were asked for, of a descriptor of {bytes} B");
            let left = bytes - asked;
            if left == 0 {
                return true;
            }
            let address = descriptor.card.wrapping_add(u64::from(self.ahead.offset));
            let (bytes, has_room) = match in_turn {
                Some((burst_bytes, _)) => {
                    let bytes = left.min(burst_bytes - self.ahead.offset % burst_bytes);
                    (bytes, self.ahead.data.is_empty() && self.ahead.turn_ps <= now_ps)
                }
                None => {
                    let bytes = left.min(self.memory.to_burst_end(address));
                    let most = self.memory.parameters.read_ahead_bytes as usize;
                    (bytes, self.ahead.data.len() + bytes as usize <= most)
                }
            };
            if !has_room || self.ahead.failed_ps.is_some() {
                return false;
            }
            self.read(address, bytes, now_ps);
            self.ahead.offset += bytes;
        }
    }

    /// Reads bytes, in one burst or, where a copier takes what it reads for one, in more.
    fn read(&mut self, address: u64, bytes: u32, now_ps: u64) {
        let turnaround_ps = self.in_turn().map_or(0, |(_, turnaround_ps)| turnaround_ps);
        let (mut done, mut end_ps) = (0, now_ps);
        while done < bytes {
            let at = address.wrapping_add(u64::from(done));
            let part = (bytes - done).min(self.memory.to_burst_end(at));
            let mut data = vec![0; part as usize];
            match self.memory.read(now_ps, at, &mut data) {
                Ok(at_ps) => end_ps = end_ps.max(at_ps),
                Err(refused) => {
                    self.ahead.failed_ps = Some(refused.at_ps.max(end_ps));
                    break;
                }
            }
            self.ahead.data.extend(data);
            done += part;
        }
        let before_ps = self.ahead.arriving.back().map_or(0, |(at_ps, _)| *at_ps);
        self.ahead.arriving.push_back((before_ps.max(end_ps + turnaround_ps), done));
    }
}

impl Engine {
    /// Whether the data of a channel are in the card's memory.
    pub(super) fn in_memory(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        self.has_memory_mode(index) && control::CARD_MEMORY.get(channel.control) != 0
    }

    /// Whether they can be.
    pub(super) fn has_memory_mode(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        self.board.is_some() && channel.number == 0 && channel.kind != Kind::Peer
    }

    /// A channel has stopped or restarts.
    pub(super) fn forget_memory(&mut self, index: usize) {
        let channel = &self.channels[index];
        if channel.number == 0
            && let Some(board) = &mut self.board
        {
            board.forget(channel.kind);
        }
    }

    /// Bytes to the end of the burst of a copier in turn: no TLP is longer.
    pub(super) fn left_of_copy(&self, index: usize, current: &Current) -> u32 {
        let in_turn =
            self.board.as_ref().filter(|_| self.in_memory(index)).and_then(Board::in_turn);
        in_turn.map_or(u32::MAX, |(burst_bytes, _)| burst_bytes - current.built % burst_bytes)
    }

    /// When an H2C channel may send its next read as far as its copier goes: what it has read
    /// before is in the memory. `u64::MAX` for never as things are.
    pub(super) fn copies_ps(&self, index: usize, current: &Current) -> u64 {
        let Some(board) = self.board.as_ref().filter(|_| self.in_memory(index)) else { return 0 };
        match board.in_turn() {
            Some((burst_bytes, _)) if current.built.is_multiple_of(burst_bytes) => {
                let is_written = self.channels[index].unread_bytes == 0;
                if is_written { board.writing.turn_ps } else { u64::MAX }
            }
            _ => 0,
        }
    }

    /// When the memory confirms the next bytes that were written; `u64::MAX` for none.
    pub(super) fn next_confirmed_ps(&self) -> u64 {
        let written_ps =
            self.board.as_ref().map_or(u64::MAX, |board| board.writing.confirmed.next_ps());
        written_ps.min(self.next_copied_ps())
    }

    /// When it confirms the next bytes that were copied; `u64::MAX` for none.
    pub(super) fn next_copied_ps(&self) -> u64 {
        self.board.as_ref().map_or(u64::MAX, |board| board.copies.confirmed.next_ps())
    }

    /// What the memory has confirmed by now is moved.
    pub(super) fn settle_memory(&mut self, now_ps: u64) {
        let h2c = self.index(Kind::H2c, 0);
        while let Some(confirmed) =
            self.board.as_mut().and_then(|board| board.next_confirmed(now_ps))
        {
            self.settle(h2c, confirmed, now_ps);
        }
        let c2h = self.index(Kind::C2h, 0);
        while let Some((_, confirmed)) =
            self.board.as_mut().and_then(|board| board.copies.confirmed.next(now_ps))
        {
            self.channels[c2h].note_data(now_ps);
            self.settle(c2h, confirmed, now_ps);
        }
    }

    fn settle(&mut self, index: usize, confirmed: Confirmed, now_ps: u64) {
        match confirmed {
            Confirmed::Bytes(bytes) => self.note_delivered(index, bytes, now_ps),
            Confirmed::Fault(fault) => self.stop(index, fault, now_ps),
        }
    }

    /// A descriptor that says to copy within the card's memory is taken up.
    pub(super) fn begin_copy(&mut self, index: usize, descriptor: Descriptor) {
        let Descriptor { bytes, control, .. } = descriptor;
        self.channels[index].reading.push_back(Reading { bytes, delivered: 0, control });
    }

    /// Bytes of the next burst that is copied.
    pub(super) fn next_copy_bytes(&self, index: usize, current: &Current) -> u32 {
        let address = current.descriptor.address.wrapping_add(u64::from(current.built));
        let left = current.descriptor.bytes - current.built;
        let burst = self.board.as_ref().map_or(left, |board| board.memory.to_burst_end(address));
        left.min(burst).min(self.left_of_copy(index, current))
    }

    /// Copies within the card's memory what can be copied now.
    pub(super) fn copy_on(&mut self, port: &mut DevicePort<'_>) {
        let index = self.index(Kind::C2h, 0);
        if !self.in_memory(index) {
            return;
        }
        loop {
            self.prepare(index, port);
            self.look_ahead(index, port);
            if !self.copy_burst(index, port.now_ps()) {
                return;
            }
        }
    }

    /// Copies the next burst if there is one whose data have come. Returns whether there was.
    fn copy_burst(&mut self, index: usize, now_ps: u64) -> bool {
        let Some(mut current) = self.channels[index].current.filter(Current::is_copied) else {
            return false;
        };
        let bytes = self.next_copy_bytes(index, &current);
        let p = &self.parameters;
        let stream = Passage {
            crossing_ps: p.clocks_ps(bytes.div_ceil(p.datapath_bytes)),
            latency_ps: p.clocks_ps(p.stream_latency_clocks),
        };
        let Some(board) = &mut self.board else { return false };
        let channel = &mut self.channels[index];
        // What is not confirmed is held in buffers, as large as those that are read into.
        let most = board.memory.parameters.read_ahead_bytes;
        let has_room = channel.unread_bytes + bytes <= most;
        if !channel.is_running()
            || board.copies.confirmed.has_failed
            || !has_room
            || board.ready(now_ps) < bytes
        {
            return false;
        }
        board.copy(channel.next_address(), bytes, now_ps, stream);
        channel.unread_bytes += bytes;
        channel.note_burst(now_ps);
        current.built += bytes;
        let (built, all) = (current.built, current.descriptor.bytes);
        assert!(built <= all, "{built} B are copied, of a descriptor of {all} B");
        channel.current = (current.built < current.descriptor.bytes).then_some(current);
        if channel.current.is_none() {
            channel.begin_gap(now_ps, self.parameters.descriptor_gap.0);
        }
        true
    }

    /// Reads ahead for a C2H channel, and stops it where what it needs next does not come.
    pub(super) fn look_ahead(&mut self, index: usize, port: &DevicePort<'_>) {
        if self.channels[index].kind != Kind::C2h
            || !self.in_memory(index)
            || !self.channels[index].is_running()
        {
            return;
        }
        let now_ps = port.now_ps();
        while let Some(board) = &mut self.board {
            let number = board.ahead.number;
            let channel = &self.channels[index];
            let ahead = number.wrapping_sub(channel.begun);
            let descriptor = match channel.current {
                Some(current) if ahead == u32::MAX => Some(current.descriptor),
                _ => channel.waiting.get(ahead as usize).map(|(descriptor, _)| *descriptor),
            };
            let Some(descriptor) = descriptor.filter(|it| it.bytes > 0) else { break };
            if !board.read_ahead(descriptor, now_ps) {
                break;
            }
            (board.ahead.number, board.ahead.offset) = (number.wrapping_add(1), 0);
        }
        let has_failed = |board: &Board| board.ahead.failed_ps.is_some_and(|at_ps| at_ps <= now_ps);
        if self.board.as_ref().is_some_and(has_failed)
            && let Some(current) = self.channels[index].current
            && self.channels[index].unread_bytes == 0
            && self.write_lacks_data(index, &current, port)
        {
            let address = self.channels[index].next_address();
            self.stop(index, Fault { error: ChannelError::CardMemory, address }, now_ps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card_memory::DramParameters;
    use crosslane_pcie::units::Picoseconds;

    /// 256 bits at 100 MHz before a DRAM that opens no rows and refreshes nothing.
    fn board(copying: Copying) -> Board {
        let dram = DramParameters {
            channels: 1,
            bus_bytes: 8,
            clock: Picoseconds(1250),
            burst_transfers: 8,
            row_bytes: 8192,
            row_change: Picoseconds::ZERO,
            refresh_interval: Picoseconds::ZERO,
            refresh: Picoseconds::ZERO,
        };
        Board::new(CardMemoryParameters {
            bytes: 1 << 20,
            axi_bytes: 32,
            axi_clock: Picoseconds(10_000),
            burst_beats: 16,
            read_ahead_bytes: 8192,
            read_latency: Picoseconds(100_000),
            write_latency: Picoseconds(60_000),
            copying,
            dram,
        })
    }

    const IN_TURN: Copying = Copying::InTurn { turnaround_clocks: 5 };

    fn descriptor(card: u64, bytes: u32) -> Descriptor {
        Descriptor { address: 0, card, bytes, control: 0 }
    }

    fn confirmed(board: &Board) -> Vec<(u64, u32)> {
        let times = board.writing.confirmed.waiting.iter().map(|(at_ps, what)| match what {
            Confirmed::Bytes(bytes) => (*at_ps, *bytes),
            Confirmed::Fault(_) => (*at_ps, u32::MAX),
        });
        times.collect()
    }

    #[test]
    fn writes_that_overlap_take_a_beat_a_clock_from_the_first_data_on() {
        let mut board = board(Copying::Overlapped);
        board.begin(descriptor(0, 1024));
        board.take_in(&[1; 256], 0);
        assert_eq!(confirmed(&board), []);
        board.take_in(&[1; 256], 50_000);
        board.take_in(&[1; 512], 60_000);
        // Each burst: 16 beats of 10 ns, 60 ns to the confirmation; the second behind the first.
        assert_eq!(confirmed(&board), [(270_000, 512), (430_000, 512)]);
    }

    #[test]
    fn a_copier_writes_a_burst_when_it_has_all_of_it_and_then_reads_on() {
        let mut board = board(IN_TURN);
        board.begin(descriptor(256, 1024));
        board.take_in(&[1; 512], 1_000_000);
        // 512 B from 256 on are two AXI bursts of 8 beats: 50 ns turnaround, 160 ns, 60 ns.
        assert_eq!(confirmed(&board), [(1_270_000, 512)]);
        assert!(board.next_confirmed(1_269_999).is_none());
        assert!(board.next_confirmed(1_270_000).is_some());
        // The next read may be sent 50 ns behind the confirmation.
        assert_eq!(board.writing.turn_ps, 1_320_000);
    }

    #[test]
    fn a_copier_offers_a_burst_when_it_has_all_of_it_and_reads_on_when_it_is_written() {
        let mut board = board(IN_TURN);
        assert!(!board.read_ahead(descriptor(0, 1024), 0));
        // 100 ns and 5 ns to the first data, the edge behind it, 16 beats, 50 ns turnaround.
        assert_eq!(board.next_ready_ps(0), 110_000 + 160_000 + 50_000);
        assert_eq!((board.ready(319_999), board.ready(320_000)), (0, 512));
        board.take_out(&mut [0; 256]);
        board.taken_out(330_000, 340_000);
        assert!(!board.read_ahead(descriptor(0, 1024), 340_000));
        assert_eq!(board.ahead.offset, 512);
        board.take_out(&mut [0; 256]);
        board.taken_out(340_000, 350_000);
        assert_eq!(board.next_ready_ps(340_000), 400_000);
        assert!(!board.read_ahead(descriptor(0, 1024), 399_999));
        assert_eq!(board.ahead.offset, 512);
        // All of it is asked for; it is there 320 ns later.
        assert!(board.read_ahead(descriptor(0, 1024), 400_000));
        assert_eq!((board.ready(719_999), board.ready(720_000)), (0, 512));
    }

    #[test]
    fn reads_ahead_overlap_and_stop_at_8_kib() {
        let mut board = board(Copying::Overlapped);
        assert!(!board.read_ahead(descriptor(0, 16_384), 0));
        assert_eq!(board.ahead.offset, 8192);
        // 256 beats behind the first burst's way.
        assert_eq!(
            (board.ready(110_000 + 2_559_999), board.ready(110_000 + 2_560_000)),
            (7680, 8192)
        );
        board.take_out(&mut [0; 512]);
        board.taken_out(3_000_000, 3_000_000);
        assert!(!board.read_ahead(descriptor(0, 16_384), 3_000_000));
        assert_eq!(board.ahead.offset, 8704);
    }

    #[test]
    fn what_is_before_a_fault_is_written_first() {
        let mut board = board(Copying::Overlapped);
        board.begin(descriptor(0, 1024));
        board.take_in(&[1; 100], 0);
        let (error, address) = (ChannelError::Poisoned, 7);
        board.fail(Fault { error, address }, 1_000);
        // Four beats from the next edge on.
        assert_eq!(confirmed(&board), [(110_000, 100), (110_000, u32::MAX)]);
        assert!(board.has_failed());
        board.forget(Kind::H2c);
        assert!(!board.has_failed());
    }
}
