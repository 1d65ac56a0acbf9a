// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The goals of this project's own engine with its defaults, in the same system: shares of the
//! ceiling, time from post to first data, and cost of memory registration.

use crosslane_experiment::parallel;
use crosslane_experiment::{
    DataTlps, ExperimentError, LinkLoad, Measured, Options, least_ceiling, peer_write, read, write,
};
use crosslane_host::PageSize;
use crosslane_report::{Plot, Table};

use super::scene::{Engine, Host, Scene, SentOnLink};
use crate::comparison::Row;
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, mebibytes, paragraphs};
use crate::plots::{self, names, ours, rates};

/// Bytes of each of the small transfers.
const SMALL_BYTES: u64 = 4096;
/// Small transfers in flight: a full ring.
const SMALL_OUTSTANDING: u32 = 1024;
/// Header of a write below 4 GiB, and of a completion, double words.
const HEADER_DW: u32 = 3;
/// Longest time from post to first data TLP with registered buffers, us.
pub(super) const MAX_FIRST_TLP_US: f64 = 5.0;

/// A goal of the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Goal {
    name: &'static str,
    work: Work,
    shape: Shape,
    /// Least share of the ceiling, less the DLLPs of the run.
    least: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Write,
    Read,
    Peer,
}

/// Shape of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One transfer; in host memory, with huge pages.
    Whole,
    /// One transfer, in pages of 4 KiB.
    Pages,
    /// Transfers of 4 KiB; the ring is kept full.
    Full,
}

const GOALS: [Goal; 7] = [
    Goal { name: "write to RAM, 4 MiB", work: Work::Write, shape: Shape::Whole, least: 0.99 },
    Goal { name: "the same in 4 KiB pages", work: Work::Write, shape: Shape::Pages, least: 0.99 },
    Goal { name: "FPGA to FPGA, 4 MiB", work: Work::Peer, shape: Shape::Whole, least: 0.99 },
    Goal { name: "read from RAM, 4 MiB", work: Work::Read, shape: Shape::Whole, least: 0.98 },
    Goal { name: "write to RAM, 4 KiB each", work: Work::Write, shape: Shape::Full, least: 0.90 },
    Goal { name: "FPGA to FPGA, 4 KiB each", work: Work::Peer, shape: Shape::Full, least: 0.90 },
    Goal { name: "read from RAM, 4 KiB each", work: Work::Read, shape: Shape::Full, least: 0.90 },
];

async fn work(host: &Host<'_>, goal: Goal, options: &Options) -> Result<Measured, ExperimentError> {
    let device = host.open(1).await?;
    match goal.work {
        Work::Write => write(&device, options).await,
        Work::Read => read(&device, options).await,
        Work::Peer => peer_write(&device, &host.open(2).await?, options).await,
    }
}

/// Outcome of one goal.
struct Met {
    measured: Measured,
    ceiling: f64,
}

impl Met {
    fn rate(&self) -> f64 {
        self.measured.hardware_bytes_per_second()
    }

    fn share(&self) -> f64 {
        self.rate() / self.ceiling
    }
}

/// Returns options for small transfers that keep the ring full.
pub(super) fn small(scene: &Scene<'_>) -> Options {
    scene
        .options(Engine::Own)
        .with_size_bytes(SMALL_BYTES)
        .with_iterations(scene.transfer_bytes / SMALL_BYTES)
        .with_outstanding(SMALL_OUTSTANDING)
}

fn measure(scene: &Scene<'_>, goal: Goal) -> Result<Met> {
    let options = scene.options(Engine::Own);
    let options = match goal.shape {
        Shape::Whole => options,
        Shape::Pages => options.with_pages(PageSize::Small),
        Shape::Full => small(scene),
    };
    let (measured, links) = scene.run(Engine::Own, goal.name, async |host| {
        Ok((work(&host, goal, &options).await?, host.links()))
    })?;
    let ceiling = ceiling(&measured, &links, scene.completion_bytes, goal.work);
    let ceiling = ceiling.ok_or_else(|| {
        ReproduceError::experiment(goal.name, "no link of the lab is on the way of the data")
    })?;
    Ok(Met { measured, ceiling })
}

/// Returns the ceiling of the slowest link on the path of the data, less its DLLPs.
fn ceiling(
    measured: &Measured,
    links: &[SentOnLink],
    completion_bytes: u32,
    work: Work,
) -> Option<f64> {
    let span = measured.hardware.map(|time| time.last.since(time.first))?;
    let tlps = match work {
        Work::Read => measured.bytes.div_ceil(u64::from(completion_bytes)),
        Work::Write | Work::Peer => u64::from(measured.channels.first()?.tlps),
    };
    let data = DataTlps {
        tlps,
        data_bytes: measured.bytes,
        wire_payload_bytes: measured.bytes,
        header_dw: HEADER_DW,
    };
    let names: Vec<&str> = measured.plan.path.iter().map(|port| port.name.as_str()).collect();
    let on_way = links
        .iter()
        .filter(|link| names.windows(2).any(|ends| ends == [&link.from[..], &link.to[..]]));
    let loads = on_way.map(|link| LinkLoad {
        link: (),
        rate: link.rate,
        dllp_bytes: link.dllp_bytes,
        span,
    });
    Some(least_ceiling(loads, data)?.less_dllps_bytes_per_second)
}

/// Plots rates beside their ceilings.
fn plot(results: &[Met]) -> Plot {
    let line = |rate: fn(&Met) -> f64| {
        let rates = results.iter().map(move |met| mebibytes(rate(met)));
        (0_u32..).map(f64::from).zip(rates).collect::<Vec<_>>()
    };
    let series = vec![
        plots::ceiling("slowest link, less DLLPs", line(|met| met.ceiling)),
        ours("our engine", line(Met::rate)),
    ];
    let x = names("what", GOALS.iter().map(|goal| goal.name));
    rates("Our own engine beside the ceiling", x, series)
}

/// Runs the experiment.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let results: Vec<Met> = parallel::try_map(&GOALS, |goal| measure(scene, *goal))?;
    let mut table = Table::headed(
        "what | MiB/s: | ceiling: | of it %: | goal %: | first TLP us: | pinning us: | \
         wrong words:",
    );
    let mut rows = Vec::new();
    for (goal, met) in GOALS.iter().zip(&results) {
        let micros = |time: crosslane_pcie::units::Picoseconds| time.0 as f64 / 1e6;
        let first = met.measured.post_to_first_tlp.map(micros);
        let registration = met.measured.registration.map(micros);
        let text = |time: Option<f64>| time.map_or(String::new(), |time| format!("{time:.2}"));
        table.row([
            goal.name.to_owned(),
            format!("{:.1}", mebibytes(met.rate())),
            format!("{:.1}", mebibytes(met.ceiling)),
            format!("{:.2}", 100.0 * met.share()),
            format!("{:.0}", 100.0 * goal.least),
            text(first),
            text(registration),
            met.measured.data_errors.words.to_string(),
        ]);
        let conditions = format!("{}{}", goal.name, Engine::Own.condition());
        rows.push(Row::simulated("rate", &conditions, "MiB/s", mebibytes(met.rate())));
        rows.push(Row::simulated("share_of_ceiling", &conditions, "1", met.share()));
        let times = [("post_to_first_tlp", first), ("registration_time", registration)];
        for (quantity, time) in times {
            rows.extend(time.map(|time| Row::simulated(quantity, &conditions, "us", time)));
        }
    }
    Ok(Experiment {
        title: "Our own engine with its defaults, registered buffers",
        text: paragraphs([
            "Ceiling: the slowest link for packets of 128 B, less the DLLPs of the run. A write's \
             timer stops when the last packet is handed to the port, a few packets before it has \
             left, so that a share may be a few hundredths above 100 %. First TLP: from the first \
             post. Pinning (registration) is apart from all else.",
        ]),
        tables: vec![table],
        plots: vec![plot(&results)],
        rows,
        ..Experiment::default()
    })
}

/// Lists missed goals, a sentence each.
pub(super) fn missed(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    for goal in GOALS {
        let conditions = format!("{}{}", goal.name, Engine::Own.condition());
        let value = |quantity: &str| {
            let mut found = rows.iter().filter(|row| row.quantity == quantity);
            found.find(|row| row.conditions == conditions).and_then(|row| row.simulated)
        };
        let share = value("share_of_ceiling").unwrap_or(0.0);
        if share < goal.least {
            missed.push(format!("{}: {share:.4} of the ceiling, {} wanted", goal.name, goal.least));
        }
        // Posting a full ring takes longer than posting one transfer.
        let first = value("post_to_first_tlp").unwrap_or(f64::INFINITY);
        if goal.shape == Shape::Whole && first > MAX_FIRST_TLP_US {
            missed.push(format!("{}: {first:.2} us from post to first TLP", goal.name));
        }
    }
    missed
}
