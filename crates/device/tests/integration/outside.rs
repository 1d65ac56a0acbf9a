// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint whose logic is here: TLPs that arrive, TLPs that are sent, and those that are
//! refused.

use crosslane_device::outside::{Arrived, OutsideDevice, SendError, Which};
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity, registers};
use crosslane_pcie::tlp::{Class, CompletionStatus, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, Picoseconds, RoutingId, Tag};

use crate::support::fabric_support::{Settings, Stand, direct_device};
use crate::support::{DATA, HOST, ns, settings};

const BASE: u64 = MMIO_HOLE.start;
const FAR: Picoseconds = Picoseconds::from_ms(1);

/// An endpoint outside, and what happens at its host.
pub struct Bench {
    stand: Stand,
    pub id: RoutingId,
}

impl Bench {
    pub fn new(settings: &Settings) -> Self {
        let kind = BarKind::Memory32 { prefetchable: false };
        let mut bars = [None; 6];
        bars[0] = Some(BarRequest { kind, size_bytes: 4096 });
        let device = Box::new(OutsideDevice::new());
        let stand = direct_device(settings, Identity::default(), bars, device);
        let id = stand.fabric.routing_id(stand.fabric.node(stand.endpoints[0]).ports[0]);
        Self { stand, id }
    }

    pub fn fabric(&mut self) -> &mut Fabric {
        &mut self.stand.fabric
    }

    pub fn with<R>(
        &mut self,
        call: impl FnOnce(&mut OutsideDevice, &mut DevicePort<'_>) -> R,
    ) -> R {
        let node = self.stand.endpoints[0];
        self.stand.fabric.command(node, call).unwrap()
    }

    pub fn send(&mut self, header: Header, payload: &[u8]) -> Result<(), SendError> {
        self.with(|device, port| device.send(header, payload, None, port))
    }

    fn take(&mut self, which: Which) -> Option<Arrived> {
        let taken = self.with(|device, _| device.take(which));
        if let Some(arrived) = &taken {
            assert!(self.with(|device, port| device.release(arrived.number, port)));
            assert!(!self.with(|device, port| device.release(arrived.number, port)));
        }
        taken
    }

    fn load(&mut self, bytes: u32) {
        let root = self.stand.root;
        self.stand.fabric.host_load(root, 0, BusAddress(BASE + 8), bytes, 1).unwrap();
        self.stand.fabric.run_window(FAR);
    }

    fn loaded(&mut self) -> Result<u64, LoadError> {
        assert!(self.stand.fabric.run_until_host_event());
        let mut events = Vec::new();
        self.stand.fabric.take_host_events(&mut events);
        match events.pop() {
            Some(HostEvent::Loaded { result, .. }) => result,
            event => panic!("not an answer: {event:?}"),
        }
    }

    fn read(&self, tag: u16, bytes: u32) -> Header {
        Header::memory_read(self.id, Tag(tag), BusAddress(DATA), bytes)
    }
}

fn words(error: Result<(), SendError>) -> String {
    error.unwrap_err().to_string()
}

#[test]
fn a_store_arrives_with_its_time_and_place() {
    let mut bench = Bench::new(&settings());
    let root = bench.stand.root;
    bench.fabric().host_store(root, 0, BusAddress(BASE + 0x1c), &[7; 4], 4, 1).unwrap();
    bench.fabric().run(None);
    let arrived = bench.take(Which::Any).unwrap();
    assert_eq!((arrived.header.kind, arrived.payload), (TlpKind::MemoryWrite, vec![7; 4]));
    let place = arrived.place.unwrap();
    assert_eq!((place.bar, place.offset), (0, 0x1c));
    assert!(arrived.time > Picoseconds::ZERO && arrived.time <= bench.fabric().now());
    assert_eq!(bench.take(Which::Any), None);
    assert_eq!(bench.fabric().check_quiet(), Vec::<String>::new());
}

#[test]
fn a_load_gets_the_answer_that_is_sent() {
    let mut bench = Bench::new(&settings());
    bench.load(8);
    assert_eq!(bench.take(Which::Completions), None);
    let request = bench.take(Which::Requests).unwrap().header;
    let id = bench.id;
    let answer = Header::completion_data(&request, id, request.address, 8, 8);
    bench.send(answer, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(bench.loaded(), Ok(0x0807_0605_0403_0201));
    bench.load(4);
    let request = bench.take(Which::Any).unwrap().header;
    let abort = CompletionStatus::CompleterAbort;
    bench.send(Header::completion_error(&request, id, abort), &[]).unwrap();
    assert!(matches!(bench.loaded(), Err(LoadError::Refused { status: "Completer Abort", .. })));
    assert_eq!(bench.fabric().check_quiet(), Vec::<String>::new());
}

#[test]
fn a_read_brings_its_completions_in_order() {
    let mut bench = Bench::new(&settings());
    let data: Vec<u8> = (0..512_u32).map(|at| at as u8).collect();
    bench.fabric().poke(HOST, BusAddress(DATA), &data);
    let read = bench.read(3, 512);
    bench.send(read, &[]).unwrap();
    assert!(words(bench.send(read, &[])).contains("a read with this tag lacks 512 B"));
    bench.fabric().run(None);
    let mut found = Vec::new();
    while let Some(arrived) = bench.take(Which::Completions) {
        assert_eq!(arrived.header.tag, Tag(3));
        assert_eq!(usize::from(arrived.header.byte_count), 512 - found.len());
        found.extend(arrived.payload);
    }
    assert_eq!(found, data);
    // The tag is free again.
    bench.send(read, &[]).unwrap();
    bench.fabric().run(None);
    while bench.take(Which::Any).is_some() {}
    assert_eq!(bench.fabric().check_quiet(), Vec::<String>::new());
}

#[test]
fn a_completion_waits_for_the_write_before_it() {
    let mut bench = Bench::new(&settings());
    let root = bench.stand.root;
    bench.fabric().host_store(root, 0, BusAddress(BASE), &[1; 4], 4, 1).unwrap();
    bench.fabric().run_window(FAR);
    let read = bench.read(0, 4);
    bench.send(read, &[]).unwrap();
    bench.fabric().run_window(Picoseconds(2 * FAR.0));
    assert_eq!(bench.with(|device, _| device.waiting()), 2);
    assert_eq!(bench.take(Which::Completions), None);
    assert_eq!(bench.take(Which::Requests).unwrap().header.class(), Class::Posted);
    assert_eq!(bench.take(Which::Completions).unwrap().header.class(), Class::Completion);
}

/// Without releases the host's stores use up the credits of the port; without credits of the host
/// there is no room for the core's writes.
#[test]
fn credits_end_what_is_sent_both_ways() {
    let mut settings = settings();
    settings.port.receive_credits[0].header = 4;
    let mut bench = Bench::new(&settings);
    let root = bench.stand.root;
    for number in 0..10 {
        let at = BusAddress(BASE + 4 * number);
        bench.fabric().host_store(root, 0, at, &[1; 4], 4, number).unwrap();
    }
    bench.fabric().run_window(FAR);
    assert_eq!(bench.with(|device, _| device.waiting()), 4);
    for number in 0..10 {
        let arrived = bench.take(Which::Any).unwrap();
        assert_eq!(arrived.place.unwrap().offset, 4 * number);
        let later = Picoseconds(bench.fabric().now().0 + FAR.0);
        bench.fabric().run_window(later);
    }
    let mut sent = 0;
    let write = Header::memory_write(bench.id, BusAddress(DATA), 256);
    let error = loop {
        match bench.send(write, &[9; 256]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!((1..20).contains(&sent), "{sent} writes fit");
    assert_eq!(
        error.to_string(),
        format!("cannot send MWr {DATA:#x} 256 B now: the queue to the link is full")
    );
    assert!(!bench.with(|_, port| OutsideDevice::has_room(Class::Posted, port)));
    bench.fabric().run(None);
    assert!(bench.with(|_, port| OutsideDevice::has_room(Class::Posted, port)));
    assert_eq!(bench.fabric().check_quiet(), Vec::<String>::new());
}

#[test]
fn each_wrong_tlp_is_refused_by_its_reason() {
    let mut bench = Bench::new(&settings());
    let id = bench.id;
    let other = RoutingId(0x0700);
    let refused = words(bench.send(Header::memory_write(other, BusAddress(DATA), 4), &[0; 4]));
    assert!(refused.contains(&format!("it comes from 07:00.0, and the endpoint is {id}")));
    let long = Header::memory_write(id, BusAddress(DATA), 512);
    assert!(words(bench.send(long, &[0; 512])).contains("than Max_Payload_Size, 256 B"));
    let far = bench.read(700, 4);
    assert!(words(bench.send(far, &[])).contains("the host has enabled 256 tags"));
    bench.load(8);
    let request = bench.take(Which::Any).unwrap().header;
    let answer = |at: u64, bytes, left| {
        let at = BusAddress(request.address.0 + at);
        Header::completion_data(&request, id, at, bytes, left)
    };
    for (header, error) in [
        (answer(0, 8, 4), "byte count 4, and 8 B are left of the read"),
        (answer(4, 8, 8), "lower address 0xc, and 0x8 is next"),
        (answer(0, 4, 8), "neither with the read nor at a multiple of 128 B"),
        (answer(0, 12, 8), "12 B of payload, and 8 B hold its bytes"),
        (Header { tag: Tag(99), ..answer(0, 8, 8) }, "with tag 99 waits for an answer"),
        (Header { completer: other, ..answer(0, 8, 8) }, "it comes from 07:00.0"),
    ] {
        let found = words(bench.send(header, &vec![0; header.payload_bytes() as usize]));
        assert!(found.contains(error), "{found}, not {error}");
    }
    bench.send(answer(0, 8, 8), &[0; 8]).unwrap();
    assert_eq!(bench.loaded(), Ok(0));
    let late = Picoseconds(bench.fabric().now().0 + 1);
    let write = Header::memory_write(id, BusAddress(DATA), 4);
    let early = bench.with(|device, port| device.send(write, &[0; 4], Some(late), port));
    assert!(words(early).contains("it begins at"));
    bench.fabric().config_write(HOST, id, registers::COMMAND, 0, 0b0011);
    assert!(words(bench.send(write, &[0; 4])).contains("Bus Master Enable is off"));
    assert_eq!(bench.fabric().errors(), []);
}

#[test]
fn a_tlp_that_began_earlier_arrives_earlier() {
    let times = [0, 50].map(|earlier_ns| {
        let mut bench = Bench::new(&settings());
        let root = bench.stand.root;
        bench.fabric().host_watch(root, DATA..DATA + 4, 5);
        bench.fabric().host_timer(ns(1000), 6);
        assert!(bench.fabric().run_until_host_event());
        let write = Header::memory_write(bench.id, BusAddress(DATA), 4);
        let begun = Picoseconds(ns(1000).0 - ns(earlier_ns).0);
        bench.with(|device, port| device.send(write, &[1; 4], Some(begun), port)).unwrap();
        bench.fabric().run(None);
        bench.fabric().take_host_events(&mut Vec::new());
        let mut found = [0; 4];
        bench.fabric().peek(HOST, BusAddress(DATA), &mut found);
        assert_eq!(found, [1; 4]);
        bench.fabric().now()
    });
    assert!(times[1] <= times[0], "{times:?}");
}
