// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Instances: hosts, switches, endpoints and links, singly or in ranges such as `fpga{1..8}`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crosslane_fabric::parameters::{LinkParameters, PeerToPeer};
use crosslane_fabric::{MAX_NODES, MAX_SOCKETS};

use super::parts::{
    EndpointPart, PartKind, RootComplexPart, SwitchPart, link, peer_to_peer, wrong_kind,
};
use super::table::{Table, Word};
use super::{LabFile, Part, check_name, networks};
use crate::error::{Problem, Result, nearest};

/// Location of a host's DMA buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBuffers {
    /// Below 4 GiB: requests have the short header of 3 DW.
    Below4Gib,
    /// Above 4 GiB: requests have the long header of 4 DW.
    Above4Gib,
}

/// A host of a lab file.
#[derive(Clone, Debug)]
pub struct HostInstance {
    /// Name of the host, unique in the lab.
    pub name: String,
    /// Constants of the host.
    pub part: Arc<RootComplexPart>,
    /// Location of its programs' DMA buffers.
    pub buffers: HostBuffers,
    /// Socket whose memory they lie in.
    pub numa_node: u16,
    /// Max_Read_Request_Size set in its functions, bytes.
    pub max_read_request_bytes: u32,
    /// Largest Max_Payload_Size set in its functions, bytes, if the lab limits it.
    pub max_payload_limit_bytes: Option<u32>,
    /// Whether its root ports redirect peer-to-peer requests (ACS).
    pub acs: bool,
    pub(crate) span: Range<usize>,
}

/// A switch of a lab file.
#[derive(Clone, Debug)]
pub struct SwitchInstance {
    /// Name of the switch, unique in the lab.
    pub name: String,
    /// Constants of the switch.
    pub part: Arc<SwitchPart>,
    /// Whether its downstream ports redirect peer-to-peer requests (ACS).
    pub acs: bool,
    pub(crate) span: Range<usize>,
}

/// An endpoint of a lab file.
#[derive(Clone, Debug)]
pub struct EndpointInstance {
    /// Name of the endpoint, unique in the lab.
    pub name: String,
    /// Constants of the endpoint.
    pub part: Arc<EndpointPart>,
    pub(crate) span: Range<usize>,
}

/// A PCI Express link of a lab file.
#[derive(Clone, Debug)]
pub struct LinkInstance {
    /// Name of the host or switch above it.
    pub upper: String,
    /// Name of its port at the upper end, if the lab gives one.
    pub upper_port: Option<String>,
    /// Below a host: the socket of its root port.
    pub socket: u16,
    /// Name of the switch or endpoint below it.
    pub lower: String,
    /// Constants of the link.
    pub parameters: LinkParameters,
    /// Below a host: the largest Max_Payload_Size of the link's two ports and of all that is below
    /// it, bytes, apart from that of the host's other functions.
    pub max_payload_limit_bytes: Option<u32>,
    pub(crate) path: String,
    pub(crate) upper_span: Range<usize>,
    pub(crate) upper_port_span: Range<usize>,
    pub(crate) socket_span: Range<usize>,
    pub(crate) lower_span: Range<usize>,
    pub(crate) rate_span: Range<usize>,
}

/// A pair of root ports with a rule of its own for peers.
#[derive(Clone, Debug)]
pub struct PeersInstance {
    /// Name of a switch or endpoint below one of the root ports.
    pub first: String,
    /// Name of one below the other.
    pub second: String,
    /// Transfers between the two, either way.
    pub peer_to_peer: PeerToPeer,
    /// Path of its key `allowed`, for messages.
    pub allowed_key: String,
    pub(crate) path: String,
    pub(crate) first_span: Range<usize>,
    pub(crate) second_span: Range<usize>,
}

pub(super) type Parts<'a> = BTreeMap<String, Part<'a>>;

/// Expands a range `a{1..3}b` into its names; a plain name is returned alone.
pub(super) fn expand(table: &Table<'_>, key: &str, word: &Word) -> Result<Vec<Word>> {
    let bad = |problem: String| Err(table.bad(key, problem));
    let Some((head, rest)) = word.text.split_once('{') else {
        check_name(table, key, word)?;
        return Ok(vec![word.clone()]);
    };
    let Some((range, tail)) = rest.split_once('}') else {
        return bad(format!("\"{}\" opens a range and does not close it", word.text));
    };
    let ends = range
        .split_once("..")
        .and_then(|(first, last)| Some((first.parse::<u32>().ok()?, last.parse::<u32>().ok()?)));
    let Some((first, last)) = ends.filter(|(first, last)| first <= last) else {
        return bad(format!("{{{range}}} is not a range like {{1..8}}"));
    };
    let count = (last - first) as usize + 1;
    table.limit(key, &format!("names of {}", word.text), count, MAX_NODES)?;
    let name = |number| Word { text: format!("{head}{number}{tail}"), span: word.span.clone() };
    check_name(table, key, &name(last))?;
    Ok((first..=last).map(name).collect())
}

/// Returns an instance's part, with the instance's own keys on top.
pub(super) fn part_of<'a>(
    instance: &Table<'a>,
    parts: &Parts<'a>,
    needed: PartKind,
) -> Result<Table<'a>> {
    let name = instance.needed_word("part")?;
    let Some(part) = parts.get(&name.text) else {
        let same_kind = parts.iter().filter(|(_, part)| part.kind == needed);
        let suggestion = nearest(&name.text, same_kind.map(|(name, _)| name.as_str()));
        let problem = Problem::UnknownName { what: "part", name: name.text, suggestion };
        return Err(instance.error("part", problem));
    };
    if part.kind != needed {
        return Err(wrong_kind(instance, "part", &name.text, part.kind, needed));
    }
    Ok(part.table.under(instance))
}

fn names(instance: &Table<'_>) -> Result<Vec<Word>> {
    let word = instance.needed_word("name")?;
    expand(instance, "name", &word)
}

fn acs(instance: &Table<'_>, able: bool) -> Result<bool> {
    let wanted = instance.wish("acs")?;
    if wanted && !able {
        return Err(instance.bad("acs", "its part's ports do not have ACS (port.acs)".into()));
    }
    Ok(wanted)
}

/// Adds a name to those taken in the lab.
fn claim(instance: &Table<'_>, taken: &mut BTreeMap<String, usize>, word: &Word) -> Result<()> {
    let what = "hosts, switches and endpoints of a lab";
    instance.limit("name", what, taken.len() + 1, MAX_NODES)?;
    if let Some(&first) = taken.get(&word.text) {
        let first_line = instance.source.line(first);
        let problem = Problem::DuplicateName { name: word.text.clone(), first_line };
        return Err(instance.error("name", problem));
    }
    taken.insert(word.text.clone(), word.span.start);
    Ok(())
}

/// Reads all instances into `lab`.
pub(super) fn read<'a>(root: &Table<'a>, parts: &Parts<'a>, lab: &mut LabFile) -> Result<()> {
    let mut taken = BTreeMap::new();
    for table in root.list("host")? {
        lab.hosts.extend(host(&table, parts, &mut taken)?);
    }
    if lab.hosts.is_empty() {
        return Err(root.missing("[[host]]"));
    }
    root.limit("host", "hosts of a lab", lab.hosts.len(), usize::from(u16::MAX))?;
    for table in root.list("switch")? {
        table.only_known()?;
        let part = Arc::new(SwitchPart::read(&part_of(&table, parts, PartKind::Switch)?)?);
        let acs = acs(&table, part.downstream.capability.acs)?;
        for word in names(&table)? {
            claim(&table, &mut taken, &word)?;
            let (part, span) = (part.clone(), word.span);
            lab.switches.push(SwitchInstance { name: word.text, part, acs, span });
        }
    }
    for table in root.list("endpoint")? {
        table.only_known()?;
        let part = Arc::new(EndpointPart::read(&part_of(&table, parts, PartKind::Endpoint)?)?);
        for word in names(&table)? {
            claim(&table, &mut taken, &word)?;
            let (part, span) = (part.clone(), word.span);
            lab.endpoints.push(EndpointInstance { name: word.text, part, span });
        }
    }
    for table in root.list("link")? {
        links(&table, parts, lab)?;
    }
    for table in root.list("peers")? {
        peers(&table, lab)?;
    }
    for table in root.list("network")? {
        networks::networks(&table, parts, lab)?;
    }
    for table in root.list("torus")? {
        networks::torus(&table, parts, lab)?;
    }
    Ok(())
}

fn host<'a>(
    table: &Table<'a>,
    parts: &Parts<'a>,
    taken: &mut BTreeMap<String, usize>,
) -> Result<Vec<HostInstance>> {
    table.only_known()?;
    let part = Arc::new(RootComplexPart::read(&part_of(table, parts, PartKind::RootComplex)?)?);
    let regions = [HostBuffers::Below4Gib, HostBuffers::Above4Gib];
    let buffers = table.choice("buffers", &regions)?;
    let read_request = table.whole("max_read_request_bytes")? as u32;
    let limit = table.optional_whole("max_payload_limit_bytes")?.map(|bytes| bytes as u32);
    let acs = acs(table, part.port.capability.acs)?;
    let numa_node = socket(table, "numa_node")?;
    let count = part.parameters.socket_count();
    if numa_node >= count {
        return Err(table.bad("numa_node", no_socket(numa_node, count)));
    }
    let mut hosts = Vec::new();
    for word in names(table)? {
        claim(table, taken, &word)?;
        hosts.push(HostInstance {
            name: word.text,
            part: part.clone(),
            buffers,
            numa_node,
            max_read_request_bytes: read_request,
            max_payload_limit_bytes: limit,
            acs,
            span: word.span,
        });
    }
    Ok(hosts)
}

/// Reads the plain number of a socket: a place, not a constant.
fn socket(table: &Table<'_>, key: &str) -> Result<u16> {
    let number = table.plain_whole(key)?.unwrap_or(0);
    let most = MAX_SOCKETS - 1;
    let socket = u16::try_from(number).ok().filter(|socket| *socket <= most);
    socket.ok_or_else(|| table.bad(key, format!("{number} is not between 0 and {most}")))
}

/// Says that a host lacks a socket.
pub(crate) fn no_socket(socket: u16, count: u16) -> String {
    match count {
        1 => format!("there is no socket {socket}: its host has one, 0"),
        _ => format!("there is no socket {socket}: its host has {count}, from 0 on"),
    }
}

/// Links each upper with its share of the lowers: as many lowers as uppers, or a multiple.
fn links<'a>(table: &Table<'a>, parts: &Parts<'a>, lab: &mut LabFile) -> Result<()> {
    table.only_known()?;
    let with_part = match table.has("part") {
        true => part_of(table, parts, PartKind::Link)?,
        false => table.clone(),
    };
    let parameters = link(&with_part)?;
    let (upper, lower) = (table.needed_word("upper")?, table.needed_word("lower")?);
    let (uppers, lowers) = (expand(table, "upper", &upper)?, expand(table, "lower", &lower)?);
    if lowers.len() % uppers.len() != 0 {
        let problem = format!(
            "{} lower ends cannot be shared evenly by {} upper ends",
            lowers.len(),
            uppers.len()
        );
        return Err(table.bad("lower", problem));
    }
    let ports = match table.word("upper_port")? {
        None => None,
        Some(word) => Some(expand(table, "upper_port", &word)?),
    };
    if let Some(ports) = ports.as_ref().filter(|ports| ports.len() != lowers.len()) {
        let problem = format!("{} names for {} ports", ports.len(), lowers.len());
        return Err(table.bad("upper_port", problem));
    }
    table.limit("lower", "links of a lab", lab.links.len() + lowers.len(), MAX_NODES)?;
    let share = lowers.len() / uppers.len();
    let socket = socket(table, "socket")?;
    let limit = table.optional_whole("max_payload_limit_bytes")?.map(|bytes| bytes as u32);
    for (index, word) in lowers.into_iter().enumerate() {
        lab.links.push(LinkInstance {
            upper: uppers[index / share].text.clone(),
            upper_port: ports.as_ref().map(|ports| ports[index].text.clone()),
            socket,
            lower: word.text,
            parameters,
            max_payload_limit_bytes: limit,
            path: table.path().to_owned(),
            upper_span: upper.span.clone(),
            upper_port_span: table.span_of("upper_port"),
            socket_span: table.span_of("socket"),
            lower_span: word.span,
            rate_span: with_part.span_of("width"),
        });
    }
    Ok(())
}

/// Reads a pair of root ports.
fn peers(table: &Table<'_>, lab: &mut LabFile) -> Result<()> {
    table.only_known()?;
    table.limit("first", "pairs of a lab", lab.peers.len() + 1, MAX_NODES)?;
    let (first, second) = (table.needed_word("first")?, table.needed_word("second")?);
    lab.peers.push(PeersInstance {
        first: first.text,
        second: second.text,
        peer_to_peer: peer_to_peer(table)?,
        allowed_key: table.path_of("allowed"),
        path: table.path().to_owned(),
        first_span: first.span,
        second_span: second.span,
    });
    Ok(())
}
