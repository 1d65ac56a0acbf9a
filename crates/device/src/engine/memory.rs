// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory-mapped mode (`docs/engine.md`, "The card's memory"): H2C channel 0 writes its data to
//! addresses of the card's memory, and C2H channel 0 reads its data from there.

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_pcie::tlp::{CompletionStatus, Header};
use crosslane_regs::engine::ChannelError;
use crosslane_regs::engine::channel::control;

use super::arbiter::later;
use super::channel::{Current, Descriptor, Fault, Kind, Reading};
use super::{Engine, WINDOW_BAR};
use crate::card_memory::{CardMemory, CardMemoryParameters, Copying, Refused};
use crate::kit::Answer;

/// Target in the card's memory of a descriptor that has been taken up.
struct WritePosition {
    /// Card address of the next byte to be written.
    address: u64,
    /// Bytes of the descriptor before and after `address`.
    done: u32,
    left: u32,
}

/// Outcome of a write to the card's memory.
enum Confirmed {
    Bytes(u32),
    /// End of the writes: the memory refused one, or the bus failed.
    Fault(Fault),
}

/// Outcomes of a channel's writes, in order, each with its time.
#[derive(Default)]
struct Confirmations {
    waiting: VecDeque<(u64, Confirmed)>,
    /// Set once a fault ends the writes.
    has_failed: bool,
}

impl Confirmations {
    /// Adds an outcome, no earlier than the one before.
    fn push(&mut self, at_ps: u64, confirmed: Confirmed) {
        let before_ps = self.waiting.back().map_or(0, |(at_ps, _)| *at_ps);
        self.has_failed |= matches!(confirmed, Confirmed::Fault(_));
        self.waiting.push_back((at_ps.max(before_ps), confirmed));
    }

    /// Records the result of a write of `bytes`. Returns the time at which it is known.
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

    /// Returns the time of the next outcome; `u64::MAX` if none is pending.
    fn next_ps(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |(at_ps, _)| *at_ps)
    }

    /// Takes the next outcome that is due, with its time.
    fn next(&mut self, now_ps: u64) -> Option<(u64, Confirmed)> {
        if self.next_ps() > now_ps { None } else { self.waiting.pop_front() }
    }
}

/// H2C: data being written into the memory.
#[derive(Default)]
struct Writing {
    places: VecDeque<WritePosition>,
    /// Bytes of the next burst so far.
    gathered: Vec<u8>,
    confirmed: Confirmations,
    /// Copier in turn: earliest time to read the next burst.
    turn_ps: u64,
}

/// C2H: data being copied back into the memory.
#[derive(Default)]
struct Copies {
    confirmed: Confirmations,
    /// Time at which the stream that they pass is free.
    stream_free_ps: u64,
    /// Buffer kept for reuse.
    burst: Vec<u8>,
}

/// C2H: data read ahead.
#[derive(Default)]
struct Ahead {
    /// Absolute number of the descriptor being read, and the bytes of it requested so far.
    number: u32,
    offset: u32,
    data: VecDeque<u8>,
    /// Arrival time and size of each part of `data` still to come.
    arriving: VecDeque<(u64, u32)>,
    /// Time at which the memory's refusal of the next read was known.
    failed_ps: Option<u64>,
    /// Copier in turn: earliest time to read the next burst.
    turn_ps: u64,
}

impl Ahead {
    /// Returns the number of bytes that have arrived, and when more may; `u64::MAX` if no time is
    /// known.
    fn ready(&self, now_ps: u64) -> (u32, u64) {
        let times = self.failed_ps.into_iter().chain([self.turn_ps]);
        let mut next_ps = times.map(|at_ps| later(at_ps, now_ps)).fold(u64::MAX, u64::min);
        let (all, mut coming) = (self.data.len() as u32, 0);
        for (at_ps, bytes) in self.arriving.iter().rev().take_while(|(at_ps, _)| *at_ps > now_ps) {
            (coming, next_ps) = (coming + bytes, next_ps.min(*at_ps));
        }
        assert!(coming <= all, "{coming} B are still to come, of {all} B");
        (all - coming, next_ps)
    }
}

/// Passage of a burst through the user circuit's stream.
#[derive(Clone, Copy)]
struct Passage {
    /// Time of its beats, ps.
    crossing_ps: u64,
    /// Time from the last beat to the memory, ps.
    latency_ps: u64,
}

/// Card memory, and the transfers between it and the channels.
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

    /// Reads card memory without taking time. Returns false if not all of it exists.
    pub fn peek(&self, address: u64, out: &mut [u8]) -> bool {
        self.memory.peek(address, out)
    }

    /// Returns the longest burst of a copier in turn, and the time between its reads and writes.
    fn in_turn(&self) -> Option<(u32, u64)> {
        let p = &self.memory.parameters;
        let is_in_turn = p.copying == Copying::InTurn;
        is_in_turn.then(|| (p.burst_bytes(), self.memory.clocks_ps(p.turnaround_clocks)))
    }

    /// Discards a channel's work in progress. Bursts that have begun are completed.
    pub fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::H2c => self.writing = Writing::default(),
            Kind::C2h => (self.ahead, self.copies) = (Ahead::default(), Copies::default()),
            Kind::Peer => {}
        }
    }

    /// Takes up an H2C descriptor.
    pub fn begin(&mut self, descriptor: Descriptor) {
        let Descriptor { card, bytes, .. } = descriptor;
        self.writing.places.push_back(WritePosition { address: card, done: 0, left: bytes });
    }

    /// Whether an earlier failure keeps further data out.
    pub fn has_failed(&self) -> bool {
        self.writing.confirmed.has_failed
    }

    /// Takes data of reads, in order, and writes them a burst at a time.
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

    /// Writes the gathered bytes.
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
        // Reuse the buffer.
        self.writing.gathered = data;
        self.writing.gathered.clear();
    }

    /// Handles a bus error: writes the data before it, then stops.
    pub fn fail(&mut self, fault: Fault, now_ps: u64) {
        self.write(now_ps);
        if !self.writing.confirmed.has_failed {
            self.writing.confirmed.push(now_ps, Confirmed::Fault(fault));
        }
    }

    /// Takes the next H2C outcome that is due.
    fn next_confirmed(&mut self, now_ps: u64) -> Option<Confirmed> {
        let (at_ps, confirmed) = self.writing.confirmed.next(now_ps)?;
        self.writing.turn_ps = self.in_turn().map_or(0, |(_, turnaround_ps)| at_ps + turnaround_ps);
        Some(confirmed)
    }

    /// Copies the oldest C2H bytes, which must have arrived, to a memory address through the user
    /// circuit's stream.
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

    /// Returns the number of C2H bytes that have arrived, and when more may; `u64::MAX` if no time
    /// is known.
    pub fn ready(&self, now_ps: u64) -> (u32, u64) {
        self.ahead.ready(now_ps)
    }

    /// Takes out the oldest C2H bytes, which must be present.
    pub fn take_out(&mut self, out: &mut [u8]) {
        let (wanted, all) = (out.len(), self.ahead.data.len());
        assert!(wanted <= all, "{wanted} B are taken out, of {all} B that were read");
        let (front, behind) = self.ahead.data.as_slices();
        let (first, rest) = out.split_at_mut(front.len().min(out.len()));
        first.copy_from_slice(&front[..first.len()]);
        rest.copy_from_slice(&behind[..rest.len()]);
        self.ahead.data.drain(..out.len());
    }

    /// Notes that a TLP with bytes taken out is handed on whole at `whole_ps`.
    pub fn taken_out(&mut self, now_ps: u64, whole_ps: u64) {
        while self.ahead.arriving.front().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            self.ahead.arriving.pop_front();
        }
        if let Some((_, turnaround_ps)) = self.in_turn()
            && self.ahead.data.is_empty()
        {
            self.ahead.turn_ps = whole_ps + turnaround_ps;
        }
    }

    /// Reads ahead as much of a descriptor as fits. Returns whether all of it has been requested.
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

    /// Reads bytes in one burst, or in several if a copier's burst spans them.
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
    /// Whether a BAR is the window into the card's memory.
    pub(super) fn is_card_window(&self, bar: usize) -> bool {
        bar == WINDOW_BAR && self.board.is_some()
    }

    /// Writes through the window. What the memory refuses is lost.
    pub(super) fn write_card(&mut self, offset: u64, header: &Header, payload: &[u8], now_ps: u64) {
        let Some(board) = &mut self.board else { return };
        let (skip, bytes) = ((header.address.0 & 3) as usize, header.request_bytes() as usize);
        if bytes > 0 {
            let _ = board.memory.write(now_ps, offset, &payload[skip..skip + bytes]);
        }
    }

    /// Reads through the window. The answer leaves when all of its data are there.
    pub(super) fn read_card(&mut self, offset: u64, bytes: u32, now_ps: u64) -> Answer {
        let Some(board) = &mut self.board else { return Answer::Word(0) };
        let mut data = vec![0; bytes as usize];
        let mut done = 0;
        while done < bytes {
            let at = offset + u64::from(done);
            let part = (bytes - done).min(board.memory.to_burst_end(at));
            let out = &mut data[done as usize..(done + part) as usize];
            let read = board.memory.read(now_ps, at, out);
            let there_ps = read.unwrap_or_else(|refused| refused.at_ps);
            self.window_ps = self.window_ps.max(there_ps);
            if read.is_err() {
                return Answer::Refused(CompletionStatus::CompleterAbort);
            }
            done += part;
        }
        Answer::Data(data)
    }

    /// Whether a channel uses the card's memory.
    pub(super) fn in_memory(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        self.has_memory_mode(index) && channel.control(control::CARD_MEMORY) != 0
    }

    /// Whether a channel can use the card's memory.
    pub(super) fn has_memory_mode(&self, index: usize) -> bool {
        let channel = &self.channels[index];
        self.board.is_some() && channel.number == 0 && channel.kind != Kind::Peer
    }

    /// Discards the memory work of a channel that has stopped or restarts.
    pub(super) fn forget_memory(&mut self, index: usize) {
        let channel = &self.channels[index];
        if channel.number == 0
            && let Some(board) = &mut self.board
        {
            board.forget(channel.kind);
        }
    }

    /// Returns the bytes to the end of a copier's burst, which limits a TLP.
    pub(super) fn left_of_copy(&self, index: usize, current: &Current) -> u32 {
        let in_turn =
            self.board.as_ref().filter(|_| self.in_memory(index)).and_then(Board::in_turn);
        in_turn.map_or(u32::MAX, |(burst_bytes, _)| burst_bytes - current.built % burst_bytes)
    }

    /// Returns when a copier in turn permits the next read of an H2C channel: once its earlier data
    /// are in the memory. `u64::MAX` if no time is known.
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

    /// Returns when the memory confirms the next written bytes; `u64::MAX` if none are pending.
    pub(super) fn next_confirmed_ps(&self) -> u64 {
        let written_ps =
            self.board.as_ref().map_or(u64::MAX, |board| board.writing.confirmed.next_ps());
        written_ps.min(self.next_copied_ps())
    }

    /// Returns when the memory confirms the next copied bytes; `u64::MAX` if none are pending.
    pub(super) fn next_copied_ps(&self) -> u64 {
        self.board.as_ref().map_or(u64::MAX, |board| board.copies.confirmed.next_ps())
    }

    /// Counts the bytes that the memory has confirmed by now as moved.
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

    /// Takes up a descriptor that copies within the card's memory.
    pub(super) fn begin_copy(&mut self, index: usize, descriptor: Descriptor) {
        let Descriptor { bytes, control, .. } = descriptor;
        self.channels[index].reading.push_back(Reading { bytes, delivered: 0, control });
    }

    /// Returns the length of the next copied burst.
    pub(super) fn next_copy_bytes(&self, index: usize, current: &Current) -> u32 {
        let address = current.descriptor.address.wrapping_add(u64::from(current.built));
        let left = current.descriptor.bytes - current.built;
        let burst = self.board.as_ref().map_or(left, |board| board.memory.to_burst_end(address));
        left.min(burst).min(self.left_of_copy(index, current))
    }

    /// Copies all that can be copied now within the card's memory.
    pub(super) fn copy_on(&mut self, port: &mut DevicePort<'_>) {
        let index = self.index(Kind::C2h, 0);
        let channel = &self.channels[index];
        let is_idle = channel.current.is_none() && !channel.is_unchecked && channel.fault.is_none();
        let has_none = is_idle && channel.waiting.is_empty() && self.begins_ps(index).is_none();
        if has_none || !self.in_memory(index) {
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

    /// Copies the next burst if its data have arrived. Returns whether it did.
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
        // Unconfirmed bytes occupy buffers as large as those for reading ahead.
        let most = board.memory.parameters.read_ahead_bytes;
        let has_room = channel.unread_bytes + bytes <= most;
        if !channel.is_running()
            || board.copies.confirmed.has_failed
            || !has_room
            || board.ready(now_ps).0 < bytes
        {
            return false;
        }
        board.copy(channel.next_address(), bytes, now_ps, stream);
        channel.unread_bytes += bytes;
        channel.note_begin(now_ps);
        current.built += bytes;
        let (built, all) = (current.built, current.descriptor.bytes);
        assert!(built <= all, "{built} B are copied, of a descriptor of {all} B");
        channel.current = (current.built < current.descriptor.bytes).then_some(current);
        channel.next_bytes = 0;
        if channel.current.is_none() {
            channel.begin_gap(now_ps, self.parameters.descriptor_gap.0);
        }
        true
    }

    /// Reads ahead for a C2H channel, and stops the channel if the data that it needs next were
    /// refused.
    pub(super) fn look_ahead(&mut self, index: usize, port: &DevicePort<'_>) {
        let now_ps = port.now_ps();
        if self.channels[index].kind != Kind::C2h
            || !self.in_memory(index)
            || !self.channels[index].is_running()
        {
            return;
        }
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
    use crosslane_pcie::units::Picoseconds;

    use super::*;
    use crate::card_memory::tests::parameters;

    /// 256 bits at 100 MHz in front of a DRAM without row changes and refreshes.
    fn board(copying: Copying) -> Board {
        Board::new(CardMemoryParameters {
            memory_bytes: 1 << 20,
            copying,
            turnaround_clocks: 5,
            dram_row_change: Picoseconds::ZERO,
            dram_refresh_interval: Picoseconds::ZERO,
            dram_refresh: Picoseconds::ZERO,
            ..parameters()
        })
    }

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
        // Each burst: 16 beats of 10 ns, 60 ns to the confirmation; the second follows the first.
        assert_eq!(confirmed(&board), [(270_000, 512), (430_000, 512)]);
    }

    #[test]
    fn a_copier_writes_a_burst_when_it_has_all_of_it_and_then_reads_on() {
        let mut board = board(Copying::InTurn);
        board.begin(descriptor(256, 1024));
        board.take_in(&[1; 512], 1_000_000);
        // 512 B from 256 are two AXI bursts of 8 beats: 50 ns turnaround, 160 ns, 60 ns.
        assert_eq!(confirmed(&board), [(1_270_000, 512)]);
        assert!(board.next_confirmed(1_269_999).is_none());
        assert!(board.next_confirmed(1_270_000).is_some());
        // The next read may be sent 50 ns after the confirmation.
        assert_eq!(board.writing.turn_ps, 1_320_000);
    }

    #[test]
    fn a_copier_offers_a_burst_when_it_has_all_of_it_and_reads_on_when_it_is_written() {
        let mut board = board(Copying::InTurn);
        assert!(!board.read_ahead(descriptor(0, 1024), 0));
        // 100 ns and 5 ns to the first data, the next edge, 16 beats, 50 ns turnaround.
        assert_eq!(board.ready(0).1, 110_000 + 160_000 + 50_000);
        assert_eq!((board.ready(319_999).0, board.ready(320_000).0), (0, 512));
        board.take_out(&mut [0; 256]);
        board.taken_out(330_000, 340_000);
        assert!(!board.read_ahead(descriptor(0, 1024), 340_000));
        assert_eq!(board.ahead.offset, 512);
        board.take_out(&mut [0; 256]);
        board.taken_out(340_000, 350_000);
        assert_eq!(board.ready(340_000).1, 400_000);
        assert!(!board.read_ahead(descriptor(0, 1024), 399_999));
        assert_eq!(board.ahead.offset, 512);
        // All of it has been requested; it arrives 320 ns later.
        assert!(board.read_ahead(descriptor(0, 1024), 400_000));
        assert_eq!((board.ready(719_999).0, board.ready(720_000).0), (0, 512));
    }

    #[test]
    fn reads_ahead_overlap_and_stop_at_8_kib() {
        let mut board = board(Copying::Overlapped);
        assert!(!board.read_ahead(descriptor(0, 16_384), 0));
        assert_eq!(board.ahead.offset, 8192);
        // 256 beats after the latency of the first burst.
        assert_eq!(
            (board.ready(110_000 + 2_559_999).0, board.ready(110_000 + 2_560_000).0),
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
        // Four beats from the next edge.
        assert_eq!(confirmed(&board), [(110_000, 100), (110_000, u32::MAX)]);
        assert!(board.has_failed());
        board.forget(Kind::H2c);
        assert!(!board.has_failed());
    }
}
