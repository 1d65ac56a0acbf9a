// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs lost, duplicated or poisoned on their way to an engine, and memory that answers too late:
//! the consequences that `docs/engine.md` states, and recovery without a reset.

use crate::support;

use crosslane_fabric::*;
use crosslane_pcie::tlp::Class;
use crosslane_regs::engine::{ChannelError, ChannelState, channel, lane};
use support::*;

const RUNNING: (ChannelState, ChannelError) = (ChannelState::Running, ChannelError::None);

/// Creates an engine whose H2C channel checks its data from `DATA` on.
fn reader() -> Bench {
    reader_with(16)
}

/// As [`reader`], with a limit of descriptors per fetch.
fn reader_with(fetch_batch: u16) -> Bench {
    let mut settings = settings();
    settings.max_read_request = 512;
    settings.max_payload = 128;
    let parameters = EngineParameters { tags: 8, fetch_batch, ..own() };
    let mut bench = bench(&settings, &[parameters]);
    bench.poke_pattern(DATA, 8, 0, 1 << 20);
    bench
}

/// Restarts the checker and reads `descriptors` of 4 KiB from the beginning.
fn read(bench: &mut Bench, descriptors: u32) {
    let at = h2c(0);
    bench.check_h2c(8);
    bench.put_rings(at, descriptors, (DATA, 4096), 4096, STATUS_WRITE);
    bench.post_ring(at, 64, descriptors);
}

/// Restarts the channel after an error: every tag returns, and data are right.
fn restart_and_read(bench: &mut Bench) {
    let at = h2c(0);
    // After two time-outs, late answers have arrived and tags have rested.
    bench.wait_until(bench.fabric.now() + ns(110_000));
    bench.restart(at);
    let errors = bench.fabric.error_count();
    read(bench, 16);
    bench.wait_completed(at, 16);
    assert_eq!((bench.state(at), bench.checker_errors()), (RUNNING, 0));
    assert_eq!(bench.fabric.error_count(), errors);
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// Losing a read's last completion makes it time out. Losing an earlier one makes the next not fit.
#[test]
fn a_lost_completion_stops_the_channel_where_it_is_missing() {
    // The first fetch of 16 descriptors takes four completions, and so does a read of 512 B.
    for (nth, error) in [
        (4, ChannelError::MalformedCompletion),
        (6, ChannelError::MalformedCompletion),
        (7, ChannelError::CompletionTimeout),
        (39, ChannelError::CompletionTimeout),
    ] {
        let mut bench = reader();
        let (at, down) = (h2c(0), bench.direction(0, LinkDirection::Down));
        // Skip the completions of the fetch and of earlier reads.
        read(&mut bench, 16);
        while bench.fabric.counters(down).payload_bytes < 128 * nth + 512 {
            bench.run(Some(ns(20)));
        }
        bench.fabric.inject_fault(down, Class::Completion, TlpFault::Drop, Moment::Next(1));
        bench.wait_stopped(at);
        let lost = bench.fabric.injected()[0].header;
        let found = bench.state(at).1;
        let is_last = u32::from(lost.byte_count) == lost.payload_bytes();
        let expected = match is_last {
            true => ChannelError::CompletionTimeout,
            false => ChannelError::MalformedCompletion,
        };
        assert_eq!(found, expected, "{nth}: {error:?}");
        let good = bench.read_wide(at, channel::BYTES_LOW);
        assert_eq!(good % 128, 0);
        assert_eq!(
            bench.read_wide(at, channel::ERROR_LOW),
            DATA + good,
            "the byte that is missing"
        );
        assert_eq!(bench.checker_errors(), 0);
        restart_and_read(&mut bench);
    }
}

/// Every completion is duplicated, also for register reads: those of descriptors and of reads with
/// one completion are unexpected, and nothing stops.
#[test]
fn the_second_of_each_completion_is_dropped() {
    let mut bench = reader_with(4);
    let at = h2c(0);
    bench.write(at, channel::PAYLOAD, 64);
    let down = bench.direction(0, LinkDirection::Down);
    let always = Moment::Probability(1.0);
    bench.fabric.inject_fault(down, Class::Completion, TlpFault::Duplicate, always);
    // Four descriptors at a time, so that each fetch takes one completion.
    read(&mut bench, 16);
    bench.wait_completed(at, 16);
    assert_eq!((bench.state(at), bench.checker_errors()), (RUNNING, 0));
    let injected = bench.fabric.injected_count();
    assert!(injected > 1024, "{injected}");
    assert_eq!(bench.run(None), RunEnd::Quiet);
    assert_eq!(bench.fabric.error_count(), bench.fabric.injected_count());
    let unexpected = |error: &ErrorRecord| {
        matches!(error.kind, ErrorKind::UnexpectedCompletion { .. }) && error.port_name == "ep0"
    };
    assert!(bench.fabric.errors().iter().all(unexpected));
    bench.fabric.clear_injections(down);
    restart_and_read(&mut bench);
}

/// In the middle of a read, a duplicate completion does not fit.
#[test]
fn a_doubled_completion_within_a_read_does_not_fit() {
    let mut bench = reader();
    let (at, down) = (h2c(0), bench.direction(0, LinkDirection::Down));
    read(&mut bench, 16);
    while bench.fabric.counters(down).payload_bytes < 4096 {
        bench.run(Some(ns(20)));
    }
    bench.fabric.inject_fault(down, Class::Completion, TlpFault::Duplicate, Moment::Next(3));
    bench.wait_stopped(at);
    assert_eq!(bench.state(at).1, ChannelError::MalformedCompletion);
    assert_eq!(bench.checker_errors(), 0);
    restart_and_read(&mut bench);
}

/// Answers after the time-out are dropped if they come before their tags are reused, also after a
/// restart of the channel; none of their bytes enter a stream.
#[test]
fn an_answer_after_the_time_out_is_dropped() {
    for late_us in [51, 60, 75, 99] {
        let mut bench = reader();
        let at = h2c(0);
        let late = Some(MemoryFault::Late(ns(late_us * 1_000)));
        bench.fabric.set_memory_fault(HOST, DATA + 8192..DATA + 8196, late);
        read(&mut bench, 16);
        bench.wait_stopped(at);
        assert_eq!(bench.state(at).1, ChannelError::CompletionTimeout);
        assert_eq!(bench.read(at, channel::COMPLETED), 2);
        assert_eq!(bench.read_wide(at, channel::ERROR_LOW), DATA + 8192);
        bench.fabric.set_memory_fault(HOST, DATA + 8192..DATA + 8196, None);
        bench.restart(at);
        read(&mut bench, 16);
        bench.wait_completed(at, 16);
        assert_eq!((bench.state(at), bench.checker_errors()), (RUNNING, 0), "{late_us}");
        restart_and_read(&mut bench);
    }
}

/// Registers are not written, a receive queue drops the data and reports it, and the function's
/// port records a non-fatal error each time.
#[test]
fn a_poisoned_write_into_an_engine_has_no_effect() {
    let mut bench = bench(&settings(), &[own(), own()]);
    let down = bench.direction(1, LinkDirection::Down);
    let poison = |bench: &mut Bench| {
        bench.fabric.inject_fault(down, Class::Posted, TlpFault::Poison, Moment::Next(1));
    };
    poison(&mut bench);
    bench.write(c2h(1), channel::DOORBELL, 7);
    assert_eq!(bench.read(c2h(1), channel::DOORBELL), 0);
    // Data of a peer: the second of four TLPs is poisoned.
    let at = lane_of(1, 0);
    bench.enable_lane(at, 0);
    let target = bench.bars[1][1];
    bench.put_ring(peer(0), 0, target, 256, STATUS_WRITE);
    bench.put_ring(peer(0), 1, target, 768, STATUS_WRITE);
    bench.post_ring(peer(0), 16, 1);
    bench.wait_completed(peer(0), 1);
    bench.run(Some(ns(2_000)));
    poison(&mut bench);
    bench.write(peer(0), channel::DOORBELL, 2);
    bench.wait_completed(peer(0), 2);
    bench.run(Some(ns(2_000)));
    assert_eq!(bench.read(at, lane::RECEIVED), 768);
    assert_eq!(lane::status::OVERFLOW.get(bench.read(at, lane::STATUS)), 1);
    let errors = bench.fabric.errors();
    let is_it = |error: &ErrorRecord| {
        matches!(error.kind, ErrorKind::PoisonedWrite { .. }) && error.port_name == "ep1"
    };
    assert_eq!((errors.len(), errors.iter().filter(|error| is_it(error)).count()), (2, 2));
    bench.run(None);
    assert_eq!(bench.fabric.check_quiet(), Vec::<String>::new());
}

/// An engine and a host memory that stall now and then lose and misplace nothing.
#[test]
fn stalls_cost_time_and_nothing_else() {
    for seed in 0..20 {
        let mut bench = reader();
        let mut random = crosslane_random::Random::with_seed(seed);
        let at = h2c(0);
        read(&mut bench, 16);
        while bench.fabric.now() < ns(60_000) {
            let node = if random.bool() { bench.root } else { bench.nodes[0] };
            let until = bench.fabric.now() + ns(random.u64(0..8_000));
            assert!(bench.fabric.stall(node, until));
            bench.run(Some(ns(random.u64(1..3_000))));
        }
        bench.wait_completed(at, 16);
        assert_eq!((bench.state(at), bench.checker_errors()), (RUNNING, 0), "seed {seed}");
        assert_eq!(bench.fabric.errors(), &[]);
        restart_and_read(&mut bench);
    }
}
