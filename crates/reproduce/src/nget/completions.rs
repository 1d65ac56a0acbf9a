// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the hub's fragmentation costs: the mixture of completions beside completions of one size.

use crosslane_explain::size_words;
use crosslane_pcie::link::TLP_FRAMING_BYTES;
use crosslane_report::{Scale, Series, SeriesKind};
use rayon::prelude::*;

use super::published::{Figures, shown};
use super::{ALL_IN_FLIGHT, Context, MODES, Machine, NgetOutcome, plot};
use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// Sizes of a get, bytes.
const SIZES: [u64; 7] = [256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10];
/// The lab as it is, and its variants with completions of one size.
const MIXTURES: [(Option<&str>, &str); 4] = [
    (None, "mixture of 256 B and 64 B"),
    (Some("completions-64"), "64 B"),
    (Some("completions-128"), "128 B"),
    (Some("completions-256"), "256 B"),
];
/// Which of them has the longest.
const LONGEST: usize = 3;

/// Scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (SIZES.len() * MIXTURES.len()) as u64;

/// Share of the completions' header and payload bytes that is header: as the document's table of
/// packets counts, without the framing of the link.
fn header_share(outcome: &NgetOutcome) -> f64 {
    let down = &outcome.down;
    let headers = down.header_bytes - down.tlps * u64::from(TLP_FRAMING_BYTES);
    headers as f64 / (headers + down.payload_bytes) as f64
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment, ReproduceError> {
    let jobs: Vec<(usize, u64)> =
        (0..MIXTURES.len()).flat_map(|mixture| SIZES.map(|size| (mixture, size))).collect();
    let outcomes: Result<Vec<NgetOutcome>, ReproduceError> = jobs
        .par_iter()
        .map(|&(mixture, size)| {
            let lab = context.lab(MIXTURES[mixture].0)?;
            context.gets(&lab, Machine::Gpu1, MODES, (size, ALL_IN_FLIGHT))
        })
        .collect();
    let outcomes = outcomes?;
    let of = |mixture: usize| &outcomes[mixture * SIZES.len()..(mixture + 1) * SIZES.len()];
    let mut table = Table::new(&[
        ("completions, 64 KiB gets on gpu1", Align::Left),
        ("average B", Align::Right),
        ("MB/s", Align::Right),
        ("of 4 GB/s %", Align::Right),
        ("ceiling MB/s", Align::Right),
        ("of it %", Align::Right),
        ("of the wire: payload %", Align::Right),
        ("headers, framing %", Align::Right),
        ("DLLPs %", Align::Right),
        ("SKP %", Align::Right),
    ]);
    let mut rows: Vec<Row> = Vec::new();
    for (mixture, (_, words)) in MIXTURES.iter().enumerate() {
        let whole = of(mixture).last().expect("there are sizes");
        let wire = whole.down.wire_bytes() as f64;
        let share = |bytes: u64| format!("{:.1}", 100.0 * bytes as f64 / wire);
        table.row([
            (*words).to_owned(),
            format!("{:.1}", whole.completion_bytes),
            format!("{:.1}", whole.measured.bytes_per_second() / 1e6),
            format!("{:.1}", 100.0 * whole.over_theory()),
            format!("{:.1}", whole.ceiling_less_dllps / 1e6),
            format!("{:.1}", 100.0 * whole.of_ceiling()),
            share(whole.down.payload_bytes),
            share(whole.down.header_bytes),
            share(whole.down.dllp_bytes),
            share(whole.down.skp_bytes),
        ]);
        for (size, outcome) in SIZES.iter().zip(of(mixture)) {
            let conditions = format!("completions: {words}; {}; N = 64", size_words(*size));
            rows.push(shown("nget_over_theory", conditions, "ratio", outcome.over_theory()));
        }
    }
    let longest = of(LONGEST).last().expect("there are sizes");
    let overhead = header_share(longest);
    let figure = context.figures.one("pcie_overhead")?;
    let reason = "the document does not say how it counts; here: headers of 3 DW over headers and \
                  payload, completions of 256 B";
    let label = "PCIe overhead, completions of 256 B".to_owned();
    rows.insert(0, Figures::context(figure, Some(overhead), reason, label));
    let series = MIXTURES.iter().enumerate().map(|(mixture, (_, words))| Series {
        name: (*words).to_owned(),
        kind: SeriesKind::Ours,
        points: SIZES
            .iter()
            .zip(of(mixture))
            .map(|(size, one)| (*size as f64, one.measured.bytes_per_second() / 1e6))
            .collect(),
    });
    let title = "Fragmentation by the hub: bandwidth by the size of completions".to_owned();
    let text = vec![
        format!(
            "The document blames the peak on the fragmentation by the I/O hub. A completion costs \
             20 B beside its payload, so pure 64 B would leave 76.2 % of the link, 128 B 86.5 %, \
             256 B 92.8 %, less SKP ordered sets and the DLLPs for the card's read requests. The \
             published 82 % lies between 64 and 128 B: no pure size gives it. Here lines that come \
             together go out in 256 B, and {:.1} % of those completions go out line by line \
             instead.",
            100.0 * context.single_share()
        ),
        format!(
            "The document's PCIe overhead of 5 % is of a way of counting that it does not say. \
             Headers of 3 DW over headers and payload are {:.1} % with completions of 256 B; with \
             the link's framing it is {:.1} %. Both leave out what shorter completions cost.",
            100.0 * overhead,
            100.0 * longest.down.header_bytes as f64
                / (longest.down.header_bytes + longest.down.payload_bytes) as f64
        ),
    ];
    Ok(Experiment {
        title: "Fragmentation by the I/O hub",
        text,
        tables: vec![table],
        plots: vec![plot(title, "bandwidth", "MB/s", Scale::Linear, series.collect())],
        why: Vec::new(),
        rows,
    })
}
