// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labs: those that are shipped, remarks of their check, and the topology of one, with branches as
//! `lspci -tv` draws them, then a table of the functions and one of the links.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crosslane_results::quantity::{count_words, mebibytes, megabytes, size_words};
use crosslane_results::topology::{
    Bar, FigureRange, Function, Host, Link, Matrix, MatrixPair, Network, Topology, Torus, Way,
};
use crosslane_results::{LabCheck, LabFileCheck, LabImport, LabList, LabRemark};

use super::{Columns, paragraph};
use crate::number::latency_words;
use crate::table::{Field, Table, or_none};

/// Room for a bridge and the first function below it, columns: ` \-00.0-[02-04]----00.0-[03-04]`.
const BRIDGE_COLUMNS: usize = 28;

/// Formats the topology of a lab, with notes on it.
pub fn topology(topology: &Topology, notes: &[LabRemark], columns: Columns) -> String {
    let mut text = String::new();
    for host in &topology.hosts {
        let sockets = match host.sockets {
            None => String::new(),
            Some(count) => format!(
                "{count} sockets with {} each, ",
                size_words(host.memory_bytes / count as u64)
            ),
        };
        let memory = size_words(host.memory_bytes);
        let _ = writeln!(text, "{}: {sockets}{memory} of memory", host.name);
        let _ = writeln!(text, "{}", branches(host, columns.tables));
    }
    text.push_str("Functions (Max_Payload_Size and Max_Read_Request_Size in bytes)\n\n");
    text.push_str(&function_table(topology).to_text(columns.tables));
    let ceilings = "Ceilings of one direction of each link: payload in TLPs of Max_Payload_Size \
                    with 3 DW and 4 DW headers, SKP ordered sets taken off, DLLPs not";
    let _ = writeln!(text, "\n{}", paragraph(ceilings, columns));
    let spare = ["MiB/s", "less SKP", "raw MB/s", "4 DW MB/s", "link"];
    let links = Table::of(&LINK, topology.links()).least_first(&spare);
    text.push_str(&links.to_text(columns.tables));
    if !topology.networks.is_empty() {
        text.push_str("\nNetwork links, each way: payload in packets of the MTU\n\n");
        let networks = Table::of(&NETWORK, &topology.networks).least_first(&["MB/s"]);
        text.push_str(&networks.to_text(columns.tables));
    }
    if !topology.tori.is_empty() {
        text.push_str(
            "\nTorus links, each way: after 8b/10b; payload of datagrams, skip sets taken off, \
             commands not\n\n",
        );
        let tori = Table::of(&TORUS, &topology.tori).least_first(&["MB/s", "lanes"]);
        text.push_str(&tori.to_text(columns.tables));
    }
    for (number, remark) in notes.iter().enumerate() {
        let gap = if number == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}  note: {}", remark.sentence);
    }
    text
}

/// Draws the branches of a host, each line ended. If a wide drawing has more columns than there
/// are, the functions of a bus begin below their bridge, not behind it.
fn branches(host: &Host, columns: Option<usize>) -> String {
    let wide = drawn(host, None);
    match columns.filter(|it| wide.lines().any(|line| line.chars().count() > *it)) {
        None => wide,
        columns => drawn(host, columns),
    }
}

fn drawn(host: &Host, columns: Option<usize>) -> String {
    let (line, lines, stems) = ("-[0000:00]-".to_owned(), String::new(), String::new());
    let mut drawing = Drawing { line, lines, columns, stems };
    drawing.bus(&host.functions);
    drawing.lines
}

/// A line that is being drawn, and those before it.
struct Drawing {
    line: String,
    lines: String,
    /// Columns of the terminal; `None`: as many as `lspci -tv` takes.
    columns: Option<usize>,
    /// Blanks and branches before the functions of a bus in a narrow drawing.
    stems: String,
}

impl Drawing {
    /// Draws all functions of a bus, each with those below it, behind the line so far.
    fn bus(&mut self, functions: &[Function]) {
        let Some((last, others)) = functions.split_last() else {
            self.end();
            return;
        };
        let is_full = |columns| self.line.chars().count() + BRIDGE_COLUMNS > columns;
        if self.columns.is_some_and(|columns| !others.is_empty() || is_full(columns)) {
            self.bus_below(functions);
            return;
        }
        if others.is_empty() {
            self.line.push_str("--");
            self.function(last);
            return;
        }
        let stem = self.line.chars().count();
        for function in others {
            self.line.push_str("+-");
            self.function(function);
            self.blank_but_stems(stem);
        }
        self.line.push_str("\\-");
        self.function(last);
    }

    /// Draws the functions of a bus below their bridge, each on its own line.
    fn bus_below(&mut self, functions: &[Function]) {
        self.line.truncate(self.line.trim_end_matches('-').len());
        self.end();
        let depth = self.stems.len();
        for (index, function) in functions.iter().enumerate() {
            let is_last = index + 1 == functions.len();
            self.line = format!("{} {}", self.stems, if is_last { "\\-" } else { "+-" });
            self.stems.push_str(if is_last { "   " } else { " | " });
            self.function(function);
            self.stems.truncate(depth);
        }
    }

    fn function(&mut self, function: &Function) {
        let (_, number) = function.address.split_once(':').unwrap_or_default();
        self.line.push_str(number);
        if let Some(socket) = function.socket {
            let _ = write!(self.line, "(socket {socket})");
        }
        match function.secondary_bus.zip(function.subordinate_bus) {
            Some((secondary, subordinate)) => {
                if secondary == subordinate {
                    let _ = write!(self.line, "-[{secondary:02x}]--");
                } else {
                    let _ = write!(self.line, "-[{secondary:02x}-{subordinate:02x}]--");
                }
                self.bus(&function.children);
            }
            None => {
                let rate = function
                    .link
                    .as_ref()
                    .map_or(String::new(), |link| format!("  {}", link.rate()));
                let (vendor, device) = (&function.vendor, &function.device);
                let _ = write!(self.line, "  {} [{vendor}:{device}]{rate}", function.node);
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let line = self.line.trim_end();
        self.lines.push_str(line);
        self.lines.push('\n');
    }

    /// Begins the next line with the vertical branches among the first `stem` characters of the
    /// last one.
    fn blank_but_stems(&mut self, stem: usize) {
        let goes_on = |c| if matches!(c, '+' | '|') { '|' } else { ' ' };
        self.line = self.line.chars().take(stem).map(goes_on).collect();
    }
}

/// A function, and its address with the host's name if there are several hosts.
type Row<'a> = (String, &'a Function);

fn function_table(topology: &Topology) -> Table {
    fn fields<'a>() -> [Field<Row<'a>>; 9] {
        [
            ("function", |(address, _)| address.clone()),
            ("port", |(_, it)| it.port.clone()),
            ("kind", |(_, it)| it.kind.words().to_owned()),
            ("link", |(_, it)| {
                let link = it.link.as_ref().or_else(|| it.children.first()?.link.as_ref());
                or_none(link, Link::rate)
            }),
            ("port can do", |(_, it)| it.max_rate()),
            ("MPS:", |(_, it)| it.max_payload_bytes.to_string()),
            ("most:", |(_, it)| it.max_payload_supported_bytes.to_string()),
            ("MRRS:", |(_, it)| it.max_read_request_bytes.to_string()),
            ("BARs", |(_, it)| {
                let bars: Vec<String> = it.bars.iter().map(bar_words).collect();
                or_none(Some(bars.join(", ")).filter(|words| !words.is_empty()), |words| words)
            }),
        ]
    }
    let rows = topology.hosts.iter().flat_map(|host| {
        let name = if topology.hosts.len() > 1 { format!("{} ", host.name) } else { String::new() };
        host.all_functions().map(move |it| (format!("{name}{}", it.address), it))
    });
    let spare = ["BARs", "most", "port can do", "MRRS"];
    Table::of(&fields(), &rows.collect::<Vec<Row<'_>>>()).least_first(&spare)
}

fn bar_words(bar: &Bar) -> String {
    let bits = if bar.is_64_bit { "64-bit" } else { "32-bit" };
    let prefetchable = if bar.is_prefetchable { " prefetchable" } else { "" };
    format!("{}: {:#x} {} {bits}{prefetchable}", bar.index, bar.base, size_words(bar.size_bytes))
}

const LINK: [Field<Link>; 11] = [
    ("link", |link| link.name.clone()),
    ("upper port", |link| link.upper.clone()),
    ("lower port", |link| link.lower.clone()),
    ("rate", Link::rate),
    ("raw MB/s:", |link| megabytes(link.ceiling.raw_bytes_per_second)),
    ("less SKP:", |link| megabytes(link.ceiling.packet_bytes_per_second)),
    ("payload:", |link| format!("{} B", link.payload_bytes)),
    ("3 DW MB/s:", |link| megabytes(link.ceiling.payload_3dw_bytes_per_second)),
    ("MiB/s:", |link| mebibytes(link.ceiling.payload_3dw_bytes_per_second)),
    ("4 DW MB/s:", |link| megabytes(link.ceiling.payload_4dw_bytes_per_second)),
    ("MiB/s:", |link| mebibytes(link.ceiling.payload_4dw_bytes_per_second)),
];

const NETWORK: [Field<Network>; 6] = [
    ("adapter", |network| network.first.clone()),
    ("adapter", |network| network.second.clone()),
    ("MB/s:", |network| megabytes(network.bytes_per_second)),
    ("MTU:", |network| format!("{} B", network.mtu_bytes)),
    ("payload MB/s:", |network| megabytes(network.ceiling.payload_bytes_per_second)),
    ("latency:", |network| latency_words(network.latency_ns)),
];

const TORUS: [Field<Torus>; 8] = [
    ("nodes", |torus| format!("{} to {}", torus.first, torus.last)),
    ("size", |torus| torus.sizes.iter().map(u16::to_string).collect::<Vec<_>>().join(" x ")),
    ("ends", |torus| if torus.wraps { "joined" } else { "open" }.to_owned()),
    ("cables:", |torus| torus.cables.to_string()),
    ("lanes", |torus| {
        format!("x{} at {} Gb/s", torus.lanes, torus.lane_bits_per_second as f64 / 1e9)
    }),
    ("MB/s:", |torus| megabytes(torus.bytes_per_second)),
    ("payload MB/s:", |torus| megabytes(torus.ceiling.payload_bytes_per_second)),
    ("latency:", |torus| latency_words(torus.latency_ns)),
];

/// Formats the labs that are shipped.
pub fn lab_list(list: &LabList, columns: Columns) -> String {
    let mut table = Table::headed("lab | what it is");
    for lab in &list.labs {
        table.row([&*lab.name, &*lab.summary]);
        for variant in &lab.variants {
            table.row([format!("{}:{}", lab.name, variant.name), variant.summary.clone()]);
        }
    }
    table.to_text(columns.tables)
}

/// Makes the cell of a pair.
type CellOf<'a> = &'a dyn Fn(&MatrixPair) -> String;

/// Formats what every pair of a lab's endpoints can move: the ways between them, then figures. Wide
/// matrices are cut into blocks of columns.
pub fn matrix(matrix: &Matrix, columns: Columns) -> String {
    let mut text = String::new();
    let gigabytes = |rate: f64| format!("{:.2}", rate / 1e9);
    let way = |pair: &MatrixPair| pair.way.words().0.to_owned();
    let one_way = |pair: &MatrixPair| {
        let range = pair.one_way_range_bytes_per_second;
        figure(pair.one_way_bytes_per_second, range, gigabytes)
    };
    let both_ways = |pair: &MatrixPair| {
        let range = pair.both_ways_range_bytes_per_second;
        figure(pair.both_ways_bytes_per_second, range, gigabytes)
    };
    let latency = |pair: &MatrixPair| {
        figure(pair.read_latency_ns, pair.read_latency_range_ns, |ns| format!("{ns:.0}"))
    };
    let parts: [(&str, CellOf<'_>); 4] = [
        ("Way", &way),
        ("One way, from row to column, GB/s of payload", &one_way),
        ("Both ways at once, together, GB/s of payload", &both_ways),
        ("Read of 64 B, by row of column, ns", &latency),
    ];
    let pairs: BTreeMap<(&str, &str), &MatrixPair> =
        matrix.pairs.iter().map(|pair| ((&*pair.from, &*pair.to), pair)).collect();
    for (index, (title, cell)) in parts.iter().enumerate() {
        let _ = writeln!(text, "{}{title}\n", if index == 0 { "" } else { "\n" });
        text.push_str(&matrix_blocks(matrix, &pairs, *cell, columns));
        if index == 0 {
            text.push('\n');
            let used = Way::ALL.iter().filter(|way| matrix.pairs.iter().any(|it| it.way == **way));
            for way in used {
                let (word, meaning) = way.words();
                let _ = writeln!(text, "  {word}  {meaning}");
            }
        }
    }
    let has_range = |pair: &MatrixPair| {
        pair.one_way_range_bytes_per_second.is_some()
            || pair.both_ways_range_bytes_per_second.is_some()
            || pair.read_latency_range_ns.is_some()
    };
    if matrix.pairs.iter().any(has_range) {
        let words = "In brackets: what the ranges of the lab's constants allow, all at their slow \
                     ends and all at their fast ones. Ranges of less than 1 % are not shown.";
        let _ = writeln!(text, "\n{}", paragraph(words, columns));
    }
    let mut problems: BTreeMap<&str, Vec<&MatrixPair>> = BTreeMap::new();
    for pair in &matrix.pairs {
        if let Some(problem) = &pair.problem {
            problems.entry(problem).or_default().push(pair);
        }
    }
    for (index, (problem, pairs)) in problems.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let first = format!("{} to {}", pairs[0].from, pairs[0].to);
        let others = match pairs.len() {
            1 => String::new(),
            count => format!(" and {}", count_words(count - 1, "other pair", "other pairs")),
        };
        let _ = writeln!(text, "{gap}  {first}{others}: {problem}");
    }
    text
}

/// Formats a figure with its range, `13.10 (9.80-13.40)`, if that is wide enough.
fn figure(
    figure: Option<f64>,
    range: Option<FigureRange>,
    words: impl Fn(f64) -> String,
) -> String {
    /// Least width of a range that is shown, as a share of the figure.
    const LEAST: f64 = 0.01;
    let Some(figure) = figure else { return String::new() };
    let is_far = |range: &FigureRange| range.high - range.low > LEAST * figure;
    match range.filter(is_far) {
        Some(FigureRange { low, high }) => {
            format!("{} ({}-{})", words(figure), words(low), words(high))
        }
        None => words(figure),
    }
}

/// Formats one figure of all pairs, in as many blocks of columns as are needed.
fn matrix_blocks(
    matrix: &Matrix,
    pairs: &BTreeMap<(&str, &str), &MatrixPair>,
    cell: CellOf<'_>,
    columns: Columns,
) -> String {
    let widest = matrix.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    let cells = matrix.pairs.iter().map(|pair| cell(pair).chars().count());
    // Two blanks lie between columns, and figures without a range have up to six characters.
    let each = cells.max().unwrap_or(0).max(widest).max(6) + 2;
    let count = columns.tables.map_or(usize::MAX, |columns| columns.saturating_sub(widest) / each);
    let mut text = String::new();
    for (index, block) in matrix.nodes.chunks(count.max(1)).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let mut table = Table::headed("").with_numbers(block.iter().map(|node| node.name.clone()));
        for from in &matrix.nodes {
            let cells = block.iter().map(|to| {
                let pair = pairs.get(&(&*from.name, &*to.name));
                match (pair, from.name == to.name) {
                    (Some(pair), _) => cell(pair),
                    (None, true) => "x".to_owned(),
                    (None, false) => String::new(),
                }
            });
            table.row(std::iter::once(from.name.clone()).chain(cells));
        }
        text.push_str(&table.to_text(None));
    }
    text
}

/// Formats what a lab made from dumps has, and what they do not show.
pub fn lab_import(import: &LabImport, columns: Columns) -> String {
    /// Most devices of a part that are named.
    const NAMED: usize = 4;
    let mut table = Table::headed("endpoint | address | what it is | link | NUMA");
    for endpoint in &import.endpoints {
        let ids = format!("{}:{}", endpoint.vendor, endpoint.device);
        let called = endpoint.described.as_ref().unwrap_or(&endpoint.class_words);
        let link = endpoint.link.clone().unwrap_or_default();
        let link = match &endpoint.best_link {
            Some(best) if *best != link => format!("{link} of {best}"),
            _ => link,
        };
        let node = endpoint.numa_node.map_or_else(String::new, |node| node.to_string());
        let what = format!("{called} [{ids}]");
        table.row([endpoint.name.clone(), endpoint.address.clone(), what, link, node]);
    }
    let mut text = table.to_text(columns.tables);
    text.push_str("\nConstants that no register says are those of these parts (labs/parts):\n");
    let mut parts = Table::headed("part | what it is | devices");
    for part in &import.parts {
        let what = match part.is_match {
            true => part.summary.clone(),
            false => format!("no part matches; assumed: {}", part.summary),
        };
        let named = part.devices.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = match part.devices.len().checked_sub(NAMED) {
            None | Some(0) => String::new(),
            Some(more) => format!(" and {more} more"),
        };
        parts.row([part.part.clone(), what, format!("{named}{more}")]);
    }
    text.push('\n');
    text.push_str(&parts.to_text(columns.tables));
    if !import.gaps.is_empty() {
        text.push_str("\nNot shown, and assumed or left out:\n");
        for gap in &import.gaps {
            let _ = writeln!(text, "  {gap}");
        }
    }
    text
}

/// Formats the check of a lab file: a paragraph for the lab and for each variant.
pub fn lab_check(check: &LabFileCheck) -> String {
    check.checked.iter().map(|lab| check_words(&check.file, lab)).collect()
}

fn check_words(path: &str, check: &LabCheck) -> String {
    let variant = check.variant.as_ref().map_or(String::new(), |name| format!(", variant {name}"));
    let verdict = match check.warnings.len() {
        0 => "is fine".to_owned(),
        count => format!("can be built, with {}", count_words(count, "warning", "warnings")),
    };
    let mut text = format!(
        "{path}: lab {}{variant} {verdict}: {}, {}, {}, {}\n",
        check.lab,
        count_words(check.hosts, "host", "hosts"),
        count_words(check.links, "link", "links"),
        count_words(check.functions, "function", "functions"),
        count_words(check.constants, "constant", "constants"),
    );
    for (word, remarks) in [("warning", &check.warnings), ("note", &check.notes)] {
        for remark in remarks {
            let _ = writeln!(text, "  {word}: {}", remark.sentence);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crosslane_results::topology::MatrixNode;

    use super::*;
    use crate::tree::sample::small;

    #[test]
    fn branches_are_those_of_lspci() {
        let expected = "\
-[0000:00]-+-01.0-[01-04]----00.0-[02-04]--+-00.0-[03]----00.0  nic<0> [1234:0001]  Gen2 x4
           |                               \\-01.0-[04]----00.0  nic&1 [1234:0001]  Gen2 x4
           +-02.0-[05]----00.0  gpu [1234:0001]  Gen2 x4
           \\-03.0-[06]--
";
        assert_eq!(branches(&small().hosts[0], None), expected);
    }

    #[test]
    fn a_bus_with_one_function_has_no_stem() {
        let mut host = small().hosts.remove(0);
        host.functions.truncate(1);
        let drawing = branches(&host, None);
        assert!(drawing.starts_with("-[0000:00]---01.0-[01-04]----00.0-[02-04]--+-"), "{drawing}");
    }

    #[test]
    fn narrow_drawing_begins_each_bus_below_its_bridge() {
        let expected = "\
-[0000:00]
 +-01.0-[01-04]----00.0-[02-04]
 |  +-00.0-[03]----00.0  nic<0> [1234:0001]  Gen2 x4
 |  \\-01.0-[04]----00.0  nic&1 [1234:0001]  Gen2 x4
 +-02.0-[05]----00.0  gpu [1234:0001]  Gen2 x4
 \\-03.0-[06]--
";
        let host = &small().hosts[0];
        assert_eq!(branches(host, Some(60)), expected);
        assert_eq!(branches(host, Some(120)), branches(host, None));
        let narrow = branches(host, Some(40));
        assert!(
            narrow.contains(" +-01.0-[01-04]\n |  \\-00.0-[02-04]\n |     +-00.0-[03]\n"),
            "{narrow}"
        );
    }

    /// A figure has its range where that is wide enough, and columns have room for it.
    #[test]
    fn a_matrix_shows_wide_ranges() {
        let pair = |from: &str, to: &str, one: f64, low: f64, high: f64| MatrixPair {
            from: from.to_owned(),
            to: to.to_owned(),
            way: Way::RootComplex,
            one_way_bytes_per_second: Some(one * 1e9),
            one_way_range_bytes_per_second: Some(FigureRange { low: low * 1e9, high: high * 1e9 }),
            ..MatrixPair::default()
        };
        let node =
            |name: &str| MatrixNode { name: name.to_owned(), is_memory: false, socket: None };
        let ranged = Matrix {
            lab: "ranged".to_owned(),
            nodes: vec![node("gpu0"), node("nic0")],
            pairs: vec![
                pair("gpu0", "nic0", 13.1, 9.8, 13.4),
                pair("nic0", "gpu0", 7.2, 7.18, 7.24),
            ],
        };
        let text = matrix(&ranged, Columns::default());
        let rows = "\
gpu0     x  13.10 (9.80-13.40)
nic0  7.20                   x
";
        assert!(text.contains(rows), "{text}");
        assert_eq!(text.matches("In brackets").count(), 1, "{text}");
        let mut known = ranged;
        known.pairs.iter_mut().for_each(|pair| pair.one_way_range_bytes_per_second = None);
        let text = matrix(&known, Columns::default());
        assert!(text.contains("gpu0     x  13.10\n"), "{text}");
        assert!(!text.contains("In brackets"), "{text}");
    }

    #[test]
    fn text_has_every_table() {
        let text = topology(&small(), &[], Columns::default());
        insta::assert_snapshot!(text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""));
    }
}
