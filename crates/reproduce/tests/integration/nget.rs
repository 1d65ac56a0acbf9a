// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `nget`: every figure within its tolerance, the current page, and the goals of
//! our engine.

use std::sync::{Arc, LazyLock};

use crosslane_experiment::{HaloOptions, HaloOutcome, Lattice, Scenario};
use crosslane_lab::Provenance;
use crosslane_reproduce::Context;
use crosslane_reproduce::comparison::{Kind, Row};
use crosslane_reproduce::reproduction::Reproduction;
use crosslane_reproduce::study::Effort;

use crate::support;

/// The reproduction, run once for all tests.
static RUN: LazyLock<Reproduction> = LazyLock::new(|| support::reproduced("nget"));
/// Its compared rows at full length, also run once.
static COMPARED: LazyLock<Vec<Row>> = LazyLock::new(|| support::compared("nget", Effort::Full));

fn simulated(quantity: &str, conditions: &str) -> f64 {
    let row = RUN.rows().find(|row| row.quantity == quantity && row.conditions == conditions);
    let row = row.unwrap_or_else(|| panic!("no {quantity}, {conditions}"));
    row.simulated.unwrap()
}

#[test]
fn the_page_is_what_is_simulated() {
    support::assert_page_is_fresh(&RUN);
}

/// The peak is within 2 % except at 1 KiB, where our engine's requests take 7 % of the link; one
/// constant is fitted to one of eight figures.
#[test]
fn every_figure_is_within_its_tolerance_and_most_are_predicted() {
    let context = Context::open("nget", 1, &()).unwrap();
    for row in RUN.rows().chain(&*COMPARED) {
        assert_ne!(row.is_met(), Some(false), "{row:?}");
    }
    let kinds = |kind| COMPARED.iter().filter(|row| row.kind == kind).count();
    let found = (kinds(Kind::Fit), kinds(Kind::Predicted), kinds(Kind::Input));
    assert_eq!(found, (1, 7, 1));
    for row in COMPARED.iter().filter(|row| row.kind != Kind::Input) {
        let most = if row.label.ends_with(" 1 KiB") { 0.09 } else { 0.02 };
        assert!(row.error.unwrap().abs() <= most, "{row:?}");
    }
    let lab = crosslane_lab::open("nget").unwrap();
    assert_eq!(lab.constants().filter(|one| one.provenance == Provenance::Fit).count(), 1);
    // Every row of the file is compared with a measurement.
    let published: Vec<&Row> = RUN.rows().filter(|row| row.published.is_some()).collect();
    for figure in published.iter().map(|row| (&row.quantity, &row.conditions)) {
        assert!(!figure.0.is_empty());
    }
    let mut quantities: Vec<(&str, &str)> =
        published.iter().map(|row| (row.quantity.as_str(), row.conditions.as_str())).collect();
    quantities.sort_unstable();
    quantities.dedup();
    assert_eq!(quantities.len(), context.figures.count());
}

/// No pure size of completions gives the published peak.
#[test]
fn pure_completions_lie_on_both_sides_of_the_peak() {
    let of = |words: &str| {
        simulated("nget_over_theory", &format!("completions: {words}; 64 KiB; N = 64"))
    };
    let [short, middle, long] = ["64 B", "128 B", "256 B"].map(of);
    assert!(short < 0.762 && (0.74..0.76).contains(&short), "{short}");
    assert!((0.84..0.865).contains(&middle), "{middle}");
    assert!((0.90..0.928).contains(&long), "{long}");
    let mixture = of("mixture of 256 B and 64 B");
    assert!((mixture - 0.82).abs() < 0.002, "{mixture}");
}

#[test]
fn copies_calls_and_late_looks_cost_what_they_should() {
    let duration = |modes: &str| simulated("nget_duration", &format!("{modes}; 1 KiB; N = 1"));
    let stores = duration("kernel space, mapped, mapped stores, polling in user space");
    let call = duration("kernel space, mapped, IOCTL, polling in user space");
    let copied = duration("kernel space, copied, mapped stores, polling in user space");
    let monitor = duration("kernel space, mapped, mapped stores, monitor/mwait");
    // A system call of 200 ns; a copy of 1 KiB at 5 GB/s; half a call, 1 us, and half a call.
    assert!((call - stores - 0.2).abs() < 0.01, "{call} {stores}");
    assert!((copied - stores - 0.205).abs() < 0.01, "{copied} {stores}");
    assert!((1.0..1.25).contains(&(monitor - stores)), "{monitor} {stores}");
}

/// At least 98 % of the ceiling for each size of completions.
#[test]
fn our_engine_is_as_fast_as_completions_allow() {
    let mut ratios = Vec::new();
    for payload in [64, 128, 256] {
        for size in ["16 KiB", "64 KiB", "256 KiB"] {
            let conditions = format!("our engine; completions of {payload} B; {size}");
            ratios.push(simulated("nget_of_ceiling", &conditions));
        }
    }
    assert!(ratios.iter().all(|ratio| (0.98..=1.0001).contains(ratio)), "{ratios:?}");
}

/// Less than 1 us by put and 1.8 us by get, and no more than the sum of the terms.
#[test]
fn short_messages_take_the_sum_of_their_terms() {
    for (way, most, title) in [("put", 1000.0, "put of 64 B"), ("get", 1800.0, "get of 64 B")] {
        for bytes in [8, 16, 32, 64] {
            let conditions = format!("our engine; {way} of {bytes} B to a neighbour");
            let ns = simulated("message_latency", &conditions);
            assert!(ns < most, "{conditions}: {ns} ns");
        }
        let tables = RUN.experiments.iter().flat_map(|experiment| &experiment.tables);
        let mut found = tables.filter(|table| table.columns[0].heading == title);
        let table = found.next().unwrap_or_else(|| panic!("no table {title}"));
        let value = |name: &str| {
            let row = table.rows.iter().find(|row| row[0].text == name).unwrap();
            row[1].text.parse::<f64>().unwrap()
        };
        assert!((value("simulated") - value("sum")).abs() < 3.0, "{title}");
    }
}

#[test]
fn fewer_sizes_of_a_sweep_say_the_same() {
    for short in support::compared("nget", Effort::Quick) {
        let long = COMPARED.iter().find(|row| row.label == short.label).unwrap();
        assert_eq!(short.simulated, long.simulated);
    }
}

fn halo(sizes: &[u16], extents: [u32; 4], exchanges: u32) -> HaloOutcome {
    let lab = crosslane_lab::open("torus").unwrap().with_torus(sizes).unwrap();
    let options = HaloOptions::new(Lattice::new(extents).unwrap(), 64).with_exchanges(exchanges);
    Scenario::new(Arc::new(lab), options).run(&(), None).unwrap()
}

/// Every buffer of every node equals the neighbour's data; a torus with twice as many nodes takes
/// the same time.
#[test]
fn halos_are_right_and_scale() {
    let small = halo(&[3, 2], [4, 4, 4, 4], 3);
    assert_eq!(small.checked(), (6 * 4 * 3, 0));
    assert_eq!((small.directions, small.node_bytes, small.face_bytes), (4, 16_384, 4096));
    let [one, two] = [&[2, 2, 2, 2], &[4, 2, 2, 2]].map(|sizes| halo(sizes, [4, 4, 4, 4], 2));
    assert_eq!((one.checked(), two.checked()), ((256, 0), (512, 0)));
    assert_eq!(one.exchange, two.exchange);
    // 32 KiB each way at 7 GB/s are 4.7 us, and a get takes 1.4 us.
    assert!((5_500_000..8_000_000).contains(&one.exchange.0), "{}", one.exchange);
}

/// With long faces the host's link is full, which gets and incoming data share.
#[test]
fn long_faces_fill_the_narrowest_link() {
    let one = halo(&[2, 1, 1, 1], [2, 32, 16, 16], 1);
    assert_eq!((one.directions, one.checked()), (2, (4, 0)));
    let share = one.link_bytes_per_second() / one.link_rate.unwrap();
    assert!((0.65..1.0).contains(&share), "{share}");
    let all = halo(&[2, 2, 2, 2], [16, 16, 16, 16], 1);
    let share = all.node_bytes_per_second() / all.host_rate.unwrap();
    assert!((0.75..1.0).contains(&share), "{share}");
    assert_eq!(all.checked().1, 0);
}
