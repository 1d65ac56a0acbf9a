// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a processor into a card's memory.

use crosslane_results::{Bench, Flow, Stores};

use super::why::{last_block, push_bottlenecks};
use super::{Columns, Notes};
use crate::runs::columns::{BINARY_RATE, BYTES, ITERATIONS, RATE};
use crate::table::{Field, Table};

const WRITES: &str = "writes at the card, by length up to";
/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 4] = ["MiB/s", "passes", WRITES, "us a pass"];

fn of_stores(flow: &Flow, words: fn(&Flow, &Stores) -> String) -> String {
    flow.stores().map(|stores| words(flow, stores)).unwrap_or_default()
}

/// Formats the classes of writes: `16 of 4 B, 1 of 64 B`.
fn writes(stores: &Stores) -> String {
    let classes = stores.writes_by_length.iter();
    let words = classes.map(|class| format!("{} of {} B", class.writes, class.up_to_bytes));
    words.collect::<Vec<_>>().join(", ")
}

const FIELDS: [Field<Flow>; 8] = [
    ("mode", |flow| flow.name.clone()),
    BYTES,
    ("passes:", ITERATIONS.1),
    ("us a pass:", |flow| {
        of_stores(flow, |flow, it| format!("{:.3}", it.elapsed_ns / 1e3 / flow.iterations as f64))
    }),
    RATE,
    BINARY_RATE,
    ("wrong words:", |flow| of_stores(flow, |_, stores| stores.wrong_words.to_string())),
    (WRITES, |flow| of_stores(flow, |_, stores| writes(stores))),
];

/// Formats stores: a row for each run; of a single one its details and what limits it.
pub fn stores(bench: &Bench, notes: Notes<'_>, columns: Columns) -> String {
    let flows = bench.flows();
    let mut table = Table::of(&FIELDS, flows).least_first(&SPARE);
    push_bottlenecks(&mut table, &bench.scenarios, &bench.scenarios);
    let text = table.to_text(columns.tables);
    match bench.scenarios.len() {
        1 => text + notes.details + &last_block(&bench.scenarios),
        _ => text,
    }
}
