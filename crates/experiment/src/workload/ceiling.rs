// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ceilings of flows of engines, for the TLPs that carried their data.
//!
//! Read first: [`crate::least_ceiling`].

use crosslane_driver::ChannelKind;
use crosslane_fabric::{DirectionId, Fabric};
use crosslane_lab::RunningHost;
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::units::BusAddress;
use crosslane_results::Ceiling;

use super::Workload;
use super::ends::FlowEnds;
use super::run::EngineWork;
use super::segments::Segment;
use crate::account::Counted;
use crate::ceiling::{Carrier, DataTlps};
use crate::links::direction_name;
use crate::measured::{Measured, channel_word};
use crate::route::{Cargo, route};
use crate::scenario::Scenario;
use crate::traffic::shape::{Completions, Cuts};

/// Returns the least ceiling along a flow's path, with the DLLPs that were counted.
pub fn flow_ceiling(
    scenario: &Scenario<EngineWork>,
    hosts: &[RunningHost],
    counted: &Counted<'_>,
    measured: &Measured,
    ends: &FlowEnds,
    path: &[Segment],
) -> Option<Ceiling> {
    let fabric = counted.fabric;
    let (carrier, tlps) = data_tlps(scenario, hosts, fabric, measured, ends);
    let path: Vec<DirectionId> = path.iter().flat_map(|it| &it.way).copied().collect();
    let ceiling = counted.ceiling(&path, tlps)?;
    // Behind the first card of a chain it is writes that carry the data.
    let reading = route(fabric, ends.memory.node, ends.cards[0].node, Cargo::Completions);
    let position = path.iter().position(|id| *id == ceiling.link);
    let is_behind = position.is_some_and(|position| position >= reading.len());
    let carrier = if is_behind { Carrier::Writes } else { carrier };
    Some(ceiling.result(carrier, tlps, direction_name(fabric, ceiling.link)))
}

/// Returns the TLPs that carried the data: writes are counted by the engine, completions worked out
/// from the rules by which the host's memory cuts them.
fn data_tlps(
    scenario: &Scenario<EngineWork>,
    hosts: &[RunningHost],
    fabric: &Fabric,
    measured: &Measured,
    ends: &FlowEnds,
) -> (Carrier, DataTlps) {
    let (lab, host) = (&scenario.lab, &hosts[ends.host]);
    // In a chain it is the reads that bound.
    let channel = &measured.channels[0];
    if channel.kind != channel_word(ChannelKind::H2c) {
        let target = match channel.kind == channel_word(ChannelKind::Peer) {
            true => {
                let receiver = host.tree.find(&ends.cards[1].name);
                receiver.and_then(|function| function.bars.get(1)).map(|bar| bar.base)
            }
            false => Some(BusAddress(host.buffers.start)),
        };
        let is_long = target.is_some_and(|address| address.needs_four_dw_header());
        let tlps = DataTlps {
            tlps: u64::from(channel.tlps),
            data_bytes: channel.bytes,
            wire_payload_bytes: channel.bytes,
            header_dw: if is_long { 4 } else { 3 },
        };
        return (Carrier::Writes, tlps);
    }
    let completer = lab.file().hosts[ends.host].part.parameters.completer;
    let path = route(fabric, ends.memory.node, ends.cards[0].node, Cargo::Completions);
    let (port, _) = fabric.direction_ends(path[0]);
    let payload_bytes = fabric.port(port).config.max_payload_bytes();
    let card = host.tree.find(&ends.cards[0].name);
    let longest = card.map_or(128, |function| {
        let parameters = &lab.file().endpoints;
        let card = parameters.iter().find(|endpoint| endpoint.name == function.name);
        let engine = card.and_then(|card| card.part.engine);
        engine.map_or(128, |engine| engine.max_read_bytes).min(function.max_read_request_bytes)
    });
    let (Workload::Read(options) | Workload::Chain(options)) = scenario.work.workload else {
        unreachable!("the two workloads that read")
    };
    let longest = options.payload_bytes.unwrap_or(longest);
    // Slots lie behind each other from the beginning of a page on.
    let slots = u64::from(options.outstanding).min(options.iterations);
    let mut cuts = Cuts::default();
    let mut completions = Completions::new(completer, payload_bytes);
    for slot in 0..slots {
        let start = BusAddress(slot * options.size_bytes);
        cuts.read(start, options.size_bytes, longest, &mut completions);
    }
    let tlps = DataTlps {
        tlps: cuts.tlps,
        data_bytes: slots * options.size_bytes,
        wire_payload_bytes: cuts.payload_bytes,
        header_dw: COMPLETION_HEADER_DW,
    };
    (Carrier::Completions, tlps)
}
