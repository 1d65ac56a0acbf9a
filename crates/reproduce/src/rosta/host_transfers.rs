// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's two checks of host transfers: 4 KiB to the card and back in turn, and 4 MiB with
//! both directions at once through FIFOs of 4 KiB.

use crosslane_bench::{Loopback, Measured, Options, loopback};
use crosslane_explain::size_words;
use rayon::prelude::*;

use super::published::shown;
use super::scene::{Context, Engine};
use crate::error::ReproduceError;
use crate::experiment::{Experiment, mebibytes};
use crate::table::{Align, Table};

/// One transfer of the first check: what the card's FIFOs hold.
const IN_TURN_BYTES: u64 = 4096;

/// Each check's name and how it is run.
fn checks(context: &Context<'_>) -> [(&'static str, Loopback, u64); 2] {
    [
        ("written, then read back", Loopback::InTurn, IN_TURN_BYTES),
        ("both directions at once", Loopback::AtOnce, context.transfer_bytes),
    ]
}

fn measure(
    context: &Context<'_>,
    engine: Engine,
    (name, order, size_bytes): (&str, Loopback, u64),
) -> Result<Measured, ReproduceError> {
    let options = Options { size_bytes, ..context.registered(engine) };
    let run = context.run(engine, &format!("host transfers, {name}"), async |host| {
        loopback(&host.open(1).await?, order, &options).await
    })?;
    Ok(run.value)
}

/// Both checks with both engines.
pub(super) fn run(context: &Context<'_>) -> Result<Experiment, ReproduceError> {
    let checks = checks(context);
    let scenarios: Vec<_> =
        Engine::ALL.iter().flat_map(|engine| checks.map(|check| (*engine, check))).collect();
    let results: Vec<Measured> = scenarios
        .par_iter()
        .map(|(engine, check)| measure(context, *engine, *check))
        .collect::<Result<_, _>>()?;
    let mut table = Table::new(&[
        ("check", Align::Left),
        ("engine", Align::Left),
        ("bytes", Align::Right),
        ("us", Align::Right),
        ("MiB/s", Align::Right),
        ("wrong words", Align::Right),
    ]);
    let mut rows = Vec::new();
    for ((engine, (name, _, bytes)), measured) in scenarios.iter().zip(&results) {
        let rate = mebibytes(measured.application_bytes_per_second());
        table.row([
            (*name).to_owned(),
            engine.words().to_owned(),
            bytes.to_string(),
            format!("{:.1}", measured.ended.since(measured.started).0 as f64 / 1e6),
            format!("{rate:.1}"),
            measured.data_errors.words.to_string(),
        ]);
        let conditions = format!("{name}; {}{}", size_words(*bytes), engine.condition());
        let wrong = measured.data_errors.words as f64;
        rows.push(shown("loopback_wrong_words", &conditions, "words", wrong));
        rows.push(shown("loopback_rate", &conditions, "MiB/s", rate));
    }
    Ok(Experiment {
        title: "Host memory to fpga1 and back, compared",
        text: Vec::new(),
        tables: vec![table],
        plots: Vec::new(),
        why: Vec::new(),
        rows,
    })
}
