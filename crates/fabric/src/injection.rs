// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Injected faults for tests: TLPs poisoned, lost or duplicated on their way, and stalled nodes.
//!
//! Injected losses and copies stay accounted for: credits, Acks and buffers are those of the TLPs
//! that were really sent, so that [`Fabric::check_quiet`] still finds leaks.

use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::packet::{NONE, PacketIndex};
use crate::topology::{DirectionId, NodeId, NodeKind};

/// Most injected faults kept; further ones are only counted.
pub const MAX_INJECTED: usize = 10_000;

/// Fault of a TLP on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlpFault {
    /// The transmitter marks the data as lost by setting EP (PCIe 6.x 2.7.2) and sends other bytes.
    /// TLPs without data are unaffected.
    Poison,
    /// The node at the end of the direction loses the TLP after its link has acknowledged it, as a
    /// broken switch would. A lost posted request goes unnoticed; for a lost non-posted request or
    /// completion, the requester's completion time-out expires.
    Drop,
    /// The transmitter sends the TLP twice in a row. Only for completions: the second is unexpected
    /// (PCIe 6.x 2.3.2), or does not fit.
    Duplicate,
}

/// TLPs that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// The next TLPs, up to this number.
    Next(u32),
    /// Each with this probability, 0 to 1, drawn from the fabric's seed, until
    /// [`Fabric::clear_injections`].
    Probability(f64),
}

/// A fault that has affected a TLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Time of the fault.
    pub time: Picoseconds,
    /// Direction on which it happened.
    pub direction: DirectionId,
    /// Type of the fault.
    pub fault: TlpFault,
    /// Header of the TLP before the fault.
    pub header: Header,
}

/// Log of the first faults that happened, and the count of all.
#[derive(Debug, Default)]
pub(crate) struct InjectedLog {
    kept: Vec<Injected>,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Injection {
    class: Class,
    fault: TlpFault,
    moment: Moment,
}

/// Faults of one direction.
#[derive(Debug, Default)]
pub(crate) struct Disturbance {
    injections: Vec<Injection>,
    /// Time until which the receiving node is stalled.
    stalled_until_ps: Option<u64>,
    /// Packets that arrived during the stall, in order.
    held: Vec<PacketIndex>,
}

impl Disturbance {
    /// Whether a fault affects a TLP now.
    fn happens(&mut self, fault: TlpFault, header: &Header, random: &mut Random) -> bool {
        let can = fault != TlpFault::Poison || (header.has_data() && !header.poisoned);
        let is_it = |injection: &Injection| {
            injection.fault == fault && injection.class == header.class() && can
        };
        let mut happens = false;
        for injection in self.injections.iter_mut().filter(|injection| is_it(injection)) {
            happens |= match &mut injection.moment {
                Moment::Next(left) => {
                    let hits = *left > 0 && !happens;
                    *left -= u32::from(hits);
                    hits
                }
                Moment::Probability(probability) => random.f64() < *probability,
            };
        }
        self.injections.retain(|injection| injection.moment != Moment::Next(0));
        happens
    }

    fn is_over(&self) -> bool {
        self.injections.is_empty() && self.stalled_until_ps.is_none()
    }
}

/// Alters poisoned data so that a receiver that uses them is detected.
pub(crate) fn garble(payload: &mut [u8]) {
    payload.iter_mut().for_each(|byte| *byte = !*byte);
}

impl Fabric {
    /// Injects a fault on one direction of a link from now on, into TLPs of `class` at `moment`.
    /// Several may be set at once.
    ///
    /// # Panics
    /// If requests are to be duplicated (a duplicate write looks like a second one), or a
    /// probability is not between 0 and 1.
    pub fn inject_fault(
        &mut self,
        direction: DirectionId,
        class: Class,
        fault: TlpFault,
        moment: Moment,
    ) {
        assert!(
            fault != TlpFault::Duplicate || class == Class::Completion,
            "only completions are doubled, not {class:?} requests"
        );
        if let Moment::Probability(p) = moment {
            assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        }
        if moment != Moment::Next(0) {
            let disturbance = self.disturbance(direction.index());
            disturbance.injections.push(Injection { class, fault, moment });
        }
    }

    /// Ends all faults injected into a direction with [`inject_fault`](Self::inject_fault).
    pub fn clear_injections(&mut self, direction: DirectionId) {
        let direction = direction.index();
        if let Some(disturbance) = &mut self.directions[direction as usize].disturbance {
            disturbance.injections.clear();
        }
        self.end_disturbance(direction);
    }

    /// Faults that have affected TLPs, the first [`MAX_INJECTED`] of them.
    pub fn injected(&self) -> &[Injected] {
        &self.injected.kept
    }

    /// Number of faults that have affected TLPs.
    pub fn injected_count(&self) -> u64 {
        self.injected.count
    }

    /// Stalls a root complex or an endpoint until `until`: arriving TLPs wait in its receive
    /// buffers and keep their credits, and are then taken in order. A longer stall replaces a
    /// shorter one. Returns false for a switch.
    ///
    /// A receiver may withhold credits for any time, except of TLPs that must be able to pass (PCIe
    /// 6.x 2.4.1, 2.6.1); a stall does not change the passing.
    pub fn stall(&mut self, node: NodeId, until: Picoseconds) -> bool {
        if self.node(node).kind == NodeKind::Switch {
            return false;
        }
        let until_ps = until.0.max(self.events.now_ps());
        for direction in self.directions_to(node.0) {
            let stalled = &mut self.disturbance(direction).stalled_until_ps;
            *stalled = (*stalled).max(Some(until_ps));
        }
        self.events.schedule(until_ps, EventKind::StallEnd, node.0, 0);
        true
    }

    /// Directions that lead to a node.
    fn directions_to(&self, node: u32) -> Vec<u32> {
        let ports = self.nodes[node as usize].ports.iter();
        let transmits = ports.map(|port| self.port_states[port.0 as usize].transmit);
        transmits.filter(|transmit| *transmit != NONE).map(|transmit| transmit ^ 1).collect()
    }

    fn disturbance(&mut self, direction: u32) -> &mut Disturbance {
        self.directions[direction as usize].disturbance.get_or_insert_default()
    }

    /// Restores the fast path of a direction without remaining faults.
    fn end_disturbance(&mut self, direction: u32) {
        let place = &mut self.directions[direction as usize].disturbance;
        if let Some(over) = place.take_if(|disturbance| disturbance.is_over()) {
            let held = over.held.len();
            assert!(held == 0, "the disturbance of direction {direction} ends with {held} TLPs");
        }
    }

    /// Ends a stall whose time has passed.
    pub(crate) fn stall_end(&mut self, node: u32) {
        let now_ps = self.events.now_ps();
        for direction in self.directions_to(node) {
            let place = &mut self.directions[direction as usize].disturbance;
            let Some(disturbance) = place else { continue };
            if disturbance.stalled_until_ps.is_none_or(|until_ps| until_ps > now_ps) {
                continue;
            }
            disturbance.stalled_until_ps = None;
            let held = std::mem::take(&mut disturbance.held);
            self.end_disturbance(direction);
            for index in held {
                self.take_arrival(direction, index);
            }
        }
    }

    /// Whether a fault affects a TLP on a disturbed direction; logs it if so.
    fn fault_happens(&mut self, direction: u32, index: PacketIndex, fault: TlpFault) -> bool {
        let header = self.packets.get(index).header;
        let state = &mut self.directions[direction as usize];
        let Some(disturbance) = &mut state.disturbance else { return false };
        if !disturbance.happens(fault, &header, &mut self.random) {
            return false;
        }
        self.injected.count += 1;
        if self.injected.kept.len() < MAX_INJECTED {
            let time = Picoseconds(self.events.now_ps());
            self.injected.kept.push(Injected { time, direction: state.id, fault, header });
        }
        self.end_disturbance(direction);
        true
    }

    /// Queues a packet for a disturbed direction.
    #[cold]
    pub(crate) fn enqueue_disturbed(&mut self, direction: u32, source: u32, index: PacketIndex) {
        if self.fault_happens(direction, index, TlpFault::Poison) {
            self.packets.get_mut(index).header.poisoned = true;
            garble(self.packets.payload_mut(index));
        }
        let doubled = self.fault_happens(direction, index, TlpFault::Duplicate);
        let copy = doubled.then(|| {
            let copy = self.packets.duplicate(index);
            let packet = self.packets.get_mut(copy);
            // The copy is in no receive buffer and outside the order of its source.
            (packet.ingress, packet.source_sequence) = (NONE, 0);
            copy
        });
        self.enqueue_as_it_is(direction, source, index);
        if let Some(copy) = copy {
            self.enqueue_as_it_is(direction, source, copy);
        }
    }

    /// Handles a TLP at the receiving port of a disturbed direction.
    #[cold]
    pub(crate) fn arrive_disturbed(&mut self, direction: u32, index: PacketIndex) {
        if self.fault_happens(direction, index, TlpFault::Drop) {
            self.drop_received(direction, index);
            return;
        }
        match self.directions[direction as usize].disturbance.as_deref_mut() {
            Some(Disturbance { stalled_until_ps: Some(_), held, .. }) => held.push(index),
            _ => self.take_arrival(direction, index),
        }
    }

    /// Sets the probability that a bit of a link arrives wrong from now on, in both directions.
    /// Packets on the wire are already decided.
    ///
    /// # Panics
    /// If the rate is not between 0 and 0.1.
    pub fn set_bit_error_rate(&mut self, link: crate::LinkId, rate: f64) {
        assert!((0.0..=0.1).contains(&rate), "a bit error rate of {rate} is not 0 to 0.1");
        let now_ps = self.events.now_ps();
        self.links[link.0 as usize].parameters.bit_error_rate = rate;
        let both = [link.0 * 2, link.0 * 2 + 1];
        for direction in both {
            self.settle(direction, now_ps);
        }
        for direction in both {
            self.directions[direction as usize].set_bit_error_rate(rate);
            self.follow_dllps(direction);
        }
    }
}
