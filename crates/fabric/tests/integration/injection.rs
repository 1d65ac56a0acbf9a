// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Injected faults: their effects, their errors as the specification requires, and the absence of
//! leaks.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(3, 8), 256);
    settings.port.receive_credits = [
        Credits { header: 16, data: 256 },
        Credits { header: 16, data: 16 },
        Credits { header: 32, data: 512 },
    ];
    settings.completer.read_latency = ns(300);
    settings.completer.write_latency = ns(50);
    settings.switch.latency = ns(110);
    settings.requester.completion_timeout = ns(50_000);
    settings
}

/// Runs these flows to any end.
fn run(stand: &mut Stand, flows: Vec<Flow>) -> Vec<FlowReport> {
    let ids = stand.start(flows);
    stand.run_to_any_end(&ids);
    stand.reports(&ids)
}

fn unexpected(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedCompletion { .. })
}

fn timed_out(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::CompletionTimeout { .. })
}

fn poisoned(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::PoisonedWrite { .. })
}

/// Into the memory of a host or an endpoint: the poisoned write has no effect, the last port
/// records it, and all other writes are done.
#[test]
fn a_poisoned_write_has_no_effect_and_is_noted_where_it_ends() {
    for (to_peer, finder) in [(false, "rp0"), (true, "ep1")] {
        let mut stand = one_switch(&settings(), 2);
        let target = if to_peer { stand.bar(1) } else { BusAddress(0x10_0000) };
        let up = stand.direction(0, LinkDirection::Up);
        stand.fabric.inject_fault(up, Class::Posted, TlpFault::Poison, Moment::Next(1));
        let flow = Flow { operations: 40, ..stand.flow(0, FlowKind::Write, target, 256) };
        let report = &run(&mut stand, vec![flow])[0];
        assert_eq!((report.operations, report.failed), (39, 1));
        assert_eq!((stand.fabric.error_count(), stand.count(poisoned)), (1, 1));
        assert_eq!(stand.fabric.errors()[0].port_name, finder);
        let [injected] = stand.fabric.injected() else { panic!("one") };
        assert_eq!((injected.fault, injected.direction), (TlpFault::Poison, up));
        assert_eq!(stand.peek(injected.header.address), [0; 256], "nothing was written there");
    }
}

/// A poisoned interrupt is not delivered.
#[test]
fn a_poisoned_interrupt_does_not_come() {
    let mut stand = direct(&settings());
    let up = stand.direction(0, LinkDirection::Up);
    stand.fabric.inject_fault(up, Class::Posted, TlpFault::Poison, Moment::Next(1));
    let interrupts = BusAddress(INTERRUPT_ADDRESSES.start);
    let mut flow = Flow { operations: 1, ..stand.flow(0, FlowKind::Write, interrupts, 4) };
    flow.window_bytes = 4096;
    run(&mut stand, vec![flow]);
    assert_eq!(stand.fabric.interrupts(stand.root).1, 0);
    assert_eq!(stand.count(poisoned), 1);
}

/// A lost completion makes only its read time out.
#[test]
fn a_lost_completion_ends_in_a_completion_timeout() {
    let mut stand = one_switch(&settings(), 2);
    let down = stand.direction(0, LinkDirection::Down);
    stand.fabric.inject_fault(down, Class::Completion, TlpFault::Drop, Moment::Next(3));
    let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 256);
    let report = &run(&mut stand, vec![Flow { operations: 40, ..flow }])[0];
    assert_eq!((report.operations, report.failed), (37, 3));
    assert_eq!((stand.fabric.error_count(), stand.count(timed_out)), (3, 3));
    assert_eq!(stand.fabric.injected_count(), 3);
}

/// A lost request does the same; a lost write is missed only by its flow.
#[test]
fn a_lost_request_ends_in_a_completion_timeout_and_a_lost_write_in_nothing() {
    let mut stand = one_switch(&settings(), 2);
    let up = stand.direction(0, LinkDirection::Up);
    stand.fabric.inject_fault(up, Class::NonPosted, TlpFault::Drop, Moment::Next(1));
    stand.fabric.inject_fault(up, Class::Posted, TlpFault::Drop, Moment::Next(1));
    let flows = [
        stand.flow(0, FlowKind::Read, BusAddress(0), 256),
        stand.flow(0, FlowKind::Write, BusAddress(1 << 26), 256),
    ];
    let flows = flows.map(|flow| Flow { operations: 40, ..flow });
    for report in run(&mut stand, flows.to_vec()) {
        assert_eq!((report.operations, report.failed), (39, 1));
    }
    assert_eq!((stand.fabric.error_count(), stand.count(timed_out)), (1, 1));
}

/// Of a duplicated completion, the second is unexpected and its data are ignored.
#[test]
fn the_second_of_a_doubled_completion_is_unexpected() {
    for shuffle in [false, true] {
        let mut settings = settings();
        // The tag is not reused before the second has arrived.
        settings.requester.read_interval = ns(1_000);
        let mut stand = one_switch(&settings, 2);
        stand.fabric.set_shuffle(shuffle);
        let down = stand.direction(0, LinkDirection::Down);
        stand.fabric.inject_fault(down, Class::Completion, TlpFault::Duplicate, Moment::Next(5));
        let flow = stand.flow(0, FlowKind::Read, BusAddress(0), 64);
        let report = &run(&mut stand, vec![Flow { operations: 40, ..flow }])[0];
        assert_eq!((report.operations, report.failed), (40, 0), "{:?}", report.errors);
        assert_eq!((stand.fabric.error_count(), stand.count(unexpected)), (5, 5));
        let counters = stand.fabric.counters(down);
        assert_eq!(counters.payload_bytes, 45 * 64, "it takes the wire twice");
    }
}

#[test]
#[should_panic(expected = "only completions are doubled")]
fn requests_are_not_doubled() {
    let mut stand = direct(&settings());
    let up = stand.direction(0, LinkDirection::Up);
    stand.fabric.inject_fault(up, Class::Posted, TlpFault::Duplicate, Moment::Next(1));
}

/// Faults of all kinds at once, everywhere, with bit errors, shuffled: every operation ends or
/// waits for something lost, nothing leaks, and afterwards the fabric works normally. The same seed
/// causes the same faults.
#[test]
fn after_a_storm_of_faults_nothing_is_missing() {
    let mut hit = [0; 3];
    for seed in 0..30 {
        let mut first = None;
        for _ in 0..2 {
            let mut settings = settings();
            (settings.seed, settings.link.bit_error_rate) = (seed, [0.0, 2e-6][seed as usize % 2]);
            let mut stand = tree(&settings, seed as usize);
            stand.fabric.set_shuffle(seed % 3 == 0);
            let all = stand.directions();
            for direction in &all {
                for (class, fault) in [
                    (Class::Posted, TlpFault::Poison),
                    (Class::Completion, TlpFault::Poison),
                    (Class::Posted, TlpFault::Drop),
                    (Class::NonPosted, TlpFault::Drop),
                    (Class::Completion, TlpFault::Drop),
                    (Class::Completion, TlpFault::Duplicate),
                ] {
                    let moment = Moment::Probability(0.003);
                    stand.fabric.inject_fault(*direction, class, fault, moment);
                }
            }
            let flows = traffic(&stand, 200, 0);
            run(&mut stand, flows);
            let errors = stand.fabric.errors();
            assert!(!errors.iter().any(|error| matches!(error.kind, ErrorKind::Ordering { .. })));
            let faults: Vec<_> = stand.fabric.injected().to_vec();
            assert!(faults.len() > 5, "{}", faults.len());
            faults.iter().for_each(|injected| hit[injected.fault as usize] += 1);
            assert_eq!(first.get_or_insert_with(|| faults.clone()), &faults);
            all.iter().for_each(|direction| stand.fabric.clear_injections(*direction));
            let before = stand.fabric.error_count();
            let flows = traffic(&stand, 20, 1 << 28);
            for report in run(&mut stand, flows) {
                assert_eq!((report.operations, report.failed), (20, 0), "{:?}", report.errors);
            }
            assert_eq!(stand.fabric.error_count(), before);
        }
    }
    assert!(hit.iter().all(|hits| *hits > 50), "{hit:?}");
}

/// Writes and reads of every endpoint.
fn traffic(stand: &Stand, operations: u64, base: u64) -> Vec<Flow> {
    let count = stand.endpoints.len();
    let flows = (0..count).flat_map(|from| {
        let at = base + ((from as u64) << 22);
        let read = BusAddress((1 << 26) + at);
        [
            stand.flow(from, FlowKind::Write, BusAddress(at), 300),
            stand.flow(from, FlowKind::Read, read, 1000),
        ]
    });
    flows.map(|flow| Flow { operations, ..flow }).collect()
}

/// A stalled memory or endpoint holds the credits of arrived TLPs without loss; the receive buffer
/// fills but does not overflow, and traffic resumes exactly at the end of the stall.
#[test]
fn what_stalls_holds_its_credits_and_goes_on_in_order() {
    for to_peer in [false, true] {
        let settings = settings();
        let mut stand = one_switch(&settings, 2);
        let target = if to_peer { stand.bar(1) } else { BusAddress(0) };
        let (node, by) = if to_peer {
            (stand.endpoints[1], stand.direction(1, LinkDirection::Down))
        } else {
            (stand.root, DirectionId { link: stand.link("up0"), heading: LinkDirection::Up })
        };
        let flow = stand.flow(0, FlowKind::Write, target, 256).times(200).at_once(64);
        let id = stand.fabric.start_flow(flow).unwrap();
        stand.fabric.run(Some(ns(1_000)));
        let until = ns(30_000);
        assert!(stand.fabric.stall(node, until));
        assert!(stand.fabric.stall(node, ns(20_000)), "the longer one counts");
        stand.fabric.run(Some(ns(5_000)));
        let before = stand.fabric.counters(by).tlps;
        assert!((16..100).contains(&before), "{before}");
        stand.fabric.run(Some(Picoseconds(until.0 - 1)));
        assert_eq!(stand.fabric.counters(by).tlps, before);
        let idle = stand.fabric.counters(by).idle_ps[IdleReason::ReceiverBusy as usize];
        assert!(idle > 20_000_000, "{idle}");
        assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
        let report = stand.fabric.flow_report(id);
        assert_eq!((report.operations, report.failed), (200, 0));
        assert!(stand.fabric.now() > until);
        assert_eq!(stand.fabric.errors(), &[]);
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    }
}

/// A switch cannot be stalled.
#[test]
fn a_switch_does_not_stall() {
    let mut stand = one_switch(&settings(), 2);
    let is_switch = |node: &Node| node.kind == NodeKind::Switch;
    let switch = stand.fabric.nodes().iter().position(is_switch).unwrap();
    assert!(!stand.fabric.stall(NodeId(switch as u32), ns(100)));
}

/// Late answers are late by exactly the set time; beyond the time-out the completions are
/// unexpected; neither memory nor link waits for them.
#[test]
fn late_answers_hold_nobody_else_up() {
    let flow = |stand: &Stand, at: u64| {
        let mut flow = stand.flow(0, FlowKind::Read, BusAddress(at), 64);
        (flow.operations, flow.outstanding, flow.window_bytes) = (1, 1, 4096);
        flow
    };
    let mut stand = one_switch(&settings(), 2);
    let one = vec![flow(&stand, 0)];
    let usual = run(&mut stand, one)[0].last_done;
    for (by, fails) in [(ns(20_000), false), (ns(70_000), true)] {
        let mut stand = one_switch(&settings(), 2);
        let fault = Some(MemoryFault::Late(by));
        assert!(stand.fabric.set_memory_fault(HOST, 0..4, fault));
        let both = vec![flow(&stand, 0), flow(&stand, 4096)];
        let reports = run(&mut stand, both);
        assert_eq!(reports[0].failed, u64::from(fails));
        assert_eq!(stand.count(unexpected), usize::from(fails));
        assert_eq!(stand.count(timed_out), usize::from(fails));
        if !fails {
            assert_eq!(reports[0].last_done, usual + by);
        }
        assert!(reports[1].last_done < usual + ns(100), "the other read is not held up");
    }
}

#[test]
fn memory_can_refuse_with_unsupported_request() {
    let mut stand = direct(&settings());
    let fault = Some(MemoryFault::UnsupportedRequest);
    assert!(stand.fabric.set_memory_fault(HOST, 0..4, fault));
    let flow = Flow { operations: 1, ..stand.flow(0, FlowKind::Read, BusAddress(0), 256) };
    let report = &run(&mut stand, vec![flow])[0];
    assert_eq!(report.failed, 1);
    assert!(report.errors[0].ends_with("completed with Unsupported Request"), "{report:?}");
}

/// Bit errors that begin and end during traffic: nothing is lost, and TLPs sent before them need no
/// Ack. Replay buffers are small, so that a lost Ack would stop the link.
#[test]
fn bit_errors_can_begin_and_end() {
    for seed in 0..20 {
        let mut settings = settings();
        settings.seed = seed;
        settings.port.replay_buffer_bytes = 1024;
        settings.link.flight = ns(20);
        settings.link.retrain = ns(500);
        let mut stand = one_switch(&settings, 2);
        let flows: Vec<_> = traffic(&stand, 300, 0);
        let ids = stand.start(flows);
        let links: Vec<_> = (0..stand.fabric.links().len() as u32).map(LinkId).collect();
        let corrupt = |stand: &mut Stand| -> u64 {
            let all = stand.directions().into_iter();
            all.map(|direction| stand.fabric.counters(direction).corrupt_tlps).sum()
        };
        for (from_ns, rate) in [(777 + seed, 5e-5), (8_000 + seed, 2e-5), (11_000 + seed, 0.0)] {
            assert_eq!(stand.fabric.run(Some(ns(from_ns))), RunEnd::Limit);
            if rate == 5e-5 {
                assert_eq!(corrupt(&mut stand), 0);
            }
            links.iter().for_each(|link| stand.fabric.set_bit_error_rate(*link, rate));
        }
        let before = corrupt(&mut stand);
        assert!(before > 5, "{before}");
        assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
        assert_eq!(corrupt(&mut stand), before);
        for report in stand.reports(&ids) {
            assert_eq!((report.operations, report.failed), (300, 0), "{:?}", report.errors);
        }
        assert_eq!(stand.fabric.errors(), &[]);
        assert_eq!(stand.fabric.check_quiet(), Vec::<String>::new());
    }
}
