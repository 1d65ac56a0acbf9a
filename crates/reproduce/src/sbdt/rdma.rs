// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA between the two nodes (section 2.2 of the paper, figure 6): reads and writes by the node
//! with the FPGA, by size, as perftest makes them.

use crosslane_experiment::parallel;
use crosslane_experiment::{RdmaDirection, RdmaMeasured, RdmaOptions, rdma, rdma_target};
use crosslane_host::{Rdma, RdmaListener, Reason};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::Table;

use super::{HOST, host};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{by_size, ours, published, rate};
use crate::study::Effort;

/// The adapters: that of the node with the FPGA, and that of the other node, which is this host.
const ADAPTER: &str = "fnic";
const FAR_ADAPTER: &str = "rnic";
const FAR_HOST: &str = "rnode";
/// Address at which the far end listens, with perftest's port.
const ADDRESS: &str = "rnode:18515";
/// Size from which the paper's rates are at their maximum.
const FLAT_BYTES: u64 = 8 << 10;
/// The longest size of figure 6.
const LONGEST_BYTES: u64 = 8 << 20;
/// Size that stands for the maximum in sweeps, and the number of its operations.
const QUICK_BYTES: u64 = 1 << 20;
const QUICK_ITERATIONS: u64 = 6;

/// Number of scenarios of this module: one for each direction.
pub(super) const SCENARIOS: u64 = 2;

/// Returns the paper's name of a maximum in the file of figures.
const fn quantity(direction: RdmaDirection) -> &'static str {
    match direction {
        RdmaDirection::Read => "rdma_read_maximum",
        RdmaDirection::Write => "rdma_write_maximum",
    }
}

/// The conditions of both.
const CONDITIONS: &str = "8 KB and above; MTU 4096";

/// Rates of one direction by size, MB/s.
struct Points {
    direction: RdmaDirection,
    points: Vec<(u64, f64)>,
}

impl Points {
    /// Returns the highest rate.
    fn most(&self) -> f64 {
        self.points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Returns the lowest rate of the sizes that the paper calls flat, as a fraction of the
    /// highest.
    fn flatness(&self) -> f64 {
        let flat = self.points.iter().filter(|(bytes, _)| *bytes >= FLAT_BYTES);
        flat.map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min) / self.most()
    }
}

/// Runs one direction with these options, one after the other over one connection.
fn run(context: &Context<'_>, direction: RdmaDirection, all: &[RdmaOptions]) -> Result<Points> {
    let name = format!("{}, many in flight", direction.words());
    let measured = context.run_verified(&name, context.lab(), async |simulation| {
        let near_host = host(simulation, HOST)?.id;
        let near = simulation.rdma(near_host, ADAPTER)?;
        let far = simulation.rdma(host(simulation, FAR_HOST)?.id, FAR_ADAPTER)?;
        let clock = simulation.bus(near_host);
        let listener = far.listen(ADDRESS).await?;
        let memory: Vec<u64> = all.iter().map(RdmaOptions::memory_bytes).collect();
        let target = simulation.spawn("the far end", async move {
            let connection = listener.accept().await?;
            for bytes in memory {
                rdma_target(&far, &connection, bytes).await?;
            }
            Ok::<_, crosslane_experiment::ExperimentError>(())
        });
        let connection = near.connect(ADDRESS, Picoseconds::NEVER).await?;
        let mut measured: Vec<RdmaMeasured> = Vec::new();
        for options in all {
            measured.push(rdma(&near, &connection, &clock, options).await?);
        }
        target.await?;
        Ok::<_, Reason>(measured)
    })?;
    let points = measured.iter().map(|one| (one.options.size_bytes, one.bytes_per_second() / 1e6));
    Ok(Points { direction, points: points.collect() })
}

/// Runs both directions with these sizes; `change` may reduce their number.
fn both(
    context: &Context<'_>,
    sizes: &[u64],
    change: impl Fn(&mut RdmaOptions) + Sync,
) -> Result<Vec<Points>> {
    let one = |direction: &RdmaDirection| {
        let seed = context.seed as u32;
        let options = |size: &u64| {
            let mut options = RdmaOptions::like_perftest(*direction, *size, seed);
            change(&mut options);
            options
        };
        let all: Vec<RdmaOptions> = sizes.iter().map(options).collect();
        run(context, *direction, &all)
    };
    parallel::try_map(&RdmaDirection::ALL, one)
}

/// Returns the compared rows.
fn rows_of(context: &Context<'_>, all: &[Points]) -> Vec<Row> {
    let row = |points: &Points| {
        context.figures.compare(quantity(points.direction), CONDITIONS, points.most())
    };
    all.iter().map(row).collect()
}

pub(super) fn compared(context: &Context<'_>, effort: Effort) -> Result<Vec<Row>> {
    let all = match effort {
        Effort::Full => both(context, &[LONGEST_BYTES], |_| {})?,
        Effort::Quick => {
            both(context, &[QUICK_BYTES], |options| options.iterations = QUICK_ITERATIONS)?
        }
    };
    Ok(rows_of(context, &all))
}

/// Returns the experiment of figure 6.
pub(super) fn experiment(context: &Context<'_>) -> Result<Experiment> {
    let sizes: Vec<u64> = RdmaOptions::perftest_sizes().collect();
    let all = both(context, &sizes, |_| {})?;
    let words = all.iter().map(|points| points.direction.words());
    let mut table = Table::headed("size").with_numbers(words);
    let mut rows = rows_of(context, &all);
    for (at, size) in sizes.iter().enumerate() {
        let rates = all.iter().map(|points| points.points[at].1);
        let cells = rates.map(|rate| format!("{rate:.0}"));
        table.row(std::iter::once(size_words(*size)).chain(cells));
        rows.extend(all.iter().map(|points| {
            let quantity = format!("{}, figure 6", points.direction.words());
            Row::simulated(quantity, size_words(*size), "MB/s", points.points[at].1)
        }));
    }
    let mut series = Vec::new();
    for points in &all {
        let name = points.direction.words();
        let rates = points.points.iter().map(|(bytes, rate)| (*bytes as f64, *rate));
        series.push(ours(name, rates));
        let most = context.figures.value(quantity(points.direction), CONDITIONS);
        series.push(published(name, [FLAT_BYTES, LONGEST_BYTES].map(|at| (at as f64, most))));
    }
    let title = "Figure 6: RDMA read and write";
    let plot = by_size(title, "an operation", rate("MB/s"), series);
    let flat: Vec<String> = all
        .iter()
        .map(|points| format!("{} {:.1} %", points.direction.words(), 100.0 * points.flatness()))
        .collect();
    let text = paragraphs([
        "Writes run into the network: 4096 B of payload take 4122 B of the 12.5 GB/s. Reads run \
         into the other node: its adapter has 12 KiB of reads of host memory in flight (an \
         assumption), and each takes 1.34 us there, most of it in the memory system of the \
         ThunderX2 (fitted to this figure). Everything else of both is predicted.",
        &format!(
            "From 8 KiB on no size is slower than {} of the fastest. Below 2 KiB the one core \
             limits that rings the doorbell: a store of 144 ns for each operation.",
            flat.join(", ")
        ),
        "Published is the maximum, which the paper has from 8 KiB on; its other points are in a \
         plot only.",
    ]);
    Ok(Experiment {
        title: "RDMA read and write by their size (figure 6)",
        text,
        tables: vec![table],
        plots: vec![plot],
        rows,
        ..Experiment::default()
    })
}
