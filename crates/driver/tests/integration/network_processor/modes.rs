// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modes of the paper: each moves the same data, at the cost given by the lab's processor.

use std::sync::Arc;

use crosslane_driver::network_processor::*;
use crosslane_host::{Bus, Mapping, Waiting};
use crosslane_pcie::units::Picoseconds;

use crate::network_processor::stand::*;

#[test]
fn every_mode_moves_every_length() {
    for buffers in BUFFERS {
        for requests in REQUESTS {
            for waiting in WAITINGS {
                let modes = Modes::default().with_buffers(buffers).with_requests(requests);
                on_pair(modes.with_waiting(waiting), async |_, [from, to]| {
                    let lengths = [0, 1, 127, 128, 129, 4096, 4097, 20_000, 60_000];
                    for (tag, bytes) in (0..).zip(lengths) {
                        carry([from, to], (tag % 8, tag), &pattern(bytes, bytes)).await;
                    }
                    // Again with keys that were used before.
                    carry([from, to], (0, 0), &pattern(1, 300)).await;
                    let counters = from.counters().await.unwrap();
                    assert_eq!((counters.gets, counters.refused), (10, 0));
                    assert_eq!(to.counters().await.unwrap().credits, 10);
                });
            }
        }
    }
}

#[test]
fn combined_requests_and_puts_rely_on_no_order_of_their_lines() {
    let requests = Requests::Stores(Mapping::WriteCombined);
    for seed in 0..8 {
        // Eight stores fill a line, which may leave between them.
        let lab = lab(&[2]).edited(|file| {
            for host in &mut file.hosts {
                Arc::make_mut(&mut host.part).parameters.cpu.widest_store_bytes = 8;
            }
        });
        let lab = lab.unwrap();
        let modes = Modes::default().with_requests(requests);
        let stand = Stand::of_seed(&lab, &[2], modes, seed);
        // Lines leave at any time, in any order and in pieces.
        stand.simulation.with_fabric(|fabric| fabric.set_shuffle(true));
        stand.on_pair(async |[from, to]| {
            // Fifteen pages, a request each.
            carry([from, to], (0, 0), &pattern(seed, 15 * 4096)).await;
            for round in 0..4 {
                let receiving = receive(to, key(1, 1, 1), 3000).await;
                let data = pattern(seed * 8 + round, 3000);
                from.put(key(0, 1, 1), &data, late(from)).await.unwrap();
                arrives(to, &receiving, &data).await;
            }
            assert_eq!(from.counters().await.unwrap().refused, 0);
        });
    }
}

#[test]
fn the_longest_message_takes_a_request_for_each_run() {
    on_pair(mapped(), async |_, [from, to]| {
        carry([from, to], (0, 0), &pattern(1, 1 << 20)).await;
        assert_eq!(from.counters().await.unwrap().gets, 1);
        assert_eq!(to.counters().await.unwrap().credits, 1);
    });
}

/// Duration of a get of 64 B at the sender in a mode, after a warm-up.
fn duration(modes: Modes) -> Picoseconds {
    on_pair(modes, async |_, pair| {
        let data = pattern(7, 64);
        carry(pair, (0, 0), &data).await;
        carry(pair, (0, 1), &data).await.0
    })
}

/// Compares times, except for the fraction of a picosecond at the end of a byte on the link.
fn same(measured: Picoseconds, expected: Picoseconds) {
    assert!(measured.0.abs_diff(expected.0) <= 2, "{measured}, not {expected}");
}

#[test]
fn each_mode_costs_what_the_processor_takes_for_it() {
    const SYSTEM_CALL: Picoseconds = ns(200);
    const WAKE: Picoseconds = ns(1000);
    const TICK: Picoseconds = ns(500);
    let base = Modes::default();
    let polled = duration(base);
    assert_eq!(polled, duration(base.with_buffers(Buffers::Mapped)));
    let called = duration(base.with_requests(Requests::SystemCall));
    same(called, polled + SYSTEM_CALL);
    // One core copies 9 GB/s.
    let copied = duration(base.with_buffers(Buffers::Copied));
    same(copied, polled + Picoseconds(64 * 1000 / 9));
    let watched = duration(base.with_waiting(Waiting::Monitor));
    same(watched, polled + WAKE + Picoseconds(SYSTEM_CALL.0 / 2));
    let kernel = duration(base.with_waiting(Waiting::KernelPolling));
    let ticked = kernel.0 - polled.0 - SYSTEM_CALL.0 / 2;
    assert!(ticked < TICK.0, "{ticked} ps after the change");
    // A whole line is combined: 32 B more on the link than an uncached store of the request.
    let requests = Requests::Stores(Mapping::WriteCombined);
    let combined = duration(base.with_requests(requests));
    assert!(polled < combined && combined < polled + ns(10), "{combined} and {polled}");
}

/// Time that eight requests keep the core busy.
fn posting(requests: Requests) -> Picoseconds {
    on_pair(Modes::default().with_requests(requests), async |_, [from, _]| {
        let buffer = filled(from, &pattern(1, 64)).await;
        let begun = from.bus().now();
        let mut gets = Vec::new();
        for tag in 0..8 {
            gets.push(from.nget(message(from, key(0, 0, tag), &buffer, 64)).await.unwrap());
        }
        let posted = Picoseconds(from.bus().now().0 - begun.0);
        for get in &gets {
            ended(from, get).await;
        }
        posted
    })
}

#[test]
fn requests_cost_their_stores_and_calls() {
    const STORE: u64 = 144;
    assert_eq!(posting(Requests::Stores(Mapping::Uncached)), ns(8 * STORE));
    assert_eq!(posting(Requests::SystemCall), ns(8 * (STORE + 200)));
    assert_eq!(posting(Requests::Stores(Mapping::WriteCombined)), ns(8));
}

#[test]
fn a_mode_that_the_host_does_not_have_is_refused() {
    let mut said = Vec::new();
    for (key, modes) in [
        ("kernel_poll_ns", Modes::default().with_waiting(Waiting::KernelPolling)),
        ("monitor_wake_ns", Modes::default().with_waiting(Waiting::Monitor)),
        ("combining", Modes::default().with_requests(Requests::Stores(Mapping::WriteCombined))),
    ] {
        let lab = lab(&[2]).edited(|file| {
            let cpu = &mut Arc::make_mut(&mut file.hosts[0].part).parameters.cpu;
            match key {
                "kernel_poll_ns" => cpu.kernel_poll = None,
                "monitor_wake_ns" => cpu.monitor_wake = None,
                _ => cpu.combining = None,
            }
        });
        let simulation = crosslane_lab::Simulation::new(lab.unwrap().build_engines(1).unwrap());
        let bus = simulation.bus(crosslane_pcie::units::HostId(0));
        let opened = NetworkProcessor::init(bus.clone(), "fpga1", modes);
        said.push(failure(simulation.run("init", opened).unwrap()));
        // The mapping that the host has works.
        let opened = NetworkProcessor::init(bus, "fpga1", Modes::default());
        let opened = simulation.run("init", opened).unwrap().unwrap();
        let is_combined = opened.put_mapping() == Mapping::WriteCombined;
        assert_eq!(is_combined, key != "combining");
    }
    insta::assert_snapshot!(said.join("\n"));
}
