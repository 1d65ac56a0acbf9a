// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table and its graph: 17 sizes in four modes; and the seconds that it has lost.

use crosslane_bench::MmioMeasured;
use crosslane_explain::size_words;
use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};
use rayon::prelude::*;

use super::Context;
use super::published::{MODES, Mode};
use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// What the document's program loses of a pass, each time: a second, over 100 passes.
const LOST_S: f64 = 0.01;

struct Measured {
    mode: Mode,
    size_bytes: u64,
    run: MmioMeasured,
}

impl Measured {
    fn seconds_of_a_pass(&self) -> f64 {
        self.run.elapsed.as_seconds() / self.run.options.passes as f64
    }
}

fn measure(
    context: &Context<'_>,
    wanted: impl Fn(Mode, u64) -> bool,
) -> Result<Vec<Measured>, ReproduceError> {
    let all = MODES.iter().flat_map(|mode| context.figures.sizes().map(|size| (*mode, size)));
    let mut scenarios: Vec<(Mode, u64)> = all.filter(|(mode, size)| wanted(*mode, *size)).collect();
    // The longest first, so that no core is idle at the end.
    scenarios.sort_by_key(|(mode, size)| (mode.combined, std::cmp::Reverse(*size)));
    let measured: Result<Vec<Measured>, ReproduceError> = scenarios
        .par_iter()
        .map(|&(mode, size_bytes)| {
            let run = context.measure(mode, size_bytes)?;
            Ok(Measured { mode, size_bytes, run })
        })
        .collect();
    let mut measured = measured?;
    let place = |mode: Mode| MODES.iter().position(|known| *known == mode);
    measured.sort_by_key(|one| (one.size_bytes, place(one.mode)));
    Ok(measured)
}

fn rows(context: &Context<'_>, measured: &[Measured]) -> Vec<Row> {
    let row = |one: &Measured| {
        context.figures.compare(one.mode, one.size_bytes, one.run.bytes_per_second())
    };
    measured.iter().map(row).collect()
}

/// The rows that are compared, of blocks of up to so many bytes.
pub(super) fn compared(context: &Context<'_>, most: u64) -> Result<Vec<Row>, ReproduceError> {
    let is_compared = |mode, size| context.figures.is_compared(mode, size);
    let measured = measure(context, |mode, size| size <= most && is_compared(mode, size))?;
    Ok(rows(context, &measured))
}

/// The whole table, and what it has lost.
pub(super) fn run(context: &Context<'_>) -> Result<[Experiment; 2], ReproduceError> {
    let measured = measure(context, |_, _| true)?;
    let rows = rows(context, &measured);
    let text = vec![
        "An uncached store takes as long whatever its width, so words of 4 B are four times as \
         fast as bytes. The document's copy routine takes 8 B up to 128 B, 32 B up to 1 KiB (and \
         its last 128 B twice), and single bytes from 2 KiB on: a string instruction, which is \
         fast in combined memory only."
            .to_owned(),
        "Combined words are as fast as the processor stores them; wider stores are as fast as the \
         card takes lines of 64 B, but for the 12 KiB that fit into the buffers on the way, which \
         the document's 100 passes of small blocks gain by."
            .to_owned(),
        "Two figures of each combined mode, 64 and 128 B, contradict those of 256 B: for more \
         bytes less time is printed. They are context. Passes stop in the lab when more of them \
         change nothing."
            .to_owned(),
    ];
    let table = Experiment {
        title: "Write bandwidth by size and mode (the table and its graph)",
        text,
        tables: vec![rate_table(context, &measured), size_table(&measured)],
        plots: vec![plot(context, &measured)],
        why: Vec::new(),
        rows,
    };
    Ok([table, lost(context, &measured)])
}

fn gb(bytes_per_second: f64) -> String {
    format!("{:.6}", bytes_per_second / 1e9)
}

/// The document's table, each figure beside the lab's.
fn rate_table(context: &Context<'_>, measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("bytes", Align::Right),
        ("burst GB/s", Align::Right),
        ("lab", Align::Right),
        ("burst-wc", Align::Right),
        ("lab", Align::Right),
        ("custom", Align::Right),
        ("lab", Align::Right),
        ("custom-wc", Align::Right),
        ("lab", Align::Right),
    ]);
    for of_size in measured.chunk_by(|one, other| one.size_bytes == other.size_bytes) {
        let size = of_size[0].size_bytes;
        let both = |one: &Measured| {
            [gb(context.figures.rate(one.mode, size)), gb(one.run.bytes_per_second())]
        };
        let cells = std::iter::once(size.to_string()).chain(of_size.iter().flat_map(both));
        table.row(cells.collect::<Vec<_>>());
    }
    table
}

/// What the card has got: writes by length and beats, of a pass of 64 B and of 4 KiB.
fn size_table(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        ("mode", Align::Left),
        ("bytes", Align::Right),
        ("passes", Align::Right),
        ("writes by length", Align::Left),
        ("beats of 64 B", Align::Right),
    ]);
    for one in measured.iter().filter(|one| matches!(one.size_bytes, 64 | 256 | 4096)) {
        let metrics = &one.run.metrics;
        table.row([
            one.mode.name.to_owned(),
            one.size_bytes.to_string(),
            one.run.options.passes.to_string(),
            metrics.writes_in_words(),
            metrics.beats.iter().map(|beats| u64::from(beats.0)).sum::<u64>().to_string(),
        ]);
    }
    table
}

/// The graph, rates by their logarithm as there.
fn plot(context: &Context<'_>, measured: &[Measured]) -> Plot {
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale: Scale::Logarithmic,
    };
    let series = MODES.iter().flat_map(|mode| {
        let of_mode: Vec<&Measured> = measured.iter().filter(|one| one.mode == *mode).collect();
        let points = |kind, rate: &dyn Fn(&Measured) -> f64| Series {
            name: mode.name.to_owned(),
            kind,
            points: of_mode.iter().map(|one| (one.size_bytes as f64, rate(one) / 1e9)).collect(),
        };
        [
            points(SeriesKind::Ours, &|one| one.run.bytes_per_second()),
            points(SeriesKind::Published, &|one| context.figures.rate(*mode, one.size_bytes)),
        ]
    });
    Plot {
        title: "Write bandwidth by size and mode".to_owned(),
        x: axis("bytes of a pass", "B"),
        y: axis("rate", "GB/s"),
        series: series.collect(),
    }
}

/// Where a pass takes more than 10 ms, 100 passes take more than a second: the document prints too
/// high a rate. The same figures with the seconds put back.
fn lost(context: &Context<'_>, measured: &[Measured]) -> Experiment {
    let mut table = Table::new(&[
        ("mode", Align::Left),
        ("bytes", Align::Right),
        ("printed GB/s", Align::Right),
        ("seconds lost", Align::Right),
        ("put back", Align::Right),
        ("lab", Align::Right),
        ("error %", Align::Right),
    ]);
    let mut rows = Vec::new();
    for one in measured.iter().filter(|one| one.seconds_of_a_pass() >= LOST_S) {
        let size = one.size_bytes as f64;
        let printed = context.figures.rate(one.mode, one.size_bytes);
        let printed_s = size / printed;
        let seconds = ((one.seconds_of_a_pass() - printed_s) / LOST_S).round().max(0.0);
        let put_back = size / (printed_s + seconds * LOST_S);
        let rate = one.run.bytes_per_second();
        let error = rate / put_back - 1.0;
        table.row([
            one.mode.name.to_owned(),
            one.size_bytes.to_string(),
            gb(printed),
            format!("{seconds:.0}"),
            gb(put_back),
            gb(rate),
            format!("{:+.1}", 100.0 * error),
        ]);
        rows.push(Row {
            quantity: format!("{}, seconds put back", one.mode.name),
            conditions: size_words(one.size_bytes),
            unit: "GB/s".to_owned(),
            published: Some(put_back / 1e9),
            simulated: Some(rate / 1e9),
            error: Some(error),
            kind: crate::comparison::Kind::Context,
            tolerance: None,
            reason: "how many seconds are lost is read off the lab".to_owned(),
            label: format!("{}, {}, seconds put back", one.mode.name, size_words(one.size_bytes)),
        });
    }
    let text = vec![
        "From 512 KiB on (custom: 128 KiB) the table's uncached rates rise. 100 passes then take \
         more than a second, and the elapsed time has lost its whole seconds: the nanoseconds of \
         the clock were taken alone. With as many seconds put back as the lab's time asks for, \
         the figures are those of the smaller sizes."
            .to_owned(),
    ];
    Experiment {
        title: "Large uncached blocks, with the lost seconds put back",
        text,
        tables: vec![table],
        plots: Vec::new(),
        why: Vec::new(),
        rows,
    }
}
