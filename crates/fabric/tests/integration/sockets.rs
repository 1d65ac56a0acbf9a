// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts of several sockets, against arithmetic: memory of this and of the other one, peers within
//! and across, cores, IOMMUs, and the order of what crosses.

use crate::support;

use crosslane_fabric::parameters::{HopParameters, IommuParameters, PeerToPeer, SocketParameters};
use crosslane_fabric::*;
use crosslane_pcie::config::Identity;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use support::*;

const HOP_NS: u64 = 70;
/// First address of the second socket's memory: each has 1 GiB below the hole.
const FAR: u64 = GIB;

/// Gen3 x8 cards in turns on two sockets, whose hop has this rate.
fn settings(bytes_per_second: f64) -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.bar_bytes = 1 << 20;
    settings.sockets = Some(SocketParameters {
        count: 2,
        hop: HopParameters { latency: ns(HOP_NS), bytes_per_second },
        peer_to_peer: PeerToPeer::Allowed { latency: ns(400), bytes_per_second: 2e9 },
    });
    settings
}

/// With buffers of a few TLPs, so that what is slow holds up its sender.
fn bounded(bytes_per_second: f64) -> Settings {
    let mut settings = settings(bytes_per_second);
    settings.port.receive_credits[0] = Credits { header: 64, data: 1024 };
    settings
}

fn rates(stand: &mut Stand, flows: Vec<Flow>) -> Vec<f64> {
    let reports = stand.run(flows.into_iter().map(|flow| flow.times(500)).collect());
    reports.iter().map(|report| report.steady_bytes_per_second().unwrap()).collect()
}

#[test]
fn memory_is_shared_evenly_on_both_sides_of_the_hole() {
    let ranges = |bytes: u64| {
        let mut settings = settings(f64::INFINITY);
        settings.memory_bytes = bytes;
        let mut stand = root_ports(&settings, 2);
        let own = stand.fabric.socket_memory(HOST);
        for (socket, [low, high]) in (0_u16..).zip(&own) {
            for range in [low, high].into_iter().filter(|range| !range.is_empty()) {
                for at in [range.start, range.end - 1] {
                    assert_eq!(stand.fabric.socket_of(HOST, BusAddress(at)), Some(socket));
                }
            }
        }
        (own, stand.fabric.memory_ranges(HOST))
    };
    let (own, all) = ranges(1 << 20);
    assert_eq!(own[1], [1 << 20..2 << 20, 4 * GIB..4 * GIB]);
    assert_eq!((all.len(), all[0].clone()), (1, 0..2 << 20));
    let (own, all) = ranges(3 * GIB);
    assert_eq!(own, [[0..GIB, 4 * GIB..6 * GIB], [GIB..2 * GIB, 6 * GIB..8 * GIB]]);
    assert_eq!(all, [0..2 * GIB, 4 * GIB..8 * GIB]);
}

/// A read of the other socket's memory takes a hop there and a hop back, and its data their time on
/// the hop; a write one hop until it is seen.
#[test]
fn the_other_socket_is_one_hop_away() {
    for (gb_per_s, data_ps) in [(f64::INFINITY, 0), (1e9, 64_000)] {
        for (kind, hops, sent) in [(FlowKind::Read, 2, 1), (FlowKind::Write, 1, 1)] {
            let time = |from: usize, target: u64| {
                let mut settings = settings(gb_per_s);
                settings.completer.read_latency = ns(300);
                let mut stand = root_ports(&settings, 2);
                let flow = stand.flow(from, kind, BusAddress(target), 64).times(1);
                stand.run_one(flow).latencies_ps[0]
            };
            let near = time(0, 0);
            assert_eq!(time(1, FAR), near, "{kind:?}");
            let far = near + hops * HOP_NS * 1000 + sent * data_ps;
            assert_eq!((time(0, FAR), time(1, 0)), (far, far), "{kind:?} at {gb_per_s}");
        }
    }
}

/// Two cards that write to the other socket share the hop; one that writes the other way, or to its
/// own memory, has what its link carries.
#[test]
fn cards_share_each_way_of_the_hop() {
    let link = rate(3, 8).bytes_per_second() * 256.0 / 276.0;
    let mut stand = root_ports(&bounded(4e9), 4);
    // Cards 0 and 2 are on socket 0.
    let ways = [(0, FAR), (2, FAR + (64 << 20)), (1, 64 << 20), (3, FAR + (128 << 20))];
    let flows = ways.map(|(from, to)| stand.flow(from, FlowKind::Write, BusAddress(to), 4096));
    let got = rates(&mut stand, flows.into());
    for (rate, expected) in got.iter().zip([2e9, 2e9, 4e9, link]) {
        assert!(off(*rate, expected) < 5e-3, "{got:?}");
    }
    // What is read comes the other way: the data of one card's reads and of the other's writes.
    let mut stand = root_ports(&bounded(4e9), 2);
    let flows = vec![
        stand.flow(0, FlowKind::Read, BusAddress(FAR), 4096),
        stand.flow(1, FlowKind::Write, BusAddress(64 << 20), 4096),
    ];
    let reports = stand.run(flows.into_iter().map(|flow| flow.times(500)).collect());
    let last = reports.iter().map(|report| report.last_done).max().unwrap();
    let rate = 2.0 * 500.0 * 4096.0 / last.as_seconds();
    assert!(off(rate, 4e9) < 1e-2, "{rate}");
}

/// The hop's latency costs reads nothing where enough are in flight, and it holds no read slot of
/// the other socket's memory.
#[test]
fn reads_in_flight_cover_the_hop() {
    let mut settings = settings(f64::INFINITY);
    settings.completer.read_latency = ns(400);
    settings.completer.read_slots = 8;
    let rate_of = |target: u64| {
        let mut stand = root_ports(&settings, 1);
        let flow = stand.flow(0, FlowKind::Read, BusAddress(target), 256).at_once(64);
        rates(&mut stand, vec![flow])[0]
    };
    let (near, far) = (rate_of(0), rate_of(FAR));
    assert!(off(near, 8.0 * 256.0 / 400e-9) < 1e-2, "{near}");
    assert!(off(far, near) < 1e-2, "{near} and {far}");
}

/// Peers of one socket have a rate and a latency of their own, those of different ones another.
#[test]
fn peers_within_a_socket_and_across() {
    let mut settings = bounded(f64::INFINITY);
    settings.peer_to_peer = PeerToPeer::Allowed { latency: ns(100), bytes_per_second: 5e9 };
    let latency = |from: usize, to: usize| {
        let mut stand = root_ports(&settings, 4);
        let flow = stand.flow(from, FlowKind::Write, stand.bar(to), 64).times(1);
        stand.run_one(flow).latencies_ps[0]
    };
    // 64 B at 5 GB/s and at 2 GB/s.
    let within = latency(0, 2) - 100_000 - 12_800;
    assert_eq!(latency(1, 3), latency(0, 2));
    assert_eq!(latency(0, 1), within + 400_000 + 32_000);
    assert_eq!(latency(3, 0), latency(0, 1));
    let mut stand = root_ports(&settings, 4);
    let ways = [(0, 2), (1, 3), (2, 1), (3, 0)];
    let flows = ways.map(|(from, to)| stand.flow(from, FlowKind::Write, stand.bar(to), 4096));
    let got = rates(&mut stand, flows.into());
    for (rate, expected) in got.iter().zip([5e9, 5e9, 2e9, 2e9]) {
        assert!(off(*rate, expected) < 5e-3, "{got:?}");
    }
    // Across, peers also share the hop with what goes to memory.
    settings.sockets.as_mut().unwrap().hop.bytes_per_second = 3e9;
    let mut stand = root_ports(&settings, 4);
    let flows = vec![
        stand.flow(0, FlowKind::Write, stand.bar(1), 4096),
        stand.flow(2, FlowKind::Write, BusAddress(FAR), 4096),
    ];
    let got = rates(&mut stand, flows);
    assert!(off(got.iter().sum(), 3e9) < 1e-2, "{got:?}");
}

#[test]
fn peers_across_may_be_forbidden() {
    let mut settings = settings(f64::INFINITY);
    settings.sockets.as_mut().unwrap().peer_to_peer = PeerToPeer::Forbidden;
    let mut stand = root_ports(&settings, 3);
    let near = stand.flow(0, FlowKind::Read, stand.bar(2), 64).times(4);
    stand.run_one(near);
    let far = stand.flow(0, FlowKind::Read, stand.bar(1), 64).times(4);
    let ids = stand.start([far]);
    stand.fabric.run(None);
    assert_eq!(stand.reports(&ids)[0].failed, 4);
    assert_eq!(stand.count(|kind| matches!(kind, ErrorKind::PeerForbidden { .. })), 4);
    assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
}

/// A pair of root ports may have a rule of its own: a latency, and a rate each way that no other
/// pair takes a share of. Across sockets it shares the hop.
#[test]
fn a_pair_of_root_ports_has_its_own_rule() {
    let rule =
        |latency, bytes_per_second| PeerToPeer::Allowed { latency: ns(latency), bytes_per_second };
    let stand_of = |settings: &Settings, pairs: &[([usize; 2], PeerToPeer)]| {
        let mut stand = root_ports(settings, 4);
        for (pair, rule) in pairs {
            let ports = pair.map(|port| stand.fabric.node(stand.root).ports[port]);
            stand.fabric.set_peers(ports, *rule);
            let [first, second] = ports;
            assert_eq!(stand.fabric.peers(second, first), Some(*rule));
        }
        stand
    };
    let several = bounded(f64::INFINITY);
    let one = Settings { sockets: None, ..several.clone() };
    for (mut settings, to, general) in [(one, 1, 100), (several.clone(), 2, 100), (several, 1, 400)]
    {
        settings.peer_to_peer = rule(100, f64::INFINITY);
        if let Some(sockets) = &mut settings.sockets {
            sockets.peer_to_peer = rule(400, f64::INFINITY);
        }
        let latency = |pairs: &[([usize; 2], PeerToPeer)], from: usize, to: usize| {
            let mut stand = stand_of(&settings, pairs);
            let flow = stand.flow(from, FlowKind::Write, stand.bar(to), 64).times(1);
            stand.run_one(flow).latencies_ps[0]
        };
        let plain = latency(&[], 0, to) - general * 1000;
        // 64 B at 1 GB/s; the last rule of a pair is in force, whichever end is named first.
        let own = [([0, to], rule(50, 9e9)), ([to, 0], rule(900, 1e9))];
        for (from, to) in [(0, to), (to, 0)] {
            assert_eq!(latency(&own, from, to), plain + 900_000 + 64_000);
        }
        assert_eq!(latency(&own, 3, to), latency(&[], 3, to));
        // Each way has the rate, beside another pair's.
        settings.peer_to_peer = rule(100, 5e9);
        if let Some(sockets) = &mut settings.sockets {
            sockets.peer_to_peer = rule(400, 2e9);
        }
        let mut stand = stand_of(&settings, &[([0, to], rule(900, 1e9))]);
        let ways = [(0, to), (to, 0), (3, if to == 1 { 2 } else { 1 })];
        let flows = ways.map(|(from, to)| stand.flow(from, FlowKind::Write, stand.bar(to), 4096));
        let got = rates(&mut stand, flows.into());
        let other = if settings.sockets.is_some() && to == 1 { 2e9 } else { 5e9 };
        for (rate, expected) in got.iter().zip([1e9, 1e9, other]) {
            assert!(off(*rate, expected) < 5e-3, "{to}: {got:?}");
        }
        // A pair may be forbidden where others are allowed, and the reverse.
        for (general, own, failed) in
            [(rule(100, 5e9), PeerToPeer::Forbidden, 4), (PeerToPeer::Forbidden, rule(9, 1e9), 0)]
        {
            settings.peer_to_peer = general;
            if let Some(sockets) = &mut settings.sockets {
                sockets.peer_to_peer = general;
            }
            let mut stand = stand_of(&settings, &[([0, to], own)]);
            let flow = stand.flow(to, FlowKind::Read, stand.bar(0), 64).times(4);
            let ids = stand.start([flow]);
            stand.fabric.run(None);
            assert_eq!(stand.reports(&ids)[0].failed, failed);
            assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
        }
    }
    // A pair across sockets takes its share of the hop.
    let mut stand = stand_of(&bounded(3e9), &[([0, 1], rule(500, f64::INFINITY))]);
    let flows = vec![
        stand.flow(0, FlowKind::Write, stand.bar(1), 4096),
        stand.flow(2, FlowKind::Write, BusAddress(FAR), 4096),
    ];
    let got = rates(&mut stand, flows);
    assert!(off(got.iter().sum(), 3e9) < 2e-2, "{got:?}");
}

/// A write behind one to the other socket is not seen before it, nor does a read pass it, unless
/// its ordering is relaxed; those of other root ports do not wait.
#[test]
fn posted_requests_stay_in_order_across_sockets() {
    let seen = |relaxed: bool, kind: FlowKind, from: usize| {
        let mut settings = settings(f64::INFINITY);
        settings.completer.write_latency = ns(500);
        let mut stand = root_ports(&settings, 3);
        let first = stand.flow(0, FlowKind::Write, BusAddress(FAR), 64).times(1);
        let mut second = stand.flow(from, kind, BusAddress(0), 64).times(1);
        second.relaxed_ordering = relaxed;
        // Its request is ready at once, and on the wire behind the write of the same card.
        let reports = stand.run(vec![first, second]);
        (reports[0].last_done, reports[1].last_done)
    };
    let write_there = ns(HOP_NS + 500) + wire_gen3(84);
    assert_eq!(seen(false, FlowKind::Write, 0), (write_there, write_there));
    let (first, second) = seen(true, FlowKind::Write, 0);
    assert_eq!((first, second), (write_there, ns(500) + wire_gen3(2 * 84)));
    // The card of another socket crosses the other way; that of the same goes on at once.
    let (_, second) = seen(false, FlowKind::Write, 2);
    assert_eq!(second, ns(500) + wire_gen3(84));
    let (_, second) = seen(false, FlowKind::Read, 0);
    assert_eq!(second, write_there + wire_gen3(84));
    let (_, second) = seen(true, FlowKind::Read, 0);
    assert!(second < write_there, "{second}");
}

/// Time of bytes on a Gen3 x8 link, rounded up.
fn wire_gen3(bytes: u64) -> Picoseconds {
    let ps = bytes as f64 * 1e12 / rate(3, 8).bytes_per_second();
    Picoseconds(ps.ceil() as u64)
}

/// A core of the other socket is a hop farther from a card, each way.
#[test]
fn loads_and_stores_of_the_other_sockets_cores() {
    let mut stand = root_ports(&settings(f64::INFINITY), 2);
    assert_eq!(stand.fabric.host_cores(stand.root), 4);
    let mut load = |core: u16| {
        let (root, bar) = (stand.root, stand.bar(0));
        let begun = stand.fabric.now();
        stand.fabric.host_load(root, core, bar, 4, 1).unwrap();
        let HostEvent::Loaded { result, .. } = stand.next_event() else { panic!() };
        assert_eq!(result, Ok(0));
        stand.fabric.now().since(begun)
    };
    let near = load(0);
    assert_eq!(load(1), near);
    assert_eq!(load(2), near + ns(2 * HOP_NS));
    let arrives = |core: u16| {
        let mut stand = root_ports(&settings(f64::INFINITY), 2);
        let flow = stand.core_flow(0, FlowKind::Write, stand.bar(0), 8).times(1);
        let source = FlowSource::Core { root_complex: stand.root, core };
        stand.run_one(Flow { source, ..flow }).last_done
    };
    assert_eq!(arrives(3), arrives(0) + ns(HOP_NS));
}

/// An I/O virtual address, which is no address of the memory that it leads to.
const IO_ADDRESS: u64 = 0x7800_0000;

/// Each socket translates for its own root ports, with its own IOTLB.
#[test]
fn each_socket_has_an_iommu() {
    let mut settings = settings(f64::INFINITY);
    settings.iommu = Some(IommuParameters {
        iotlb_entries: 1,
        hit: Picoseconds::ZERO,
        walk: ns(1000),
        walks: 1,
        largest_page_bytes: IO_PAGE_BYTES,
        map_page: Picoseconds::ZERO,
        invalidate: Picoseconds::ZERO,
        reads_in_order: false,
    });
    settings.requester.write_interval = ns(5000);
    let mut stand = root_ports(&settings, 2);
    for (card, target) in [(0, FAR), (1, FAR + 4096)] {
        let (id, at) = (stand.function(card), BusAddress(IO_ADDRESS));
        assert_eq!(stand.fabric.map_io(HOST, id, at, BusAddress(target), 4096), Ok(1));
    }
    let flows = [0, 1].map(|card| {
        let mut flow = stand.flow(card, FlowKind::Write, BusAddress(IO_ADDRESS), 64).times(10);
        (flow.window_bytes, flow.outstanding) = (64, 1);
        flow
    });
    let reports = stand.run(flows.into());
    // With one IOTLB of one page for both, each would miss every time.
    let counters = stand.fabric.iommu_counters(HOST).unwrap();
    assert_eq!((counters.misses, counters.hits), (2, 18));
    let [near, far] = [&reports[1], &reports[0]].map(|report| report.latencies_ps[9]);
    assert_eq!(far, near + HOP_NS * 1000);
    let id = stand.function(0);
    assert_eq!(stand.fabric.unmap_io(HOST, id, BusAddress(IO_ADDRESS)), Ok(1));
    assert_eq!(stand.fabric.translate_io(HOST, id, BusAddress(IO_ADDRESS)), None);
}

/// All ways at once, with translated and shuffled traffic: all data right, all credits back.
#[test]
fn everything_at_once_ends_quiet() {
    for (seed, shuffle) in [(1, false), (2, true), (3, true)] {
        let mut settings = bounded(3e9);
        settings.seed = seed;
        settings.completer.write_latency = ns(200);
        settings.completer.read_jitter = ns(300);
        settings.completer.read_slots = 4;
        let mut stand = root_ports(&settings, 3);
        stand.fabric.set_shuffle(shuffle);
        let mut flows = stand.everywhere(100, [300, 700], (FlowKind::WriteRead, 200));
        for (from, flow) in (0..).zip(stand.everywhere(100, [500, 64], (FlowKind::Write, 64))) {
            let is_memory = flow.target.0 < 2 * GIB;
            let relaxed_ordering = from % 2 == 0;
            let target = BusAddress(flow.target.0 + FAR);
            flows.extend(is_memory.then_some(Flow { target, relaxed_ordering, ..flow }));
        }
        stand.run(flows);
    }
}

#[test]
fn sockets_that_cannot_be_are_named() {
    let built = |count: u16, memory_bytes: u64, socket: u16| {
        let mut settings = settings(f64::INFINITY);
        settings.memory_bytes = memory_bytes;
        settings.sockets.as_mut().unwrap().count = count;
        let mut builder = FabricBuilder::new(1);
        let root = builder.root_complex("host", HostId(0), root_parameters(&settings));
        let port = builder.root_port(root, "rp0", Identity::default(), settings.port);
        builder.set_socket(port, socket);
        builder.build().err().map(|error| error.to_string())
    };
    assert_eq!(built(2, GIB, 1), None);
    let error = built(2, GIB, 2).unwrap();
    assert_eq!(error, "host: rp0 is on socket 2, and there are 2");
    assert_eq!(built(9, GIB, 0).unwrap(), "host: 9 sockets; several are 2 to 8");
    let error = built(2, GIB + 1, 0).unwrap();
    assert!(error.ends_with("of each socket are not whole pages"), "{error}");
}
