// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A memory that drains writes, serves reads and cuts completions, behind a root complex or inside
//! a generic endpoint.

use std::collections::VecDeque;

use crosslane_pcie::link::TICKS_PER_PS;
use crosslane_pcie::split::{self, SingleUnits};
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::{BusAddress, RoutingId};
use crosslane_random::Random;

use crate::cache::Cache;
use crate::memory::Memory;
use crate::parameters::{CacheParameters, CompleterParameters, CompletionCut};
use crate::wire::WireTime;

/// A rate as ticks per byte; 0 for unlimited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace(f64);

impl Pace {
    pub fn new(bytes_per_second: f64) -> Self {
        Self(TICKS_PER_PS as f64 * 1e12 / bytes_per_second)
    }

    /// Picoseconds for `bytes` bytes.
    pub fn ps(self, bytes: u64) -> u64 {
        self.ticks(bytes) / TICKS_PER_PS
    }

    /// Ticks for `bytes` bytes.
    #[inline]
    pub fn ticks(self, bytes: u64) -> u64 {
        if self.0 == 0.0 { 0 } else { (self.0 * bytes as f64).round() as u64 }
    }
}

/// Draws the latency of a read from its distribution, in picoseconds.
fn draw_latency(p: &CompleterParameters, random: &mut Random) -> u64 {
    let mut ps = p.read_latency.0;
    if p.read_jitter.0 > 0 {
        ps += random.u64(..=p.read_jitter.0);
    }
    if p.read_tail_probability > 0.0 && random.f64() < p.read_tail_probability {
        ps += p.read_tail.0;
    }
    ps
}

/// A read in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub header: Header,
    /// Address in the completer's memory.
    pub memory_address: u64,
    /// Origin of the read: an index of the owner.
    pub origin: u32,
}

/// One completion of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub header: Header,
    /// Address in the completer's memory of the first byte.
    pub memory_address: u64,
    /// Bytes of data.
    pub bytes: u32,
    /// Time at which all data are there, in ps.
    pub ready_ps: u64,
}

/// Times at which a write has drained and becomes visible, in ps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteTimes {
    pub drained_ps: u64,
    pub visible_ps: u64,
}

pub(crate) struct Completer {
    pub parameters: CompleterParameters,
    pub memory: Memory,
    write_pace: Pace,
    read_pace: Pace,
    write_free: WireTime,
    read_free: WireTime,
    single_units: SingleUnits,
    slots: Vec<Option<Read>>,
    free_slots: Vec<u32>,
    waiting: VecDeque<Read>,
    /// The cache before the memory, if any.
    cache: Option<Box<Cache>>,
    /// Time at which all writes so far are visible, where a cache delays some of them.
    visible_ps: u64,
}

impl Completer {
    pub fn new(parameters: CompleterParameters) -> Self {
        Self {
            parameters,
            memory: Memory::new(),
            write_pace: Pace::new(parameters.write_bytes_per_second),
            read_pace: Pace::new(parameters.read_bytes_per_second),
            write_free: WireTime::default(),
            read_free: WireTime::default(),
            single_units: SingleUnits::new(parameters.completion_single_share),
            slots: Vec::new(),
            free_slots: Vec::new(),
            waiting: VecDeque::new(),
            cache: None,
            visible_ps: 0,
        }
    }

    /// Puts a cache before the memory.
    pub fn with_cache(mut self, parameters: Option<CacheParameters>) -> Self {
        self.cache = parameters.map(|parameters| Box::new(Cache::new(parameters)));
        self
    }

    /// The cache before the memory, if any.
    pub fn cache(&mut self) -> Option<&mut Cache> {
        self.cache.as_deref_mut()
    }

    /// Accepts a write of `bytes` at `memory_address` that arrived at `now`.
    pub fn write(&mut self, now_ps: u64, memory_address: u64, bytes: u32) -> WriteTimes {
        let p = &self.parameters;
        let mut ticks = self.write_pace.ticks(u64::from(bytes));
        if bytes > 0 && (p.partial_line.0 > 0 || p.write_overhead.0 > 0) {
            let line = u64::from(p.line_bytes);
            let end = memory_address + u64::from(bytes);
            let (first, last) = (memory_address / line, (end - 1) / line);
            let mut partial =
                u64::from(!memory_address.is_multiple_of(line) || end < (first + 1) * line);
            partial += u64::from(last != first && !end.is_multiple_of(line));
            ticks += (p.write_overhead.0 + partial * p.partial_line.0) * TICKS_PER_PS;
        }
        let mut drained = self.write_free.max(WireTime::at(now_ps)).plus_ticks(ticks);
        let mut seen_after = p.write_latency.0;
        if let Some(cache) = &mut self.cache {
            let times = cache.write(now_ps, memory_address, bytes);
            drained = drained.max(WireTime::at(times.memory_ps));
            seen_after += times.extra_ps;
        }
        self.write_free = drained;
        let drained_ps = drained.ceil_ps();
        // Writes become visible in their order.
        self.visible_ps = self.visible_ps.max(drained_ps + seen_after);
        WriteTimes { drained_ps, visible_ps: self.visible_ps }
    }

    /// Accepts a read that arrived at `now`. Returns its slot and the time at which its data begin
    /// to come, or `None` if it must wait for a slot.
    pub fn read(&mut self, now_ps: u64, read: Read, random: &mut Random) -> Option<(u32, u64)> {
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.parameters.read_slots as usize => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
            None => {
                self.waiting.push_back(read);
                return None;
            }
        };
        self.slots[slot as usize] = Some(read);
        // Earlier writes must be visible: the read begins once they have drained, and takes its
        // data once it has reached the memory.
        let p = &self.parameters;
        let drained_ps = self.write_free.ceil_ps();
        let start_ps = now_ps.max(drained_ps);
        let mut data_ps = start_ps + draw_latency(p, random);
        if let Some(cache) = &mut self.cache {
            data_ps +=
                cache.read(now_ps, read.memory_address, read.header.request_bytes()).extra_ps;
        }
        Some((slot, data_ps.max(self.visible_ps)))
    }

    /// Origin of the read in a slot.
    pub fn origin(&self, slot: u32) -> Option<u32> {
        Some(self.slots.get(slot as usize)?.as_ref()?.origin)
    }

    /// Finishes the read in a slot, whose data begin to come now, and puts its completions into
    /// `pieces`. The slot becomes free. With `random`, the completions are cut at random within the
    /// rules.
    pub fn finish(
        &mut self,
        slot: u32,
        now_ps: u64,
        completer: RoutingId,
        max_payload_bytes: u32,
        random: Option<&mut Random>,
        pieces: &mut Vec<Piece>,
    ) {
        let read = self.slots.get_mut(slot as usize).and_then(Option::take);
        let read = read.unwrap_or_else(|| panic!("no read is in slot {slot}"));
        self.free_slots.push(slot);
        let (free, all) = (self.free_slots.len(), self.slots.len());
        assert!(free <= all, "{free} slots are free, of {all}");
        let total = read.header.request_bytes();
        let mut done = 0;
        let begin = self.read_free.max(WireTime::at(now_ps));
        let pace = self.read_pace;
        let read_free = &mut self.read_free;
        let mut add = |(address, bytes): (BusAddress, u32)| {
            let ready = begin.plus_ticks(pace.ticks(u64::from(done + bytes)));
            *read_free = ready;
            let left = total - done;
            assert!(bytes <= left, "a completion of {bytes} B, and {left} of {total} B are left");
            let header = Header::completion_data(&read.header, completer, address, bytes, left);
            let payload = header.payload_bytes();
            assert!(payload <= max_payload_bytes, "{payload} B of {max_payload_bytes} B");
            pieces.push(Piece {
                header,
                memory_address: read.memory_address + u64::from(done),
                bytes,
                ready_ps: ready.ceil_ps(),
            });
            done += bytes;
        };
        let p = &self.parameters;
        let (address, rcb) = (read.header.address, p.read_completion_boundary_bytes);
        let most = p.longest_completion(total).min(max_payload_bytes);
        let cuts = match p.completion_cut {
            CompletionCut::Longest => split::completions(address, total, rcb, most),
            CompletionCut::Aligned => split::completions_aligned(address, total, rcb, most),
        };
        if let Some(random) = random {
            let cuts = random_cuts(address, total, rcb, max_payload_bytes, random);
            cuts.into_iter().for_each(&mut add);
        } else if self.single_units.is_off() {
            cuts.for_each(&mut add);
        } else {
            for whole in cuts {
                self.single_units.cut(whole, rcb).for_each(&mut add);
            }
        }
        assert!(done == total, "a read of {total} B is answered with {done} B");
    }

    /// Starts the read that has waited longest if a slot is free. Returns the result of
    /// [`read`](Self::read), with the read itself.
    pub fn start_waiting(&mut self, now_ps: u64, random: &mut Random) -> Option<(Read, u32, u64)> {
        if self.free_slots.is_empty() {
            return None;
        }
        let read = self.waiting.pop_front()?;
        let (slot, ready_ps) = self.read(now_ps, read, random)?;
        Some((read, slot, ready_ps))
    }

    /// Number of reads in service or waiting.
    pub fn busy(&self) -> usize {
        self.slots.len() - self.free_slots.len() + self.waiting.len()
    }
}

/// Legal cuts at random read completion boundaries.
fn random_cuts(
    address: BusAddress,
    bytes: u32,
    rcb: u32,
    max_payload_bytes: u32,
    random: &mut Random,
) -> Vec<(BusAddress, u32)> {
    let mut all: Vec<(BusAddress, u32)> = Vec::new();
    for (at, length) in split::completions_aligned(address, bytes, rcb, rcb) {
        match all.last_mut() {
            Some((start, so_far))
                if random.bool()
                    && (start.0 & 3) as u32 + *so_far + length <= max_payload_bytes =>
            {
                *so_far += length;
            }
            _ => all.push((at, length)),
        }
    }
    all
}
