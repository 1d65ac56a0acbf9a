// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane topo`: the topology of a lab as text, JSON or a drawing. Text has branches as
//! `lspci -tv` draws them, then a table of the functions and one of the links.

use std::fmt::Write as _;

use crosslane::experiment::topology;
use crosslane::lab::Lab;
use crosslane::labs::forbidden_peers;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::quantity::{mebibytes, megabytes, size_words};
use crosslane::results::topology::{Bar, Function, Host, Topology};
use crosslane_report::text::paragraph;
use crosslane_report::{Table, topology_svg};

use crate::arguments::TopoArguments;
use crate::error::CommandError;
use crate::output;
use crate::output_file::{Kind, OutputFile};
use crate::terminal::{columns, shown};

/// Room for a bridge and the first function below it, columns: ` \-00.0-[02-04]----00.0-[03-04]`.
const BRIDGE_COLUMNS: usize = 28;

/// `topo`.
///
/// # Errors
/// A lab that has a problem, and a file that cannot be written.
pub fn run(arguments: &TopoArguments) -> Result<(), CommandError> {
    let lab = Lab::load(&arguments.lab)?;
    let svg = arguments.svg.as_deref().map(|path| OutputFile::file(path, Kind::Drawing));
    let svg = svg.transpose()?;
    let topology = topology(&lab, &lab.build(1)?);
    if let Some(svg) = svg {
        svg.write(topology_svg(&topology).as_bytes())?;
    }
    if arguments.json {
        return output::print_json(&topology);
    }
    let mut page = page(&topology);
    for (number, remark) in forbidden_peers(&lab, &topology).into_iter().enumerate() {
        let gap = if number == 0 { "\n" } else { "" };
        let _ = writeln!(page, "{gap}  note: {}", remark.sentence);
    }
    output::print(&page)
}

/// Draws the branches of one host, each line ended.
fn branches(host: &Host) -> String {
    drawn(host, None)
}

/// The same in no more columns, if a wide drawing has more: the functions of a bus begin below
/// their bridge, not behind it.
fn branches_within(host: &Host, columns: usize) -> String {
    let wide = branches(host);
    match wide.lines().all(|line| line.chars().count() <= columns) {
        true => wide,
        false => drawn(host, Some(columns)),
    }
}

fn drawn(host: &Host, columns: Option<usize>) -> String {
    let (line, lines, stems) = ("-[0000:00]-".to_owned(), String::new(), String::new());
    let mut drawing = Drawing { line, lines, columns, stems };
    drawing.bus(&host.functions);
    drawing.lines
}

/// The line that is being drawn, and those that are done.
struct Drawing {
    line: String,
    lines: String,
    /// Columns of the terminal; `None` for a drawing as `lspci -tv` makes it.
    columns: Option<usize>,
    /// In a narrow drawing the blanks and branches before the functions of a bus.
    stems: String,
}

impl Drawing {
    /// All functions of one bus, each with what is below it, behind what the line has now.
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

    /// The functions of one bus, each on a line of its own below their bridge.
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

    /// Begins the next line: of the first `stem` characters of the last one only the vertical
    /// branches go on.
    fn blank_but_stems(&mut self, stem: usize) {
        let goes_on = |c| if matches!(c, '+' | '|') { '|' } else { ' ' };
        self.line = self.line.chars().take(stem).map(goes_on).collect();
    }
}

fn function_rows(topology: &Topology) -> Table {
    let mut table =
        Table::headed("function | port | kind | link | port can do | MPS: | most: | MRRS: | BARs")
            .least_first(&["BARs", "most", "port can do", "MRRS"]);
    for host in &topology.hosts {
        for function in host.all_functions() {
            let below = |child: &Function| child.link.as_ref().map(|link| link.rate());
            let link = below(function).or_else(|| match function.children.first() {
                Some(child) => below(child),
                None => None,
            });
            let bars: Vec<String> = function.bars.iter().map(bar_words).collect();
            table.row([
                address_words(topology, host, function),
                function.port.clone(),
                function.kind.words().into(),
                link.unwrap_or_else(|| "-".into()),
                function.max_rate(),
                function.max_payload_bytes.to_string(),
                function.max_payload_supported_bytes.to_string(),
                function.max_read_request_bytes.to_string(),
                if bars.is_empty() { "-".into() } else { bars.join(", ") },
            ]);
        }
    }
    table
}

/// The address, with the host's name in front where there are several hosts.
fn address_words(topology: &Topology, host: &Host, function: &Function) -> String {
    if topology.hosts.len() > 1 {
        format!("{} {}", host.name, function.address)
    } else {
        function.address.to_string()
    }
}

fn bar_words(bar: &Bar) -> String {
    let bits = if bar.is_64_bit { "64-bit" } else { "32-bit" };
    let prefetchable = if bar.is_prefetchable { " prefetchable" } else { "" };
    format!("{}: {:#x} {} {bits}{prefetchable}", bar.index, bar.base, size_words(bar.size_bytes))
}

fn link_rows(topology: &Topology) -> Table {
    let mut table = Table::headed(
        "link | upper port | lower port | rate | raw MB/s: | less SKP: | payload: | 3 DW MB/s: | \
         MiB/s: | 4 DW MB/s: | MiB/s:",
    )
    .least_first(&["MiB/s", "less SKP", "raw MB/s", "4 DW MB/s", "link"]);
    for link in topology.links() {
        let ceilings = link.ceiling;
        table.row([
            link.name.clone(),
            link.upper.clone(),
            link.lower.clone(),
            link.rate(),
            megabytes(ceilings.raw_bytes_per_second),
            megabytes(ceilings.packet_bytes_per_second),
            format!("{} B", link.payload_bytes),
            megabytes(ceilings.payload_3dw_bytes_per_second),
            mebibytes(ceilings.payload_3dw_bytes_per_second),
            megabytes(ceilings.payload_4dw_bytes_per_second),
            mebibytes(ceilings.payload_4dw_bytes_per_second),
        ]);
    }
    table
}

fn network_rows(topology: &Topology) -> Table {
    let mut table = Table::headed("adapter | adapter | MB/s: | MTU: | payload MB/s: | latency:")
        .least_first(&["MB/s"]);
    for network in &topology.networks {
        table.row([
            network.first.clone(),
            network.second.clone(),
            megabytes(network.bytes_per_second),
            format!("{} B", network.mtu_bytes),
            megabytes(network.ceiling.payload_bytes_per_second),
            latency_words(network.latency_ns),
        ]);
    }
    table
}

fn torus_rows(topology: &Topology) -> Table {
    let mut table =
        Table::headed("nodes | size | ends | cables: | lanes | MB/s: | payload MB/s: | latency:")
            .least_first(&["MB/s", "lanes"]);
    for torus in &topology.tori {
        let (first, last) = (&torus.first, &torus.last);
        let sizes: Vec<String> = torus.sizes.iter().map(u16::to_string).collect();
        let gigabits = torus.lane_bits_per_second as f64 / 1e9;
        table.row([
            format!("{first} to {last}"),
            sizes.join(" x "),
            if torus.wraps { "joined" } else { "open" }.to_owned(),
            torus.cables.to_string(),
            format!("x{} at {gigabits} Gb/s", torus.lanes),
            megabytes(torus.bytes_per_second),
            megabytes(torus.ceiling.payload_bytes_per_second),
            latency_words(torus.latency_ns),
        ]);
    }
    table
}

fn latency_words(ns: f64) -> String {
    Picoseconds((ns * 1e3).round() as u64).to_string()
}

fn page(topology: &Topology) -> String {
    let mut page = String::new();
    for host in &topology.hosts {
        let _ = writeln!(page, "{}: {} of memory", host.name, size_words(host.memory_bytes));
        let columns = columns().tables;
        let drawing = columns.map_or_else(|| branches(host), |it| branches_within(host, it));
        page.push_str(&drawing);
        page.push('\n');
    }
    page.push_str("Functions (Max_Payload_Size and Max_Read_Request_Size in bytes)\n\n");
    page.push_str(&shown(&function_rows(topology)));
    let ceilings = "Ceilings of one direction of each link: payload in TLPs of Max_Payload_Size \
                    with 3 DW and 4 DW headers, SKP ordered sets taken off, DLLPs not";
    let _ = writeln!(page, "\n{}", paragraph(ceilings, columns()));
    page.push_str(&shown(&link_rows(topology)));
    if !topology.networks.is_empty() {
        page.push_str("\nNetwork links, each way: payload in packets of the MTU\n\n");
        page.push_str(&shown(&network_rows(topology)));
    }
    if !topology.tori.is_empty() {
        page.push_str(
            "\nTorus links, each way: after 8b/10b; payload of datagrams, skip sets taken off, \
             commands not\n\n",
        );
        page.push_str(&shown(&torus_rows(topology)));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosslane::pcie::link::{Generation, LinkRate, Width};
    use crosslane::results::topology::{FunctionKind, Link};

    fn rate(generation: u8, lanes: u8) -> LinkRate {
        LinkRate {
            generation: Generation::from_number(generation).unwrap(),
            width: Width::new(lanes).unwrap(),
        }
    }

    fn function(address: (u8, u8), node: &str, port: &str, kind: FunctionKind) -> Function {
        Function {
            address: format!("{:02x}:{:02x}.0", address.0, address.1),
            node: node.into(),
            port: port.into(),
            kind,
            vendor: "1234".into(),
            device: "0001".into(),
            max_payload_bytes: 128,
            max_payload_supported_bytes: 256,
            max_read_request_bytes: 512,
            max_generation: 3,
            max_width: 8,
            ..Function::default()
        }
    }

    fn bridge(mut function: Function, buses: (u8, u8), children: Vec<Function>) -> Function {
        (function.secondary_bus, function.subordinate_bus) = (Some(buses.0), Some(buses.1));
        function.children = children;
        function
    }

    fn linked(mut function: Function, name: &str, upper: &str, rate: LinkRate) -> Function {
        function.link = Some(Link::new(name, upper, &function.port, rate, 128));
        function
    }

    fn endpoint(bus: u8, name: &str, upper: &str) -> Function {
        let mut endpoint = function((bus, 0), name, name, FunctionKind::Endpoint);
        endpoint.bars.push(Bar {
            index: 0,
            base: 0xe000_0000 + (u64::from(bus) << 20),
            size_bytes: 1 << 20,
            ..Bar::default()
        });
        linked(endpoint, &format!("{name}-link"), upper, rate(2, 4))
    }

    /// A host with a switch (two endpoints), an endpoint, and an empty slot.
    fn small_tree() -> Topology {
        let down = |device, bus: u8, child| {
            let port = format!("sw.down{device}");
            let down = function((2, device), "sw", &port, FunctionKind::DownstreamPort);
            bridge(down, (bus, bus), vec![child])
        };
        let up = function((1, 0), "sw", "sw.up", FunctionKind::UpstreamPort);
        let up = bridge(
            up,
            (2, 4),
            vec![
                down(0, 3, endpoint(3, "nic<0>", "sw.down0")),
                down(1, 4, endpoint(4, "nic&1", "sw.down1")),
            ],
        );
        let up = linked(up, "slot", "host.root1", rate(2, 8));
        let root = |device| {
            let port = format!("host.root{device}");
            function((0, device), "host", &port, FunctionKind::RootPort)
        };
        Topology {
            lab: "small".into(),
            hosts: vec![Host {
                name: "host".into(),
                memory_bytes: 16 << 30,
                functions: vec![
                    bridge(root(1), (1, 4), vec![up]),
                    bridge(root(2), (5, 5), vec![endpoint(5, "gpu", "host.root2")]),
                    bridge(root(3), (6, 6), vec![]),
                ],
            }],
            networks: Vec::new(),
            tori: Vec::new(),
        }
    }

    #[test]
    fn branches_are_those_of_lspci() {
        let expected = "\
-[0000:00]-+-01.0-[01-04]----00.0-[02-04]--+-00.0-[03]----00.0  nic<0> [1234:0001]  Gen2 x4
           |                               \\-01.0-[04]----00.0  nic&1 [1234:0001]  Gen2 x4
           +-02.0-[05]----00.0  gpu [1234:0001]  Gen2 x4
           \\-03.0-[06]--
";
        assert_eq!(branches(&small_tree().hosts[0]), expected);
    }

    #[test]
    fn a_bus_with_one_function_has_no_stem() {
        let mut host = small_tree().hosts.remove(0);
        host.functions.truncate(1);
        let drawing = branches(&host);
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
        let host = &small_tree().hosts[0];
        assert_eq!(branches_within(host, 60), expected);
        assert_eq!(branches_within(host, 120), branches(host));
        let narrow = branches_within(host, 40);
        assert!(
            narrow.contains(" +-01.0-[01-04]\n |  \\-00.0-[02-04]\n |     +-00.0-[03]\n"),
            "{narrow}"
        );
    }

    #[test]
    fn page() {
        let page = super::page(&small_tree());
        insta::assert_snapshot!(anstream::adapter::strip_str(&page));
    }
}
