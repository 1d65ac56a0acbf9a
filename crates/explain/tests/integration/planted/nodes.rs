// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bottlenecks in nodes that forward TLPs: switches, root complex, ordering.

use std::sync::Arc;

use crosslane_experiment::{Options, Workload};
use crosslane_fabric::FlowKind;
use crosslane_fabric::parameters::{
    CrossbarParameters, HopParameters, PeerReadParameters, PeerToPeer as Passing, SocketParameters,
};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind::{
    AcsRedirect, Crossbar, EndpointLatency, LoadsInFlight, PeerReads, PeerToPeer, Processor,
    StrictOrdering, SwitchLatency,
};

use crate::planted::runs::{
    base, base_with, edited, generic, peers, switched_peers, through_driver, with_card, with_host,
};
use crate::planted::{PEERS, Planted, explained};

/// Peer requests go up to a root complex that forwards them slowly.
#[test]
fn redirected_peer_requests() {
    let run = |acs| {
        let lab = base_with(&[("part.host.peer_to_peer.gb_per_s", 1.0)]);
        switched_peers(edited(&lab, |file| file.switches[0].acs = acs))
    };
    let base = explained(&switched_peers(base()));
    let planted = Planted { case: run(true), without: run(false), base: &base };
    planted.is_named(AcsRedirect, "sw", "the redirection of peer requests (ACS) by sw");
}

#[test]
fn peers_at_two_root_ports() {
    let run = |latency, bytes_per_second| {
        let allowed = Passing::Allowed { latency, bytes_per_second };
        peers(with_host(|part| part.parameters.peer_to_peer = allowed))
    };
    let (slow, none) = (Picoseconds::from_ns(200), Picoseconds::ZERO);
    let planted = Planted { case: run(slow, 1e9), without: run(none, f64::INFINITY), base: &PEERS };
    let words = "the 1 GB/s that host0 passes on between its root ports";
    planted.is_named(PeerToPeer, "host0", words);
}

/// The rate of peers between sockets limits them, not the faster hop, which they pass too.
#[test]
fn peers_at_two_sockets() {
    let run = |bytes_per_second| {
        let hop = HopParameters { latency: Picoseconds::from_ns(60), bytes_per_second: 20e9 };
        let latency = Picoseconds::from_ns(300);
        let peer_to_peer = Passing::Allowed { latency, bytes_per_second };
        let sockets = SocketParameters { count: 2, hop, peer_to_peer };
        let lab = with_host(|part| part.parameters.sockets = Some(sockets));
        let lab = edited(&lab, |file| {
            let mut links = file.links.iter_mut();
            links.find(|link| link.lower == "card6").unwrap().socket = 1;
        });
        generic(lab, 256, &[("card5", "card6", FlowKind::Write, 4096)])
    };
    let base = explained(&run(f64::INFINITY));
    let planted = Planted { case: run(1e9), without: run(f64::INFINITY), base: &base };
    let words = "the 1 GB/s that host0 passes on between root ports of different sockets";
    planted.is_named(PeerToPeer, "host0", words);
}

/// Reads of a peer that the root complex makes line by line, few at once.
#[test]
fn reads_of_peers_in_lines() {
    let run = |peer_reads| {
        let lab = with_host(|part| part.parameters.peer_reads = peer_reads);
        generic(lab, 64, &[("card5", "card6", FlowKind::Read, 16 << 10)])
    };
    let base = explained(&run(None));
    let few = Some(PeerReadParameters { split_bytes: 64, at_once: 4 });
    let planted = Planted { case: run(few), without: run(None), base: &base };
    let words = "the lines of 64 B, 4 at once, into which host0 cuts reads of peers";
    planted.is_named(PeerReads, "host0", words);
}

/// Writes into a slow memory of card1 delay the completions of its reads.
#[test]
fn completions_behind_posted_writes() {
    let run = |slow, relaxed_reads| {
        let lab = match slow {
            true => with_card(1, |part| part.parameters.completer.write_bytes_per_second = 4e8),
            false => base(),
        };
        let read = ("card1", "host0", FlowKind::Read, 16 << 10);
        let flows = [read, ("card5", "card1", FlowKind::Write, 1024)];
        let mut run = generic(lab, 64, &flows);
        run.work.choices = run.work.choices.with_relaxed_reads(relaxed_reads);
        run
    };
    let base = explained(&run(false, false));
    let planted = Planted { case: run(true, false), without: run(true, true), base: &base };
    let words = "the completions for card1, which wait behind posted writes";
    planted.is_named(StrictOrdering, "card1", words);
}

/// A core's stores, eight bytes each.
#[test]
fn stores_of_a_core() {
    let run = |store, load| {
        let lab = base_with(&[
            ("part.host.cpu.uncached_store_ns", store),
            ("part.host.cpu.uncached_load_ns", load),
        ]);
        generic(lab, 1024, &[("host0", "card5", FlowKind::Write, 64)])
    };
    let base = explained(&run(5.0, 20.0));
    let planted = Planted { case: run(100.0, 20.0), without: run(0.0, 0.0), base: &base };
    planted.is_named(Processor, "host0", "the 100 ns for each store of a core of host0");
}

#[test]
fn latency_of_a_switch() {
    let run = |ns| {
        let lab = base_with(&[("part.sw.latency_ns", ns)]);
        let options = Options::ping_pong().with_iterations(100);
        through_driver(lab, Workload::Latency(options), &[&["card1", "card2"]])
    };
    let base = explained(&run(130.0));
    // In the base lab the two cards take longer than the switch.
    assert_eq!(base.steps[0].limits[0].kind, EndpointLatency);
    let base = crosslane_results::Explanation { trials: Vec::new(), ..base };
    let planted = Planted { case: run(2000.0), without: run(0.0), base: &base };
    let found = planted.is_named(SwitchLatency, "sw", "the 2 us in sw");
    assert!(found.steps[0].gain > 0.85 && found.steps[0].gain < 1.0, "a share of the latency");
}

/// Two flows through one switch, neither of which fills its links, share its crossbar.
#[test]
fn crossbar_of_a_switch() {
    let run = |rate: Option<f64>| {
        let lab = edited(&base(), |file| {
            let part = Arc::make_mut(&mut file.switches[0].part);
            part.parameters.crossbar = rate.map(|bytes_per_second| CrossbarParameters {
                bytes_per_second,
                tlp_interval: Picoseconds::ZERO,
                port_tlp_interval: Picoseconds::ZERO,
            });
        });
        let flows =
            [("card1", "card2", FlowKind::Write, 4096), ("card3", "card4", FlowKind::Write, 4096)];
        generic(lab, 64, &flows)
    };
    let base = explained(&run(None));
    let planted = Planted { case: run(Some(2e9)), without: run(None), base: &base };
    planted.is_named(Crossbar, "sw", "the 2 GB/s of all TLPs in sw");
}

/// A core with few loads in flight; of one that waits for each, `latency_of_loads` is the test.
#[test]
fn few_loads_of_a_core_at_once() {
    let run = |loads| {
        let lab = with_host(|part| part.parameters.cpu.loads_in_flight = loads);
        generic(lab, 1024, &[("host0", "card5", FlowKind::Read, 64)])
    };
    let base = explained(&run(64));
    let planted = Planted { case: run(2), without: run(64), base: &base };
    planted.is_named(LoadsInFlight, "host0", "the 2 loads at once of a core of host0");
}
