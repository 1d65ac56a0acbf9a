// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree with the loads of its links, in a box of its own that scrolls.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::{Writer, heading, table};
use crate::number::{megabytes, percent, pixels};
use crate::table::{Align, Table};
use crate::topology::{Topology, TopologyNode};
use crate::tree::{self, way_words};

/// Smallest part of its own size at which a drawing is shown: below that its box scrolls.
const SMALLEST: f64 = 0.86;
/// What the five steps of load are called.
const STEPS: [&str; 5] = ["idle", "below 50 %", "50 to 75 %", "75 to 90 %", "90 % or more"];

impl Writer {
    /// A tree as a block of a section.
    pub fn topology(&mut self, topology: &Topology) -> Markup {
        let id = self.drawing_id();
        let drawing = tree::draw(topology, &id);
        let _ = writeln!(
            self.rules,
            "#{id} svg {{ min-width: {}px; }}",
            pixels(drawing.width * SMALLEST)
        );
        let has_loads = tree::has_loads(topology);
        let name = if topology.title.is_empty() { "Topology" } else { &topology.title };
        html! {
            figure.block.topology {
                (heading(&topology.title))
                @if topology.hosts.is_empty() {
                    p.empty { "No hosts." }
                } @else {
                    @if has_loads { (legend()) }
                    div.scroll.tree-box id=(id) tabindex="0" role="group" aria-label=(name) {
                        (drawing.svg)
                    }
                    @if has_loads { (table::details(&values(topology))) }
                }
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        ul.legend {
            li { span.legend-name { "→ towards endpoints, ← towards hosts; busy:" } }
            @for (step, words) in STEPS.iter().enumerate() {
                li {
                    svg.key.tree width="26" height="14" viewBox="0 0 26 14" aria-hidden="true"
                        focusable="false"
                    {
                        path class={ "way load" (step) } d="M1 7H25"
                            stroke-width=(pixels(1.5 + 1.4 * step as f64)) {}
                    }
                    span.legend-name { (words) }
                }
            }
        }
    }
}

fn values(topology: &Topology) -> Table {
    fn walk(node: &TopologyNode, rows: &mut Vec<Vec<crate::table::Cell>>) {
        for link in &node.links {
            for (load, is_down) in [(&link.down, true), (&link.up, false)] {
                let Some(load) = load else { continue };
                let parts: Vec<String> = load
                    .parts
                    .iter()
                    .map(|(name, share)| format!("{name} {}", percent(*share)))
                    .collect();
                rows.push(vec![
                    table::cell(way_words(link, is_down)),
                    table::cell(&link.rate),
                    table::cell(percent(load.busy)),
                    table::cell(megabytes(load.payload_bytes_per_second)),
                    table::cell(parts.join(", ")),
                ]);
            }
            walk(&link.below, rows);
        }
    }
    let mut rows = Vec::new();
    for host in &topology.hosts {
        walk(host, &mut rows);
    }
    Table {
        title: format!("Values of {}", topology.title),
        columns: vec![
            table::column("direction", Align::Left),
            table::column("rate", Align::Left),
            table::column("busy", Align::Right),
            table::column("payload", Align::Right),
            table::column("its time", Align::Left),
        ],
        rows,
        is_searchable: false,
    }
}
