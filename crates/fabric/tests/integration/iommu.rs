// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A root complex with an IOMMU, against arithmetic: hits, walks, a working set beyond its IOTLB,
//! large pages, order, faults, and peer requests redirected to it.

use crate::support;

use crosslane_fabric::parameters::IommuParameters;
use crosslane_fabric::*;
use crosslane_pcie::config::registers;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

const HIT_NS: u64 = 10;
const WALK_NS: u64 = 1000;
const LARGE: u64 = IO_LARGE_PAGE_BYTES;

/// Gen2 x4, 0.5 ns a byte, with operations far enough apart to find the wire idle.
fn settings(iotlb_entries: u32, walks: u32) -> Settings {
    let mut settings = Settings::ideal(rate(2, 4), 256);
    settings.iommu = Some(IommuParameters {
        iotlb_entries,
        hit: ns(HIT_NS),
        walk: ns(WALK_NS),
        walks,
        largest_page_bytes: LARGE,
        reads_in_order: false,
        map_page: Picoseconds::ZERO,
        invalidate: Picoseconds::ZERO,
    });
    settings.max_read_request = 4096;
    settings
}

fn map(stand: &mut Stand, endpoint: usize, address: u64, target: u64, bytes: u64) -> u64 {
    let id = stand.function(endpoint);
    stand.fabric.map_io(HOST, id, BusAddress(address), BusAddress(target), bytes).unwrap()
}

fn counted(stand: &mut Stand) -> (u64, u64, u64) {
    let IommuCounters { hits, misses, faults, .. } = stand.fabric.iommu_counters(HOST).unwrap();
    (hits, misses, faults)
}

/// Writes in sequence, to the same page and then to the next: the first to each page waits for a
/// walk, all take the time of a hit. The data arrive at the mapped addresses.
#[test]
fn the_first_request_to_a_page_waits_for_a_walk() {
    for kind in [FlowKind::Write, FlowKind::Read] {
        let mut settings = settings(16, 1);
        settings.requester.write_interval = ns(10_000);
        settings.requester.read_interval = ns(10_000);
        let mut stand = direct(&settings);
        map(&mut stand, 0, 0x4000_0000, 0x123_0000, 8192);
        let mut flow = stand.flow(0, kind, BusAddress(0x4000_0000), 2048);
        flow.tlp_bytes = Some(64);
        (flow.operation_bytes, flow.window_bytes) = (64, 8192);
        (flow.operations, flow.outstanding) = (128, 1);
        let report = stand.run_one(flow);
        // A write of 84 B; or a request of 20 B and a completion of 84 B.
        let plain_ns = if kind == FlowKind::Write { 42 } else { 10 + 42 };
        let expected: Vec<u64> = (0..128)
            .map(|number| plain_ns + HIT_NS + if number % 64 == 0 { WALK_NS } else { 0 })
            .map(|latency_ns| latency_ns * 1000)
            .collect();
        assert_eq!(report.latencies_ps, expected, "{kind:?}");
        assert_eq!(counted(&mut stand), (126, 2, 0));
        let counters = stand.fabric.iommu_counters(HOST).unwrap();
        let waited = ns(2 * WALK_NS + 128 * HIT_NS);
        assert_eq!((counters.walking, counters.waited), (ns(2 * WALK_NS), waited));
        assert_eq!((counters.requests(), counters.queued), (128, Picoseconds::ZERO));
        // The root port has nothing to send while a read waits; a write alone fills no buffer.
        for (heading, idle) in [(LinkDirection::Up, 0), (LinkDirection::Down, waited.0)] {
            let counters = stand.fabric.counters(stand.direction(0, heading));
            let idle = if kind == FlowKind::Write { 0 } else { idle };
            assert_eq!(counters.idle_ps[IdleReason::Translation as usize], idle, "{heading:?}");
        }
        assert_ne!(stand.peek(BusAddress(0x123_1fc0)), [0; 64]);
        assert_eq!(stand.peek(BusAddress(0x4000_0000 % GIB)), [0; 64]);
    }
}

/// Pages in turn, one read of 4 KiB each. While the IOTLB holds them all, the link is the limit; if
/// each page is evicted before its turn, every read walks, and the number of walks at once sets the
/// rate.
#[test]
fn a_working_set_beyond_the_iotlb_runs_at_the_rate_of_its_walks() {
    let run = |pages: u64, walks: u32, walk_ns: u64| {
        let mut settings = settings(16, walks);
        settings.iommu.as_mut().unwrap().walk = ns(walk_ns);
        let mut stand = direct(&settings);
        map(&mut stand, 0, 0, 0, pages * 4096);
        let mut flow = stand.flow(0, FlowKind::Read, BusAddress(0), 4096);
        flow.window_bytes = pages * 4096;
        (flow.operations, flow.outstanding) = (1000, 15);
        let got = stand.run_one(flow).steady_bytes_per_second().unwrap();
        (got, counted(&mut stand))
    };
    let link = 2e9 * 256.0 / 276.0;
    let (held, counters) = run(16, 1, 1000);
    assert!(off(held, link) < 0.01, "{held}");
    assert_eq!(counters, (984, 16, 0));
    for walks in 1..=4 {
        let (got, counters) = run(64, walks, 10_000);
        let expected = f64::from(walks) * 4096.0 / 10e-6;
        assert!(off(got, expected) < 5e-3, "{walks} walks: {got}");
        assert_eq!(counters, (0, 1000, 0));
    }
}

/// The same aperture in large pages needs one entry for 2 MiB.
#[test]
fn large_pages_need_few_entries() {
    for (target, pages, misses) in [(2 * LARGE, 2, 2), (2 * LARGE + 4096, 1024, 1000)] {
        let mut stand = direct(&settings(4, 4));
        assert_eq!(map(&mut stand, 0, LARGE, target, 2 * LARGE), pages);
        let mut flow = stand.flow(0, FlowKind::Read, BusAddress(LARGE), 4096);
        flow.window_bytes = 2 * LARGE;
        (flow.operations, flow.outstanding) = (1000, 1);
        stand.run(vec![flow]);
        assert_eq!(counted(&mut stand), (1000 - misses, misses, 0));
    }
}

/// A read does not pass a write that waits for a walk, even if the read's page is held; it passes
/// such a read, unless reads keep their order.
#[test]
fn a_write_that_walks_is_not_passed() {
    let cases = [
        (FlowKind::Write, false, false),
        (FlowKind::Read, false, true),
        (FlowKind::Read, true, false),
    ];
    for (first, in_order, passes) in cases {
        let mut settings = settings(16, 4);
        settings.iommu.as_mut().unwrap().reads_in_order = in_order;
        let mut stand = direct(&settings);
        map(&mut stand, 0, 0, 0, 2 * 4096);
        let one = |flow: Flow, start: Picoseconds| Flow {
            operations: 1,
            outstanding: 1,
            window_bytes: 64,
            start,
            ..flow
        };
        let held = stand.flow(0, FlowKind::Read, BusAddress(64), 64);
        stand.run(vec![one(held.clone(), Picoseconds::ZERO)]);
        let start = stand.fabric.now() + ns(100);
        let walking = stand.flow(0, first, BusAddress(4096), 64);
        let reports = stand.run(vec![one(walking, start), one(held, start + ns(50))]);
        let took = |report: &FlowReport| report.last_done.since(start).0 / 1000;
        // 42 ns of a write, 10 ns of the request of a read, 42 ns of its completion.
        let (arrived, answer) = if first == FlowKind::Write { (42, 0) } else { (10, 42) };
        let walked = arrived + WALK_NS + HIT_NS;
        assert_eq!(took(&reports[0]), walked + answer);
        let second = if passes { 50 + 10 + HIT_NS } else { walked + answer };
        assert_eq!(took(&reports[1]), second + 42, "{first:?}");
    }
}

/// Many writes, and reads of the same bytes, over cached and uncached pages: data are compared when
/// read, and the ordering checker watches.
#[test]
fn reads_see_the_writes_before_them() {
    for walks in [1, 4] {
        let mut stand = direct(&settings(4, walks));
        map(&mut stand, 0, 0, 0x10_0000, 16 * 4096);
        let mut flow = stand.flow(0, FlowKind::WriteRead, BusAddress(0), 1024);
        (flow.operations, flow.outstanding, flow.window_bytes) = (640, 16, 16 * 4096);
        assert_eq!(stand.run_one(flow).operations, 640);
        let counters = stand.fabric.iommu_counters(HOST).unwrap();
        let IommuCounters { hits, misses, joined, faults, .. } = counters;
        // Four writes of 256 B and one read each.
        assert_eq!((hits + misses + joined, faults), (640 * 5, 0));
        // Four operations to a page, and 16 pages in turn: each turn walks once.
        assert_eq!(misses, 160);
    }
}

/// Interrupts are not translated but follow the data written before them.
#[test]
fn an_interrupt_waits_for_the_write_before_it() {
    let mut stand = direct(&settings(16, 1));
    map(&mut stand, 0, 0, 0, 4096);
    let data = stand.flow(0, FlowKind::Write, BusAddress(0), 256);
    let message = stand.flow(0, FlowKind::Write, BusAddress(INTERRUPT_ADDRESSES.start), 4);
    let flows = [data, message].map(|flow| Flow {
        operations: 1,
        window_bytes: flow.operation_bytes.max(64),
        outstanding: 1,
        ..flow
    });
    stand.start(flows);
    // An interrupt message never completes its flow.
    stand.fabric.run(Some(ns(100_000)));
    let (interrupts, count) = stand.fabric.interrupts(stand.root);
    assert_eq!(count, 1);
    // 276 B at 0.5 ns, and the walk.
    assert_eq!(interrupts[0].arrived, ns(138 + WALK_NS + HIT_NS));
    assert_eq!(counted(&mut stand), (0, 1, 0));
}

/// Unmapped addresses: Unsupported Request for a read, no effect for a write; each is recorded with
/// function, address and direction. Later requests work normally.
#[test]
fn a_request_outside_of_any_mapping_is_a_fault() {
    for kind in [FlowKind::Read, FlowKind::Write] {
        let mut stand = direct(&settings(16, 1));
        map(&mut stand, 0, 0x10_000, 0x20_000, 4096);
        let mut flow = stand.flow(0, kind, BusAddress(0x11_000), 256);
        (flow.operations, flow.outstanding, flow.window_bytes) = (1, 1, 256);
        let id = stand.fabric.start_flow(flow.clone()).unwrap();
        stand.fabric.run(Some(ns(100_000)));
        let report = stand.fabric.flow_report(id);
        let access = if kind == FlowKind::Read { "read" } else { "write" };
        let errors: Vec<String> =
            stand.fabric.errors().iter().map(|error| error.to_string()).collect();
        let id = stand.function(0);
        // 20 B of a read, 276 B of a write, and a walk that finds nothing.
        let arrived_ns = if kind == FlowKind::Read { 10 } else { 138 } + WALK_NS + HIT_NS;
        assert_eq!(
            errors[0],
            format!(
                "rp0 at {}: IOMMU fault: ep0 ({id}) may not {access} 256 B at {}, where nothing \
                 is mapped for it",
                ns(arrived_ns),
                BusAddress(0x11_000)
            )
        );
        assert_eq!(report.failed, u64::from(kind == FlowKind::Read), "{:?}", report.errors);
        assert_eq!(counted(&mut stand), (0, 1, 1));
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
        // Mapped pages still work; another function's mapping does not apply.
        map(&mut stand, 0, 0x11_000, 0x30_000, 4096);
        let id = stand.fabric.start_flow(flow).unwrap();
        stand.fabric.run(Some(ns(200_000)));
        assert_eq!(stand.fabric.flow_report(id).operations, 1);
    }
}

/// Without redirection a switch routes by the untranslated address; with it the request goes up and
/// needs a mapping.
#[test]
fn redirected_peer_requests_are_translated() {
    for redirected in [false, true] {
        for mapped in [false, true] {
            let mut stand = one_switch(&settings(16, 1), 2);
            if redirected {
                stand.set_acs("down0.0", registers::ACS_CONTROL_REQUEST_REDIRECT);
            }
            let bar = stand.bar(1);
            if mapped {
                map(&mut stand, 0, bar.0, bar.0, 1 << 20);
            }
            let flow = stand.flow(0, FlowKind::Write, bar, 256);
            let flow = Flow { operations: 10, outstanding: 1, ..flow };
            let id = stand.fabric.start_flow(flow).unwrap();
            stand.fabric.run(Some(ns(100_000)));
            let report = stand.fabric.flow_report(id);
            let faults = u64::from(redirected && !mapped);
            assert_eq!(counted(&mut stand).2, faults);
            assert_eq!(report.operations, if faults > 0 { 0 } else { 10 });
            if redirected && mapped {
                // Everything behind a root port, at an I/O virtual address.
                let id = stand.function(0);
                let other = BusAddress(0x5000_0000);
                stand.fabric.map_io(HOST, id, other, bar, 4096).unwrap();
                assert_eq!(
                    stand.fabric.translate_io(HOST, id, other.offset(8)),
                    Some(bar.offset(8))
                );
                assert_eq!(counted(&mut stand), (9, 1, 0));
            }
        }
    }
}

/// A host without an IOMMU rejects mappings.
#[test]
fn a_host_without_an_iommu_maps_nothing() {
    let mut settings = settings(16, 1);
    settings.iommu = None;
    let mut stand = direct(&settings);
    let id = stand.function(0);
    let refused = stand.fabric.map_io(HOST, id, BusAddress(0), BusAddress(0), 4096).unwrap_err();
    assert_eq!(refused.to_string(), "host 0 has no IOMMU");
    assert_eq!(stand.fabric.unmap_io(HOST, id, BusAddress(0)), Err(IommuError::NoIommu(HOST)));
    assert_eq!((stand.fabric.iommu(HOST), stand.fabric.iommu_counters(HOST)), (None, None));
}

/// If writes waiting for their page fill the buffer of the root port, the wire towards it counts
/// its idle time as translation rather than as a busy receiver.
#[test]
fn a_buffer_full_of_writes_that_walk_is_idle_time_of_translation() {
    let mut settings = settings(1, 1);
    settings.port.receive_credits[0] = Credits { header: 4, data: 64 };
    let mut stand = direct(&settings);
    map(&mut stand, 0, 0, 0, 64 * 4096);
    let mut flow = stand.flow(0, FlowKind::Write, BusAddress(0), 4096);
    (flow.operations, flow.outstanding, flow.window_bytes) = (64, 8, 64 * 4096);
    stand.run(vec![flow]);
    let counters = stand.fabric.counters(stand.direction(0, LinkDirection::Up));
    let idle = |reason: IdleReason| counters.idle_ps[reason as usize];
    let walking = stand.fabric.iommu_counters(HOST).unwrap().walking;
    assert_eq!(walking, ns(64 * WALK_NS));
    let translation = idle(IdleReason::Translation);
    assert!(translation > walking.0 / 2 && translation <= walking.0, "{counters:?}");
    assert!(idle(IdleReason::ReceiverBusy) < walking.0 / 20, "{counters:?}");
}
