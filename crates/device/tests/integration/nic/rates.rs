// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates and times of transfers, to the picosecond where possible.

use crosslane_device::nic::NicParameters;
use crosslane_device::nic::layout::{Entry, Operation};
use crosslane_pcie::units::Picoseconds;

use crate::nic::stand::*;
use crate::support::fabric_support::ns;

/// The link is busy for every byte of every packet, without a gap from the first to the last.
#[test]
fn a_write_takes_the_wire_for_its_bytes() {
    let (mut stand, [mut pair, _], [near, far]) = Stand::joined(1 << 20, [BOTH, BOTH]);
    stand.post(&mut pair, work(Operation::Write, 1, (&near, 0), (&far, 0), 1 << 20));
    let (time, entries) = stand.run_to_entries(&mut pair);
    assert_eq!(entries, [done(1)]);
    let wire = 80 * (256 * (4096 + 26) + 16);
    let counters = stand.device(0).counters();
    assert_eq!(counters.busy, Picoseconds(wire));
    assert_eq!((counters.packets, counters.payload_bytes), (256, 1 << 20));
    assert_eq!(counters.header_bytes, 256 * 26 + 16);
    let back = stand.device(1).counters();
    assert_eq!((back.packets, back.payload_bytes, back.header_bytes), (1, 0, 30));
    // Before: doorbell, work request, data of the first packet. After: latency of the last packet,
    // its data to memory, flush, acknowledgement and entry.
    assert_eq!(time, Picoseconds(wire + FILL_PS), "fill of {} ps", time.0 - wire);
    stand.assert_quiet();
}

/// Fill time of a single write of 1 MiB in this stand.
const FILL_PS: u64 = 4_339_058;

/// A message within its work request saves the read of its bytes.
#[test]
fn a_message_in_its_request_saves_a_read() {
    let times = [false, true].map(|is_inline| {
        let (mut stand, [mut pair, mut far], [near, _]) = Stand::joined(1 << 12, [BOTH, BOTH]);
        match is_inline {
            true => stand.put_with(&mut pair, inline(1, 64), &[7; 64]),
            false => stand.put(&mut pair, message(1, (&near, 0), 64)),
        }
        stand.ring(&pair);
        let (time, _) = stand.run_to_entries(&mut far);
        time.0
    });
    assert_eq!(times, MESSAGE_PS);
}

/// Times of a message of 64 B from the doorbell to its entry: read from memory, and in the request.
const MESSAGE_PS: [u64; 2] = [2_588_595, 1_784_054];

/// With reads of 512 B and four tags, a round trip brings 2 KiB.
#[test]
fn reads_of_memory_are_limited_by_tags() {
    let mut times = Vec::new();
    for tags in [4, 8, 64] {
        let mut stand = Stand::new(crosslane_device::nic::NicParameters { tags, ..nic() });
        let [mut pair, _] = stand.connect(4);
        let near = stand.register(0, DATA, 1 << 20, BOTH);
        let far = stand.register(1, DATA, 1 << 20, BOTH);
        stand.post(&mut pair, work(Operation::Read, 1, (&near, 0), (&far, 0), 1 << 20));
        let (time, _) = stand.run_to_entries(&mut pair);
        times.push(time.as_ns());
    }
    let ratio = times[0] / times[1];
    assert!((1.95..2.05).contains(&ratio), "{times:?}");
    // The network is the limit.
    assert!(times[2] < 1.02 * 80.0 * 1.048_576e3 * 4122.0 / 4096.0 + 4_000.0, "{times:?}");
}

/// Connections that share a NIC get equal rates, whatever the size of their requests.
#[test]
fn connections_share_by_packet() {
    let mut stand = Stand::new(nic());
    let mut pairs: Vec<Pair> = (0..3).map(|_| stand.connect(4)[0]).collect();
    let near = stand.register(0, DATA, 4 << 20, BOTH);
    let far = stand.register(1, DATA, 4 << 20, BOTH);
    for (at, pair) in pairs.iter_mut().enumerate() {
        // 2 MiB in one piece, 2 MiB in pieces of 64 KiB, and 60 pieces of 32 KiB.
        let (count, bytes) = [(1_u64, 2 << 20), (32, 65_536), (60, 32_768)][at];
        for id in 0..count {
            let at = id * bytes;
            stand.put(pair, work(Operation::Write, id as u32, (&near, at), (&far, at), bytes));
        }
        stand.ring(pair);
    }
    let mut ends = Vec::new();
    for (pair, count) in pairs.iter_mut().zip([1, 32, 60]) {
        let mut seen: Vec<Entry> = Vec::new();
        let mut time = Picoseconds::ZERO;
        let mut copy = *pair;
        while seen.len() < count {
            let (now, entries) = stand.run_to_entries(&mut copy);
            (time, seen) = (now, [seen, entries].concat());
        }
        ends.push(time.as_ns());
    }
    // All end together, after the sum of their times.
    let all = 80e-3 * (2.0 * f64::from(2 << 20) + 60.0 * 32_768.0) * 4122.0 / 4096.0;
    assert!(ends[0] > 0.97 * all && ends[0] < 1.03 * all + 5_000.0, "{ends:?} of {all}");
    stand.assert_quiet();
}

/// A receiver slower than the network holds it back, and nothing is lost or piles up.
#[test]
fn a_slow_receiver_holds_the_network_back() {
    let mut slow = settings();
    slow.completer.write_bytes_per_second = 2e9;
    slow.port.receive_credits[0].header = 16;
    slow.port.receive_credits[0].data = 256;
    let parameters = NicParameters { receive_buffer_bytes: 16_384, ..nic() };
    let mut stand = Stand::of(&[settings(), slow], [parameters; 2], network());
    let [mut pair, _] = stand.connect(4);
    let near = stand.register(0, DATA, 1 << 20, BOTH);
    let far = stand.register(1, DATA, 1 << 20, BOTH);
    let data = bytes(1, 1 << 20);
    stand.fill(&near, &data);
    stand.post(&mut pair, work(Operation::Write, 1, (&near, 0), (&far, 0), 1 << 20));
    stand.run_for(ns(100_000));
    // The sent bytes are bounded by those that came through and those that fit in buffers.
    let sent = stand.device(0).counters().payload_bytes;
    assert!(sent <= 200_000 + 16_384 + 4096 + 8192, "{sent} B have left");
    let (time, _) = stand.run_to_entries(&mut pair);
    let expected = f64::from(1 << 20) / 2.0;
    assert!((expected..1.02 * expected + 4_000.0).contains(&time.as_ns()), "{time}");
    assert!(stand.bytes(&far) == data);
    stand.assert_quiet();
}
