// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code in simulated time: stores and loads of a core, when it continues, and events for
//! timers, memory written by devices, and interrupts. Times are worked out by hand.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::config::Identity;
use crosslane_pcie::tlp::{CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds};
use support::*;

/// An uncached store takes 10 ns, a load 20 ns beside its round trip.
fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(2, 4), 256);
    settings.bar_bytes = 1 << 20;
    settings
}

fn changed(token: u64) -> HostEvent {
    HostEvent::Changed { token }
}

/// A store arrives before the load behind it reads the same register. The store leaves the core at
/// 0 and holds it for 10 ns; the load leaves once the store's 24 B have left the link and the core
/// is free.
#[test]
fn a_store_then_a_load_round_trip() {
    let mut settings = settings();
    settings.port.receive_latency = ns(50);
    settings.port.transmit_latency = ns(100);
    settings.link.flight = ns(3);
    settings.completer.read_latency = ns(400);
    let mut stand = direct(&settings);
    let (root, bar) = (stand.root, stand.bar(0));
    let fabric = &mut stand.fabric;
    fabric.host_store(root, 0, bar, &0x1234_5678u32.to_le_bytes(), 4, 1).unwrap();
    fabric.host_load(root, 0, bar, 4, 2).unwrap();
    fabric.host_load(root, 0, bar, 8, 3).unwrap();
    // Transmit 100, the store's 12 ns (as its last byte leaves at 112 ns, after the load's 110),
    // the read of 20 B 10 ns, flight 3, receive 50, memory 400; back 100 + 24 B + 3 + 50; 20.
    let leg = ns(3 + 50);
    let first = ns(112) + wire(20) + leg + ns(400) + ns(100) + wire(24) + leg + ns(20);
    let second = first + ns(100) + wire(20) + leg + ns(400) + ns(100) + wire(28) + leg + ns(20);
    let expected = vec![
        (ns(10), stored(1)),
        (first, loaded(2, 0x1234_5678)),
        (second, loaded(3, 0x1234_5678)),
    ];
    assert_eq!(all_events(fabric), expected);
    assert_eq!(fabric.errors(), &[]);
    // The core has been busy for all of it, and is for a system call on another one.
    assert_eq!(fabric.busy(root), Some(second));
    assert_eq!(fabric.spend(root, 1, CoreWork::SystemCall), Some(second + ns(500)));
    assert_eq!(fabric.busy(root), Some(second + ns(500)));
    assert_eq!(fabric.busy(stand.endpoints[0]), None);
}

/// A run is cut into naturally aligned stores; they arrive lowest address first.
#[test]
fn a_run_is_cut_into_aligned_stores() {
    let cases: [(u64, usize, u32, &[u32]); 6] = [
        (0, 64, 64, &[64]),
        (4, 28, 16, &[4, 8, 16]),
        (0, 20, 8, &[8, 8, 4]),
        (60, 72, 64, &[4, 64, 4]),
        (3, 6, 4, &[1, 4, 1]),
        (0, 0, 4, &[]),
    ];
    for (offset, length, width, stores) in cases {
        let mut stand = witness(Witness::default());
        let bytes: Vec<u8> = (1..=length as u8).collect();
        let at = BusAddress(stand.bar(0).0 + offset);
        stand.fabric.host_store(stand.root, 0, at, &bytes, width, 9).unwrap();
        let events = all_events(&mut stand.fabric);
        assert_eq!(events, [(ns(10 * stores.len() as u64), stored(9))], "{offset} {length}");
        let mut seen = vec![0; length];
        let at = BusAddress(at.0 + (1 << 19));
        assert!(stand.fabric.peek(HOST, at, &mut seen));
        let (mut next, mut from) = (offset, 0);
        let mut log = vec![0; 16 * stores.len()];
        assert!(stand.fabric.peek(HOST, stand.bar(0), &mut log));
        for (entry, bytes) in log.chunks(16).zip(stores) {
            let word = |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().unwrap());
            assert_eq!((word(0), word(8)), (next, u64::from(*bytes)));
            next += u64::from(*bytes);
            from += *bytes as usize;
        }
        assert_eq!((from, &seen), (length, &bytes));
    }
}

/// Logs each write (offset, bytes) at the beginning of its memory and keeps the data in its second
/// half. Answers reads with their tag, or not at all.
#[derive(Default)]
struct Witness {
    memory: Memory,
    writes: u64,
    reads: u32,
    /// Number of reads answered late or not at all.
    mute: u32,
    /// Delay of their answers; 0 for none.
    late_ps: u64,
    held: Vec<Header>,
    status: Option<CompletionStatus>,
}

impl Device for Witness {
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let header = port.header(tlp);
        let bytes = header.request_bytes();
        if header.kind == TlpKind::MemoryWrite {
            let base = port.config().bar(0).unwrap().base.0;
            let offset = header.address.0 - base;
            self.memory.write(16 * self.writes, &offset.to_le_bytes());
            self.memory.write(16 * self.writes + 8, &u64::from(bytes).to_le_bytes());
            self.writes += 1;
            let skip = (header.address.0 & 3) as usize;
            let data = &port.payload(tlp)[skip..skip + bytes as usize];
            self.memory.write((1 << 19) + offset, data);
            return Consumed::Now;
        }
        self.reads += 1;
        if self.reads <= self.mute {
            if self.late_ps > 0 {
                self.held.push(header);
                port.timer(port.now_ps() + self.late_ps, 0);
            }
        } else {
            self.answer(&header, port);
        }
        Consumed::Now
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, _token: u32, port: &mut DevicePort<'_>) {
        let header = self.held.remove(0);
        self.answer(&header, port);
    }

    fn memory(&mut self) -> Option<&mut Memory> {
        Some(&mut self.memory)
    }
}

impl Witness {
    fn answer(&self, header: &Header, port: &mut DevicePort<'_>) {
        let (id, bytes) = (port.routing_id(), header.request_bytes());
        if let Some(status) = self.status {
            port.send(Header::completion_error(header, id, status), |_| {});
            return;
        }
        let answer = Header::completion_data(header, id, header.address, bytes, bytes);
        port.send(answer, |payload| payload.fill(header.tag.0 as u8));
    }
}

fn witness(device: Witness) -> Stand {
    direct_device(&settings(), Identity::default(), one_bar(), Box::new(device))
}

/// With a queue of two stores that take the wire for 42 ns each (64 B), the core stalls while two
/// wait and one is on the wire.
#[test]
fn a_full_store_queue_stalls_the_core() {
    let mut settings = settings();
    settings.cpu.store_queue = 2;
    let mut stand = direct(&settings);
    let (root, bar) = (stand.root, stand.bar(0));
    let bytes: Vec<u8> = (0..384u32).map(|at| at as u8).collect();
    stand.fabric.host_store(root, 0, bar, &bytes, 64, 5).unwrap();
    // Stores are made at 0, 10, 20; the wire takes one every 42 ns: at 0, 42, 84, 126. The
    // fourth finds two waiting and goes at 42, the fifth at 84, the sixth at 126.
    assert_eq!(all_events(&mut stand.fabric), [(ns(126 + 10), stored(5))]);
    assert_eq!(stand.peek::<384>(bar)[..], bytes);
}

/// Loads wait behind stores of their core, but not of another; two cores that store at the same
/// time share the wire.
#[test]
fn two_cores_go_on_by_themselves() {
    let mut stand = direct(&settings());
    let (root, bar) = (stand.root, stand.bar(0));
    let fabric = &mut stand.fabric;
    assert_eq!(fabric.host_cores(root), 2);
    fabric.host_store(root, 0, bar, &[1; 12], 4, 1).unwrap();
    fabric.host_store(root, 1, bar.offset(64), &[2; 4], 4, 2).unwrap();
    fabric.host_load(root, 1, bar.offset(64), 4, 3).unwrap();
    fabric.host_load(root, 0, bar, 8, 4).unwrap();
    // The wire: core 0 at 0, core 1 behind it at 12 ns, then core 0's second store at 24 ns (made
    // at 10), core 1's load at 36 ns (made at 10), and core 0's third store at 46 ns (made at 20).
    // Its load waits until then: 58 ns.
    let first = ns(36) + wire(20) + ACK + wire(24) + ns(20);
    let second = ns(58) + wire(20) + ACK + wire(28) + ns(20);
    let expected = vec![
        (ns(10), stored(2)),
        (ns(30), stored(1)),
        (first, loaded(3, 0x0202_0202)),
        (second, loaded(4, 0x0101_0101_0101_0101)),
    ];
    assert_eq!(all_events(fabric), expected);
}

/// Host code and a flow of one core take turns, store by store.
#[test]
fn host_code_and_flows_take_turns() {
    let mut stand = direct(&settings());
    let (root, bar) = (stand.root, stand.bar(0));
    let flow = stand.core_flow(0, FlowKind::Write, bar.offset(4096), 64).times(1).at_once(1);
    let id = stand.fabric.start_flow(flow).unwrap();
    // Eight stores of the flow, three of host code: flow at 0, host at 10, flow at 20, ...
    stand.fabric.host_store(root, 0, bar, &[7; 24], 8, 1).unwrap();
    assert_eq!(all_events(&mut stand.fabric), [(ns(60), stored(1))]);
    let report = stand.fabric.flow_report(id);
    assert_eq!((report.operations, report.failed), (1, 0));
}

/// Work that occupies a core delays the access behind it.
#[test]
fn work_delays_the_next_access() {
    let mut stand = direct(&settings());
    let (root, bar) = (stand.root, stand.bar(0));
    stand.fabric.spend(root, 0, CoreWork::Time(ns(700))).unwrap();
    stand.fabric.host_store(root, 0, bar, &[1; 4], 4, 1).unwrap();
    assert_eq!(all_events(&mut stand.fabric), [(ns(710), stored(1))]);
}

/// The event of a device's write comes when the write becomes visible, and only once per watch.
/// Watches on adjacent bytes get no event.
#[test]
fn a_watch_comes_when_the_write_can_be_seen() {
    let mut settings = settings();
    settings.completer.write_latency = ns(90);
    let mut stand = direct(&settings);
    let root = stand.root;
    let target = BusAddress(0x8000);
    let mut flow = stand.flow(0, FlowKind::Write, target, 64);
    (flow.operations, flow.outstanding, flow.window_bytes) = (3, 1, 64);
    let fabric = &mut stand.fabric;
    fabric.start_flow(flow).unwrap();
    fabric.host_watch(root, target.0 + 60..target.0 + 64, 1);
    fabric.host_watch(root, target.0 + 64..target.0 + 68, 2);
    fabric.host_watch(root, target.0 - 4..target.0, 3);
    fabric.host_watch(root, 0..1 << 20, 4);
    fabric.host_watch(root, target.0..target.0 + 4, 5);
    fabric.cancel_host_watch(5);
    let seen = wire(84) + ns(90);
    let mut events = Vec::new();
    let mut word = [0; 4];
    // One picosecond earlier the bytes are not visible.
    fabric.host_timer(Picoseconds(seen.0 - 1), 6);
    assert!(fabric.run_until_host_event());
    assert!(fabric.peek(HOST, BusAddress(target.0 + 60), &mut word));
    assert_eq!(word, [0; 4]);
    fabric.take_host_events(&mut events);
    // The write has arrived but is not visible yet: a new watch still gets its event.
    fabric.host_watch(root, target.0..target.0 + 1, 7);
    assert!(fabric.run_until_host_event());
    assert_eq!(fabric.now(), seen);
    assert!(fabric.peek(HOST, BusAddress(target.0 + 60), &mut word));
    assert_ne!(word, [0; 4]);
    // The visible write lets the next operation begin: its write comes 132 ns later.
    fabric.host_watch(root, target.0..target.0 + 1, 8);
    fabric.take_host_events(&mut events);
    assert_eq!(events, [HostEvent::Timer { token: 6 }, changed(1), changed(4), changed(7)]);
    assert_eq!(all_events(fabric), [(seen + seen, changed(8))]);
    assert_eq!(fabric.run(None), RunEnd::Quiet);
}

/// A watch that was hit but cancelled before the write is visible gets no event.
#[test]
fn a_watch_can_be_taken_back_late() {
    let mut settings = settings();
    settings.completer.write_latency = ns(1000);
    let mut stand = direct(&settings);
    let root = stand.root;
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 64).times(1);
    let fabric = &mut stand.fabric;
    fabric.start_flow(flow).unwrap();
    fabric.host_watch(root, 0..4, 1);
    fabric.host_watch(root, 0..4, 2);
    fabric.host_timer(ns(500), 3);
    assert!(fabric.run_until_host_event());
    fabric.cancel_host_watch(1);
    let seen = wire(84) + ns(1000);
    assert_eq!(all_events(fabric), [(ns(500), HostEvent::Timer { token: 3 }), (seen, changed(2))]);
}

/// Writes 64 B and then an interrupt after each write to it.
struct Announcer;

impl Device for Announcer {
    fn receive(&mut self, _tlp: Received, port: &mut DevicePort<'_>) -> Consumed {
        let id = port.routing_id();
        port.send(Header::memory_write(id, BusAddress(0x4000), 64), |payload| payload.fill(0x5a));
        let message = BusAddress(INTERRUPT_ADDRESSES.start);
        port.send(Header::memory_write(id, message, 4), |payload| payload.fill(3));
        Consumed::Now
    }

    fn transmit_ready(&mut self, _port: &mut DevicePort<'_>) {}

    fn timer(&mut self, _token: u32, _port: &mut DevicePort<'_>) {}
}

/// The handler of an interrupt runs after the data that it announces, even with slow memory.
#[test]
fn an_interrupt_comes_behind_its_data() {
    for write_ns in [0, 50, 5000] {
        let mut settings = settings();
        settings.completer.write_latency = ns(write_ns);
        let mut stand =
            direct_device(&settings, Identity::default(), one_bar(), Box::new(Announcer));
        let (root, bar) = (stand.root, stand.bar(0));
        let fabric = &mut stand.fabric;
        fabric.host_store(root, 0, bar, &[1; 4], 4, 1).unwrap();
        fabric.host_watch(root, 0x4000..0x4040, 2);
        let seen = wire(24) + ACK + wire(84) + ns(write_ns);
        let handled = seen.max(wire(24) + ACK + wire(84 + 24)) + settings.cpu.interrupt;
        let interrupt = HostEvent::Interrupt { root_complex: root, data: 0x0303_0303 };
        let expected = [(ns(10), stored(1)), (seen, changed(2)), (handled, interrupt)];
        assert_eq!(all_events(fabric), expected);
        assert_eq!(stand.peek(BusAddress(0x4000)), [0x5a; 64]);
        let (interrupts, count) = stand.fabric.interrupts(root);
        assert_eq!((count, interrupts[0].handled), (1, handled));
    }
}

/// Timers come at their time, and in the order of the requests if equal; a cancelled one neither
/// comes nor advances time.
#[test]
fn timers_come_in_order_and_can_be_cancelled() {
    let mut stand = direct(&settings());
    let fabric = &mut stand.fabric;
    let timer = |token| HostEvent::Timer { token };
    fabric.host_timer(ns(30), 1);
    fabric.host_timer(ns(20), 2);
    fabric.host_timer(ns(20), 3);
    fabric.host_timer(ns(1_000_000), 4);
    fabric.host_timer(Picoseconds(u64::MAX), 5);
    fabric.host_timer(ns(70), 2);
    fabric.cancel_host_timer(4);
    fabric.cancel_host_timer(99);
    assert_eq!(all_events(fabric), [(ns(20), timer(3)), (ns(30), timer(1)), (ns(70), timer(2))]);
    assert_eq!(fabric.now(), ns(70));
    // A timer in the past comes now.
    fabric.host_timer(ns(5), 1);
    assert_eq!(all_events(fabric), [(ns(70), timer(1))]);
}

/// A timer comes after all other events of its time.
#[test]
fn a_timer_sees_what_happens_at_its_time() {
    let mut stand = direct(&settings());
    let flow = stand.flow(0, FlowKind::Write, BusAddress(0), 64).times(1);
    stand.start([flow]);
    for (time, there) in [(wire(84).0 - 1, false), (wire(84).0, true)] {
        stand.fabric.host_timer(Picoseconds(time), 1);
        stand.next_event();
        assert_eq!(stand.peek(BusAddress(0)) != [0; 4], there);
    }
}

/// Unclaimed, refused and aborted loads; unclaimed stores.
#[test]
fn what_is_refused_is_told() {
    let refused = |token, address, status| HostEvent::Loaded {
        token,
        result: Err(LoadError::Refused { address, bytes: 4, status }),
    };
    let mut stand = direct(&settings());
    let (root, bar) = (stand.root, stand.bar(0));
    stand.set_command("ep0", 0);
    let fabric = &mut stand.fabric;
    fabric.host_load(root, 0, NOWHERE, 4, 1).unwrap();
    fabric.host_load(root, 0, bar, 4, 2).unwrap();
    fabric.host_store(root, 0, NOWHERE, &[1; 16], 8, 3).unwrap();
    let unsupported = "Unsupported Request";
    let answered = ns(20) + wire(20) + ACK + wire(20) + ns(20);
    let expected = vec![
        (ns(20), refused(1, NOWHERE, unsupported)),
        (answered, refused(2, bar, unsupported)),
        (answered + ns(20), stored(3)),
    ];
    assert_eq!(all_events(fabric), expected);
    let errors: Vec<_> = fabric.errors().iter().map(ToString::to_string).collect();
    assert_eq!(fabric.error_count(), 3);
    assert!(
        errors[1].starts_with("host at 64 ns: Unsupported Request: MWr 0xf0000000 8 B"),
        "{errors:?}"
    );

    let status = Some(CompletionStatus::CompleterAbort);
    let mut stand = witness(Witness { status, ..Witness::default() });
    let bar = stand.bar(0);
    stand.fabric.host_load(stand.root, 0, bar, 4, 1).unwrap();
    let events = all_events(&mut stand.fabric);
    assert_eq!(events[0].1, refused(1, bar, "Completer Abort"));
}

/// An unanswered load times out after 50 ms; its late completion is not matched with another load.
/// The core continues in between.
#[test]
fn a_load_times_out_and_its_late_completion_is_told_apart() {
    let late_ps = ns(80_000_000).0;
    let mut stand = witness(Witness { mute: 2, late_ps, ..Witness::default() });
    let (root, bar) = (stand.root, stand.bar(0));
    let fabric = &mut stand.fabric;
    for token in 0..3 {
        fabric.host_load(root, 0, bar, 4, token).unwrap();
    }
    let limit = COMPLETION_TIMEOUT;
    let all = all_events(fabric);
    assert_eq!(all[0], (limit, timed_out(0, bar)));
    assert_eq!(all[1], (limit + limit, timed_out(1, bar)));
    // With two cores host code's tags are 2, 3, 4; the first came back at 80 ms, so it is the next.
    assert_eq!(all[2].1, loaded(2, 0x0202_0202));
    assert_eq!(all.len(), 3);
    let unexpected = stand.count(|kind| matches!(kind, ErrorKind::UnexpectedCompletion { .. }));
    let timeouts = stand.count(|kind| matches!(kind, ErrorKind::CompletionTimeout { .. }));
    let errors = stand.fabric.errors();
    assert_eq!((unexpected, timeouts, errors.len()), (2, 2, 4));
    assert!(errors.iter().all(|error| error.port_name == "rp0"));
}

/// With all tags held by unanswered loads, a load is refused and the core continues.
#[test]
fn a_load_without_a_tag_is_refused() {
    let mut stand = witness(Witness { mute: u32::MAX, ..Witness::default() });
    let (root, bar) = (stand.root, stand.bar(0));
    let fabric = &mut stand.fabric;
    // 256 tags, less one for the flows of each of the two cores.
    for token in 0..255 {
        fabric.host_load(root, 0, bar, 4, token).unwrap();
    }
    fabric.host_store(root, 0, bar, &[1; 4], 4, 255).unwrap();
    let all = all_events(fabric);
    let limit = |times: u64| Picoseconds(COMPLETION_TIMEOUT.0 * times);
    for (at, (time, event)) in all[..254].iter().enumerate() {
        assert_eq!(*time, limit(at as u64 + 1));
        assert_eq!(*event, timed_out(at as u64, bar));
    }
    let result = Err(LoadError::NoTag { address: bar, bytes: 4 });
    let refused = (limit(254) + ns(20), HostEvent::Loaded { token: 254, result });
    assert_eq!(all[254..], [refused, (limit(254) + ns(30), stored(255))]);
}

/// Invalid requests give an error and have no other effect.
#[test]
fn bad_accesses_are_refused() {
    let mut stand = direct(&settings());
    let (root, bar, endpoint) = (stand.root, stand.bar(0), stand.endpoints[0]);
    let fabric = &mut stand.fabric;
    let core = |node: NodeId, core| HostAccessError::NoSuchCore { node: node.0, core };
    for (node, number) in [(root, 2), (endpoint, 0), (NodeId(77), 0)] {
        assert_eq!(fabric.host_load(node, number, bar, 4, 0), Err(core(node, number)));
        assert_eq!(fabric.host_store(node, number, bar, &[0], 4, 0), Err(core(node, number)));
    }
    for (offset, bytes) in [(0, 3), (0, 16), (2, 4), (4, 8)] {
        let address = bar.offset(offset);
        let error = HostAccessError::BadLoad { address, bytes };
        assert_eq!(fabric.host_load(root, 0, address, bytes, 0), Err(error));
    }
    for width_bytes in [0, 3, 128] {
        let error = HostAccessError::BadStoreWidth { width_bytes };
        assert_eq!(fabric.host_store(root, 0, bar, &[0; 4], width_bytes, 0), Err(error));
    }
    let address = BusAddress(u64::MAX - 3);
    let error = HostAccessError::BeyondAddresses { address, bytes: 8 };
    assert_eq!(fabric.host_store(root, 0, address, &[0; 8], 4, 0), Err(error));
    for token in 0..MAX_HOST_ACCESSES as u64 {
        fabric.host_store(root, 0, bar, &[0; 4], 4, token).unwrap();
    }
    let accesses = MAX_HOST_ACCESSES;
    let error = HostAccessError::TooManyAccesses { core: 0, accesses, bytes: 4 * accesses };
    assert_eq!(fabric.host_load(root, 0, bar, 4, 0), Err(error));
    assert_eq!(all_events(fabric).len(), accesses);
}
