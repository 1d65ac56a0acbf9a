// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moved data are intact, wherever they lie.

use crosslane_device::nic::NicParameters;
use crosslane_device::nic::layout::{EntryKind, Operation, Status};

use crate::nic::stand::*;
use crate::support::fabric_support::ns;

/// Registers memory of scattered pages.
fn scattered(stand: &mut Stand, end: usize, pages: u64) -> Registered {
    let runs = (0..pages).map(|page| (DATA + (page * 5 % pages) * 8192, 4096)).collect();
    stand.register_runs(end, runs, BOTH)
}

/// Moves a range from one memory to the other and checks all bytes of both.
fn moves(stand: &mut Stand, pair: &mut Pair, operation: Operation, at: [u64; 2], bytes_: u64) {
    let [near_at, far_at] = at;
    let near = scattered(stand, pair.end, 13);
    let far = scattered(stand, 1 - pair.end, 13);
    let (near_bytes, far_bytes) = (bytes(bytes_ + near_at, 13 * 4096), bytes(far_at, 13 * 4096));
    stand.fill(&near, &near_bytes);
    stand.fill(&far, &far_bytes);
    stand.post(pair, work(operation, 5, (&near, near_at), (&far, far_at), bytes_));
    stand.run();
    assert_eq!(stand.entries(pair), [done(5)], "{operation:?} {at:?} {bytes_}");
    let (from, to) = (near_at as usize, far_at as usize);
    let (near_after, far_after) = (stand.bytes(&near), stand.bytes(&far));
    let count = bytes_ as usize;
    let (mut near_expected, mut far_expected) = (near_bytes.clone(), far_bytes.clone());
    match operation {
        Operation::Write => {
            far_expected[to..to + count].copy_from_slice(&near_bytes[from..from + count]);
        }
        _ => near_expected[from..from + count].copy_from_slice(&far_bytes[to..to + count]),
    }
    assert!(near_after == near_expected, "near of {operation:?} {at:?} {bytes_}");
    assert!(far_after == far_expected, "far of {operation:?} {at:?} {bytes_}");
    let keys = [near.key, far.key];
    assert!(stand.device(pair.end).deregister(keys[0]));
    assert!(stand.device(1 - pair.end).deregister(keys[1]));
}

#[test]
fn every_size_and_offset() {
    for shuffle in [false, true] {
        let mut stand = Stand::new(nic());
        stand.fabric.set_shuffle(shuffle);
        let [mut pair, _] = stand.connect(4);
        for operation in [Operation::Write, Operation::Read] {
            for bytes in [0, 1, 2, 3, 4, 5, 63, 64, 65, 4095, 4096, 4097, 8192, 12_289, 40_000] {
                for at in [[0, 0], [1, 0], [0, 3], [4095, 4094], [2, 257], [130, 61]] {
                    moves(&mut stand, &mut pair, operation, at, bytes);
                }
            }
        }
        stand.assert_quiet();
    }
}

/// Many operations of both ends at once, over several connections, in a fabric that shuffles all it
/// may.
#[test]
fn many_at_once_in_any_order() {
    for seed in 0..12 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut parameters = nic();
        parameters.tags = random.u16(1..20);
        parameters.receive_buffer_bytes = random.u32(8192..40_000);
        parameters.send_buffer_bytes = random.u32(8192..40_000);
        parameters.outstanding_reads = random.u16(1..6);
        let mut stand = Stand::new(parameters);
        stand.fabric.set_shuffle(true);
        const SIZE: u64 = 60_000;
        let mut jobs = Vec::new();
        let mut pairs: Vec<Pair> = (0..3).flat_map(|_| stand.connect(2)).collect();
        for (at, pair) in pairs.iter_mut().enumerate() {
            let place = DATA + at as u64 * 0x40_0000;
            let near = stand.register(pair.end, place, SIZE, NONE);
            let far = stand.register(1 - pair.end, place + 0x20_0000, SIZE, BOTH);
            let (near_bytes, far_bytes) =
                (bytes(at as u64, SIZE as usize), bytes(99, SIZE as usize));
            stand.fill(&near, &near_bytes);
            stand.fill(&far, &far_bytes);
            // The pieces are disjoint, so the order of the operations does not matter.
            let (mut from, mut id) = (0, 0);
            let mut expected = (near_bytes.clone(), far_bytes.clone());
            while from < SIZE && id < 60 {
                let count = random.u64(1..9000).min(SIZE - from);
                let operation = if random.bool() { Operation::Write } else { Operation::Read };
                stand.post(pair, work(operation, id, (&near, from), (&far, from), count));
                let range = from as usize..(from + count) as usize;
                match operation {
                    Operation::Write => {
                        expected.1[range.clone()].copy_from_slice(&near_bytes[range]);
                    }
                    _ => expected.0[range.clone()].copy_from_slice(&far_bytes[range]),
                }
                from += count;
                id += 1;
            }
            jobs.push((near, far, expected, id));
        }
        stand.run();
        for (pair, (near, far, expected, count)) in pairs.iter_mut().zip(jobs) {
            let entries = stand.entries(pair);
            assert_eq!(entries, (0..count).map(done).collect::<Vec<_>>(), "seed {seed}");
            assert!(stand.bytes(&near) == expected.0, "seed {seed}");
            assert!(stand.bytes(&far) == expected.1, "seed {seed}");
        }
        stand.assert_quiet();
    }
}

/// Messages arrive in order and wait for slots without delaying other connections.
#[test]
fn messages_wait_for_slots() {
    let mut stand = Stand::new(nic());
    let [mut pair, mut far] = stand.connect(4);
    let memory = stand.register(0, DATA, 65_536, NONE);
    let text = bytes(3, 65_536);
    stand.fill(&memory, &text);
    let length = |number: u32| [0, 1, 4096, 17][number as usize % 4];
    for number in 0..10 {
        let at = u64::from(number) * 4096 + 1;
        stand.post(&mut pair, message(number, (&memory, at), length(number)));
    }
    stand.run();
    let mut taken = 0;
    let mut completed = Vec::new();
    loop {
        let entries = stand.entries(&mut far);
        completed.extend(stand.entries(&mut pair));
        // At most as many as there are slots.
        assert!(entries.len() <= 4, "{entries:?}");
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            let bytes = length(taken) as u32;
            assert_eq!(entry.kind, EntryKind::Message { bytes });
            let at = taken as usize * 4096 + 1;
            assert_eq!(stand.message(&far, taken, bytes), text[at..at + bytes as usize]);
            taken += 1;
        }
        stand.doorbell(&far, 4, taken);
        stand.run();
    }
    assert_eq!(taken, 10);
    assert_eq!(completed, (0..10).map(done).collect::<Vec<_>>());
    stand.assert_quiet();
}

/// Messages within their work requests, whose places cross fetches and the end of the ring.
#[test]
fn messages_come_within_their_work_requests() {
    let mut stand = Stand::new(nic());
    let [mut pair, mut far] = stand.connect(4);
    let text = bytes(3, 256);
    let (mut taken, mut id) = (0, 0);
    for _ in 0..20 {
        for length in [216, 0, 24, 153] {
            stand.put_with(&mut pair, inline(id, length), &text[..length as usize]);
            id += 1;
        }
        stand.ring(&pair);
        stand.run();
        for length in [216, 0, 24, 153] {
            assert_eq!(stand.message(&far, taken, length), text[..length as usize]);
            taken += 1;
        }
        assert_eq!(stand.entries(&mut far).len(), 4);
        stand.doorbell(&far, 4, taken);
        stand.run();
    }
    assert_eq!(stand.entries(&mut pair), (0..80).map(done).collect::<Vec<_>>());
    stand.assert_quiet();
}

/// A message that is too long for its work request ends the connection.
#[test]
fn too_long_a_message_in_a_request_is_refused() {
    let mut stand = Stand::new(nic());
    let [mut pair, _] = stand.connect(4);
    for bytes in [217, u64::MAX] {
        stand.post(&mut pair, inline(1, bytes));
    }
    stand.run();
    let entries = stand.entries(&mut pair);
    assert_eq!(entries.last().map(|entry| entry.status), Some(Status::BadRequest));
}

/// A write is complete when programs of the other node can see it, however slow its memory is.
#[test]
fn a_complete_write_can_be_seen() {
    let mut slow = settings();
    slow.completer.write_latency = ns(9_000);
    slow.completer.write_bytes_per_second = 1e9;
    // The flush waits behind all the data.
    let patient = NicParameters { completion_timeout: ns(1_000_000), ..nic() };
    let mut stand = Stand::of(&[settings(), slow], [patient; 2], network());
    let [mut pair, _] = stand.connect(4);
    let near = stand.register(0, DATA, 1 << 20, NONE);
    let far = stand.register(1, DATA, 1 << 20, BOTH);
    let data = bytes(8, 1 << 20);
    stand.fill(&near, &data);
    for (id, count) in [(0, 1), (1, 5000), (2, 70_001)] {
        stand.post(&mut pair, work(Operation::Write, id, (&near, 3), (&far, 7), count));
        let (_, entries) = stand.run_to_entries(&mut pair);
        assert_eq!(entries, [done(id)]);
        let count = count as usize;
        assert!(stand.bytes(&far)[7..7 + count] == data[3..3 + count], "{count} B");
    }
    stand.assert_quiet();
}

/// Requests overwritten in the ring, or invalid, end their connection and affect nothing else.
#[test]
fn a_request_that_is_none() {
    let mut stand = Stand::new(nic());
    let [mut pair, mut far] = stand.connect(4);
    stand.put(&mut pair, message(0, (&none(), 0), 0));
    let memory = stand.register(0, DATA, 4096, NONE);
    stand.put(&mut pair, message(1, (&memory, 0), 4097));
    stand.ring(&pair);
    stand.run();
    let entries = stand.entries(&mut pair);
    assert_eq!(entries[0].kind, EntryKind::Request { id: 0 });
    assert_eq!(entries[0].status, Status::NearMemory);
    assert_eq!(entries[1].kind, EntryKind::Closed);
    assert_eq!(entries.len(), 2);
    assert_eq!(stand.entries(&mut far)[0].status, Status::ClosedThere);
    stand.assert_quiet();
}

fn none() -> Registered {
    Registered { end: 0, key: 77, address: 0, runs: Vec::new() }
}
