// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single accesses and transfers, and sweeps.

use crosslane_results::{Overhead, OverheadRow, Sweep};

use super::Columns;
use crate::runs::rows_page::{OVERHEAD, sweep_table};
use crate::table::{Field, Table};

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

/// Formats a sweep with its parameters in this order.
pub fn sweep(run: &Sweep, parameters: &[String], columns: Columns) -> String {
    let names: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let spare = ["MiB/s", "wrong words", "us"];
    sweep_table(run, &names, true).least_first(&spare).to_text(columns.tables)
}
