// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures and tables of DMA within the node.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_report::{Plot, Series, Table};

use super::{
    KIB, LONG_SIZES, MIB, Measured, OWN, OWN_SIZES, Point, SIZES, WHOLE_BUFFER_BYTES, WHOLE_BYTES,
    Way, elapsed, extrapolated, rate, rows_of,
};
use crate::comparison::Row;
use crate::context::Context;
use crate::experiment::{Experiment, paragraphs, size_words};
use crate::plots::{by_size, published, rate as rate_axis};
use crate::sbdt::Curve;

/// Returns the rate of 1 GiB with buffers of a size, MB/s.
fn whole(measured: &Measured, buffer_bytes: u64) -> f64 {
    let found = measured.buffers.iter().find(|(bytes, _)| *bytes == buffer_bytes);
    match found {
        Some((_, points)) => extrapolated(points, Way::ToCard, [16 * MIB, 32 * MIB], WHOLE_BYTES),
        None => extrapolated(&measured.long, Way::ToCard, LONG_SIZES, WHOLE_BYTES),
    }
}

/// Returns the points of buffers of a size, by size of transfer, MB/s.
fn curve(points: &[Point], way: Way, whole: f64) -> Curve {
    let of_way = points.iter().filter(|point| point.way == way);
    let rates = of_way.map(|point| (point.bytes as f64, rate(point.bytes, point.elapsed) / 1e6));
    let points = rates.chain([(WHOLE_BYTES as f64, whole)]).collect();
    Curve { name: way.words(), points }
}

/// Returns the curves of figure 5.
pub(super) fn curves(measured: &Measured) -> Vec<Curve> {
    let points = &measured.long;
    let curve = |way| curve(points, way, extrapolated(points, way, LONG_SIZES, WHOLE_BYTES));
    Way::DRAWN.map(curve).into()
}

pub(in crate::sbdt) fn plot(title: &str, series: Vec<Series>) -> Plot {
    by_size(title, "a transfer", rate_axis("MB/s"), series)
}

/// Returns the experiment of figure 4.
pub(super) fn by_buffers(measured: &Measured) -> Experiment {
    let all: Vec<(u64, &[Point])> = measured
        .buffers
        .iter()
        .map(|(bytes, points)| (*bytes, &points[..]))
        .chain([(WHOLE_BUFFER_BYTES, &measured.long[..])])
        .collect();
    let sizes = all.iter().map(|(bytes, _)| size_words(*bytes));
    let mut table = Table::headed("transfer").with_numbers(sizes);
    let mut rows = Vec::new();
    let mut add = |transfer: u64, rates: Vec<f64>| {
        let cells = rates.iter().map(|rate| format!("{rate:.0}"));
        table.row(std::iter::once(size_words(transfer)).chain(cells));
        rows.extend(all.iter().zip(&rates).map(|((buffer, _), rate)| {
            let conditions = format!("{}; {} buffers", size_words(transfer), size_words(*buffer));
            Row::simulated("host to FPGA memory, figure 4", conditions, "MB/s", *rate)
        }));
    };
    for size in SIZES {
        let rates =
            all.iter().map(|(_, points)| rate(size, elapsed(points, Way::ToCard, size)) / 1e6);
        add(size, rates.collect());
    }
    add(WHOLE_BYTES, all.iter().map(|(bytes, _)| whole(measured, *bytes)).collect());
    let series = all.iter().map(|(bytes, points)| {
        let name = format!("{} buffers", size_words(*bytes));
        curve(points, Way::ToCard, whole(measured, *bytes)).line(name)
    });
    let [least, at_64, at_128, at_256] =
        [16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB].map(|bytes| whole(measured, bytes));
    let text = paragraphs([
        &format!(
            "The size of the buffers has little effect from 256 KiB on ({at_256:.0} MB/s at 1 \
             GiB, and no more than 1 % above or below it with larger ones), and rates fall below: \
             {at_128:.0} with 128 KiB, {at_64:.0} with 64 KiB, {least:.0} with 16 KiB. The cause \
             is one serial cost, the report of a chunk: from the interrupt until the thread runs \
             that waits for it 84 us pass (interrupt_ns of the lab, fitted to bridged transfers \
             and to nothing here). The vendor's sample asks for one at the end of each half of \
             the ring; while it is on its way the other half of the ring, four buffers, has to \
             keep the controller busy. Four buffers of 128 KiB last for 78 us, four of 64 KiB for \
             39 us."
        ),
        "With short transfers the first copy and the last report are in the way instead, so that \
         buffers of 64 to 256 KiB are the best for transfers of 256 KiB to 32 MiB.",
        "The paper has rates fall at 256 KiB and below, and finds 8 MiB the best for most sizes \
         of transfers. Here they fall from 128 KiB on, and 8 MiB are never the best, though at 1 \
         GiB within 1 % of it: the model copies a buffer whole before it is moved, which a short \
         transfer waits for. The paper's plot could not be recovered, so these points have no \
         reference.",
        "Columns are sizes of buffers. Transfers are of up to 32 MiB (8 MiB buffers: 192 MiB); \
         what 1 GiB takes follows from the two longest.",
    ]);
    Experiment {
        title: "Host to FPGA memory, by sizes of transfers and of buffers (figure 4)",
        text,
        tables: vec![table],
        plots: vec![plot("Figure 4: host to FPGA memory", series.collect())],
        rows,
        ..Experiment::default()
    }
}

/// Returns the experiment of figure 5.
pub(super) fn ways(context: &Context<'_>, measured: &Measured, curves: &[Curve]) -> Experiment {
    let mut table = Table::headed("transfer").with_numbers(Way::DRAWN.map(Way::words));
    let points = &measured.long;
    let whole = Way::DRAWN.map(|way| extrapolated(points, way, LONG_SIZES, WHOLE_BYTES));
    for size in SIZES.into_iter().chain(LONG_SIZES) {
        let rates =
            Way::DRAWN.map(|way| format!("{:.0}", rate(size, elapsed(points, way, size)) / 1e6));
        table.row(std::iter::once(size_words(size)).chain(rates));
    }
    let last = whole.map(|rate| format!("{rate:.0}"));
    table.row(std::iter::once(size_words(WHOLE_BYTES)).chain(last));
    let mut series = Vec::new();
    for (way, curve) in Way::DRAWN.into_iter().zip(curves) {
        series.push(curve.line(way.words()));
        let (quantity, conditions) = way.figure();
        let value = context.figures.value(quantity, conditions);
        series.push(published(way.words(), [(WHOLE_BYTES as f64, value)]));
    }
    let mut rows = rows_of(context, points, LONG_SIZES);
    // The last row belongs to the next experiment.
    rows.pop();
    let width = Width::new(8).expect("links of eight lanes there are");
    let link = LinkRate { generation: Generation::Gen3, width };
    let raw = Some(link.bytes_per_second() / 1e6);
    for (quantity, simulated) in
        [("jetstream_host_to_fpga", None), ("jetstream_fpga_to_host", None), ("link_raw", raw)]
    {
        rows.push(context.figures.case(quantity, None).compare(simulated));
    }
    let text = paragraphs([
        "Host to FPGA memory runs into the link: completions of 128 B, of which each is 148 B on \
         the wire. FPGA memory to host does, too: writes of one line of 64 B, 84 B on the wire. \
         Through the FPGA both are less than what the link can do; there the one core limits that \
         copies each byte into the ring and out of it, at 9.05 GB/s.",
        "The paper's bridged round trip, in which nothing is copied, is faster than its local \
         one: that is what speaks for the copies.",
    ]);
    Experiment {
        title: "Three ways with buffers of 8 MiB (figure 5)",
        text,
        tables: vec![table],
        plots: vec![plot("Figure 5: three ways, buffers of 8 MiB", series)],
        rows,
        ..Experiment::default()
    }
}

pub(super) fn within(context: &Context<'_>, measured: &Measured) -> Experiment {
    let points = &measured.long;
    let whole =
        [Way::Within, Way::WithinOne].map(|way| extrapolated(points, way, LONG_SIZES, WHOLE_BYTES));
    let (quantity, conditions) = Way::Within.figure();
    let row = context.figures.compare(quantity, conditions, whole[0]);
    let one = "within one channel of FPGA memory";
    let rows = vec![row, Row::simulated(one, "1 GiB", "MB/s", whole[1])];
    let mut table = Table::headed("1 GiB | MB/s: | of 12800 MB/s %:");
    for (way, rate) in [Way::Within, Way::WithinOne].into_iter().zip(whole) {
        table.row([way.words().to_owned(), format!("{rate:.0}"), format!("{:.1}", rate / 128.0)]);
    }
    let text = paragraphs([&format!(
        "The stream carries 64 B each 5 ns, 12800 MB/s. Each channel of DDR4-2133 does 17067 MB/s \
         and is refreshed each 7.8 us for 350 ns (JESD79-4, chips of 8 Gbit), in which nothing \
         moves but what was read ahead: 4.9 % of the time with the opening of a row, which is what \
         the paper lacks. This holds where source and destination are different channels; \
         within one channel reads and writes take turns, a row is opened each time, and {:.0} MB/s \
         are left. The paper does not say where its data were.",
        whole[1]
    )]);
    Experiment {
        title: "FPGA memory to FPGA memory",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    }
}

pub(super) fn with_own_engine(measured: &Measured) -> Experiment {
    let ways = [Way::ToCard, Way::FromCard, Way::Through, Way::Within];
    let mut table = Table::headed("32 MiB, buffers of 1 MiB").with_numbers(ways.map(Way::words));
    let mut rows = Vec::new();
    for ((name, ..), points) in OWN.into_iter().zip(&measured.own) {
        let rates = ways.map(|way| rate(OWN_SIZES[1], elapsed(points, way, OWN_SIZES[1])) / 1e6);
        let cells = rates.map(|rate| format!("{rate:.0}"));
        table.row(std::iter::once(name.to_owned()).chain(cells));
        rows.extend(ways.into_iter().zip(rates).map(|(way, rate)| {
            let conditions = format!("32 MiB; 1 MiB buffers; {name}");
            Row::simulated(format!("our engine, {}", way.words()), conditions, "MB/s", rate)
        }));
    }
    let text = paragraphs([
        "This project's own engine on the same card writes 256 B at a time, as long as \
         Max_Payload_Size allows. With the paper's procedure (interrupts, one core that copies) \
         it gains where data go to the host. Polled and with a core for each copy it gains through \
         the FPGA. Where the caller's memory is registered nothing is copied, and the link limits \
         on all ways.",
    ]);
    Experiment {
        title: "The same with this project's own engine",
        text,
        tables: vec![table],
        rows,
        ..Experiment::default()
    }
}
