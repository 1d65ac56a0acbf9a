// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The 64-bit network that the paper gave up, and its conjecture about the next faster link: less
//! than twice the rate.

use crosslane_experiment::CardDirection;
use crosslane_pcie::link::Generation;
use crosslane_report::{Series, Table};

use super::sweep::{Point, rate, sweep, table};
use super::{FASTEST, Link, SIZES, link, rate_plot};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::ours;

/// The next faster links.
const NEXT: [Link; 2] = [link(Generation::Gen2, 8), link(Generation::Gen3, 4)];

/// The variant of the lab whose core has the clock for them.
const FASTER: &str = "next";

const WAYS: u64 = CardDirection::ALL.len() as u64;
/// Number of scenarios of these experiments.
pub(super) const SCENARIOS: u64 = SIZES.len() as u64 * WAYS * (1 + NEXT.len() as u64);

pub(super) fn run(context: &Context<'_>, document: &[Point]) -> Result<[Experiment; 2]> {
    let narrow =
        narrow(document, &sweep(context, &context.variant("narrow")?, &[FASTEST], &SIZES)?);
    let next = sweep(context, &context.variant(FASTER)?, &NEXT, &SIZES)?;
    Ok([narrow, grades(document, &next)])
}

/// Returns a row of a figure that the paper does not give.
fn row(quantity: &str, point: &Point) -> Row {
    let quantity = format!("{}, {quantity}", point.direction.words());
    let conditions = format!("{}; {}", point.link.words(), size_words(point.size_bytes));
    Row::simulated(quantity, conditions, "MB/s", point.bytes_per_second / 1e6)
}

fn narrow(document: &[Point], narrow: &[Point]) -> Experiment {
    let mut table = Table::headed(
        "Gen2 x4 | to card, 256 bit MB/s: | 64 bit: | of it %: | from card, 256 bit: | \
         64 bit: | of it %:",
    );
    for size in SIZES {
        let mut cells = vec![size_words(size)];
        for way in CardDirection::ALL {
            let wide = rate(document, FASTEST, way, size);
            let narrow = rate(narrow, FASTEST, way, size);
            cells.push(format!("{:.1}", wide / 1e6));
            cells.push(format!("{:.1}", narrow / 1e6));
            cells.push(format!("{:.0}", 100.0 * narrow / wide));
        }
        table.row(cells);
    }
    let text = paragraphs([
        "With 64 bits the main network moves 8 B each 10 ns, 1.25 ns for a byte, and its longest \
         burst is 2 KiB, so that the round trip is paid twice as often. A copier that reads and \
         then writes pays all of that beside the 0.58 ns of the link: half the rate. The paper \
         gave it up for that, without a figure.",
    ]);
    Experiment {
        title: "The network of 64 bits that the paper gave up",
        text,
        tables: vec![table],
        rows: narrow.iter().map(|point| row("64 bit", point)).collect(),
        ..Experiment::default()
    }
}

fn grades(document: &[Point], next: &[Point]) -> Experiment {
    let mut gains =
        Table::headed("4 MiB | to card MB/s: | over Gen2 x4: | from card MB/s: | over Gen2 x4:");
    let size = SIZES[6];
    let mut largest: f64 = 0.0;
    for link in NEXT {
        let mut cells = vec![link.words()];
        for way in CardDirection::ALL {
            let faster = rate(next, link, way, size);
            let gain = faster / rate(document, FASTEST, way, size);
            largest = largest.max(gain);
            cells.push(format!("{:.1}", faster / 1e6));
            cells.push(format!("{gain:.2}"));
        }
        gains.row(cells);
    }
    let [to, from] = CardDirection::ALL.map(|way| table(next, &NEXT, way));
    let plots = CardDirection::ALL.map(|way| {
        let series = |points: &[Point], link: Link| -> Series {
            let rate = |size| (size as f64, rate(points, link, way, size) / 1e6);
            ours(link.words(), SIZES.map(rate))
        };
        let all = [series(document, FASTEST)].into_iter();
        let all = all.chain(NEXT.map(|link| series(next, link)));
        rate_plot(&format!("One more grade of link, {}", way.words()), all.collect())
    });
    let text = paragraphs([
        &format!(
            "The paper expects that Gen2 x8 or Gen3 x4 would not simply double the rate. They \
             do not: {largest:.2} times at the most, with 4 MiB. The time beside the link stays \
             what it is, and at 1 KiB it is nearly all there is."
        ),
        "The board's core has twice the clock here (128 bits at 250 MHz), or its stream would be \
         no faster than Gen2 x4.",
    ]);
    Experiment {
        title: "One more grade of link: Gen2 x8 and Gen3 x4 (the paper's conjecture)",
        text,
        tables: vec![gains, to, from],
        plots: plots.to_vec(),
        rows: next.iter().map(|point| row("one more grade", point)).collect(),
        ..Experiment::default()
    }
}
