// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Card device: the gateware in place of an endpoint's engine.
//!
//! Clock edges are at multiples of the clock period; edge *n* begins clock *n* of engine time. The
//! card is clocked while it has work. Setting its time counter makes up for skipped clocks.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_fabric::trace::HeaderLine;
use crosslane_fabric::{Consumed, Device, DevicePort, ErrorKind, Intake, Received};
use crosslane_pcie::config::{Bar, ConfigSpace, MsixRequest};
use crosslane_pcie::tlp::{Class, Header, TlpKind};
use crosslane_pcie::units::Picoseconds;
use crosslane_regs::engine::{MSIX_PENDING, MSIX_TABLE, global};

use crate::configurations::CardParameters;
use crate::error::CosimError;
use crate::memory::CardMemory;
use crate::model::{Model, model_for};
use crate::pins::{FunctionSettings, Inputs, Outputs};
use crate::tlps::{self, Tlps};

/// Timer token: clock edge.
const EDGE: u32 = 0;
/// Clocks of reset at time 0.
const RESET_CLOCKS: u64 = 8;
/// Clocks without a TLP after which a card that has work sleeps: it then waits for something from
/// outside, or for the time-out of a read. Longer than a receive queue delays its credits and than
/// a table takes to be cleared. Counters of idle clocks stand still during the sleep.
const QUIET_CLOCKS: u64 = 4096;

/// Clocks without a TLP and without work after which a card sleeps: a register access takes some
/// clocks in which it does not show, and so does the answer to a read of memory once its data are
/// there.
const LINGER_CLOCKS: u64 = 64;

/// Read waiting for completions.
struct Read {
    tag: u16,
    bytes: u32,
    sent_ps: u64,
}

/// Longest wait of a read and the longest rest of its tag after a time-out, as `crosslane_reads`
/// measures them: in ticks of at most a 128th of the time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patience {
    waits_ps: u64,
    rests_ps: u64,
}

impl Patience {
    /// Clocks in which every tag is visited once.
    const VISITS: u64 = 1024;

    fn of(timeout_clocks: u64, clock_ps: u64) -> Self {
        let bits = u64::from(timeout_clocks.max(2).next_power_of_two().ilog2());
        let shift = if timeout_clocks > 256 { bits - 8 } else { 0 };
        let ticks = timeout_clocks.div_ceil(1 << shift);
        // Upper bound of the time for more than `ticks` ticks, wherever in a tick it began.
        let passed_ps = |ticks: u64| (((ticks + 1) << shift) + Self::VISITS) * clock_ps;
        Self { waits_ps: passed_ps(ticks), rests_ps: passed_ps(2 * ticks) }
    }
}

/// Clock counts of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// Clocks that were simulated.
    pub run: u64,
    /// Clocks that have passed, up to the last simulated edge.
    pub passed: u64,
}

/// Numbers that the circuit has for the BARs of registers, receive queues, the window into memory,
/// and pushed descriptors.
const BAR_NUMBERS: [u32; 4] = [0, 1, 2, 4];

/// Gateware as an endpoint's device: registers in BAR 0, receive queues in BAR 1 or the next BAR
/// present, and if the card has them a window into its memory in BAR 2 and lines of pushed
/// descriptors in BAR 4.
pub struct Card {
    model: Box<dyn Model>,
    clock_ps: u64,
    timeout: Picoseconds,
    patience: Patience,
    settings: FunctionSettings,
    has_window: bool,
    has_push: bool,
    /// BARs in the order of [`BAR_NUMBERS`].
    bars: [Option<Bar>; 4],
    tlps: Tlps,
    reads: VecDeque<Read>,
    /// Times at which tags whose reads have timed out end their rest.
    rests_ps: VecDeque<u64>,
    /// Whether the link has gone down since the last edge.
    link_fell: bool,
    /// Number of the next clock to simulate.
    next_clock: u64,
    /// Clock for which a timer is set, and whether the simulation waits for it.
    timer: Option<(u64, bool)>,
    /// Clocks since the last TLP.
    quiet_clocks: u64,
    /// Clocks since the card last had work.
    idle_clocks: u64,
    clocks_run: u64,
    /// Last write and completion taken, for error reports.
    last_write: Option<Header>,
    last_completion: Option<Header>,
    inputs: Inputs,
    outputs: Outputs,
}

impl Card {
    /// Creates a card in its reset state with the model built for these parameters, and with its
    /// memory, if they have one.
    ///
    /// # Errors
    /// Returns an error if no such model is built.
    pub fn new(
        parameters: &CardParameters,
        memory: Option<Box<dyn CardMemory>>,
    ) -> Result<Self, CosimError> {
        Ok(Self::of_model(model_for(parameters, memory)?, parameters))
    }

    /// Creates a card from any circuit with a card's ports, and resets it.
    pub fn of_model(mut model: Box<dyn Model>, parameters: &CardParameters) -> Self {
        let mut outputs = Outputs::default();
        let reset = Inputs { reset: 1, tx_ready: 1, ..Inputs::default() };
        for _ in 0..RESET_CLOCKS {
            model.clock(&reset, &mut outputs);
        }
        Self {
            model,
            clock_ps: parameters.clock_ps,
            timeout: Picoseconds(parameters.clock_ps * parameters.timeout_clocks),
            patience: Patience::of(parameters.timeout_clocks, parameters.clock_ps),
            settings: FunctionSettings::default(),
            has_window: parameters.window_bits > 0,
            has_push: parameters.push,
            bars: [None; 4],
            tlps: Tlps::new(parameters.datapath_bytes as usize, parameters.clock_ps),
            reads: VecDeque::new(),
            rests_ps: VecDeque::new(),
            link_fell: false,
            next_clock: 0,
            timer: None,
            quiet_clocks: 0,
            idle_clocks: 0,
            clocks_run: 0,
            last_write: None,
            last_completion: None,
            inputs: Inputs::default(),
            outputs,
        }
    }

    /// Returns the circuit of this crate's tests if it is built.
    pub fn stand_in() -> Option<Self> {
        let configuration = crate::configurations::STAND_IN;
        let model = crate::model::built(&configuration)?;
        Some(Self::of_model(model, &configuration.parameters))
    }

    /// Returns the card's MSI-X capability, with table and pending bits in BAR 0.
    pub const fn msix_request() -> MsixRequest {
        MsixRequest {
            vectors: global::counts::VECTORS.get(global::COUNTS_RESET) as u16,
            table_bar: 0,
            table_offset_bytes: MSIX_TABLE.base,
            pending_bar: 0,
            pending_offset_bytes: MSIX_PENDING.base,
        }
    }

    /// Writes a trace of the circuit to a file from now on, in the format FST.
    ///
    /// # Errors
    /// Returns an error if the models are built without traces or the file cannot be written.
    pub fn trace_to(&mut self, file: &Path) -> Result<(), CosimError> {
        self.model.trace_to(file)
    }

    /// Returns the number of reads that at `now` are neither answered nor timed out.
    pub fn reads_waiting(&self, now: Picoseconds) -> usize {
        let waits_ps = self.patience.waits_ps;
        self.reads.iter().filter(|read| read.sent_ps + waits_ps > now.0).count()
    }

    /// Reads the card's memory without taking time. Returns false if there is none, or not all of
    /// it exists.
    pub fn peek_memory(&self, address: u64, out: &mut [u8]) -> bool {
        self.model.peek_memory(address, out)
    }

    /// Returns the clock counts up to now.
    pub const fn clocks(&self) -> ClockCounts {
        ClockCounts { run: self.clocks_run, passed: self.next_clock }
    }

    /// Ensures that the next edge is simulated.
    fn wake(&mut self, port: &mut DevicePort<'_>) {
        self.quiet_clocks = 0;
        // An arrival at the time of an edge is sampled at the next one.
        let clock = (port.now_ps() / self.clock_ps + 1).max(self.next_clock);
        self.set_timer(clock, true, port);
    }

    /// Sets a timer for a clock. An earlier timer suffices, unless only the new one is awaited.
    fn set_timer(&mut self, clock: u64, is_awaited: bool, port: &mut DevicePort<'_>) {
        let is_set =
            self.timer.is_some_and(|(set, awaited)| set <= clock && (awaited || !is_awaited));
        if is_set {
            return;
        }
        self.timer = Some((clock, is_awaited));
        let time_ps = clock * self.clock_ps;
        if is_awaited {
            port.timer(time_ps, EDGE);
        } else {
            port.deadline(time_ps, EDGE);
        }
    }

    /// Simulates clock `number`, whose edge is now.
    fn clock(&mut self, number: u64, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        self.inputs = Inputs {
            tx_ready: 1,
            room: tlps::room(port),
            function: self.settings.packed(port.routing_id(), !self.link_fell),
            ..Inputs::default()
        };
        self.link_fell = false;
        if number > self.next_clock {
            // Clocks were skipped: use one to set the time.
            let idle = Inputs { time_is_set: 1, time: number, ..self.inputs };
            self.model.clock(&idle, &mut self.outputs);
            self.clocks_run += 1;
            self.send_beat(now_ps, port);
        }
        let bytes = self.tlps.offer(now_ps, &mut self.inputs);
        self.model.clock(&self.inputs, &mut self.outputs);
        self.clocks_run += 1;
        self.next_clock = number + 1;
        let moves = self.outputs.tx_valid != 0 || self.inputs.rx_valid != 0;
        self.quiet_clocks = if moves { 0 } else { self.quiet_clocks + 1 };
        if self.inputs.rx_valid != 0 && self.outputs.rx_ready != 0 {
            self.taken(bytes, port);
        }
        self.send_beat(now_ps, port);
        self.report_errors(port);
    }

    /// Handles a beat that the card has taken.
    fn taken(&mut self, bytes: usize, port: &mut DevicePort<'_>) {
        let is_last = self.inputs.rx_last != 0;
        let Some(header) = self.tlps.taken(bytes, is_last, port) else { return };
        match header.class() {
            Class::Posted => self.last_write = Some(header),
            Class::NonPosted => {}
            Class::Completion => {
                self.note_answer(&header);
                self.last_completion = Some(header);
            }
        }
    }

    /// Takes the beat that the card sends in this clock.
    fn send_beat(&mut self, now_ps: u64, port: &mut DevicePort<'_>) {
        let sent = self.tlps.send_beat(&self.outputs, now_ps, port);
        if let Some(header) = sent.filter(|header| header.kind == TlpKind::MemoryRead) {
            let (tag, bytes) = (header.tag.0, header.request_bytes());
            self.reads.push_back(Read { tag, bytes, sent_ps: now_ps });
        }
    }

    /// Removes a read whose answer is complete.
    fn note_answer(&mut self, header: &Header) {
        let Some(at) = self.reads.iter().position(|read| read.tag == header.tag.0) else { return };
        let skip = header.address.0 as u32 & 3;
        let bytes = header.payload_bytes().saturating_sub(skip);
        let read = &mut self.reads[at];
        if header.kind == TlpKind::Completion || bytes >= read.bytes {
            self.reads.remove(at);
        } else {
            read.bytes -= bytes;
        }
    }

    /// Removes reads that no longer wait, and tags that no longer rest.
    fn expire(&mut self, now_ps: u64) {
        let Patience { waits_ps, rests_ps } = self.patience;
        let is_over = |read: &&Read| read.sent_ps + waits_ps <= now_ps;
        self.rests_ps.extend(self.reads.iter().filter(is_over).map(|read| read.sent_ps + rests_ps));
        self.reads.retain(|read| !is_over(&read));
        self.rests_ps.retain(|until_ps| *until_ps > now_ps);
    }

    fn report_errors(&mut self, port: &mut DevicePort<'_>) {
        let line = |header: Option<Header>| {
            header.map_or_else(|| "a TLP".to_owned(), |it| HeaderLine(&it).to_string())
        };
        if self.outputs.poisoned_write != 0 {
            port.report(ErrorKind::PoisonedWrite { what: line(self.last_write) });
        }
        if self.outputs.unexpected_completion != 0 {
            port.report(ErrorKind::UnexpectedCompletion { what: line(self.last_completion) });
        }
        if self.outputs.completion_timeout != 0 {
            // The read that has waited longest.
            let read = self.reads.pop_front();
            self.rests_ps.extend(read.as_ref().map(|read| read.sent_ps + self.patience.rests_ps));
            let tag = read.map_or(0, |read| read.tag);
            port.report(ErrorKind::CompletionTimeout { tag, timeout: self.timeout });
        }
    }

    /// Whether the card has work to be clocked for.
    fn has_work(&self) -> bool {
        self.outputs.busy != 0
            // It is processing what it has taken.
            || self.outputs.rx_ready == 0
            || self.outputs.tx_valid != 0
            || self.tlps.is_busy()
    }
}

/// Clocks simulated by cards of this process that have been dropped.
static CLOCKS_RUN: AtomicU64 = AtomicU64::new(0);

/// Returns the number of clocks simulated by cards of this process that have been dropped.
pub fn clocks_run() -> u64 {
    CLOCKS_RUN.load(Ordering::Relaxed)
}

/// Counts the clocks of a card that is dropped.
pub(crate) fn count_clocks(clocks: u64) {
    CLOCKS_RUN.fetch_add(clocks, Ordering::Relaxed);
}

impl Drop for Card {
    fn drop(&mut self) {
        count_clocks(self.clocks_run);
    }
}

impl Device for Card {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let bars = BAR_NUMBERS.into_iter().zip(&self.bars);
        let consumed = self.tlps.receive(tlp, bars, port);
        if consumed == Consumed::Held {
            self.wake(port);
        }
        consumed
    }

    fn intake(&self) -> Option<Intake> {
        Some(Intake { beat_bytes: self.tlps.beat_bytes() as u32, clock_ps: self.clock_ps })
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.wake(port);
    }

    fn link_down(&mut self, port: &mut DevicePort<'_>) {
        self.link_fell = true;
        self.wake(port);
    }

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        let number = port.now_ps() / self.clock_ps;
        // Another timer may have run this clock, or this timer may be obsolete.
        if self.timer.is_none_or(|(set, _)| set != number) || number < self.next_clock {
            return;
        }
        if self.timer.take().is_some_and(|(_, is_awaited)| !is_awaited) {
            // The longest wait of a read is over: let the card handle it.
            self.quiet_clocks = 0;
        }
        self.clock(number, port);
        let has_work = self.has_work();
        self.idle_clocks = if has_work { 0 } else { self.idle_clocks + 1 };
        let sleeps = match has_work {
            true => self.quiet_clocks >= QUIET_CLOCKS,
            false => self.quiet_clocks.min(self.idle_clocks) >= LINGER_CLOCKS,
        };
        if !sleeps {
            self.set_timer(number + 1, true, port);
            return;
        }
        let now_ps = port.now_ps();
        self.expire(now_ps);
        let waits_ps = self.patience.waits_ps;
        let waits = self.reads.iter().map(|read| read.sent_ps + waits_ps);
        if let Some(until_ps) = waits.chain(self.rests_ps.iter().copied()).min() {
            self.set_timer(until_ps.div_ceil(self.clock_ps).max(number + 1), false, port);
        }
    }

    fn configured(&mut self, config: &ConfigSpace) {
        let is_enabled = config.memory_enabled();
        // A 64-bit BAR 0 takes two BARs.
        let receive = (1..6).find_map(|index| config.bar(index));
        let window = config.bar(2).filter(|_| self.has_window);
        let push = config.bar(4).filter(|_| self.has_push);
        self.bars = [config.bar(0), receive, window, push].map(|bar| bar.filter(|_| is_enabled));
        self.settings = config.into();
    }

    fn unfinished(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.reads.is_empty() {
            lines.push(format!("{} reads wait for completions", self.reads.len()));
        }
        if self.tlps.waiting() > 0 {
            lines.push(format!("{} TLPs wait for the card to take them", self.tlps.waiting()));
        }
        if self.outputs.busy != 0 {
            lines.push("the card is busy".to_owned());
        }
        lines
    }
}
