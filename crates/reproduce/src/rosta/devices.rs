// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes to and reads from host memory by one to eight FPGAs at once (Figs 4, 5).
//!
//! Boards take turns: fpga1, 5, 2, 6, 3, 7, 4, 8. From three devices on, the shared link is then
//! the one that the paper names, x8 Gen2 at the host, and not one board's cable, which carries
//! about as much. Each device has a thread; threads are assigned to the cores in order.

use crosslane_experiment::parallel;
use crosslane_experiment::{Flow, Together, Verified, Workload, together};
use crosslane_pcie::ceiling::{read_ceiling_bytes_per_second, write_ceiling_bytes_per_second};
use crosslane_report::{Plot, Table};
use strum::Display;

use super::limits::gen2;
use super::scene::{Engine, PortObserver, Scene};
use crate::comparison::{Kind, Row};
use crate::error::Result;
use crate::experiment::{Experiment, mebibytes};
use crate::plots::{ceiling, counts, ours, published, rates};

/// Order in which devices join in, by number.
pub(super) const ORDER: [u32; 8] = [1, 5, 2, 6, 3, 7, 4, 8];
/// Lower end of the shared link.
const SHARED: &str = "rha25.up";
/// Header of a write below 4 GiB, double words.
const HEADER_DW: u32 = 3;

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Direction {
    Write,
    Read,
}

/// Measurements of several devices at once.
pub(super) struct Shares {
    together: Together,
    /// Bytes of each device while all were active.
    device_bytes: Vec<u64>,
}

impl Shares {
    fn count(&self) -> f64 {
        self.together.flows.len() as f64
    }

    fn hardware_average(&self) -> f64 {
        mebibytes(self.together.hardware_sum() / self.count())
    }

    fn application_average(&self) -> f64 {
        mebibytes(self.together.application_sum() / self.count())
    }

    /// Returns the throughput of the shared channel while all were active.
    fn channel(&self) -> f64 {
        self.together.common.map_or(0.0, |common| mebibytes(common.bytes_per_second))
    }

    /// Returns the largest less the smallest share of devices with symmetric paths (those of one
    /// board), over their average; the worse of the boards.
    pub(super) fn spread_of_flows(&self) -> f64 {
        let board = |first: usize| self.device_bytes.iter().skip(first).step_by(2).copied();
        [0, 1].map(|first| spread(board(first))).into_iter().fold(0.0, f64::max)
    }

    /// Returns the same between the two ingress ports of the adapter's switch.
    pub(super) fn spread_of_ports(&self) -> f64 {
        spread([0, 1].map(|first| self.device_bytes.iter().skip(first).step_by(2).sum()))
    }
}

impl Verified for Shares {
    fn wrong_words(&self) -> u64 {
        self.together.wrong_words()
    }
}

fn spread(bytes: impl IntoIterator<Item = u64>) -> f64 {
    let bytes: Vec<u64> = bytes.into_iter().collect();
    let (Some(least), Some(most)) = (bytes.iter().min(), bytes.iter().max()) else { return 0.0 };
    let average = bytes.iter().sum::<u64>() as f64 / bytes.len() as f64;
    if average == 0.0 { 0.0 } else { (most - least) as f64 / average }
}

/// Runs the first `count` devices at once.
pub(super) fn measure(
    scene: &Scene<'_>,
    engine: Engine,
    direction: Direction,
    count: usize,
) -> Result<Shares> {
    let options = scene.options(engine);
    let name = format!("{count} devices {direction} at once");
    scene.run(engine, &name, async |host| {
        let mut flows = Vec::new();
        for (core, number) in (0..).zip(&ORDER[..count]) {
            let device = host.open(*number).await?;
            let workload = match direction {
                Direction::Write => Workload::Write(options),
                Direction::Read => Workload::Read(options),
            };
            flows.push(Flow { workload, devices: vec![device], core });
        }
        let observer = PortObserver::new(&host, SHARED, direction, &ORDER[..count]);
        let together = together(&flows, &observer).await?;
        let device_bytes = observer.device_bytes(together.common);
        Ok(Shares { together, device_bytes })
    })
}

/// Compares a figure of the paper, which covers several numbers of devices, with the measurement of
/// one number. A constant can be fitted only to the first of them.
fn published_row(
    scene: &Scene<'_>,
    (quantity, all_conditions): (&str, &str),
    direction: Direction,
    count: usize,
    value: f64,
) -> Row {
    let row = scene.figures().compare(quantity, all_conditions, value);
    if matches!((direction, count), (Direction::Write, 2) | (Direction::Read, 1)) {
        return Row { conditions: conditions(direction, count), ..row };
    }
    Row {
        conditions: conditions(direction, count),
        kind: if row.kind == Kind::Fit { Kind::Predicted } else { row.kind },
        label: format!("{} of {count}", row.label),
        devices: Some(count),
        ..row
    }
}

fn conditions(direction: Direction, count: usize) -> String {
    let devices = if count == 1 { "device" } else { "devices" };
    match direction {
        Direction::Write => format!("{count} {devices}; 4 MiB; MPS 128"),
        Direction::Read => format!("{count} {devices}; 4 MiB"),
    }
}

fn rows_of(
    scene: &Scene<'_>,
    engine: Engine,
    direction: Direction,
    count: usize,
    shares: &Shares,
) -> Vec<Row> {
    let word = direction.to_string();
    let published = match (engine, direction, count) {
        (Engine::Own, ..) => None,
        (_, Direction::Write, 2) => {
            Some(("ram_write_rate_per_device", "2 devices; 4 MiB; MPS 128"))
        }
        (_, Direction::Write, 3..) => {
            Some(("ram_write_channel_rate", "3 to 8 devices; 4 MiB; MPS 128"))
        }
        (_, Direction::Read, 1..=3) => Some(("ram_read_rate_per_device", "1 to 3 devices; 4 MiB")),
        (_, Direction::Read, 4..) => Some(("ram_read_channel_rate", "4 to 8 devices; 4 MiB")),
        _ => None,
    };
    let own_conditions = format!("{}{}", conditions(direction, count), engine.condition());
    let together = &shares.together;
    let rates = [
        ("rate_per_device", shares.hardware_average()),
        ("channel_rate", shares.channel()),
        ("rate_per_device_application", shares.application_average()),
        ("rate_sum", mebibytes(together.hardware_sum())),
        ("rate_sum_application", mebibytes(together.application_sum())),
    ];
    let rate = |(quantity, value)| {
        let quantity = format!("ram_{word}_{quantity}");
        match published {
            Some((of, under)) if of == quantity => {
                published_row(scene, (of, under), direction, count, value)
            }
            _ => Row::simulated(quantity, &own_conditions, "MiB/s", value),
        }
    };
    let mut rows = Vec::from(rates.map(rate));
    if count == ORDER.len() {
        let spreads = [
            ("spread_of_flows", shares.spread_of_flows()),
            ("spread_of_ports", shares.spread_of_ports()),
        ];
        let row = |(quantity, value)| {
            Row::simulated(format!("ram_{word}_{quantity}"), &own_conditions, "1", value)
        };
        rows.extend(spreads.map(row));
    }
    rows
}

/// Returns the rows with a published figure, with the paper's engine alone: the fewest and the most
/// devices of each figure.
pub(super) fn published_rows(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (direction, count) in [
        (Direction::Write, 2),
        (Direction::Write, 3),
        (Direction::Write, 8),
        (Direction::Read, 1),
        (Direction::Read, 2),
        (Direction::Read, 3),
    ] {
        let shares = measure(scene, Engine::Paper, direction, count)?;
        let all = rows_of(scene, Engine::Paper, direction, count, &shares);
        rows.extend(all.into_iter().filter(Row::is_compared));
    }
    Ok(rows)
}

/// Runs one direction with both engines.
pub(super) fn run(scene: &Scene<'_>, direction: Direction) -> Result<Experiment> {
    let scenarios: Vec<_> =
        (1..=ORDER.len()).flat_map(|count| Engine::ALL.map(|engine| (count, engine))).collect();
    let results: Vec<Shares> = parallel::try_map(&scenarios, |(count, engine)| {
        measure(scene, *engine, direction, *count)
    })?;
    let mut table = Table::headed(
        "devices: | timer each: | sum: | app. each: | sum: | channel: | our engine: each: | \
         sum: | channel: | wrong words:",
    );
    let mut rows = Vec::new();
    for (count, results) in (1..).zip(results.chunks(Engine::ALL.len())) {
        let [document, own] = results else { unreachable!("a result for each engine") };
        let cells = [
            document.hardware_average(),
            mebibytes(document.together.hardware_sum()),
            document.application_average(),
            mebibytes(document.together.application_sum()),
            document.channel(),
            own.hardware_average(),
            mebibytes(own.together.hardware_sum()),
            own.channel(),
        ];
        let wrong = document.wrong_words() + own.wrong_words();
        let mut row = vec![count.to_string()];
        row.extend(cells.map(|rate| format!("{rate:.0}")));
        row.push(wrong.to_string());
        table.row(row);
        for (engine, shares) in Engine::ALL.into_iter().zip(results) {
            rows.extend(rows_of(scene, engine, direction, count, shares));
        }
    }
    let spreads: Vec<f64> = results[results.len() - Engine::ALL.len()..]
        .iter()
        .flat_map(|shares| [shares.spread_of_flows(), shares.spread_of_ports()])
        .collect();
    Ok(Experiment {
        title: match direction {
            Direction::Write => "1 to 8 FPGAs write 4 MiB each to RAM, MiB/s (Fig. 4)",
            Direction::Read => "1 to 8 FPGAs read 4 MiB each from RAM, MiB/s (Fig. 5)",
        },
        text: vec![text(direction, spreads.into_iter().fold(0.0, f64::max))],
        tables: vec![table],
        plots: vec![plot(scene, direction, &results)],
        rows,
        ..Experiment::default()
    })
}

/// Plots Figs 4 and 5: each device's rate and the shared channel's, by the number of devices.
fn plot(scene: &Scene<'_>, direction: Direction, results: &[Shares]) -> Plot {
    let line = |engine: Engine, rate: fn(&Shares) -> f64| {
        let at = Engine::ALL.iter().position(|other| *other == engine).expect("one of them");
        let shares = results.iter().skip(at).step_by(Engine::ALL.len());
        (1_u32..).map(f64::from).zip(shares.map(rate)).collect::<Vec<_>>()
    };
    let all = || (1..=ORDER.len()).map(|count| count as f64);
    let payload = scene.completion_bytes;
    let (limit, title, points) = match direction {
        Direction::Write => {
            let each = ("ram_write_rate_per_device", "2 devices; 4 MiB; MPS 128", 2..=2);
            let channel = ("ram_write_channel_rate", "3 to 8 devices; 4 MiB; MPS 128", 3..=8);
            let limit = write_ceiling_bytes_per_second(gen2(8), HEADER_DW, payload);
            (limit, "1 to 8 FPGAs write to RAM (Fig. 4)", [("each", each), ("channel", channel)])
        }
        Direction::Read => {
            let each = ("ram_read_rate_per_device", "1 to 3 devices; 4 MiB", 1..=3);
            let channel = ("ram_read_channel_rate", "4 to 8 devices; 4 MiB", 4..=8);
            let limit = read_ceiling_bytes_per_second(gen2(8), payload);
            (limit, "1 to 8 FPGAs read from RAM (Fig. 5)", [("each", each), ("channel", channel)])
        }
    };
    let mut series = vec![
        ceiling("x8 Gen2 at the host", all().map(|count| (count, mebibytes(limit)))),
        ours("channel, paper's engine", line(Engine::Paper, Shares::channel)),
        ours("channel, our engine", line(Engine::Own, Shares::channel)),
        ours("each, paper's engine", line(Engine::Paper, Shares::hardware_average)),
        ours("each, our engine", line(Engine::Own, Shares::hardware_average)),
    ];
    for (name, (quantity, conditions, counts)) in points {
        let value = scene.figures().value(quantity, conditions);
        let name = format!("{name}, paper's engine");
        series.push(published(&name, counts.map(|count| (f64::from(count), value))));
    }
    rates(title, counts("FPGAs at once"), series)
}

fn text(direction: Direction, worst: f64) -> String {
    let order = ORDER.map(|number| number.to_string()).join(", ");
    let sums = match direction {
        Direction::Write => format!(
            "Devices join in the order {order}. They do not begin and end at once, so their sum \
             exceeds what the channel carries while all are active. "
        ),
        Direction::Read => String::new(),
    };
    format!("{sums}Shares of eight, by device and by board, are equal to {:.1} %.", 100.0 * worst)
}
