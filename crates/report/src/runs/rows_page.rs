// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of benchmarks whose outcomes are rows: single accesses, sweeps, bridged transfers, and
//! stores of a processor into a card's memory.

use std::collections::BTreeSet;

use crosslane_results::quantity::{mebibytes, megabytes, microseconds, percent, size_words};
use crosslane_results::{
    Bench, Bridge, BridgeTransfer, Flow, OperationRate, OperationRow, Operations, Overhead,
    OverheadRow, Overlap, PacketRow, Packets, PublishedTime, Stores, Sweep, SweepRow,
};

use super::run_page::{by_size, flow_names, rate_axis, sizes, why_section};
use super::values::{clients_words, typical};
use crate::page::{Block, Section};
use crate::plot::{Axis, Plot, Scale, Series, SeriesKind};
use crate::table::{Align, Cell, Field, Table, or_none};

/// Names and points of a plot's lines, in order of appearance.
#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<Series>);

impl Lines {
    pub(super) fn add(&mut self, name: String, point: (f64, f64)) {
        match self.0.iter_mut().find(|known| known.name == name) {
            Some(known) => known.points.push(point),
            None => self.0.push(Series::ours(name, [point])),
        }
    }
}

fn rate_plot(title: String, lines: Lines) -> Block {
    Block::Plot(Plot { title, x: sizes(), y: rate_axis(), series: lines.0 })
}

fn wrong_words(count: u64) -> Cell {
    Cell { text: count.to_string(), is_bad: count > 0 }
}

/// Columns of single accesses and transfers.
pub const OVERHEAD: [Field<OverheadRow>; 6] = [
    ("each", |row| row.what.clone()),
    ("times:", |row| row.rounds.to_string()),
    ("bytes:", |row| or_none(row.bytes, |bytes| bytes.to_string())),
    ("us:", |row| microseconds(row.bus_ps)),
    ("MB/s:", |row| {
        let bytes = row.bytes.filter(|_| row.bus_ps > 0);
        or_none(bytes, |bytes| megabytes(bytes as f64 / row.bus_ps as f64 * 1e12))
    }),
    ("machine us:", |row| microseconds(row.machine_ps)),
];

/// Returns the summary and the sections of single accesses and transfers.
pub(super) fn overhead(run: &Overhead) -> (String, Vec<Section>) {
    let rows = Table::of(&OVERHEAD, &run.rows);
    let note = "Averages by the clock of the card's bus, which is simulated in a lab, and by that \
                of the machine that ran it. Transfers were made one at a time.";
    let blocks = vec![Block::Table(rows), Block::Text(note.to_owned())];
    let each =
        run.rows.iter().take(2).map(|row| format!("{} {} us", row.what, microseconds(row.bus_ps)));
    let summary = format!("{}.", each.collect::<Vec<_>>().join(", "));
    (summary, vec![Section { title: "Times".to_owned(), blocks }])
}

/// Columns of small operations.
pub const OPERATIONS: [Field<OperationRow>; 6] = [
    ("operation", |row| row.what.clone()),
    ("bytes:", |row| row.bytes.to_string()),
    ("data us:", |row| or_none(row.data_ps, microseconds)),
    ("at the card us:", |row| or_none(row.card_ps, microseconds)),
    ("known us:", |row| microseconds(row.done.typical_ps)),
    ("p99 us:", |row| microseconds(row.done.p99_ps)),
];

/// Columns of rates of small operations.
pub const RATES: [Field<OperationRate>; 5] = [
    ("many in flight", |row| row.what.clone()),
    ("bytes:", |row| row.bytes.to_string()),
    ("operations:", |row| row.operations.to_string()),
    ("million a second:", |row| format!("{:.2}", row.per_second() / 1e6)),
    ("of the link %:", |row| or_none(row.link_share, percent)),
];

/// Formats a published time: `published: DMA read ... of 64 B: 546.0 ns (source)`.
pub fn published_words(published: &PublishedTime) -> String {
    let PublishedTime { what, bytes, ps, source } = published;
    format!("published: {what}, {bytes} B: {:.1} ns ({source})", *ps as f64 / 1e3)
}

/// Returns the parts of an operation's time: a row for each.
fn terms_table(row: &OperationRow) -> Table {
    let mut table =
        Table::headed("part | ns:").titled(format!("{}, {}", row.what, size_words(row.bytes)));
    for term in &row.terms {
        table.row([Cell::from(&*term.what), format!("{:.3}", term.ps as f64 / 1e3).into()]);
    }
    table
}

/// Returns the summary and the sections of small operations.
pub(super) fn operations(run: &Operations) -> (String, Vec<Section>) {
    let note = "One at a time. Data: from the program's call until they are at the other end. At \
                the card: the part of it from the descriptor at the card on. Known: until the \
                program knows; the median, of which the parts are, and the 99th percentile.";
    let (note, published) = (note.to_owned(), published_words(&run.published));
    let rows = Block::Table(Table::of(&OPERATIONS, &run.rows));
    let blocks = vec![rows, Block::Text(note), Block::Text(published)];
    let mut sections = vec![Section { title: "Times".to_owned(), blocks }];
    let split: Vec<Block> = run
        .rows
        .iter()
        .filter(|row| !row.terms.is_empty())
        .map(|row| Block::Table(terms_table(row)))
        .collect();
    if !split.is_empty() {
        sections.push(Section { title: "Parts".to_owned(), blocks: split });
    }
    if !run.rates.is_empty() {
        let blocks = vec![Block::Table(Table::of(&RATES, &run.rates))];
        sections.push(Section { title: "Rates".to_owned(), blocks });
    }
    let each = run.rows.iter().take(2);
    let each = each.map(|row| format!("{} {} us", row.what, microseconds(row.done.typical_ps)));
    (format!("{}.", each.collect::<Vec<_>>().join(", ")), sections)
}

/// Columns of packets.
pub const PACKETS: [Field<PacketRow>; 5] = [
    ("bytes:", |row| row.bytes.to_string()),
    ("packets:", |row| row.packets.to_string()),
    ("million a second:", |row| format!("{:.3}", row.packets_per_second() / 1e6)),
    ("MB/s:", |row| megabytes(row.bytes_per_second())),
    ("wrong:", |row| row.wrong.to_string()),
];

/// Returns the summary and the sections of packets.
pub(super) fn packets(run: &Packets) -> (String, Vec<Section>) {
    let note = "From host memory through the card's stream and back, by the clock of the card's \
                bus, which is simulated in a lab: from the first doorbell to the last packet. The \
                rates are those of each direction.";
    let points = run.rows.iter().map(|row| (row.bytes as f64, row.bytes_per_second() / 1e6));
    let mut lines = Lines::default();
    points.for_each(|point| lines.add("host to card to host".to_owned(), point));
    let rows = Table::of(&PACKETS, &run.rows);
    let plot = rate_plot("Rate by the size of a packet".to_owned(), lines);
    let blocks = vec![plot, Block::Table(rows), Block::Text(note.to_owned())];
    let best = run.rows.iter().map(PacketRow::packets_per_second).fold(0.0, f64::max);
    let summary = format!("Up to {:.3} million packets a second.", best / 1e6);
    (summary, vec![Section { title: "Packets".to_owned(), blocks }])
}

/// Whether a parameter names the direction of the transfer, or the flows in its place.
fn is_way(name: &str) -> bool {
    matches!(name, "way" | "flow")
}

/// Returns the direction of a row.
fn way(row: &SweepRow) -> Option<String> {
    let mut all = row.parameters.iter();
    all.find(|(name, _)| is_way(name)).map(|(_, value)| value.to_string())
}

/// Returns the parameters of a row, the direction first, each with its value in words.
fn parameters(row: &SweepRow) -> Vec<(&str, String)> {
    let all = row.parameters.iter();
    let all = all.map(|(name, value)| (name.as_str(), value.to_string()));
    let (way, others): (Vec<_>, Vec<_>) = all.partition(|(name, _)| is_way(name));
    way.into_iter().chain(others).collect()
}

/// Names a line of a plot by all parameters except the direction: `Gen2 x4, tags 8`.
fn line_name(parameters: &[(&str, String)]) -> String {
    let (mut link, mut others) = (Vec::new(), Vec::new());
    for (name, value) in parameters {
        match *name {
            name if is_way(name) => {}
            "generation" => link.push(format!("Gen{value}")),
            "width" => link.push(format!("x{value}")),
            name => others.push(format!("{} {value}", name.rsplit('.').next().unwrap_or(name))),
        }
    }
    let link = (!link.is_empty()).then(|| link.join(" "));
    link.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}

/// Returns a table of the points of a sweep, with a column for each of these parameters.
pub fn sweep_table(run: &Sweep, names: &[&str], has_binary_rate: bool) -> Table {
    let numbers = ["bytes", "us", "MB/s", "MiB/s", "wrong words"];
    let is_shown = |heading: &&str| has_binary_rate || *heading != "MiB/s";
    let headings = names.iter().copied().chain(numbers.into_iter().filter(is_shown));
    let mut table = Table::default().with_numbers(headings);
    for row in &run.rows {
        let values = names
            .iter()
            .map(|name| Cell::from(or_none(row.parameters.get(*name), |value| value.to_string())));
        let (time, rate) = (format!("{:.3}", row.transfer_ns / 1e3), row.bytes_per_second);
        let mut numbers: Vec<Cell> = vec![row.size_bytes.to_string().into(), time.into()];
        numbers.push(megabytes(rate).into());
        numbers.extend(has_binary_rate.then(|| mebibytes(rate).into()));
        numbers.push(wrong_words(row.wrong_words));
        table.row(values.chain(numbers));
    }
    table
}

/// Returns the summary and the sections of a sweep: a plot for each direction, with a line for each
/// combination of the other parameters.
pub(super) fn sweep(run: &Sweep) -> (String, Vec<Section>) {
    let mut plots: Vec<(String, Lines)> = Vec::new();
    let names = run.rows.first().map(parameters).unwrap_or_default();
    let names: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
    let mut rows = sweep_table(run, &names, false);
    rows.is_searchable = true;
    // The direction is a word.
    if let Some(way) = rows.columns.first_mut().filter(|column| is_way(&column.heading)) {
        way.align = Align::Left;
    }
    for row in &run.rows {
        let parameters = parameters(row);
        let way = way(row).unwrap_or_default();
        let at = plots.iter().position(|(known, _)| *known == way).unwrap_or_else(|| {
            plots.push((way, Lines::default()));
            plots.len() - 1
        });
        let point = (row.size_bytes as f64, row.bytes_per_second / 1e6);
        plots[at].1.add(line_name(&parameters), point);
    }
    let blocks = plots.into_iter();
    let blocks = blocks.map(|(way, lines)| rate_plot(format!("Rate by size, {way}"), lines));
    let rates = Section { title: "Rates".to_owned(), blocks: blocks.collect() };
    let points = Section { title: "Points".to_owned(), blocks: vec![Block::Table(rows)] };
    let points_named = run.rows.iter().map(|row| {
        let all = parameters(row);
        let words = way(row).into_iter().chain([line_name(&all), size_words(row.size_bytes)]);
        let words: Vec<String> = words.filter(|words| !words.is_empty()).collect();
        (words.join(", "), row)
    });
    let mut sections = vec![rates, points];
    sections.extend(why_section(points_named));
    let raised = match &run.raised_ports[..] {
        [] => String::new(),
        ports => format!(" Raised to the rates of the links: {}.", ports.join(", ")),
    };
    (format!("Transfers of {}.{raised}", run.card), sections)
}

/// Names a transfer: `remote -> FPGA, pipelined, 2 clients`.
fn transfer_name(transfer: &BridgeTransfer) -> String {
    format!("{}, {}{}", transfer.path, transfer.mode, clients_words(transfer))
}

/// Returns the summary and the sections of bridged transfers.
pub(super) fn bridge(run: &Bridge) -> (String, Vec<Section>) {
    let mut lines = Lines::default();
    let mut rows = Table::headed(
        "path | mode | bytes: | clients: | typical ms: | MB/s: | wrong: | what limits it",
    );
    for transfer in &run.transfers {
        let rate = transfer.bytes_per_second / 1e6;
        lines.add(transfer_name(transfer), (transfer.bytes as f64, rate));
        let time = typical(&transfer.seconds);
        rows.row([
            Cell::from(&*transfer.path),
            Cell::from(&*transfer.mode),
            transfer.bytes.to_string().into(),
            transfer.clients.to_string().into(),
            or_none(time, |seconds| format!("{:.3}", seconds * 1e3)).into(),
            format!("{rate:.1}").into(),
            wrong_words(transfer.wrong_words),
            Cell::from(&*transfer.why_not_faster),
        ]);
    }
    let is_range = lines.0.iter().any(|line| line.points.len() > 1);
    let mut blocks = Vec::new();
    blocks.extend(is_range.then(|| rate_plot("Rate by size".to_owned(), lines)));
    blocks.push(Block::Table(rows));
    let mut sections = vec![Section { title: "Transfers".to_owned(), blocks }];
    sections.extend(overlap_section(run));
    sections.extend(why_section(
        run.transfers
            .iter()
            .map(|one| (format!("{}, {}", transfer_name(one), size_words(one.bytes)), one)),
    ));
    let last = run.transfers.last().map_or("Nothing was run.".to_owned(), |last| {
        let (size, rate) = (size_words(last.bytes), last.bytes_per_second / 1e6);
        format!("{}: {rate:.1} MB/s at {size}.", transfer_name(last))
    });
    (last, sections)
}

/// Returns a table of the gain of overlap beside its bound, if both modes were run.
fn overlap_section(run: &Bridge) -> Option<Section> {
    let mut ratios = [Lines::default(), Lines::default()];
    let fields: [Field<Overlap>; 5] = [
        ("path", |one| one.path.clone()),
        ("bytes:", |one| one.bytes.to_string()),
        ("naive over pipelined:", |one| format!("{:.2}", one.naive_over_pipelined)),
        ("stages alone allow:", |one| format!("{:.2}", one.bound)),
        ("of it %:", |one| percent(one.share)),
    ];
    let rows = Table::of(&fields, &run.overlap);
    for overlap in &run.overlap {
        let bytes = overlap.bytes as f64;
        ratios[0].add(overlap.path.clone(), (bytes, overlap.naive_over_pipelined));
        ratios[1].add(overlap.path.clone(), (bytes, overlap.bound));
    }
    let [measured, mut bounds] = ratios;
    let is_range = measured.0.iter().any(|line| line.points.len() > 1);
    bounds.0.iter_mut().for_each(|line| line.kind = SeriesKind::Ceiling);
    let plot = Plot {
        title: "Time without overlap over time with it; dashed: what the stages allow".to_owned(),
        x: sizes(),
        y: Axis { label: "ratio".to_owned(), unit: String::new(), scale: Scale::Linear },
        series: measured.0.into_iter().chain(bounds.0).collect(),
    };
    let mut blocks = Vec::new();
    blocks.extend(is_range.then_some(Block::Plot(plot)));
    let has_rows = !rows.rows.is_empty();
    blocks.push(Block::Table(rows));
    has_rows.then(|| Section { title: "Gain of overlap".to_owned(), blocks })
}

/// Returns the flows with their stores.
fn stores(bench: &Bench) -> impl Iterator<Item = (&Flow, &Stores)> {
    let flows = bench.flows();
    flows.filter_map(|flow| Some((flow, flow.stores()?)))
}

/// Returns the section of a page: the rate by size, and the writes by length.
pub(super) fn stores_section(bench: &Bench) -> Section {
    let title = "Stores into the card's memory".to_owned();
    let rate = |flow: &Flow| Some(flow.rate()? / 1e6);
    let series = flow_names(bench).into_iter().map(|name| {
        let points = by_size(bench, &name, rate);
        Series::ours(name, points)
    });
    let plot = Plot {
        title: title.clone(),
        x: Axis::new("bytes of a pass", "B", Scale::Logarithmic),
        y: Axis::new("rate", "MB/s", Scale::Logarithmic),
        series: series.collect(),
    };
    let mut blocks = vec![Block::Plot(plot)];
    // Stores into memory that a client maps itself bypass the card, which then counts nothing.
    if stores(bench).any(|(_, stores)| !stores.writes_by_length.is_empty()) {
        blocks.push(Block::Plot(lengths(bench)));
    }
    Section { title, blocks }
}

/// Plots the writes at the card by their length, for the last block of each mode.
fn lengths(bench: &Bench) -> Plot {
    let mut longest: Vec<(&Flow, &Stores)> = Vec::new();
    for (flow, stores) in stores(bench) {
        longest.retain(|(other, _)| other.name != flow.name);
        longest.push((flow, stores));
    }
    let writes = |stores: &Stores, bytes: u32| -> u32 {
        let classes = stores.writes_by_length.iter();
        classes.filter(|class| class.up_to_bytes == bytes).map(|class| class.writes).sum()
    };
    let used = longest.iter().flat_map(|(_, stores)| &stores.writes_by_length);
    let bounds: BTreeSet<u32> = used.map(|class| class.up_to_bytes).collect();
    let names = bounds.iter().map(|bytes| format!("{bytes} B")).collect();
    let series = longest.into_iter().map(|(flow, stores)| {
        let all: u32 = bounds.iter().map(|bytes| writes(stores, *bytes)).sum();
        let share = |bytes: &u32| f64::from(writes(stores, *bytes)) / f64::from(all.max(1)) * 1e2;
        let points = (0_u32..).map(f64::from).zip(bounds.iter().map(share));
        Series::ours(format!("{}, {}", flow.name, size_words(flow.bytes)), points)
    });
    Plot {
        title: "Writes at the card by their length".to_owned(),
        x: Axis::new("payload, up to", "", Scale::Categories(names)),
        y: Axis::new("of all writes", "%", Scale::Linear),
        series: series.collect(),
    }
}
