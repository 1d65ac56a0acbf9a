// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows of generic requesters: the memory that they work in, and sweeps over them. In simulated
//! time rates are exact.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crosslane_experiment::sweep::{Axes, FlowSweep, Point, SweepOptions, SweepPoint};
use crosslane_experiment::{Choices, FlowArgument, Progress, Scenario, TrafficWork};
use crosslane_lab::{Lab, open};
use crosslane_results::DirectionLoad;

fn flow(text: &str) -> FlowArgument {
    text.parse().unwrap()
}

fn scenario(lab: &str, text: &str, choices: Choices) -> Scenario<TrafficWork> {
    let flow = flow(text);
    let flows = flow.sizes.sizes().flat_map(|bytes| flow.requests(bytes)).collect();
    let work = TrafficWork { flows, choices, shuffle: false };
    Scenario::new(Arc::new(open(lab).unwrap()), work)
}

#[test]
fn a_star_is_every_endpoint_but_itself() {
    let running = open("rosta").unwrap().build(1).unwrap();
    let count = |text: &str| flow(text).expanded(&running).len();
    let counts = ["*:*:write:64", "*:host:read:64", "host:*:write:64", "*:fpga3.bar0:write:64"];
    assert_eq!(counts.map(count), [56, 8, 8, 7]);
    let alone = flow("fpga1:fpga2:write:64,128");
    assert_eq!(alone.expanded(&running), std::slice::from_ref(&alone));
    let pairs = flow("*:fpga2:write:1K").expanded(&running);
    let words: Vec<String> = pairs.iter().map(FlowArgument::to_string).collect();
    assert_eq!(words[..2], ["fpga1:fpga2:write:1K", "fpga3:fpga2:write:1K"]);
    // Endpoints of different hosts are no pair.
    let torus = open("torus").unwrap().build(1).unwrap();
    assert_eq!(flow("*:*:write:64").expanded(&torus), []);
}

/// Operations go over the window at the offset, each byte is compared, and those that are not
/// aligned take one more TLP where they cross a boundary of 4 KiB.
#[test]
fn a_window_has_its_size_place_and_order() {
    let run = |choices: Choices| {
        let choices = choices.with_operations(64).with_outstanding(4);
        let scenario = scenario("pciebench", "nfp:host:write:4K", choices);
        let outcome = scenario.run(&(), None).unwrap();
        assert_eq!((outcome.error_count, &outcome.errors), (0, &Vec::new()));
        let flow = &outcome.flows[0];
        (flow.planned.flow.clone(), flow.report.tlps)
    };
    let window = Choices::default().with_window_bytes(64 << 10);
    let (plain, tlps) = run(window);
    assert_eq!((plain.window_bytes, plain.scattered, tlps), (64 << 10, false, 64 * 16));
    let (moved, tlps) = run(window.with_offset_bytes(3).with_random(true));
    assert_eq!(moved.target.0, plain.target.0 + 3);
    assert_eq!((moved.window_bytes, moved.scattered, tlps), (64 << 10, true, 64 * 17));
    let visited = |operations: u64| {
        let mut places: Vec<u64> = (0..operations).map(|it| moved.address(it).0).collect();
        let in_order = places.is_sorted();
        places.sort_unstable();
        places.dedup();
        (places.len(), in_order)
    };
    assert_eq!((visited(16), visited(64)), ((16, false), (16, false)));
}

/// A ceiling is that of the completions that come, of short reads too, which some hosts answer line
/// by line.
#[test]
fn completions_are_as_long_as_those_on_the_link() {
    for (bytes, payload_bytes) in [("64", 64.0), ("256", 64.0), ("512", 170.0)] {
        let choices = Choices::default().with_operations(64);
        let scenario = scenario("pciebench", &format!("nfp:host:read:{bytes}"), choices);
        let outcome = scenario.run(&(), None).unwrap();
        let ceiling = outcome.flows[0].ceiling.as_ref().unwrap();
        let mut links = outcome.links.iter();
        let link = links.find(|link| ceiling.direction.as_ref() == Some(&link.direction)).unwrap();
        assert_eq!(ceiling.payload_bytes, link.payload_bytes as f64 / link.tlps as f64);
        assert!((ceiling.payload_bytes - payload_bytes).abs() < 3.0, "{ceiling:?}");
    }
}

fn swept(lab: &Lab, axes: Axes) -> Vec<SweepPoint> {
    let options = SweepOptions::default().with_iterations(Some(200));
    let sweep = FlowSweep::new(lab, None, &axes.flows, options).unwrap();
    let measure = |point: &Point| sweep.measure(point, &()).unwrap();
    axes.points().unwrap().iter().map(measure).collect()
}

/// Reads one at a time take the round trip; twice the tags are twice the rate.
#[test]
fn a_sweep_of_reads_is_bound_by_tags() {
    let lab = open("minimal").unwrap();
    let axes = Axes::default().with_flows([flow("card0:host:read:64")]).with_tags([1, 2]);
    let points = swept(&lab, axes);
    let rates: Vec<f64> = points.iter().map(|point| point.bytes_per_second).collect();
    assert!((rates[1] / rates[0] - 2.0).abs() < 0.02, "{rates:?}");
    let parameters = points[0].parameters();
    let words: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(words, ["flow card0:host:read", "generation 3", "width 4", "tags 1"]);
}

/// A link beyond its ports raises them, and carries what it can: Gen6 x4 has the bytes of FLITs.
#[test]
fn a_sweep_of_links_raises_their_ports() {
    let lab = open("minimal").unwrap().edited(|file| {
        let part = Arc::make_mut(&mut file.endpoints[0].part);
        part.parameters.requester.datapath_bytes = 0;
    });
    let links = ["3x4", "6x4"].map(|link| link.parse().unwrap());
    let axes = Axes::default().with_flows([flow("card0:host:write:64K")]).with_links(links);
    let points = swept(&lab.unwrap(), axes);
    assert_eq!(points[0].raised_ports, [""; 0]);
    assert_eq!(points[1].raised_ports, ["root ports of host0", "card0"]);
    let share = |point: &SweepPoint| {
        let rate = point.link.unwrap();
        let payload_bytes = 256;
        point.bytes_per_second
            / crosslane_pcie::ceiling::write_ceiling_bytes_per_second(rate, 3, payload_bytes)
    };
    let shares: Vec<f64> = points.iter().map(share).collect();
    assert!(shares.iter().all(|share| (0.95..=1.0).contains(share)), "{shares:?}");
}

/// A copy is a write of one endpoint and a read of the other at the same place in memory; with one
/// buffer it takes the sum of their times, and with more less.
#[test]
fn a_copy_goes_by_way_of_host_memory() {
    let run = |outstanding: Option<u32>| {
        let choices = Choices::default().with_operations(32).with_outstanding(outstanding);
        let scenario = scenario("rosta", "fpga1:fpga5:copy:64K", choices);
        let outcome = scenario.run(&(), None).unwrap();
        assert_eq!((outcome.error_count, &outcome.errors), (0, &Vec::new()));
        let [written, read] = &outcome.flows[..] else { panic!("two flows") };
        assert_eq!(written.planned.words(), "fpga1 -> host0, write");
        assert_eq!(read.planned.words(), "fpga5 -> host0, read");
        assert_eq!(written.planned.flow.target, read.planned.flow.target);
        // Data that were copied count once, from the first write to the last read.
        let span = read.report.last_done.since(written.report.first_post).as_seconds();
        let rate = scenario.figure().unwrap().value;
        assert!((rate * span / (32.0 * 65_536.0) - 1.0).abs() < 1e-9, "{rate}");
        (read.report.bytes_per_second(), written.planned.flow.window_bytes)
    };
    let (one, two, many) = (run(Some(1)), run(None), run(Some(16)));
    assert_eq!([one.1, two.1, many.1], [64 << 10, 128 << 10, 1 << 20]);
    assert!(one.0 < 0.6 * two.0 && two.0 <= many.0, "{one:?} {two:?} {many:?}");
    for (text, words) in [
        ("fpga1:host0:copy:4K", "a copy goes from an endpoint to another"),
        ("host0:fpga1:copy:4K", "a copy goes from an endpoint to another"),
        ("fpga1:fpga2.bar0:copy:4K", "a copy goes from an endpoint to another"),
    ] {
        let error = scenario("rosta", text, Choices::default()).run(&(), None).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// An observer that hears of loads at every 256th look: of spans in which a TLP more or less is
/// nothing.
#[derive(Default)]
struct Watching {
    looks: AtomicU32,
    told: Mutex<Vec<(f64, f64)>>,
}

impl Progress for Watching {
    fn is_due(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) % 256 == 255
    }

    fn loaded(&self, loads: &[DirectionLoad]) {
        let of_card = loads.iter().find(|load| load.direction == "fpga1 -> rc47a.down0").unwrap();
        let entry = (of_card.busy_share, of_card.payload_bytes_per_second);
        self.told.lock().unwrap().push(entry);
    }
}

#[test]
fn loads_of_links_are_told_while_a_run_goes_on() {
    let choices = Choices::default().with_operations(4096);
    let watch = Watching::default();
    let outcome = scenario("rosta", "fpga1:fpga5:write:4K", choices).run(&watch, None).unwrap();
    let told = watch.told.into_inner().unwrap();
    assert!(told.len() > 8, "{} times", told.len());
    let steady = outcome.flows[0].report.bytes_per_second();
    for (busy, rate) in &told[1..told.len() - 1] {
        assert!((0.8..1.0).contains(busy), "{busy}");
        assert!((rate / steady - 1.0).abs() < 0.05, "{rate} instead of {steady}");
    }
}
