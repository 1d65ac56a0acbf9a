// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network processor device: the gateware with its links, and the cables between such cards.
//!
//! A cable takes the words that the transceivers of one end send and brings them to the other end
//! after its latency. Coding, alignment, deskew and training are in the gateware, so their clocks
//! come on top of it. Both ends of a cable are clocked together: the cards that are joined by
//! cables with both ends enabled run or sleep at the same clocks, so that a link does not notice a
//! sleep.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_fabric::{Consumed, Device, DevicePort, Fabric, Intake, NodeId, Received};
use crosslane_pcie::config::{Bar, ConfigSpace};
use crosslane_pcie::tlp::{Header, TlpKind};
use crosslane_pcie::units::Picoseconds;

use crate::cable::CableEnd;
use crate::card::count_clocks;
use crate::configurations::NetworkCardParameters;
use crate::error::CosimError;
use crate::model::{NetworkModel, network_model_for};
use crate::pins::{FunctionSettings, Inputs, NetworkInputs, NetworkOutputs};
use crate::tlps::{self, Tlps};

/// Timer token: clock edge.
const EDGE: u32 = 0;
/// Words of the transceivers in the reset at time 0: enough for both clocks of every link.
const RESET_WORDS: u64 = 8;
/// Clocks without a TLP for which a card is active that has something to do: longer than it takes
/// to forget all of its links, and a link to be trained anew behind its time-outs.
const BUSY_CLOCKS: u64 = 65_536;
/// Clocks behind activity after which a card with an enabled link sleeps: longer than it works
/// without showing that at its pins.
const QUIET_CLOCKS: u64 = 4096;
/// Clocks behind activity after which another card sleeps: a register access takes some clocks in
/// which it does not show.
const LINGER_CLOCKS: u64 = 64;

/// Clocks that the cards of a lab share while they are joined by live cables.
#[derive(Debug, Default)]
pub struct JoinedCards {
    /// Last clock in which a TLP moved at one of them.
    moved_clock: AtomicU64,
    /// Last clock in which one of them was active.
    active_clock: AtomicU64,
}

/// Read waiting for completions.
struct Read {
    bytes: u32,
    sent_clock: u64,
}

/// Gateware as an endpoint's device: registers in BAR 0, request apertures in BAR 2, put aperture
/// in BAR 4.
pub struct NetworkCard {
    model: Box<NetworkModel>,
    parameters: NetworkCardParameters,
    settings: FunctionSettings,
    bars: [Option<Bar>; 6],
    tlps: Tlps,
    /// Reads by their tags.
    reads: BTreeMap<u16, Read>,
    /// Cables by links.
    cables: Vec<Option<CableEnd>>,
    /// Number of the next clock to simulate.
    next_clock: u64,
    /// Clock for which a timer is set.
    scheduled: Option<u64>,
    /// Last clock in which a TLP moved here.
    moved_clock: u64,
    /// Last clock in which it was active.
    active_clock: u64,
    joined: Arc<JoinedCards>,
    clocks_run: u64,
    inputs: NetworkInputs,
    outputs: NetworkOutputs,
}

impl NetworkCard {
    /// Creates a card in its reset state, without cables, with the model built for these
    /// parameters.
    ///
    /// # Errors
    /// Returns an error if no such model is built.
    pub fn new(parameters: &NetworkCardParameters) -> Result<Self, CosimError> {
        let mut model = network_model_for(parameters)?;
        let mut outputs = NetworkOutputs::default();
        let tlps = Inputs { reset: 1, tx_ready: 1, ..Inputs::default() };
        let links = u8::MAX >> (8 - parameters.links);
        let mut inputs = NetworkInputs { tlps, rx_resets: links, ..NetworkInputs::default() };
        let word_clocks = parameters.word_clocks();
        for clock in 0..RESET_WORDS * word_clocks {
            inputs.rx_clocks = if clock.is_multiple_of(word_clocks) { links } else { 0 };
            model.clock(&inputs, &mut outputs);
        }
        Ok(Self {
            model,
            parameters: *parameters,
            settings: FunctionSettings::default(),
            bars: Default::default(),
            tlps: Tlps::new(parameters.datapath_bytes as usize, parameters.clock_ps),
            reads: BTreeMap::new(),
            cables: (0..parameters.links).map(|_| None).collect(),
            next_clock: 0,
            scheduled: None,
            moved_clock: 0,
            active_clock: 0,
            joined: Arc::default(),
            clocks_run: 0,
            inputs: NetworkInputs::default(),
            outputs,
        })
    }

    /// Joins links of two cards with a cable; each end is `(node, link number)`. The latency is
    /// that from the transceivers' words of one end to those of the other, rounded to words; of
    /// their bits a share of `error_rate` arrives wrong. All cards of a lab are given the same
    /// `joined`.
    ///
    /// Returns false if a node is not such a card or lacks the link.
    pub fn join(
        fabric: &mut Fabric,
        ends: [(NodeId, u8); 2],
        latency: Picoseconds,
        error_rate: f64,
        joined: &Arc<JoinedCards>,
    ) -> bool {
        let seed = fabric.seed();
        let pairs = [(ends[0], ends[1]), (ends[1], ends[0])];
        pairs.into_iter().all(|((node, link), (far, far_link))| {
            let joined = Arc::clone(joined);
            let plugged = fabric.command(node, move |card: &mut Self, _: &mut DevicePort<'_>| {
                let word_ps = card.parameters.word_clocks() * card.parameters.clock_ps;
                let words = ((latency.0 + word_ps / 2) / word_ps).max(1) as usize;
                let bits = card.parameters.word_bits();
                let seed = seed ^ u64::from(node.0) << 40 ^ u64::from(link) << 32;
                let mut end = CableEnd::new(far, far_link, words, bits, seed);
                end.set_error_rate(error_rate);
                card.joined = joined;
                let place = card.cables.get_mut(usize::from(link));
                place.map(|place| *place = Some(end)).is_some()
            });
            plugged == Some(true)
        })
    }

    /// Writes a trace of the circuit to a file from now on, in the format FST.
    ///
    /// # Errors
    /// Returns an error if the models are built without traces or the file cannot be written.
    pub fn trace_to(&mut self, file: &Path) -> Result<(), CosimError> {
        self.model.trace_to(file)
    }

    /// Cuts the cable of a link. What is on its way is lost, and both ends train after it is
    /// mended.
    pub fn cut(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.with_both_ends(link, port, |end| end.set_cut(true));
    }

    /// Mends the cable of a link.
    pub fn mend(&mut self, link: u8, port: &mut DevicePort<'_>) {
        self.with_both_ends(link, port, |end| end.set_cut(false));
    }

    /// Sets the bit error rate of a link's cable in both directions.
    pub fn set_bit_error_rate(&mut self, link: u8, rate: f64, port: &mut DevicePort<'_>) {
        self.with_both_ends(link, port, |end| end.set_error_rate(rate));
    }

    /// Changes both ends of a link's cable, and wakes the cards.
    fn with_both_ends(
        &mut self,
        link: u8,
        port: &mut DevicePort<'_>,
        change: impl Fn(&mut CableEnd),
    ) {
        let Some(Some(end)) = self.cables.get_mut(usize::from(link)) else { return };
        change(end);
        let (far, far_link) = (end.far, end.far_link);
        let far = port.other::<Self>(far);
        if let Some(Some(end)) = far.map(|far| far.cables[usize::from(far_link)].as_mut()) {
            change(end);
        }
        self.attend(port);
    }

    /// Nodes at the other ends of live cables.
    fn neighbours(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.cables.iter().flatten().filter(|cable| cable.is_live).map(|cable| cable.far)
    }

    /// Ensures that a clock is simulated. Returns whether a timer is needed for it.
    fn schedule(&mut self, clock: u64) -> bool {
        let is_set = self.scheduled.is_some_and(|set| set <= clock) || clock < self.next_clock;
        if !is_set {
            self.scheduled = Some(clock);
        }
        !is_set
    }

    /// Ensures that a clock is simulated here and in all cards that are joined by live cables.
    fn wake(&mut self, clock: u64, port: &mut DevicePort<'_>) {
        let time_ps = clock * self.parameters.clock_ps;
        if self.schedule(clock) {
            port.timer(time_ps, EDGE);
        }
        let mut seen = vec![port.node()];
        let mut line: Vec<NodeId> = self.neighbours().collect();
        while let Some(node) = line.pop() {
            if seen.contains(&node) {
                continue;
            }
            seen.push(node);
            let Some(far) = port.other::<Self>(node) else { continue };
            line.extend(far.neighbours());
            if far.schedule(clock) {
                port.timer_of(node, time_ps, EDGE);
            }
        }
    }

    /// Ensures that the next clock is simulated.
    fn attend(&mut self, port: &mut DevicePort<'_>) {
        // An arrival at the time of an edge is sampled at the next one.
        let clock = (port.now_ps() / self.parameters.clock_ps + 1).max(self.next_clock);
        (self.moved_clock, self.active_clock) = (clock, clock);
        self.joined.moved_clock.fetch_max(clock, Ordering::Relaxed);
        self.joined.active_clock.fetch_max(clock, Ordering::Relaxed);
        self.wake(clock, port);
    }

    /// Whether a link is enabled.
    const fn is_enabled(&self, link: u8) -> bool {
        self.outputs.tx_enable >> link & 1 != 0
    }

    /// Simulates clock `number`, whose edge is now. Returns whether a TLP moved.
    fn clock(&mut self, number: u64, port: &mut DevicePort<'_>) -> bool {
        let now_ps = port.now_ps();
        let tlps = Inputs {
            tx_ready: 1,
            room: tlps::room(port),
            function: self.settings.packed(port.routing_id(), true),
            ..Inputs::default()
        };
        self.inputs.tlps = tlps;
        self.inputs.first_session = 1 + port.node().0;
        let bytes = self.tlps.offer(now_ps, &mut self.inputs.tlps);
        self.receive_words();
        self.model.clock(&self.inputs, &mut self.outputs);
        self.clocks_run += 1;
        self.next_clock = number + 1;
        let (inputs, outputs) = (&self.inputs.tlps, &self.outputs.tlps);
        let moves = outputs.tx_valid != 0 || inputs.rx_valid != 0;
        if inputs.rx_valid != 0 && outputs.rx_ready != 0 {
            let header = self.tlps.taken(bytes, inputs.rx_last != 0, port);
            if let Some(header) = header {
                self.note_answer(&header);
            }
        }
        let sent = self.tlps.send_beat(&self.outputs.tlps, now_ps, port);
        if let Some(header) = sent.filter(|header| header.kind == TlpKind::MemoryRead) {
            let read = Read { bytes: header.request_bytes(), sent_clock: number };
            self.reads.insert(header.tag.0, read);
        }
        self.send_words(number, port);
        moves
    }

    /// Puts the next word of each cable at the pins, once for the clocks of a word.
    fn receive_words(&mut self) {
        let begins = self.clocks_run.is_multiple_of(self.parameters.word_clocks());
        self.inputs.rx_clocks = 0;
        for link in 0..self.parameters.links {
            let at = usize::from(link);
            let is_enabled = self.is_enabled(link);
            let Some(cable) = self.cables[at].as_mut().filter(|_| is_enabled && begins) else {
                continue;
            };
            self.inputs.rx_clocks |= 1 << link;
            let word = cable.receive();
            self.inputs.rx_detected[at] = if word.is_some() { u8::MAX } else { 0 };
            self.inputs.rx_words[at] = word.unwrap_or_default();
        }
    }

    /// Hands the words that begin in this clock to their cables.
    fn send_words(&mut self, number: u64, port: &mut DevicePort<'_>) {
        let mut has_begun = false;
        for link in 0..self.parameters.links {
            let at = usize::from(link);
            let is_enabled = self.is_enabled(link);
            let begins = self.outputs.tx_begins_word >> link & 1 != 0;
            let Some(cable) = self.cables[at].as_mut() else { continue };
            let (was_live, far_link) = (cable.is_live, cable.far_link);
            if !was_live && !is_enabled || was_live && is_enabled && !begins {
                continue;
            }
            let Some(far) = port.other::<Self>(cable.far) else { continue };
            let is_live = is_enabled && far.is_enabled(far_link);
            let Some(end) = far.cables[usize::from(far_link)].as_mut() else { continue };
            if is_live != was_live {
                cable.set_live(is_live);
                end.set_live(is_live);
                has_begun |= is_live;
            }
            if is_live && begins {
                end.send(self.outputs.tx_words[at]);
            }
        }
        if has_begun {
            self.joined.active_clock.fetch_max(number, Ordering::Relaxed);
            self.wake(number + 1, port);
        }
    }

    /// Whether a link over which the other end can be heard trains, or has something to send.
    fn has_unsettled(&self) -> bool {
        let is_settled = |link: u8| self.outputs.settled >> link & 1 != 0;
        let is_heard = |end: &Option<CableEnd>| end.as_ref().is_some_and(CableEnd::is_heard);
        (0..).zip(&self.cables).any(|(link, end)| !is_settled(link) && is_heard(end))
    }

    /// Removes a read whose answer is complete.
    fn note_answer(&mut self, header: &Header) {
        if !matches!(header.kind, TlpKind::Completion | TlpKind::CompletionData) {
            return;
        }
        let Some(read) = self.reads.get_mut(&header.tag.0) else { return };
        let skip = header.address.0 as u32 & 3;
        let bytes = header.payload_bytes().saturating_sub(skip);
        read.bytes = read.bytes.saturating_sub(bytes);
        if header.kind == TlpKind::Completion || read.bytes == 0 {
            self.reads.remove(&header.tag.0);
        }
    }

    /// Sets the next timer behind clock `number`, unless the card sleeps.
    fn go_on(&mut self, number: u64, moves: bool, port: &mut DevicePort<'_>) {
        // Those that have timed out do not come back.
        let waits = self.parameters.timeout_clocks + self.parameters.timeout_clocks / 32 + 2048;
        self.reads.retain(|_, read| number - read.sent_clock < waits);
        let is_joined = self.neighbours().next().is_some();
        if moves {
            self.moved_clock = number;
            if is_joined {
                self.joined.moved_clock.fetch_max(number, Ordering::Relaxed);
            }
        }
        let latest = |here: u64, joined: &AtomicU64| {
            if is_joined { here.max(joined.load(Ordering::Relaxed)) } else { here }
        };
        let moved = latest(self.moved_clock, &self.joined.moved_clock);
        let last = latest(self.active_clock, &self.joined.active_clock);
        let is_busy = (self.outputs.tlps.busy != 0 || self.has_unsettled())
            && number.saturating_sub(moved) < BUSY_CLOCKS;
        let is_active = moves || is_busy || self.tlps.is_busy() || !self.reads.is_empty();
        if is_active {
            self.active_clock = number;
            if is_joined {
                self.joined.active_clock.fetch_max(number, Ordering::Relaxed);
            }
            if number.saturating_sub(last) >= QUIET_CLOCKS {
                // The others may have gone to sleep in this clock.
                self.wake(number + 1, port);
                return;
            }
        }
        let most = if self.outputs.tx_enable != 0 { QUIET_CLOCKS } else { LINGER_CLOCKS };
        if (is_active || number.saturating_sub(last) < most) && self.schedule(number + 1) {
            port.timer((number + 1) * self.parameters.clock_ps, EDGE);
        }
    }
}

impl Drop for NetworkCard {
    fn drop(&mut self) {
        count_clocks(self.clocks_run);
    }
}

impl Device for NetworkCard {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let consumed = self.tlps.receive(tlp, (0..).zip(&self.bars), port);
        if consumed == Consumed::Held {
            self.attend(port);
        }
        consumed
    }

    fn intake(&self) -> Option<Intake> {
        let beat_bytes = self.tlps.beat_bytes() as u32;
        Some(Intake { beat_bytes, clock_ps: self.parameters.clock_ps })
    }

    fn transmit_ready(&mut self, port: &mut DevicePort<'_>) {
        self.attend(port);
    }

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        let number = port.now_ps() / self.parameters.clock_ps;
        // Another timer may have run this clock, or this timer may be obsolete.
        if self.scheduled != Some(number) || number < self.next_clock {
            return;
        }
        self.scheduled = None;
        let moves = self.clock(number, port);
        self.go_on(number, moves, port);
    }

    fn configured(&mut self, config: &ConfigSpace) {
        let is_enabled = config.memory_enabled();
        self.bars = std::array::from_fn(|number| config.bar(number).filter(|_| is_enabled));
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
        lines
    }
}
