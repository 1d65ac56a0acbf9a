// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Write rate to host memory by the payload of a packet (Fig. 3), with the descriptor table that
//! the processor stores into the engine, and with the ring in host memory that the paper only
//! planned; and an account of the time.

use crosslane_experiment::parallel;
use crosslane_experiment::{Measured, Options, write};
use crosslane_report::{Plot, Table};
use strum::Display;

use super::limits::{gen2, limit_with_skp};
use super::scene::{Engine, Scene};
use crate::comparison::Row;
use crate::error::Result;
use crate::experiment::{Experiment, mebibytes};
use crate::plots::{ceiling, ours, payloads, published, rates};

/// Payloads of Fig. 3, bytes.
const PAYLOADS_BYTES: [u32; 5] = [8, 16, 32, 64, 128];
/// The smallest of these payloads, bytes.
pub(super) const SMALLEST_BYTES: u32 = PAYLOADS_BYTES[0];
/// Header of a write below 4 GiB, bytes.
const HEADER_BYTES: u32 = 12;
/// Payload of the published rates, bytes.
const PUBLISHED_BYTES: u32 = 128;

/// The location of the descriptors, and the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
enum Way {
    #[strum(to_string = "descriptor table")]
    Table,
    #[strum(to_string = "descriptor ring")]
    Ring,
    #[strum(to_string = "our engine")]
    Own,
}

impl Way {
    const ALL: [Self; 3] = [Self::Table, Self::Ring, Self::Own];
}

fn measure(scene: &Scene<'_>, way: Way, payload: u32) -> Result<Measured> {
    let engine = if way == Way::Own { Engine::Own } else { Engine::Paper };
    let mut options = scene.options(engine).with_payload_bytes(Some(payload));
    if way == Way::Ring {
        options.descriptors = Options::default().descriptors;
    }
    let name = format!("write to RAM, payload {payload} B, {way}");
    scene.run(engine, &name, async |host| write(&host.open(1).await?, &options).await)
}

/// Returns the rows of one device, 4 MiB, MPS 128, with the table: the base of the other rates.
pub(super) fn one_device(scene: &Scene<'_>) -> Result<Vec<Row>> {
    Ok(compared(scene, &measure(scene, Way::Table, PUBLISHED_BYTES)?))
}

fn compared(scene: &Scene<'_>, measured: &Measured) -> Vec<Row> {
    let hardware = measured.hardware_bytes_per_second();
    let application = measured.application_bytes_per_second();
    let total_ms = measured.ended.since(measured.started).as_seconds() * 1e3;
    let moving_ms = measured.bytes as f64 / hardware * 1e3;
    [
        ("ram_write_rate_hardware", "1 device; 4 MiB; MPS 128", mebibytes(hardware)),
        (
            "ram_write_rate_application",
            "1 device; 4 MiB; MPS 128; descriptor table",
            mebibytes(application),
        ),
        ("ram_write_setup_time", "4 MiB; about 1000 descriptors", total_ms - moving_ms),
        ("ram_write_total_time", "4 MiB", total_ms),
    ]
    .map(|(quantity, conditions, value)| scene.figures().compare(quantity, conditions, value))
    .into()
}

/// The parts of a packet's time, in clocks of the engine.
struct Clocks {
    all: f64,
    bytes: f64,
    idle: f64,
    held_back: f64,
}

impl Clocks {
    fn of(scene: &Scene<'_>, measured: &Measured, payload: u32) -> Self {
        let counters = &measured.channels[0];
        let tlps = f64::from(counters.tlps.max(1));
        Self {
            all: (counters.last_clocks - counters.first_clocks) as f64 / tlps,
            bytes: f64::from((HEADER_BYTES + payload).div_ceil(scene.datapath_bytes)),
            idle: f64::from(scene.idle_clocks),
            held_back: f64::from(counters.link_clocks) / tlps,
        }
    }

    /// Returns the rest: the gap after each descriptor, divided among its packets.
    fn gap(&self) -> f64 {
        self.all - self.bytes - self.idle - self.held_back
    }
}

/// Runs the sweep.
pub(super) fn run(scene: &Scene<'_>) -> Result<Experiment> {
    let scenarios: Vec<_> =
        PAYLOADS_BYTES.iter().flat_map(|payload| Way::ALL.map(|way| (*payload, way))).collect();
    let results: Vec<Measured> =
        parallel::try_map(&scenarios, |(payload, way)| measure(scene, *way, *payload))?;
    let mut rate_table = Table::headed(
        "payload B: | theory: | table: timer: | app.: | ring: timer: | app.: | \
         our engine: timer: | app.:",
    );
    let mut losses = Table::headed(
        "payload B: | clocks a packet: | its bytes: | idle clock: | gap: | held back by memory:",
    );
    let mut rows = Vec::new();
    for (payload, results) in PAYLOADS_BYTES.iter().zip(results.chunks(Way::ALL.len())) {
        let theory = mebibytes(limit_with_skp(gen2(4), *payload));
        let mut cells = vec![payload.to_string(), format!("{theory:.0}")];
        for (way, measured) in Way::ALL.into_iter().zip(results) {
            let timer = mebibytes(measured.hardware_bytes_per_second());
            let application = mebibytes(measured.application_bytes_per_second());
            cells.extend([timer, application].map(|rate| format!("{rate:.0}")));
            let is_published = (way, *payload) == (Way::Table, PUBLISHED_BYTES);
            if is_published {
                rows.extend(compared(scene, measured));
            } else {
                let conditions = format!("1 device; 4 MiB; MPS {payload}; {way}");
                rows.push(Row::simulated("ram_write_rate_hardware", &conditions, "MiB/s", timer));
                rows.push(Row::simulated(
                    "ram_write_rate_application", &conditions, "MiB/s", application,
                ));
            }
        }
        rate_table.row(cells);
        losses.row(loss_cells(&Clocks::of(scene, &results[0], *payload), *payload));
    }
    let plot = plot(scene, &results);
    Ok(Experiment {
        title: "fpga1 writes 4 MiB to RAM, MiB/s, by payload (Fig. 3)",
        text: vec![loss_text(scene)],
        tables: vec![rate_table, losses],
        plots: vec![plot],
        rows,
        ..Experiment::default()
    })
}

/// Plots Fig. 3: rates by payload.
fn plot(scene: &Scene<'_>, results: &[Measured]) -> Plot {
    let line = |way: Way, rate: fn(&Measured) -> f64| {
        let at = Way::ALL.iter().position(|other| *other == way).expect("it is one of them");
        let measured = results.iter().skip(at).step_by(Way::ALL.len());
        let rates = measured.map(|measured| mebibytes(rate(measured)));
        PAYLOADS_BYTES.map(f64::from).into_iter().zip(rates).collect::<Vec<_>>()
    };
    let timer: fn(&Measured) -> f64 = Measured::hardware_bytes_per_second;
    let application: fn(&Measured) -> f64 = Measured::application_bytes_per_second;
    let theory =
        PAYLOADS_BYTES.map(|bytes| (f64::from(bytes), mebibytes(limit_with_skp(gen2(4), bytes))));
    let of_paper = |quantity, conditions| {
        [(f64::from(PUBLISHED_BYTES), scene.figures().value(quantity, conditions))]
    };
    let by_timer = of_paper("ram_write_rate_hardware", "1 device; 4 MiB; MPS 128");
    let by_application =
        of_paper("ram_write_rate_application", "1 device; 4 MiB; MPS 128; descriptor table");
    let series = vec![
        ceiling("the paper's formula", theory),
        ours("our engine, timer", line(Way::Own, timer)),
        ours("paper's engine, table, timer", line(Way::Table, timer)),
        ours("paper's engine, ring, application", line(Way::Ring, application)),
        ours("paper's engine, table, application", line(Way::Table, application)),
        published("paper's engine, table, timer", by_timer),
        published("paper's engine, table, application", by_application),
    ];
    rates("fpga1 writes 4 MiB to RAM (Fig. 3)", payloads(), series)
}

fn loss_cells(clocks: &Clocks, payload: u32) -> Vec<String> {
    let parts = [clocks.all, clocks.bytes, clocks.idle, clocks.gap(), clocks.held_back];
    let mut cells = vec![payload.to_string()];
    cells.extend(parts.map(|part| format!("{part:.2}")));
    cells
}

fn loss_text(scene: &Scene<'_>) -> String {
    format!(
        "Where the time goes, in clocks of 4 ns (table; with the ring it is the same); the gap is \
         shared out over a page. Host memory takes {} ns more for each write of less than a line \
         of 64 B.",
        scene.partial_line_ns
    )
}
