// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot with its legend, read-out and values.

use maud::{Markup, html};

use super::{Writer, heading, table};
use crate::chart::{Chart, NARROW, WIDE, axis_name};
use crate::plot::Plot;
use crate::table::Table;

/// A plot of more values than this has no table of them.
const MOST_VALUES: usize = 400;

impl Writer {
    /// Writes a plot as a block of a section.
    pub fn plot(&mut self, plot: &Plot) -> Markup {
        let chart = Chart::new(plot);
        let (wide, narrow) = (self.drawing_id(), self.drawing_id());
        html! {
            figure.block.plot {
                (heading(&plot.title))
                @if chart.is_empty() {
                    p.empty { "No values to draw." }
                } @else {
                    ul.legend {
                        @for index in chart.legend() {
                            @let look = &chart.looks[index];
                            li data-series=(index) {
                                (look.key()) span.legend-name { (look.label) }
                            }
                        }
                    }
                    div.stage {
                        (chart.draw(WIDE, &wide))
                        (chart.draw(NARROW, &narrow))
                    }
                }
                @if let Some(words) = chart.left_out.words() { p.note { (words) } }
                @if !chart.is_empty() { (values(plot, &chart)) }
            }
        }
    }
}

fn values(plot: &Plot, chart: &Chart) -> Markup {
    let number: usize = chart.points.iter().map(Vec::len).sum();
    if number > MOST_VALUES {
        return html! {
            p.note { "Of " (number) " values the lowest and highest of each place are drawn." }
        };
    }
    let mut list = Table::headed("series")
        .with_numbers([axis_name(&plot.x), axis_name(&plot.y)])
        .titled(format!("Values of {}", plot.title));
    for (look, points) in chart.looks.iter().zip(&chart.points) {
        for &point in points {
            let (x, y) = chart.words(point);
            list.row([look.label.clone(), x, y]);
        }
    }
    table::details(&list)
}
