// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table and its graph: 17 sizes in four modes; and its missing seconds.

use crosslane_experiment::MmioMeasured;
use crosslane_experiment::parallel;
use crosslane_report::{Axis, Plot, Scale, Table};
use crosslane_results::quantity::change;

use super::{MODES, Mode};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{by_size, ours, published};
use crate::published::PublishedFigure;

/// Time missing from each pass in the paper's table: a whole second over 100 passes.
const LOST_S: f64 = 0.01;

/// Number of sizes in the table.
pub(super) const SIZES: u64 = 17;

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

fn measure(context: &Context<'_>, wanted: impl Fn(Mode, u64) -> bool) -> Result<Vec<Measured>> {
    let sizes = (0..SIZES).map(|power| 64 << power);
    let all = sizes.flat_map(|size| MODES.map(|mode| (mode, size)));
    let mut scenarios: Vec<(Mode, u64)> = all.filter(|(mode, size)| wanted(*mode, *size)).collect();
    // The longest first, so that no core is idle at the end.
    scenarios.sort_by_key(|(mode, size)| (mode.combined, std::cmp::Reverse(*size)));
    let mut measured: Vec<Measured> =
        parallel::try_map(&scenarios, |&(mode, size_bytes)| -> Result<_> {
            let run = super::measure(context, mode, size_bytes)?;
            Ok(Measured { mode, size_bytes, run })
        })?;
    let place = |mode: Mode| MODES.iter().position(|known| *known == mode);
    measured.sort_by_key(|one| (one.size_bytes, place(one.mode)));
    Ok(measured)
}

/// Returns the paper's figure of a mode and a size.
fn figure<'a>(context: &'a Context<'_>, mode: Mode, size_bytes: u64) -> &'a PublishedFigure {
    context.figures.at(mode.name, &size_words(size_bytes))
}

fn rows(context: &Context<'_>, measured: &[Measured]) -> Vec<Row> {
    let row = |one: &Measured| {
        let figure = figure(context, one.mode, one.size_bytes);
        figure.compare(one.run.bytes_per_second() / 1e9)
    };
    measured.iter().map(row).collect()
}

/// Returns the compared rows of blocks of at most `most` bytes.
pub(super) fn compared(context: &Context<'_>, most: u64) -> Result<Vec<Row>> {
    let is_compared = |mode, size| figure(context, mode, size).tolerance.is_some();
    let measured = measure(context, |mode, size| size <= most && is_compared(mode, size))?;
    Ok(rows(context, &measured))
}

/// Runs the whole table, and the experiment on its missing seconds.
pub(super) fn run(context: &Context<'_>) -> Result<[Experiment; 2]> {
    let measured = measure(context, |_, _| true)?;
    let rows = rows(context, &measured);
    let text = paragraphs([
        "An uncached store takes as long whatever its width, so words of 4 B are four times as \
         fast as bytes. The paper's copy routine takes 8 B up to 128 B, 32 B up to 1 KiB (and \
         its last 128 B twice), and single bytes from 2 KiB on: a string instruction, which is \
         fast in combined memory only.",
        "Combined words are as fast as the processor stores them; wider stores are as fast as the \
         card takes lines of 64 B, but for the 12 KiB that fit into the buffers on the way, which \
         the paper's 100 passes of small blocks gain by.",
        "Two figures of each combined mode, 64 and 128 B, contradict those of 256 B: for more \
         bytes less time is printed. They are context. Passes stop in the lab when more of them \
         change nothing.",
    ]);
    let table = Experiment {
        title: "Write bandwidth by size and mode (the table and its graph)",
        text,
        tables: vec![rate_table(context, &measured), size_table(&measured)],
        plots: vec![plot(context, &measured)],
        rows,
        ..Experiment::default()
    };
    Ok([table, lost(context, &measured)])
}

fn gb(rate: f64) -> String {
    format!("{rate:.6}")
}

/// Returns the paper's table, each figure beside the lab's.
fn rate_table(context: &Context<'_>, measured: &[Measured]) -> Table {
    let mut table = Table::headed(
        "bytes: | burst GB/s: | lab: | burst-wc: | lab: | custom: | lab: | custom-wc: | lab:",
    );
    for of_size in measured.chunk_by(|one, other| one.size_bytes == other.size_bytes) {
        let size = of_size[0].size_bytes;
        let both = |one: &Measured| {
            [figure(context, one.mode, size).value, one.run.bytes_per_second() / 1e9].map(gb)
        };
        let cells = std::iter::once(size.to_string()).chain(of_size.iter().flat_map(both));
        table.row(cells.collect::<Vec<_>>());
    }
    table
}

/// Returns the writes that arrived at the card, by length and beats, in a pass of 64 B and of 4
/// KiB.
fn size_table(measured: &[Measured]) -> Table {
    let mut table = Table::headed("mode | bytes: | passes: | writes by length | beats of 64 B:");
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

/// Plots the graph, with logarithmic rates as in the paper.
fn plot(context: &Context<'_>, measured: &[Measured]) -> Plot {
    let series = MODES.iter().flat_map(|mode| {
        let of_mode = || measured.iter().filter(|one| one.mode == *mode);
        let lab = |one: &Measured| (one.size_bytes as f64, one.run.bytes_per_second() / 1e9);
        let paper =
            |one: &Measured| (one.size_bytes as f64, figure(context, *mode, one.size_bytes).value);
        [ours(mode.name, of_mode().map(lab)), published(mode.name, of_mode().map(paper))]
    });
    let rate = Axis::new("rate", "GB/s", Scale::Logarithmic);
    by_size("Write bandwidth by size and mode", "a pass", rate, series.collect())
}

/// Returns the figures of passes of more than 10 ms, of which 100 take more than a second, with the
/// missing seconds added: the paper prints too high a rate.
fn lost(context: &Context<'_>, measured: &[Measured]) -> Experiment {
    let mut table = Table::headed(
        "mode | bytes: | printed GB/s: | seconds lost: | put back: | lab: | error %:",
    );
    let mut rows = Vec::new();
    for one in measured.iter().filter(|one| one.seconds_of_a_pass() >= LOST_S) {
        let size = one.size_bytes as f64;
        let printed = figure(context, one.mode, one.size_bytes).value * 1e9;
        let printed_s = size / printed;
        let seconds = ((one.seconds_of_a_pass() - printed_s) / LOST_S).round().max(0.0);
        let put_back = size / (printed_s + seconds * LOST_S);
        let rate = one.run.bytes_per_second();
        let error = rate / put_back - 1.0;
        table.row([
            one.mode.name.to_owned(),
            one.size_bytes.to_string(),
            gb(printed / 1e9),
            format!("{seconds:.0}"),
            gb(put_back / 1e9),
            gb(rate / 1e9),
            change(error),
        ]);
        let quantity = format!("{}, seconds put back", one.mode.name);
        let (conditions, rate) = (size_words(one.size_bytes), rate / 1e9);
        rows.push(Row {
            published: Some(put_back / 1e9),
            error: Some(error),
            reason: "how many seconds are lost is read off the lab".to_owned(),
            label: format!("{}, {conditions}, seconds put back", one.mode.name),
            ..Row::simulated(quantity, conditions, "GB/s", rate)
        });
    }
    let text = paragraphs([
        "From 512 KiB on (custom: 128 KiB) the table's uncached rates rise. 100 passes then take \
         more than a second, and the elapsed time has lost its whole seconds: the nanoseconds of \
         the clock were taken alone. With as many seconds put back as the lab's time asks for, \
         the figures are those of the smaller sizes.",
    ]);
    Experiment {
        title: "Large uncached blocks, with the lost seconds put back",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    }
}
