// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of nodes on the path: latencies, redirection of peer requests, the rate between ports of
//! a root complex, and cores.

use std::sync::Arc;

use crosslane_fabric::LinkDirection;
use crosslane_fabric::parameters::{Forwarding, PeerToPeer};
use crosslane_lab::LabFile;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

use super::Spot;
use super::memories::rate_words;
use super::requesters::latency;
use super::ways::{PortRef, Requester, Target, Transfer, Ways};

pub(super) fn spots(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut spots = redirection(file, ways);
    spots.extend(between_root_ports(file, ways));
    spots.extend(switches(file, ways));
    let mut endpoints: Vec<(usize, bool)> = Vec::new();
    for transfer in &ways.transfers {
        let generic = matches!(transfer.requester, Requester::Generic(_));
        endpoints.extend(transfer.requester.endpoint().map(|index| (index, generic)));
        if let Target::Lane(index) | Target::Memory(index) = transfer.target {
            endpoints.push((index, false));
        }
    }
    // A node that is also a generic requester counts as one.
    endpoints.sort_by_key(|(index, generic)| (*index, !generic));
    endpoints.dedup_by_key(|(index, _)| *index);
    let endpoints = endpoints.into_iter();
    spots.extend(endpoints.filter_map(|(index, generic)| latency(file, index, generic)));
    spots.extend(cores(file, ways));
    spots
}

/// Returns the downstream ports of switches through which a peer's requests come up.
fn comes_up_by(ways: &Ways, transfer: &Transfer) -> Vec<usize> {
    let up = transfer.requests.iter().filter(|direction| direction.heading == LinkDirection::Up);
    let ports = up.map(|direction| ways.ends(*direction).1.parameters);
    let switch = |port| if let PortRef::Down(index) = port { Some(index) } else { None };
    ports.filter_map(switch).collect()
}

/// Returns the switches through which a transfer comes down again.
fn comes_down_by(ways: &Ways, transfer: &Transfer) -> Vec<usize> {
    let down =
        transfer.requests.iter().filter(|direction| direction.heading == LinkDirection::Down);
    let ports = down.map(|direction| ways.ends(*direction).0.parameters);
    let switch = |port| if let PortRef::Down(index) = port { Some(index) } else { None };
    ports.filter_map(switch).collect()
}

/// Peer requests that pass a switch upwards and come down by the same switch were redirected.
fn redirection(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut switches: Vec<usize> = Vec::new();
    for transfer in ways.transfers.iter().filter(|it| !matches!(it.target, Target::Host(_))) {
        let down = comes_down_by(ways, transfer);
        for switch in comes_up_by(ways, transfer) {
            let passes_up = transfer.requests.iter().any(|direction| {
                direction.heading == LinkDirection::Up
                    && ways.ends(*direction).0.parameters == PortRef::Up(switch)
            });
            let redirects = passes_up && down.contains(&switch) && file.switches[switch].acs;
            if redirects && !switches.contains(&switch) {
                switches.push(switch);
            }
        }
    }
    let spot = |index: usize| {
        let words = "the redirection of peer requests (ACS) by {}";
        let edit = move |file: &mut LabFile| file.switches[index].acs = false;
        Spot::new(LimitKind::AcsRedirect, &file.switches[index].name, words, "off", edit)
    };
    switches.into_iter().map(spot).collect()
}

/// Returns whether a transfer goes from one root port to another.
fn passes_root_complex(ways: &Ways, transfer: &Transfer) -> bool {
    let is_root = |port: PortRef| matches!(port, PortRef::Root(_));
    let ends = |direction| ways.ends(direction);
    let is_own = matches!(transfer.requester, Requester::Core(_));
    !is_own
        && !matches!(transfer.target, Target::Host(_))
        && transfer.requests.iter().any(|direction| is_root(ends(*direction).1.parameters))
}

fn between_root_ports(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let passing = ways.transfers.iter().filter(|transfer| passes_root_complex(ways, transfer));
    let mut hosts: Vec<usize> = passing.map(|transfer| transfer.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let spot = |index: usize| {
        let host = &file.hosts[index];
        let PeerToPeer::Allowed { latency, bytes_per_second } = host.part.parameters.peer_to_peer
        else {
            return None;
        };
        let what = match bytes_per_second {
            rate if rate.is_finite() => format!("the {}", rate_words(rate)),
            _ if latency > Picoseconds::ZERO => format!("the {latency}"),
            _ => return None,
        };
        let words = match bytes_per_second.is_finite() {
            true => format!("{what} that {{}} passes on between its root ports"),
            false => format!("{what} that {{}} takes from a root port to the next"),
        };
        let edit = move |file: &mut LabFile| {
            let part = Arc::make_mut(&mut file.hosts[index].part);
            part.parameters.peer_to_peer =
                PeerToPeer::Allowed { latency: Picoseconds::ZERO, bytes_per_second: f64::INFINITY };
        };
        let kind = LimitKind::PeerToPeer;
        Some(Spot::new(kind, &host.name, words, "any rate, at once", edit))
    };
    hosts.into_iter().filter_map(spot).collect()
}

fn switches(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut on_the_way: Vec<usize> = ways
        .ports()
        .into_iter()
        .filter_map(|port| match port.parameters {
            PortRef::Up(index) | PortRef::Down(index) => Some(index),
            PortRef::Root(_) | PortRef::Endpoint(_) => None,
        })
        .collect();
    on_the_way.sort_unstable();
    on_the_way.dedup();
    let spot = |index: usize| {
        let switch = &file.switches[index];
        let p = switch.part.parameters;
        let words = match p.forwarding {
            Forwarding::CutThrough if p.latency == Picoseconds::ZERO => return None,
            Forwarding::CutThrough => format!("the {} in {{}}", p.latency),
            Forwarding::StoreAndForward => {
                format!("the {} in {{}}, which keeps each TLP until it is whole", p.latency)
            }
        };
        let edit = move |file: &mut LabFile| {
            let parameters = &mut Arc::make_mut(&mut file.switches[index].part).parameters;
            parameters.latency = Picoseconds::ZERO;
            parameters.forwarding = Forwarding::CutThrough;
        };
        Some(Spot::new(LimitKind::SwitchLatency, &switch.name, words, "none", edit))
    };
    on_the_way.into_iter().filter_map(spot).collect()
}

/// Stores and loads of cores: of their own flows, and of the driver's program.
fn cores(file: &LabFile, ways: &Ways) -> Vec<Spot> {
    let mut hosts: Vec<usize> = ways
        .transfers
        .iter()
        .filter_map(|transfer| match transfer.requester {
            Requester::Core(host) => Some(host),
            Requester::Engine(_) | Requester::Processor(_) => Some(transfer.host),
            Requester::Generic(_) => None,
        })
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let spot = |index: usize| {
        let host = &file.hosts[index];
        let cpu = &host.part.parameters.cpu;
        if cpu.uncached_store + cpu.uncached_load == Picoseconds::ZERO {
            return None;
        }
        let words = format!("the {} for each store of a core of {{}}", cpu.uncached_store);
        let edit = move |file: &mut LabFile| {
            let cpu = &mut Arc::make_mut(&mut file.hosts[index].part).parameters.cpu;
            cpu.uncached_store = Picoseconds::ZERO;
            cpu.uncached_load = Picoseconds::ZERO;
        };
        Some(Spot::new(LimitKind::Processor, &host.name, words, "none", edit))
    };
    hosts.into_iter().filter_map(spot).collect()
}
