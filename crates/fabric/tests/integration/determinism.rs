// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same seed gives the same trace, bit for bit, in every process; another seed gives another
//! trace if anything is random. Also one short trace to read.

use crate::support::{self, log};

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use crosslane_fabric::parameters::*;
use crosslane_fabric::trace::TraceEvent;
use crosslane_fabric::*;
use crosslane_pcie::credits::Credits;
use crosslane_pcie::units::BusAddress;
use log::Log;
use support::*;

/// Environment variable for the child process, which only prints its hashes.
const CHILD: &str = "CROSSLANE_DETERMINISM_CHILD";
const SEEDS: [u64; 3] = [1, 2, 12345];

/// Runs everything that involves randomness and hashes every record of the trace.
fn hash(seed: u64, bit_error_rate: f64, shuffle: bool) -> u64 {
    let mut settings = Settings::ideal(rate(3, 4), 256);
    settings.seed = seed;
    settings.link.bit_error_rate = bit_error_rate;
    settings.link.skp = true;
    settings.link.flight = ns(4);
    settings.switch.latency = ns(110);
    let memory = &mut settings.completer;
    (memory.read_latency, memory.read_jitter) = (ns(300), ns(50));
    (memory.read_tail, memory.read_tail_probability) = (ns(900), 0.02);
    settings.port.ack = Coalescing { tlps: 3, within: None };
    settings.port.receive_credits = [Credits { header: 12, data: 192 }; 3];
    let mut stand = tree(&settings, 3);
    stand.fabric.set_shuffle(shuffle);
    let log = Log::of(&mut stand.fabric);
    stand.run(stand.everywhere(50, [700, 1500], (FlowKind::WriteRead, 300)));
    let mut hasher = DefaultHasher::new();
    let records = log.records();
    assert!(records.len() > 5000);
    for record in records {
        format!("{record:?}").hash(&mut hasher);
    }
    stand.fabric.now().0.hash(&mut hasher);
    hasher.finish()
}

fn all_hashes() -> String {
    SEEDS.map(|seed| format!("{:x} {:x}", hash(seed, 2e-6, false), hash(seed, 0.0, true))).join(" ")
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "it starts processes")]
fn the_same_seed_gives_the_same_trace() {
    let hashes = all_hashes();
    if std::env::var_os(CHILD).is_some() {
        println!("hashes: {hashes}.");
        return;
    }
    assert_eq!(hashes, all_hashes(), "twice in one process");
    for _ in 0..2 {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "determinism::the_same_seed_gives_the_same_trace", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let output = String::from_utf8(child.stdout).unwrap();
        assert!(output.contains(&format!("hashes: {hashes}.")), "{hashes} but {output}");
    }
    let mut different: Vec<&str> = hashes.split(' ').collect();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 2 * SEEDS.len(), "other seeds, other traces");
}

/// Without randomness the seed has no effect.
#[test]
fn without_chance_the_seed_does_not_matter() {
    let traces = SEEDS.map(|seed| {
        let mut settings = Settings::ideal(rate(2, 4), 128);
        settings.seed = seed;
        let mut stand = one_switch(&settings, 2);
        let log = Log::of(&mut stand.fabric);
        let write = stand.flow(0, FlowKind::Write, stand.bar(1), 1000);
        let read = stand.flow(1, FlowKind::Read, BusAddress(0), 1000);
        stand.run(vec![write, read]);
        log.records()
    });
    assert!(traces[0] == traces[1] && traces[0] == traces[2]);
}

/// A write and a read through one switch, in order of time, as a log prints them. By hand, Gen2 x4,
/// 0.5 ns a byte: the write's header (16 B) is in the switch after 8 + 5 ns and leaves 150 ns
/// later; the TLP of 148 B is at the root port at 163 + 74 + 5 ns. Its Ack leaves there.
#[test]
fn a_trace_to_read() {
    let mut settings = Settings::ideal(rate(2, 4), 128);
    settings.link.flight = ns(5);
    settings.switch.latency = ns(150);
    settings.completer.read_latency = ns(300);
    settings.port.receive_credits[0] = Credits { header: 8, data: 64 };
    let mut stand = one_switch(&settings, 1);
    let log = Log::of(&mut stand.fabric);
    let mut write = stand.flow(0, FlowKind::Write, BusAddress(0x1000), 128);
    let mut read = stand.flow(0, FlowKind::Read, BusAddress(0x2020), 128);
    (write.operations, read.operations) = (1, 1);
    read.start = ns(2000);
    stand.run(vec![write, read]);
    let mut records = log.records();
    records.retain(|record| !matches!(record.event, TraceEvent::Idle { .. }));
    records.sort_by_key(|record| record.time);
    let mut text = String::new();
    for record in records {
        writeln!(text, "{record}").unwrap();
    }
    insta::assert_snapshot!(text);
}
