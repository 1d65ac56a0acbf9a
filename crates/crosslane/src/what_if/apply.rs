// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Application of changes to a lab: constants first, then places, links, redirection and settings,
//! since payloads are set for whole trees and trees depend on places.

use std::sync::Arc;

use crosslane_fabric::IO_LARGE_PAGE_BYTES;
use crosslane_fabric::parameters::{IommuParameters, PortParameters, RequesterParameters};
use crosslane_lab::file::parts::{EndpointPart, RequesterRegisters};
use crosslane_lab::file::{HostInstance, LinkInstance, SwitchInstance};
use crosslane_lab::{Lab, LabFile};
use crosslane_pcie::link::LinkRate;
use crosslane_results::distinct;
use crosslane_results::quantity::parse_register_size;

use super::change::{Change, switched};
use super::{WhatIfError, tree};

/// A changed lab.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The lab.
    pub lab: Arc<Lab>,
    /// Endpoints whose requests carry the relaxed ordering attribute.
    pub relaxed: Vec<String>,
    /// Consequences and assumptions, a sentence each.
    pub notes: Vec<String>,
}

/// Settings of hosts, switches and endpoints.
const OF_HOST: [&str; 3] = ["mps", "mrrs", "iommu"];
const OF_SWITCH: [&str; 1] = ["mps"];
const OF_ENDPOINT: [&str; 4] = ["mps", "mrrs", "tags", "relaxed-ordering"];
/// Tags of 5 bits, which every requester may use (PCIe 6.x 2.2.6.2).
pub const PLAIN_TAGS: u16 = 32;
/// Names that stand for another port in `--move`.
const SWAP: &str = "swap:";
/// Name of a host's socket in `--move`, without its number.
const SOCKET: &str = "numa";
/// Lab with the IOMMU that a host gets.
pub(super) const FITTED_IOMMU: &str = "pciebench:iommu";
/// Name of the host of a lab that has only one.
const ONLY_HOST: &str = "host";

/// Applies changes to a lab; constants first, then moves, links, redirection and settings.
///
/// # Errors
/// The first change that is not possible, with the reason.
pub fn apply(lab: &Lab, changes: &[Change]) -> Result<Changed, WhatIfError> {
    let mut applied = Applied { lab: lab.clone(), relaxed: Vec::new(), notes: Vec::new() };
    for step in [Applied::constant, Applied::place, Applied::link, Applied::acs, Applied::setting] {
        for change in changes {
            let done = step(&mut applied, change);
            done.map_err(|problem| WhatIfError::change(change, problem))?;
        }
    }
    let Applied { lab, relaxed, notes } = applied;
    Ok(Changed { lab: Arc::new(lab), relaxed, notes: distinct(notes) })
}

/// A node of a lab file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Host(usize),
    Switch(usize),
    Endpoint(usize),
}

fn find(file: &LabFile, name: &str) -> Option<Node> {
    let host = file.hosts.iter().position(|it| it.name == name).map(Node::Host);
    let only = || (name == ONLY_HOST && file.hosts.len() == 1).then_some(Node::Host(0));
    let switch = || file.switches.iter().position(|it| it.name == name).map(Node::Switch);
    let endpoint = || file.endpoints.iter().position(|it| it.name == name).map(Node::Endpoint);
    host.or_else(switch).or_else(endpoint).or_else(only)
}

/// Most nodes that a sentence names.
const SHOWN_NAMES: usize = 12;

/// Makes the sentence about a name that no node of some kinds has.
fn nobody<'a>(name: &str, what: &str, names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    let more = names.len().saturating_sub(SHOWN_NAMES);
    let shown = names[..names.len() - more].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there is no {what} named {name}; there are {shown}{more}")
}

fn hosts(file: &LabFile) -> impl Iterator<Item = &String> {
    file.hosts.iter().map(|it| &it.name)
}

fn switches(file: &LabFile) -> impl Iterator<Item = &String> {
    file.switches.iter().map(|it| &it.name)
}

fn endpoints(file: &LabFile) -> impl Iterator<Item = &String> {
    file.endpoints.iter().map(|it| &it.name)
}

fn no_upper(file: &LabFile, name: &str) -> String {
    nobody(name, "host or switch", hosts(file).chain(switches(file)))
}

/// Problem of a change, a sentence.
type Done = Result<(), String>;

struct Applied {
    lab: Lab,
    relaxed: Vec<String>,
    notes: Vec<String>,
}

impl Applied {
    fn file(&self) -> &LabFile {
        self.lab.file()
    }

    fn edit(&mut self, edit: impl FnOnce(&mut LabFile)) -> Done {
        self.lab = self.lab.edited(edit).map_err(|error| error.problem.to_string())?;
        Ok(())
    }

    /// Splits `NODE.SETTING`, if there is such a node.
    fn setting_of<'a>(&self, path: &'a str) -> Option<(Node, &'a str)> {
        let (name, setting) = path.rsplit_once('.')?;
        Some((find(self.file(), name)?, setting))
    }

    fn constant(&mut self, change: &Change) -> Done {
        let Change::Set { path, value } = change else { return Ok(()) };
        let is_constant = self.lab.constants().any(|constant| constant.path() == *path);
        if !is_constant && self.setting_of(path).is_some() {
            return Ok(());
        }
        let name = path.split_once('.').filter(|(_, setting)| {
            let settings = [&OF_HOST[..], &OF_SWITCH, &OF_ENDPOINT].concat();
            !is_constant && settings.contains(setting)
        });
        if let Some((name, _)) = name {
            let file = self.file();
            let nodes = hosts(file).chain(switches(file)).chain(endpoints(file));
            return Err(nobody(name, "host, switch or endpoint", nodes));
        }
        let number = value.parse::<f64>().ok().filter(|value| value.is_finite());
        let number = number.ok_or_else(|| {
            format!("{value} is not a number, and others are changed in the lab file only")
        })?;
        let lab = self.lab.with_constant(path, number);
        self.lab = lab.map_err(|error| error.problem.to_string())?;
        Ok(())
    }

    /// Returns the link above an endpoint or a switch.
    fn above(&self, name: &str) -> Result<usize, String> {
        let file = self.file();
        match find(file, name) {
            Some(Node::Host(_)) => Err("no link is above a host".to_owned()),
            None => {
                let nodes = switches(file).chain(endpoints(file));
                Err(nobody(name, "switch or endpoint", nodes))
            }
            Some(_) => file.link_above(name).ok_or_else(|| format!("no link is above {name}")),
        }
    }

    fn place(&mut self, change: &Change) -> Done {
        let Change::Move { node, place } = change else { return Ok(()) };
        let link = self.above(node)?;
        // Ports keep their names, whatever else is moved.
        self.edit(tree::name_ports)?;
        let file = self.file();
        if let Some(other) = place.strip_prefix(SWAP) {
            return self.swap((node, link), (other, self.above(other)?));
        }
        let (upper, port) = match place.split_once('.') {
            Some((upper, port)) => (upper, Some(port)),
            None => (place.as_str(), None),
        };
        let upper = match find(file, upper) {
            Some(Node::Host(index)) => file.hosts[index].name.clone(),
            Some(Node::Switch(index)) => file.switches[index].name.clone(),
            Some(Node::Endpoint(_)) => {
                return Err(format!("{upper} is an endpoint; {SWAP}{upper} exchanges the two"));
            }
            None => {
                if let Some(taken) = tree::at_port(file, upper) {
                    let lower = &taken.lower;
                    return Err(format!("{lower} is at {upper}; {SWAP}{lower} exchanges the two"));
                }
                return Err(no_upper(file, upper));
            }
        };
        if tree::is_below(file, &upper, node) {
            return Err(match upper == *node {
                true => "it cannot be below itself".to_owned(),
                false => format!("{upper} is below {node}"),
            });
        }
        self.plug_into((node, link), upper, port)
    }

    /// Checks that no card stands for the root port that it leaves in a rule of peers.
    fn check_peers(&self, node: &str) -> Done {
        let file = self.file();
        let is_moved = |name: &&String| *name == node || tree::is_below(file, name, node);
        let mut named = file.peers.iter().flat_map(|peers| [&peers.first, &peers.second]);
        named.find(is_moved).map_or(Ok(()), |name| {
            Err(format!(
                "{name} stands for its root port in [[peers]]: name another node below that port \
                 there"
            ))
        })
    }

    /// Moves a node, with the link above it, to a port of a host or a switch: a new one, that of a
    /// socket, or one of a name.
    fn plug_into(
        &mut self,
        (node, link): (&str, usize),
        upper: String,
        port: Option<&str>,
    ) -> Done {
        self.check_peers(node)?;
        let file = self.file();
        let root = tree::root_link(file, link).map(|root| &file.links[root]);
        let host = file.hosts.iter().find(|host| host.name == upper);
        let number = port.and_then(|port| port.strip_prefix(SOCKET));
        let number = number.filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let socket = match (host, number) {
            (Some(host), Some(number)) => {
                let count = host.part.parameters.socket_count();
                let number = number.parse().ok().filter(|number| *number < count);
                Some(number.ok_or_else(|| format!("{upper} has {count} sockets, from 0 on"))?)
            }
            _ => None,
        };
        // A new root port has what the old one was set to. Below a switch, the switch's has.
        let (limit, own) = match (host, root) {
            (Some(_), Some(root)) => (root.max_payload_limit_bytes, root.socket),
            _ => (None, 0),
        };
        let port = match port.filter(|_| socket.is_none()) {
            Some(port) => {
                let mut links = file.links.iter().enumerate();
                let has_it = |(at, it): &(usize, &LinkInstance)| {
                    *at != link && it.upper == upper && it.upper_port.as_deref() == Some(port)
                };
                if let Some((_, taken)) = links.find(has_it) {
                    let lower = &taken.lower;
                    return Err(format!(
                        "{lower} is at {upper}.{port}; {SWAP}{lower} exchanges the two"
                    ));
                }
                port.to_owned()
            }
            None => tree::free_port(file, &upper),
        };
        self.edit(|file| {
            let link = &mut file.links[link];
            (link.upper, link.upper_port) = (upper, Some(port));
            (link.max_payload_limit_bytes, link.socket) = (limit, socket.unwrap_or(own));
        })?;
        self.fit(node, link)
    }

    /// Exchanges the ports of two nodes. The links stay with their lower ends, as far as the other
    /// port allows.
    fn swap(&mut self, (node, first): (&str, usize), (other, second): (&str, usize)) -> Done {
        let file = self.file();
        let is_above = |upper: &str, lower: &str| tree::is_below(file, lower, upper);
        if is_above(node, other) || is_above(other, node) {
            return Err(format!("one of {node} and {other} is below the other"));
        }
        self.check_peers(node)?;
        self.check_peers(other)?;
        self.edit(|file| {
            let port = |link: usize| {
                let link = &file.links[link];
                let limit = link.max_payload_limit_bytes;
                (link.upper.clone(), link.upper_port.clone(), limit, link.socket)
            };
            let ports = [port(second), port(first)];
            for (link, (upper, name, limit, socket)) in [first, second].into_iter().zip(ports) {
                let link = &mut file.links[link];
                (link.upper, link.upper_port) = (upper, name);
                (link.max_payload_limit_bytes, link.socket) = (limit, socket);
            }
        })?;
        self.fit(node, first)?;
        self.fit(other, second)
    }

    /// Makes a link that was moved, and what is below it, fit its port: the link has the port's
    /// rate if that is less, and functions have Max_Payload_Size of their tree, as a kernel sets it
    /// when it finds them.
    fn fit(&mut self, node: &str, link: usize) -> Done {
        let file = self.file();
        let able = tree::upper_port(file, link).capability.max_rate;
        let rate = file.links[link].parameters.rate;
        let slower = LinkRate {
            generation: rate.generation.min(able.generation),
            width: rate.width.min(able.width),
        };
        if slower != rate {
            let upper = &file.links[link].upper;
            self.notes.push(format!("the link of {node} is {slower}: {upper} has no faster port"));
        }
        let below = (0..self.file().endpoints.len())
            .filter(|index| tree::is_below(self.file(), &self.file().endpoints[*index].name, node));
        let below: Vec<usize> = below.collect();
        self.edit(|file| {
            file.links[link].parameters.rate = slower;
            for index in below {
                let able = file.endpoints[index].part.port.capability.max_payload_bytes;
                requester(file, index, |requester, registers| {
                    if registers.max_write_bytes {
                        requester.max_write_bytes = able.into();
                    }
                });
            }
        })
    }

    fn link(&mut self, change: &Change) -> Done {
        let Change::Link { node, rate } = change else { return Ok(()) };
        let (link, rate) = (self.above(node)?, *rate);
        let mut raised = Vec::new();
        let mut raise = |port: &mut PortParameters, name: &str| {
            let able = &mut port.capability.max_rate;
            let best = LinkRate {
                generation: able.generation.max(rate.generation),
                width: able.width.max(rate.width),
            };
            if best != *able {
                raised.push(format!("{name} ({able})"));
                *able = best;
            }
        };
        self.edit(|file| {
            let upper = file.links[link].upper.clone();
            raise(tree::upper_port_mut(file, link), &format!("the ports of {upper}"));
            raise(tree::lower_port_mut(file, link), node);
            file.links[link].parameters.rate = rate;
        })?;
        if !raised.is_empty() {
            let raised = raised.join(" and ");
            self.notes.push(format!("{rate} of {node} is more than {raised} can do: raised"));
        }
        Ok(())
    }

    fn acs(&mut self, change: &Change) -> Done {
        let Change::Acs { node, redirects } = change else { return Ok(()) };
        let redirects = *redirects;
        let file = self.file();
        let host = |it: &HostInstance| it.part.port.capability.acs;
        let switch = |it: &SwitchInstance| it.part.downstream.capability.acs;
        match node {
            None => {
                let able = file.hosts.iter().any(host) || file.switches.iter().any(switch);
                if redirects && !able {
                    return Err("no port of the lab has ACS".to_owned());
                }
                self.edit(|file| {
                    file.hosts.iter_mut().for_each(|it| it.acs = redirects && host(it));
                    file.switches.iter_mut().for_each(|it| it.acs = redirects && switch(it));
                })
            }
            Some(name) => {
                let (able, node) = match find(file, name) {
                    Some(node @ Node::Host(index)) => (host(&file.hosts[index]), node),
                    Some(node @ Node::Switch(index)) => (switch(&file.switches[index]), node),
                    Some(Node::Endpoint(_)) => {
                        return Err(format!("{name} is an endpoint; hosts and switches redirect"));
                    }
                    None => return Err(no_upper(file, name)),
                };
                if redirects && !able {
                    return Err(format!("the ports of {name} do not have ACS"));
                }
                self.edit(|file| match node {
                    Node::Host(index) => file.hosts[index].acs = redirects,
                    Node::Switch(index) => file.switches[index].acs = redirects,
                    Node::Endpoint(_) => {}
                })
            }
        }
    }

    fn setting(&mut self, change: &Change) -> Done {
        let Change::Set { path, value } = change else { return Ok(()) };
        if self.lab.constants().any(|constant| constant.path() == *path) {
            return Ok(());
        }
        let Some((node, setting)) = self.setting_of(path) else { return Ok(()) };
        match (node, setting) {
            (_, "mps") => self.max_payload(node, parse_register_size(value)?),
            (Node::Host(index), "mrrs") => self.host_reads(index, parse_register_size(value)?),
            (Node::Endpoint(index), "mrrs") => self.reads(index, parse_register_size(value)?),
            (Node::Host(index), "iommu") => self.iommu(index, switched(value)?),
            (Node::Endpoint(index), "tags") => self.tags(index, value),
            (Node::Endpoint(index), "relaxed-ordering") => {
                let name = self.file().endpoints[index].name.clone();
                self.relaxed.retain(|other| *other != name);
                self.relaxed.extend(switched(value)?.then_some(name));
                Ok(())
            }
            (node, setting) => {
                let (what, settings) = match node {
                    Node::Host(_) => ("a host", &OF_HOST[..]),
                    Node::Switch(_) => ("a switch", &OF_SWITCH[..]),
                    Node::Endpoint(_) => ("an endpoint", &OF_ENDPOINT[..]),
                };
                let settings = settings.join(", ");
                Err(format!("{what} has no setting {setting}; it has {settings}"))
            }
        }
    }

    /// Sets Max_Payload_Size below the root port of a node, or below all those of a host: all
    /// functions of a tree have to take the same (PCIe 6.x 2.2.2).
    fn max_payload(&mut self, node: Node, bytes: u32) -> Done {
        let file = self.file();
        let roots: Vec<usize> = match node {
            Node::Host(index) => tree::root_links(file, &file.hosts[index].name),
            Node::Switch(index) => tree::root_of(file, &file.switches[index].name),
            Node::Endpoint(index) => tree::root_of(file, &file.endpoints[index].name),
        };
        for root in &roots {
            let (name, able) = tree::least_payload(file, *root);
            if bytes > able {
                return Err(format!("{name} supports payloads of {able} B at most"));
            }
        }
        let below: Vec<usize> =
            roots.iter().flat_map(|root| tree::endpoints(file, *root)).collect();
        let notes = below.iter().filter_map(|index| {
            let (name, part) = (&file.endpoints[*index].name, &file.endpoints[*index].part);
            let built = part.parameters.requester.max_write_bytes;
            let is_less = !part.registers.max_write_bytes && built < bytes;
            is_less.then(|| format!("{name} still builds writes of {built} B at most"))
        });
        let notes: Vec<String> = notes.collect();
        self.notes.extend(notes);
        self.edit(|file| {
            if let Node::Host(index) = node {
                file.hosts[index].max_payload_limit_bytes = Some(bytes);
            }
            roots.iter().for_each(|root| file.links[*root].max_payload_limit_bytes = Some(bytes));
            for index in below {
                requester(file, index, |requester, registers| {
                    if registers.max_write_bytes {
                        requester.max_write_bytes = bytes;
                    }
                });
            }
        })
    }

    /// Sets Max_Read_Request_Size of all functions of a host.
    fn host_reads(&mut self, host: usize, bytes: u32) -> Done {
        let below = tree::of_host(self.file(), host);
        self.edit(|file| {
            file.hosts[host].max_read_request_bytes = bytes;
            for index in below {
                requester(file, index, |requester, registers| {
                    if registers.max_read_bytes {
                        requester.max_read_bytes = bytes;
                    }
                });
            }
        })
    }

    /// Sets Max_Read_Request_Size of an endpoint. A lab has one for all functions of a host, so
    /// that if it is raised the others keep theirs as the longest read that they ask for.
    fn reads(&mut self, endpoint: usize, bytes: u32) -> Done {
        let file = self.file();
        let (name, part) = (&file.endpoints[endpoint].name, &file.endpoints[endpoint].part);
        let built = part.parameters.requester.max_read_bytes;
        let is_less = !part.registers.max_read_bytes && built < bytes;
        let note = is_less.then(|| format!("{name} still asks for {built} B at most"));
        let host = tree::host_of(file, name).ok_or("it is below no host")?;
        let before = file.hosts[host].max_read_request_bytes;
        let others = tree::of_host(file, host);
        self.notes.extend(note);
        self.edit(|file| {
            file.hosts[host].max_read_request_bytes = before.max(bytes);
            for index in others {
                requester(file, index, |requester, registers| {
                    let longest = &mut requester.max_read_bytes;
                    *longest = match index == endpoint {
                        true if registers.max_read_bytes => bytes,
                        true => bytes.min(*longest),
                        false => before.min(*longest),
                    };
                });
            }
        })
    }

    fn iommu(&mut self, host: usize, translates: bool) -> Done {
        let HostInstance { name, part, .. } = &self.file().hosts[host];
        if translates == part.parameters.iommu.is_some() {
            return Ok(());
        }
        let note = format!(
            "the constants of {name}'s IOMMU are those of {FITTED_IOMMU}, with pages of 2 MiB"
        );
        self.notes.extend(translates.then_some(note));
        let iommu = translates.then(fitted_iommu).transpose()?;
        self.edit(|file| Arc::make_mut(&mut file.hosts[host].part).parameters.iommu = iommu)
    }

    fn tags(&mut self, endpoint: usize, value: &str) -> Done {
        let part = &self.file().endpoints[endpoint].part;
        let tags = value.parse().map_err(|_| format!("{value} is not a number of tags"))?;
        let asked = RequesterParameters { tags, ..part.parameters.requester };
        asked.check().map_err(|error| error.to_string())?;
        if tags > PLAIN_TAGS && !part.port.capability.extended_tags {
            let name = &self.file().endpoints[endpoint].name;
            self.notes.push(format!("{name} does not support Extended Tags: assumed that it does"));
        }
        self.edit(|file| {
            requester(file, endpoint, |requester, _| requester.tags = tags);
            let part = Arc::make_mut(&mut file.endpoints[endpoint].part);
            part.port.capability.extended_tags |= tags > PLAIN_TAGS;
        })
    }
}

/// Changes the requester of an endpoint, and of no other with the same part.
fn requester(
    file: &mut LabFile,
    endpoint: usize,
    edit: impl FnOnce(&mut RequesterParameters, RequesterRegisters),
) {
    let part: &mut EndpointPart = Arc::make_mut(&mut file.endpoints[endpoint].part);
    edit(&mut part.parameters.requester, part.registers);
}

/// Returns the IOMMU whose constants are fitted to measurements, with the super pages that were
/// turned off for these.
fn fitted_iommu() -> Result<IommuParameters, String> {
    let lab = Lab::load(FITTED_IOMMU).map_err(|error| error.to_string())?;
    let iommu = lab.file().hosts.first().and_then(|host| host.part.parameters.iommu);
    let iommu = iommu.ok_or_else(|| format!("{FITTED_IOMMU} has no IOMMU"))?;
    Ok(IommuParameters { largest_page_bytes: IO_LARGE_PAGE_BYTES, ..iommu })
}
