// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree with the loads of its links, in a box that scrolls.

use std::fmt::Write as _;

use crosslane_results::TimeUse;
use maud::{Markup, html};

use super::{Writer, heading, table};
use crate::number::{megabytes, percent, pixels};
use crate::page::TopologyFigure;
use crate::table::Table;
use crate::tree::{self, Card, way_words};

/// Smallest scale at which a drawing is shown; in a narrower box it scrolls.
const SMALLEST: f64 = 0.86;
/// Names of the five steps of load.
const STEPS: [&str; 5] = ["idle", "below 50 %", "50 to 75 %", "75 to 90 %", "90 % or more"];

impl Writer {
    /// Writes a tree as a block of a section.
    pub fn topology(&mut self, figure: &TopologyFigure) -> Markup {
        let id = self.drawing_id();
        let cards = tree::cards(&figure.topology, &figure.loads);
        let values = tree::has_loads(&cards).then(|| values(&figure.title, &cards));
        let is_empty = cards.is_empty();
        let drawing = tree::draw(cards, &figure.topology.networks, &figure.title, &id);
        let _ = writeln!(
            self.rules,
            "#{id} svg {{ min-width: {}px; }}",
            pixels(drawing.width * SMALLEST)
        );
        let name = if figure.title.is_empty() { "Topology" } else { &figure.title };
        html! {
            figure.block.topology {
                (heading(&figure.title))
                @if is_empty {
                    p.empty { "No hosts." }
                } @else {
                    @if values.is_some() { (legend()) }
                    div.scroll.tree-box id=(id) tabindex="0" role="group" aria-label=(name) {
                        (drawing.svg)
                    }
                    @if let Some(values) = &values { (table::details(values)) }
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

fn values(title: &str, cards: &[Card<'_>]) -> Table {
    fn walk(card: &Card<'_>, table: &mut Table) {
        for (link, below) in &card.links {
            for (load, is_down) in [(link.down, true), (link.up, false)] {
                let Some(load) = load else { continue };
                let part = |part: &TimeUse| format!("{} {}", part.what, percent(part.share));
                let parts: Vec<String> = load.uses.iter().map(part).collect();
                table.row([
                    way_words(below, is_down),
                    link.rate.clone(),
                    percent(load.busy_share),
                    megabytes(load.payload_bytes_per_second),
                    parts.join(", "),
                ]);
            }
            walk(below, table);
        }
    }
    let mut table = Table::headed("direction | rate | busy: | payload: | its time");
    cards.iter().for_each(|card| walk(card, &mut table));
    table.titled(format!("Values of {title}"))
}
