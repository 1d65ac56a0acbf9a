// SPDX-License-Identifier: Apache-2.0 OR MIT
//! "A Few Words about Side Effects": 16 integers as 16 beats or one, a FIFO that is filled at one
//! address or at consecutive ones, and a stale load before a fence.

use crosslane_driver::{CardMetrics, Contents, FIFO_BAR, MEMORY_BAR, WindowOptions};
use crosslane_experiment::{ExperimentError, MmioOptions, Program};
use crosslane_host::{Bus, Mapping, RegisterAddress, Stores};
use crosslane_lab::Simulation;
use crosslane_report::Table;

use super::{open, routines, stores};
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs};
use crate::published::{self, PublishedFigure};

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 = 4;

/// The figures, in the order of [`MAPPINGS`].
const FIGURES: &str = "published/aws-f1-side-effects.csv";
/// Integers that the paper's program writes by default.
const INTEGERS: u64 = 16;
/// Bytes that are pushed into the FIFO.
const PUSHED: &[u8; 6] = b"fabric";

const MAPPINGS: [(&str, Mapping); 2] =
    [("uncached", Mapping::Uncached), ("write-combined", Mapping::WriteCombined)];

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let mut beats = Table::headed("16 integers | DDR0 write-count: | the paper's:");
    let mut rows = Vec::new();
    let figures: Vec<PublishedFigure> = published::read(FIGURES)?;
    for ((word, mapping), figure) in MAPPINGS.into_iter().zip(figures) {
        let counted = f64::from(count(context, word, mapping)?.beats[0].0);
        beats.row([word.to_owned(), format!("{counted:.0}"), format!("{:.0}", figure.value)]);
        rows.push(figure.compare(counted));
    }
    let fifo = context.run("FIFO", context.lab(), fifo)?;
    let [stale, fresh] = context.run("stale load", context.lab(), stale_load)?;
    let mut loads = Table::headed("load of what was stored | gives");
    loads.row(["before the fence".to_owned(), format!("{stale:#x}")]);
    loads.row(["behind it".to_owned(), format!("{fresh:#x}")]);
    let text = paragraphs([
        "The card counts beats of its memory's data bus of 64 B. In a FIFO, six bytes stored to \
         one address arrive once where they are combined; sprayed over its 64 B they all arrive. \
         What has not left the processor's buffers is not seen by a load through the combined \
         mapping.",
    ]);
    Ok(Experiment {
        title: "What the card sees (side effects)",
        text,
        tables: vec![beats, fifo, loads],
        rows,
        ..Experiment::default()
    })
}

/// Returns the card's counters for one pass of 16 integers.
fn count(context: &Context<'_>, word: &str, mapping: Mapping) -> Result<CardMetrics> {
    let program = Program::LibraryBurst(routines(context)?);
    let (size_bytes, seed) = (INTEGERS * 4, context.seed as u32);
    let options = MmioOptions::new(size_bytes, program, mapping).with_seed(seed);
    let measured = stores(context, &format!("16 integers, {word}"), &options)?;
    Ok(measured.metrics)
}

/// Stores six bytes into the FIFO, at its first address or at consecutive ones.
async fn fifo(simulation: &Simulation) -> Result<Table, ExperimentError> {
    let card = open(simulation).await?;
    let bus = card.bus();
    let mut table =
        Table::headed("six bytes into the FIFO | mapping | writes: | bytes that arrived");
    let function = card.function();
    for (sprayed, way) in [(false, "all to its first address"), (true, "sprayed")] {
        for (word, mapping) in MAPPINGS {
            card.take_metrics().await?;
            for (place, byte) in (0..).zip(PUSHED) {
                let offset_bytes = if sprayed { place } else { 0 };
                let at = RegisterAddress { function, bar: FIFO_BAR, offset_bytes };
                bus.store(at, &[*byte], Stores { width_bytes: 1, mapping }).await?;
            }
            bus.fence().await?;
            let arrived = card.drain_fifo().await?;
            let metrics = card.take_metrics().await?;
            table.row([
                way.to_owned(),
                word.to_owned(),
                metrics.fifo_writes.to_string(),
                String::from_utf8_lossy(&arrived).into_owned(),
            ]);
        }
    }
    Ok(table)
}

/// Loads a combined word before and after the fence.
async fn stale_load(simulation: &Simulation) -> Result<[u32; 2], ExperimentError> {
    let card = open(simulation).await?;
    let (mapping, contents) = (Mapping::WriteCombined, Contents::Memory);
    let window = card.window(
        WindowOptions::new(MEMORY_BAR, 0..64).with_mapping(mapping).with_contents(contents),
    )?;
    window.write_burst(0, &[0xf001_cafe]).await?;
    let mut found = [[0; 4]; 2];
    window.read(0, &mut found[0]).await?;
    window.flush().await?;
    window.read(0, &mut found[1]).await?;
    Ok(found.map(u32::from_le_bytes))
}
