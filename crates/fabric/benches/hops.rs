// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the fabric on one core: TLP-hops (one TLP over one link, DLLPs not counted), events,
//! and simulated against wall-clock time, with real bytes and every check of a normal run.
//!
//! `cargo bench -p crosslane-fabric --bench hops [-- REPEATS [SCENARIO [DIVISOR]]]`: number of
//! runs, part of a scenario's name, and divisor of its length (for instruction counts).

#[path = "../tests/integration/support/mod.rs"]
mod support;

use std::time::Instant;

use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::BusAddress;
use support::*;

struct Scenario {
    name: &'static str,
    make: fn() -> (Stand, Vec<Flow>),
}

/// Constants of a realistic board: latencies, finite credits, SKP, a DLLP for every other TLP.
fn real() -> Settings {
    let mut settings = Settings::board();
    settings.port.receive_credits = [
        Credits { header: 32, data: 512 },
        Credits { header: 32, data: 32 },
        Credits { header: 32, data: 512 },
    ];
    settings.port.ack.tlps = 2;
    settings.port.update_fc.tlps = 2;
    settings
}

fn flow(stand: &Stand, from: usize, kind: FlowKind, target: BusAddress, operations: u64) -> Flow {
    let mut flow = stand.flow(from, kind, target, 4096);
    flow.outstanding = 2;
    flow.window_bytes = 8 << 10;
    flow.operations = operations;
    flow
}

/// Each of ten endpoints writes to one on the other board, over four links each.
fn ten_peers() -> (Stand, Vec<Flow>) {
    let stand = two_boards(&real(), 5);
    let flows = (0..10).map(|n| flow(&stand, n, FlowKind::Write, stand.bar((n + 5) % 10), 6000));
    let flows = flows.collect();
    (stand, flows)
}

/// Five endpoints write to host memory, five read from it, over one uplink.
fn ten_to_host() -> (Stand, Vec<Flow>) {
    let stand = two_boards(&real(), 5);
    let flows = (0..10).map(|n| {
        let kind = if n % 2 == 0 { FlowKind::Write } else { FlowKind::Read };
        flow(&stand, n, kind, BusAddress((n as u64) << 20), 6000)
    });
    let flows = flows.collect();
    (stand, flows)
}

/// A thousand endpoints behind the switches of 32 hosts (a host has 256 bus numbers, a switch 32
/// downstream ports): each writes to its neighbour on the same switch.
fn thousand_peers() -> (Stand, Vec<Flow>) {
    let stand = many_hosts(&real(), 32, 32);
    let flows = (0..1000).map(|n| {
        let peer = n / 32 * 32 + (n + 1) % 32;
        flow(&stand, n, FlowKind::Write, stand.bar(peer), 100)
    });
    let flows = flows.collect();
    (stand, flows)
}

/// The same thousand endpoints: half of them write to their host's memory, half read from it.
fn thousand_to_host() -> (Stand, Vec<Flow>) {
    let stand = many_hosts(&real(), 32, 32);
    let flows = (0..1000).map(|n| {
        let kind = if n % 2 == 0 { FlowKind::Write } else { FlowKind::Read };
        flow(&stand, n, kind, BusAddress((n as u64 % 32) << 18), 50)
    });
    let flows = flows.collect();
    (stand, flows)
}

const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "10 endpoints, peer to peer", make: ten_peers },
    Scenario { name: "10 endpoints, to and from the host", make: ten_to_host },
    Scenario { name: "1,000 endpoints, peer to peer", make: thousand_peers },
    Scenario { name: "1,000 endpoints, to and from hosts", make: thousand_to_host },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let repeats = words.first().and_then(|word| word.parse().ok()).unwrap_or(5);
    let chosen = words.get(1).map_or("", String::as_str);
    let divisor: u64 = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    println!(
        "{:<36} {:>9} {:>11} {:>9} {:>9} {:>9}",
        "scenario (median of runs)", "M hops/s", "M events/s", "ns/hop", "sim/wall", "hops"
    );
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(chosen)) {
        let mut all_hops = 0;
        let mut runs: Vec<(f64, f64, f64)> = (0..repeats)
            .map(|_| {
                let (mut stand, mut flows) = (scenario.make)();
                for flow in &mut flows {
                    flow.operations = flow.operations.div_ceil(divisor);
                }
                let ids = stand.start(flows);
                let start = Instant::now();
                let end = stand.fabric.run(None);
                let wall = start.elapsed().as_secs_f64();
                assert_eq!(end, RunEnd::Quiet);
                assert_eq!(stand.fabric.errors(), &[]);
                for report in stand.reports(&ids) {
                    assert_eq!(report.errors, Vec::<String>::new());
                }
                all_hops = stand.fabric.tlp_hops();
                let hops = all_hops as f64 / wall;
                let events = stand.fabric.events_processed() as f64 / wall;
                (hops, events, stand.fabric.now().as_seconds() / wall)
            })
            .collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (hops, events, ratio) = runs[runs.len() / 2];
        println!(
            "{:<36} {:>9.2} {:>11.2} {:>9.1} {:>9.5} {all_hops:>9}",
            scenario.name,
            hops / 1e6,
            events / 1e6,
            1e9 / hops,
            ratio
        );
    }
}
