// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refusals, cut links, closed connections: every end is told, and nothing is left over.

use crosslane_device::nic::Nic;
use crosslane_device::nic::layout::{Entry, EntryKind, Operation, Status};
use crosslane_fabric::{DirectionId, LinkDirection, MemoryFault, Moment, RunEnd, TlpFault};
use crosslane_pcie::tlp::Class;
use crosslane_pcie::units::HostId;

use crate::nic::stand::*;
use crate::support::fabric_support::ns;

fn closed(status: Status) -> Entry {
    Entry { kind: EntryKind::Closed, status }
}

fn ended(id: u32, status: Status) -> Entry {
    Entry { kind: EntryKind::Request { id }, status }
}

#[test]
fn what_the_other_end_refuses() {
    for (operation, access, key_off, at, bytes, status) in [
        (Operation::Write, WRITE, 1, 0, 1, Status::FarAccess),
        (Operation::Write, READ, 0, 0, 1, Status::FarAccess),
        (Operation::Read, WRITE, 0, 0, 1, Status::FarAccess),
        (Operation::Write, WRITE, 0, 4096, 1, Status::FarBounds),
        (Operation::Read, READ, 0, 1, 4096, Status::FarBounds),
        (Operation::Read, READ, 0, u64::MAX - DATA, 2, Status::FarBounds),
        (Operation::Write, WRITE, 0, 1, 20_000, Status::FarBounds),
    ] {
        let mut stand = Stand::new(nic());
        let [mut pair, mut far] = stand.connect(4);
        let near = stand.register(0, DATA, 65_536, READ);
        let mut memory = stand.register(1, DATA, 4096, access);
        let before = bytes_of(&mut stand);
        memory.key += key_off;
        let one = work(operation, 1, (&near, 0), (&memory, 0), bytes);
        let one = crosslane_device::nic::layout::WorkRequest {
            far_address: memory.address.wrapping_add(at),
            ..one
        };
        stand.post(&mut pair, one);
        // The request behind it gets no entry.
        stand.post(&mut pair, message(2, (&near, 0), 10));
        stand.run();
        let entries = stand.entries(&mut pair);
        assert_eq!(entries, [ended(1, status), closed(Status::ClosedThere)], "{operation:?} {at}");
        assert_eq!(stand.entries(&mut far), [closed(Status::RefusedHere)]);
        assert!(bytes_of(&mut stand) == before, "nothing was written");
        assert!(stand.device(0).destroy(pair.number) && stand.device(1).destroy(far.number));
        assert!(!stand.device(0).destroy(pair.number));
        assert_eq!((stand.device(0).pairs(), stand.device(1).pairs()), (0, 0));
        stand.assert_quiet();
    }
}

fn bytes_of(stand: &mut Stand) -> Vec<u8> {
    stand.peek(1, DATA - 4096, 65_536)
}

/// A link cut in the middle of a transfer: both ends are told after the time-out, to the
/// picosecond.
#[test]
fn a_link_that_is_cut() {
    let (mut stand, [mut pair, mut far], [near, memory]) = Stand::joined(1 << 20, [READ, WRITE]);
    stand.post(&mut pair, work(Operation::Write, 1, (&near, 0), (&memory, 0), 1 << 20));
    stand.run_for(ns(40_000));
    let node = stand.ends[0].node;
    assert!(Nic::cut(&mut stand.fabric, node));
    assert_eq!(stand.device(1).is_link_up(), Some(false));
    let cut = stand.fabric.now();
    let mut other = far;
    let (near_time, entries) = stand.run_to_entries(&mut pair);
    assert_eq!(entries, [closed(Status::TimedOut)]);
    let (far_time, entries) = stand.run_to_entries(&mut other);
    assert_eq!(entries, [closed(Status::TimedOut)]);
    // Time until the entry can be seen in memory.
    let to_memory = ns(1_000_000)..ns(1_000_400);
    assert!(to_memory.contains(&near_time.since(cut)), "{}", near_time.since(cut));
    assert!(to_memory.contains(&far_time.since(cut)), "{}", far_time.since(cut));
    assert_eq!(stand.fabric.run(None), RunEnd::Quiet);
    // After mending, the held packets find their connections ended.
    assert!(Nic::mend(&mut stand.fabric, node));
    assert!(stand.device(0).destroy(pair.number) && stand.device(1).destroy(far.number));
    let [mut again, _] = stand.connect(4);
    stand.post(&mut again, work(Operation::Write, 3, (&near, 0), (&memory, 0), 1 << 20));
    stand.run();
    assert_eq!(stand.entries(&mut again), [done(3)]);
    assert_eq!(stand.entries(&mut far), [closed(Status::TimedOut)]);
    stand.assert_quiet();
}

/// A link mended in time loses nothing.
#[test]
fn a_link_that_is_mended_in_time() {
    for shuffle in [false, true] {
        let (mut stand, [mut pair, _], [near, memory]) = Stand::joined(1 << 20, [READ, BOTH]);
        stand.fabric.set_shuffle(shuffle);
        let data = bytes(5, 1 << 20);
        stand.fill(&near, &data);
        let half = 1 << 19;
        stand.post(&mut pair, work(Operation::Write, 1, (&near, 0), (&memory, 0), half));
        stand.post(&mut pair, work(Operation::Read, 2, (&near, half), (&memory, half), 10_000));
        let node = stand.ends[1].node;
        for _ in 0..20 {
            stand.run_for(ns(2_500));
            assert!(Nic::cut(&mut stand.fabric, node));
            stand.run_for(ns(90_000));
            assert!(Nic::mend(&mut stand.fabric, node));
        }
        stand.run();
        assert_eq!(stand.entries(&mut pair), [done(1), done(2)]);
        let all = stand.bytes(&memory);
        assert!(all[..half as usize] == data[..half as usize]);
        assert!(stand.bytes(&near)[half as usize..][..10_000] == all[half as usize..][..10_000]);
        stand.assert_quiet();
    }
}

/// A connection closed at any moment gets its last entry, and nothing is written after it.
#[test]
fn closed_in_the_middle() {
    for step in 0..60 {
        let (mut stand, [mut pair, mut far], [near, memory]) = Stand::joined(1 << 20, [READ, BOTH]);
        let data = bytes(5, 1 << 20);
        stand.fill(&near, &data);
        stand.fill(&memory, &data);
        for id in 0..4 {
            let at = u64::from(id) * 100_000;
            let way = if id % 2 == 0 { Operation::Write } else { Operation::Read };
            stand.post(&mut pair, work(way, id, (&near, at), (&memory, at), 65_000));
            stand.post(&mut far, message(id, (&memory, at), 100));
        }
        stand.run_for(ns(step * 400));
        let closing = if step % 2 == 0 { &mut pair } else { &mut far };
        stand.close(closing);
        let last = loop {
            let (_, entries) = stand.run_to_entries(closing);
            if let Some(last) = entries.last().filter(|last| last.kind == EntryKind::Closed) {
                break *last;
            }
        };
        // All may have completed before.
        assert_eq!(last, closed(Status::ClosedHere), "step {step}");
        let end = closing.end;
        let clean = vec![0xee; 1 << 20];
        stand.poke(end, DATA, &clean);
        stand.run();
        assert!(stand.peek(end, DATA, 1 << 20) == clean, "written after the end, step {step}");
        let other = if end == 0 { &mut far } else { &mut pair };
        assert_eq!(stand.entries(other).last(), Some(&closed(Status::ClosedThere)));
        assert_eq!(stand.entries(if end == 0 { &mut pair } else { &mut far }), []);
        assert!(stand.device(0).destroy(pair.number) && stand.device(1).destroy(far.number));
        stand.assert_quiet();
    }
}

/// Host memory that does not answer, at either end.
#[test]
fn memory_that_cannot_be_read() {
    for (end, operation, expected) in [
        (0, Operation::Write, ended(1, Status::HostMemory)),
        (1, Operation::Read, ended(1, Status::FarMemory)),
    ] {
        let (mut stand, [mut pair, mut far], [near, memory]) = Stand::joined(65_536, [READ, BOTH]);
        let range = DATA + 20_000..DATA + 20_064;
        let host = HostId(end);
        assert!(stand.fabric.set_memory_fault(host, range, Some(MemoryFault::CompleterAbort)));
        stand.post(&mut pair, work(operation, 1, (&near, 0), (&memory, 0), 60_000));
        stand.run();
        let entries = stand.entries(&mut pair);
        assert_eq!(entries[0], expected);
        assert_eq!((entries.len(), entries[1].kind), (2, EntryKind::Closed));
        assert_eq!(stand.entries(&mut far).last().unwrap().kind, EntryKind::Closed);
        stand.run();
        for end in 0..2 {
            assert_eq!(stand.device(end).tags_in_use(), 0);
        }
    }
}

/// A read with a completion lost in its middle fails at once, and its tag rests for two time-outs.
#[test]
fn a_lost_completion_fails_its_read_and_rests_its_tag() {
    let (mut stand, [mut pair, _], [near, memory]) = Stand::joined(65_536, [READ, WRITE]);
    stand.post(&mut pair, work(Operation::Write, 1, (&near, 0), (&memory, 0), 60_000));
    stand.run_for(ns(2_018));
    let link = stand.fabric.port(stand.fabric.node(stand.ends[0].node).ports[0]).link.unwrap();
    let down = DirectionId { link, heading: LinkDirection::Down };
    stand.fabric.inject_fault(down, Class::Completion, TlpFault::Drop, Moment::Next(1));
    let (time, entries) = stand.run_to_entries(&mut pair);
    let lost = stand.fabric.injected()[0].header;
    assert!(u32::from(lost.byte_count) > lost.payload_bytes(), "more was to come: {lost:?}");
    assert_eq!(entries[0], ended(1, Status::HostMemory));
    assert!(time < ns(10_000), "{time}");
    stand.run();
    assert_eq!(stand.device(0).tags_in_use(), 1);
    stand.run_and_see(90_000);
    assert_eq!(stand.device(0).tags_in_use(), 0);
}

/// Uses all queue pairs that have doorbells, a thousand times over.
#[test]
fn queue_pairs_are_used_again() {
    let mut stand = Stand::new(nic());
    let near = stand.register(0, DATA, 4096, READ);
    for round in 0..300 {
        let [mut pair, mut far] = stand.connect(1);
        stand.post(&mut pair, message(round, (&near, 0), 7));
        stand.run();
        assert_eq!(stand.entries(&mut pair), [done(round)]);
        stand.close(&pair);
        stand.run();
        assert_eq!(stand.entries(&mut pair), [closed(Status::ClosedHere)]);
        assert_eq!(stand.entries(&mut far).len(), 2);
        assert!(stand.device(0).destroy(pair.number) && stand.device(1).destroy(far.number));
        assert_eq!((stand.device(0).pairs(), stand.device(1).pairs()), (0, 0));
    }
    stand.assert_quiet();
}

/// A queue pair that is destroyed as soon as that is possible has told its end before.
#[test]
fn destroyed_pairs_have_written_their_last_entry() {
    let mut stand = Stand::new(nic());
    let mut idle: Vec<Pair> = (0..64).map(|_| stand.connect(4)[1]).collect();
    let node = stand.ends[1].node;
    let numbers: Vec<_> = idle.iter().map(|pair| pair.number).collect();
    let mut destroyed = vec![false; idle.len()];
    stand.fabric.command(node, |nic: &mut Nic, port| {
        for &number in &numbers {
            nic.close(number, port);
        }
    });
    let mut rounds = 0;
    while destroyed.contains(&false) {
        for (number, is_destroyed) in numbers.iter().zip(&mut destroyed) {
            *is_destroyed |= stand.device(1).destroy(*number);
        }
        stand.run_for(ns(10));
        rounds += 1;
    }
    assert!(rounds > 1, "some entries have to wait for room");
    stand.run();
    for pair in &mut idle {
        assert_eq!(stand.entries(pair), [closed(Status::ClosedHere)]);
    }
}
