// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes as plain text for a terminal: rows as `perftest` prints them, then what explains them.
//! Pages show the same outcomes: see [`runs`](crate::runs).
//!
//! Read first: [`text`], then [`Columns`].

mod bridge;
mod comparison;
mod errors;
mod flows;
mod fold;
mod lab;
mod layout;
mod machine;
mod network;
mod rows;
mod topology;
mod why;

use crosslane_results::{Bench, Detail, Outcome};

pub use bridge::bridge_copy;
pub use errors::{errors, without_error_numbers};
pub use fold::{Columns, fitted, folded, paragraph};
pub use lab::{lab_check, lab_list};
pub use machine::{
    binding, card_diagnosis, function, functions, in_the_way, machine_diagnosis, payload_sizes,
    reload, test_step,
};
pub use topology::topology;

/// Facts of a run that its outcome does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes<'a> {
    /// Modes of transfers or requests, in words.
    pub modes: &'a str,
    /// Whether the counters of engines are shown, which explain runs on cards.
    pub has_counters: bool,
    /// Names of a sweep's parameters, in their order.
    pub parameters: &'a [String],
    /// Lines about a single run, behind its row.
    pub details: &'a str,
}

/// Formats an outcome as text; empty for reproductions, whose text is more than their rows.
pub fn text(outcome: &Outcome, notes: Notes<'_>, columns: Columns) -> String {
    match outcome {
        Outcome::Bench(bench) => match detail(bench) {
            Some(Detail::Traffic(_)) => flows::traffic(bench, notes, columns),
            Some(Detail::Stores(_)) => rows::stores(bench, notes, columns),
            Some(Detail::Gets(_)) => network::gets(bench, columns),
            Some(Detail::Exchange(_)) => network::exchanges(bench, columns),
            _ => flows::transfers(bench, notes, columns),
        },
        Outcome::Overhead(run) => rows::overhead(run, columns),
        Outcome::Sweep(run) => rows::sweep(run, notes.parameters, columns),
        Outcome::Bridge(run) => bridge::bridge(run, columns),
        _ => String::new(),
    }
}

/// Returns the detail of the first flow, which tells the kind of a benchmark.
fn detail(bench: &Bench) -> Option<&Detail> {
    bench.flows().map(|flow| &flow.detail).next()
}
