// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single accesses and transfers, sweeps, and stores of a processor into a card's memory.

use crosslane_results::{
    Bench, Flow, Operations, Overhead, OverheadRow, Packets, Stores, Sweep, Term,
};

use super::why::{last_block, push_bottlenecks};
use super::{Columns, Notes, paragraph};
use crate::runs::rows_page::{OPERATIONS, OVERHEAD, PACKETS, RATES, published_words, sweep_table};
use crate::runs::run_page::{BINARY_RATE, BYTES, ITERATIONS, RATE};
use crate::table::{Field, Table};

const WRITES: &str = "writes at the card, by length up to";
/// Columns that a narrow terminal leaves out, the least important first.
const SPARE: [&str; 4] = ["MiB/s", "passes", WRITES, "us a pass"];

/// Formats single accesses and transfers.
pub fn overhead(run: &Overhead, columns: Columns) -> String {
    let is_lab = run.device.starts_with("lab:");
    let [what, _, bytes, us, rate, machine_us] = OVERHEAD;
    let mut fields: Vec<Field<OverheadRow>> = vec![what, bytes, us, rate];
    fields.extend(is_lab.then_some(machine_us));
    let time = if is_lab { "simulated time, and this machine's" } else { "this machine's time" };
    let table = Table::of(&fields, &run.rows).to_text(columns.tables);
    format!("{}, {time}\n\n{table}", run.device)
}

/// Formats small operations, and the parts of their times.
pub fn operations(run: &Operations, columns: Columns) -> String {
    let time = if run.device.starts_with("lab:") { "simulated" } else { "this machine's" };
    let table = Table::of(&OPERATIONS, &run.rows).to_text(columns.tables);
    let mut text = format!("{}, {time} time\n\n{table}", run.device);
    let is_sweep = run
        .rows
        .first()
        .is_some_and(|first| run.rows.iter().filter(|row| row.what == first.what).count() > 1);
    let split: Vec<_> = run.rows.iter().filter(|row| !row.terms.is_empty()).collect();
    match (split.is_empty(), is_sweep) {
        (true, _) => {}
        (false, true) => text += "\nparts of each time: --json, --report, or a single --size\n",
        (false, false) => {
            text += "\nparts of the typical time, ns:\n";
            for row in split {
                let part = |term: &Term| format!("{} {:.1}", term.what, term.ps as f64 / 1e3);
                let parts = row.terms.iter().map(part).collect::<Vec<_>>().join("; ");
                let line = format!("{}, {} B: {parts}", row.what, row.bytes);
                text += &paragraph(&line, columns);
            }
        }
    }
    if !run.rates.is_empty() {
        text += &format!("\n{}", Table::of(&RATES, &run.rates).to_text(columns.tables));
    }
    text + "\n" + &paragraph(&published_words(&run.published), columns)
}

/// Formats packets by their size.
pub fn packets(run: &Packets, columns: Columns) -> String {
    let time = if run.device.starts_with("lab:") { "simulated" } else { "this machine's" };
    let table = Table::of(&PACKETS, &run.rows).to_text(columns.tables);
    format!("{}, {time} time, host to card to host\n\n{table}", run.device)
}

/// Formats a sweep with its parameters in this order.
pub fn sweep(run: &Sweep, parameters: &[String], columns: Columns) -> String {
    let names: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let spare = ["MiB/s", "wrong words", "us"];
    let mut table = sweep_table(run, &names, true).least_first(&spare);
    push_bottlenecks(&mut table, &run.rows, &run.rows);
    let raised = match &run.raised_ports[..] {
        [] => String::new(),
        ports => format!("Raised to the rates of the links: {}\n", ports.join(", ")),
    };
    table.to_text(columns.tables) + &raised + &last_block(&run.rows)
}

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
