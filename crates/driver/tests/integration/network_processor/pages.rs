// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads that lie in two pages, which the driver copies: every byte at both ends, and what that
//! costs.

use std::ops::Range;
use std::sync::Arc;

use crosslane_driver::Buffer;
use crosslane_driver::network_processor::*;
use crosslane_host::Bus;
use crosslane_pcie::units::{HostId, Picoseconds};

use crate::lab::setup::set_bus_master;
use crate::network_processor::long_datagrams::long;
use crate::network_processor::stand::*;

const PAGE_BYTES: u64 = 4096;
const BUFFER_BYTES: u64 = 32 << 10;
/// Value of the bytes beside a message.
const UNTOUCHED: u8 = 0xee;
const ROUTED: [Key; 2] = [Key::Routed { node: 1, tag: 0 }, Key::Routed { node: 0, tag: 0 }];

/// Runs a test on a torus of two nodes with enough slots for its messages.
fn on_placed_pair<T>(
    are_long: bool,
    buffers: Buffers,
    test: impl AsyncFnOnce(&Stand, [&Processor; 2]) -> T,
) -> T {
    let lab = if are_long { long(&[2]) } else { lab(&[2]) };
    let lab = lab.edited(|file| {
        for endpoint in &mut file.endpoints {
            let part = Arc::make_mut(&mut endpoint.part);
            let processor = part.network_processor.as_mut().unwrap();
            (processor.get_slots, processor.credit_slots) = (64, 64);
        }
    });
    let modes = Modes::default().with_buffers(buffers);
    let stand = Stand::of_seed(&lab.unwrap(), &[2], modes, 1);
    stand.on_pair(async |pair| {
        place(&stand, &[2]).await;
        test(&stand, pair).await
    })
}

/// Returns the bytes of a buffer that has data from `at` on.
fn around(at: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![UNTOUCHED; BUFFER_BYTES as usize];
    bytes[at as usize..][..data.len()].copy_from_slice(data);
    bytes
}

/// Makes room for a message in a buffer of scattered pages.
async fn room(node: &Processor, key: Key, part: Range<u64>) -> (Buffer, InFlight) {
    let target = filled(node, &around(0, &[])).await;
    let message = Message { part, ..message(node, key, &target, 0) };
    let credit = node.credit(message).await.unwrap();
    (target, credit)
}

/// Sends data from an offset of a buffer of scattered pages.
async fn send_from(node: &Processor, key: Key, at: u64, data: &[u8]) -> (Buffer, InFlight) {
    let source = filled(node, &around(at, data)).await;
    assert_eq!(source.segments().len() as u64, BUFFER_BYTES / PAGE_BYTES, "pages are scattered");
    let part = at..at + data.len() as u64;
    let message = Message { part, ..message(node, key, &source, 0) };
    (source, node.nget(message).await.unwrap())
}

#[test]
fn messages_begin_anywhere_in_scattered_pages() {
    const OFFSETS: [u64; 5] = [0, 1, 63, 119, PAGE_BYTES - 6];
    for are_long in [false, true] {
        on_placed_pair(are_long, Buffers::User, async |_, [from, to]| {
            for [there, here] in [ROUTED, [key(0, 0, 0), key(1, 0, 0)]] {
                let unit_bytes = there.unit_bytes(from.sizes().payload_bytes());
                for (at, into) in OFFSETS.iter().flat_map(|&at| OFFSETS.map(|into| (at, into))) {
                    for bytes in [1, unit_bytes, 4 * PAGE_BYTES - 100, 20_000] {
                        let data = pattern(at + 8 * into + bytes, bytes);
                        let before = from.link_counters(0).await.unwrap().sent;
                        let (target, credit) = room(to, here, into..into + bytes).await;
                        let (_source, get) = send_from(from, there, at, &data).await;
                        assert_eq!(ended(from, &get).await.bytes, bytes);
                        assert_eq!(ended(to, &credit).await.bytes, bytes);
                        let seen = contents(&target, BUFFER_BYTES);
                        assert!(seen == around(into, &data), "{there}: {bytes} B, {at} to {into}");
                        let sent = from.link_counters(0).await.unwrap().sent - before;
                        assert_eq!(u64::from(sent), bytes.div_ceil(unit_bytes));
                    }
                }
            }
            for node in [from, to] {
                let counters = node.counters().await.unwrap();
                assert_eq!((counters.refused, counters.misrouted, counters.waiting), (0, 0, 0));
            }
        });
    }
}

#[test]
fn parts_of_a_list_may_end_within_payloads() {
    for buffers in BUFFERS {
        on_placed_pair(false, buffers, async |_, [from, to]| {
            let source = filled(from, &pattern(1, BUFFER_BYTES)).await;
            for [there, here] in [ROUTED, [key(0, 0, 0), key(1, 0, 0)]] {
                let target = filled(to, &around(0, &[])).await;
                let list = |node: &Processor, key, buffer: &Buffer, parts: &[Range<u64>]| {
                    let Message { key, buffer, deadline, .. } = message(node, key, buffer, 0);
                    ScatteredMessage { key, buffer, parts: parts.to_vec(), deadline }
                };
                // 9,000 B; one payload lies in nine parts.
                let near: Vec<_> = (0..9).map(|n| 9000 + 20 * n..9000 + 20 * n + 7).collect();
                let near = [&near[..], &[100..5000, 30_000..30_001, 20_000..24_036]].concat();
                let far = [3..4, 4095..4097, 8000..16_000, 16_001..16_998];
                let credit = to.credit_scattered(list(to, here, &target, &far)).await.unwrap();
                let get = from.nget_scattered(list(from, there, &source, &near)).await.unwrap();
                assert_eq!(ended(from, &get).await.bytes, 9000);
                assert_eq!(ended(to, &credit).await.bytes, 9000);
                let data = contents(&source, BUFFER_BYTES);
                let mut expected = around(0, &[]);
                let places = far.into_iter().flatten();
                for (into, at) in places.zip(near.into_iter().flatten()) {
                    expected[into as usize] = data[at as usize];
                }
                assert!(contents(&target, BUFFER_BYTES) == expected, "{there}");
            }
        });
    }
}

#[test]
fn a_message_that_takes_too_many_requests_is_refused() {
    on_placed_pair(false, Buffers::User, async |_, [from, to]| {
        // A request for each of 33 pages, and for 32 payloads between them.
        let buffer = from.buffer(33 * PAGE_BYTES).await.unwrap();
        let get = |bytes| Message { part: 1..bytes, ..message(from, key(0, 0, 0), &buffer, 0) };
        let error = from.nget(get(33 * PAGE_BYTES)).await.map(drop).unwrap_err().to_string();
        assert!(error.contains("takes 65 requests, and there are 64 places for them"), "{error}");
        let (_target, credit) = receive(to, key(1, 0, 0), 1 << 16).await;
        let get = from.nget(get(32 * PAGE_BYTES)).await.unwrap();
        ended(from, &get).await;
        assert_eq!(failed(to, &credit).await.fault, NetworkFault::TooLong);
    });
}

#[test]
fn copied_payloads_are_written_as_far_as_data_have_come() {
    on_placed_pair(false, Buffers::User, async |_, [from, to]| {
        let [there, here] = ROUTED;
        // A payload from byte 4080 of the message on lies in two pages.
        for (sent, wanted) in [(4079, 9000), (4080, 9000), (4150, 9000), (9000, 4150), (9000, 4190)]
        {
            let (target, credit) = room(to, here, 0..wanted).await;
            let data = pattern(sent, sent);
            let (_source, get) = send_from(from, there, 1, &data).await;
            ended(from, &get).await;
            let taken = sent.min(wanted);
            if sent > wanted {
                let error = failed(to, &credit).await;
                assert_eq!((error.fault, error.moved_bytes), (NetworkFault::TooLong, taken));
            } else {
                assert_eq!(ended(to, &credit).await.bytes, taken);
            }
            let expected = around(0, &data[..taken as usize]);
            assert!(contents(&target, BUFFER_BYTES) == expected, "{sent} B into {wanted} B");
        }
    });
}

#[test]
fn a_message_cut_off_leaves_copied_payloads_alone() {
    on_placed_pair(false, Buffers::User, async |_, [from, to]| {
        let [there, here] = ROUTED;
        for is_sender in [true, false] {
            let (target, credit) = room(to, here, 0..20_000).await;
            let (source, get) = send_from(from, there, 1, &[0x11; 20_000]).await;
            // Payloads have come that lie beyond the first page.
            while to.bus().now() < late(to) && counted(&target, 5000) == UNTOUCHED {
                pause(to, 100).await;
            }
            let fault = if is_sender {
                from.cancel(&get).await.unwrap();
                assert_eq!(failed(from, &get).await.fault, NetworkFault::Cancelled);
                NetworkFault::FarEnd
            } else {
                to.cancel(&credit).await.unwrap();
                ended(from, &get).await;
                NetworkFault::Cancelled
            };
            let error = failed(to, &credit).await;
            assert_eq!(error.fault, fault);
            assert!(error.moved_bytes > 5000, "{error}");
            let seen = contents(&target, BUFFER_BYTES);
            assert!(seen[..4080].iter().all(|&byte| byte == 0x11), "{is_sender}");
            assert!(seen[4080..4200].iter().all(|&byte| byte == UNTOUCHED), "{is_sender}");
            source.write(0, &[0]).unwrap();
            // The rest of the message is dropped, and the next one comes whole.
            let (target, credit) = room(to, here, 1..9001).await;
            let (_source, get) = send_from(from, there, 63, &pattern(2, 9000)).await;
            ended(from, &get).await;
            ended(to, &credit).await;
            assert!(contents(&target, BUFFER_BYTES) == around(1, &pattern(2, 9000)));
        }
    });
}

/// Returns a byte of a buffer that the device may be writing.
fn counted(buffer: &Buffer, at: u64) -> u8 {
    let mut byte = [0];
    crosslane_host::DmaMemory::read(buffer.memory(), at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn copied_payloads_are_the_devices_until_they_are_waited_for() {
    on_placed_pair(false, Buffers::User, async |_, [from, to]| {
        let [there, here] = ROUTED;
        let (target, credit) = room(to, here, 1..9001).await;
        let data = pattern(1, 9000);
        let (_source, get) = send_from(from, there, 0, &data).await;
        ended(from, &get).await;
        while to.poll(&credit).unwrap().is_none() {
            pause(to, 100).await;
        }
        assert!(target.read(0, &mut [0; 4200]).is_err(), "a payload is not there yet");
        ended(to, &credit).await;
        assert!(contents(&target, BUFFER_BYTES) == around(1, &data));
    });
}

#[test]
fn copies_are_kept_while_no_notification_comes() {
    on_placed_pair(false, Buffers::User, async |stand, [from, to]| {
        let pinned = || stand.simulation.memory_in_use(HostId(1)).pinned_for.len();
        let keys = |tag| [Key::Routed { node: 1, tag }, Key::Routed { node: 0, tag }];
        let (target, credit) = room(to, keys(1)[1], 1..9001).await;
        let first = pinned();
        set_bus_master(to.bus(), "fpga2", false);
        let deadline = to.bus().now() + ns(10_000);
        let error = to.wait(&credit, deadline).await.unwrap_err();
        assert_eq!(error.fault, NetworkFault::NoNotification { deadline });
        assert!(target.write(1, &[0]).is_err(), "it is the device's");
        // Another message does not get its memory.
        let (other, second) = room(to, keys(2)[1], 1..9001).await;
        assert_eq!(pinned(), first + 2, "a buffer and its copies");
        set_bus_master(to.bus(), "fpga2", true);
        assert_eq!(failed(to, &credit).await.fault, NetworkFault::Cancelled);
        assert!(contents(&target, BUFFER_BYTES) == around(0, &[]));
        let data = pattern(1, 9000);
        let (_source, get) = send_from(from, keys(2)[0], 0, &data).await;
        ended(from, &get).await;
        ended(to, &second).await;
        assert!(contents(&other, BUFFER_BYTES) == around(1, &data));
    });
}

#[test]
fn memory_of_copies_is_used_again() {
    on_placed_pair(false, Buffers::User, async |stand, [from, to]| {
        let pinned = |host| stand.simulation.memory_in_use(HostId(host)).pinned_for.len();
        let [there, here] = ROUTED;
        let source = filled(from, &around(0, &[])).await;
        let target = filled(to, &around(0, &[])).await;
        let mut seen = Vec::new();
        for round in 0..8 {
            let part = 1..9001;
            let get = Message { part: part.clone(), ..message(from, there, &source, 0) };
            let credit = Message { part, ..message(to, here, &target, 0) };
            drop(to.credit(credit.clone()).await.unwrap());
            let credit = to.credit(credit).await.unwrap();
            drop(from.nget(get).await.unwrap());
            pause(to, 20_000).await;
            match round % 4 {
                0 => assert_eq!(ended(to, &credit).await.bytes, 9000),
                // Seen to have ended, and dropped.
                1 => assert_eq!(to.poll(&credit).unwrap().map(|ended| ended.bytes), Some(9000)),
                // Dropped when it has ended unseen, or is being waited for.
                2 => {}
                _ => drop(limited(1, ended(to, &credit)).await),
            }
            drop(credit);
            pause(to, 20_000).await;
            seen.push([pinned(0), pinned(1)]);
        }
        // Refused ones keep none.
        let refused = Message { part: 10_001..19_001, ..message(to, here, &target, 0) };
        let credit = Message { part: 1..9001, ..refused.clone() };
        let _credit = to.credit(credit).await.unwrap();
        for _ in 0..4 {
            to.credit(refused.clone()).await.map(drop).unwrap_err();
            seen.push([pinned(0), pinned(1) - 1]);
        }
        assert!(seen.iter().all(|&count| count == seen[0]), "{seen:?}");
    });
}

/// Times of a routed message of 64 KiB: until its requests are written, its data have left, and are
/// in the receiver's buffer.
fn times(buffers: Buffers) -> [Picoseconds; 3] {
    on_placed_pair(false, buffers, async |_, [from, to]| {
        let bytes = 64 << 10;
        let source = filled(from, &pattern(1, bytes)).await;
        let target = to.buffer(bytes).await.unwrap();
        let [there, here] = ROUTED;
        let mut times = [Picoseconds::ZERO; 3];
        // The first message allocates memory for copies.
        for _ in 0..2 {
            let credit = to.credit(message(to, here, &target, bytes)).await.unwrap();
            let begun = from.bus().now();
            let since = |node: &Processor| Picoseconds(node.bus().now().0 - begun.0);
            let get = from.nget(message(from, there, &source, bytes)).await.unwrap();
            let posted = since(from);
            ended(from, &get).await;
            let sent = since(from);
            ended(to, &credit).await;
            times = [posted, sent, since(to)];
            assert!(contents(&target, bytes) == pattern(1, bytes));
        }
        times
    })
}

#[test]
fn a_routed_message_in_pages_costs_its_requests_and_few_copies() {
    // Fifteen page ends, one of which is a datagram's: 16 requests in place, 14 for copies.
    const REQUEST: Picoseconds = ns(144);
    const REQUESTS: u64 = 16 + 14;
    const COPIED_BYTES: u64 = 14 * 120;
    // One core copies 9 GB/s.
    let copy = |bytes: u64| Picoseconds(bytes * 1000 / 9);
    let [posted, sent, received] = times(Buffers::User);
    let contiguous = times(Buffers::Mapped);
    assert_eq!(contiguous[0], REQUEST);
    assert_eq!(posted, Picoseconds(REQUESTS * REQUEST.0) + copy(COPIED_BYTES));
    let near = |time: Picoseconds, expected: Picoseconds| {
        assert!(time.0.abs_diff(expected.0) < ns(5).0, "{time}, not {expected}");
    };
    // Later requests are written while the data of the first are on their way.
    near(sent, contiguous[1] + copy(COPIED_BYTES));
    near(received, contiguous[2] + copy(2 * COPIED_BYTES));
    // Copies of all of it take 39 times as long.
    let copied = times(Buffers::Copied);
    near(copied[0], REQUEST + copy(64 << 10));
    near(copied[2], contiguous[2] + copy(128 << 10));
}
