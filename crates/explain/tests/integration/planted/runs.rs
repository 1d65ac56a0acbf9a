// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs in the base lab, all so short that they are not shortened.

use std::sync::Arc;

use crosslane_experiment::{
    Choices, EngineWork, FlowEnds, FlowRequest, Options, Scenario, TrafficWork, Workload,
};
use crosslane_fabric::FlowKind;
use crosslane_lab::file::parts::{EndpointPart, RootComplexPart};
use crosslane_lab::{Lab, LabFile};

/// A run of engines.
pub type Engines = Scenario<EngineWork>;

/// The lab without a bottleneck.
pub fn base() -> Lab {
    Lab::from_text("base.toml", include_str!("base.toml")).unwrap()
}

/// Returns the base lab with other constants.
pub fn base_with(constants: &[(&str, f64)]) -> Lab {
    constants.iter().fold(base(), |lab, (path, value)| lab.with_constant(path, *value).unwrap())
}

/// Returns a lab with an edit beyond its constants.
pub fn edited(lab: &Lab, edit: impl FnOnce(&mut LabFile)) -> Lab {
    lab.edited(edit).unwrap()
}

/// Returns the base lab with another host.
pub fn with_host(edit: impl FnOnce(&mut RootComplexPart)) -> Lab {
    edited(&base(), |file| edit(Arc::make_mut(&mut file.hosts[0].part)))
}

/// Returns the base lab with one card that differs from the others: `number` as in its name.
pub fn with_card(number: usize, edit: impl FnOnce(&mut EndpointPart)) -> Lab {
    edited(&base(), |file| edit(Arc::make_mut(&mut file.endpoints[number - 1].part)))
}

/// Options for transfers of one size, 1 MiB together, `outstanding` in flight.
pub fn transfers(size_bytes: u64, outstanding: u32) -> Options {
    let iterations = (1 << 20) / size_bytes;
    Options::default()
        .with_size_bytes(size_bytes)
        .with_iterations(iterations)
        .with_outstanding(outstanding)
}

/// A run through the driver; each flow has its cards.
pub fn through_driver(lab: Lab, workload: Workload, flows: &[&[&str]]) -> Engines {
    let running = lab.build_engines(1).unwrap();
    let flows = flows.iter().map(|cards| FlowEnds::find(&lab, &running, cards).unwrap()).collect();
    Scenario::new(Arc::new(lab), EngineWork { workload, flows })
}

/// card5 writes to the host.
pub fn writes(lab: Lab) -> Engines {
    through_driver(lab, Workload::Write(transfers(1 << 16, 8)), &[&["card5"]])
}

/// card5 writes to the host, a page each time.
pub fn small_writes(lab: Lab) -> Engines {
    through_driver(lab, Workload::Write(transfers(1 << 12, 64)), &[&["card5"]])
}

/// The same with one transfer at a time.
pub fn one_at_a_time(lab: Lab) -> Engines {
    through_driver(lab, Workload::Write(transfers(1 << 12, 1)), &[&["card5"]])
}

/// card5 reads from the host.
pub fn reads(lab: Lab) -> Engines {
    through_driver(lab, Workload::Read(transfers(1 << 16, 8)), &[&["card5"]])
}

/// The same, a page each time.
pub fn small_reads(lab: Lab) -> Engines {
    through_driver(lab, Workload::Read(transfers(1 << 12, 64)), &[&["card5"]])
}

/// card5 writes to card6, through the root complex.
pub fn peers(lab: Lab) -> Engines {
    through_driver(lab, Workload::Peer(transfers(1 << 16, 8)), &[&["card5", "card6"]])
}

/// card1 writes to card2, below one switch.
pub fn switched_peers(lab: Lab) -> Engines {
    through_driver(lab, Workload::Peer(transfers(1 << 16, 8)), &[&["card1", "card2"]])
}

/// The four cards below the switch write to the host.
pub fn four_writes(lab: Lab) -> Engines {
    let flows: [&[&str]; 4] = [&["card1"], &["card2"], &["card3"], &["card4"]];
    let options = transfers(1 << 16, 8).with_iterations(8);
    through_driver(lab, Workload::Write(options), &flows)
}

/// The host streams through card5 and card6 and back to the host.
pub fn chain(lab: Lab) -> Engines {
    let options = transfers(1 << 18, 1).with_iterations(1);
    through_driver(lab, Workload::Chain(options), &[&["card5", "card6"]])
}

/// A run of generic requesters; each flow has a requester, a target, a kind and an operation size.
pub fn generic(
    lab: Lab,
    operations: u64,
    flows: &[(&str, &str, FlowKind, u64)],
) -> Scenario<TrafficWork> {
    let flows = flows.iter().map(|(from, to, kind, size)| FlowRequest::new(from, to, *kind, *size));
    let choices = Choices::default().with_operations(operations);
    let work = TrafficWork { flows: flows.collect(), choices, shuffle: false };
    Scenario::new(Arc::new(lab), work)
}
