// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Texts, simulations and flows that several tests begin with.

use crosslane_fabric::{Flow, FlowKind, FlowSource, NodeId, Region};
use crosslane_host::{FunctionInfo, Topology};
use crosslane_lab::{LabBus, Simulation, open, shipped};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

pub const fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

/// Returns the text of a shipped lab.
pub fn text(lab: &str) -> &'static str {
    shipped().iter().find(|shipped| shipped.name == lab).expect("it is shipped").text
}

/// Returns the text of a shipped lab's parts, without any instance.
pub fn parts(lab: &str) -> &'static str {
    text(lab).split("[[host]]").next().unwrap()
}

/// Returns the text of a shipped lab with its first `from` replaced; it must have one.
pub fn changed(lab: &str, from: &str, to: &str) -> String {
    assert!(text(lab).contains(from), "{from} is not in the lab {lab}");
    text(lab).replacen(from, to, 1)
}

/// Returns the lab `minimal` with a generic card, and its bus.
pub fn minimal() -> (Simulation, LabBus) {
    let simulation = Simulation::new(open("minimal").unwrap().build(1).unwrap());
    let bus = simulation.bus(HostId(0));
    (simulation, bus)
}

pub fn function(bus: &LabBus, name: &str) -> FunctionInfo {
    let mut functions = bus.functions().unwrap().into_iter();
    functions.find(|function| function.name == name).expect("it is in the lab")
}

/// Returns one write of an endpoint to a target.
pub fn write(from: NodeId, target: BusAddress, bytes: u64) -> Flow {
    Flow {
        name: "data".into(),
        source: FlowSource::Endpoint(from),
        kind: FlowKind::Write,
        target,
        window_bytes: bytes,
        operation_bytes: bytes,
        tlp_bytes: None,
        force: false,
        operations: 1,
        outstanding: 1,
        region: Region::Uncached,
        relaxed_ordering: false,
        scattered: false,
        start: Picoseconds::ZERO,
    }
}
