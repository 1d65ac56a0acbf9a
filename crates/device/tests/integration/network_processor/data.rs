// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moved data are intact: gets, puts and routed messages of any size, in any order.

use crosslane_regs::network_notification::NetworkStatus;
use crosslane_regs::network_processor::{self as map, LinkState, torus_link};

use crate::network_processor::stand::*;
use crate::support::fabric_support::ns;

const DONE: NetworkStatus = NetworkStatus::Done;

#[test]
fn links_come_up() {
    let mut stand = Stand::new(&[2]);
    let status = stand.link_register(0, 0, torus_link::STATUS);
    assert_eq!(torus_link::status::STATE.get(status), LinkState::Absent as u32);
    stand.control(0, 0, torus_link::control::ENABLE.mask());
    stand.run();
    let status = stand.link_register(0, 0, torus_link::STATUS);
    assert_eq!(torus_link::status::STATE.get(status), LinkState::Training as u32);
    stand.bring_up();
    for (end, link) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let status = stand.link_register(end, link, torus_link::STATUS);
        assert_eq!(torus_link::status::STATE.get(status), LinkState::Up as u32);
        assert_eq!(torus_link::status::LANES.get(status), 8);
        assert_eq!(torus_link::status::LANE_RATE.get(status), 10);
        assert_eq!(torus_link::status::FAR_ROOM.get(status), 32);
        assert_eq!(stand.link_register(end, link, torus_link::TRAININGS), 1);
    }
    stand.assert_quiet();
}

#[test]
fn every_size_and_place_by_get() {
    for shuffle in [false, true] {
        let mut stand = Stand::new(&[2]);
        stand.fabric.set_shuffle(shuffle);
        stand.bring_up();
        for size in [0_u32, 1, 3, 4, 127, 128, 129, 256, 511, 4096, 4097, 70_000] {
            for [from, to] in [[0_u64, 0], [1, 3], [4095, 130], [68, 4094]] {
                let data = bytes(size.into(), size as usize);
                stand.poke(0, DATA + from, &data);
                stand.poke(1, DATA, &vec![0x55; size as usize + 8192]);
                let credit = stand.ask(1, Ask::credit(1, 3, 7, DATA + to, size));
                let get = stand.ask(0, Ask::get(0, 3, 7, DATA + from, size));
                stand.run();
                stand.assert_done(&[get, credit], size);
                let all = stand.peek(1, DATA, size as usize + 8192);
                let (to, end) = (to as usize, to as usize + size as usize);
                assert!(all[to..end] == data, "{size} {from} {to}");
                assert!(all[..to].iter().chain(&all[end..]).all(|byte| *byte == 0x55));
            }
        }
        stand.assert_quiet();
    }
}

/// The runs of both sides have different boundaries.
#[test]
fn messages_of_several_runs() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(5, 4 * 4096 + 77);
    let credit = Ask::credit(1, 0, 1, 0, 0);
    let asked = stand.notification(1, credit);
    for (run, bytes) in [(0_u32, 8192_u32), (1, 8192 + 77)] {
        let address = DATA + u64::from(run) * 0x10_0000;
        let ask = Ask { address, bytes, ..credit };
        stand.ask_run(&asked, ask, (run * 64, run == 1));
    }
    let get = Ask::get(0, 0, 1, 0, 0);
    let sent = stand.notification(0, get);
    for run in 0..5_u32 {
        let from = run as usize * 4096;
        let piece = &data[from..data.len().min(from + 4096)];
        let address = DATA + u64::from(run) * 0x2_0000;
        stand.poke(0, address, piece);
        let ask = Ask { address, bytes: piece.len() as u32, ..get };
        stand.ask_run(&sent, ask, (run * 32, run == 4));
    }
    stand.run();
    let size = data.len() as u32;
    stand.assert_done(&[sent, asked], size);
    assert!(stand.peek(1, DATA, 8192) == data[..8192]);
    assert!(stand.peek(1, DATA + 0x10_0000, 8192 + 77) == data[8192..]);
    stand.assert_quiet();
}

/// Both ends at once, several tags and channels, credits before and after their data, in a fabric
/// that shuffles all it may.
#[test]
fn many_at_once_in_any_order() {
    for seed in 0..20 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut parameters = processor();
        parameters.tags = random.u16(1..65);
        parameters.staging_bytes = random.u32(768..8192);
        let mut cable = cable();
        cable.end.channel_datagrams = random.u16(1..40);
        cable.end.queue_datagrams = random.u8(1..9);
        cable.bit_error_rate = [0.0, 1e-6, 1e-4][random.usize(..3)];
        let mut stand = Stand::of(&[2], &settings(), parameters, cable);
        stand.fabric.set_shuffle(true);
        stand.bring_up();
        let mut jobs = Vec::new();
        let mut asks = Vec::new();
        for number in 0..40_u32 {
            let end = random.usize(..2);
            let (link, tag) = (random.u32(..2), number);
            let channel = random.u32(..6);
            let size = random.u32(0..5000);
            let address = DATA + u64::from(number) * 8192;
            let data = bytes(seed * 100 + u64::from(number), size as usize);
            stand.poke(end, address, &data);
            asks.push((end, Ask::get(link, channel, tag, address, size)));
            let into = address + 0x200_0000 + random.u64(..100);
            asks.push((1 - end, Ask::credit(1 - link, channel, tag, into, size)));
            jobs.push((1 - end, into, data));
        }
        random.shuffle(&mut asks);
        let mut all = Vec::new();
        for (end, ask) in asks {
            all.push((stand.ask(end, ask), ask.bytes));
            stand.run_for(ns(random.u64(..2000)));
        }
        stand.run();
        for (asked, size) in all {
            assert_eq!(stand.ended(&asked), Some((DONE, size)), "seed {seed}: {asked:?}");
        }
        for (end, address, data) in jobs {
            assert!(stand.peek(end, address, data.len()) == data, "seed {seed}");
        }
        stand.assert_quiet();
    }
}

/// A channel with data but no credit blocks no other channel, and no other tag of its own while it
/// has room.
#[test]
fn data_without_a_credit_wait() {
    let mut stand = Stand::up(&[2]);
    let data = bytes(1, 65_536);
    stand.poke(0, DATA, &data);
    // More than the buffers, queues and staging memory of the channel hold.
    let blocked = stand.ask(0, Ask::get(0, 2, 0, DATA, 65_536));
    stand.run();
    assert_eq!(stand.ended(&blocked), None);
    assert_eq!(stand.read(1, map::WAITING), 32);
    let credit = stand.ask(1, Ask::credit(1, 3, 0, DATA, 20_000));
    let get = stand.ask(0, Ask::get(0, 3, 0, DATA, 20_000));
    stand.run();
    stand.assert_done(&[get, credit], 20_000);
    assert!(stand.peek(1, DATA, 20_000) == data[..20_000]);
    let late = stand.ask(1, Ask::credit(1, 2, 0, DATA + 0x10_0000, 65_536));
    stand.run();
    stand.assert_done(&[blocked, late], 65_536);
    assert!(stand.peek(1, DATA + 0x10_0000, 65_536) == data);
    stand.assert_quiet();
}

#[test]
fn puts_go_straight_into_the_link() {
    let mut stand = Stand::up(&[2]);
    stand.write(0, map::PUT_COUNTS_LOW, COUNTS as u32);
    stand.write(0, map::PUT_COUNTS_HIGH, 0);
    let data = bytes(3, 128 * 5 + 17);
    let size = data.len() as u32;
    let credit = stand.ask(1, Ask::credit(0, 4, 9, DATA, size));
    for (number, piece) in (0..).zip(data.chunks(128)) {
        stand.put(0, (1, 4, number), 9, number == 5, piece);
    }
    stand.run();
    assert_eq!(stand.ended(&credit), Some((DONE, size)));
    assert!(stand.peek(1, DATA, data.len()) == data);
    let count = stand.peek(0, COUNTS + 4 * (8 + 4), 4);
    assert_eq!(count, 6_u32.to_le_bytes());
    assert_eq!((stand.read(0, map::PUTS), stand.read(0, map::REFUSED)), (6, 0));
    stand.assert_quiet();
}

/// Messages from each node of a torus to each other one, at once.
#[test]
fn routed_messages_reach_any_node() {
    let mut stand = Stand::up(&[3, 4]);
    let nodes = stand.torus.nodes();
    let size = 1000;
    let mut all = Vec::new();
    let mut expected = Vec::new();
    for to in 0..nodes {
        for from in (0..nodes).filter(|from| *from != to) {
            let into = DATA + u64::from(from) * 4096;
            all.push(stand.ask(to as usize, Ask::credit(0, 0, 5, into, size).to(from)));
            expected.push((to, from, into));
        }
    }
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            let data = bytes((from * 100 + to).into(), size as usize);
            let address = DATA + 0x100_0000 + u64::from(to) * 4096;
            stand.poke(from as usize, address, &data);
            all.push(stand.ask(from as usize, Ask::get(0, 0, 5, address, size).to(to)));
        }
    }
    stand.run();
    for asked in all {
        assert_eq!(stand.ended(&asked), Some((DONE, size)), "{asked:?}");
    }
    for (to, from, into) in expected {
        let data = bytes((from * 100 + to).into(), size as usize);
        assert!(stand.peek(to as usize, into, size as usize) == data, "{from} to {to}");
    }
    let forwarded: u32 = (0..nodes as usize).map(|end| stand.read(end, map::FORWARDED)).sum();
    // 9 datagrams per message: 12 nodes, on average 2/3 and 1 hops to each of 12 (including
    // itself).
    let hops: u32 = 12 * 12 * 5 / 3;
    assert_eq!(forwarded, 9 * (hops - 12 * 11));
    stand.assert_quiet();
}

#[test]
fn sinks_and_loops() {
    let mut stand = Stand::new(&[2]);
    let sink = torus_link::control::MODE.put(map::LinkMode::Sink as u32);
    let back = torus_link::control::MODE.put(map::LinkMode::Loopback as u32);
    let data = bytes(3, 5000);
    stand.poke(0, DATA, &data);
    stand.control(0, 0, sink);
    let get = stand.ask(0, Ask::get(0, 0, 0, DATA, 5000));
    stand.run();
    assert_eq!(stand.ended(&get), Some((DONE, 5000)));
    assert_eq!(stand.link_register(0, 0, torus_link::SENT), 40);
    stand.control(0, 1, back);
    let credit = stand.ask(0, Ask::credit(1, 2, 3, DATA + 0x10_0000, 5000));
    stand.ask(0, Ask::get(1, 2, 3, DATA, 5000));
    stand.run();
    assert_eq!(stand.ended(&credit), Some((DONE, 5000)));
    assert!(stand.peek(0, DATA + 0x10_0000, 5000) == data);
    stand.assert_quiet();
}

/// Generator and checker use channel 7 of a cable with bit errors; the other channels carry
/// messages meanwhile.
#[test]
fn generator_and_checker() {
    let mut cable = cable();
    cable.bit_error_rate = 1e-5;
    let mut stand = Stand::of(&[2], &settings(), processor(), cable);
    stand.bring_up();
    let enable = torus_link::control::ENABLE.mask();
    stand.control(1, 1, enable | torus_link::control::CHECK.mask());
    stand.control(0, 0, enable | torus_link::control::GENERATE.mask());
    let data = bytes(1, 20_000);
    stand.poke(0, DATA, &data);
    let credit = stand.ask(1, Ask::credit(1, 0, 0, DATA, 20_000));
    stand.ask(0, Ask::get(0, 0, 0, DATA, 20_000));
    let (status, ..) = stand.wait(&credit);
    assert_eq!(status, DONE);
    stand.run_for(ns(100_000));
    stand.control(0, 0, enable);
    stand.run();
    assert!(stand.peek(1, DATA, 20_000) == data);
    let checked = stand.link_register(1, 1, torus_link::CHECKED);
    assert!(checked > 2000, "{checked} datagrams in 100 us");
    assert_eq!(stand.link_register(1, 1, torus_link::WRONG), 0);
    let damaged = stand.link_register(1, 1, torus_link::DAMAGED);
    assert!(damaged > 5, "{damaged} frames were damaged");
    assert_eq!(
        stand.link_register(1, 1, torus_link::DELIVERED),
        checked + 20_000_u32.div_ceil(128)
    );
    stand.assert_quiet();
}
