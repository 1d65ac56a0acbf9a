// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One lab on several cores: divided at the cables of its torus, each part simulated by a thread,
//! or by a process ([`Division::run_between`]), which may be on another machine.
//!
//! A part has a fabric and an executor to itself, with some of the hosts and all that hangs below
//! them. What one part sends to another arrives at least the cables' latency later, the lookahead.
//! So all parts handle the events of a window of simulated time that is no longer than that,
//! exchange what they have sent ([`Exchange`]), and go on with the next window, which begins at the
//! next event of any part.
//!
//! Whatever the parts are, each host and card sees the same events in the same order, so all
//! measurements and traces are the same: at equal times what comes over a cable goes first, hosts
//! share nothing else, and a lab whose parts would have to share random numbers is not divided.

mod between;
mod carrier;
pub(crate) mod exchange;
mod report;
mod run;
mod threads;
mod trace_hash;
pub mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane_fabric::LinkId;
use crosslane_pcie::units::Picoseconds;
use crosslane_torus_link::routing::Torus;

use crate::error::{LabError, Problem, Result};
use crate::file::{LabFile, Share};
use crate::lab::Lab;
pub use carrier::{Arrived, Carrier, Disagreement, Gone, agree};
pub use exchange::{Exchange, Lost, PartState, Said};
pub use report::{Carriers, PartTimes, PartsReport};
pub use trace_hash::{TraceHash, TraceHasher};

/// A lab that is divided into parts.
#[derive(Clone, Debug)]
pub struct Division {
    parts: Vec<Part>,
    lookahead: Picoseconds,
}

/// One part of a lab.
#[derive(Clone, Debug)]
pub struct Part {
    lab: Lab,
    nodes: Vec<u16>,
    links: Vec<LinkId>,
}

impl Part {
    /// Returns the nodes of the torus that it has, in order.
    pub fn nodes(&self) -> &[u16] {
        &self.nodes
    }

    /// Returns the identifier that a link of this part's fabric has in the fabric of the whole lab.
    ///
    /// # Panics
    /// If the part has no such link.
    pub fn whole_link(&self, link: LinkId) -> LinkId {
        self.links[link.0 as usize]
    }
}

/// Returns the nodes of a torus such that contiguous runs of them have few cables between them: the
/// longest dimension counts slowest.
fn in_slices(torus: &Torus) -> Vec<u16> {
    let mut dimensions: Vec<usize> = (0..torus.dimensions().len()).collect();
    dimensions.sort_by_key(|&dimension| std::cmp::Reverse(torus.dimensions()[dimension].size));
    let mut nodes: Vec<u16> = (0..=u16::MAX).take(torus.nodes() as usize).collect();
    nodes.sort_by_key(|&node| {
        let position = torus.position(node);
        dimensions.iter().map(|&dimension| position[dimension]).collect::<Vec<_>>()
    });
    nodes
}

/// Names a part of the lab whose random numbers depend on the order of events in the whole lab.
fn drawing(file: &LabFile) -> Option<String> {
    let host = file.hosts.iter().find(|host| host.part.parameters.completer.is_random());
    let host = host.map(|host| format!("reads of {}'s memory take random times", host.name));
    let card = file.endpoints.iter().find(|card| card.part.parameters.completer.is_random());
    let card = card.map(|card| format!("reads of {}'s memory take random times", card.name));
    let link = file.links.iter().find(|link| link.parameters.bit_error_rate > 0.0);
    let link = link.map(|link| format!("bits of the link below {} arrive wrong", link.upper));
    host.or(card).or(link)
}

impl Lab {
    /// Divides the lab at the cables of its torus: into as many parts as wanted, or one for each
    /// host of the torus if that is fewer. The parts have about as many nodes each.
    ///
    /// # Errors
    /// If the lab does not have one torus, has network links, its cables take no time, or random
    /// numbers in it depend on the order of events in the whole lab.
    pub fn divide(&self, parts: usize) -> Result<Division> {
        let refused = |problem: String| {
            let problem =
                format!("cannot divide lab {} for several threads: {problem}", self.name());
            LabError::nowhere(Problem::BadValue { key: "torus".to_owned(), problem })
        };
        let file = self.file();
        let [torus] = &file.tori[..] else {
            return Err(refused(format!("it has {} tori, not one", file.tori.len())));
        };
        if !file.networks.is_empty() {
            return Err(refused("its hosts are joined by network links too".to_owned()));
        }
        let lookahead = torus.parameters.latency;
        if lookahead == Picoseconds::ZERO {
            return Err(refused("its cables take no time".to_owned()));
        }
        if let Some(drawing) = drawing(file) {
            return Err(refused(format!("{drawing}, drawn in the order of all hosts' events")));
        }
        let above: BTreeMap<&str, &str> =
            file.links.iter().map(|link| (&*link.lower, &*link.upper)).collect();
        let root = |name: &str| {
            let upwards = std::iter::successors(Some(name), |name| above.get(name).copied());
            upwards.last().unwrap_or_default().to_owned()
        };
        let roots: Vec<String> = torus.nodes.iter().map(|name| root(name)).collect();
        let of_host = shares(&in_slices(&torus.torus), &roots, parts.max(1));
        let of_node: Arc<[u16]> = roots.iter().map(|host| of_host[host]).collect();
        let count = of_node.iter().max().map_or(0, |last| last + 1);
        let part = |part: u16| {
            let is_here = |host: &str| of_host.get(host).copied().unwrap_or(0) == part;
            let lab = self.edited(|file| {
                file.hosts.retain(|host| is_here(&host.name));
                file.switches.retain(|switch| is_here(&root(&switch.name)));
                file.endpoints.retain(|endpoint| is_here(&root(&endpoint.name)));
                file.links.retain(|link| is_here(&root(&link.lower)));
                file.peers.retain(|peers| is_here(&root(&peers.first)));
                file.tori[0].share = Some(Share { part, of_node: of_node.clone() });
            })?;
            let links = (0..).map(LinkId).zip(&file.links);
            let links = links.filter(|(_, link)| is_here(&root(&link.lower)));
            let nodes = (0..).zip(of_node.iter()).filter(|(_, of)| **of == part);
            Ok(Part {
                lab,
                links: links.map(|(id, _)| id).collect(),
                nodes: nodes.map(|(node, _)| node).collect(),
            })
        };
        Ok(Division { parts: (0..count).map(part).collect::<Result<_>>()?, lookahead })
    }
}

/// Returns the part of each host. `order` lists the nodes such that neighbours stand together,
/// `hosts` names the host of each.
fn shares(order: &[u16], hosts: &[String], parts: usize) -> BTreeMap<String, u16> {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for host in hosts {
        *nodes.entry(host).or_default() += 1;
    }
    let mut of_host = BTreeMap::new();
    let (mut before, mut part, mut first) = (0, 0, 0);
    for &node in order {
        let host = &hosts[usize::from(node)];
        if of_host.contains_key(host) {
            continue;
        }
        // A part ends where it has its share, and has a host at least.
        let share = before * parts / order.len();
        if before > 0 && share > first {
            (part, first) = (part + 1, share);
        }
        of_host.insert(host.clone(), part);
        before += nodes[&**host];
    }
    of_host
}

impl Division {
    /// Returns the parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns how far a part may run ahead of the others: the latency of the cables.
    pub const fn lookahead(&self) -> Picoseconds {
        self.lookahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes_of_parts(sizes: &[u16], parts: usize) -> Vec<Vec<u16>> {
        let lab = Lab::load("torus").unwrap().with_torus(sizes).unwrap();
        let division = lab.divide(parts).unwrap();
        division.parts().iter().map(|part| part.nodes().to_vec()).collect()
    }

    #[test]
    fn parts_are_slices_of_the_longest_dimension() {
        assert_eq!(nodes_of_parts(&[4, 2], 2), [vec![0, 1, 4, 5], vec![2, 3, 6, 7]]);
        assert_eq!(nodes_of_parts(&[2, 3], 3), [[0, 1], [2, 3], [4, 5]]);
        assert_eq!(nodes_of_parts(&[5], 2), [vec![0, 1, 2], vec![3, 4]]);
        // A host is never divided.
        assert_eq!(nodes_of_parts(&[3], 8), [[0], [1], [2]]);
        assert_eq!(nodes_of_parts(&[3], 1), [[0, 1, 2]]);
    }

    #[test]
    fn links_keep_their_names() {
        let lab = Lab::load("torus").unwrap();
        let division = lab.divide(3).unwrap();
        let links = division.parts().iter().flat_map(|part| {
            let count = part.lab.file().links.len() as u32;
            (0..count).map(|link| {
                let whole = part.whole_link(LinkId(link));
                let here = &part.lab.file().links[link as usize];
                assert_eq!(here.lower, lab.file().links[whole.0 as usize].lower);
                whole.0
            })
        });
        let mut links: Vec<u32> = links.collect();
        links.sort_unstable();
        assert_eq!(links, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn labs_that_cannot_be_divided_say_why() {
        let error = |lab: Lab| lab.divide(2).unwrap_err().to_string();
        let torus = || Lab::load("torus").unwrap();
        let problem = error(Lab::load("rosta").unwrap());
        assert!(problem.contains("lab rosta for several threads: it has 0 tori"), "{problem}");
        let problem = error(
            torus()
                .edited(|file| {
                    file.tori[0].parameters.latency = Picoseconds::ZERO;
                })
                .unwrap(),
        );
        assert!(problem.contains("its cables take no time"), "{problem}");
        let problem =
            error(torus().with_constant("link.bit_error_rate", 1e-9).unwrap_or_else(|_| {
                torus().edited(|file| file.links[0].parameters.bit_error_rate = 1e-9).unwrap()
            }));
        assert!(problem.contains("bits of the link below node1 arrive wrong"), "{problem}");
    }
}
