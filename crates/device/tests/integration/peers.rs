// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Engine to engine: receive queues, credits, apertures, the command port, ping-pong.

use crate::support::{
    self,
    fabric_support::{Stand, log},
};

use crosslane_fabric::*;
use crosslane_pcie::BusAddress;
use crosslane_pcie::credits::Credits;
use crosslane_regs::engine::{DescriptorSource, StreamSource, channel, lane, user as user_regs};
use support::*;

/// Connects the peer channel of engine 0 to a receive queue of engine 1 with a credit window.
fn connect(bench: &mut Bench, number: u32, window: u32, bits: u32) -> u64 {
    let at = lane_of(1, number);
    let credit = bench.bars[0][0] + u64::from(peer(0).1 + channel::CREDIT);
    bench.write(at, lane::CREDIT_LOW, credit as u32);
    bench.enable_lane(at, bits | lane::control::RETURN_CREDITS.mask());
    bench.write(peer(0), channel::CREDIT_WINDOW, window);
    bench.bars[1][1] + u64::from(number) * BAR1_BYTES / 8
}

fn finite_credits() -> Settings {
    let mut settings = settings();
    for class in 0..2 {
        settings.port.receive_credits[class] = Credits { header: 8, data: 64 };
    }
    settings
}

/// The sender stops when its credit window is used up, continues with the credits, and is done when
/// the last byte has been taken.
#[test]
fn a_window_of_credits_holds_the_sender() {
    let parameters = EngineParameters { lane_fifo_bytes: 4096, ..own() };
    let mut bench = bench(&finite_credits(), &[parameters; 2]);
    bench.route(1, StreamSource::Lane, StreamSource::Generator, 2);
    let target = connect(&mut bench, 2, 4096, 0);
    bench.put_ring(peer(0), 0, target, 16384, STATUS_WRITE);
    bench.put_ring(peer(0), 1, target + 16384, 4096, STATUS_WRITE | AWAIT_CREDIT);
    bench.post_ring(peer(0), 16, 2);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(peer(0), channel::SENT), 4096);
    assert_eq!(bench.read(lane_of(1, 2), lane::FILL), 4096);
    assert_eq!(bench.read(peer(0), channel::COMPLETED), 0);
    assert_eq!(bench.read(peer(0), channel::STOPPED_AT), 4096, "as far as it has got");
    assert!(bench.read(peer(0), channel::IDLE_NO_CREDIT) > 10);
    // 10 KiB can be taken: 14 KiB have been sent by then, and credits come per KiB.
    bench.put_ring(c2h(1), 0, DATA, 10240, 0);
    bench.put_ring(c2h(1), 1, DATA + 10240, 10240, STATUS_WRITE);
    bench.post_ring(c2h(1), 16, 1);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(lane_of(1, 2), lane::DRAINED), 10240);
    assert_eq!(bench.read(peer(0), channel::CREDIT), 10240);
    assert_eq!(bench.read(peer(0), channel::SENT), 14336);
    bench.write(c2h(1), channel::DOORBELL, 2);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(peer(0), channel::COMPLETED), 2);
    assert_eq!(bench.read(peer(0), channel::CREDIT), 20480);
    assert_eq!(bench.status_block(peer(0))[1], 2);
    assert_eq!(bench.read(lane_of(1, 2), lane::STATUS), 0, "no overflow");
    assert_eq!(bench.peek(DATA, 20480), pattern(0, 0, 20480));
    bench.assert_quiet();
}

/// Random sizes, windows and rates of the taker: a receive queue of a sender with credits never
/// overflows and never stalls the port, and no byte is lost.
#[test]
fn credits_never_overrun_a_lane() {
    for seed in 0..100 {
        let mut random = crosslane_random::Random::with_seed(seed);
        let mut settings = finite_credits();
        settings.seed = seed;
        let (mut sender, mut taker) = (own(), own());
        sender.idle_clocks_per_tlp = random.u32(0..4);
        taker.lane_fifo_bytes = 1024 << random.u32(0..5);
        taker.idle_clocks_per_tlp = random.u32(0..40);
        taker.descriptor_gap = ns(random.u64(0..3000));
        let mut bench = bench(&settings, &[sender, taker]);
        bench.fabric.set_shuffle(seed % 2 == 1);
        bench.route(1, StreamSource::Lane, StreamSource::Generator, 5);
        // Makes an overrun visible.
        let drop_when_full = lane::control::DROP_WHEN_FULL.mask();
        let target = connect(&mut bench, 5, taker.lane_fifo_bytes, drop_when_full);
        let aperture = 4096 << random.u32(0..5);
        bench.write(peer(0), channel::APERTURE, aperture);
        let mut total = 0;
        for number in 0..12 {
            let bytes = random.u32(1..3000) * 4;
            let place = target + 4 * u64::from(random.u32(0..1024));
            let bits = if number == 11 { AWAIT_CREDIT | STATUS_WRITE } else { 0 };
            bench.put_ring(peer(0), number, place, bytes, bits);
            total += bytes;
        }
        let parts = 12;
        for number in 0..parts {
            let from = u64::from(total / 4 * number / parts * 4);
            let to = u64::from(total / 4 * (number + 1) / parts * 4);
            bench.put_ring(c2h(1), number, DATA + from, (to - from) as u32, 0);
        }
        bench.post_ring(c2h(1), 16, parts);
        bench.post_ring(peer(0), 16, 12);
        assert_eq!(bench.run(None), RunEnd::Quiet);
        assert_eq!(bench.read(lane_of(1, 5), lane::STATUS), 0, "seed {seed}");
        assert_eq!(bench.read(peer(0), channel::COMPLETED), 12, "seed {seed}");
        assert_eq!(bench.read(peer(0), channel::CREDIT), total);
        assert!(bench.peek(DATA, total as usize) == pattern(0, 0, u64::from(total)));
        bench.assert_quiet();
    }
}

/// Without credits a full receive queue blocks the port: all data arrive, and a register read sent
/// behind them is answered once they are in.
#[test]
fn a_full_lane_holds_the_port() {
    let taker = EngineParameters { lane_fifo_bytes: 4096, descriptor_gap: ns(5000), ..own() };
    let mut bench = bench(&finite_credits(), &[own(), taker]);
    bench.route(1, StreamSource::Lane, StreamSource::Generator, 0);
    bench.enable_lane(lane_of(1, 0), 0);
    for number in 0..32 {
        bench.put_table(c2h(1), number, DATA + u64::from(number) * 2048, 2048, 0);
    }
    bench.post_table(c2h(1), 32);
    let target = bench.bars[1][1];
    bench.put_ring(peer(0), 0, target, 65536, STATUS_WRITE);
    bench.post_ring(peer(0), 16, 1);
    assert_eq!(bench.run(Some(ns(20_000))), RunEnd::Limit);
    let asked = bench.fabric.now();
    // 2 KiB are taken every 5 us, and a read waits for everything before it.
    let drained: Vec<u32> = (0..6).map(|_| bench.read(lane_of(1, 0), lane::DRAINED)).collect();
    let waited = bench.fabric.now() - asked;
    assert!(waited > ns(4 * 5_000), "{waited}");
    assert!(drained[0] > 4096 && drained[5] < 65536 && drained[0] < drained[5], "{drained:?}");
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(lane_of(1, 0), lane::STATUS), 0);
    assert_eq!(bench.read(lane_of(1, 0), lane::DRAINED), 65536);
    assert_eq!(bench.peek(DATA, 65536), pattern(0, 0, 65536));
    let up = bench.direction(0, LinkDirection::Up);
    let idle = bench.fabric.counters(up).idle_ps[IdleReason::NoCredit as usize]
        + bench.fabric.counters(up).idle_ps[IdleReason::ReceiverBusy as usize];
    assert!(idle > ns(30_000).0, "the sender's port was held for {idle} ps");
    assert!(bench.read(peer(0), channel::IDLE_LINK) > 10_000);
    bench.assert_quiet();
}

/// A receive queue may be set to drop what does not fit, and reports it.
#[test]
fn a_full_lane_may_drop() {
    let mut bench = bench(&finite_credits(), &[own(); 2]);
    bench.route(1, StreamSource::Lane, StreamSource::Generator, 0);
    bench.enable_lane(lane_of(1, 0), lane::control::DROP_WHEN_FULL.mask());
    let target = bench.bars[1][1];
    bench.put_ring(peer(0), 0, target, 65536, 0);
    bench.post_ring(peer(0), 16, 1);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    let at = lane_of(1, 0);
    assert_eq!(bench.read(at, lane::STATUS), lane::status::OVERFLOW.mask());
    assert_eq!(bench.read(at, lane::FILL), 16384);
    assert_eq!(bench.read(at, lane::RECEIVED), 16384);
    // A disabled receive queue takes nothing.
    bench.write(at, lane::CONTROL, lane::control::RESTART.mask());
    assert_eq!(bench.read(at, lane::STATUS) | bench.read(at, lane::FILL), 0);
    bench.store(target, &[1, 2, 3, 4]);
    assert_eq!(bench.read(at, lane::STATUS), lane::status::OVERFLOW.mask());
    assert_eq!(bench.read(at, lane::RECEIVED), 0);
    bench.assert_quiet();
}

/// Stores into a full receive queue that nothing empties wait, and the idle fabric names them.
#[test]
fn a_lane_that_nothing_empties_is_named() {
    let parameters = EngineParameters { lane_fifo_bytes: 256, ..own() };
    let mut bench = bench(&settings(), &[parameters]);
    bench.route(0, StreamSource::Generator, StreamSource::Lane, 0);
    bench.enable_lane(lane_of(0, 0), 0);
    let window = bench.bars[0][1];
    bench.store(window, &[7; 256]);
    bench.store(window, &[7; 8]);
    let stand = Stand { fabric: bench.fabric, root: bench.root, endpoints: bench.nodes };
    let mut flow = stand.core_flow(0, FlowKind::Write, BusAddress(window), 4);
    (flow.window_bytes, flow.operations, flow.outstanding) = (64, 1, 1);
    let mut fabric = stand.fabric;
    fabric.start_flow(flow).unwrap();
    let RunEnd::Stuck(lines) = fabric.run(None) else { panic!("the store cannot end") };
    let of_engine: Vec<_> = lines.iter().filter(|line| line.starts_with("ep0")).collect();
    assert_eq!(of_engine, ["ep0: 3 TLPs wait behind a full receive queue"]);
}

/// Addresses wrap within the queue's aperture, in TLPs that do not cross its end.
#[test]
fn an_aperture_wraps_addresses() {
    let mut bench = bench(&settings(), &[own(); 2]);
    let log = log::Log::of(&mut bench.fabric);
    bench.enable_lane(lane_of(1, 1), lane::control::CHECK.mask());
    let base = bench.bars[1][1] + BAR1_BYTES / 8;
    bench.write(peer(0), channel::APERTURE, 1024);
    bench.put_ring(peer(0), 0, base + 900, 2048, 0);
    bench.post_ring(peer(0), 16, 1);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    let writes = log.tlps(bench.direction(1, LinkDirection::Down));
    let data = writes.iter().filter(|tlp| tlp.header.address.0 >= base);
    let places: Vec<_> =
        data.map(|tlp| (tlp.header.address.0 - base, tlp.header.payload_bytes())).collect();
    let expected = [(900, 124), (0, 256), (256, 256), (512, 256), (768, 256), (0, 256)];
    assert_eq!(places[..6], expected);
    assert_eq!(places.iter().map(|(_, bytes)| bytes).sum::<u32>(), 2048);
    assert_eq!(bench.read(lane_of(1, 1), lane::CHECK_ERRORS), 0);
    assert_eq!(bench.read(lane_of(1, 1), lane::DRAINED), 2048);
    bench.assert_quiet();
}

/// The user circuit sends without descriptors and gaps, one command after the other.
#[test]
fn the_command_port_sends() {
    let parameters = EngineParameters { descriptor_gap: ns(10_000), ..own() };
    let mut bench = bench(&settings(), &[parameters; 2]);
    let at = user(0);
    bench.enable_lane(lane_of(1, 0), lane::control::CHECK.mask());
    bench.start(peer(0), DescriptorSource::CommandPort);
    let target = bench.bars[1][1];
    bench.set_command(0, target, 3000);
    let begun = bench.fabric.now();
    for round in 1..=3 {
        bench.command(0);
        while bench.read(at, user_regs::COMMAND_STATUS) != 0 {}
        assert_eq!(bench.read(at, user_regs::COMMAND_DONE), round);
    }
    assert!(bench.fabric.now() - begun < ns(10_000), "no gap");
    assert_eq!(bench.read(lane_of(1, 0), lane::DRAINED), 9000);
    assert_eq!(bench.read(lane_of(1, 0), lane::CHECK_ERRORS), 0);
    assert_eq!(bench.read(peer(0), channel::COMPLETED), 0, "no descriptors");
    bench.assert_quiet();
}

/// Round trips of one TLP take a number of clocks that can be computed.
#[test]
fn ping_pong_measures_the_round_trip() {
    let mut settings = settings();
    settings.port.receive_latency = ns(100);
    settings.port.transmit_latency = ns(60);
    let mut bench = bench(&settings, &[own(); 2]);
    for (engine, other, bytes) in [(0, 1, 128), (1, 0, 128 * 100)] {
        bench.set_command(engine, bench.bars[other][1] + BAR1_BYTES / 8, bytes);
        bench.enable_lane(lane_of(engine, 1), 0);
        bench.start(peer(engine), DescriptorSource::CommandPort);
    }
    bench.write(peer(1), channel::PAYLOAD, 128);
    bench.route(0, StreamSource::Generator, StreamSource::Generator, 1);
    bench.route(1, StreamSource::Generator, StreamSource::Lane, 1);
    bench.command(1);
    let start = user_regs::ping::START.mask() | user_regs::ping::ROUNDS.put(100);
    bench.write(user(0), user_regs::PING, start);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.read(user(0), user_regs::PING), user_regs::ping::ROUNDS.put(100));
    assert_eq!(bench.read(user(0), user_regs::PING_DONE), 100);
    assert_eq!(bench.read(user(1), user_regs::COMMAND_DONE), 1);
    let sum = bench.read_wide(user(0), user_regs::PING_SUM_LOW);
    let least = bench.read(user(0), user_regs::PING_LEAST);
    let most = bench.read(user(0), user_regs::PING_MOST);
    // In one direction: 60 out, 8 until the switch has the header, 100 in it, 148 B on the link, 2
    // x 1 of flight, and 100 in.
    let one_way = 60.0 + 8.0 + 100.0 + 74.0 + 2.0 + 100.0;
    let mean = sum as f64 * 4.0 / 100.0;
    assert!((mean - 2.0 * one_way).abs() < 2.0, "{mean} ns, not {}", 2.0 * one_way);
    assert!(most - least <= 1 && u64::from(least) * 100 <= sum, "{least} {most} {sum}");
    bench.assert_quiet();
}
