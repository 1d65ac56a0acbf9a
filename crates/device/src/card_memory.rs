// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of an engine's card (`docs/engine.md`, "The card's memory"): its contents, and the time
//! of an access over AXI4 to DRAM. `engine/memory.rs` is the engine's side.

use crosslane_fabric::parameters::{
    Number, ParameterError, ParameterKind, Value, power_of_two, within,
};
use crosslane_fabric::{Memory, parameters};
use crosslane_pcie::units::Picoseconds;

use crate::parameters::{SECOND, US};

/// An AXI4 burst never crosses a multiple of this many bytes (AMBA AXI4, A3.4.1).
const AXI_BOUNDARY_BYTES: u64 = 4096;
/// Read-ahead of this project's gateware.
const READ_AHEAD_BYTES: u32 = 8192;

/// Coupling of PCI Express and the card's memory in the engine's data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Both at once, as in this project's engine.
    Overlapped,
    /// A copier on AXI (a *CDMA*): it reads a whole burst, writes it, waits for the write to end,
    /// and reads the next.
    InTurn,
}

impl Number for Copying {
    const KIND: ParameterKind = ParameterKind::Choice(&["overlapped", "in-turn"]);

    fn value(self) -> Value {
        Value::Whole(self as u64)
    }

    fn of(value: Value) -> Self {
        if value == Value::Whole(0) { Self::Overlapped } else { Self::InTurn }
    }
}

parameters! {
    /// Build parameters of a card's memory and its DRAM.
    CardMemoryParameters {
        /// Size, bytes.
        memory_bytes: u64 [power of two, 4096, 1 << 40],
        /// Bytes of the AXI data bus.
        axi_bytes: u32 [power of two, 1, 128],
        /// AXI clock period, up to 1 us. Each clock carries a beat.
        axi_clock: Picoseconds [1, US],
        /// Longest AXI burst in beats; a burst is never longer than 4 KiB.
        burst_beats: u32 [power of two, 1, 256],
        /// Most bytes that C2H reads ahead, at least a burst.
        read_ahead_bytes: u32 [power of two, 1, 1 << 20; READ_AHEAD_BYTES],
        /// Time from an AXI read to its first data, without the DRAM's transfers.
        read_latency: Picoseconds [0, SECOND],
        /// Time from the last beat of a write to its confirmation.
        write_latency: Picoseconds [0, SECOND],
        /// Whether transfers over PCI Express and to memory overlap, as in this project's engine,
        /// or a burst is read whole and then written.
        copying: Copying [any],
        /// AXI clocks between reading and writing a burst; needed with `in-turn`.
        turnaround_clocks: u32 [or zero, cost, 0, 1024],
        /// DRAM channels: each has an equal part of the addresses, one behind the other.
        dram_channels: u32 [power of two, 1, 16; 1],
        /// Bytes of one channel's data bus.
        dram_bus_bytes: u32 [power of two, 1, 128],
        /// Clock period, up to 1 us. Each clock makes two transfers.
        dram_clock: Picoseconds [1, US],
        /// Transfers of a burst.
        dram_burst_transfers: u32 [power of two, 2, 64],
        /// Bytes of a row over the whole bus, at least a burst.
        dram_row_bytes: u32 [power of two, 1, 1 << 20],
        /// Time to change rows, up to 1 us and a quarter of the refresh interval.
        dram_row_change: Picoseconds [0, US],
        /// Time from one refresh to the next, 100 ns to 1 s; 0: none.
        dram_refresh_interval: Picoseconds [0, SECOND; 0],
        /// Time of a refresh, up to half of that.
        dram_refresh: Picoseconds [any; 0],
    }
    check check_together
}

impl CardMemoryParameters {
    /// Returns the length of the longest burst in bytes.
    pub fn burst_bytes(&self) -> u32 {
        (self.burst_beats * self.axi_bytes).min(AXI_BOUNDARY_BYTES as u32)
    }

    /// Returns the length of a burst of the DRAM in bytes.
    fn dram_burst_bytes(&self) -> u64 {
        (self.dram_bus_bytes * self.dram_burst_transfers).into()
    }

    /// Checks the bounds that depend on other parameters.
    fn check_together(&self) -> Result<(), ParameterError> {
        let power =
            |name, value: u32, least, most| power_of_two((name, name), value.into(), least, most);
        power("read_ahead_bytes", self.read_ahead_bytes, self.burst_bytes().into(), 1 << 20)?;
        // Each channel has at least 4 KiB.
        power("dram_channels", self.dram_channels, 1, self.memory_bytes / 4096)?;
        power("dram_row_bytes", self.dram_row_bytes, self.dram_burst_bytes(), 1 << 20)?;
        let interval_ps = self.dram_refresh_interval.0;
        if interval_ps > 0 {
            let name = ("dram_refresh_interval (ps)", "dram_refresh_interval_ns");
            within(name, interval_ps, US / 10, SECOND)?;
            // Refreshes must leave time for accesses. The limits exceed what any DRAM needs.
            let name = ("dram_row_change (ps)", "dram_row_change_ns");
            within(name, self.dram_row_change.0, 0, interval_ps / 4)?;
        }
        let name = ("dram_refresh (ps)", "dram_refresh_ns");
        within(name, self.dram_refresh.0, 0, interval_ps / 2)
    }
}

/// Times at which an access crosses the data bus of the DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crossing {
    /// End of its first burst.
    first_ps: u64,
    /// End of its last burst.
    end_ps: u64,
}

/// DRAM behind a controller that serves accesses in order.
struct Dram {
    parameters: CardMemoryParameters,
    free_ps: u64,
    open_row: Option<u64>,
}

impl Dram {
    const fn new(parameters: CardMemoryParameters) -> Self {
        Self { parameters, free_ps: 0, open_row: None }
    }

    /// Returns the number of bursts that the bytes touch, and their first and last row.
    fn extent(&self, address: u64, bytes: u64) -> (u64, u64, u64) {
        let p = &self.parameters;
        let last = address + bytes.max(1) - 1;
        let burst_bytes = p.dram_burst_bytes();
        let row_bytes = u64::from(p.dram_row_bytes);
        (last / burst_bytes - address / burst_bytes + 1, address / row_bytes, last / row_bytes)
    }

    fn access(&mut self, from_ps: u64, address: u64, bytes: u64) -> Crossing {
        let p = self.parameters;
        let start_ps = from_ps.max(self.free_ps);
        let interval_ps = p.dram_refresh_interval.0;
        // A refresh closes all rows.
        if interval_ps > 0 && start_ps / interval_ps != self.free_ps / interval_ps {
            self.open_row = None;
        }
        let (bursts, first_row, last_row) = self.extent(address, bytes);
        let is_open = self.open_row == Some(first_row);
        let burst_ps = u64::from(p.dram_burst_transfers) * p.dram_clock.0 / 2;
        let opening_ps = if is_open { 0 } else { p.dram_row_change.0 };
        let first_ps = self.work(start_ps, opening_ps + burst_ps);
        let rest_ps = (bursts - 1) * burst_ps + (last_row - first_row) * p.dram_row_change.0;
        let end_ps = self.work(first_ps, rest_ps);
        self.open_row = Some(last_row);
        self.free_ps = end_ps;
        Crossing { first_ps, end_ps }
    }

    /// Returns the end of `work_ps` of work begun at `from_ps`, including the refreshes in between.
    fn work(&self, from_ps: u64, work_ps: u64) -> u64 {
        let p = &self.parameters;
        let interval_ps = p.dram_refresh_interval.0;
        if interval_ps == 0 {
            return from_ps + work_ps;
        }
        let (mut at_ps, mut left_ps) = (from_ps, work_ps);
        loop {
            let turn = at_ps / interval_ps;
            // The first refresh is one interval after time 0.
            if turn > 0 {
                at_ps = at_ps.max(turn * interval_ps + p.dram_refresh.0);
            }
            let next_ps = (turn + 1) * interval_ps;
            assert!(at_ps <= next_ps, "a refresh ends at {at_ps} ps, and the next is {next_ps} ps");
            if at_ps + left_ps <= next_ps {
                return at_ps + left_ps;
            }
            // A refresh closes the row.
            left_ps = left_ps - (next_ps - at_ps) + p.dram_row_change.0;
            at_ps = next_ps;
        }
    }
}

/// Refusal of a burst whose address the memory lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Address of the burst.
    pub address: u64,
    /// Bytes of the access before the burst.
    pub before: u32,
    /// Time at which the refusal and all answers before it have arrived, ps.
    pub at_ps: u64,
}

/// Memory of a card and its AXI ports, one per direction.
pub struct CardMemory {
    pub(crate) parameters: CardMemoryParameters,
    /// Channels in ascending order of address.
    channels: Vec<Dram>,
    memory: Memory,
    /// Times at which the data buses are free.
    write_free_ps: u64,
    read_free_ps: u64,
    /// Earliest time of the next read request.
    request_free_ps: u64,
}

impl CardMemory {
    /// Creates a memory of zeros.
    pub fn new(parameters: CardMemoryParameters) -> Self {
        Self {
            parameters,
            channels: (0..parameters.dram_channels).map(|_| Dram::new(parameters)).collect(),
            memory: Memory::new(),
            write_free_ps: 0,
            read_free_ps: 0,
            request_free_ps: 0,
        }
    }

    /// Converts AXI clocks to picoseconds.
    pub(crate) fn clocks_ps(&self, clocks: u32) -> u64 {
        u64::from(clocks) * self.parameters.axi_clock.0
    }

    /// Returns the first AXI clock edge at or after a time.
    fn edge_ps(&self, time_ps: u64) -> u64 {
        time_ps.next_multiple_of(self.parameters.axi_clock.0)
    }

    /// Returns the number of bytes from an address to the end of its burst.
    pub fn to_burst_end(&self, address: u64) -> u32 {
        let burst_bytes = u64::from(self.parameters.burst_bytes());
        (burst_bytes - address % burst_bytes) as u32
    }

    fn beats(&self, address: u64, bytes: u64) -> u64 {
        let beat = u64::from(self.parameters.axi_bytes);
        (address + bytes - 1) / beat - address / beat + 1
    }

    fn has(&self, address: u64, bytes: u64) -> bool {
        address.checked_add(bytes).is_some_and(|end| end <= self.parameters.memory_bytes)
    }

    /// Returns the channel with an address. No burst crosses the end of a channel.
    fn channel(&mut self, address: u64) -> &mut Dram {
        let each = self.parameters.memory_bytes / self.channels.len() as u64;
        &mut self.channels[(address / each) as usize]
    }

    /// Writes bytes that are available from `from_ps`, in bursts. Returns when the last one is
    /// confirmed, ps.
    ///
    /// # Errors
    /// Refuses a burst that is not all in the memory; those before it are written.
    pub fn write(&mut self, from_ps: u64, address: u64, data: &[u8]) -> Result<u64, Refused> {
        let (mut done, mut confirmed_ps) = (0, from_ps);
        let latency_ps = self.parameters.write_latency.0;
        while done < data.len() {
            let at = address.wrapping_add(done as u64);
            let bytes = (data.len() - done).min(self.to_burst_end(at) as usize);
            let begin_ps = self.edge_ps(from_ps.max(self.write_free_ps));
            let data_ps = begin_ps + self.beats(at, bytes as u64) * self.parameters.axi_clock.0;
            self.write_free_ps = data_ps;
            if !self.has(at, bytes as u64) {
                let at_ps = confirmed_ps.max(data_ps + latency_ps);
                return Err(Refused { address: at, before: done as u32, at_ps });
            }
            let first_beat_ps = begin_ps + self.parameters.axi_clock.0;
            let crossing = self.channel(at).access(first_beat_ps, at, bytes as u64);
            confirmed_ps = confirmed_ps.max(data_ps.max(crossing.end_ps) + latency_ps);
            self.memory.write(at, &data[done..done + bytes]);
            done += bytes;
        }
        Ok(confirmed_ps)
    }

    /// Reads bytes without taking time. Returns false if not all of them exist.
    pub fn peek(&self, address: u64, out: &mut [u8]) -> bool {
        let has_all = self.has(address, out.len() as u64);
        if has_all {
            self.memory.read(address, out);
        }
        has_all
    }

    /// Reads bytes of one burst, requested at `from_ps` or later. Returns when the last byte
    /// arrives, ps.
    ///
    /// # Errors
    /// Refuses a burst that is not all in the memory.
    ///
    /// # Panics
    /// If the bytes go beyond the end of a burst ([`to_burst_end`](Self::to_burst_end)).
    pub fn read(&mut self, from_ps: u64, address: u64, out: &mut [u8]) -> Result<u64, Refused> {
        let (bytes, p) = (out.len() as u64, self.parameters);
        let asked_ps = self.edge_ps(from_ps.max(self.request_free_ps));
        self.request_free_ps = asked_ps + p.axi_clock.0;
        let there_ps = asked_ps + p.read_latency.0;
        if !self.has(address, bytes) {
            let at_ps = there_ps.max(self.read_free_ps);
            return Err(Refused { address, before: 0, at_ps });
        }
        let to_end = self.to_burst_end(address);
        assert!(
            bytes <= u64::from(to_end),
            "{bytes} B at {address:#x}, and a burst has {to_end} B"
        );
        let crossing = self.channel(address).access(there_ps, address, bytes);
        let begin_ps = self.edge_ps(crossing.first_ps.max(self.read_free_ps));
        let beats_ps = self.beats(address, bytes) * p.axi_clock.0;
        let end_ps = (begin_ps + beats_ps).max(self.edge_ps(crossing.end_ps));
        self.read_free_ps = end_ps;
        self.memory.read(address, out);
        Ok(end_ps)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crosslane_fabric::parameters::Parameters;

    /// The board of the kc705 paper: 64 bits at 1600 MT/s behind 256 bits at 100 MHz.
    pub(crate) fn parameters() -> CardMemoryParameters {
        CardMemoryParameters {
            memory_bytes: 1 << 30,
            axi_bytes: 32,
            axi_clock: Picoseconds::from_ns(10),
            burst_beats: 16,
            read_ahead_bytes: 8192,
            read_latency: Picoseconds::from_ns(100),
            write_latency: Picoseconds::from_ns(60),
            copying: Copying::Overlapped,
            turnaround_clocks: 0,
            dram_channels: 1,
            dram_bus_bytes: 8,
            dram_clock: Picoseconds(1250),
            dram_burst_transfers: 8,
            dram_row_bytes: 8192,
            dram_row_change: Picoseconds(27_500),
            dram_refresh_interval: Picoseconds::from_ns(7800),
            dram_refresh: Picoseconds::from_ns(110),
        }
    }

    fn dram() -> Dram {
        Dram::new(parameters())
    }

    #[test]
    fn a_burst_of_dram_takes_its_transfers_and_a_row_is_opened_once() {
        let mut dram = dram();
        // 64 B in 8 transfers of 625 ps, after 27.5 ns to open the row.
        let first = dram.access(0, 0, 64);
        assert_eq!(first, Crossing { first_ps: 32_500, end_ps: 32_500 });
        // Same row: 512 B are 8 bursts of 5 ns.
        let next = dram.access(0, 64, 512);
        assert_eq!(next, Crossing { first_ps: 37_500, end_ps: 72_500 });
        // 2 B across a burst boundary take both bursts; the new row must be opened.
        assert_eq!(dram.access(100_000, 8192 + 63, 2).end_ps, 137_500);
        // Across a row boundary: the second row is opened in the middle.
        assert_eq!(dram.access(200_000, 16_384 - 64, 128).end_ps, 237_500);
    }

    #[test]
    fn a_refresh_holds_accesses_up_and_closes_the_row() {
        let interval_ps = 7_800_000;
        // An access begun during the refresh waits for its end and opens the row.
        let mut dram = dram();
        dram.access(0, 0, 64);
        assert_eq!(dram.access(interval_ps + 10_000, 0, 64).end_ps, interval_ps + 142_500);
        // Begun 20 ns before a refresh: 4 bursts of 8 are done, the rest follow refresh and row
        // opening.
        let mut dram = self::dram();
        dram.access(interval_ps - 100_000, 0, 64);
        let end_ps = dram.access(interval_ps - 20_000, 0, 512).end_ps;
        assert_eq!(end_ps, interval_ps + 110_000 + 27_500 + 20_000);
        // Without refreshes the access begins at once.
        let mut dram = self::dram();
        dram.parameters.dram_refresh_interval = Picoseconds::ZERO;
        assert_eq!(dram.access(interval_ps + 10_000, 0, 64).end_ps, interval_ps + 42_500);
    }

    #[test]
    fn the_dram_takes_what_its_bus_does_less_refreshes_and_rows() {
        let mut dram = dram();
        let bytes = 1 << 22;
        let end_ps = dram.access(0, 0, bytes).end_ps;
        // 0.3125 / 4 ns per byte, 27.5 ns per 8 KiB, 137.5 ns per 7.8 us.
        let work_ps = bytes / 64 * 5_000 + bytes / 8192 * 27_500;
        let refreshes = end_ps / 7_800_000;
        assert_eq!(end_ps, work_ps + refreshes * 137_500);
        assert_eq!(refreshes, 44);
    }

    #[test]
    fn axi_takes_a_beat_a_clock_and_bursts_end_at_their_multiples() {
        let mut memory = CardMemory::new(parameters());
        // 512 B in 16 beats from the next edge; the DRAM finishes earlier.
        let data: Vec<u8> = (0..1024).map(|n| n as u8).collect();
        assert_eq!(memory.write(3, 0, &data[..512]), Ok(10_000 + 160_000 + 60_000));
        // 1 KiB from 16: 496 B touch 16 beats, then 512 B, then 16 B. The DRAM burst of the last
        // beat ends 5 ns after it.
        let end_ps = 500_000 + 33 * 10_000 + 5_000;
        assert_eq!(memory.write(500_000, 16, &data), Ok(end_ps + 60_000));
        let mut back = [0; 512];
        // The row is open: 100 ns, a burst of 5 ns, the next edge, 16 beats.
        assert_eq!(memory.read(2_000_000, 0, &mut back), Ok(2_000_000 + 110_000 + 160_000));
        assert_eq!((&back[..16], &back[16..]), (&data[..16], &data[..496]));
        // Two reads at once: their data follow without a gap.
        memory.read(3_000_000, 0, &mut back).unwrap();
        assert_eq!(memory.read(3_000_000, 512, &mut back), Ok(3_000_000 + 110_000 + 320_000));
    }

    #[test]
    fn a_narrow_bus_makes_the_time() {
        let narrow = CardMemoryParameters { axi_bytes: 8, ..parameters() };
        let mut memory = CardMemory::new(narrow);
        assert_eq!(memory.write(0, 0, &[1; 4096]), Ok(512 * 10_000 + 60_000));
        assert_eq!((narrow.burst_bytes(), parameters().burst_bytes()), (128, 512));
        let long = CardMemoryParameters { burst_beats: 256, ..parameters() };
        assert_eq!(long.burst_bytes(), 4096);
    }

    #[test]
    fn channels_have_data_buses_of_their_own() {
        let mut slow = parameters();
        // 6.4 GB/s of AXI in front of channels of 3.2 GB/s.
        (slow.axi_bytes, slow.dram_bus_bytes) = (64, 2);
        (slow.dram_row_change.0, slow.dram_refresh_interval.0) = (0, 0);
        let end_ps = |parameters: CardMemoryParameters| {
            let mut memory = CardMemory::new(parameters);
            memory.write(0, 0, &[1; 4096]).unwrap();
            memory.write(0, parameters.memory_bytes / 2, &[1; 4096]).unwrap()
        };
        // With one channel: 8 KiB at 3.2 GB/s from the first beat. With two: 4 KiB of it after the
        // beats of the first write.
        assert_eq!(end_ps(slow), 10_000 + 8192 * 10_000 / 32 + 60_000);
        slow.dram_channels = 2;
        assert_eq!(end_ps(slow), 640_000 + 10_000 + 4096 * 10_000 / 32 + 60_000);
    }

    #[test]
    fn addresses_that_are_not_there_are_refused_at_their_burst() {
        let mut memory =
            CardMemory::new(CardMemoryParameters { memory_bytes: 4096, ..parameters() });
        let refused = memory.write(0, 3584, &[1; 1024]).unwrap_err();
        assert_eq!((refused.address, refused.before), (4096, 512));
        assert_eq!(refused.at_ps, 320_000 + 60_000);
        assert!(memory.read(0, u64::MAX - 1, &mut [0; 4]).is_err());
        assert!(memory.read(0, 4095, &mut [0; 1]).is_ok());
    }

    /// Limits are lifted to these: longest, shortest and fewest, whatever makes a card faster.
    #[test]
    fn fastest_parameters_are_ends_of_their_bounds() {
        let slow = CardMemoryParameters { turnaround_clocks: 9, ..parameters() };
        let fastest = slow.fastest();
        assert_eq!((fastest.burst_beats, fastest.read_ahead_bytes), (256, 1 << 20));
        assert_eq!((fastest.axi_clock.0, fastest.read_latency.0), (1, 0));
        assert_eq!((fastest.turnaround_clocks, fastest.copying), (0, slow.copying));
    }

    #[test]
    fn parameters_are_checked() {
        assert_eq!(parameters().check(), Ok(()));
        let bad = |change: fn(&mut CardMemoryParameters)| {
            let mut changed = parameters();
            change(&mut changed);
            changed.check().unwrap_err().to_string()
        };
        assert_eq!(bad(|p| p.axi_bytes = 24), "axi_bytes of 24 is not a power of two");
        assert_eq!(bad(|p| p.burst_beats = 512), "burst_beats of 512 is not between 1 and 256");
        assert!(bad(|p| p.dram_channels = 3).starts_with("dram_channels of 3"));
        assert!(bad(|p| p.dram_row_bytes = 32).starts_with("dram_row_bytes of 32"));
        assert!(bad(|p| p.dram_refresh.0 = 4_000_000).starts_with("dram_refresh (ps)"));
        let often = |p: &mut CardMemoryParameters| p.dram_refresh_interval.0 = 2;
        assert!(bad(often).starts_with("dram_refresh_interval (ps) of 2"));
        let slow = |p: &mut CardMemoryParameters| {
            (p.dram_refresh_interval.0, p.dram_refresh.0) = (100_000, 0);
        };
        assert!(bad(slow).starts_with("dram_row_change (ps) of 27500"));
        assert!(bad(|p| p.turnaround_clocks = 2000).starts_with("turnaround_clocks of 2000"));
    }
}
