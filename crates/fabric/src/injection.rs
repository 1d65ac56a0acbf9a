// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults that a test brings about on purpose: TLPs that are poisoned, lost or doubled on their
//! way, and nodes that take nothing for a while.
//!
//! What a fault takes away or adds is accounted for: credits, Acks and buffers are those of the
//! TLPs that were really sent, so that [`Fabric::check_quiet`] still says what leaks.

use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::Picoseconds;
use crosslane_random::Random;

use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::packet::{NONE, PacketIndex};
use crate::topology::{DirectionId, NodeId, NodeKind};

/// Injected faults that are kept; further ones are counted only.
pub const MAX_INJECTED: usize = 10_000;

/// What happens to a TLP on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlpFault {
    /// The transmitter has lost its data, and says so: EP is set (PCIe 6.x 2.7.2), and other bytes
    /// are sent. TLPs without data are passed over.
    Poison,
    /// The node at the end of the direction loses it, though its link has acknowledged it: what a
    /// broken switch does. Of a lost posted request nobody learns; the requester of a lost
    /// non-posted request or completion sees its completion time-out.
    Drop,
    /// The transmitter sends it twice, one right behind the other. For completions: the second is
    /// one for which nobody waits (PCIe 6.x 2.3.2), or that does not fit.
    Duplicate,
}

/// Which TLPs a fault happens to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// The next so many.
    Next(u32),
    /// Each with this probability, 0 to 1, drawn from the fabric's seed, until
    /// [`Fabric::clear_injections`].
    Probability(f64),
}

/// A fault that has happened to a TLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// When.
    pub time: Picoseconds,
    /// Where.
    pub direction: DirectionId,
    /// What.
    pub fault: TlpFault,
    /// The TLP, as it was before.
    pub header: Header,
}

/// Faults that happened, the first of them and how many in all.
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

/// What disturbs one direction.
#[derive(Debug, Default)]
pub(crate) struct Disturbance {
    injections: Vec<Injection>,
    /// The receiving node takes nothing until then.
    stalled_until_ps: Option<u64>,
    /// What has come meanwhile, in order.
    held: Vec<PacketIndex>,
}

impl Disturbance {
    /// Whether a fault happens to a TLP now.
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

/// Makes poisoned data such that whoever takes them for good is found out.
pub(crate) fn garble(payload: &mut [u8]) {
    payload.iter_mut().for_each(|byte| *byte = !*byte);
}

impl Fabric {
    /// Brings about a fault on one direction of a link from now on: to TLPs of `class` at
    /// `moment`. Several may be set at once.
    ///
    /// # Panics
    /// If requests are to be doubled (a doubled write could not be told from a second one), or a
    /// probability is none.
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

    /// Ends all that [`inject_fault`](Self::inject_fault) has begun on a direction.
    pub fn clear_injections(&mut self, direction: DirectionId) {
        let direction = direction.index();
        if let Some(disturbance) = &mut self.directions[direction as usize].disturbance {
            disturbance.injections.clear();
        }
        self.end_disturbance(direction);
    }

    /// The faults that have happened to TLPs, the first [`MAX_INJECTED`] of them.
    #[must_use]
    pub fn injected(&self) -> &[Injected] {
        &self.injected.kept
    }

    /// How many faults have happened to TLPs.
    #[must_use]
    pub fn injected_count(&self) -> u64 {
        self.injected.count
    }

    /// Lets a root complex or an endpoint stall: until `until` it takes nothing that comes, TLPs
    /// wait in its receive buffers and keep their credits; then it takes them in their order. A
    /// longer stall takes the place of a shorter one. False where the node is a switch.
    ///
    /// A receiver may hold credits back for as long as it likes, but for what must be able to pass
    /// (PCIe 6.x 2.4.1, 2.6.1): what passes whom is not changed by a stall.
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

    /// The directions that lead to a node.
    fn directions_to(&self, node: u32) -> Vec<u32> {
        let ports = self.nodes[node as usize].ports.iter();
        let transmits = ports.map(|port| self.port_states[port.0 as usize].transmit);
        transmits.filter(|transmit| *transmit != NONE).map(|transmit| transmit ^ 1).collect()
    }

    fn disturbance(&mut self, direction: u32) -> &mut Disturbance {
        self.directions[direction as usize].disturbance.get_or_insert_default()
    }

    /// Sets the quick way free where nothing is left that disturbs.
    fn end_disturbance(&mut self, direction: u32) {
        let place = &mut self.directions[direction as usize].disturbance;
        if let Some(over) = place.take_if(|disturbance| disturbance.is_over()) {
            let held = over.held.len();
            assert!(held == 0, "the disturbance of direction {direction} ends with {held} TLPs");
        }
    }

    /// A stall may be over.
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

    /// Whether a fault happens to a TLP on a direction that is disturbed; notes it.
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

    /// Puts a packet in line for a direction that is disturbed.
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
            // It is in no receive buffer, and has no place in the order of its source.
            (packet.ingress, packet.source_sequence) = (NONE, 0);
            copy
        });
        self.enqueue_as_it_is(direction, source, index);
        if let Some(copy) = copy {
            self.enqueue_as_it_is(direction, source, copy);
        }
    }

    /// A TLP is at the receiving port of a direction that is disturbed.
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

    /// Sets the probability with which a bit of a link arrives wrong from now on, in both
    /// directions. What is on the wire has been decided on already.
    ///
    /// # Panics
    /// If it is not between 0 and 0.1.
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
