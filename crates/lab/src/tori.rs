// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's torus in other sizes, each node a copy of the first.

use crosslane_torus_link::routing::Torus;

use crate::error::{LabError, Problem, Result};
use crate::file::{EndpointInstance, HostInstance, LabFile, LinkInstance, TorusInstance};
use crate::lab::Lab;

/// The first node of a lab's torus, with its host, card and link.
struct FirstNode {
    host: HostInstance,
    endpoint: EndpointInstance,
    link: LinkInstance,
    torus: TorusInstance,
}

/// Strips the number from the end of a name.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|letter: char| letter.is_ascii_digit())
}

impl FirstNode {
    fn of(file: &LabFile) -> Option<Self> {
        let [torus] = &file.tori[..] else { return None };
        let name = torus.nodes.first()?;
        let endpoint = file.endpoints.iter().find(|endpoint| endpoint.name == *name)?;
        let link = file.links.iter().find(|link| link.lower == *name)?;
        let host = file.hosts.iter().find(|host| host.name == link.upper)?;
        let (host, endpoint) = (host.clone(), endpoint.clone());
        Some(Self { host, endpoint, link: link.clone(), torus: torus.clone() })
    }

    /// Makes the lab a torus of copies of this node, numbered from 1.
    fn fill(&self, file: &mut LabFile, torus: Torus) {
        let numbers = 1..=torus.nodes();
        let host = |number| format!("{}{number}", stem(&self.host.name));
        let card = |number| format!("{}{number}", stem(&self.endpoint.name));
        file.hosts = (numbers.clone())
            .map(|number| HostInstance { name: host(number), ..self.host.clone() })
            .collect();
        file.endpoints = (numbers.clone())
            .map(|number| EndpointInstance { name: card(number), ..self.endpoint.clone() })
            .collect();
        file.links = (numbers.clone())
            .map(|number| LinkInstance {
                upper: host(number),
                lower: card(number),
                ..self.link.clone()
            })
            .collect();
        file.switches.clear();
        file.networks.clear();
        let nodes = numbers.map(card).collect();
        file.tori = vec![TorusInstance { nodes, torus, ..self.torus.clone() }];
    }
}

impl Lab {
    /// Returns the same lab with its one torus in another size: for each node a copy of the first
    /// node's host and network processor, and nothing else. As with [`edited`](Self::edited),
    /// choosing a variant or constant afterwards discards the change.
    ///
    /// # Errors
    /// If the lab does not have exactly one torus whose first node hangs directly below a host, or
    /// no torus of such nodes can have these sizes.
    pub fn with_torus(&self, sizes: &[u16]) -> Result<Self> {
        let refused = |problem: String| {
            LabError::nowhere(Problem::BadValue { key: "torus".to_owned(), problem })
        };
        let first = FirstNode::of(self.file()).ok_or_else(|| {
            refused(format!("lab {} has no single torus of hosts with one card each", self.name()))
        })?;
        let torus = Torus::new(sizes, true).map_err(|error| refused(error.to_string()))?;
        self.edited(|file| first.fill(file, torus))
    }
}
