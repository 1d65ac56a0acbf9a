// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA between the two nodes (section 2.2 of the document, figure 6): reads and writes by the
//! node with the FPGA, by their size, as perftest makes them.

use crosslane_bench::{RdmaDirection, RdmaMeasured, RdmaOptions, rdma, rdma_target};
use crosslane_explain::size_words;
use crosslane_host::{Rdma, RdmaListener};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};
use rayon::prelude::*;

use super::published::context as context_row;
use super::{Context, HOST, RATE, host};
use crate::comparison::Row;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::table::{Align, Table};

/// The adapters: that of the node with the FPGA, and that of the other node, which is this host.
const ADAPTER: &str = "fnic";
const FAR_ADAPTER: &str = "rnic";
const FAR_HOST: &str = "rnode";
/// Where the far end listens: perftest's port.
const ADDRESS: &str = "rnode:18515";
/// From this size on the document has its maxima.
const FLAT_BYTES: u64 = 8 << 10;
/// The longest size of figure 6.
const LONGEST_BYTES: u64 = 8 << 20;
/// The size that stands for the maxima where time is short, and how many of it.
const QUICK_BYTES: u64 = 1 << 20;
const QUICK_ITERATIONS: u64 = 6;

/// Scenarios of this module: one for each direction.
pub(super) const SCENARIOS: u64 = 2;

/// The document's name of a maximum in the file of figures.
const fn quantity(direction: RdmaDirection) -> &'static str {
    match direction {
        RdmaDirection::Read => "rdma_read_maximum",
        RdmaDirection::Write => "rdma_write_maximum",
    }
}

/// The conditions of both.
const CONDITIONS: &str = "8 KB and above; MTU 4096";

type Problem = Box<dyn std::error::Error>;

/// What the sizes of one direction have given, MB/s.
struct Points {
    direction: RdmaDirection,
    points: Vec<(u64, f64)>,
}

impl Points {
    /// The fastest.
    fn most(&self) -> f64 {
        self.points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// The slowest of those that the document calls flat, as a part of the fastest.
    fn flatness(&self) -> f64 {
        let flat = self.points.iter().filter(|(bytes, _)| *bytes >= FLAT_BYTES);
        flat.map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min) / self.most()
    }
}

/// Runs one direction with these options, one after the other over one connection.
fn run(
    context: &Context<'_>,
    direction: RdmaDirection,
    all: &[RdmaOptions],
) -> Result<Points, ReproduceError> {
    let name = format!("{}, many in flight", direction.words());
    let failed = |problem: String| ReproduceError::experiment(&name, problem);
    let simulation = context.simulation(&context.lab(None)?)?;
    let near_host = host(&simulation, HOST)?.id;
    let near = simulation.rdma(near_host, ADAPTER);
    let near = near.map_err(|error| failed(error.to_string()))?;
    let far = simulation.rdma(host(&simulation, FAR_HOST)?.id, FAR_ADAPTER);
    let far = far.map_err(|error| failed(error.to_string()))?;
    let clock = simulation.bus(near_host);
    let listener = simulation.run(&name, far.listen(ADDRESS));
    let listener = listener.map_err(|stuck| failed(stuck.to_string()))?;
    let listener = listener.map_err(|error| failed(error.to_string()))?;
    let memory: Vec<u64> = all.iter().map(RdmaOptions::memory_bytes).collect();
    let target = simulation.spawn("the far end", async move {
        let connection = listener.accept().await?;
        for bytes in memory {
            rdma_target(&far, &connection, bytes).await?;
        }
        Ok::<_, crosslane_bench::BenchError>(())
    });
    let measured = simulation.run(&name, async {
        let connection = near.connect(ADDRESS, Picoseconds::NEVER).await?;
        let mut measured: Vec<RdmaMeasured> = Vec::new();
        for options in all {
            measured.push(rdma(&near, &connection, &clock, options).await?);
        }
        target.await?;
        Ok::<_, Problem>(measured)
    });
    let measured = measured.map_err(|stuck| failed(stuck.to_string()))?;
    let measured = measured.map_err(|error| failed(error.to_string()))?;
    if measured.iter().any(|one| one.data_errors.words > 0) {
        return Err(failed("data are wrong".to_owned()));
    }
    context.end(&name, &simulation)?;
    let points = measured.iter().map(|one| (one.options.size_bytes, one.bytes_per_second() / 1e6));
    Ok(Points { direction, points: points.collect() })
}

/// Both directions with these sizes; `change` may make them fewer.
fn both(
    context: &Context<'_>,
    sizes: &[u64],
    change: impl Fn(&mut RdmaOptions) + Sync,
) -> Result<Vec<Points>, ReproduceError> {
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
    RdmaDirection::ALL.par_iter().map(one).collect()
}

/// The rows that are compared.
fn rows_of(context: &Context<'_>, all: &[Points]) -> Result<Vec<Row>, ReproduceError> {
    let row = |points: &Points| {
        let label = format!("{}, 8 KiB and above", points.direction.words());
        let (quantity, most) = (quantity(points.direction), Some(points.most()));
        context.figures.compare(quantity, CONDITIONS, most, RATE, &label)
    };
    all.iter().map(row).collect()
}

pub(super) fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    rows_of(context, &both(context, &[LONGEST_BYTES], |_| {})?)
}

pub(super) fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    let fewer = |options: &mut RdmaOptions| options.iterations = QUICK_ITERATIONS;
    rows_of(context, &both(context, &[QUICK_BYTES], fewer)?)
}

/// Figure 6.
pub(super) fn experiments(context: &Context<'_>) -> Result<Vec<Experiment>, ReproduceError> {
    let sizes: Vec<u64> = RdmaOptions::perftest_sizes().collect();
    let all = both(context, &sizes, |_| {})?;
    let mut columns = vec![("size", Align::Left)];
    columns.extend(all.iter().map(|points| (points.direction.words(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut rows = rows_of(context, &all)?;
    for (at, size) in sizes.iter().enumerate() {
        let rates = all.iter().map(|points| points.points[at].1);
        let cells = rates.map(|rate| format!("{rate:.0}"));
        table.row(std::iter::once(size_words(*size)).chain(cells).collect::<Vec<_>>());
        rows.extend(all.iter().map(|points| {
            let quantity = format!("{}, figure 6", points.direction.words());
            context_row(&quantity, size_words(*size), "MB/s", points.points[at].1)
        }));
    }
    let mut series = Vec::new();
    for points in &all {
        let name = points.direction.words().to_owned();
        let ours = points.points.iter().map(|(bytes, rate)| (*bytes as f64, *rate)).collect();
        series.push(Series { name: name.clone(), kind: SeriesKind::Ours, points: ours });
        let most = context.figures.value(quantity(points.direction), CONDITIONS)?;
        let published = [FLAT_BYTES, LONGEST_BYTES].map(|bytes| (bytes as f64, most)).to_vec();
        series.push(Series { name, kind: SeriesKind::Published, points: published });
    }
    let axis = |label: &str, unit: &str, scale| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale,
    };
    let plot = Plot {
        title: "Figure 6: RDMA read and write".to_owned(),
        x: axis("bytes of an operation", "B", Scale::Logarithmic),
        y: axis("rate", "MB/s", Scale::Linear),
        series,
    };
    let flat: Vec<String> = all
        .iter()
        .map(|points| format!("{} {:.1} %", points.direction.words(), 100.0 * points.flatness()))
        .collect();
    let text = vec![
        "Writes run into the network: 4096 B of payload take 4122 B of the 12.5 GB/s. Reads run \
         into the other node: its adapter has 12 KiB of reads of host memory in flight (an \
         assumption), and each takes 1.34 us there, most of it in the memory system of the \
         ThunderX2 (fitted to this figure). Everything else of both is predicted."
            .to_owned(),
        format!(
            "From 8 KiB on no size is slower than {} of the fastest. Below 2 KiB the one core \
             limits that rings the doorbell: a store of 144 ns for each operation.",
            flat.join(", ")
        ),
        "Published is the maximum, which the document has from 8 KiB on; its other points are in a \
         plot only."
            .to_owned(),
    ];
    Ok(vec![Experiment {
        title: "RDMA read and write by their size (figure 6)",
        text,
        tables: vec![table],
        plots: vec![plot],
        why: Vec::new(),
        rows,
    }])
}
