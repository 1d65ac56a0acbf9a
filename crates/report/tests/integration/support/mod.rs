// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared by tests of pages: a page with one text everywhere, and the check of a page's form.

use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_report::*;
use crosslane_results::topology::{Function, Host, Link, Topology};
use crosslane_results::{DirectionLoad, TimeUse, Use};
use html5ever::parse_document;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::RcDom;

/// Returns a page with every kind of block, and `text` in every position that can hold one.
pub fn page_of_everything(text: &str) -> Page {
    let text = || text.to_owned();
    let cell = |is_bad| Cell { text: text(), is_bad };
    let blocks = vec![
        Block::Text(text()),
        Block::Verdict(text()),
        Block::Plot(plot(&text(), Scale::Logarithmic)),
        Block::Plot(plot(&text(), Scale::Categories(vec![text(), text(), text()]))),
        Block::Table(Table {
            title: text(),
            columns: vec![Column { heading: text(), align: Align::Right }],
            rows: vec![vec![cell(true)], vec![cell(false)]],
            is_searchable: true,
            ..Table::default()
        }),
        Block::Bars(Bars {
            title: text(),
            bars: vec![Bar { name: text(), parts: vec![(text(), 0.25), (text(), 0.5)] }],
        }),
        Block::Topology(figure(&text())),
        Block::Topology(TopologyFigure { loads: Vec::new(), ..figure(&text()) }),
    ];
    Page {
        title: text(),
        summary: text(),
        facts: vec![(text(), text())],
        sections: vec![
            Section { title: text(), blocks: blocks.clone() },
            Section { title: text(), blocks },
        ],
    }
}

fn plot(text: &str, scale: Scale) -> Plot {
    let axis = |scale| Axis { label: text.into(), unit: text.into(), scale };
    let series = |kind| Series { name: text.into(), kind, points: vec![(1.0, 2.0), (2.0, 3.0)] };
    Plot {
        title: text.into(),
        x: axis(scale),
        y: axis(Scale::Linear),
        series: [SeriesKind::Ours, SeriesKind::Published, SeriesKind::Ceiling].map(series).into(),
    }
}

/// A host with two endpoints, and a load in each direction of both links.
fn figure(text: &str) -> TopologyFigure {
    let load = DirectionLoad {
        direction: format!("{text} -> {text}"),
        link: text.into(),
        payload_bytes_per_second: 1e9,
        busy_share: 0.5,
        uses: vec![TimeUse { what: Use::Payload, share: 0.5 }],
    };
    let rate =
        LinkRate { generation: Generation::from_number(3).unwrap(), width: Width::new(8).unwrap() };
    let endpoint = Function {
        address: text.into(),
        node: text.into(),
        link: Some(Link::new(text, text, text, rate, 256)),
        ..Function::default()
    };
    let port = |children| Function { port: text.into(), children, ..Function::default() };
    let functions = vec![port(vec![endpoint.clone()]), port(vec![endpoint]), port(vec![])];
    let host = Host { name: text.into(), memory_bytes: 1 << 30, functions, ..Host::default() };
    let topology = Topology { lab: text.into(), hosts: vec![host], ..Topology::default() };
    TopologyFigure { title: text.into(), topology, loads: vec![load] }
}

/// Panics if the document has a parse error, or a drawing is not well-formed XML.
pub fn assert_well_formed(html: &str) {
    let errors = parse_document(RcDom::default(), Default::default()).one(html).errors;
    assert!(errors.borrow().is_empty(), "{:?}", errors.borrow());
    for drawing in html.split("<svg").skip(1) {
        let end = drawing.find("</svg>").expect("a drawing ends");
        let drawing = format!("<svg{}</svg>", &drawing[..end]);
        if let Err(error) = roxmltree::Document::parse(&drawing) {
            panic!("{error}: {drawing}");
        }
        // Every position and length is a number.
        for attribute in ["d", "x", "y", "width", "height", "cx", "cy", "viewBox"] {
            for value in drawing.split(&format!(" {attribute}=\"")).skip(1) {
                let value = value.split('"').next().unwrap_or("");
                assert!(!value.contains("NaN") && !value.contains("inf"), "{attribute}={value}");
            }
        }
    }
}
