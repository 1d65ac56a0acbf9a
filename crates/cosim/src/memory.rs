// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card's memory at the AXI4 ports of its circuit: that of the channels, and that of the window.
//!
//! A port is always ready for addresses and beats. A read's last beat comes when the memory says
//! that its data are there, the beats before it a clock each earlier; a write is confirmed when the
//! memory says so, counted from its first beat. Answers come in order, as the circuit has one
//! identifier in each direction.

use std::collections::VecDeque;
use std::path::Path;

use crosslane_pcie::units::Picoseconds;

use crate::error::CosimError;
use crate::model::{MemoryModel, Model};
use crate::pins::{AxiInputs, AxiOutputs, Inputs, MemoryInputs, MemoryOutputs, Outputs};

/// Memory of a card, with the time of an access. Refusals are of memory that is not there.
pub trait CardMemory: Send {
    /// Reads bytes that are requested at `from`. Returns when the last one arrives, or when the
    /// refusal does.
    ///
    /// # Errors
    /// The time of the refusal.
    fn read(
        &mut self,
        from: Picoseconds,
        address: u64,
        out: &mut [u8],
    ) -> Result<Picoseconds, Picoseconds>;

    /// Writes bytes that come from `from` on. Returns when all are confirmed, or when the refusal
    /// comes.
    ///
    /// # Errors
    /// The time of the refusal.
    fn write(
        &mut self,
        from: Picoseconds,
        address: u64,
        data: &[u8],
    ) -> Result<Picoseconds, Picoseconds>;

    /// Reads bytes without taking time. Returns false if not all of them exist.
    fn peek(&self, address: u64, out: &mut [u8]) -> bool;
}

/// AXI4's response to a burst that the memory refuses: SLVERR.
const REFUSED: u8 = 2;

/// Read burst on its way to the circuit.
struct Reading {
    /// Data of whole beats.
    data: Vec<u8>,
    /// Beats that the circuit has.
    taken: usize,
    /// Time of the last beat.
    end_ps: u64,
    is_refused: bool,
}

/// Beats of a write burst.
#[derive(Default)]
struct Beats {
    data: Vec<u8>,
    enables: Vec<bool>,
    /// Time of the first.
    begun_ps: u64,
}

/// Port of a circuit that masters AXI4.
struct Port {
    beat_bytes: usize,
    clock_ps: u64,
    /// Addresses of write bursts whose beats have not all come.
    addresses: VecDeque<u64>,
    /// Bursts whose address has not come, and the one that comes.
    bursts: VecDeque<Beats>,
    coming: Beats,
    /// Answers to writes: time, and whether it is a refusal.
    confirmed: VecDeque<(u64, bool)>,
    reads: VecDeque<Reading>,
}

impl Port {
    fn new(beat_bytes: usize, clock_ps: u64) -> Self {
        Self {
            beat_bytes,
            clock_ps,
            addresses: VecDeque::new(),
            bursts: VecDeque::new(),
            coming: Beats::default(),
            confirmed: VecDeque::new(),
            reads: VecDeque::new(),
        }
    }

    fn is_busy(&self) -> bool {
        let has_reads = !self.reads.is_empty();
        has_reads || !(self.addresses.is_empty() && self.confirmed.is_empty())
    }

    /// Returns the circuit's inputs in the clock at `now_ps`.
    fn offer(&self, now_ps: u64) -> AxiInputs {
        let mut inputs = AxiInputs { aw_ready: 1, w_ready: 1, ar_ready: 1, ..AxiInputs::default() };
        if let Some((at_ps, is_refused)) = self.confirmed.front()
            && *at_ps <= now_ps
        {
            (inputs.b_valid, inputs.b_response) = (1, if *is_refused { REFUSED } else { 0 });
        }
        let Some(reading) = self.reads.front() else { return inputs };
        let beats = reading.data.len() / self.beat_bytes;
        let behind_ps = (beats - 1 - reading.taken) as u64 * self.clock_ps;
        if reading.end_ps <= now_ps + behind_ps {
            inputs.r_valid = 1;
            inputs.r_last = u8::from(reading.taken + 1 == beats);
            inputs.r_response = if reading.is_refused { REFUSED } else { 0 };
            let data = reading.data[reading.taken * self.beat_bytes..].chunks_exact(4);
            for (word, bytes) in inputs.r_data.iter_mut().zip(data.take(self.beat_bytes / 4)) {
                *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        inputs
    }

    /// Takes what has moved in the clock at `now_ps`.
    fn take(
        &mut self,
        inputs: &AxiInputs,
        outputs: &AxiOutputs,
        now_ps: u64,
        memory: &mut dyn CardMemory,
    ) {
        if inputs.b_valid != 0 && outputs.b_ready != 0 {
            self.confirmed.pop_front();
        }
        if inputs.r_valid != 0
            && outputs.r_ready != 0
            && let Some(reading) = self.reads.front_mut()
        {
            reading.taken += 1;
            if inputs.r_last != 0 {
                self.reads.pop_front();
            }
        }
        if outputs.ar_valid != 0 {
            let beats = usize::from(outputs.ar_length) + 1;
            self.read(outputs.ar_address, beats, now_ps, memory);
        }
        if outputs.aw_valid != 0 {
            self.addresses.push_back(outputs.aw_address);
        }
        if outputs.w_valid != 0 {
            let coming = &mut self.coming;
            if coming.data.is_empty() {
                coming.begun_ps = now_ps;
            }
            let bytes = outputs.w_data.iter().flat_map(|word| word.to_le_bytes());
            coming.data.extend(bytes.take(self.beat_bytes));
            coming.enables.extend((0..self.beat_bytes).map(|at| outputs.w_strobe >> at & 1 != 0));
            if outputs.w_last != 0 {
                self.bursts.push_back(std::mem::take(coming));
            }
        }
        while let (Some(address), Some(burst)) = (self.addresses.front(), self.bursts.front()) {
            let begin = *address - *address % self.beat_bytes as u64;
            let confirmed = write(burst, begin, memory);
            self.confirmed.push_back(confirmed);
            self.addresses.pop_front();
            self.bursts.pop_front();
        }
    }

    fn read(&mut self, address: u64, beats: usize, now_ps: u64, memory: &mut dyn CardMemory) {
        let mut data = vec![0; beats * self.beat_bytes];
        let skip = (address % self.beat_bytes as u64) as usize;
        let read = memory.read(Picoseconds(now_ps), address, &mut data[skip..]);
        let (Ok(end) | Err(end)) = read;
        self.reads.push_back(Reading { data, taken: 0, end_ps: end.0, is_refused: read.is_err() });
    }
}

/// Writes the bytes of a burst that are enabled; `begin` is the address of its first beat. Returns
/// the time of its answer, and whether it is refused.
fn write(burst: &Beats, begin: u64, memory: &mut dyn CardMemory) -> (u64, bool) {
    let (mut at_ps, mut is_refused) = (burst.begun_ps, false);
    let mut at = 0;
    for run in burst.enables.chunk_by(|a, b| a == b) {
        let bytes = at..at + run.len();
        at = bytes.end;
        if run[0] {
            let address = begin + bytes.start as u64;
            let written = memory.write(Picoseconds(burst.begun_ps), address, &burst.data[bytes]);
            let (Ok(end) | Err(end)) = written;
            (at_ps, is_refused) = (at_ps.max(end.0), is_refused || written.is_err());
        }
    }
    (at_ps, is_refused)
}

/// Circuit of a card with its memory.
pub(crate) struct WithMemory {
    circuit: Box<MemoryModel>,
    memory: Box<dyn CardMemory>,
    ports: [Port; 2],
    clock_ps: u64,
    /// Number of the next clock.
    next_clock: u64,
    inputs: MemoryInputs,
    outputs: MemoryOutputs,
}

impl WithMemory {
    pub fn new(
        circuit: Box<MemoryModel>,
        memory: Box<dyn CardMemory>,
        datapath_bytes: u32,
        clock_ps: u64,
    ) -> Self {
        Self {
            circuit,
            memory,
            ports: [(); 2].map(|()| Port::new(datapath_bytes as usize, clock_ps)),
            clock_ps,
            next_clock: 0,
            inputs: MemoryInputs::default(),
            outputs: MemoryOutputs::default(),
        }
    }
}

impl Model for WithMemory {
    fn clock(&mut self, inputs: &Inputs, outputs: &mut Outputs) {
        let now_ps = self.next_clock * self.clock_ps;
        self.inputs.tlps = *inputs;
        self.inputs.ports = self.ports.each_ref().map(|port| port.offer(now_ps));
        self.circuit.clock(&self.inputs, &mut self.outputs);
        *outputs = self.outputs.tlps;
        self.next_clock =
            if inputs.time_is_set != 0 { inputs.time } else { self.outputs.tlps.time + 1 };
        if inputs.reset != 0 {
            self.next_clock = 0;
            return;
        }
        let pins = self.inputs.ports.iter().zip(&self.outputs.ports);
        for (port, (inputs, outputs)) in self.ports.iter_mut().zip(pins) {
            port.take(inputs, outputs, now_ps, self.memory.as_mut());
        }
        outputs.busy |= u8::from(self.ports.iter().any(Port::is_busy));
    }

    fn trace_to(&mut self, file: &Path) -> Result<(), CosimError> {
        self.circuit.trace_to(file)
    }

    fn peek_memory(&self, address: u64, out: &mut [u8]) -> bool {
        self.memory.peek(address, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::DATA_WORDS;

    const CLOCK_PS: u64 = 4000;
    const BEAT_BYTES: usize = 8;
    /// Time of every access.
    const TAKES_PS: u64 = 40_000;

    /// Memory of 4 KiB.
    struct Bytes(Vec<u8>);

    impl Bytes {
        fn place(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
            let begin = usize::try_from(address).ok()?;
            self.0.get_mut(begin..begin + bytes)
        }
    }

    impl CardMemory for Bytes {
        fn read(
            &mut self,
            from: Picoseconds,
            address: u64,
            out: &mut [u8],
        ) -> Result<Picoseconds, Picoseconds> {
            let end = Picoseconds(from.0 + TAKES_PS);
            let place = self.place(address, out.len()).ok_or(end)?;
            out.copy_from_slice(place);
            Ok(end)
        }

        fn write(
            &mut self,
            from: Picoseconds,
            address: u64,
            data: &[u8],
        ) -> Result<Picoseconds, Picoseconds> {
            let end = Picoseconds(from.0 + TAKES_PS);
            self.place(address, data.len()).ok_or(end)?.copy_from_slice(data);
            Ok(end)
        }

        fn peek(&self, _address: u64, _out: &mut [u8]) -> bool {
            false
        }
    }

    /// A port, its memory, and the number of the next clock.
    struct Bench {
        port: Port,
        memory: Bytes,
        clock: u64,
    }

    impl Bench {
        fn new() -> Self {
            let memory = Bytes((0..4096).map(|at| at as u8).collect());
            Self { port: Port::new(BEAT_BYTES, CLOCK_PS), memory, clock: 0 }
        }

        /// Runs a clock; the circuit takes all answers.
        fn clock(&mut self, outputs: AxiOutputs) -> AxiInputs {
            let now_ps = self.clock * CLOCK_PS;
            self.clock += 1;
            let inputs = self.port.offer(now_ps);
            let outputs = AxiOutputs { b_ready: 1, r_ready: 1, ..outputs };
            self.port.take(&inputs, &outputs, now_ps, &mut self.memory);
            inputs
        }

        /// Runs clocks until an answer to a write comes; its clock and response.
        fn answered(&mut self) -> (u64, u8) {
            loop {
                let inputs = self.clock(AxiOutputs::default());
                if inputs.b_valid != 0 {
                    return (self.clock - 1, inputs.b_response);
                }
            }
        }
    }

    fn address(address: u64) -> AxiOutputs {
        AxiOutputs { aw_valid: 1, aw_address: address, ..AxiOutputs::default() }
    }

    fn beat(byte: u8, strobe: u64, is_last: bool) -> AxiOutputs {
        let w_data = [u32::from_le_bytes([byte; 4]); DATA_WORDS];
        let w_last = is_last.into();
        AxiOutputs { w_valid: 1, w_data, w_strobe: strobe, w_last, ..AxiOutputs::default() }
    }

    #[test]
    fn a_write_takes_the_bytes_that_are_enabled_and_counts_from_its_first_beat() {
        let mut bench = Bench::new();
        bench.clock(beat(1, 0xf0, false));
        // The address may come behind the beats.
        bench.clock(beat(2, 0x0f, true));
        bench.clock(address(20));
        assert!(bench.port.is_busy());
        assert_eq!(bench.answered(), (10, 0));
        assert!(!bench.port.is_busy());
        let written = &bench.memory.0[16..32];
        assert_eq!(written, [16, 17, 18, 19, 1, 1, 1, 1, 2, 2, 2, 2, 28, 29, 30, 31]);
    }

    #[test]
    fn a_burst_without_bytes_is_answered_and_one_beyond_the_memory_refused() {
        let mut bench = Bench::new();
        bench.clock(address(0));
        bench.clock(beat(1, 0, true));
        assert_eq!(bench.answered().1, 0);
        assert_eq!(bench.memory.0[..2], [0, 1]);
        bench.clock(address(4096));
        bench.clock(beat(1, 0xff, true));
        assert_eq!(bench.answered().1, REFUSED);
    }

    #[test]
    fn the_last_beat_of_a_read_comes_at_its_time_and_reads_keep_their_order() {
        let mut bench = Bench::new();
        let read = |ar_address, ar_length| AxiOutputs {
            ar_valid: 1,
            ar_address,
            ar_length,
            ..AxiOutputs::default()
        };
        bench.clock(read(18, 2));
        bench.clock(read(4096, 0));
        let mut beats = Vec::new();
        while bench.port.is_busy() {
            let inputs = bench.clock(AxiOutputs::default());
            if inputs.r_valid != 0 {
                let first = inputs.r_data[0].to_le_bytes();
                beats.push((bench.clock - 1, first, inputs.r_last, inputs.r_response));
            }
        }
        // 40 ns are ten clocks.
        let wanted = [
            (8, [0, 0, 18, 19], 0, 0),
            (9, [24, 25, 26, 27], 0, 0),
            (10, [32, 33, 34, 35], 1, 0),
            (11, [0; 4], 1, REFUSED),
        ];
        assert_eq!(beats, wanted);
    }
}
