// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TLPs that carry a flow's data: how many, and how long.
//!
//! Writes are counted by the requester. Completions are worked out from the rules by which the
//! completer cuts them, since its counters do not part one flow from another.

use crate::DataTlps;
use crosslane_driver::LINE_BYTES;
use crosslane_fabric::parameters::{CompleterParameters, CompletionCut};
use crosslane_fabric::{Fabric, FlowKind, FlowReport, FlowSource, NodeKind, Region};
use crosslane_lab::{Lab, RunningLab};
use crosslane_pcie::ceiling::COMPLETION_HEADER_DW;
use crosslane_pcie::split::{self, SingleUnits};
use crosslane_pcie::units::BusAddress;

use super::plan::PlannedFlow;

/// Operations that the cuts are worked out for; their addresses repeat sooner or later.
const SAMPLE_OPERATIONS: u64 = 4096;

/// TLPs with the data of a flow's writes, and of its reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTlps {
    /// Memory writes.
    pub write: Option<DataTlps>,
    /// Completions.
    pub read: Option<DataTlps>,
}

/// Requests and completions of some operations, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    operations: u64,
    pub tlps: u64,
    /// Payload on the wire, in whole double words.
    pub payload_bytes: u64,
}

impl Cuts {
    fn add(&mut self, address: BusAddress, bytes: u32) {
        self.tlps += 1;
        self.payload_bytes += (address.0 % 4 + u64::from(bytes)).next_multiple_of(4);
    }

    /// Counts the requests of an operation.
    fn write(&mut self, address: BusAddress, bytes: u64, limit_bytes: u32) {
        self.operations += 1;
        split::requests(address, bytes, limit_bytes).for_each(|(at, bytes)| self.add(at, bytes));
    }

    /// Counts the completions of an operation, whose requests are as long as `limit_bytes`.
    pub fn read(
        &mut self,
        address: BusAddress,
        bytes: u64,
        limit_bytes: u32,
        completions: &mut Completions,
    ) {
        self.operations += 1;
        self.answers(split::requests(address, bytes, limit_bytes), completions);
    }

    /// Counts the completions of read requests.
    pub fn answers(
        &mut self,
        requests: impl Iterator<Item = (BusAddress, u32)>,
        completions: &mut Completions,
    ) {
        for (at, bytes) in requests {
            completions.of(at, bytes).for_each(|(at, bytes)| self.add(at, bytes));
        }
    }

    /// Returns the shape for another number of operations.
    fn scaled(self, planned: &PlannedFlow, operations: u64, header_dw: u32) -> Option<DataTlps> {
        let scale = |count: u64| {
            (u128::from(count) * u128::from(operations) / u128::from(self.operations.max(1))) as u64
        };
        (operations > 0).then(|| DataTlps {
            tlps: scale(self.tlps).max(1),
            data_bytes: operations * planned.flow.operation_bytes,
            wire_payload_bytes: scale(self.payload_bytes),
            header_dw,
        })
    }
}

/// First addresses of a flow's operations, each once.
fn addresses(planned: &PlannedFlow) -> impl Iterator<Item = BusAddress> {
    let flow = &planned.flow;
    let period = (flow.window_bytes / flow.stride_bytes()).max(1);
    let count = flow.operations.min(period).min(SAMPLE_OPERATIONS);
    (0..count).map(|operation| flow.address(operation))
}

/// Cutting of a sequence of reads by a completer whose port is set to payloads of a given size.
pub struct Completions {
    completer: CompleterParameters,
    payload_bytes: u32,
    single_units: SingleUnits,
}

impl Completions {
    pub fn new(completer: CompleterParameters, payload_bytes: u32) -> Self {
        let single_units = SingleUnits::new(completer.completion_single_share);
        Self { completer, payload_bytes, single_units }
    }

    /// The completions of the next read.
    fn of(&mut self, at: BusAddress, bytes: u32) -> impl Iterator<Item = (BusAddress, u32)> + '_ {
        let rcb = self.completer.read_completion_boundary_bytes;
        let longest = self.completer.longest_completion(bytes).min(self.payload_bytes);
        let cuts = match self.completer.completion_cut {
            CompletionCut::Longest => split::completions(at, bytes, rcb, longest),
            CompletionCut::Aligned => split::completions_aligned(at, bytes, rcb, longest),
        };
        cuts.flat_map(move |whole| self.single_units.cut(whole, rcb))
    }
}

/// Longest write and longest read request of a flow's requester, bytes.
fn request_limits(file: &Lab, fabric: &Fabric, planned: &PlannedFlow) -> (u32, u32) {
    if planned.flow.region == Region::WriteCombined {
        return (LINE_BYTES as u32, LINE_BYTES as u32);
    }
    if let Some(bytes) = planned.flow.tlp_bytes {
        return (bytes, bytes);
    }
    let FlowSource::Endpoint(node) = planned.flow.source else {
        return (CORE_ACCESS_BYTES, CORE_ACCESS_BYTES);
    };
    let node = fabric.node(node);
    let config = node.ports.first().map(|&port| &fabric.port(port).config);
    let (payload, read) = config
        .map_or((128, 128), |config| (config.max_payload_bytes(), config.max_read_request_bytes()));
    let instance = file.file().endpoints.iter().find(|endpoint| endpoint.name == node.name);
    instance.map_or((payload, read), |endpoint| {
        let requester = &endpoint.part.parameters.requester;
        (payload.min(requester.max_write_bytes), read.min(requester.max_read_bytes))
    })
}

/// Width of an uncached access of a core, unless another one is asked for, bytes.
pub(super) const CORE_ACCESS_BYTES: u32 = 8;

/// The completer of the flow's reads, and the Max_Payload_Size of its port in bytes.
fn completer(
    file: &Lab,
    fabric: &Fabric,
    planned: &PlannedFlow,
) -> Option<(CompleterParameters, u32)> {
    let node = fabric.node(planned.target_node);
    // The port by which its completions leave.
    let first = planned.completions.first()?;
    let (port, _) = fabric.direction_ends(*first);
    let payload_bytes = fabric.port(port).config.max_payload_bytes();
    let lab = file.file();
    let parameters = if node.kind == NodeKind::RootComplex {
        lab.hosts.iter().find(|host| host.name == node.name)?.part.parameters.completer
    } else {
        let endpoints = &lab.endpoints;
        endpoints.iter().find(|other| other.name == node.name)?.part.parameters.completer
    };
    Some((parameters, payload_bytes))
}

/// The lines that streaming loads of an operation read: the first address, and all bytes.
const fn whole_lines(at: BusAddress, bytes: u64) -> (BusAddress, u64) {
    let skip = at.0 % LINE_BYTES;
    (BusAddress(at.0 - skip), (skip + bytes).next_multiple_of(LINE_BYTES))
}

/// Counts the TLPs that carried the flow's data.
pub fn data_tlps(
    file: &Lab,
    lab: &RunningLab,
    planned: &PlannedFlow,
    report: &FlowReport,
) -> FlowTlps {
    let fabric = &lab.fabric;
    let (write_bytes, read_bytes) = request_limits(file, fabric, planned);
    let mut tlps = FlowTlps::default();
    let (flow, operations) = (&planned.flow, report.operations);
    if flow.kind != FlowKind::Read {
        let header_dw = if flow.target.needs_four_dw_header() { 4 } else { 3 };
        let mut cuts = Cuts::default();
        addresses(planned).for_each(|at| cuts.write(at, flow.operation_bytes, write_bytes));
        tlps.write = cuts.scaled(planned, operations, header_dw);
        if let (Some(write), FlowKind::Write) = (&mut tlps.write, flow.kind) {
            // The requester counts its TLPs, and these are all of them.
            write.tlps = report.tlps.max(1);
        }
    }
    if flow.kind != FlowKind::Write {
        tlps.read = completer(file, fabric, planned).and_then(|(completer, payload_bytes)| {
            let mut completions = Completions::new(completer, payload_bytes);
            let mut cuts = Cuts::default();
            let is_streaming = flow.region == Region::WriteCombined;
            for at in addresses(planned) {
                let (at, bytes) = match is_streaming {
                    true => whole_lines(at, flow.operation_bytes),
                    false => (at, flow.operation_bytes),
                };
                cuts.read(at, bytes, read_bytes, &mut completions);
            }
            cuts.scaled(planned, operations, COMPLETION_HEADER_DW)
        });
    }
    tlps
}
