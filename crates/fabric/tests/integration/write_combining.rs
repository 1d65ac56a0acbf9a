// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores into a write-combined region: the resulting TLPs and their times, the effects of a fence,
//! an uncached access and another line, and the data that a load sees meanwhile. Times are worked
//! out by hand.

use crate::support;

use std::sync::{Arc, Mutex};

use crosslane_fabric::parameters::CombiningParameters;
use crosslane_fabric::trace::{TraceEvent, TraceRecord};
use crosslane_fabric::*;
use crosslane_pcie::tlp::TlpKind;
use crosslane_pcie::units::Picoseconds;
use support::*;

/// Start on the wire, ns; offset in the BAR; bytes.
type Write = (u64, u64, u32);

/// A host with two buffers: an uncached store takes 10 ns, one into a buffer 2 ns, a fence 5 ns,
/// a load 20 ns beside its round trip.
struct Bench {
    stand: Stand,
    writes: Arc<Mutex<Vec<Write>>>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::ideal(rate(2, 4), 256);
        settings.bar_bytes = 1 << 20;
        settings.cpu.combining = Some(CombiningParameters {
            buffers: 2,
            store: ns(2),
            fence: ns(5),
            streaming_loads: 0,
        });
        change(&mut settings);
        let mut stand = direct(&settings);
        let (writes, bar) = (Arc::new(Mutex::new(Vec::new())), stand.bar(0).0);
        let seen = writes.clone();
        stand.fabric.set_trace(Box::new(move |record: &TraceRecord| {
            if let TraceEvent::Tlp { header, .. } = record.event
                && header.kind == TlpKind::MemoryWrite
            {
                let write = (record.time.0 / 1000, header.address.0 - bar, header.request_bytes());
                seen.lock().unwrap().push(write);
            }
        }));
        Self { stand, writes }
    }

    fn combine(&mut self, offset: u64, bytes: &[u8], width_bytes: u32, token: u64) {
        let address = self.stand.bar(0).offset(offset);
        let run = StoreRun { address, width_bytes, region: Region::WriteCombined };
        self.stand.fabric.host_store_into(self.stand.root, 0, run, bytes, token).unwrap();
    }

    fn store(&mut self, offset: u64, bytes: &[u8], width_bytes: u32, token: u64) {
        let address = self.stand.bar(0).offset(offset);
        let fabric = &mut self.stand.fabric;
        fabric.host_store(self.stand.root, 0, address, bytes, width_bytes, token).unwrap();
    }

    fn fence(&mut self, token: u64) {
        self.stand.fabric.host_fence(self.stand.root, 0, token).unwrap();
    }

    fn load(&mut self, offset: u64, region: Region, token: u64) {
        let address = self.stand.bar(0).offset(offset);
        let fabric = &mut self.stand.fabric;
        fabric.host_load_from(self.stand.root, 0, address, 4, region, token).unwrap();
    }

    fn run(&mut self) -> Vec<(Picoseconds, HostEvent)> {
        all_events(&mut self.stand.fabric)
    }

    /// The writes on the wire since the previous call.
    fn writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    fn contents(&mut self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut seen = vec![0; bytes];
        let address = self.stand.bar(0).offset(offset);
        assert!(self.stand.fabric.peek(HOST, address, &mut seen));
        seen
    }
}

fn numbered(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251 + 1) as u8).collect()
}

/// Sixteen words of 4 B are sixteen TLPs uncached, and one when combined.
#[test]
fn sixteen_words_are_one_write() {
    let mut bench = Bench::new(|_| {});
    bench.combine(64, &numbered(64), 4, 1);
    // The last of them begins at 30 ns.
    assert_eq!(bench.run(), [(ns(32), stored(1))]);
    assert_eq!(bench.writes(), [(30, 64, 64)]);
    assert_eq!(bench.contents(64, 64), numbered(64));
    let now = bench.stand.fabric.now().0 / 1000;
    bench.store(128, &numbered(64), 4, 2);
    assert_eq!(bench.run(), [(ns(now + 160), stored(2))]);
    assert_eq!(bench.writes().len(), 16);
}

/// A partial line stays in the processor until a fence. A load from the same region sees the
/// device's data; one from an uncached region lets the buffers leave first.
#[test]
fn a_partial_line_waits_for_a_fence() {
    let mut bench = Bench::new(|_| {});
    bench.combine(4, &[7; 16], 16, 1);
    bench.load(8, Region::WriteCombined, 2);
    let round_trip = wire(20) + ACK + wire(24) + ns(20);
    // 4..8, 8..16, 16..20: stores are naturally aligned.
    let begin = ns(3 * 2);
    assert_eq!(bench.run(), [(begin, stored(1)), (begin + round_trip, loaded(2, 0))]);
    assert_eq!(bench.writes(), []);
    let now = begin + round_trip;
    bench.fence(3);
    bench.load(8, Region::WriteCombined, 4);
    let events = bench.run();
    assert_eq!(events[0], (now + ns(5), stored(3)));
    assert_eq!(events[1].1, loaded(4, 0x0707_0707));
    let at = now.0 / 1000;
    assert_eq!(bench.writes(), [(at, 4, 4), (at + 12, 8, 8), (at + 26, 16, 4)]);
    assert_eq!(bench.contents(0, 24), [[0; 4], [7; 4], [7; 4], [7; 4], [7; 4], [0; 4]].concat());
}

/// An uncached load or store finds the buffers empty: combined writes leave before it.
#[test]
fn an_uncached_access_empties_the_buffers() {
    let mut bench = Bench::new(|_| {});
    bench.combine(0, &[1; 8], 8, 1);
    bench.load(0, Region::Uncached, 2);
    let events = bench.run();
    assert_eq!(events[1].1, loaded(2, 0x0101_0101));
    bench.combine(0, &[2; 8], 8, 3);
    bench.store(4, &[3; 4], 4, 4);
    bench.run();
    let order: Vec<_> = bench.writes().iter().map(|write| (write.1, write.2)).collect();
    assert_eq!(order, [(0, 8), (0, 8), (4, 4)]);
    assert_eq!(bench.contents(0, 8), [2, 2, 2, 2, 3, 3, 3, 3]);
}

/// Six bytes to one address leave as one; six adjacent bytes arrive in one TLP per contiguous run.
#[test]
fn stores_to_one_address_are_eaten() {
    let mut bench = Bench::new(|_| {});
    for (token, byte) in (0..).zip(*b"fabric") {
        bench.combine(0, &[byte], 1, token);
    }
    bench.fence(9);
    bench.run();
    assert_eq!(bench.writes().len(), 1);
    assert_eq!(bench.contents(0, 2), *b"c\0");
    for (token, byte) in (0..).zip(*b"fabric") {
        bench.combine(token, &[byte], 1, token);
    }
    bench.fence(9);
    bench.run();
    assert_eq!(bench.contents(0, 6), *b"fabric");
    assert_eq!(bench.writes().iter().map(|write| write.2).sum::<u32>(), 6);
}

/// With two buffers, a store to a third line evicts the oldest.
#[test]
fn another_line_takes_a_buffer() {
    let mut bench = Bench::new(|_| {});
    for (token, line) in (0..).zip([0, 2, 0, 5, 7]) {
        bench.combine(line * 64 + token * 8, &[token as u8; 8], 8, token);
    }
    bench.run();
    // Line 5 takes line 0's buffer at 6 ns, line 7 that of line 2 at 8 ns; the wire is free at
    // 34 ns: line 0 holds bytes 0..8 and 16..24, which are two writes.
    assert_eq!(bench.writes(), [(6, 0, 8), (20, 16, 8), (34, 2 * 64 + 8, 8)]);
    bench.fence(9);
    bench.run();
    assert_eq!(bench.contents(5 * 64 + 24, 8), [3; 8]);
    assert_eq!(bench.contents(7 * 64 + 32, 8), [4; 8]);
}

/// When the root port's queue is full, lines keep their buffers and the core waits: it runs at the
/// rate of the link, 84 B for 64.
#[test]
fn buffers_that_cannot_leave_stall_the_core() {
    let mut bench = Bench::new(|settings| settings.cpu.store_queue = 1);
    bench.combine(0, &numbered(8 * 64), 64, 1);
    // The wire takes one each 42 ns: when the line that fills the last buffer is stored, one is
    // on the wire, one in the queue and one in the other buffer. The eighth is stored when the
    // fifth takes the wire.
    let line = 42;
    assert_eq!(bench.run(), [(ns(4 * line + 2), stored(1))]);
    let writes = bench.writes();
    assert_eq!(writes, (0..8).map(|at| (at * line, at * 64, 64)).collect::<Vec<_>>());
    assert_eq!(bench.contents(0, 512), numbered(512));
}

/// A fence waits until the last write is at the root port.
#[test]
fn a_fence_waits_for_the_root_port() {
    let mut bench = Bench::new(|settings| settings.cpu.store_queue = 1);
    bench.combine(0, &numbered(4 * 64), 64, 1);
    bench.fence(2);
    // Stored at 0, 2, 4 and 6 ns; the fourth leaves its buffer when the third takes the wire.
    let expected = [(ns(8), stored(1)), (ns(2 * 42 + 5), stored(2))];
    assert_eq!(bench.run(), expected);
}

/// In shuffle mode lines leave in any order and at any time; all bytes arrive.
#[test]
fn shuffled_lines_leave_in_any_order() {
    let order = |seed| {
        let mut bench = Bench::new(|settings| settings.seed = seed);
        bench.stand.fabric.set_shuffle(true);
        bench.combine(0, &numbered(250), 4, 1);
        bench.fence(2);
        bench.run();
        assert_eq!(bench.contents(0, 250), numbered(250));
        bench.writes().iter().map(|write| write.1).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    let orders: Vec<_> = (1..20).map(order).collect();
    assert!(orders.iter().any(|order| !order.is_sorted()), "{orders:?}");
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
}

#[test]
fn a_processor_without_buffers_refuses() {
    let mut bench = Bench::new(|settings| settings.cpu.combining = None);
    let run =
        StoreRun { address: bench.stand.bar(0), width_bytes: 4, region: Region::WriteCombined };
    let refused = bench.stand.fabric.host_store_into(bench.stand.root, 0, run, &[0; 4], 1);
    let error = refused.unwrap_err();
    assert_eq!(error.to_string(), "the processor of node 0 does not combine writes");
    // A fence of a core without combined writes ends at once.
    bench.fence(2);
    assert_eq!(bench.run(), [(ns(0), stored(2))]);
}
