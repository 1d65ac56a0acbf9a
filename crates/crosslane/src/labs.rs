// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files: the shipped ones, constants with their provenance, and the check of a file. The check
//! builds the lab and its variants, warns of cards whose datapath is slower than their link, and
//! notes links that share a slower one, peers without a route, and links in FLIT mode.

use std::collections::BTreeMap;

use crosslane_experiment::topology;
use crosslane_fabric::parameters::PeerToPeer;
use crosslane_lab::file::PeersInstance;
use crosslane_lab::{Lab, LabError, shipped};
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_pcie::link::{FLIT_BYTES, FLIT_TLP_BYTES};
use crosslane_results::quantity::megabytes;
use crosslane_results::topology::{Function, FunctionKind, Host, Topology};
use crosslane_results::{
    LabCheck, LabConstant, LabConstants, LabFileCheck, LabList, LabRemark, LabRemarkKind,
    LabSummary, VariantSummary,
};

/// Header of a memory write below 4 GiB, DW (PCIe 6.x 2.2.4).
const HEADER_DW: u32 = 3;
/// Placeholder for the nodes in the sentence of a remark.
const NODES: &str = "{}";

/// Lists the shipped labs with their variants.
///
/// # Errors
/// A lab that has a problem.
pub fn list() -> Result<LabList, LabError> {
    let labs = shipped().iter().map(|shipped| {
        let variants = variants(&Lab::load(shipped.name)?);
        let (name, summary) = (shipped.name.to_owned(), shipped.summary.to_owned());
        Ok(LabSummary { name, summary, variants })
    });
    Ok(LabList { labs: labs.collect::<Result<_, LabError>>()? })
}

fn variants(lab: &Lab) -> Vec<VariantSummary> {
    let variants = lab.file().variants.iter();
    let summary = |name: &String, summary: &String| VariantSummary {
        name: name.clone(),
        summary: summary.clone(),
    };
    variants.map(|variant| summary(&variant.name, &variant.summary)).collect()
}

/// Lists the constants of a lab that are in force.
pub fn constants(lab: &Lab) -> LabConstants {
    let constants = lab.constants().map(|constant| LabConstant {
        path: constant.path(),
        value: constant.value.clone(),
        low: constant.range.map(|range| range.low.to_string()),
        high: constant.range.map(|range| range.high.to_string()),
        unit: constant.unit.to_owned(),
        provenance: constant.provenance.word().to_owned(),
        source: constant.source.clone(),
        line: constant.line,
    });
    LabConstants {
        lab: lab.name().to_owned(),
        summary: lab.summary().to_owned(),
        source: lab.file().source.clone(),
        variant: lab.variant().map(str::to_owned),
        variants: variants(lab),
        constants: constants.collect(),
    }
}

/// Checks a lab file and every variant in it.
///
/// # Errors
/// The first problem of the file.
pub fn check_file(path: &str) -> Result<LabFileCheck, LabError> {
    let lab = Lab::load(path)?;
    let mut checked = vec![check_lab(&lab)?];
    for variant in &lab.file().variants {
        checked.push(check_lab(&lab.with_variant(&variant.name)?)?);
    }
    Ok(LabFileCheck { file: path.to_owned(), checked })
}

/// Builds a lab and examines its topology.
///
/// # Errors
/// A lab that cannot be built.
pub fn check_lab(lab: &Lab) -> Result<LabCheck, LabError> {
    lab.extremes()?;
    let running = lab.build(1)?;
    let topology = topology(lab, &running);
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    for host in &topology.hosts {
        host.all_functions().filter_map(|it| datapath(lab, it)).for_each(|it| warnings.push(it));
        host.all_functions().filter_map(uplink).for_each(|it| notes.push(it));
        notes.extend(peers(lab, host));
        host.all_functions().filter_map(flits).for_each(|it| notes.push(it));
    }
    Ok(LabCheck {
        lab: lab.name().to_owned(),
        variant: lab.variant().map(str::to_owned),
        hosts: running.hosts.len(),
        links: running.fabric.links().len(),
        functions: topology.functions().count(),
        constants: lab.constants().count(),
        warnings: joined(warnings),
        notes: joined(notes),
    })
}

/// Lists remarks on hosts that forbid requests between endpoints of the lab.
pub fn forbidden_peers(lab: &Lab, topology: &Topology) -> Vec<LabRemark> {
    joined(topology.hosts.iter().flat_map(|host| peers(lab, host)).collect())
}

/// Joins equal remarks on different nodes, and names the nodes in the sentence.
fn joined(remarks: Vec<LabRemark>) -> Vec<LabRemark> {
    let mut joined: Vec<LabRemark> = Vec::new();
    for remark in remarks {
        match joined.iter_mut().find(|known| known.sentence == remark.sentence) {
            Some(known) => known.nodes.extend(remark.nodes),
            None => joined.push(remark),
        }
    }
    for remark in &mut joined {
        let nodes = match &remark.nodes[..] {
            [first, _, ..] => format!("{first} and {} more", remark.nodes.len() - 1),
            nodes => nodes.concat(),
        };
        remark.sentence = remark.sentence.replace(NODES, &nodes);
    }
    joined
}

fn remark(kind: LabRemarkKind, node: &str, sentence: String) -> LabRemark {
    LabRemark { kind, nodes: vec![node.to_owned()], sentence }
}

/// Warns of a card whose datapath cannot fill its link with writes of the longest payload.
fn datapath(lab: &Lab, function: &Function) -> Option<LabRemark> {
    let link = function.link.as_ref().filter(|_| function.kind == FunctionKind::Endpoint)?;
    let mut endpoints = lab.file().endpoints.iter();
    let part = &endpoints.find(|endpoint| endpoint.name == function.node)?.part;
    let requester = &part.parameters.requester;
    let (bytes, clock) = (requester.datapath_bytes, requester.clock);
    // Of the devices only engines, and endpoints without a device, move data through it.
    let is_other = part.memory_card.is_some() || part.nic.is_some();
    if bytes == 0 || is_other || part.network_processor.is_some() {
        return None;
    }
    let is_with_header = part.engine.is_none_or(|engine| engine.header_on_datapath);
    let header = if is_with_header { 4 * HEADER_DW } else { 0 };
    let payload = link.payload_bytes.min(requester.max_write_bytes);
    let clocks = (payload + header).div_ceil(bytes);
    let rate = f64::from(payload) / (f64::from(clocks) * clock.as_seconds());
    let ceiling = write_ceiling_bytes_per_second(link.link_rate()?, HEADER_DW, payload);
    let sentence = format!(
        "the datapath of {NODES}, {bytes} B each {clock}, carries {} MB/s of payload in TLPs of \
         {payload} B, and its link, {}, {} MB/s",
        megabytes(rate),
        link.rate(),
        megabytes(ceiling),
    );
    let remark = remark(LabRemarkKind::Datapath, &function.node, sentence);
    (rate < ceiling).then_some(remark)
}

/// Notes a switch whose links below carry more together than the one above.
fn uplink(function: &Function) -> Option<LabRemark> {
    let above = function.link.as_ref().filter(|_| function.kind == FunctionKind::UpstreamPort)?;
    let below = function.children.iter().flat_map(|port| &port.children);
    let below: Vec<f64> =
        below.filter_map(|it| Some(it.link.as_ref()?.ceiling.raw_bytes_per_second)).collect();
    let (count, together) = (below.len(), below.iter().sum::<f64>());
    let most = above.ceiling.raw_bytes_per_second;
    let sentence = format!(
        "the {count} links below {NODES} carry {} MB/s together, and its link up, {}, {} MB/s",
        megabytes(together),
        above.rate(),
        megabytes(most),
    );
    let remark = remark(LabRemarkKind::Oversubscribed, &function.node, sentence);
    (together > most).then_some(remark)
}

/// Notes a function whose link runs in FLIT mode.
fn flits(function: &Function) -> Option<LabRemark> {
    let rate = function.link.as_ref()?.link_rate()?;
    let sentence = format!(
        "the link of {NODES} runs in FLIT mode: its rate is modelled ({FLIT_TLP_BYTES} of \
         {FLIT_BYTES} bytes of a FLIT carry TLPs, which have neither framing nor LCRC, and DLLPs \
         take none of them), not its headers, its replay by FLIT, and the wait for whole FLITs and \
         their error correction"
    );
    let remark = remark(LabRemarkKind::FlitMode, &function.node, sentence);
    rate.generation.is_flit().then_some(remark)
}

/// Notes the root ports of a host that do not reach each other.
fn peers(lab: &Lab, host: &Host) -> Vec<LabRemark> {
    let file = lab.file();
    let (allowed, forbidden): (Vec<&PeersInstance>, Vec<&PeersInstance>) = file
        .peers
        .iter()
        .filter(|peers| {
            let link = file.root_link(&peers.first);
            link.is_some_and(|link| file.links[link].upper == host.name)
        })
        .partition(|peers| peers.peer_to_peer != PeerToPeer::Forbidden);
    let pairs = forbidden.into_iter().map(|pair| {
        let PeersInstance { first, second, allowed_key: key, .. } = pair;
        let sentence = format!(
            "{NODES} forbids peer-to-peer between the root ports of {first} and {second} ({key} \
             is false)"
        );
        remark(LabRemarkKind::ForbiddenPeers, &host.name, sentence)
    });
    forbidding(lab, host, &allowed).into_iter().chain(pairs).collect()
}

/// Notes endpoints below several root ports of a host that forbids requests between these, or
/// between those of different sockets, but for some pairs.
fn forbidding(lab: &Lab, host: &Host, allowed: &[&PeersInstance]) -> Option<LabRemark> {
    let mut hosts = lab.file().hosts.iter();
    let part = &hosts.find(|instance| instance.name == host.name)?.part;
    let ports = host.functions.iter().filter_map(|port| {
        let functions = port.walk().into_iter();
        let endpoints = functions.filter(|it| it.kind == FunctionKind::Endpoint);
        let names: Vec<&str> = endpoints.map(|endpoint| endpoint.node.as_str()).collect();
        (!names.is_empty()).then(|| (port.socket.unwrap_or(0), names.join(", ")))
    });
    let ports: Vec<(u16, String)> = ports.collect();
    let (within, between) = (part.parameters.peer_to_peer, part.parameters.sockets);
    let between = between.map(|sockets| sockets.peer_to_peer);
    let apart = |names: Vec<String>| (names.len() > 1).then(|| names.join(" | "));
    let mut of_sockets: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (socket, names) in &ports {
        of_sockets.entry(*socket).or_default().push(names.clone());
    }
    let (what, key, names) = match (within, between) {
        (PeerToPeer::Forbidden, Some(PeerToPeer::Allowed { .. })) => {
            // Those of different sockets reach each other.
            let names: Vec<String> = of_sockets.into_values().filter_map(apart).collect();
            let names = (!names.is_empty()).then(|| names.join("; "));
            ("root ports of one socket", &part.peer_to_peer_keys[0], names)
        }
        (PeerToPeer::Forbidden, _) => {
            let names = apart(ports.into_iter().map(|(_, names)| names).collect());
            ("its root ports", &part.peer_to_peer_keys[0], names)
        }
        (_, Some(PeerToPeer::Forbidden)) => {
            // All of a socket reach each other.
            let names = of_sockets.into_values().map(|names| names.join(", "));
            let names = apart(names.collect());
            ("root ports of different sockets", &part.peer_to_peer_keys[1], names)
        }
        _ => return None,
    };
    let names = names?;
    let except = allowed.iter().map(|it| format!("; but {} and {} do", it.first, it.second));
    let except: String = except.collect();
    let sentence = format!(
        "{NODES} forbids peer-to-peer between {what} ({key} is false), so that these do not reach \
         each other: {names}{except}"
    );
    Some(remark(LabRemarkKind::ForbiddenPeers, &host.name, sentence))
}
