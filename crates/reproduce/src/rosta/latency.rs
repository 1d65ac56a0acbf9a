// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One-way latency by ping-pong, over one switch and over three (Fig. 8).

use crosslane_experiment::parallel;
use crosslane_experiment::{Options, RoundTrips, latency};
use crosslane_report::{Axis, Plot, Scale, Table};

use super::scene::{Engine, Scene};
use crate::comparison::Row;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::plots::{counts, ours, published};

/// Switches on the path, and the far end of a ping-pong that fpga1 begins.
pub(super) const WAYS: [(u32, u32); 2] = [(1, 2), (3, 5)];
/// Bytes of a message: one packet, since the paper's timer stops at the first data.
const MESSAGE_BYTES: u64 = 128;
/// Round trips; all but the first start from the same state.
const ROUNDS: u64 = 100;

/// Returns the options of the ping-pong.
pub(super) fn options(engine: Engine) -> Options {
    Options::ping_pong()
        .with_size_bytes(MESSAGE_BYTES)
        .with_iterations(ROUNDS)
        .with_credits(engine == Engine::Own)
}

fn measure(scene: &Scene<'_>, engine: Engine, (switches, far): (u32, u32)) -> Result<RoundTrips> {
    let options = options(engine);
    scene.run(engine, &format!("latency, {switches} switches"), async |host| {
        latency(&host.open(1).await?, &host.open(far).await?, &options).await
    })
}

/// Returns half of the typical round trip, ns.
fn one_way_ns(trips: &RoundTrips) -> f64 {
    let mut trips_ps: Vec<u64> = trips.round_trips.iter().map(|time| time.0).collect();
    trips_ps.sort_unstable();
    trips_ps[trips_ps.len() / 2] as f64 / 2e3
}

fn conditions(switches: u32) -> String {
    format!("{switches} switch{}; one way", if switches == 1 { "" } else { "es" })
}

/// Compares both latencies of the paper's engine, and the values that the paper derives from them.
fn compared(scene: &Scene<'_>, one: f64, three: f64) -> Vec<Row> {
    let switch = (three - one) / 2.0;
    let figures = [
        ("p2p_latency", conditions(1), one),
        ("p2p_latency", conditions(3), three),
        ("switch_latency", "derived".to_owned(), switch),
        ("fpga_latency", "receive or transmit; derived".to_owned(), (one - switch) / 2.0),
    ];
    let row = |(quantity, conditions, value): &(&str, String, f64)| {
        scene.figures().compare(quantity, conditions, *value)
    };
    figures.iter().map(row).collect()
}

/// Returns the rows with a published figure, with the paper's engine alone.
pub(super) fn published_rows(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let [one, three] = WAYS.map(|way| measure(scene, Engine::Paper, way));
    Ok(compared(scene, one_way_ns(&one?), one_way_ns(&three?)))
}

/// Plots Fig. 8: one-way latency by the number of switches.
fn plot(scene: &Scene<'_>, results: &[RoundTrips]) -> Plot {
    let (theirs, our) = results.split_at(WAYS.len());
    let line = |trips: &[RoundTrips]| {
        let switches = WAYS.map(|(switches, _)| f64::from(switches));
        switches.into_iter().zip(trips.iter().map(one_way_ns)).collect::<Vec<_>>()
    };
    let value = |switches| scene.figures().value("p2p_latency", &conditions(switches));
    let of_paper = WAYS.map(|(switches, _)| (f64::from(switches), value(switches)));
    Plot {
        title: "One-way latency of 128 B (Fig. 8)".to_owned(),
        x: counts("switches on the way"),
        y: Axis::new("one way", "ns", Scale::Linear),
        series: vec![
            ours("paper's engine", line(theirs)),
            ours("our engine", line(our)),
            published("paper's engine", of_paper),
        ],
    }
}

/// Runs both paths with both engines.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let scenarios: Vec<_> =
        Engine::ALL.iter().flat_map(|engine| WAYS.map(|way| (*engine, way))).collect();
    let results: Vec<RoundTrips> =
        parallel::try_map(&scenarios, |(engine, way)| measure(scene, *engine, *way))?;
    let mut table = Table::headed(
        "switches: | from, to | round trips: | one way ns: | longest: | our engine: ns: | \
         longest: | wrong words:",
    );
    let (theirs, ours) = results.split_at(WAYS.len());
    let mut rows = compared(scene, one_way_ns(&theirs[0]), one_way_ns(&theirs[1]));
    for (((switches, far), theirs), ours) in WAYS.iter().zip(theirs).zip(ours) {
        let longest = |trips: &RoundTrips| {
            let longest = trips.round_trips.iter().map(|time| time.0).max();
            format!("{:.0}", longest.unwrap_or(0) as f64 / 2e3)
        };
        table.row([
            switches.to_string(),
            format!("fpga1, fpga{far}"),
            theirs.round_trips.len().to_string(),
            format!("{:.0}", one_way_ns(theirs)),
            longest(theirs),
            format!("{:.0}", one_way_ns(ours)),
            longest(ours),
            (theirs.data_errors.words + ours.data_errors.words).to_string(),
        ]);
        let conditions = format!("{}{}", conditions(*switches), Engine::Own.condition());
        rows.push(Row::simulated("p2p_latency", &conditions, "ns", one_way_ns(ours)));
    }
    Ok(Experiment {
        title: "One-way latency by ping-pong of 128 B (Fig. 8)",
        tables: vec![table],
        plots: vec![plot(scene, &results)],
        rows,
        ..Experiment::default()
    })
}
