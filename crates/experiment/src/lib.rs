// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads and their runs, in a lab or on cards. The data moved are checked; the run is
//! timed by the application and by the engine, and compared with what the links can carry.
//!
//! Read first: [`Workload`], transfers by the driver; [`Scenario`], a run in a lab of
//! [engines](EngineWork), [generic requesters](TrafficWork), [stores](StoreWork), [gets](GetWork),
//! [exchanges](HaloOptions) or [tests of torus links](SoakOptions), and [`TwoNodes`], of a bridge;
//! [`Measured`], the measurement of a transfer; [`sweep`] and [`fit`], over many runs.
//!
//! A workload needs opened [`Device`](crosslane_driver::Device)s and nothing else; it claims
//! channel 0 of the kinds that it uses and gives them back. Runs in a lab are
//! [checked](crosslane_lab::CheckedRun): they have a time limit, are run until nothing is left to
//! do, and fail if a port detects an error.

#![forbid(unsafe_code)]

mod acceptance;
mod account;
mod bridged;
mod card_transfer;
mod chain;
mod error;
pub mod fit;
mod halo;
mod latency;
mod link_soak;
mod measured;
mod mmio;
mod neighbour;
mod nget;
mod operation_rates;
mod operations;
mod options;
mod overhead;
mod packets;
pub mod parallel;
pub mod pattern;
mod peer_memory;
mod rdma;
mod route;
mod scenario;
pub mod sweep;
mod topology;
mod traffic;
mod transfer;
mod two_nodes;
mod workload;

pub use acceptance::{AcceptanceOptions, accept};
pub use account::{Carrier, Ceiling, DataTlps, LinkLoad, direction_name, least_ceiling};
pub use bridged::{
    BridgePlan, BridgedMeasured, BridgedOptions, PeekCard, bridge_report, bridged,
    bridged_checked_by, overlaps,
};
pub use card_transfer::{CardDirection, card_transfer};
pub use chain::{Loopback, chain, loopback};
pub use crosslane_driver::{DescriptorSource, MemoryCard, Notification};
pub use crosslane_lab::Progress;
pub use crosslane_results::quantity::{
    MAX_SIZE_BYTES, SizeList, SizeRange, parse_payload, parse_register_size, parse_size,
};
pub use error::{ExperimentError, Result};
pub use halo::lattice::{self, Lattice};
pub use halo::{HaloMeasured, HaloNode, HaloOptions, HaloOutcome, Tori, halo_on};
pub use latency::{RoundTrips, latency};
pub use link_soak::{EndSoaked, SoakOptions, SoakOutcome, soak_links, soak_on};
pub use measured::{DataErrors, HardwareTime, Measured, Measuring, Verified};
pub use mmio::{MmioMeasured, MmioOptions, Program, StoreWork, mmio};
pub use neighbour::{OneWay, OneWayOptions, SendWay, one_way};
pub use nget::{
    GetWork, MAX_IN_FLIGHT, NgetMeasured, NgetOptions, NgetOutcome, host_of, nget, nget_on,
};
pub use operation_rates::operation_rates;
pub use operations::{CardLink, OperationOptions, operations, published_read};
pub use options::{Options, Registration, default_in_flight, default_operations};
pub use overhead::{OverheadOptions, overhead};
pub use packets::{PacketOptions, packets};
pub use rdma::{RdmaDirection, RdmaMeasured, RdmaOptions, rdma, rdma_target};
pub use route::{Cargo, route};
pub use scenario::{Outcome, Scenario, Work, unless_over};
pub use topology::topology;
pub use traffic::{
    Choices, FlowArgument, FlowRequest, PlannedFlow, TrafficFlow, TrafficOutcome, TrafficWork,
    at_once, kind_word,
};
pub use transfer::{peer_memory_write, peer_read, peer_write, read, write};
pub use two_nodes::{BridgeOutcome, BridgeWork, LabClient, TwoNodes};
pub use workload::{
    End, Ends, EngineWork, Flow, FlowEnds, Measurement, NoObserver, Observer, Together, Workload,
    WorkloadFlow, WorkloadOutcome, observed, together,
};
