// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that go down and come up while the fabric runs.
//!
//! Simplified from base specification 2.9.1 (transaction layer behaviour with the link down), 3.2
//! (the data link layer's states), 3.4 (flow control initialisation) and 6.6.1 (a link that goes
//! down resets everything below it): every endpoint below is told, but no hot reset follows, both
//! ends keep their configuration and received TLPs, and flow control is initialised in no time.

use std::collections::VecDeque;

use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::Picoseconds;

use crate::counters::IdleReason;
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::{Fabric, NodeState};
use crate::packet::{JOINED, NONE, PacketIndex};
use crate::receiver::pair;
use crate::topology::{DirectionId, LinkDirection, LinkId};
use crate::trace::HeaderLine;

impl Fabric {
    /// Whether a link carries packets.
    pub fn is_link_up(&self, link: LinkId) -> bool {
        !self.directions[DirectionId { link, heading: LinkDirection::Down }.index() as usize]
            .is_down
    }

    /// Takes a link down now, until `until` or until [`bring_link_up`](Self::bring_link_up). TLPs
    /// on it or waiting for their Ack are lost, in both directions. TLPs that have to leave by it
    /// are refused with Unsupported Request if non-posted, and otherwise dropped and recorded. If
    /// the link is down already, only `until` changes. The simulation does not continue for `until`
    /// alone.
    pub fn take_link_down(&mut self, link: LinkId, until: Option<Picoseconds>) {
        let now_ps = self.events.now_ps();
        let up_ps = until.map_or(u64::MAX, |until| until.0.max(now_ps));
        let both = [LinkDirection::Down, LinkDirection::Up]
            .map(|heading| DirectionId { link, heading }.index());
        let was_up = self.is_link_up(link);
        for direction in both {
            self.directions[direction as usize].up_ps = up_ps;
        }
        if up_ps != u64::MAX {
            self.events.schedule(up_ps, EventKind::LinkUp, link.0, 0);
        }
        if !was_up {
            return;
        }
        for direction in both {
            self.settle(direction, now_ps);
        }
        let lost_tlps = both.into_iter().map(|direction| self.cut(direction)).sum();
        let Self { links, .. } = self;
        let upper = links[link.0 as usize].upper;
        let name = links[link.0 as usize].name.clone();
        self.ports[upper.0 as usize].config.set_link_active(false);
        self.report(upper.0, ErrorKind::LinkDown { link: name, lost_tlps });
        for direction in both {
            self.lose_queued(direction);
            let node = self.directions[direction as usize].transmitting_node;
            self.resume_cores(node, direction);
        }
        self.root_link_down(self.ports[upper.0 as usize].node.0, upper.0);
        for node in self.endpoints_below(link) {
            self.with_device(node, |device, port| device.link_down(port));
        }
    }

    /// Endpoints that a link cuts off from their host, nearest first.
    fn endpoints_below(&self, link: LinkId) -> Vec<u32> {
        let mut links = VecDeque::from([link]);
        let mut endpoints = Vec::new();
        while let Some(link) = links.pop_front() {
            let lower = self.links[link.0 as usize].lower;
            let node = self.ports[lower.0 as usize].node;
            if matches!(self.node_states[node.0 as usize], NodeState::Endpoint(_)) {
                endpoints.push(node.0);
            }
            let others = self.nodes[node.0 as usize].ports.iter().filter(|&&port| port != lower);
            links.extend(others.filter_map(|port| self.ports[port.0 as usize].link));
        }
        endpoints
    }

    /// Brings a link up again, with freshly initialised flow control.
    pub fn bring_link_up(&mut self, link: LinkId) {
        if self.is_link_up(link) {
            return;
        }
        let now_ps = self.events.now_ps();
        let both = [LinkDirection::Down, LinkDirection::Up]
            .map(|heading| DirectionId { link, heading }.index());
        for direction in both {
            pair(&mut self.directions, direction).absorb(now_ps);
        }
        for direction in both {
            let reason = self.empty_reasons[direction as usize];
            self.directions[direction as usize].come_up(now_ps, reason);
        }
        let upper = self.links[link.0 as usize].upper;
        self.ports[upper.0 as usize].config.set_link_active(true);
        for direction in both {
            let node = self.directions[direction as usize].transmitting_node;
            self.with_device(node, |device, port| device.transmit_ready(port));
        }
    }

    /// Brings a link up if its time has come.
    pub(crate) fn link_up_event(&mut self, link: u32) {
        let (link, now_ps) = (LinkId(link), self.events.now_ps());
        let direction = DirectionId { link, heading: LinkDirection::Down }.index();
        if self.directions[direction as usize].up_ps == now_ps {
            self.bring_link_up(link);
        }
    }

    /// Ends one direction's traffic. Returns the number of TLPs lost before they reached the
    /// receiver.
    fn cut(&mut self, direction: u32) -> u64 {
        let now_ps = self.events.now_ps();
        let packets = &self.packets;
        let flying = self.events.remove_arrivals(direction, |index: PacketIndex| {
            // A TLP whose last byte is in has arrived, even before the port's latency has passed.
            packets.get(index).tail_ps > now_ps
        });
        let state = &mut self.directions[direction as usize];
        let mut lost = flying.len() as u64;
        for index in flying {
            let packet = self.packets.get(index);
            state.receiver.forget(packet.class(), packet.data_credits);
            self.packets.remove(index);
        }
        for unacked in std::mem::take(&mut state.replay) {
            let packet = self.packets.get(unacked.packet);
            if unacked.sequence >= state.receiver.accepted {
                state.receiver.forget(packet.class(), packet.data_credits);
                lost += 1;
            }
            self.packets.remove(unacked.packet);
        }
        state.idle(now_ps, IdleReason::Retraining);
        state.go_down();
        lost
    }

    /// Discards the TLPs queued for a link that is down: this node refuses non-posted requests, and
    /// everything is recorded.
    pub(crate) fn lose_queued(&mut self, direction: u32) {
        let now_ps = self.events.now_ps();
        let state = &mut self.directions[direction as usize];
        assert!(state.is_down, "{:?} loses what waits for it, and is up", state.id);
        let (node, link) = (state.transmitting_node, state.id.link);
        let port = self.directions[(direction ^ 1) as usize].receiving_port;
        let queued = self.directions[direction as usize].egress.drain(&self.packets);
        for index in queued {
            let packet = *self.packets.get(index);
            let header = packet.header;
            let is_endpoint = matches!(self.node_states[node as usize], NodeState::Endpoint(_));
            // No receiver saw an endpoint's own request, so nothing could refuse it.
            let class = if is_endpoint { Class::Completion } else { header.class() };
            let what = HeaderLine(&header).to_string();
            let link = self.link(link).name.clone();
            self.report_request(port, ErrorKind::NoLink { link, what }, class);
            let is_part = self.note_lost_part(node, port, &header);
            if packet.ingress >= JOINED {
                self.packets.remove(index);
                if packet.ingress != NONE {
                    self.note_joined(node, packet.ingress, now_ps);
                } else if header.class() == Class::NonPosted && !is_part {
                    self.refuse_load(node, header.tag);
                }
            } else if is_part {
                self.drop_received(packet.ingress, index);
            } else {
                let ingress_port = self.directions[packet.ingress as usize].receiving_port;
                let latency_ps = packet.ready_ps.saturating_sub(now_ps);
                self.answer_unsupported(ingress_port, packet.ingress, &header, latency_ps);
                self.drop_received(packet.ingress, index);
            }
        }
    }
}
