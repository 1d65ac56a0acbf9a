// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of pages share: a page with one text everywhere, and whether a page is well formed.

use crosslane_report::*;
use html5ever::parse_document;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::RcDom;

/// A page with every kind of block, and `text` in every place that has one.
#[allow(dead_code, reason = "not every test needs it")]
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
        }),
        Block::Bars(Bars {
            title: text(),
            bars: vec![Bar { name: text(), parts: vec![(text(), 0.25), (text(), 0.5)] }],
        }),
        Block::Topology(Topology { title: text(), hosts: vec![host(&text())] }),
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

fn host(text: &str) -> TopologyNode {
    let load =
        DirectionLoad { busy: 0.5, payload_bytes_per_second: 1e9, parts: vec![(text.into(), 0.5)] };
    let endpoint = || TopologyNode::new(NodeKind::Endpoint, text, text);
    let mut loaded = TopologyLink::new(text, endpoint());
    (loaded.down, loaded.up) = (Some(load.clone()), Some(load));
    let mut idle = TopologyLink::new(text, endpoint());
    for link in [&mut loaded, &mut idle] {
        (link.name, link.upper, link.lower) = (text.into(), text.into(), text.into());
        link.note = text.into();
    }
    let mut host = TopologyNode::new(NodeKind::Host, text, text);
    host.links = vec![loaded, idle];
    host.empty_ports = vec![text.into()];
    host
}

/// Panics if the document has a parse error, or a drawing that is no XML.
pub fn assert_well_formed(html: &str) {
    let errors = parse_document(RcDom::default(), Default::default()).one(html).errors;
    assert!(errors.borrow().is_empty(), "{:?}", errors.borrow());
    for drawing in html.split("<svg").skip(1) {
        let end = drawing.find("</svg>").expect("a drawing ends");
        let drawing = format!("<svg{}</svg>", &drawing[..end]);
        if let Err(error) = roxmltree::Document::parse(&drawing) {
            panic!("{error}: {drawing}");
        }
        // No place or length is anything but a number.
        for attribute in ["d", "x", "y", "width", "height", "cx", "cy", "viewBox"] {
            for value in drawing.split(&format!(" {attribute}=\"")).skip(1) {
                let value = value.split('"').next().unwrap_or("");
                assert!(!value.contains("NaN") && !value.contains("inf"), "{attribute}={value}");
            }
        }
    }
}
