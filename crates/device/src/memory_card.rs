// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural model of a card whose board memory the host stores into (`docs/memory-card.md`). It
//! sends only completions.

use std::collections::VecDeque;
use std::ops::Range;

use crosslane_fabric::parameters::Parameters;
use crosslane_fabric::{Consumed, Device, DevicePort, Memory, Received, parameters};
use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::memory_card as map;

use crate::kit::{self, Answer, Arrival, Completer, Function, Place, Timer};
use crate::parameters::SECOND;

/// BAR of the FIFO aperture.
pub const FIFO_BAR: usize = 2;
/// BAR of the board memory.
pub const MEMORY_BAR: usize = 4;

parameters! {
    /// Build parameters of a memory card.
    MemoryCardParameters {
        /// Banks of memory, 1 to 8, consecutive in BAR 4.
        banks: u8 [1, map::BANKS.count as u64],
        /// Bytes of each bank, a power of two.
        bank_bytes: u64 [power of two, 4096, 1 << 40],
        /// Bytes of a beat of a bank's data bus, a power of two from 8 to 128.
        beat_bytes: u32 [power of two, 8, 128],
        /// Minimum time from one write into memory to the next, up to 1 s. The write's receive
        /// buffer is freed when it has passed.
        write_interval: Picoseconds [0, SECOND],
        /// Time of each beat of a write after the first, up to 1 s.
        beat: Picoseconds [0, SECOND],
        /// Time from a read to its first data, up to 1 s.
        read_latency: Picoseconds [0, SECOND],
        /// Bytes at the start of BAR 2 whose writes go into the FIFO, up to 4096.
        fifo_window_bytes: u32 [0, 4096],
        /// Capacity of the FIFO in bytes, up to 16 MiB.
        fifo_bytes: u32 [0, 16 << 20],
    }
}

impl MemoryCardParameters {
    /// Returns the bytes of all banks.
    pub fn memory_bytes(&self) -> u64 {
        self.bank_bytes * u64::from(self.banks)
    }
}

/// Counter values of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Beats written and read, per bank.
    beats: [[u32; 2]; map::BANKS.count as usize],
    /// Writes and reads of memory, per size class.
    sizes: [[u32; 2]; map::SIZE_CLASSES.count as usize],
    fifo_writes: u32,
    fifo_bytes: u32,
    fifo_lost: u32,
}

/// Index into a pair of counters.
#[derive(Clone, Copy)]
enum Counted {
    Write,
    Read,
}

/// Endpoint device with board memory and a FIFO: registers in BAR 0, the FIFO in BAR 2, the memory
/// in BAR 4.
pub struct MemoryCard {
    parameters: MemoryCardParameters,
    function: Function,
    /// Offset of BAR 4 in `memory`.
    memory_offset: u64,
    memory: Memory,
    /// Time at which all writes so far are done.
    busy_ps: u64,
    fifo: VecDeque<u8>,
    counting: Counters,
    taken: Counters,
    completer: Completer,
    timer: Timer,
}

impl MemoryCard {
    /// Size of the register file in BAR 0, bytes.
    pub const REGISTER_BYTES: u32 = map::BYTES;

    /// Creates a card in its reset state.
    ///
    /// # Panics
    /// Panics if [`Parameters::check`] rejects the parameters.
    pub fn new(parameters: MemoryCardParameters) -> Self {
        parameters.assert_valid();
        Self {
            parameters,
            function: Function::default(),
            memory_offset: 0,
            memory: Memory::new(),
            busy_ps: 0,
            fifo: VecDeque::new(),
            counting: Counters::default(),
            taken: Counters::default(),
            completer: Completer::default(),
            timer: Timer::new(0),
        }
    }

    /// Counts an access to memory and returns the beats it takes.
    fn count(&mut self, offset: u64, bytes: u32, counted: Counted) -> u64 {
        let class = bytes.max(1).next_power_of_two().ilog2() as usize;
        let size = &mut self.counting.sizes[class.min(map::SIZE_CLASSES.count as usize - 1)];
        size[counted as usize] = size[counted as usize].wrapping_add(1);
        let beat_bytes = u64::from(self.parameters.beat_bytes);
        let (first, last) =
            (offset / beat_bytes, (offset + u64::from(bytes).max(1) - 1) / beat_bytes);
        for beat in first..=last {
            let bank = (beat * beat_bytes / self.parameters.bank_bytes) as usize;
            let beats = &mut self.counting.beats[bank][counted as usize];
            *beats = beats.wrapping_add(1);
        }
        last - first + 1
    }

    // --- Writes --------------------------------------------------------------------------

    /// Takes a write. Returns when its receive buffer is free.
    fn take_write(
        &mut self,
        place: Place,
        header: &Header,
        payload: &[u8],
        now_ps: u64,
    ) -> Consumed {
        let Place { bar, offset } = place;
        let bytes = header.request_bytes();
        let skip = (header.address.0 & 3) as usize;
        let data = &payload[skip..skip + bytes as usize];
        match bar {
            FIFO_BAR => self.push(offset, data),
            MEMORY_BAR => {
                let beats = self.count(offset, bytes, Counted::Write);
                self.memory.write(self.memory_offset + offset, data);
                let further_ps = (beats - 1) * self.parameters.beat.0;
                let begin_ps = self.busy_ps.max(now_ps);
                self.busy_ps = begin_ps + self.parameters.write_interval.0 + further_ps;
                return Consumed::At(Picoseconds(self.busy_ps));
            }
            _ => {
                for (register, word) in kit::whole_words(offset, header, payload) {
                    if register == map::CONTROL {
                        self.control(word);
                    }
                }
            }
        }
        Consumed::Now
    }

    fn control(&mut self, word: u32) {
        if map::control::TAKE.get(word) != 0 {
            self.taken = std::mem::take(&mut self.counting);
        }
        if map::control::CLEAR_FIFO.get(word) != 0 {
            self.fifo.clear();
        }
    }

    /// Pushes the bytes of one write into the FIFO, lowest address first.
    fn push(&mut self, offset: u64, data: &[u8]) {
        let window = u64::from(self.parameters.fifo_window_bytes);
        let inside = window.saturating_sub(offset).min(data.len() as u64) as usize;
        let (capacity, length) = (self.parameters.fifo_bytes as usize, self.fifo.len());
        assert!(length <= capacity, "{length} B are in a FIFO of {capacity} B");
        let room = capacity - length;
        let pushed = inside.min(room);
        self.fifo.extend(&data[..pushed]);
        let counting = &mut self.counting;
        counting.fifo_writes = counting.fifo_writes.wrapping_add(u32::from(pushed > 0));
        counting.fifo_bytes = counting.fifo_bytes.wrapping_add(pushed as u32);
        counting.fifo_lost = counting.fifo_lost.wrapping_add((data.len() - pushed) as u32);
    }

    // --- Reads ---------------------------------------------------------------------------

    /// Takes a read of an aperture. FIFO bytes are read through the register `fifo_pop`.
    fn read(&mut self, Place { bar, offset }: Place, bytes: u32) -> Answer {
        if bar != MEMORY_BAR {
            return Answer::Word(0);
        }
        self.count(offset, bytes, Counted::Read);
        let mut data = vec![0; bytes as usize];
        self.memory.read(self.memory_offset + offset, &mut data);
        Answer::Data(data)
    }

    fn register(&mut self, offset: u32) -> u32 {
        let p = &self.parameters;
        let [banks, sizes] = [map::BANKS, map::SIZE_CLASSES]
            .map(|array| array.find(offset).map(|(index, register)| (index as usize, register)));
        if let Some((bank, register)) = banks {
            return match register {
                map::bank::WRITE_BEATS => self.taken.beats[bank][Counted::Write as usize],
                map::bank::READ_BEATS => self.taken.beats[bank][Counted::Read as usize],
                _ => 0,
            };
        }
        if let Some((class, register)) = sizes {
            return match register {
                map::size_class::WRITES => self.taken.sizes[class][Counted::Write as usize],
                map::size_class::READS => self.taken.sizes[class][Counted::Read as usize],
                _ => 0,
            };
        }
        match offset {
            map::ID => map::ID_RESET,
            map::VERSION => map::VERSION_RESET,
            map::SIZES => {
                map::sizes::BANKS.put(p.banks.into())
                    | map::sizes::BEAT_BYTES.put(p.beat_bytes)
                    | map::sizes::FIFO_WINDOW_BYTES.put(p.fifo_window_bytes)
            }
            map::FIFO_SIZE => p.fifo_bytes,
            map::FIFO_LEVEL => self.fifo.len() as u32,
            map::FIFO_POP => self.fifo.pop_front().map_or(0, |byte| {
                map::fifo_pop::VALID.mask() | map::fifo_pop::BYTE_VALUE.put(byte.into())
            }),
            map::FIFO_WRITES => self.taken.fifo_writes,
            map::FIFO_BYTES => self.taken.fifo_bytes,
            map::FIFO_LOST => self.taken.fifo_lost,
            _ => 0,
        }
    }
}

impl Device for MemoryCard {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let answer = match self.function.sort(&header, port) {
            Arrival::Write(place) => {
                return self.take_write(place, &header, port.payload(tlp), port.now_ps());
            }
            Arrival::Registers(read) => Some(read.answer(|offset| self.register(offset))),
            Arrival::Read(place) => Some(self.read(place, header.request_bytes())),
            Arrival::Answered(answer) => Some(answer),
            Arrival::Completion => {
                kit::report_unexpected(&header, port);
                None
            }
            Arrival::Poisoned(_) | Arrival::Ignored => None,
        };
        let ready_ps = self.busy_ps.max(port.now_ps()) + self.parameters.read_latency.0;
        let consumed = self.completer.reply(tlp, answer, ready_ps, &self.function, port);
        self.transmit_ready(port);
        consumed
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        while self.completer.send(&mut self.timer, port) {}
    }

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        self.timer.fired(port.now_ps());
        self.transmit_ready(port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        self.function = config.into();
        let memory = &mut self.function.bars[MEMORY_BAR];
        memory.bytes = memory.bytes.min(self.parameters.memory_bytes());
        self.memory_offset = crosslane_fabric::bar_offset_bytes(config, MEMORY_BAR);
    }

    fn memory(&mut self) -> Option<&mut Memory> {
        Some(&mut self.memory)
    }

    /// Returns the banks. Accesses past the bus are not counted and take no time.
    fn plain_memory(&self, config: &ConfigSpace, bar: usize) -> Option<Range<u64>> {
        let bar_bytes = config.bar(bar).filter(|_| bar == MEMORY_BAR)?.size_bytes;
        Some(0..self.parameters.memory_bytes().min(bar_bytes))
    }

    fn unfinished(&self) -> Vec<String> {
        kit::unfinished(&[(self.completer.len(), "completions wait")])
    }
}
