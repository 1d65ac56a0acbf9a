// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HOST -> FPGA 1 -> ... -> FPGA 8 -> HOST (Fig. 6), compared in host memory.

use crosslane_experiment::parallel;
use crosslane_experiment::{Measured, chain};
use crosslane_report::{Plot, Table};

use super::scene::{Engine, Scene};
use crate::comparison::Row;
use crate::error::Result;
use crate::experiment::{Experiment, mebibytes};
use crate::plots::{names, ours, published, rates};

/// Boards in the chain.
const DEVICES: u32 = 8;
const CONDITIONS: &str = "HOST to 8 FPGAs to HOST";

fn measure(scene: &Scene<'_>, engine: Engine) -> Result<Measured> {
    let options = scene.registered(engine);
    scene.run(engine, "chain of 8 FPGAs", async |host| {
        let mut devices = Vec::new();
        for number in 1..=DEVICES {
            devices.push(host.open(number).await?);
        }
        chain(&devices, &options).await
    })
}

fn compared(scene: &Scene<'_>, measured: &Measured) -> Row {
    let rate = mebibytes(measured.hardware_bytes_per_second());
    scene.figures().compare("chain_rate", CONDITIONS, rate)
}

/// Returns the rows with a published figure, with the paper's engine alone.
pub(super) fn published_rows(scene: &Scene<'_>) -> Result<Vec<Row>> {
    Ok(vec![compared(scene, &measure(scene, Engine::Paper)?)])
}

/// Plots Fig. 6: the rate along the chain.
fn plot(scene: &Scene<'_>, results: &[Measured]) -> Plot {
    let line = |rate: fn(&Measured) -> f64| {
        let rates = results.iter().map(move |measured| mebibytes(rate(measured)));
        (0_u32..).map(f64::from).zip(rates).collect::<Vec<_>>()
    };
    let value = scene.figures().value("chain_rate", CONDITIONS);
    let series = vec![
        ours("timers", line(Measured::hardware_bytes_per_second)),
        ours("application", line(Measured::application_bytes_per_second)),
        published("timers", [(0.0, value)]),
    ];
    let x = names("whose engine", Engine::ALL.map(Engine::words));
    rates("Host memory through 8 FPGAs to host memory (Fig. 6)", x, series)
}

/// Runs the chain with both engines.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let results: Vec<Measured> = parallel::try_map(&Engine::ALL, |engine| measure(scene, *engine))?;
    let mut table = Table::headed("engine | timers MiB/s: | application MiB/s: | wrong words:");
    let mut rows = Vec::new();
    for (engine, measured) in Engine::ALL.into_iter().zip(&results) {
        let timers = mebibytes(measured.hardware_bytes_per_second());
        let application = mebibytes(measured.application_bytes_per_second());
        table.row([
            engine.words().to_owned(),
            format!("{timers:.1}"),
            format!("{application:.1}"),
            measured.data_errors.words.to_string(),
        ]);
        let conditions = format!("{CONDITIONS}{}", engine.condition());
        match engine {
            Engine::Paper => rows.push(compared(scene, measured)),
            Engine::Own => rows.push(Row::simulated("chain_rate", &conditions, "MiB/s", timers)),
        }
        rows.push(Row::simulated("chain_rate_application", &conditions, "MiB/s", application));
    }
    Ok(Experiment {
        title: "HOST -> fpga1 -> ... -> fpga8 -> HOST, 4 MiB (Fig. 6)",
        tables: vec![table],
        plots: vec![plot(scene, &results)],
        rows,
        ..Experiment::default()
    })
}
