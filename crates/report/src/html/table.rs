// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables, each in a box that scrolls if the page is narrow.

use crosslane_results::quantity::count_words;
use maud::{Markup, html};

use super::heading;
use crate::table::{Align, Cell, Column, Table};

/// Writes a table as a block of a section.
pub fn block(table: &Table) -> Markup {
    let name = if table.title.is_empty() { "Table" } else { &table.title };
    html! {
        div.block {
            (heading(&table.title))
            (scrolled(table, name))
        }
    }
}

/// Writes the values of a drawing as a table that the reader can open.
pub fn details(table: &Table) -> Markup {
    html! {
        details.values {
            summary { "Values" }
            (scrolled(table, &table.title))
        }
    }
}

/// A table of more columns than this has narrower cells.
const MANY_COLUMNS: usize = 8;

fn scrolled(table: &Table, name: &str) -> Markup {
    // All cells are shown, even if a row has more cells than there are headings.
    let columns =
        table.rows.iter().map(Vec::len).chain([table.columns.len()]).max().unwrap_or_default();
    let align = |index: usize| match table.columns.get(index) {
        Some(Column { align: Align::Right, .. }) => Some("number"),
        _ => None,
    };
    let bad = table.rows.iter().flatten().filter(|cell| cell.is_bad).count();
    html! {
        @if bad > 0 {
            p.bad-note { span.bad-mark aria-hidden="true" { "▲" } " marks "
                (count_words(bad, "value", "values")) " to look at." }
        }
        div.scroll tabindex="0" role="group" aria-label=(name) {
            table class=[(columns > MANY_COLUMNS).then_some("dense")]
                data-searchable[table.is_searchable]
            {
                @if columns > 0 {
                    thead { tr {
                        @for index in 0..columns {
                            th scope="col" class=[align(index)] {
                                (table.columns.get(index).map_or("", |column| &column.heading))
                            }
                        }
                    } }
                }
                tbody {
                    @for row in &table.rows {
                        tr { @for index in 0..columns {
                            (cell_markup(row.get(index), align(index).unwrap_or("")))
                        } }
                    }
                }
            }
        }
        @if table.rows.is_empty() { p.empty { "No rows." } }
    }
}

fn cell_markup(cell: Option<&Cell>, align: &str) -> Markup {
    match cell {
        None => html! { td {} },
        Some(cell) if cell.is_bad => html! {
            td class={ "bad " (align) } {
                span.bad-mark aria-hidden="true" { "▲ " }
                span.spoken { "to look at: " }
                span.value { (cell.text) }
            }
        },
        Some(cell) if align.is_empty() => html! { td { (cell.text) } },
        Some(cell) => html! { td class=(align) { (cell.text) } },
    }
}
