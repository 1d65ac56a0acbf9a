// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enumeration of random trees: nothing overlaps, windows hold everything behind them, buses nest.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crosslane_fabric::MMIO_HOLE;
use crosslane_lab::enumerate::{Function, HostTree, WINDOWS_32};
use crosslane_lab::{Lab, Problem, RunningLab};
use crosslane_pcie::units::BusAddress;
use proptest::prelude::*;

use crate::scenes;

/// BARs of one endpoint: kind (0 to 3) and size as a power of two.
type Bars = Vec<(usize, u32)>;

/// Random parents of switches and endpoints: numbers, taken modulo the candidates.
#[derive(Clone, Debug)]
struct Tree {
    hosts: usize,
    switches: Vec<usize>,
    endpoints: Vec<(usize, Bars)>,
}

fn tree() -> impl Strategy<Value = Tree> {
    let bars = prop::collection::vec((0_usize..4, 7_u32..29), 0..4);
    let endpoints = prop::collection::vec((any::<usize>(), bars), 1..24);
    let switches = prop::collection::vec(any::<usize>(), 0..12);
    (1_usize..4, switches, endpoints).prop_map(|(hosts, switches, endpoints)| Tree {
        hosts,
        switches,
        endpoints,
    })
}

const KINDS: [&str; 4] = ["memory32", "memory32-prefetchable", "memory64", "memory64-prefetchable"];

/// Returns the parts of a shipped lab without its engines, which would need certain BARs.
fn parts() -> String {
    let is_engine = |table: &&str| table.lines().next().unwrap_or("").ends_with(".engine]");
    // The variant's own BAR does not go with random ones.
    let has_bar = |table: &&str| table.starts_with("variant.memory");
    let tables = scenes::parts("rosta").split("\n[");
    let tables: Vec<&str> = tables.filter(|table| !is_engine(table) && !has_bar(table)).collect();
    tables.join("\n[")
}

/// Writes the lab file of a tree, with the parts of the shipped labs.
fn lab_text(tree: &Tree) -> String {
    let mut text = parts();
    for host in 0..tree.hosts {
        let _ = writeln!(text, "[[host]]\nname = \"host{host}\"\npart = \"i7\"");
        let _ = writeln!(text, "buffers = {{ value = \"below-4-gib\", source = \"fit: x\" }}");
    }
    let above = |at: usize, switches: usize| match at % (tree.hosts + switches) {
        host if host < tree.hosts => format!("host{host}"),
        switch => format!("switch{}", switch - tree.hosts),
    };
    let mut links = String::new();
    let mut link = |upper: String, lower: String| {
        let _ = writeln!(links, "[[link]]\nupper = \"{upper}\"\nlower = \"{lower}\"");
        let _ = writeln!(links, "part = \"board-x4\"");
    };
    for (index, at) in tree.switches.iter().enumerate() {
        let _ = writeln!(text, "[[switch]]\nname = \"switch{index}\"\npart = \"rc47\"");
        link(above(*at, index), format!("switch{index}"));
    }
    for (index, (at, bars)) in tree.endpoints.iter().enumerate() {
        let _ = writeln!(text, "[[endpoint]]\nname = \"endpoint{index}\"\npart = \"v7\"");
        let mut register = 0;
        // Overrule the part's BARs: both first.
        for (kind, bits) in bars.iter().chain([&(0, 7), &(0, 7)]) {
            let wide = *kind >= 2;
            if register + usize::from(wide) > 5 || (wide && register < 1) {
                continue;
            }
            let _ = writeln!(
                text,
                "bar{register}.decodes = {{ value = \"{}\", source = \"fit: x\" }}\n\
                 bar{register}.size_bytes = {{ value = {}, source = \"fit: x\" }}",
                KINDS[*kind],
                1_u64 << bits
            );
            register += if wide { 2 } else { 1 };
        }
        link(above(*at, tree.switches.len()), format!("endpoint{index}"));
    }
    text + &links
}

fn contains(outer: &RangeInclusive<u64>, inner: &RangeInclusive<u64>) -> bool {
    outer.start() <= inner.start() && inner.end() <= outer.end()
}

/// Returns a function's address ranges: the BARs of an endpoint, the windows of a bridge.
fn ranges(function: &Function) -> Vec<RangeInclusive<u64>> {
    let bars = function.bars.iter().map(|bar| bar.base.0..=bar.base.0 + (bar.size_bytes - 1));
    let windows = [&function.memory_window, &function.prefetchable_window];
    bars.chain(windows.into_iter().flatten().cloned()).collect()
}

fn assert_disjoint(mut ranges: Vec<RangeInclusive<u64>>) {
    ranges.sort_by_key(|range| *range.start());
    for pair in ranges.windows(2) {
        assert!(pair[0].end() < pair[1].start(), "{:x?} and {:x?} overlap", pair[0], pair[1]);
    }
}

fn check_addresses(tree: &HostTree) {
    let bars = |f: &Function| f.bars.clone();
    for bar in tree.functions.iter().flat_map(bars) {
        assert!(bar.base.0.is_multiple_of(bar.size_bytes), "{bar:x?}");
        let last = bar.base.0 + (bar.size_bytes - 1);
        if bar.kind.is_64_bit() && bar.kind.is_prefetchable() {
            assert!(bar.base.0 >= MMIO_HOLE.end);
            assert!(tree.memory.iter().all(|memory| memory.end <= bar.base.0));
        } else {
            assert!(WINDOWS_32.contains(&bar.base.0) && WINDOWS_32.contains(&last));
        }
        let (function, found) = tree.at_address(BusAddress(last)).expect("it is somebody's");
        assert_eq!((found.base, found.index), (bar.base, bar.index), "{}", function.name);
    }
    for function in &tree.functions {
        for range in ranges(function) {
            let mut at = function.parent;
            while let Some(parent) = at {
                let bridge = &tree.functions[parent];
                let windows = [&bridge.memory_window, &bridge.prefetchable_window];
                let inside = windows.into_iter().flatten().any(|window| contains(window, &range));
                assert!(inside, "{:x?} of {} not below {}", range, function.name, bridge.name);
                at = bridge.parent;
            }
        }
        let below = function.children.iter().flat_map(|&child| ranges(&tree.functions[child]));
        assert_disjoint(below.collect());
    }
    assert_disjoint(
        tree.functions.iter().filter(|f| f.parent.is_none()).flat_map(ranges).collect(),
    );
}

fn check_buses(tree: &HostTree) {
    for (index, function) in tree.functions.iter().enumerate() {
        let bus = function.routing_id.bus();
        match function.parent {
            None => assert_eq!(bus, 0),
            Some(parent) => {
                let buses = tree.functions[parent].buses.as_ref().expect("a parent is a bridge");
                assert_eq!(*buses.start(), bus);
                let inside = function.buses.clone().unwrap_or(bus..=bus);
                assert!(buses.contains(inside.start()) && buses.contains(inside.end()));
            }
        }
        let same = |other: &&Function| other.routing_id == function.routing_id;
        assert_eq!(tree.functions.iter().filter(same).count(), 1);
        for child in &function.children {
            assert_eq!(tree.functions[*child].parent, Some(index));
        }
    }
}

/// Checks that the configuration space agrees with the tree.
fn check_registers(running: &RunningLab, tree: &HostTree) {
    for function in &tree.functions {
        let config = &running.fabric.port(function.port).config;
        assert_eq!(running.fabric.function_at(tree.host, function.routing_id), Some(function.port));
        assert_eq!(running.fabric.routing_id(function.port), function.routing_id);
        assert!(config.memory_enabled() && config.bus_master_enabled());
        assert_eq!(config.max_payload_bytes(), function.max_payload_bytes);
        assert_eq!(config.max_read_request_bytes(), function.max_read_request_bytes);
        assert_eq!(config.memory_window(), function.memory_window);
        assert_eq!(config.prefetchable_window(), function.prefetchable_window);
        for bar in &function.bars {
            assert_eq!(config.bar(bar.index).as_ref(), Some(bar));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn enumeration_of_random_trees(tree in tree()) {
        let text = lab_text(&tree);
        let lab = Lab::from_text("random.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        match lab.build(1) {
            Ok(running) => {
                let functions: usize = running.hosts.iter().map(|h| h.tree.functions.len()).sum();
                prop_assert_eq!(functions, running.fabric.ports().len());
                for host in &running.hosts {
                    check_addresses(&host.tree);
                    check_buses(&host.tree);
                    check_registers(&running, &host.tree);
                }
            }
            // Too much for the space below 4 GiB.
            Err(error) => {
                let enumeration = matches!(*error.problem, Problem::Enumeration { .. });
                prop_assert!(enumeration, "{}", error);
            }
        }
    }
}
