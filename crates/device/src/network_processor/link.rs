// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link of a network processor: its end of the protocol (`crosslane-torus-link`), the outgoing
//! direction of the cable, and the frames that arrive.

use std::collections::VecDeque;

use crosslane_fabric::DevicePort;
use crosslane_random::Random;
use crosslane_regs::network_processor::{LinkMode, LinkState, torus_link as map};
use crosslane_torus_link::end::LinkEnd;
use crosslane_torus_link::frame::{Damaged, Datagram, Frame, Kind};
use crosslane_torus_link::lanes::{self, MAX_LANES};
use crosslane_torus_link::pattern::{self, Checker, Generator};
use crosslane_torus_link::{block, wire};

use super::border::{CableMessage, Far, Signal, Wish};
use super::parameters::{CableParameters, LineCode};
use super::{LINK_TIMER, NetworkProcessor};
use crate::kit::Timer;

/// Line bits of a symbol (8b/10b), and of a block's sync header.
const SYMBOL_BITS: u64 = 10;
const SYNC_BITS: usize = 2;
/// Columns between skip sets, and columns of a skip set.
pub(super) const SKIP_INTERVAL_COLUMNS: u64 = lanes::SKIP_INTERVAL_COLUMNS as u64;
pub(super) const SKIP_COLUMNS: u64 = lanes::SKIP_COLUMNS as u64;

/// One end of a cable and its state.
pub(super) struct Cable {
    pub parameters: CableParameters,
    /// The other end.
    pub far: Far,
    pub end: LinkEnd,
    wire: Wire,
    /// Signals on their way here, with their arrival times, in the order of both.
    inbound: VecDeque<(u64, Signal)>,
    /// Frames that a loopback has sent to itself, with their arrival times.
    looped: VecDeque<(u64, Result<Frame, Damaged>)>,
    /// Time since which this end is ready to train.
    wish_ps: Option<u64>,
    /// Wish of the other end, as known here.
    far_wish: Option<Wish>,
    /// End of the training in progress, and whether the sessions of both ends match.
    trained: Option<(u64, bool)>,
    /// Whether the cable is cut.
    is_cut: bool,
    /// Number of the end's session. It changes whenever the end is reset.
    session: u32,
    /// Session of the other end that this one was last joined to.
    far_session: Option<u32>,
    /// Errors that have come on each lane.
    pub lane_errors: [u32; MAX_LANES],
}

/// One direction of a cable.
struct Wire {
    free_ps: u64,
    /// Columns since the last skip set, or blocks since the last skip row.
    columns: u64,
    /// Wrong bits behind the last frame, by their block: what descramblers make of wrong line bits.
    spill: block::Spill,
    /// Line bits until the next wrong one, once drawn.
    clean_bits: Option<u64>,
    /// Stream of the wrong bits, for this direction alone.
    random: Random,
}

pub(super) struct Link {
    pub cable: Option<Cable>,
    pub is_enabled: bool,
    pub mode: LinkMode,
    pub generator: Option<Generator>,
    pub checker: Option<Checker>,
    /// Datagrams that the checker found right and wrong.
    pub checked: [u32; 2],
    /// Channels that may have something to send, one bit each.
    pub sendable: u8,
    /// Datagrams taken by the modes `sink` and `loopback`.
    pub sunk: u32,
    pub trainings: u32,
    pub timer: Timer,
}

impl Cable {
    /// Creates an end that is down; `seed` is that of its wrong bits.
    pub fn new(parameters: CableParameters, far: Far, seed: u64) -> Self {
        let random = Random::with_seed(seed);
        Self {
            end: LinkEnd::new(parameters.end),
            parameters,
            far,
            wire: Wire { free_ps: 0, columns: 0, spill: Vec::new(), clean_bits: None, random },
            inbound: VecDeque::new(),
            looped: VecDeque::new(),
            wish_ps: None,
            far_wish: None,
            trained: None,
            is_cut: false,
            session: 1,
            far_session: None,
            lane_errors: [0; MAX_LANES],
        }
    }

    /// Sets the bit error rate from now on.
    pub fn set_bit_error_rate(&mut self, rate: f64) {
        self.parameters.bit_error_rate = rate;
        self.wire.clean_bits = None;
    }

    fn down(&mut self) {
        self.end.down();
        self.looped.clear();
        (self.wish_ps, self.trained) = (None, None);
        self.wire.free_ps = 0;
    }

    /// Cuts or mends the cable at this end. All that is on its way is lost.
    fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
        if is_cut {
            self.down();
            self.inbound.clear();
            self.far_wish = None;
        }
    }

    /// Sends a signal to the other end.
    fn send(&self, arrives_ps: u64, signal: Signal, port: &mut DevicePort<'_>) {
        match &self.far {
            _ if self.is_cut => {}
            Far::Here(node, link) => {
                let far = port.other::<NetworkProcessor>(*node).and_then(|far| far.cable(*link));
                if let Some(far) = far {
                    far.take(arrives_ps, signal);
                    port.cable(*node, arrives_ps, LINK_TIMER + u32::from(*link));
                }
            }
            Far::Away(to, outbox) => outbox.send(CableMessage { to: *to, arrives_ps, signal }),
        }
    }

    /// Takes a signal that will arrive.
    pub fn take(&mut self, arrives_ps: u64, signal: Signal) {
        if self.is_cut {
            return;
        }
        if let Signal::Training(_) = signal {
            // The other end has gone down: it did not finish the frames that would come later.
            while self.inbound.back().is_some_and(|(at_ps, _)| *at_ps > arrives_ps) {
                self.inbound.pop_back();
            }
        }
        self.inbound.push_back((arrives_ps, signal));
    }

    /// Tells the other end that this one is down, and whether it is ready to train.
    fn announce(&self, port: &mut DevicePort<'_>) {
        let (session, far_session) = (self.session, self.far_session);
        let wish = self.wish_ps.map(|since_ps| Wish { since_ps, session, far_session });
        self.send(port.now_ps() + self.parameters.latency.0, Signal::Training(wish), port);
    }

    /// Notes that the other end is down, and whether it is ready to train.
    fn hear(&mut self, wish: Option<Wish>, mode: LinkMode) {
        if self.end.is_up() && mode != LinkMode::Loopback {
            self.down();
        }
        (self.far_wish, self.trained) = (wish, None);
    }

    /// Decides how the training goes, once both ends are ready for it. Both come to the same.
    fn pair(&mut self) {
        self.trained = None;
        let (Some(since_ps), Some(far)) = (self.wish_ps, self.far_wish) else { return };
        let trained_ps = since_ps.max(far.since_ps) + self.parameters.training_ps();
        let is_other = |known: Option<u32>, session| known.is_some_and(|known| known != session);
        let is_behind = is_other(self.far_session, far.session);
        // An end that remembers an earlier session fails; the other one keeps trying.
        if is_behind || !is_other(far.far_session, self.session) {
            self.trained = Some((trained_ps, !is_behind));
        }
    }

    /// Ends a training in which both sessions match.
    fn up(&mut self, now_ps: u64) {
        self.far_session = self.far_wish.take().map(|far| far.session);
        (self.wish_ps, self.trained) = (None, None);
        self.end.up(self.parameters.end.channel_datagrams, now_ps);
    }
}

impl Link {
    pub fn new(number: u8) -> Self {
        Self {
            cable: None,
            is_enabled: false,
            mode: LinkMode::Normal,
            generator: None,
            checker: None,
            checked: [0; 2],
            sendable: 0,
            sunk: 0,
            trainings: 0,
            timer: Timer::new(LINK_TIMER + u32::from(number)),
        }
    }

    /// Whether it accepts datagrams, now or once it is up.
    pub fn takes_datagrams(&self) -> bool {
        match self.mode {
            LinkMode::Sink => true,
            LinkMode::Loopback => self.cable.is_some(),
            LinkMode::Normal => self.is_enabled && self.cable.is_some(),
        }
    }

    /// Whether it trains or can train by itself.
    fn wants_training(&self) -> bool {
        let is_there = self.cable.as_ref().is_some_and(|cable| !cable.is_cut);
        self.is_enabled && is_there && self.mode == LinkMode::Normal
    }

    pub fn state(&self) -> LinkState {
        let Some(cable) = self.cable.as_ref() else { return LinkState::Absent };
        match () {
            () if cable.end.is_up() => LinkState::Up,
            () if self.is_enabled => LinkState::Training,
            () => LinkState::Absent,
        }
    }
}

impl NetworkProcessor {
    // --- Up and down ---------------------------------------------------------------------------

    /// Writes the link's control register.
    pub(super) fn control_link(&mut self, number: u8, word: u32, port: &mut DevicePort<'_>) {
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        let is_on = |field: crosslane_regs::Field| field.get(word) != 0;
        let mode = LinkMode::from_bits(map::control::MODE.get(word)).unwrap_or(LinkMode::Normal);
        let is_enabled = is_on(map::control::ENABLE);
        let is_ended = link.is_enabled && !is_enabled || link.mode != mode;
        (link.is_enabled, link.mode) = (is_enabled, mode);
        if !is_on(map::control::GENERATE) {
            link.generator = None;
        } else if link.generator.is_none() {
            let bytes = self.parameters.payload_bytes() as usize;
            link.generator = Some(Generator::new(0).with_payload_bytes(bytes));
        }
        if !is_on(map::control::CHECK) {
            link.checker = None;
        } else if link.checker.is_none() {
            link.checker = Some(Checker::new());
        }
        if is_ended {
            self.forget_link(number, port);
        } else if is_on(map::control::RETRAIN) {
            self.take_link_down(number, port);
        }
        let is_up = self.cable(number).is_some_and(|cable| cable.end.is_up());
        if !is_up {
            self.train(number, port);
        }
        if let Some(link) = self.links.get_mut(usize::from(number)) {
            link.sendable = u8::MAX;
        }
        self.work_on(number);
    }

    /// Takes the lanes down at this end; the other one learns it.
    pub(super) fn take_link_down(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(number) else { return };
        let is_news = cable.end.is_up() || cable.wish_ps.is_some();
        cable.down();
        if is_news {
            cable.announce(port);
        }
    }

    /// Begins to train a link if it is ready for it, and goes on if both ends are.
    pub(super) fn train(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        if link.mode == LinkMode::Loopback {
            // A loopback receives its own data and needs no training.
            if let Some(cable) = link.cable.as_mut().filter(|cable| !cable.end.is_up()) {
                cable.end.up(cable.parameters.end.channel_datagrams, port.now_ps());
                link.trainings = link.trainings.wrapping_add(1);
            }
            self.work_on(number);
            return;
        }
        if !link.wants_training() {
            return;
        }
        let Some(cable) = link.cable.as_mut().filter(|cable| !cable.end.is_up()) else { return };
        if cable.wish_ps.is_none() {
            cable.wish_ps = Some(port.now_ps());
            cable.announce(port);
        }
        cable.pair();
        if let Some((trained_ps, _)) = cable.trained {
            link.timer.reset();
            link.timer.at(trained_ps, port);
        }
    }

    /// Resets the end and starts a new session.
    pub(super) fn reset_link(&mut self, number: u8, port: &mut DevicePort<'_>) {
        self.take_link_down(number, port);
        if let Some(cable) = self.cable(number) {
            cable.end.reset();
            cable.session = cable.session.wrapping_add(1);
            cable.far_session = None;
        }
    }

    /// Restores the state after power-on.
    pub(super) fn switch_link_off(&mut self, number: u8, port: &mut DevicePort<'_>) {
        self.reset_link(number, port);
        if let Some(link) = self.links.get_mut(usize::from(number)) {
            (link.is_enabled, link.mode) = (false, LinkMode::Normal);
            (link.generator, link.checker) = (None, None);
            (link.sunk, link.trainings, link.checked) = (0, 0, [0; 2]);
            if let Some(cable) = link.cable.as_mut() {
                cable.end = LinkEnd::new(cable.parameters.end);
                cable.lane_errors = [0; MAX_LANES];
            }
        }
    }

    pub(super) fn cable(&mut self, number: u8) -> Option<&mut Cable> {
        self.links.get_mut(usize::from(number))?.cable.as_mut()
    }

    /// Cuts or mends the cable of a link at both ends.
    pub(super) fn set_cut(&mut self, number: u8, is_cut: bool, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(number) else { return };
        cable.set_cut(is_cut);
        if let Far::Here(node, far_number) = cable.far {
            if let Some(far) = port.other::<Self>(node).and_then(|far| far.cable(far_number)) {
                far.set_cut(is_cut);
            }
            // The other end trains.
            port.cable(node, port.now_ps(), LINK_TIMER + u32::from(far_number));
        }
        if !is_cut {
            self.train(number, port);
        }
    }

    // --- What comes ----------------------------------------------------------------------------

    /// Takes all that has arrived, and trains if the link is down.
    pub(super) fn take_frames(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let ready_ps = now_ps + self.parameters.receive_latency.0;
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        let Some(cable) = link.cable.as_mut() else { return };
        let (mut delivered, mut is_heard) = (Vec::new(), false);
        while cable.inbound.front().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            match cable.inbound.pop_front() {
                Some((_, Signal::Frame(frame))) => {
                    delivered.extend(cable.end.receive(frame, now_ps));
                }
                Some((_, Signal::LaneErrors(errors))) if cable.end.is_up() => {
                    for (sum, more) in cable.lane_errors.iter_mut().zip(errors) {
                        *sum = sum.wrapping_add(more.into());
                    }
                }
                Some((_, Signal::LaneErrors(_))) => {}
                Some((_, Signal::Training(wish))) => {
                    cable.hear(wish, link.mode);
                    is_heard = true;
                }
                None => break,
            }
        }
        while cable.looped.front().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            let Some((_, frame)) = cable.looped.pop_front() else { break };
            delivered.extend(cable.end.receive(frame, now_ps));
        }
        match cable.trained.filter(|(trained_ps, _)| *trained_ps <= now_ps) {
            Some((_, true)) => {
                cable.up(now_ps);
                link.trainings = link.trainings.wrapping_add(1);
            }
            // The other end was reset: this one begins anew as well.
            Some((_, false)) => {
                self.forget_link(number, port);
                self.train(number, port);
            }
            // The other end has spoken, or the cable was mended.
            None if !cable.end.is_up() && (is_heard || cable.wish_ps.is_none()) => {
                self.train(number, port);
            }
            None => {}
        }
        for datagram in delivered {
            self.arrive(number, datagram, ready_ps, port);
        }
    }

    fn arrive(&mut self, number: u8, datagram: Datagram, ready_ps: u64, port: &mut DevicePort<'_>) {
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        if let (Some(checker), Some(cable)) = (link.checker.as_mut(), link.cable.as_mut())
            && datagram.header.channel == pattern::CHANNEL
        {
            let count = &mut link.checked[usize::from(!checker.check(&datagram))];
            *count = count.wrapping_add(1);
            cable.end.free(pattern::CHANNEL);
            return;
        }
        self.arrived.push_back((ready_ps, number, datagram));
        self.timer.at(ready_ps, port);
    }

    // --- What goes -----------------------------------------------------------------------------

    /// Sends what can be sent now, and schedules the next look.
    pub(super) fn send_frames(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        let Some(cable) = link.cable.as_mut() else { return };
        if !cable.end.is_up() {
            return;
        }
        while cable.wire.free_ps <= now_ps {
            if let Some(generator) = link.generator.as_mut()
                && cable.end.room(pattern::CHANNEL) > 0
            {
                let (index, payload) = generator.datagram();
                cable.end.submit(pattern::CHANNEL, Kind::Middle, 0, index, payload);
            }
            let Some(frame) = cable.end.next_frame(now_ps) else { break };
            let (arrives_ps, frame, errors) = cable.wire.send(now_ps, frame, &cable.parameters);
            if link.mode == LinkMode::Loopback {
                cable.looped.push_back((arrives_ps, frame));
                port.timer(arrives_ps, LINK_TIMER + u32::from(number));
            } else {
                if let Some(errors) = errors {
                    cable.send(arrives_ps, Signal::LaneErrors(errors), port);
                }
                cable.send(arrives_ps, Signal::Frame(frame), port);
            }
        }
        if cable.end.timeouts_in_a_row() >= lanes::TIMEOUTS {
            // The lanes no longer carry data and must train again.
            self.take_link_down(number, port);
            self.train(number, port);
            return;
        }
        let wakes_ps = match cable.wire.free_ps > now_ps {
            // More may be ready once the line is free.
            true => Some(cable.wire.free_ps),
            false => cable.end.wakes_at_ps(),
        };
        if let Some(wakes_ps) = wakes_ps {
            link.timer.at(wakes_ps.max(now_ps + 1), port);
        }
    }
}

impl Wire {
    /// Takes the line for a frame. Returns its line bits, and how many blocks of others have gone
    /// by since the last frame.
    fn occupy(&mut self, now_ps: u64, frame: &Frame, parameters: &CableParameters) -> (u64, u64) {
        let free_ps = self.free_ps;
        assert!(free_ps <= now_ps, "a frame at {now_ps} ps, and the wire is free at {free_ps} ps");
        let symbols = frame.symbols() as u64;
        let lanes = u64::from(parameters.lanes);
        match parameters.line_code {
            LineCode::Symbols => {
                let columns = symbols / lanes;
                let mut busy_columns = columns;
                self.columns += columns;
                if self.columns >= SKIP_INTERVAL_COLUMNS {
                    self.columns = 0;
                    busy_columns += SKIP_COLUMNS;
                }
                self.free_ps = now_ps + busy_columns * parameters.symbol_ps();
                (symbols * SYMBOL_BITS, 0)
            }
            LineCode::Blocks => {
                let block_ps = parameters.block_ps();
                let mut skip = 0;
                // A skip row begins in lane 0: the row before it is filled with idle blocks.
                if self.columns >= u64::from(block::SKIP_INTERVAL_ROWS) * lanes {
                    skip = self.columns.next_multiple_of(lanes) - self.columns + lanes;
                    self.columns = 0;
                }
                let blocks = block::blocks_of(frame) as u64;
                self.columns += blocks;
                self.free_ps = now_ps + (skip + blocks) * block_ps;
                (blocks * block::BLOCK_BITS as u64, (now_ps - free_ps) / block_ps + skip)
            }
        }
    }

    /// Sends a frame. Returns its arrival time at the other end, the frame as it arrives, and if
    /// there are any, the errors of each lane.
    fn send(
        &mut self,
        now_ps: u64,
        frame: Frame,
        parameters: &CableParameters,
    ) -> (u64, Result<Frame, Damaged>, Option<[u16; MAX_LANES]>) {
        let (bits, between) = self.occupy(now_ps, &frame, parameters);
        let arrives_ps = self.free_ps + parameters.latency.0;
        if parameters.bit_error_rate <= 0.0 {
            return (arrives_ps, Ok(frame), None);
        }
        let mut next_error = || self.random.geometric(parameters.bit_error_rate);
        let mut flips = Vec::new();
        let mut clean_bits = self.clean_bits.unwrap_or_else(&mut next_error);
        while clean_bits < bits {
            flips.push(clean_bits as usize);
            clean_bits = (clean_bits + 1).saturating_add(next_error());
        }
        self.clean_bits = Some(clean_bits - bits);
        let spill = std::mem::take(&mut self.spill);
        if flips.is_empty() && spill.is_empty() {
            return (arrives_ps, Ok(frame), None);
        }
        let errors = lane_errors(&flips, now_ps, parameters);
        let frame = match parameters.line_code {
            LineCode::Symbols => wire::transfer(&frame, flips),
            LineCode::Blocks => {
                let left =
                    |(at, bits): (usize, u64)| Some((at.checked_sub(between as usize)?, bits));
                let spill: block::Spill = spill.into_iter().filter_map(left).collect();
                let (frame, behind) =
                    block::transfer(&frame, parameters.lanes.into(), flips, &spill);
                self.spill = behind;
                frame
            }
        };
        (arrives_ps, frame, errors)
    }
}

/// Returns the symbols that the line bits `flips` of a frame begun at `now_ps` make wrong on each
/// lane; of blocks the wrong sync headers. `None` if there are none.
fn lane_errors(
    flips: &[usize],
    now_ps: u64,
    parameters: &CableParameters,
) -> Option<[u16; MAX_LANES]> {
    // A frame of symbols begins in lane 0, one of blocks in the lane whose turn it is.
    let (unit_bits, bits, first) = match parameters.line_code {
        LineCode::Symbols => (SYMBOL_BITS as usize, SYMBOL_BITS as usize, 0),
        LineCode::Blocks => (block::BLOCK_BITS, SYNC_BITS, now_ps / parameters.block_ps()),
    };
    let mut errors = [0; MAX_LANES];
    let wrong = flips.iter().filter(|flip| *flip % unit_bits < bits).map(|flip| flip / unit_bits);
    let mut last = None;
    for unit in wrong {
        if last.replace(unit) != Some(unit) {
            errors[(first as usize + unit) % usize::from(parameters.lanes)] += 1;
        }
    }
    last.map(|_| errors)
}
