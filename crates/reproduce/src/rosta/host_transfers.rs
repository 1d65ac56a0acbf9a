// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's two checks of host transfers: 4 KiB to the card and back in turn, and 4 MiB with
//! both directions at once through FIFOs of 4 KiB.

use crosslane_experiment::parallel;
use crosslane_experiment::{Loopback, Measured, loopback};
use crosslane_report::Table;

use super::scene::{Engine, Scene};
use crate::comparison::Row;
use crate::error::Result;
use crate::experiment::{Experiment, mebibytes};

/// Bytes of one transfer of the first check: the size of the card's FIFOs.
const IN_TURN_BYTES: u64 = 4096;

/// Returns the name and the parameters of each check.
fn checks(scene: &Scene<'_>) -> [(&'static str, Loopback, u64); 2] {
    [
        ("written, then read back", Loopback::InTurn, IN_TURN_BYTES),
        ("both directions at once", Loopback::AtOnce, scene.transfer_bytes),
    ]
}

fn measure(
    scene: &Scene<'_>,
    engine: Engine,
    (name, order, size_bytes): (&str, Loopback, u64),
) -> Result<Measured> {
    let options = scene.registered(engine).with_size_bytes(size_bytes);
    scene.run(engine, &format!("host transfers, {name}"), async |host| {
        loopback(&host.open(1).await?, order, &options).await
    })
}

/// Runs both checks with both engines.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let checks = checks(scene);
    let scenarios: Vec<_> =
        Engine::ALL.iter().flat_map(|engine| checks.map(|check| (*engine, check))).collect();
    let results: Vec<Measured> =
        parallel::try_map(&scenarios, |(engine, check)| measure(scene, *engine, *check))?;
    let mut table = Table::headed("check | engine | bytes: | us: | MiB/s: | wrong words:");
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
        let conditions = format!("{name}; {bytes} B{}", engine.condition());
        let wrong = measured.data_errors.words as f64;
        rows.push(Row::simulated("loopback_wrong_words", &conditions, "words", wrong));
        rows.push(Row::simulated("loopback_rate", &conditions, "MiB/s", rate));
    }
    Ok(Experiment {
        title: "Host memory to fpga1 and back, compared",
        tables: vec![table],
        rows,
        ..Experiment::default()
    })
}
