// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of the hub's fragmentation: the mixture of completion sizes beside completions of one size.

use crosslane_driver::network_processor::Modes;
use crosslane_experiment::parallel;
use crosslane_pcie::link::TLP_FRAMING_BYTES;
use crosslane_report::{Axis, Scale, Table};

use super::{ALL_IN_FLIGHT, GPU1, NgetOutcome, gets};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{by_size, ours};

/// Sizes of a get, bytes.
const SIZES: [u64; 7] = [256, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10];
/// The lab as it is, and its variants with completions of one size.
const MIXTURES: [(Option<&str>, &str); 4] = [
    (None, "mixture of 256 B and 64 B"),
    (Some("completions-64"), "64 B"),
    (Some("completions-128"), "128 B"),
    (Some("completions-256"), "256 B"),
];
/// Index of the variant with the longest completions.
const LONGEST: usize = 3;

/// Number of scenarios of this experiment.
pub(super) const SCENARIOS: u64 = (SIZES.len() * MIXTURES.len()) as u64;

/// Returns the share of headers in the header and payload bytes of completions: like the paper's
/// table of packets, without the framing of the link.
fn header_share(outcome: &NgetOutcome) -> f64 {
    let down = &outcome.down;
    let headers = down.header_bytes - down.tlps * u64::from(TLP_FRAMING_BYTES);
    headers as f64 / (headers + down.payload_bytes) as f64
}

pub(super) fn run(context: &Context<'_>) -> Result<Experiment> {
    let jobs: Vec<(usize, u64)> =
        (0..MIXTURES.len()).flat_map(|mixture| SIZES.map(|size| (mixture, size))).collect();
    let outcomes: Vec<NgetOutcome> = parallel::try_map(&jobs, |&(mixture, size)| {
        let lab = MIXTURES[mixture].0.map(|name| context.variant(name)).transpose()?;
        gets(
            context,
            lab.as_ref().unwrap_or(context.lab()),
            GPU1,
            Modes::FASTEST,
            (size, ALL_IN_FLIGHT),
        )
    })?;
    let of = |mixture: usize| &outcomes[mixture * SIZES.len()..(mixture + 1) * SIZES.len()];
    let mut table = Table::headed(
        "completions, 64 KiB gets on gpu1 | average B: | MB/s: | of 4 GB/s %: | \
         ceiling MB/s: | of it %: | of the wire: payload %: | headers, framing %: | \
         DLLPs %: | SKP %:",
    );
    let mut rows: Vec<Row> = Vec::new();
    for (mixture, (_, words)) in MIXTURES.iter().enumerate() {
        let whole = of(mixture).last().expect("there are sizes");
        let wire = whole.down.wire_bytes() as f64;
        let share = |bytes: u64| format!("{:.1}", 100.0 * bytes as f64 / wire);
        table.row([
            (*words).to_owned(),
            format!("{:.1}", whole.ceiling.payload_bytes),
            format!("{:.1}", whole.measured.bytes_per_second() / 1e6),
            format!("{:.1}", 100.0 * whole.over_theory()),
            format!("{:.1}", whole.ceiling.less_dllps_bytes_per_second / 1e6),
            format!("{:.1}", 100.0 * whole.of_ceiling()),
            share(whole.down.payload_bytes),
            share(whole.down.header_bytes),
            share(whole.down.dllp_bytes),
            share(whole.down.skp_bytes),
        ]);
        for (size, outcome) in SIZES.iter().zip(of(mixture)) {
            let conditions = format!("completions: {words}; {}; N = 64", size_words(*size));
            let ratio = outcome.over_theory();
            rows.push(Row::simulated("nget_over_theory", conditions, "ratio", ratio));
        }
    }
    let longest = of(LONGEST).last().expect("there are sizes");
    let overhead = header_share(longest);
    rows.insert(0, context.figures.case("pcie_overhead", None).compare(overhead));
    let series = MIXTURES.iter().enumerate().map(|(mixture, (_, words))| {
        let rate = |one: &NgetOutcome| one.measured.bytes_per_second() / 1e6;
        let points = SIZES.iter().zip(of(mixture));
        ours(*words, points.map(|(size, one)| (*size as f64, rate(one))))
    });
    let title = "Fragmentation by the hub: bandwidth by the size of completions";
    let y = Axis::new("bandwidth", "MB/s", Scale::Linear);
    let completer = context.lab().file().hosts[0].part.parameters.completer;
    let text = paragraphs([
        &format!(
            "The paper blames the peak on the fragmentation by the I/O hub. A completion costs \
             20 B beside its payload, so pure 64 B would leave 76.2 % of the link, 128 B 86.5 %, \
             256 B 92.8 %, less SKP ordered sets and the DLLPs for the card's read requests. The \
             published 82 % lies between 64 and 128 B: no pure size gives it. Here lines that come \
             together go out in 256 B, and {:.1} % of those completions go out line by line \
             instead.",
            100.0 * completer.completion_single_share
        ),
        &format!(
            "The paper's PCIe overhead of 5 % is of a way of counting that it does not say. \
             Headers of 3 DW over headers and payload are {:.1} % with completions of 256 B; with \
             the link's framing it is {:.1} %. Both leave out what shorter completions cost.",
            100.0 * overhead,
            100.0 * longest.down.header_bytes as f64
                / (longest.down.header_bytes + longest.down.payload_bytes) as f64
        ),
    ]);
    Ok(Experiment {
        title: "Fragmentation by the I/O hub",
        text,
        tables: vec![table],
        plots: vec![by_size(title, "a get", y, series.collect())],
        rows,
        ..Experiment::default()
    })
}
