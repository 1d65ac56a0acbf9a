// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space of the fabric's functions: lookup by bus number, access without simulated
//! time, and the effects of writes.

use crosslane_pcie::config::PortType;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::timers;
use crosslane_pcie::units::{HostId, RoutingId};

use crate::fabric::{Fabric, NodeState};
use crate::parameters::Coalescing;
use crate::receiver::Habit;
use crate::routing::Routes;
use crate::topology::{NodeKind, PortId};

/// Value of a configuration read that no function answers.
pub const NO_FUNCTION: u32 = 0xffff_ffff;

impl Fabric {
    /// Finds the function at a routing ID of a host in the same way as a configuration request:
    /// down from the root complex along the current bus numbers of the bridges.
    pub fn function_at(&self, host: HostId, id: RoutingId) -> Option<PortId> {
        let root = self
            .nodes
            .iter()
            .find(|node| node.kind == NodeKind::RootComplex && node.host == host)?;
        if id.function() != 0 {
            return None;
        }
        let (mut bus, mut on_bus, mut above) = (0, &root.ports[..], None);
        loop {
            let port = |id: &PortId| self.port(*id);
            let mut on_bus_below = on_bus.iter().copied().filter(|id| Some(*id) != above);
            if id.bus() == bus {
                return on_bus_below.find(|p| port(p).device_number == id.device());
            }
            let bridge = on_bus_below.find(|p| {
                let config = &port(p).config;
                config.port_type() != PortType::Endpoint
                    && (config.secondary_bus()..=config.subordinate_bus()).contains(&id.bus())
                    && config.secondary_bus() != 0
            })?;
            bus = self.port(bridge).config.secondary_bus();
            (on_bus, above) = (self.below(bridge), Some(bridge));
            if self.port(bridge).config.port_type().is_above_its_link()
                && self.port(bridge).link.is_some_and(|link| !self.is_link_up(link))
            {
                return None;
            }
        }
    }

    /// Ports on the bus behind a bridge, and the bridge itself if it is a switch's.
    fn below(&self, bridge: PortId) -> &[PortId] {
        let port = self.port(bridge);
        if port.config.port_type() == PortType::UpstreamPort {
            return &self.node(port.node).ports;
        }
        port.link.map_or(&[], |link| std::slice::from_ref(&self.link(link).lower))
    }

    /// Routing ID of a port's function, from the current bus numbers of the bridges.
    pub fn routing_id(&self, id: PortId) -> RoutingId {
        self.port_states[id.0 as usize].routing_id
    }

    fn find_routing_id(&self, id: PortId) -> RoutingId {
        let port = self.port(id);
        let bus = match port.config.port_type() {
            PortType::RootPort => 0,
            PortType::DownstreamPort => {
                let ports = &self.node(port.node).ports;
                let up = ports
                    .iter()
                    .map(|id| self.port(*id))
                    .find(|port| port.config.port_type() == PortType::UpstreamPort);
                up.map_or(0, |up| up.config.secondary_bus())
            }
            PortType::UpstreamPort | PortType::Endpoint => {
                port.link.map_or(0, |link| self.port(self.link(link).upper).config.secondary_bus())
            }
        };
        RoutingId::new(bus, port.device_number, 0)
    }

    /// Reads a double word of configuration space, without simulated time. Returns [`NO_FUNCTION`]
    /// if no function answers.
    pub fn config_read(&self, host: HostId, id: RoutingId, offset: u16) -> u32 {
        self.function_at(host, id).map_or(NO_FUNCTION, |port| self.port(port).config.read(offset))
    }

    /// Writes the enabled bytes of a double word of configuration space, effective at once and
    /// without simulated time. Ignored if no function answers.
    pub fn config_write(
        &mut self,
        host: HostId,
        id: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) {
        if let Some(port) = self.function_at(host, id) {
            self.ports[port.0 as usize].config.write(offset, value, byte_enables);
            self.apply_config(port.0);
            if self.port(port).config.port_type().is_bridge() {
                for below in self.below(port).to_vec() {
                    self.port_states[below.0 as usize].routing_id = self.find_routing_id(below);
                }
            }
            // The write may enable something that waits, such as interrupts.
            let node = self.port(port).node.0;
            self.with_device(node, |device, port| device.transmit_ready(port));
        }
    }

    /// Applies a port's configuration space: sizes, limits, routes.
    pub(crate) fn apply_config(&mut self, port: u32) {
        let owner = &self.ports[port as usize];
        let (node, link, config) = (owner.node.0, owner.link, &owner.config);
        let max_payload_bytes = config.max_payload_bytes();
        self.port_states[port as usize].max_payload_bytes = max_payload_bytes;
        if let Some(link) = link {
            let (parameters, link) = (&owner.parameters, self.link(link));
            let rate = link.parameters.rate;
            let index = self.port_states[port as usize].transmit ^ 1;
            let ack = habit(parameters.ack, rate, max_payload_bytes);
            let update_fc = habit(parameters.update_fc, rate, max_payload_bytes);
            let replay = timers::replay_timer(rate.generation, rate.width, max_payload_bytes);
            self.directions[index as usize].set_limits(ack, update_fc, max_payload_bytes);
            self.directions[(index ^ 1) as usize].replay_limit_ps = replay.0;
        }
        self.apply_routes(node);
    }

    fn apply_routes(&mut self, node: u32) {
        let mut routes = Routes::new(&self.nodes[node as usize], &self.ports);
        let ports = self.nodes[node as usize].ports.iter();
        routes.transmits = ports.map(|port| self.port_states[port.0 as usize].transmit).collect();
        match &mut self.node_states[node as usize] {
            NodeState::Switch { routes: old, .. } => *old = routes,
            NodeState::RootComplex(Some(root)) => root.routes = routes,
            NodeState::Endpoint(Some(device)) => {
                let port = self.nodes[node as usize].ports[0];
                device.configured(&self.ports[port.0 as usize].config);
            }
            _ => {}
        }
    }
}

fn habit(coalescing: Coalescing, rate: LinkRate, max_payload_bytes: u32) -> Habit {
    let table = timers::ack_latency_limit(rate.generation, rate.width, max_payload_bytes);
    Habit { tlps: coalescing.tlps, within_ps: coalescing.within.unwrap_or(table).0 }
}
