// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts of a machine that a lab has: host, switches, endpoints, and the links between them.

use std::collections::{BTreeMap, BTreeSet};

use crosslane_sysfs::{Address, Kind, LinkCode, PciFunction, Tree};

use crate::seen::MadeUp;

/// Most root ports of a host in a lab, as crate `fabric` has it.
const MOST_ROOT_PORTS: usize = 31;

/// A link and both its ends.
#[derive(Clone, Copy)]
pub(crate) struct LinkPlan<'a> {
    /// The port above; `None` where no dump shows it.
    pub port: Option<&'a PciFunction>,
    /// The upstream port of the switch above; `None` for the host.
    pub switch: Option<Address>,
    /// The endpoint or upstream port below.
    pub lower: &'a PciFunction,
    pub rate: LinkCode,
    /// Whether no dump shows the rate.
    pub is_assumed: bool,
}

/// Returns the rate that is assumed for the link above a function, if one may be.
pub(crate) type Assumed<'f> = &'f dyn Fn(&PciFunction) -> Option<LinkCode>;

/// The parts of a machine that a lab has.
pub(crate) struct Plan<'a> {
    /// Upstream ports of the switches, and endpoints, by address.
    pub switches: BTreeMap<Address, &'a PciFunction>,
    pub endpoints: BTreeMap<Address, &'a PciFunction>,
    /// Links, each behind the one above it.
    pub links: Vec<LinkPlan<'a>>,
    /// Functions that the lab leaves out and why, a phrase each.
    pub left_out: Vec<(Address, String)>,
}

impl<'a> Plan<'a> {
    /// Plans the way to some cards.
    ///
    /// # Errors
    /// The reason for which a card cannot be in a lab, a sentence.
    pub fn of_cards(tree: &'a Tree, cards: &[&'a PciFunction]) -> Result<Self, String> {
        let mut plan = Self::empty();
        for card in cards {
            if !card.kind.is_linked_endpoint() {
                let (address, kind) = (card.address, card.kind);
                return Err(format!("{address} is a {kind}: there is no link above it"));
            }
            let way = tree.above(card.address).into_iter().chain([*card]);
            if let Some(hidden) = way.clone().find(|function| function.express().is_none()) {
                let address = hidden.address;
                return Err(format!(
                    "the PCI Express capability of {address} cannot be seen; root sees it"
                ));
            }
            plan.add(tree, card, &|_| None)?;
        }
        Ok(plan)
    }

    /// Plans all endpoints with a link above them, whose rate is perhaps assumed.
    pub fn of_machine(tree: &'a Tree, assumed: Assumed<'_>) -> Self {
        let mut plan = Self::empty();
        let mut done = BTreeSet::new();
        for function in tree.functions() {
            if !function.kind.is_linked_endpoint() {
                continue;
            }
            let Address { domain, id } = function.address;
            let is_alone = Self::is_on_root_bus(function);
            // Without a link it is not a card, whatever it says.
            if is_alone && rate(function, None).is_err() {
                continue;
            }
            // One device hangs on a link, whose first function stands for all; several on a root
            // bus.
            let device = (id.bus() == 0).then(|| id.device());
            if !done.insert((domain, id.bus(), device)) {
                plan.left_out.push((function.address, "a further function of its device".into()));
                continue;
            }
            if let Err(why) = plan.add(tree, function, assumed) {
                plan.left_out.push((function.address, why));
            }
        }
        // A switch is taken to have at least the fastest link below it.
        for index in (0..plan.links.len()).rev() {
            let LinkPlan { lower, is_assumed, .. } = plan.links[index];
            let below = plan.links_below(Some(lower.address)).into_iter().map(|link| link.rate);
            if let Some(rate) = below.reduce(best_of).filter(|_| is_assumed) {
                plan.links[index].rate = rate;
            }
        }
        plan
    }

    /// Whether there is no port above an endpoint: a virtual machine shows a card that was handed
    /// to it so, with the link that it has, and without the root port.
    pub fn is_on_root_bus(function: &PciFunction) -> bool {
        function.parent.is_none() && function.address.id.bus() == 0
    }

    fn empty() -> Self {
        Self {
            switches: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            links: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Adds an endpoint with the links above it, or nothing of it.
    fn add(
        &mut self,
        tree: &'a Tree,
        endpoint: &'a PciFunction,
        assumed: Assumed<'_>,
    ) -> Result<(), String> {
        let mut links: Vec<LinkPlan<'_>> = Vec::new();
        let mut lower = endpoint;
        loop {
            let mut above = tree.above(lower.address).into_iter();
            // A device may hang below the upstream port itself where a dump has no others.
            let (port, upstream) = match above.next() {
                None => (None, None),
                Some(port) if port.kind == Kind::RootPort => (Some(port), None),
                Some(port) if port.kind == Kind::UpstreamPort => (None, Some(port)),
                Some(port) if port.kind == Kind::DownstreamPort => match above.next() {
                    Some(upstream) if upstream.kind == Kind::UpstreamPort => {
                        (Some(port), Some(upstream))
                    }
                    _ => return Err(misplaced(port)),
                },
                Some(port) => return Err(misplaced(port)),
            };
            let (rate, is_assumed) = match (rate(lower, port), assumed(lower)) {
                (Err(_), Some(assumed)) => (assumed, true),
                (rate, _) => (rate?, false),
            };
            // Ports that are made up say nothing.
            let port = port.filter(|port| !MadeUp::is(port.address));
            let switch = upstream.map(|it| it.address);
            links.push(LinkPlan { port, switch, lower, rate, is_assumed });
            match upstream {
                Some(upstream)
                    if links.iter().any(|link| link.lower.address == upstream.address) =>
                {
                    return Err("the bridges above it form a circle".to_owned());
                }
                Some(upstream) => lower = upstream,
                None => break,
            }
        }
        let roots = self.links.iter().filter(|link| link.switch.is_none()).count();
        links.retain(|link| self.link_above(link.lower.address).is_none());
        for link in &links {
            let is_taken = |port: &PciFunction| {
                self.links.iter().any(|it| it.port.is_some_and(|it| it.address == port.address))
            };
            if let Some(port) = link.port.filter(|port| is_taken(port)) {
                return Err(format!("{} above it has another device below it", port.address));
            }
        }
        if roots == MOST_ROOT_PORTS && links.last().is_some_and(|link| link.switch.is_none()) {
            return Err(format!("a host of a lab has at most {MOST_ROOT_PORTS} root ports"));
        }
        for link in links.into_iter().rev() {
            if link.lower.kind == Kind::UpstreamPort {
                self.switches.insert(link.lower.address, link.lower);
            }
            self.links.push(link);
        }
        self.endpoints.insert(endpoint.address, endpoint);
        Ok(())
    }

    /// Ports above links: those of the host, or those of a switch.
    pub fn ports(&self, switch: Option<Address>) -> Vec<&'a PciFunction> {
        let links = self.links.iter().filter(|link| link.switch == switch);
        links.filter_map(|link| link.port).collect()
    }

    /// NUMA nodes of the machine's functions in the lab, ascending: each is a socket of it.
    pub fn numa_nodes(&self) -> Vec<u32> {
        let roots = self.links.iter().filter(|link| link.switch.is_none());
        let nodes: BTreeSet<u32> = roots.filter_map(|link| self.numa_node(link)).collect();
        nodes.into_iter().collect()
    }

    /// NUMA node of the link of a root port: that of the port, or of what is below it.
    pub fn numa_node(&self, root: &LinkPlan<'a>) -> Option<u32> {
        let ends = root.port.into_iter().chain(self.below(root));
        ends.filter_map(|function| function.numa_node).next()
    }

    /// The lower end of a link and those of all links below it.
    pub fn below(&self, link: &LinkPlan<'a>) -> Vec<&'a PciFunction> {
        let mut found = vec![link.lower];
        let mut next = 0;
        while let Some(above) = found.get(next).map(|function| function.address) {
            let links = self.links.iter().filter(|link| link.switch == Some(above));
            found.extend(links.map(|link| link.lower));
            next += 1;
        }
        found
    }

    /// The link above an endpoint or a switch.
    pub fn link_above(&self, lower: Address) -> Option<&LinkPlan<'a>> {
        self.links.iter().find(|link| link.lower.address == lower)
    }

    /// Links below the host, or below a switch.
    pub fn links_below(&self, switch: Option<Address>) -> Vec<&LinkPlan<'a>> {
        self.links.iter().filter(|link| link.switch == switch).collect()
    }
}

fn best_of(one: LinkCode, other: LinkCode) -> LinkCode {
    LinkCode { speed: one.speed.max(other.speed), lanes: one.lanes.max(other.lanes) }
}

fn misplaced(port: &PciFunction) -> String {
    format!("{} above it is a {}, which no lab has at that place", port.address, port.kind)
}

/// The rate of a link: as its lower end says, or else as its upper end does.
fn rate(lower: &PciFunction, port: Option<&PciFunction>) -> Result<LinkCode, String> {
    let of_port = port.and_then(PciFunction::express).map(|express| express.link);
    let own = lower.link().map(|(now, _)| now);
    let is_up = |link: &LinkCode| link.speed != 0 && link.lanes != 0;
    let link = own
        .filter(is_up)
        .or(of_port.filter(is_up))
        .or(own)
        .ok_or_else(|| format!("no dump shows the link above {}", lower.address))?;
    match link.rate() {
        Some(_) => Ok(link),
        None if !is_up(&link) => Err(format!("the link above {} is down", lower.address)),
        None => Err(format!("the link above {} is {link}, a rate that no lab has", lower.address)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn root_ports_are_those_of_a_fabric() {
        assert_eq!(super::MOST_ROOT_PORTS, crosslane_fabric::MAX_ROOT_PORTS);
    }
}
