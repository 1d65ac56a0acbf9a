// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crossbar of a switch with limits: TLPs pass it one behind the other, ports in turn, each
//! port's in the order of their arrival. Until one has left by its egress port, it stays in the
//! receive buffer of its ingress port, whose credits hold up the sender.
//!
//! A switch without limits has no crossbar here: its TLPs go on when they arrive.

use std::collections::VecDeque;

use crosslane_pcie::link::TICKS_PER_PS;

use crate::completer::Pace;
use crate::events::EventKind;
use crate::fabric::{Fabric, NodeState};
use crate::packet::PacketIndex;
use crate::parameters::CrossbarParameters;
use crate::topology::Behaviour;
use crate::wire::WireTime;

/// A TLP before the crossbar.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: PacketIndex,
    /// Direction that it leaves by.
    out: u32,
}

/// TLPs of one ingress port.
#[derive(Clone, Debug, Default)]
struct Ingress {
    waiting: VecDeque<Waiting>,
    /// Time from which the next one may go.
    free_ps: u64,
}

/// The crossbar of one switch.
#[derive(Clone, Debug)]
pub(crate) struct Crossbar {
    parameters: CrossbarParameters,
    pace: Pace,
    /// By the place of the port.
    ports: Vec<Ingress>,
    /// Time from which the next TLP may go.
    free: WireTime,
    /// Port behind the one served last.
    turn: usize,
    /// Time of the scheduled event; `u64::MAX` if none is scheduled.
    event_ps: u64,
}

impl Crossbar {
    fn new(parameters: CrossbarParameters) -> Self {
        Self {
            parameters,
            pace: Pace::new(parameters.bytes_per_second),
            ports: Vec::new(),
            free: WireTime::default(),
            turn: 0,
            event_ps: u64::MAX,
        }
    }

    /// The crossbars of a fabric's switches, by node; none at all if no switch has one.
    pub fn all(behaviours: &[Behaviour]) -> Vec<Option<Box<Self>>> {
        let of = |behaviour: &Behaviour| match behaviour {
            Behaviour::Switch(switch) => switch.crossbar.map(|of| Box::new(Self::new(of))),
            _ => None,
        };
        let all: Vec<Option<Box<Self>>> = behaviours.iter().map(of).collect();
        if all.iter().any(Option::is_some) { all } else { Vec::new() }
    }

    fn put(&mut self, place: u32, waiting: Waiting) {
        let place = place as usize;
        if place >= self.ports.len() {
            self.ports.resize(place + 1, Ingress::default());
        }
        self.ports[place].waiting.push_back(waiting);
    }

    /// The next port in turn with a TLP that may go now.
    fn next_port(&self, now_ps: u64) -> Option<usize> {
        let count = self.ports.len();
        let in_turn = (0..count).map(|ahead| (self.turn + ahead) % count);
        let may_go = |port: &Ingress| !port.waiting.is_empty() && port.free_ps <= now_ps;
        in_turn.into_iter().find(|at| may_go(&self.ports[*at]))
    }

    /// Passes on what may go now, and schedules the next.
    fn step(&mut self, fabric: &mut Fabric, node: u32, latency_ps: u64) {
        let now_ps = fabric.events.now_ps();
        if self.event_ps <= now_ps {
            self.event_ps = u64::MAX;
        }
        while self.free.ceil_ps() <= now_ps
            && let Some(at) = self.next_port(now_ps)
            && let Some(Waiting { index, out }) = self.ports[at].waiting.pop_front()
        {
            let header = &fabric.packets.get(index).header;
            let bytes = header.header_dw() * 4 + header.payload_bytes();
            let begun = self.free.resumed_at(now_ps);
            let through = begun.plus_ticks(self.pace.ticks(bytes.into()));
            let interval = self.parameters.tlp_interval.0 * TICKS_PER_PS;
            self.free = through.max(begun.plus_ticks(interval));
            self.ports[at].free_ps = now_ps + self.parameters.port_tlp_interval.0;
            self.turn = at + 1;
            fabric.forward(out, at as u32, index, (latency_ps, through.ceil_ps()));
        }
        let waiting = self.ports.iter().filter(|port| !port.waiting.is_empty());
        if let Some(free_ps) = waiting.map(|port| port.free_ps).min() {
            let next_ps = free_ps.max(self.free.ceil_ps());
            if next_ps < self.event_ps {
                self.event_ps = next_ps;
                fabric.events.schedule(next_ps, EventKind::Crossbar, node, 0);
            }
        }
    }
}

impl Fabric {
    /// Lets a TLP of the port at `place` wait for the crossbar of its switch, which passes it on to
    /// direction `out`. Returns false if the switch has none.
    #[cold]
    pub(crate) fn enter_crossbar(
        &mut self,
        node: u32,
        place: u32,
        out: u32,
        index: PacketIndex,
    ) -> bool {
        let crossbar = self.crossbars.get_mut(node as usize).and_then(Option::as_mut);
        let Some(crossbar) = crossbar else { return false };
        crossbar.put(place, Waiting { index, out });
        self.crossbar_step(node);
        true
    }

    /// Goes on with the crossbar of a switch.
    pub(crate) fn crossbar_step(&mut self, node: u32) {
        let NodeState::Switch { parameters, .. } = &self.node_states[node as usize] else { return };
        let latency_ps = parameters.latency.0;
        let Some(mut crossbar) = self.crossbars[node as usize].take() else { return };
        crossbar.step(self, node, latency_ps);
        self.crossbars[node as usize] = Some(crossbar);
    }
}
