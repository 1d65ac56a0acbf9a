// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a processor into a card's memory: plots.

use std::collections::BTreeSet;

use crosslane_results::quantity::size_words;
use crosslane_results::{Bench, Flow, Stores};

use super::run_page::{by_size, flow_names};
use crate::page::{Block, Section};
use crate::plot::{Axis, Plot, Scale, Series};

/// Returns the flows with their stores.
pub fn stores(bench: &Bench) -> impl Iterator<Item = (&Flow, &Stores)> {
    let flows = bench.flows();
    flows.filter_map(|flow| Some((flow, flow.stores()?)))
}

/// Returns the section of a page: the rate by size, and the writes by length.
pub fn section(bench: &Bench) -> Section {
    let title = "Stores into the card's memory".to_owned();
    let rate = |flow: &Flow| Some(flow.rate()? / 1e6);
    let series = flow_names(bench).into_iter().map(|name| {
        let points = by_size(bench, &name, rate);
        Series::ours(name, points)
    });
    let plot = Plot {
        title: title.clone(),
        x: Axis::new("bytes of a pass", "B", Scale::Logarithmic),
        y: Axis::new("rate", "MB/s", Scale::Logarithmic),
        series: series.collect(),
    };
    let mut blocks = vec![Block::Plot(plot)];
    // Stores into memory that a client maps itself bypass the card, which then counts nothing.
    if stores(bench).any(|(_, stores)| !stores.writes_by_length.is_empty()) {
        blocks.push(Block::Plot(lengths(bench)));
    }
    Section { title, blocks }
}

/// Plots the writes at the card by their length, for the last block of each mode.
fn lengths(bench: &Bench) -> Plot {
    let mut longest: Vec<(&Flow, &Stores)> = Vec::new();
    for (flow, stores) in stores(bench) {
        longest.retain(|(other, _)| other.name != flow.name);
        longest.push((flow, stores));
    }
    let writes = |stores: &Stores, bytes: u32| -> u32 {
        let classes = stores.writes_by_length.iter();
        classes.filter(|class| class.up_to_bytes == bytes).map(|class| class.writes).sum()
    };
    let used = longest.iter().flat_map(|(_, stores)| &stores.writes_by_length);
    let bounds: BTreeSet<u32> = used.map(|class| class.up_to_bytes).collect();
    let names = bounds.iter().map(|bytes| format!("{bytes} B")).collect();
    let series = longest.into_iter().map(|(flow, stores)| {
        let all: u32 = bounds.iter().map(|bytes| writes(stores, *bytes)).sum();
        let share = |bytes: &u32| f64::from(writes(stores, *bytes)) / f64::from(all.max(1)) * 1e2;
        let points = (0_u32..).map(f64::from).zip(bounds.iter().map(share));
        Series::ours(format!("{}, {}", flow.name, size_words(flow.bytes)), points)
    });
    Plot {
        title: "Writes at the card by their length".to_owned(),
        x: Axis::new("payload, up to", "", Scale::Categories(names)),
        y: Axis::new("of all writes", "%", Scale::Linear),
        series: series.collect(),
    }
}
