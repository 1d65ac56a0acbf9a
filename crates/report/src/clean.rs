// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text without characters that HTML or XML forbid: control characters and non-characters become
//! U+FFFD. A whole page is cleaned once, before it is written.

use crate::page::{Bar, Bars, Block, Page, Section};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::table::{Cell, Column, Table};
use crate::topology::TopologyFigure;

/// Returns whether HTML and XML both allow the character.
fn is_allowed(c: char) -> bool {
    let is_non_character = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    matches!(c, '\n' | '\t') || !(c.is_control() || is_non_character)
}

/// Returns the text with forbidden characters replaced.
pub fn text(text: &str) -> String {
    text.chars().map(|c| if is_allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn parts(parts: &[(String, f64)]) -> Vec<(String, f64)> {
    parts.iter().map(|(name, share)| (text(name), *share)).collect()
}

/// Returns a page with clean text.
pub fn page(page: &Page) -> Page {
    Page {
        title: text(&page.title),
        summary: text(&page.summary),
        facts: page.facts.iter().map(|(name, value)| (text(name), text(value))).collect(),
        sections: page.sections.iter().map(section).collect(),
    }
}

fn section(section: &Section) -> Section {
    Section { title: text(&section.title), blocks: section.blocks.iter().map(block).collect() }
}

fn block(block: &Block) -> Block {
    match block {
        Block::Text(words) => Block::Text(text(words)),
        Block::Verdict(words) => Block::Verdict(text(words)),
        Block::Plot(drawn) => Block::Plot(plot(drawn)),
        Block::Table(set) => Block::Table(table(set)),
        Block::Bars(drawn) => Block::Bars(bars(drawn)),
        // The text of its cards is cleaned when they are made.
        Block::Topology(drawn) => {
            Block::Topology(TopologyFigure { title: text(&drawn.title), ..drawn.clone() })
        }
    }
}

fn bars(bars: &Bars) -> Bars {
    let bar = |bar: &Bar| Bar { name: text(&bar.name), parts: parts(&bar.parts) };
    Bars { title: text(&bars.title), bars: bars.bars.iter().map(bar).collect() }
}

fn plot(plot: &Plot) -> Plot {
    let series = |series: &Series| Series {
        name: text(&series.name),
        kind: series.kind,
        points: series.points.clone(),
    };
    Plot {
        title: text(&plot.title),
        x: axis(&plot.x),
        y: axis(&plot.y),
        series: plot.series.iter().map(series).collect(),
    }
}

fn axis(axis: &Axis) -> Axis {
    let scale = match &axis.scale {
        Scale::Categories(names) => {
            Scale::Categories(names.iter().map(|name| text(name)).collect())
        }
        other => other.clone(),
    };
    Axis { label: text(&axis.label), unit: text(&axis.unit), scale }
}

fn table(table: &Table) -> Table {
    let column = |column: &Column| Column { heading: text(&column.heading), align: column.align };
    let cell = |cell: &Cell| Cell { text: text(&cell.text), is_bad: cell.is_bad };
    Table {
        title: text(&table.title),
        columns: table.columns.iter().map(column).collect(),
        rows: table.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
        is_searchable: table.is_searchable,
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(
            super::text("a\0b\u{1b}[0m\tc\n\u{ffff}é"),
            "a\u{fffd}b\u{fffd}[0m\tc\n\u{fffd}é"
        );
    }
}
