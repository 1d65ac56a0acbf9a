// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FPGA to FPGA (Table 3, Fig. 7): one to four transfers on a board, a ring over both boards
//! (8.1), each to the other board (8.2); with payloads of 128 B, the least that all ports
//! support, and of 256 B, set on the paths alone.

use crosslane_driver::DescriptorSource;
use crosslane_experiment::parallel;
use crosslane_experiment::{
    ExperimentError, Flow, Measured, Options, Together, Workload, peer_write, together,
};
use crosslane_pcie::ceiling::write_ceiling_bytes_per_second;
use crosslane_report::{Plot, Table};

use super::limits::gen2;
use super::scene::{Engine, Host, Scene};
use crate::comparison::Row;
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, mebibytes, paragraphs};
use crate::plots::{ceiling, names, ours, published, rates};

/// Max_Payload_Size of the two columns of Table 3, bytes: the enumerator's, and the most that
/// switches and FPGAs support.
const PAYLOADS_BYTES: [u32; 2] = [128, 256];
/// Header of a write below 4 GiB, double words.
const HEADER_DW: u32 = 3;

/// Transfers at once, by number of sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    name: &'static str,
    pub(super) pairs: &'static [(u32, u32)],
}

pub(super) const ONE: Case = Case { name: "1", pairs: &[(1, 2)] };
/// Each card of a board to the next: at 4, "in a circle".
const SAME_BOARD: [Case; 4] = [
    ONE,
    Case { name: "2", pairs: &[(1, 2), (3, 4)] },
    Case { name: "3", pairs: &[(1, 2), (3, 4), (2, 3)] },
    Case { name: "4", pairs: &[(1, 2), (3, 4), (2, 3), (4, 1)] },
];
pub(super) const RING: Case =
    Case { name: "8.1", pairs: &[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 1)] };
pub(super) const ACROSS: Case =
    Case { name: "8.2", pairs: &[(1, 5), (2, 6), (3, 7), (4, 8), (5, 1), (6, 2), (7, 3), (8, 4)] };

/// Returns the average rate of the transfers by the engines' timers, bytes per second.
fn average(together: &Together) -> f64 {
    together.hardware_sum() / together.flows.len() as f64
}

/// Returns options: the paper's circuit starts its transfers at the command port; ours posts to a
/// ring.
pub(super) fn options(scene: &Scene<'_>, engine: Engine) -> Options {
    let options = scene.registered(engine).with_credits(engine == Engine::Own);
    match engine {
        Engine::Paper => options.with_descriptors(DescriptorSource::CommandPort),
        Engine::Own => options,
    }
}

async fn set_payload(
    host: &Host<'_>,
    pairs: &[(u32, u32)],
    payload: u32,
) -> Result<(), crosslane_experiment::ExperimentError> {
    for (from, to) in pairs {
        host.set_payload_between(*from, *to, payload)?;
    }
    Ok(())
}

/// Runs the transfers of one case at once. With `dllps_free`, Ack and UpdateFC take no time.
pub(super) fn measure(
    scene: &Scene<'_>,
    engine: Engine,
    case: Case,
    payload: u32,
    dllps_free: bool,
) -> Result<Together> {
    let options = options(scene, engine);
    let name = format!("FPGA to FPGA, case {}, MPS {payload}", case.name);
    scene.run(engine, &name, async |host| {
        host.set_dllps_free(dllps_free);
        set_payload(&host, case.pairs, payload).await?;
        let mut flows = Vec::new();
        for (core, (from, to)) in (0..).zip(case.pairs) {
            let (from, to) = (host.open(*from).await?, host.open(*to).await?);
            flows.push(Flow { workload: Workload::Peer(options), devices: vec![from, to], core });
        }
        together(&flows, &crosslane_experiment::NoObserver).await
    })
}

/// Returns the average rate of case 8.1, MiB/s, with the DLLPs of all links or without their time.
///
/// # Errors
/// A lab that cannot be built, or a transfer that fails.
pub(super) fn ring_rate(scene: &Scene<'_>, dllps_free: bool) -> Result<f64> {
    let together = measure(scene, Engine::Paper, RING, PAYLOADS_BYTES[0], dllps_free)?;
    Ok(mebibytes(average(&together)))
}

/// Returns the paper's conditions for a case, if it gives a figure.
fn published_at(case: Case, payload: u32) -> Option<(&'static str, &'static str)> {
    match (case.name, payload) {
        ("1", 128) => Some(("p2p_write_rate", "1 transfer; same board; MPS 128")),
        ("1", 256) => Some(("p2p_write_rate", "1 transfer; same board; MPS 256")),
        ("8.1", 128) => Some(("p2p_write_rate_8_1", "ring over both boards; MPS 128")),
        ("8.2", 128) => {
            Some(("p2p_write_rate_8_2", "8 transfers, each to the other board; MPS 128"))
        }
        _ => None,
    }
}

fn row_of(scene: &Scene<'_>, engine: Engine, case: Case, payload: u32, rate: f64) -> Row {
    match (engine, published_at(case, payload)) {
        (Engine::Paper, Some((quantity, conditions))) => {
            scene.figures().compare(quantity, conditions, rate)
        }
        _ => {
            let conditions = format!("case {}; MPS {payload}{}", case.name, engine.condition());
            Row::simulated("p2p_write_rate", &conditions, "MiB/s", rate)
        }
    }
}

/// Returns the rows with a published figure, with the paper's engine alone.
pub(super) fn published_rows(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (case, payload) in [(ONE, 128), (ONE, 256), (ACROSS, 128)] {
        let together = measure(scene, Engine::Paper, case, payload, false)?;
        let rate = mebibytes(average(&together));
        rows.push(row_of(scene, Engine::Paper, case, payload, rate));
    }
    Ok(rows)
}

/// Sends a packet of 256 B over a path on which one port was left at 128 B; returns the error that
/// the sender's program gets.
///
/// # Errors
/// A run without an error, or with an error that does not name the port.
pub(super) fn oversized(scene: &Scene<'_>) -> Result<String> {
    const NAME: &str = "256 B through a port left at 128 B";
    let options = scene
        .options(Engine::Own)
        .with_payload_bytes(Some(PAYLOADS_BYTES[1]))
        .with_oversize(true)
        .with_size_bytes(4096)
        .with_timeout(super::scene::SHORT_TIMEOUT);
    let said = scene.run_to_errors(NAME, async |host| {
        set_payload(&host, ONE.pairs, PAYLOADS_BYTES[1]).await?;
        let (from, to) = (host.open(1).await?, host.open(2).await?);
        host.set_payload_of_port(PORT_LEFT_BEHIND, PAYLOADS_BYTES[0])?;
        Ok(peer_write(&from, &to, &options).await)
    })?;
    match said {
        Ok(_) => Err(ReproduceError::experiment(NAME, "it was not detected")),
        Err(ExperimentError::Transfer(error))
            if error.fault.detected().iter().any(|it| it.port == PORT_LEFT_BEHIND) =>
        {
            Ok(error.to_string())
        }
        Err(error) => Err(ReproduceError::experiment(NAME, error)),
    }
}

/// The port that the first packet of fpga1 reaches.
const PORT_LEFT_BEHIND: &str = "rc47a.down0";

/// Plots Fig. 7: average rates, case by case. `results` has four entries for each case: both
/// engines, each with both payloads.
fn plot(scene: &Scene<'_>, cases: &[Case], results: &[Together]) -> Plot {
    let mut series = Vec::new();
    for (column, payload) in PAYLOADS_BYTES.into_iter().enumerate() {
        let limit = mebibytes(write_ceiling_bytes_per_second(gen2(4), HEADER_DW, payload));
        let flat = (0..cases.len()).map(|case| (case as f64, limit));
        series.push(ceiling(format!("x4 Gen2, packets of {payload} B"), flat));
        for (first, words) in [(2, "our engine"), (0, "paper's engine")] {
            let all = results.iter().skip(first + column).step_by(4);
            let points = (0_u32..).map(f64::from).zip(all.map(|one| mebibytes(average(one))));
            series.push(ours(format!("{words}, MPS {payload}"), points));
        }
        let points: Vec<(f64, f64)> = (0_u32..)
            .zip(cases)
            .filter_map(|(at, case)| Some((at, published_at(*case, payload)?)))
            .map(|(at, (quantity, under))| (f64::from(at), scene.figures().value(quantity, under)))
            .collect();
        series.push(published(format!("paper's engine, MPS {payload}"), points));
    }
    let x = names("case", cases.iter().map(|case| case.name));
    rates("FPGA to FPGA, average of the transfers (Table 3, Fig. 7)", x, series)
}

/// Runs all cases with both engines.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let mut cases = SAME_BOARD.to_vec();
    cases.extend([RING, ACROSS]);
    let mut scenarios = Vec::new();
    for case in &cases {
        for engine in Engine::ALL {
            scenarios.extend(PAYLOADS_BYTES.map(|payload| (*case, engine, payload)));
        }
    }
    let results: Vec<Together> = parallel::try_map(&scenarios, |(case, engine, payload)| {
        measure(scene, *engine, *case, *payload, false)
    })?;
    let mut table = Table::headed(
        "case | transfers: | MPS 128: | MPS 256: | our engine: MPS 128: | MPS 256: | \
         wrong words:",
    );
    let mut rows = Vec::new();
    for (case, results) in cases.iter().zip(results.chunks(4)) {
        let rates: Vec<f64> = results.iter().map(|result| mebibytes(average(result))).collect();
        let flows = results.iter().flat_map(|result| &result.flows);
        let wrong: u64 = flows.map(|flow: &Measured| flow.data_errors.words).sum();
        let mut cells = vec![case.name.to_owned(), case.pairs.len().to_string()];
        cells.extend(rates.iter().map(|rate| format!("{rate:.1}")));
        cells.push(wrong.to_string());
        table.row(cells);
    }
    for ((case, engine, payload), result) in scenarios.iter().zip(&results) {
        let rate = mebibytes(average(result));
        rows.push(row_of(scene, *engine, *case, *payload, rate));
    }
    let free = ring_rate(scene, true)?;
    rows.push(Row::simulated(
        "p2p_write_rate_8_1",
        "ring over both boards; MPS 128; DLLPs take no time",
        "MiB/s",
        free,
    ));
    Ok(Experiment {
        title: "FPGA to FPGA, average rate of the transfers, MiB/s (Table 3, Fig. 7)",
        text: paragraphs([
            &format!(
                "8.1 without the DLLPs of opposing traffic: {free:.1} MiB/s. They are its loss."
            ),
            &format!("256 B through a port left at 128 B: {}", oversized(scene)?),
        ]),
        tables: vec![table],
        plots: vec![plot(scene, &cases, &results)],
        rows,
        ..Experiment::default()
    })
}
