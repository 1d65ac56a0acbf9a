// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A last-level cache between a root complex and its memory: lines of 64 B in sets, of which writes
//! of devices take a few ways only. It costs time and never holds data.
//!
//! Reads of devices take what is there and bring nothing in. Writes of devices allocate; where all
//! ways that they may use hold changed lines, one goes to memory first. What programs on the host
//! write is in the cache too, if it is warm.

use crate::completer::Pace;
use crate::parameters::CacheParameters;
use crate::wire::WireTime;

/// Length in bytes of a line.
const LINE_BYTES: u64 = 64;

/// A way of a set.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Number of its line and 1; 0 if the way is empty.
    line: u64,
    /// Time of its last use, as a count of uses.
    used: u64,
    /// Whether a write of a device brought it in.
    by_device: bool,
    /// Whether memory has something older.
    changed: bool,
}

/// State of the cache, and of the way to the memory behind it.
pub(crate) struct Cache {
    parameters: CacheParameters,
    /// Ways of each set, once one of its lines has been there.
    sets: Vec<Option<Box<[Way]>>>,
    uses: u64,
    pace: Pace,
    memory_free: WireTime,
}

/// Effect of an access on its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheTimes {
    /// Extra time until its data are there, or can be seen.
    pub extra_ps: u64,
    /// Time at which the memory has taken what the access moves to it or from it, if anything.
    pub memory_ps: u64,
}

impl Cache {
    pub fn new(parameters: CacheParameters) -> Self {
        let set_bytes = LINE_BYTES * u64::from(parameters.ways);
        let sets = (parameters.bytes / set_bytes).max(1) as usize;
        let pace = Pace::new(parameters.memory_bytes_per_second);
        let (uses, memory_free) = (0, WireTime::default());
        Self { parameters, sets: vec![None; sets], uses, pace, memory_free }
    }

    /// Ways of the set of a line.
    fn set(&mut self, line: u64) -> &mut [Way] {
        let place = (line % self.sets.len() as u64) as usize;
        let ways = usize::from(self.parameters.ways);
        self.sets[place].get_or_insert_with(|| vec![Way::default(); ways].into_boxed_slice())
    }

    /// Notes a use of a line that is there; returns whether it is.
    fn touch(&mut self, line: u64, changes: bool) -> bool {
        self.uses += 1;
        let uses = self.uses;
        let Some(way) = self.set(line).iter_mut().find(|way| way.line == line + 1) else {
            return false;
        };
        way.used = uses;
        way.changed |= changes;
        true
    }

    /// Brings a changed line in; returns whether a changed one had to leave for it.
    fn insert(&mut self, line: u64, by_device: bool) -> bool {
        let (uses, most) = (self.uses, usize::from(self.parameters.device_ways));
        let set = self.set(line);
        let is_full = by_device && set.iter().filter(|way| way.by_device).count() >= most;
        let victim = set.iter_mut().filter(|way| !is_full || way.by_device);
        let Some(way) = victim.min_by_key(|way| way.used) else { return false };
        let leaves = way.line != 0 && way.changed;
        *way = Way { line: line + 1, used: uses, by_device, changed: true };
        leaves
    }

    /// Moves lines to or from memory, after those before them.
    fn moved(&mut self, now_ps: u64, lines: u64) -> CacheTimes {
        if lines == 0 {
            return CacheTimes::default();
        }
        let waits_ps = self.memory_free.ceil_ps().saturating_sub(now_ps);
        let ticks = self.pace.ticks(lines * LINE_BYTES);
        self.memory_free = self.memory_free.max(WireTime::at(now_ps)).plus_ticks(ticks);
        let memory_ps = self.memory_free.ceil_ps();
        CacheTimes { extra_ps: waits_ps + self.parameters.miss.0, memory_ps }
    }

    /// A read of a device.
    pub fn read(&mut self, now_ps: u64, address: u64, bytes: u32) -> CacheTimes {
        let missing = lines(address, u64::from(bytes)).filter(|line| !self.touch(*line, false));
        let missing = missing.count() as u64;
        self.moved(now_ps, missing)
    }

    /// A write of a device.
    pub fn write(&mut self, now_ps: u64, address: u64, bytes: u32) -> CacheTimes {
        let end = address + u64::from(bytes);
        let mut moved = 0;
        for line in lines(address, u64::from(bytes)) {
            if self.touch(line, true) {
                continue;
            }
            let start = line * LINE_BYTES;
            let is_whole = address <= start && start + LINE_BYTES <= end;
            moved += u64::from(self.insert(line, true)) + u64::from(!is_whole);
        }
        self.moved(now_ps, moved)
    }

    /// A write of a program on the host, which takes no simulated time.
    pub fn fill(&mut self, address: u64, bytes: u64) {
        if self.parameters.warm {
            for line in lines(address, bytes) {
                if !self.touch(line, true) {
                    self.insert(line, false);
                }
            }
        }
    }
}

/// Numbers of the lines that a range touches.
fn lines(address: u64, bytes: u64) -> impl Iterator<Item = u64> {
    address / LINE_BYTES..(address + bytes).div_ceil(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use crosslane_pcie::units::Picoseconds;

    use super::*;

    const MISS_PS: u64 = 50_000;

    /// Sixteen lines in four sets of four ways, one of which devices may write; a line takes 1 ns.
    fn cache(warm: bool) -> Cache {
        Cache::new(CacheParameters {
            bytes: 1024,
            ways: 4,
            device_ways: 1,
            miss: Picoseconds(MISS_PS),
            memory_bytes_per_second: 64e9,
            warm,
        })
    }

    #[test]
    fn what_a_program_wrote_is_there_only_in_a_warm_cache() {
        for (warm, extra_ps) in [(true, 0), (false, MISS_PS)] {
            let mut cache = cache(warm);
            cache.fill(0, 1024);
            assert_eq!(cache.read(0, 960, 64).extra_ps, extra_ps);
            // A read brings nothing in.
            assert_eq!(cache.read(1_000_000, 4096, 64).extra_ps, MISS_PS);
            assert_eq!(cache.read(2_000_000, 4096, 64).extra_ps, MISS_PS);
        }
    }

    #[test]
    fn the_oldest_lines_leave_first() {
        let mut cache = cache(true);
        cache.fill(0, 1024 + 64);
        assert_eq!(cache.read(0, 0, 64).extra_ps, MISS_PS);
        assert_eq!(cache.read(1_000_000, 64, 64).extra_ps, 0);
        assert_eq!(cache.read(2_000_000, 1024, 64).extra_ps, 0);
    }

    #[test]
    fn writes_of_devices_allocate_in_their_own_ways() {
        let mut cache = cache(true);
        cache.fill(0, 1024);
        // A line of a program is changed where it is.
        assert_eq!(cache.write(0, 0, 64), CacheTimes::default());
        // The first line of a device displaces one of a program, the second that of the device.
        assert_eq!(cache.write(1_000_000, 4096, 64).extra_ps, MISS_PS);
        assert_eq!(cache.write(2_000_000, 4096, 64), CacheTimes::default());
        assert_eq!(cache.write(3_000_000, 8192, 64).extra_ps, MISS_PS);
        assert_eq!(cache.read(4_000_000, 4096, 64).extra_ps, MISS_PS);
        let programs = [0, 256, 512, 768].map(|at| cache.read(5_000_000, at, 64).extra_ps);
        assert_eq!(programs.iter().filter(|extra_ps| **extra_ps == 0).count(), 3);
    }

    #[test]
    fn a_line_written_in_part_is_read_from_memory_first() {
        let mut cache = cache(false);
        assert_eq!(cache.write(0, 0, 64), CacheTimes::default());
        assert_eq!(cache.write(0, 4160, 32).extra_ps, MISS_PS);
    }

    #[test]
    fn reads_and_writes_share_the_rate_of_the_memory() {
        let mut cache = cache(false);
        let first = cache.read(0, 0, 128);
        assert_eq!(first, CacheTimes { extra_ps: MISS_PS, memory_ps: 2000 });
        cache.write(0, 0, 64);
        // The line that leaves waits for the two that are read.
        let second = cache.write(0, 4096, 64);
        assert_eq!(second, CacheTimes { extra_ps: 2000 + MISS_PS, memory_ps: 3000 });
    }
}
