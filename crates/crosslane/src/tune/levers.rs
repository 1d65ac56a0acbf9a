// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Levers of a machine's owner: settings that are one command or one option of the kernel, and
//! places. Constants of the hardware are no levers; what they cost is for
//! [`explain`](crosslane_explain::explain) to say.

use std::ops::RangeInclusive;

use crosslane_experiment::{ExperimentError, PlannedFlow};
use crosslane_fabric::{FlowKind, FlowSource};
use crosslane_lab::LabFile;
use crosslane_results::distinct;
use crosslane_results::quantity::size_words;

use super::TuneOptions;
use crate::what_if::{Change, Changed, Flows, PLAIN_TAGS, tree};

/// Codes of Max_Payload_Size and Max_Read_Request_Size, as powers of two (PCIe 6.x 7.5.3.4).
const SIZES: RangeInclusive<u32> = 7..=12;
/// Tags with Extended Tag Field Enable (PCIe 6.x 2.2.6.2).
const EXTENDED_TAGS: u16 = 256;

/// Effort of a lever, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Registers of functions.
    Setting,
    /// Registers of ports, and devices that are no longer kept apart.
    Redirection,
    /// An option of the kernel, and devices that are no longer kept from memory.
    Translation,
    /// A card at another port.
    Place,
}

/// A change that one can make to a machine.
pub struct Lever {
    /// The change in words.
    pub words: String,
    /// The same as changes of the lab.
    pub changes: Vec<Change>,
    /// The effort that it takes.
    pub effort: Effort,
    /// Whether it is a setting, and no other of its kind goes farther.
    pub is_strongest: bool,
}

impl Lever {
    /// Returns the options of `what-if` for it.
    pub fn options(&self) -> Vec<String> {
        self.changes.iter().map(ToString::to_string).collect()
    }

    /// Returns what orders levers by their cost: fewer changes cost less.
    pub const fn cost(&self) -> (Effort, usize) {
        (self.effort, self.changes.len())
    }
}

/// Lists the levers of flows in a changed lab, the cheapest first: settings of functions,
/// redirection, translation, places.
///
/// # Errors
/// A lab that cannot be built, and an impossible flow.
pub fn levers(
    changed: &Changed,
    flows: &Flows,
    options: TuneOptions,
) -> Result<Vec<Lever>, ExperimentError> {
    let running = changed.lab.build(flows.seed)?;
    let planned = flows.scenario(changed)?.plan(&running)?;
    let file = changed.lab.file();
    let is_endpoint = |name: &String| file.endpoints.iter().any(|endpoint| endpoint.name == *name);
    let targets = planned.iter().map(|flow| running.fabric.node(flow.target_node).name.clone());
    let ends = planned.iter().map(|flow| flow.from.clone()).chain(targets);
    let ends: Vec<String> = distinct(ends.filter(is_endpoint));
    let requesters = |which: fn(&PlannedFlow) -> bool| {
        let from = planned
            .iter()
            .filter(|flow| matches!(flow.flow.source, FlowSource::Endpoint(_)) && which(flow));
        distinct(from.map(|flow| flow.from.clone()))
    };
    let set_bytes = |name: &str| {
        let port = running.find_port(name).map(|port| running.fabric.port(port));
        port.map_or(0, |port| port.config.max_payload_bytes())
    };
    let mut found = Found { file, levers: Vec::new() };
    found.payloads(&ends, set_bytes);
    found.reads(&requesters(|flow| flow.flow.kind != FlowKind::Write));
    found.tags(&requesters(|flow| flow.flow.kind != FlowKind::Write));
    for name in requesters(|flow| !flow.flow.relaxed_ordering) {
        let words = format!("relaxed ordering of {name}");
        found.add(words, vec![set(&name, "relaxed-ordering", "on")], true);
    }
    found.redirection(&ends);
    found.translation(&ends);
    if !options.in_place {
        found.places(&ends);
    }
    Ok(found.levers)
}

fn set(node: &str, setting: &str, value: impl ToString) -> Change {
    Change::Set { path: format!("{node}.{setting}"), value: value.to_string() }
}

fn sizes() -> impl DoubleEndedIterator<Item = u32> {
    SIZES.map(|power| 1 << power)
}

struct Found<'a> {
    file: &'a LabFile,
    levers: Vec<Lever>,
}

impl Found<'_> {
    fn add(&mut self, words: String, changes: Vec<Change>, is_strongest: bool) {
        let effort = Effort::Setting;
        self.levers.push(Lever { words, changes, effort, is_strongest });
    }

    /// Max_Payload_Size below each root port that the flows pass, and the same below all of them:
    /// what one tree sends has to fit into the other.
    fn payloads(&mut self, ends: &[String], set_bytes: impl Fn(&str) -> u32) {
        /// A root port with an end of a flow below it.
        struct Tree<'a> {
            root: usize,
            end: &'a String,
            now: u32,
            able: u32,
        }
        let mut trees: Vec<Tree<'_>> = Vec::new();
        for end in ends {
            for root in tree::root_of(self.file, end) {
                if trees.iter().all(|tree| tree.root != root) {
                    let (_, able) = tree::least_payload(self.file, root);
                    trees.push(Tree { root, end, now: set_bytes(end), able });
                }
            }
        }
        let words = |bytes: u32, below: &str| {
            format!("Max_Payload_Size {} of all below {below}", size_words(bytes.into()))
        };
        for tree in &trees {
            let below = root_port(self.file, tree.root);
            for bytes in sizes().filter(|bytes| *bytes <= tree.able && *bytes != tree.now) {
                let is_strongest = trees.len() == 1 && bytes == tree.able;
                self.add(words(bytes, &below), vec![set(tree.end, "mps", bytes)], is_strongest);
            }
        }
        let able = trees.iter().map(|tree| tree.able).min().unwrap_or(0);
        if trees.len() > 1 {
            let below: Vec<String> =
                trees.iter().map(|tree| root_port(self.file, tree.root)).collect();
            let below = below.join(" and ");
            let is_new = |bytes: &u32| trees.iter().any(|tree| tree.now != *bytes);
            for bytes in sizes().filter(|bytes| *bytes <= able).filter(is_new) {
                let changes = trees.iter().map(|tree| set(tree.end, "mps", bytes)).collect();
                self.add(words(bytes, &below), changes, bytes == able);
            }
        }
    }

    /// Max_Read_Request_Size of each endpoint that reads.
    fn reads(&mut self, readers: &[String]) {
        for name in readers {
            let Some(host) = tree::host_of(self.file, name) else { continue };
            let endpoints = &self.file.endpoints;
            let Some(part) = endpoints.iter().find(|it| it.name == *name).map(|it| &it.part) else {
                continue;
            };
            let built = part.parameters.requester.max_read_bytes;
            let now = built.min(self.file.hosts[host].max_read_request_bytes);
            let able = if part.registers.max_read_bytes { u32::MAX } else { built };
            let possible: Vec<u32> = sizes().filter(|bytes| *bytes <= able).collect();
            for bytes in possible.iter().copied().filter(|bytes| *bytes != now) {
                let words = format!("Max_Read_Request_Size {} of {name}", size_words(bytes.into()));
                let is_strongest = possible.last() == Some(&bytes);
                self.add(words, vec![set(name, "mrrs", bytes)], is_strongest);
            }
        }
    }

    /// Extended tags of each endpoint that reads, and supports but does not use them.
    fn tags(&mut self, readers: &[String]) {
        for name in readers {
            let endpoints = &self.file.endpoints;
            let part = endpoints.iter().find(|it| it.name == *name).map(|it| &it.part);
            let is_off = part.is_some_and(|part| {
                part.registers.tags
                    && part.port.capability.extended_tags
                    && part.parameters.requester.tags <= PLAIN_TAGS
            });
            if is_off {
                let words = format!("Extended Tags of {name}, {EXTENDED_TAGS} at most");
                self.add(words, vec![set(name, "tags", EXTENDED_TAGS)], true);
            }
        }
    }

    /// Redirection by each host and switch above the ends of flows.
    fn redirection(&mut self, ends: &[String]) {
        let file = self.file;
        let above = |name: &str| ends.iter().any(|end| tree::is_below(file, end, name));
        let hosts = file.hosts.iter().filter(|host| host.acs).map(|host| &host.name);
        let switches = file.switches.iter().filter(|switch| switch.acs).map(|switch| &switch.name);
        for name in hosts.chain(switches).filter(|name| above(name)) {
            let words = format!("no redirection of peer requests (ACS) by {name}");
            let changes = vec![Change::Acs { node: Some(name.clone()), redirects: false }];
            let effort = Effort::Redirection;
            self.levers.push(Lever { words, changes, effort, is_strongest: true });
        }
    }

    fn translation(&mut self, ends: &[String]) {
        let file = self.file;
        let hosts = distinct(ends.iter().filter_map(|end| tree::host_of(file, end)));
        for host in hosts {
            let host = &file.hosts[host];
            if host.part.parameters.iommu.is_some() {
                let words = format!("no translation by the IOMMU of {}", host.name);
                let changes = vec![set(&host.name, "iommu", "off")];
                let effort = Effort::Translation;
                self.levers.push(Lever { words, changes, effort, is_strongest: true });
            }
        }
    }

    /// A new port of each other switch and of the host, or of its other sockets, for each end.
    fn places(&mut self, ends: &[String]) {
        let file = self.file;
        for end in ends {
            let (Some(host), Some(link)) = (tree::host_of(file, end), file.link_above(end)) else {
                continue;
            };
            let (host, sockets) =
                (&file.hosts[host].name, file.hosts[host].part.parameters.socket_count());
            let switches = file.switches.iter().map(|switch| &switch.name);
            let switches = switches.filter(|name| tree::is_below(file, name, host));
            let roots = (0..sockets).map(|socket| match sockets {
                1 => host.clone(),
                _ => format!("{host}.numa{socket}"),
            });
            let link = &file.links[link];
            let here = match link.upper == *host && sockets > 1 {
                true => format!("{host}.numa{}", link.socket),
                false => link.upper.clone(),
            };
            for place in switches.cloned().chain(roots).filter(|place| *place != here) {
                let words = format!("{end} at a port of {place}");
                let changes = vec![Change::Move { node: end.clone(), place }];
                let effort = Effort::Place;
                self.levers.push(Lever { words, changes, effort, is_strongest: false });
            }
        }
    }
}

/// Returns the name of a root port: `host0.port1`.
fn root_port(file: &LabFile, root: usize) -> String {
    let mut named = file.clone();
    tree::name_ports(&mut named);
    let link = &named.links[root];
    format!("{}.{}", link.upper, link.upper_port.as_deref().unwrap_or_default())
}
