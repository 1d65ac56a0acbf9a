// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that read each other, below one switch and through a root complex, whole and in lines, and
//! cards that write into each other's memory, one way and both.

use std::sync::Arc;

use crosslane_experiment::{
    EngineWork, FlowEnds, Options, Scenario, Workload, WorkloadOutcome, peer_memory_write,
    peer_read,
};
use crosslane_fabric::parameters::{PeerReadParameters, PeerToPeer};
use crosslane_lab::{Lab, open};
use crosslane_pcie::units::Picoseconds;

use crate::rosta::scene::Scene;

const LAB: &str = "rosta:memory";

/// The lab with ACS redirection in all switches, and a root complex that reads peers so.
fn through_root(peer_reads: Option<PeerReadParameters>) -> Lab {
    let lab = open(LAB).unwrap();
    lab.edited(|file| {
        file.switches.iter_mut().for_each(|switch| switch.acs = true);
        let part = &mut Arc::make_mut(&mut file.hosts[0].part).parameters;
        part.peer_reads = peer_reads;
        let latency = Picoseconds::from_ns(200);
        part.peer_to_peer = PeerToPeer::Allowed { latency, bytes_per_second: 4e9 };
    })
    .unwrap()
}

/// Runs flows between pairs of cards.
fn run(lab: Lab, workload: Workload, pairs: &[[&str; 2]]) -> WorkloadOutcome {
    let running = lab.build_engines(1).unwrap();
    let flows = pairs.iter().map(|cards| FlowEnds::find(&lab, &running, cards).unwrap()).collect();
    let outcome =
        Scenario::new(Arc::new(lab), EngineWork { workload, flows }).run(&(), None).unwrap();
    assert_eq!(outcome.errors, Vec::<String>::new());
    outcome
}

/// Rate of each flow, MB/s, and its share of the ceiling less DLLPs.
fn rates(outcome: &WorkloadOutcome) -> Vec<(f64, f64)> {
    let rate = |flow: &crosslane_experiment::WorkloadFlow| {
        let rate = flow.measured.hardware_bytes_per_second();
        let ceiling = flow.ceiling.as_ref().unwrap();
        (rate / 1e6, rate / ceiling.less_dllps_bytes_per_second)
    };
    outcome.flows.iter().map(rate).collect()
}

fn options() -> Options {
    Options::default().with_size_bytes(64 << 10).with_iterations(16).with_outstanding(8)
}

/// Below one switch reads are as fast as writes, one way and both.
#[test]
fn reads_of_a_peer_fill_the_link() {
    let (read, write) = (Workload::PeerRead(options()), Workload::Peer(options()));
    let one = [["fpga1", "fpga2"]];
    let both = [["fpga1", "fpga2"], ["fpga2", "fpga1"]];
    let lab = || open(LAB).unwrap();
    let [(reads, share)] = rates(&run(lab(), read, &one))[..] else { panic!("one flow") };
    let [(writes, _)] = rates(&run(lab(), write, &one))[..] else { panic!("one flow") };
    assert!((0.95..=1.001).contains(&share), "{share}");
    assert!((reads / writes - 1.0).abs() < 0.05, "{reads} {writes}");
    for (rate, share) in rates(&run(lab(), read, &both)) {
        // Requests and Acks take their part of the wire that the others' data use.
        assert!((0.9..=1.001).contains(&share), "{rate} {share}");
    }
}

/// Writes into a memory have the TLPs of those into a receive queue, and nothing to wait for.
#[test]
fn writes_into_a_peers_memory_fill_the_link() {
    let (memory, queue) = (Workload::PeerMemoryWrite(options()), Workload::Peer(options()));
    let one = [["fpga1", "fpga2"]];
    let both = [["fpga1", "fpga2"], ["fpga2", "fpga1"]];
    let lab = || open(LAB).unwrap();
    let [(into_memory, share)] = rates(&run(lab(), memory, &one))[..] else { panic!("one flow") };
    let [(into_queue, _)] = rates(&run(lab(), queue, &one))[..] else { panic!("one flow") };
    assert!((0.98..=1.001).contains(&share), "{share}");
    assert!((into_memory / into_queue - 1.0).abs() < 0.05, "{into_memory} {into_queue}");
    for (rate, share) in rates(&run(lab(), memory, &both)) {
        assert!((0.95..=1.001).contains(&share), "{rate} {share}");
    }
    let [(_, share)] = rates(&run(through_root(None), memory, &one))[..] else {
        panic!("one flow")
    };
    assert!((0.98..=1.001).contains(&share), "{share}");
}

/// Through the root complex: whole reads fill the link, lines of 64 B have 84 B on the wire, and
/// few lines at once are bound by their round trip.
#[test]
fn a_root_complex_that_cuts_reads_sets_their_rate() {
    let read = Workload::PeerRead(options());
    let lines = |at_once| Some(PeerReadParameters { split_bytes: 64, at_once });
    let rate = |peer_reads| rates(&run(through_root(peer_reads), read, &[["fpga1", "fpga2"]]))[0];
    let ((whole, whole_share), (cut, share)) = (rate(None), rate(lines(256)));
    assert!((0.9..=1.001).contains(&whole_share), "{whole} {whole_share}");
    assert!((0.9..=1.001).contains(&share), "{cut} {share}");
    assert!(cut < 0.9 * whole, "{cut} {whole}");
    let (four, _) = rate(lines(4));
    let (eight, _) = rate(lines(8));
    assert!(four < 0.2 * cut && (eight / four - 2.0).abs() < 0.2, "{four} {eight} {cut}");
    // Two cards that read each other through it, in few lines.
    let both = [["fpga1", "fpga2"], ["fpga2", "fpga1"]];
    let [(there, _), (back, _)] = rates(&run(through_root(lines(8)), read, &both))[..] else {
        panic!("two flows")
    };
    assert!(there + back < 1.2 * eight && there + back > 0.8 * eight, "{there} {back} {eight}");
}

#[test]
fn cards_without_memory_are_refused() {
    let scene = Scene::new("rosta:crosslane");
    let said = scene.refusal(async {
        let cards = scene.devices(&[1, 2]).await;
        peer_read(&cards[0], &cards[1], &options()).await
    });
    assert!(
        said.contains("fpga2 reads fpga1: fpga1 has no memory that others could read"),
        "{said}"
    );
    let scene = Scene::new(LAB);
    let said = scene.refusal(async {
        let cards = scene.devices(&[1, 2]).await;
        peer_read(&cards[0], &cards[1], &options().with_iterations(1 << 14)).await
    });
    assert!(said.contains("all need 1 GiB of fpga1, where 256 MiB can be reached"), "{said}");
    let scene = Scene::new("rosta:crosslane");
    let said = scene.refusal(async {
        let cards = scene.devices(&[1, 2]).await;
        peer_memory_write(&cards[0], &cards[1], &options()).await
    });
    assert!(
        said.contains("fpga1 writes fpga2: fpga2 has no memory that others could write"),
        "{said}"
    );
}
