// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any page: it is written without a panic, as well-formed HTML with well-formed drawings.
//!
//! `cargo test` tries some hundred random inputs; `tools/corpus.py NAME` fuzzes with coverage and
//! writes the inputs that each run replays first.

use crate::support;

use bolero::TypeGenerator;
use crosslane_report::*;
use crosslane_results::topology::{Function, FunctionKind, Host, Link, LinkCeiling, Topology};
use crosslane_results::{DirectionLoad, TimeUse, Use};
use support::assert_well_formed;

/// Random inputs of the target in an ordinary test run.
const ITERATIONS: usize = 400;

/// A number of any kind: an ordinary one, a small integer, any bits, or an odd one.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct Number(u8, i16, u64);

impl Number {
    fn value(self) -> f64 {
        let Self(kind, small, bits) = self;
        match kind % 8 {
            0..=2 => f64::from(small),
            3 => f64::from(small).exp2(),
            4 => f64::from_bits(bits),
            5 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][bits as usize % 4],
            6 => [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324][bits as usize % 4],
            _ => bits as f64 / u64::MAX as f64,
        }
    }
}

/// A text of any kind, sometimes a very long one.
#[derive(Clone, Debug, TypeGenerator)]
struct Words(String, u8);

impl Words {
    fn text(&self) -> String {
        match self.1 {
            0..=3 => self.0.repeat(200),
            4..=7 => "a very long name without an end ".repeat(20),
            8..=20 => "<script>\"'&]]></style>".to_owned(),
            _ => self.0.clone(),
        }
    }
}

#[derive(Clone, Debug, TypeGenerator)]
struct AnySeries(Words, u8, Vec<(Number, Number)>);

#[derive(Clone, Debug, TypeGenerator)]
struct AnyAxis(Words, Words, u8, Vec<Words>);

impl AnyAxis {
    fn axis(&self) -> Axis {
        let scale = match self.2 % 4 {
            0 | 1 => Scale::Linear,
            2 => Scale::Logarithmic,
            _ => Scale::Categories(self.3.iter().map(Words::text).collect()),
        };
        let unit = if self.2 & 16 == 0 { "B".to_owned() } else { self.1.text() };
        Axis { label: self.0.text(), unit, scale }
    }
}

#[derive(Clone, Debug, TypeGenerator)]
struct AnyNode(Words, Words, u8, [Number; 4], Vec<Words>);

#[derive(Clone, Debug, TypeGenerator)]
enum AnyBlock {
    Text(Words),
    Verdict(Words),
    Plot(Words, AnyAxis, AnyAxis, Vec<AnySeries>),
    Table(Words, Vec<(Words, bool)>, Vec<Vec<(Words, bool)>>, bool),
    Bars(Words, Vec<(Words, Vec<(Words, Number)>)>),
    Topology(Words, Vec<AnyNode>),
}

fn parts(parts: &[(Words, Number)]) -> Vec<(String, f64)> {
    parts.iter().map(|(name, share)| (name.text(), share.value())).collect()
}

/// Makes a topology of the nodes, each of which is a host or hangs below an earlier one, with the
/// loads of its links.
fn figure(title: &Words, nodes: &[AnyNode]) -> TopologyFigure {
    let mut topology = Topology { lab: title.text(), ..Topology::default() };
    let mut loads = Vec::new();
    for AnyNode(name, detail, place, numbers, empty) in nodes {
        let port = |child: Option<Function>| Function {
            port: name.text(),
            children: child.into_iter().collect(),
            ..Function::default()
        };
        let ports: Vec<Function> = empty.iter().map(|_| port(None)).collect();
        let Some(host) = topology.hosts.last_mut().filter(|_| *place >= 30) else {
            let memory_bytes = numbers[0].2;
            let name = name.text();
            let host = Host { name, memory_bytes, functions: ports, ..Host::default() };
            topology.hosts.push(host);
            continue;
        };
        let mut above = &mut host.functions;
        for _ in 0..place % 5 {
            // A port has at most one node below it, which has the ports of the next bus.
            if above.last().is_none_or(|port| port.children.is_empty()) {
                break;
            }
            above = &mut above.last_mut().unwrap().children[0].children;
        }
        let mut load = |from: String, to: String, at: usize| {
            loads.push(DirectionLoad {
                direction: format!("{from} -> {to}"),
                link: detail.text(),
                payload_bytes_per_second: numbers[at + 1].value(),
                busy_share: numbers[at].value(),
                uses: vec![TimeUse { what: Use::Payload, share: numbers[at].value() }],
            });
        };
        if place & 32 == 0 {
            load(detail.text(), name.text(), 0);
        }
        if place & 64 == 0 {
            load(name.text(), detail.text(), 2);
        }
        let raw_bytes_per_second = numbers[3].value();
        let link = Link {
            name: name.text(),
            upper: detail.text(),
            lower: name.text(),
            generation: *place,
            width: *place,
            payload_bytes: u32::from(*place),
            ceiling: LinkCeiling {
                raw_bytes_per_second,
                packet_bytes_per_second: raw_bytes_per_second,
                payload_3dw_bytes_per_second: raw_bytes_per_second,
                payload_4dw_bytes_per_second: raw_bytes_per_second,
            },
        };
        let kinds = [FunctionKind::Endpoint, FunctionKind::UpstreamPort];
        let node = Function {
            address: detail.text(),
            node: name.text(),
            kind: kinds[usize::from(place % 2)],
            secondary_bus: (place & 128 == 0).then_some(*place),
            subordinate_bus: Some(*place),
            link: Some(link),
            children: ports,
            ..Function::default()
        };
        above.push(port(Some(node)));
    }
    TopologyFigure { title: title.text(), topology, loads }
}

fn block(block: &AnyBlock) -> Block {
    match block {
        AnyBlock::Text(words) => Block::Text(words.text()),
        AnyBlock::Verdict(words) => Block::Verdict(words.text()),
        AnyBlock::Plot(title, x, y, series) => {
            let kinds =
                [SeriesKind::Ours, SeriesKind::Published, SeriesKind::Ceiling, SeriesKind::Stacked];
            let series = series.iter().map(|AnySeries(name, kind, points)| Series {
                name: name.text(),
                kind: kinds[usize::from(kind % 4)],
                points: points.iter().map(|(x, y)| (x.value(), y.value())).collect(),
            });
            let (x, y) = (x.axis(), y.axis());
            Block::Plot(Plot { title: title.text(), x, y, series: series.collect() })
        }
        AnyBlock::Table(title, columns, rows, is_searchable) => {
            let align = |right| if right { Align::Right } else { Align::Left };
            let column = |(heading, right): &(Words, bool)| Column {
                heading: heading.text(),
                align: align(*right),
            };
            let cell = |(words, bad): &(Words, bool)| Cell { text: words.text(), is_bad: *bad };
            Block::Table(Table {
                title: title.text(),
                columns: columns.iter().map(column).collect(),
                rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
                is_searchable: *is_searchable,
                ..Table::default()
            })
        }
        AnyBlock::Bars(title, bars) => {
            let bars = bars.iter().map(|(name, all)| Bar { name: name.text(), parts: parts(all) });
            Block::Bars(Bars { title: title.text(), bars: bars.collect() })
        }
        AnyBlock::Topology(title, nodes) => Block::Topology(figure(title, nodes)),
    }
}

#[test]
fn fuzz_any_page() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_type::<(Words, Vec<(Words, Words)>, Vec<(Words, Vec<AnyBlock>)>)>()
        .for_each(|(title, facts, sections)| {
            let page = Page {
                title: title.text(),
                summary: title.text(),
                facts: facts.iter().map(|(name, value)| (name.text(), value.text())).collect(),
                sections: sections
                    .iter()
                    .map(|(title, blocks)| Section {
                        title: title.text(),
                        blocks: blocks.iter().map(block).collect(),
                    })
                    .collect(),
            };
            assert_well_formed(&page.to_html());
        });
}

/// Plots alone, with many values: bolero's random pages have few.
#[test]
fn fuzz_any_plot() {
    bolero::check!()
        .with_iterations(4 * ITERATIONS)
        .with_type::<(AnyAxis, AnyAxis, Vec<AnySeries>)>()
        .for_each(|(x, y, series)| {
            let plot =
                AnyBlock::Plot(Words("plot".into(), 255), x.clone(), y.clone(), series.clone());
            let page = Page {
                title: "page".into(),
                summary: String::new(),
                facts: Vec::new(),
                sections: vec![Section { title: "plot".into(), blocks: vec![block(&plot)] }],
            };
            assert_well_formed(&page.to_html());
        });
}

/// A stand-alone drawing of a tree.
#[test]
fn fuzz_any_tree() {
    bolero::check!().with_iterations(ITERATIONS).with_type::<(Words, Vec<AnyNode>)>().for_each(
        |(title, nodes)| {
            let svg = topology_svg(&figure(title, nodes).topology);
            roxmltree::Document::parse(&svg).unwrap();
        },
    );
}
