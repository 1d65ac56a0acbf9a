// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of a contended link, and counters that add up: bytes into a switch equal bytes out of it,
//! and busy and idle time add up to all time.

use crate::support;

use crosslane_fabric::parameters::{Coalescing, Forwarding};
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::BusAddress;
use support::*;

/// Bytes that each endpoint has written to host memory in 300 us.
fn written(stand: &mut Stand, endpoints: usize, bytes: u64) -> Vec<f64> {
    let flows: Vec<FlowId> = (0..endpoints)
        .map(|from| {
            let mut flow =
                stand.flow(from, FlowKind::Write, BusAddress((from as u64) << 24), bytes);
            flow.operations = 1_000_000;
            stand.fabric.start_flow(flow).unwrap()
        })
        .collect();
    assert_eq!(stand.fabric.run(Some(ns(300_000))), RunEnd::Limit);
    assert_eq!(stand.fabric.errors(), &[]);
    flows.into_iter().map(|flow| stand.fabric.flow_report(flow).bytes as f64).collect()
}

/// N ports of a switch that contend for one link get 1/N of it each, whatever their buffers.
#[test]
fn ingress_ports_share_a_link_evenly() {
    for count in 2..=8 {
        for credits in [Credits::INFINITE, Credits { header: 8, data: 128 }] {
            for forwarding in [Forwarding::CutThrough, Forwarding::StoreAndForward] {
                let mut settings = Settings::ideal(rate(3, 8), 256);
                settings.port.receive_credits[0] = credits;
                settings.switch.latency = ns(120);
                settings.switch.forwarding = forwarding;
                let mut stand = one_switch(&settings, count);
                let bytes = written(&mut stand, count, 4096);
                let seconds = 300e-6;
                let all = settings.rate.bytes_per_second() * 256.0 / 276.0 * seconds;
                for (endpoint, bytes) in bytes.iter().enumerate() {
                    let error = off(*bytes, all / count as f64);
                    assert!(error < 0.02, "{endpoint} of {count}, {credits:?}: {error}");
                }
            }
        }
    }
}

/// Round robin takes turns by TLP: a port with TLPs of 64 B beside one with 256 B gets a quarter of
/// its bytes.
#[test]
fn turns_go_by_tlp() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.port.receive_credits[0] = Credits { header: 8, data: 128 };
    let mut stand = one_switch(&settings, 2);
    let flows = [256, 64].map(|tlp_bytes| {
        let from = usize::from(tlp_bytes == 64);
        let mut flow = stand.flow(from, FlowKind::Write, BusAddress((from as u64) << 24), 4096);
        flow.tlp_bytes = Some(tlp_bytes);
        flow.operations = 1_000_000;
        stand.fabric.start_flow(flow).unwrap()
    });
    assert_eq!(stand.fabric.run(Some(ns(300_000))), RunEnd::Limit);
    let [long, short] = flows.map(|flow| stand.fabric.flow_report(flow).bytes as f64);
    assert!(off(long / short, 4.0) < 0.02, "{}", long / short);
}

/// Fair by port, not by flow: one endpoint beside a board of three gets half.
#[test]
fn a_board_of_three_shares_one_turn() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.port.receive_credits[0] = Credits { header: 8, data: 128 };
    let mut stand = tree(&settings, 3);
    let bytes = written(&mut stand, 4, 4096);
    let all: f64 = bytes.iter().sum();
    for (bytes, share) in bytes.iter().zip([1.0 / 2.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]) {
        assert!(off(*bytes, all * share) < 0.02, "{bytes} of {all}");
    }
}

/// The interval from one operation to the next is the card's: its flows take turns, and together
/// have the rate that one has alone. Reads and writes have an interval each.
#[test]
fn flows_of_a_card_share_its_interval() {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.requester.read_interval = ns(100);
    settings.requester.write_interval = ns(50);
    for (reads, writes) in [(1, 0), (0, 1), (3, 0), (0, 4), (2, 4)] {
        let mut stand = direct(&settings);
        let kinds = [FlowKind::Read].repeat(reads).into_iter();
        let kinds = kinds.chain([FlowKind::Write].repeat(writes));
        let flows: Vec<(FlowKind, FlowId)> = kinds
            .zip(1_u64..)
            .map(|(kind, number)| {
                let flow = stand.flow(0, kind, BusAddress(number << 24), 64).times(1_000_000);
                (kind, stand.fabric.start_flow(flow).unwrap())
            })
            .collect();
        assert_eq!(stand.fabric.run(Some(ns(120_000))), RunEnd::Limit);
        assert_eq!(stand.fabric.errors(), &[]);
        for (kind, flow) in flows {
            let expected = match kind {
                FlowKind::Read => 1200 / reads as u64,
                _ => 2400 / writes as u64,
            };
            let done = stand.fabric.flow_report(flow).operations;
            assert!(done.abs_diff(expected) <= 2, "{kind:?} of {reads} and {writes}: {done}");
        }
    }
}

fn settings_with_everything(bit_error_rate: f64) -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.uplink = rate(4, 4);
    settings.link.skp = true;
    settings.link.flight = ns(3);
    settings.link.bit_error_rate = bit_error_rate;
    settings.switch.latency = ns(110);
    settings.completer.read_latency = ns(350);
    settings.completer.write_bytes_per_second = 5e9;
    settings.port.ack = Coalescing { tlps: 3, within: None };
    settings.port.update_fc = Coalescing { tlps: 2, within: None };
    settings.port.receive_credits = [Credits { header: 16, data: 256 }; 3];
    settings
}

/// Writes, reads and peer traffic on a tree: every TLP and byte that entered a switch has left it,
/// and the endpoints and the host have received what the others sent.
#[test]
fn what_goes_into_a_switch_comes_out() {
    for bit_error_rate in [0.0, 1e-6] {
        for shape in 1..5 {
            let mut stand = tree(&settings_with_everything(bit_error_rate), shape);
            let count = stand.endpoints.len();
            let flows = stand.everywhere(200, [1000, 3000], (FlowKind::WriteRead, 500));
            let payload: u64 =
                flows.iter().map(|flow| flow.operations * flow.operation_bytes).sum();
            stand.run(flows);
            let nodes = stand.fabric.nodes().to_vec();
            let mut switches = 0;
            for node in nodes.iter().filter(|node| node.kind == NodeKind::Switch) {
                let (mut came, mut went) = ([0; 3], [0; 3]);
                for port in &node.ports {
                    let link = stand.fabric.port(*port).link.unwrap();
                    let is_lower = stand.fabric.link(link).lower == *port;
                    for heading in [LinkDirection::Down, LinkDirection::Up] {
                        let counters = stand.fabric.counters(DirectionId { link, heading });
                        let inward = (heading == LinkDirection::Down) == is_lower;
                        let sum = if inward { &mut came } else { &mut went };
                        sum[0] += counters.tlps;
                        sum[1] += counters.payload_bytes;
                        sum[2] += counters.header_bytes;
                    }
                }
                assert!(came[0] > 0);
                assert_eq!(came, went, "{}", node.name);
                switches += 1;
            }
            assert!(switches > 0);
            let mut sent = 0;
            for endpoint in 0..count {
                for heading in [LinkDirection::Down, LinkDirection::Up] {
                    let direction = stand.direction(endpoint, heading);
                    sent += stand.fabric.counters(direction).payload_bytes;
                }
            }
            // Host traffic crosses one endpoint's link. Peers' writes and completions cross two.
            let peers = count as u64 * 200 * 500;
            assert_eq!(sent, payload - peers + 4 * peers);
        }
    }
}

/// Busy time is the wire bytes of all kinds at the link's rate; together with the idle time of all
/// reasons it is the elapsed time.
#[test]
fn busy_and_idle_time_are_all_the_time() {
    for bit_error_rate in [0.0, 1e-6] {
        let mut stand = tree(&settings_with_everything(bit_error_rate), 3);
        let mut flows = stand.everywhere(3000, [1000, 3000], (FlowKind::Write, 400));
        // A last write after a long pause.
        let mut last = stand.flow(0, FlowKind::Write, BusAddress(1 << 27), 64);
        (last.operations, last.start) = (1, ns(60_000_000));
        flows.push(last);
        stand.start(flows);
        assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
        let now_ps = stand.fabric.now().0;
        assert!(now_ps >= 60_000_000_000, "{now_ps}");
        for direction in stand.directions() {
            let at = stand.fabric.link(direction.link).parameters.rate;
            let counters = stand.fabric.counters(direction);
            let busy_ps = counters.wire_bytes() as f64 / at.bytes_per_second() * 1e12;
            let idle_ps = counters.idle_ps.iter().sum::<u64>() as f64;
            let error_ps = (busy_ps + idle_ps - now_ps as f64).abs();
            assert!(busy_ps > 1e8);
            // The last DLLPs and an ordered set may reach beyond the end: less than 1 in 10^6.
            assert!(error_ps < 45e3, "{direction:?}: {busy_ps} {idle_ps} {now_ps}");
        }
    }
}

/// The engines of a card move what their rates allow, whatever the link could, in each direction.
#[test]
fn a_requester_keeps_to_its_rates() {
    for (kind, most) in [(FlowKind::Read, 1.5e9), (FlowKind::Write, 0.8e9)] {
        let mut settings = Settings::ideal(rate(3, 8), 256);
        settings.requester.read_bytes_per_second = 1.5e9;
        settings.requester.write_bytes_per_second = 0.8e9;
        let mut stand = direct(&settings);
        // Two flows share it.
        let flows = [0, 1].map(|at| {
            let mut flow = stand.flow(0, kind, BusAddress(at << 20), 4096);
            (flow.operations, flow.outstanding, flow.window_bytes) = (500, 8, 8 * 4096);
            flow
        });
        let reports = stand.run(flows.to_vec());
        let rates = reports.iter().map(|report| report.steady_bytes_per_second().unwrap());
        let all: f64 = rates.sum();
        assert!(off(all, most) < 0.01, "{kind:?}: {all}");
    }
}
