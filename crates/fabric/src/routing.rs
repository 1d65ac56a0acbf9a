// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes of a node, computed from configuration space after each write to it.

use crosslane_pcie::config::PortType;
use crosslane_pcie::tlp::{Class, Header};

use crate::topology::{Node, Port};

/// Marks a bus number without a port.
const NOWHERE: u8 = u8::MAX;

/// Next hop of a TLP in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Out of the port with this index.
    Port(u32),
    /// Towards the root complex (in a root complex: for the root complex itself).
    Up,
}

/// Routes of a switch or a root complex: by address and by bus number, and ACS redirection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// First address, last address and port index, sorted by first address.
    ranges: Vec<(u64, u64, u32)>,
    /// Port index for each bus number.
    buses: Vec<u8>,
    /// Direction that each port sends on; [`NONE`](crate::packet::NONE) without a link.
    pub transmits: Vec<u32>,
    /// Index of the upstream port (switches).
    pub upstream: Option<u32>,
    redirect_requests: u64,
    redirect_completions: u64,
}

impl Routes {
    pub fn new(node: &Node, ports: &[Port]) -> Self {
        let ports_here = node.ports.len();
        assert!(ports_here <= u64::BITS as usize, "{ports_here} ports, and a bit for each of 64");
        let mut routes = Self { buses: vec![NOWHERE; 256], ..Self::default() };
        for (at, id) in node.ports.iter().enumerate() {
            let config = &ports[id.0 as usize].config;
            let bit = 1 << at;
            match config.port_type() {
                PortType::UpstreamPort => routes.upstream = Some(at as u32),
                PortType::Endpoint => {}
                PortType::RootPort | PortType::DownstreamPort => {
                    if config.memory_enabled() {
                        let windows = [config.memory_window(), config.prefetchable_window()];
                        for window in windows.into_iter().flatten() {
                            routes.ranges.push((*window.start(), *window.end(), at as u32));
                        }
                    }
                    if config.secondary_bus() > 0 {
                        for bus in config.secondary_bus()..=config.subordinate_bus() {
                            routes.buses[usize::from(bus)] = at as u8;
                        }
                    }
                    routes.redirect_requests |= if config.acs_request_redirect() { bit } else { 0 };
                    routes.redirect_completions |=
                        if config.acs_completion_redirect() { bit } else { 0 };
                }
            }
        }
        routes.ranges.sort_unstable();
        routes
    }

    /// Returns the route of a TLP that arrived at `ingress` (`None`: sent by this node).
    #[inline]
    pub fn route(&self, header: &Header, ingress: Option<u32>) -> Route {
        let target = if header.kind.is_routed_by_address() {
            let address = header.address.0;
            let behind = self.ranges.partition_point(|range| range.0 <= address);
            self.ranges[..behind].last().filter(|range| address <= range.1).map(|range| range.2)
        } else {
            let bus = header.requester.bus();
            self.buses.get(usize::from(bus)).filter(|at| **at != NOWHERE).map(|at| u32::from(*at))
        };
        let Some(target) = target else { return Route::Up };
        if let Some(ingress) = ingress
            && self.upstream.is_some()
            && Some(ingress) != self.upstream
        {
            let redirected = match header.class() {
                Class::Completion => self.redirect_completions,
                _ => self.redirect_requests,
            };
            if redirected & (1 << ingress) != 0 {
                return Route::Up;
            }
        }
        Route::Port(target)
    }
}
