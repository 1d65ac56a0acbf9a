// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of nodes on the path: latencies, redirection of peer requests, the rate between ports of
//! a root complex, translation of addresses, and cores.

use crosslane_fabric::LinkDirection;
use crosslane_fabric::parameters::{Forwarding, Parameters, PeerReadParameters, PeerToPeer};
use crosslane_results::LimitKind;

use super::memories::rate_words;
use super::requesters::latency;
use super::ways::{PortRef, Requester, Target, Transfer};
use super::{NO_TIME, Spots, lift};

/// The best rule for transfers between root ports.
const AT_ONCE: PeerToPeer =
    PeerToPeer::Allowed { latency: NO_TIME, bytes_per_second: f64::INFINITY };

pub(super) fn find(spots: &mut Spots<'_>) {
    redirection(spots);
    between_root_ports(spots);
    peer_reads(spots);
    between_sockets(spots);
    switches(spots);
    let mut endpoints: Vec<(usize, bool)> = Vec::new();
    for transfer in &spots.ways.transfers {
        let generic = matches!(transfer.requester, Requester::Generic(_));
        endpoints.extend(transfer.requester.endpoint().map(|index| (index, generic)));
        if let Target::Lane(index) | Target::Memory(index) = transfer.target {
            endpoints.push((index, false));
        }
    }
    // A node that is also a generic requester counts as one.
    endpoints.sort_by_key(|(index, generic)| (*index, !generic));
    endpoints.dedup_by_key(|(index, _)| *index);
    endpoints.into_iter().for_each(|(index, generic)| latency(spots, index, generic));
    cores(spots);
}

/// Peer requests that pass a switch upwards and come down by the same switch were redirected.
fn redirection(spots: &mut Spots<'_>) {
    let (file, ways) = (spots.file, spots.ways);
    let mut switches: Vec<usize> = Vec::new();
    for transfer in ways.transfers.iter().filter(|it| !matches!(it.target, Target::Host(_))) {
        let ports = |way: LinkDirection| {
            let directions = transfer.requests.iter().filter(move |it| it.heading == way);
            directions.map(|it| ways.ends(*it)).map(|(from, to)| (from.parameters, to.parameters))
        };
        for (_, port) in ports(LinkDirection::Up) {
            let PortRef::Down(switch) = port else { continue };
            let redirects = file.switches[switch].acs
                && ports(LinkDirection::Up).any(|(from, _)| from == PortRef::Up(switch))
                && ports(LinkDirection::Down).any(|(from, _)| from == port);
            if redirects && !switches.contains(&switch) {
                switches.push(switch);
            }
        }
    }
    for index in switches {
        let words = "the redirection of peer requests (ACS) by {}";
        spots.add(LimitKind::AcsRedirect, &file.switches[index].name, words, "off", move |file| {
            file.switches[index].acs = false;
        });
    }
}

/// The rate or the time from one root port to another.
fn between_root_ports(spots: &mut Spots<'_>) {
    let ways = spots.ways;
    let passes = |transfer: &Transfer| {
        !matches!(transfer.requester, Requester::Core(_))
            && !matches!(transfer.target, Target::Host(_))
            && ways.reaches_root(transfer)
    };
    let words_of = |rule: PeerToPeer| match rule {
        PeerToPeer::Allowed { bytes_per_second: rate, .. } if rate.is_finite() => {
            Some(format!("the {} that {{}} passes on between", rate_words(rate)))
        }
        PeerToPeer::Allowed { latency, .. } if latency > NO_TIME => {
            Some(format!("the {latency} that {{}} takes between"))
        }
        _ => None,
    };
    let own = |transfer: &Transfer| ways.peers(spots.file, transfer);
    let passes = |transfer: &Transfer, of_sockets: bool| {
        passes(transfer)
            && own(transfer).is_none()
            && ways.crosses_sockets(spots.file, transfer) == of_sockets
    };
    for index in ways.hosts(|transfer| passes(transfer, false)) {
        let host = &spots.file.hosts[index];
        let words = match host.part.parameters.peer_to_peer {
            PeerToPeer::Allowed { latency, bytes_per_second: rate } if rate.is_infinite() => {
                (latency > NO_TIME)
                    .then(|| format!("the {latency} that {{}} takes from a root port to the next"))
            }
            rule => words_of(rule).map(|words| format!("{words} its root ports")),
        };
        let Some(words) = words else { continue };
        spots.host(index, LimitKind::PeerToPeer, words, "any rate, at once", move |part| {
            part.parameters.peer_to_peer = AT_ONCE;
        });
    }
    for index in ways.hosts(|transfer| passes(transfer, true)) {
        let Some(sockets) = spots.file.hosts[index].part.parameters.sockets else { continue };
        let Some(words) = words_of(sockets.peer_to_peer) else { continue };
        let words = format!("{words} root ports of different sockets");
        spots.host(index, LimitKind::PeerToPeer, words, "any rate, at once", move |part| {
            let Some(sockets) = &mut part.parameters.sockets else { return };
            sockets.peer_to_peer = AT_ONCE;
        });
    }
    let mut pairs: Vec<usize> = ways.transfers.iter().filter_map(own).collect();
    pairs.sort_unstable();
    pairs.dedup();
    for index in pairs {
        let pair = &spots.file.peers[index];
        let Some(words) = words_of(pair.peer_to_peer) else { continue };
        let words = format!("{words} the root ports of {} and {}", pair.first, pair.second);
        let host = spots.file.root_link(&pair.first).map(|link| &spots.file.links[link].upper);
        let host = host.map_or("", String::as_str);
        spots.add(LimitKind::PeerToPeer, host, words, "any rate, at once", move |file| {
            file.peers[index].peer_to_peer = AT_ONCE;
        });
    }
}

/// The lines into which reads of peers are cut on their way through a root complex.
fn peer_reads(spots: &mut Spots<'_>) {
    let ways = spots.ways;
    let reads = |transfer: &Transfer| {
        transfer.reads
            && !matches!(transfer.requester, Requester::Core(_))
            && !matches!(transfer.target, Target::Host(_))
            && ways.reaches_root(transfer)
    };
    for index in ways.hosts(reads) {
        let Some(lines) = spots.file.hosts[index].part.parameters.peer_reads else { continue };
        let PeerReadParameters { split_bytes, at_once } = lines;
        let words = format!(
            "the lines of {split_bytes} B, {at_once} at once, into which {{}} cuts reads of peers"
        );
        spots.host(index, LimitKind::PeerReads, words, "whole reads", |part| {
            part.parameters.peer_reads = None;
        });
    }
}

/// The rate or the time from one socket to another, of hosts that have several.
fn between_sockets(spots: &mut Spots<'_>) {
    let ways = spots.ways;
    for index in ways.hosts(|transfer| ways.reaches_root(transfer)) {
        let Some(sockets) = spots.file.hosts[index].part.parameters.sockets else { continue };
        let hop = sockets.hop;
        let words = match hop.bytes_per_second {
            rate if rate.is_finite() => {
                format!("the {} from one socket of {{}} to another", rate_words(rate))
            }
            _ => format!("the {} from one socket of {{}} to another", hop.latency),
        };
        spots.host(index, LimitKind::SocketHop, words, "any rate, at once", |part| {
            let Some(sockets) = &mut part.parameters.sockets else { return };
            sockets.hop = sockets.hop.fastest();
        });
    }
}

fn switches(spots: &mut Spots<'_>) {
    let ports = spots.ways.ports().into_iter();
    let mut on_the_way: Vec<usize> = ports
        .filter_map(|port| match port.parameters {
            PortRef::Up(index) | PortRef::Down(index) => Some(index),
            PortRef::Root(_) | PortRef::Endpoint(_) => None,
        })
        .collect();
    on_the_way.sort_unstable();
    on_the_way.dedup();
    for index in on_the_way {
        let switch = &spots.file.switches[index];
        let p = switch.part.parameters;
        if let Some(crossbar) = p.crossbar {
            let words = match (crossbar.tlp_interval, crossbar.port_tlp_interval) {
                _ if crossbar.bytes_per_second.is_finite() => {
                    format!("the {} of all TLPs in {{}}", rate_words(crossbar.bytes_per_second))
                }
                (time, _) if time > NO_TIME => {
                    format!("the {time} from a TLP to the next in {{}}")
                }
                (_, time) => format!("the {time} from a TLP of a port to its next in {{}}"),
            };
            spots.add(LimitKind::Crossbar, &switch.name, words, "any rate", move |file| {
                let part = std::sync::Arc::make_mut(&mut file.switches[index].part);
                part.parameters.crossbar = None;
            });
        }
        let words = match p.forwarding {
            Forwarding::CutThrough if p.latency == NO_TIME => continue,
            Forwarding::CutThrough => format!("the {} in {{}}", p.latency),
            Forwarding::StoreAndForward => {
                format!("the {} in {{}}, which keeps each TLP until it is whole", p.latency)
            }
        };
        spots.add(LimitKind::SwitchLatency, &switch.name, words, "none", move |file| {
            let part = std::sync::Arc::make_mut(&mut file.switches[index].part);
            part.parameters.latency = NO_TIME;
            part.parameters.forwarding = Forwarding::CutThrough;
        });
    }
}

/// Stores and loads of cores: of their own flows, and of the driver's program.
fn cores(spots: &mut Spots<'_>) {
    let ways = spots.ways;
    for index in ways.hosts(|transfer| !matches!(transfer.requester, Requester::Generic(_))) {
        let cpu = &spots.file.hosts[index].part.parameters.cpu;
        if cpu.uncached_store + cpu.uncached_load > NO_TIME {
            let words = format!("the {} for each store of a core of {{}}", cpu.uncached_store);
            spots.host(index, LimitKind::Processor, words, "none", |part| {
                lift!(part.parameters.cpu => uncached_store, uncached_load);
            });
        }
    }
}

/// IOMMUs of hosts: misses of an IOTLB, and their page table walks. An engine's descriptors and
/// status are in host memory, so its requests are always translated; a core's are not.
pub(super) fn find_iommus(spots: &mut Spots<'_>) {
    let ways = spots.ways;
    let is_translated = |transfer: &Transfer| match transfer.requester {
        Requester::Engine(_) | Requester::Processor(_) | Requester::Nic(_) => true,
        Requester::Generic(_) => ways.reaches_root(transfer),
        Requester::Core(_) => false,
    };
    for index in ways.hosts(is_translated) {
        let iommu = spots.file.hosts[index].part.parameters.iommu;
        let Some(iommu) = iommu.filter(|iommu| iommu.walk > NO_TIME) else { continue };
        let pages = match iommu.iotlb_entries {
            0 => "that holds no page".to_owned(),
            1 => "of one page".to_owned(),
            entries => format!("of {entries} pages"),
        };
        let at_once = match iommu.walks {
            0 | 1 => "one at once".to_owned(),
            walks => format!("{walks} at once"),
        };
        let walk = iommu.walk;
        let words = format!("misses of {{}}'s IOTLB {pages}, walks of {walk} for them, {at_once}");
        // A miss that takes no time equals a hit, even the first one of a page.
        spots.host(index, LimitKind::Iotlb, words, "every page held", |part| {
            part.parameters.iommu.iter_mut().for_each(|p| lift!(p => walk));
        });
    }
}
