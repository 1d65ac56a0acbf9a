// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link of a network processor: its end of the protocol (`crosslane-torus-link`), the outgoing
//! direction of the cable, and the frames that arrive.

use std::collections::VecDeque;

use crosslane_fabric::{DevicePort, NodeId};
use crosslane_regs::network_processor::{LinkMode, LinkState, torus_link as map};
use crosslane_torus_link::end::LinkEnd;
use crosslane_torus_link::frame::{Damaged, Datagram, Frame, Kind};
use crosslane_torus_link::lanes;
use crosslane_torus_link::pattern::{self, Checker, Generator};
use crosslane_torus_link::wire;

use super::parameters::CableParameters;
use super::{LINK_TIMER, NetworkProcessor};
use crate::kit::Timer;

/// Line bits of a symbol (8b/10b).
const SYMBOL_BITS: u64 = 10;
/// Columns between skip sets, and columns of a skip set.
pub(super) const SKIP_INTERVAL_COLUMNS: u64 = lanes::SKIP_INTERVAL_COLUMNS as u64;
pub(super) const SKIP_COLUMNS: u64 = lanes::SKIP_COLUMNS as u64;

/// One end of a cable and its state.
pub(super) struct Cable {
    pub parameters: CableParameters,
    /// Network processor and link number at the other end.
    pub far: (NodeId, u8),
    pub end: LinkEnd,
    wire: Wire,
    /// Frames on their way here, with their arrival times.
    inbound: VecDeque<(u64, Result<Frame, Damaged>)>,
    /// End of the training in progress, and whether the sessions of both ends match.
    trained: Option<(u64, bool)>,
    /// Whether the cable is cut.
    is_cut: bool,
    /// Number of the end's session. It changes whenever the end is reset.
    session: u32,
    /// Session of the other end that this one was last joined to.
    far_session: Option<u32>,
}

/// One direction of a cable.
struct Wire {
    free_ps: u64,
    /// Columns since the last skip set.
    columns: u64,
    /// Line bits until the next wrong one, once drawn.
    clean_bits: Option<u64>,
}

pub(super) struct Link {
    pub cable: Option<Cable>,
    pub is_enabled: bool,
    /// Whether training has found an end of another session.
    is_failed: bool,
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
    pub fn new(parameters: CableParameters, far: (NodeId, u8)) -> Self {
        Self {
            end: LinkEnd::new(parameters.end),
            parameters,
            far,
            wire: Wire { free_ps: 0, columns: 0, clean_bits: None },
            inbound: VecDeque::new(),
            trained: None,
            is_cut: false,
            session: 1,
            far_session: None,
        }
    }

    /// Sets the bit error rate from now on.
    pub fn set_bit_error_rate(&mut self, rate: f64) {
        self.parameters.bit_error_rate = rate;
        self.wire.clean_bits = None;
    }

    fn down(&mut self) {
        self.end.down();
        self.inbound.clear();
        self.trained = None;
        self.wire.free_ps = 0;
    }

    /// Whether this end remembers an earlier session of the other one.
    fn is_behind(&self, far: &Self) -> bool {
        self.far_session.is_some_and(|session| session != far.session)
    }
}

impl Link {
    pub fn new(number: u8) -> Self {
        Self {
            cable: None,
            is_enabled: false,
            is_failed: false,
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
            LinkMode::Normal => self.is_enabled && !self.is_failed && self.cable.is_some(),
        }
    }

    /// Whether it trains or can train by itself.
    fn wants_training(&self) -> bool {
        let is_there = self.cable.as_ref().is_some_and(|cable| !cable.is_cut);
        self.is_enabled && !self.is_failed && is_there && self.mode == LinkMode::Normal
    }

    pub fn state(&self) -> LinkState {
        let Some(cable) = self.cable.as_ref() else { return LinkState::Absent };
        match () {
            () if cable.end.is_up() => LinkState::Up,
            () if self.is_failed => LinkState::Failed,
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
            link.generator = Some(Generator::new(0));
        }
        if !is_on(map::control::CHECK) {
            link.checker = None;
        } else if link.checker.is_none() {
            link.checker = Some(Checker::new());
        }
        if is_ended {
            self.forget_link(number, port);
            if let Some(link) = self.links.get_mut(usize::from(number)) {
                link.is_failed = false;
            }
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

    /// Takes the lanes down at both ends.
    pub(super) fn take_link_down(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(number) else { return };
        cable.down();
        let (node, far_number) = cable.far;
        if let Some(far) = port.other::<Self>(node).and_then(|far| far.cable(far_number)) {
            far.down();
        }
    }

    /// Begins to train a link if both ends are ready for it.
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
        let Some(cable) = link.cable.as_mut() else { return };
        let trained_ps = port.now_ps() + cable.parameters.bring_up.0;
        let (node, far_number) = cable.far;
        let Some(far) = port.other::<Self>(node) else { return };
        let Some(far_link) = far.links.get_mut(usize::from(far_number)) else { return };
        if !far_link.wants_training() {
            return;
        }
        let Some(far_cable) = far_link.cable.as_mut() else { return };
        let (is_behind, far_is_behind) = (cable.is_behind(far_cable), far_cable.is_behind(cable));
        // An end that remembers an earlier session fails; the other one keeps trying.
        cable.trained = (is_behind || !far_is_behind).then_some((trained_ps, !is_behind));
        far_cable.trained = (far_is_behind || !is_behind).then_some((trained_ps, !far_is_behind));
        if !is_behind && !far_is_behind {
            cable.far_session = Some(far_cable.session);
            far_cable.far_session = Some(cable.session);
        }
        link.timer.reset();
        link.timer.at(trained_ps, port);
        port.timer_of(node, trained_ps, LINK_TIMER + u32::from(far_number));
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
            (link.is_enabled, link.is_failed, link.mode) = (false, false, LinkMode::Normal);
            (link.generator, link.checker) = (None, None);
            (link.sunk, link.trainings, link.checked) = (0, 0, [0; 2]);
        }
    }

    pub(super) fn cable(&mut self, number: u8) -> Option<&mut Cable> {
        self.links.get_mut(usize::from(number))?.cable.as_mut()
    }

    /// Cuts or mends the cable of a link at both ends.
    pub(super) fn set_cut(&mut self, number: u8, is_cut: bool, port: &mut DevicePort<'_>) {
        let Some(cable) = self.cable(number) else { return };
        cable.is_cut = is_cut;
        let (node, far_number) = cable.far;
        if let Some(far) = port.other::<Self>(node).and_then(|far| far.cable(far_number)) {
            far.is_cut = is_cut;
        }
        match is_cut {
            true => self.take_link_down(number, port),
            false => self.train(number, port),
        }
    }

    // --- What comes ----------------------------------------------------------------------------

    /// Takes all frames that have arrived.
    pub(super) fn take_frames(&mut self, number: u8, port: &mut DevicePort<'_>) {
        let now_ps = port.now_ps();
        let ready_ps = now_ps + self.parameters.receive_latency.0;
        let Some(link) = self.links.get_mut(usize::from(number)) else { return };
        let Some(cable) = link.cable.as_mut() else { return };
        match cable.trained.filter(|(trained_ps, _)| *trained_ps <= now_ps) {
            Some((_, true)) => {
                cable.trained = None;
                cable.end.up(cable.parameters.end.channel_datagrams, now_ps);
                link.trainings = link.trainings.wrapping_add(1);
            }
            Some((_, false)) => {
                link.is_failed = true;
                self.forget_link(number, port);
                return;
            }
            None => {}
        }
        let mut delivered = Vec::new();
        while cable.inbound.front().is_some_and(|(at_ps, _)| *at_ps <= now_ps) {
            let Some((_, frame)) = cable.inbound.pop_front() else { break };
            delivered.extend(cable.end.receive(frame, now_ps));
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
            let rate = cable.parameters.bit_error_rate;
            let (arrives_ps, frame) = cable.wire.send(now_ps, frame, &cable.parameters, || {
                // Distance to the next of events with equal probability at every bit.
                let uniform = port.random().f64();
                ((1.0 - uniform).ln() / (-rate).ln_1p()) as u64
            });
            let (node, far_number) = cable.far;
            let far_cable = match link.mode {
                LinkMode::Loopback => {
                    cable.inbound.push_back((arrives_ps, frame));
                    port.timer(arrives_ps, LINK_TIMER + u32::from(number));
                    continue;
                }
                _ => port.other::<Self>(node).and_then(|far| far.cable(far_number)),
            };
            if let Some(far_cable) = far_cable {
                far_cable.inbound.push_back((arrives_ps, frame));
                port.timer_of(node, arrives_ps, LINK_TIMER + u32::from(far_number));
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
    /// Sends a frame. Returns its arrival time at the other end, and the frame as it arrives.
    /// `next_error` draws the number of bits until the next wrong one.
    fn send(
        &mut self,
        now_ps: u64,
        frame: Frame,
        parameters: &CableParameters,
        mut next_error: impl FnMut() -> u64,
    ) -> (u64, Result<Frame, Damaged>) {
        let symbols = frame.symbols() as u64;
        let columns = symbols / u64::from(parameters.lanes);
        let mut busy_columns = columns;
        self.columns += columns;
        if self.columns >= SKIP_INTERVAL_COLUMNS {
            self.columns = 0;
            busy_columns += SKIP_COLUMNS;
        }
        let free_ps = self.free_ps;
        assert!(free_ps <= now_ps, "a frame at {now_ps} ps, and the wire is free at {free_ps} ps");
        self.free_ps = now_ps + busy_columns * parameters.symbol_ps();
        let arrives_ps = self.free_ps + parameters.latency.0;
        if parameters.bit_error_rate <= 0.0 {
            return (arrives_ps, Ok(frame));
        }
        let bits = symbols * SYMBOL_BITS;
        let mut flips = Vec::new();
        let mut clean_bits = self.clean_bits.unwrap_or_else(&mut next_error);
        while clean_bits < bits {
            flips.push(clean_bits as usize);
            clean_bits = (clean_bits + 1).saturating_add(next_error());
        }
        self.clean_bits = Some(clean_bits - bits);
        let frame = if flips.is_empty() { Ok(frame) } else { wire::transfer(&frame, flips) };
        (arrives_ps, frame)
    }
}
