// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ceilings of flows of engines, for the TLPs that carried their data.
//!
//! Read first: [`crate::least_ceiling`].

use crosslane_driver::ChannelKind;
use crosslane_fabric::{DirectionId, LinkCounters};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::split;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use crosslane_results::Ceiling;

use super::Workload;
use super::ends::FlowEnds;
use crate::ceiling::{Carrier, DataTlps, LinkLoad, least_ceiling};
use crate::links::direction_name;
use crate::measured::Measured;
use crate::route::{Cargo, route};
use crate::traffic::shape::Completions;

/// Returns the least ceiling along a flow's path, with the DLLPs that were counted in `span`.
pub fn flow_ceiling(
    simulation: &Simulation,
    ends: &FlowEnds,
    way: &[(DirectionId, LinkCounters)],
    span: Picoseconds,
    carrier: Carrier,
    tlps: DataTlps,
) -> Option<Ceiling> {
    simulation.with_fabric(|fabric| {
        let load = |(id, counters): &(DirectionId, LinkCounters)| LinkLoad {
            link: *id,
            rate: fabric.link(id.link).parameters.rate,
            dllp_bytes: counters.dllp_bytes,
            span,
        };
        let ceiling = least_ceiling(way.iter().map(load), tlps)?;
        // Behind the first card of a chain it is writes that carry the data.
        let reading = route(fabric, ends.memory.node, ends.cards[0].node, Cargo::Completions);
        let position = way.iter().position(|(id, _)| *id == ceiling.link);
        let is_behind = position.is_some_and(|position| position >= reading.len());
        let carrier = if is_behind { Carrier::Writes } else { carrier };
        Some(ceiling.result(carrier, tlps, direction_name(fabric, ceiling.link)))
    })
}

/// The TLPs that carried the data: writes are counted by the engine, completions worked out
/// from the rules by which the host's memory cuts them.
pub fn data_tlps(
    lab: &Lab,
    workload: &Workload,
    simulation: &Simulation,
    measured: &Measured,
    ends: &FlowEnds,
) -> (Carrier, DataTlps) {
    let host = &simulation.hosts()[ends.host];
    // In a chain it is the reads that bound.
    let channel = &measured.channels[0];
    if channel.kind != ChannelKind::H2c {
        let target = match channel.kind {
            ChannelKind::Peer => {
                let receiver = host.tree.find(&ends.cards[1].name);
                receiver.and_then(|function| function.bars.get(1)).map(|bar| bar.base)
            }
            _ => Some(BusAddress(host.buffers.start)),
        };
        let is_long = target.is_some_and(|address| address.needs_four_dw_header());
        let tlps = DataTlps {
            tlps: u64::from(channel.counters.tlps),
            data_bytes: channel.counters.bytes,
            wire_payload_bytes: channel.counters.bytes,
            header_dw: if is_long { 4 } else { 3 },
        };
        return (Carrier::Writes, tlps);
    }
    let completer = lab.file().hosts[ends.host].part.parameters.completer;
    let payload_bytes = simulation.with_fabric(|fabric| {
        let way = route(fabric, ends.memory.node, ends.cards[0].node, Cargo::Completions);
        let (port, _) = fabric.direction_ends(way[0]);
        fabric.port(port).config.max_payload_bytes()
    });
    let card = host.tree.find(&ends.cards[0].name);
    let longest = card.map_or(128, |function| {
        let parameters = &lab.file().endpoints;
        let card = parameters.iter().find(|endpoint| endpoint.name == function.name);
        let engine = card.and_then(|card| card.part.engine);
        engine.map_or(128, |engine| engine.max_read_bytes).min(function.max_read_request_bytes)
    });
    let (Workload::Read(options) | Workload::Chain(options)) = workload else {
        unreachable!("the two workloads that read")
    };
    let longest = options.payload_bytes.unwrap_or(longest);
    // Slots lie behind each other from the beginning of a page on.
    let slots = u64::from(options.outstanding).min(options.iterations);
    let mut tlps = DataTlps {
        tlps: 0,
        data_bytes: slots * options.size_bytes,
        wire_payload_bytes: 0,
        header_dw: COMPLETION_HEADER_DW,
    };
    let mut completions = Completions::new(completer, payload_bytes);
    for slot in 0..slots {
        let start = BusAddress(slot * options.size_bytes);
        for (at, bytes) in split::requests(start, options.size_bytes, longest) {
            for (at, bytes) in completions.of(at, bytes) {
                tlps.tlps += 1;
                tlps.wire_payload_bytes += (at.0 % 4 + u64::from(bytes)).next_multiple_of(4);
            }
        }
    }
    (Carrier::Completions, tlps)
}
