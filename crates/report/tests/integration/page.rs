// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages as documents: their content, and that data are never taken for markup.

use crate::support;

use crosslane_report::*;
use support::{assert_well_formed, page_of_everything};

#[test]
fn page_is_the_same_bytes_again_and_says_its_maker() {
    let page = page_of_everything("first").to_html();
    assert_eq!(page, page_of_everything("first").to_html());
    assert_ne!(page, page_of_everything("other").to_html());
    let maker = format!("<meta name=\"generator\" content=\"{GENERATOR}\">");
    // Programs look for it at the head of the file.
    assert!(page.find(&maker).is_some_and(|at| at < 200), "{}", &page[..400]);
}

#[test]
fn nothing_of_the_data_is_markup() {
    let plain = page_of_everything("x").to_html();
    for text in ["<script>alert(1)</script>", "\" onload=\"alert(1)", "</style>", "]]>", "a&b;\0'"]
    {
        let page = page_of_everything(text).to_html();
        assert_well_formed(&page);
        // Every kind of element occurs as often as with plain text in the same positions.
        for element in ["<script", "</script", "<style", "<svg", "<title", "<h2", "<td", "<a "] {
            let (found, wanted) = (page.matches(element).count(), plain.matches(element).count());
            assert_eq!(found, wanted, "{element} with {text:?}");
        }
        assert!(!page.contains(" onload=\"alert"), "{text:?}");
    }
}

#[test]
fn nothing_is_fetched() {
    let page = page_of_everything("p").to_html();
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    for wrong in ["src=\"", "http://", "https://", "@import", "url(", "unsafe-inline", " style=\""]
    {
        let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        let page = page.replace("\"http://www.w3.org/2000/svg\"", "");
        assert!(!page.contains(wrong), "{wrong}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#'), "{}", &link[..40]);
    }
}

#[test]
fn sections_have_anchors_that_the_contents_lead_to() {
    let page = page_of_everything("Same").to_html();
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let distinct: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "no id comes twice: {ids:?}");
    for link in page.split("href=\"#").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(ids.contains(&target), "{target}");
    }
}

fn only(block: Block) -> String {
    let section = Section { title: "Section".into(), blocks: vec![block] };
    let page = Page {
        title: "Page".into(),
        summary: String::new(),
        facts: Vec::new(),
        sections: vec![section],
    };
    let html = page.to_html();
    assert_well_formed(&html);
    html
}

fn plot(points: Vec<(f64, f64)>) -> Plot {
    let axis = |scale| Axis { label: "axis".into(), unit: "B".into(), scale };
    let series = Series { name: "line".into(), kind: SeriesKind::Ours, points };
    Plot {
        title: "Plot".into(),
        x: axis(Scale::Logarithmic),
        y: axis(Scale::Linear),
        series: vec![series],
    }
}

#[test]
fn odd_values_are_left_out_and_that_is_said() {
    let html = only(Block::Plot(plot(vec![(0.0, 1.0), (f64::NAN, 1.0), (4096.0, f64::INFINITY)])));
    assert!(html.contains("No values to draw."));
    assert!(
        html.contains("Left out: 2 values not finite, 1 value 0 or less on a logarithmic axis.")
    );
    let html = only(Block::Plot(plot(vec![(4096.0, 1.0), (0.0, 1.0)])));
    assert!(html.contains("Left out: 1 value 0 or less"));
    assert!(html.contains("<title>line\n4 KiB: 1 B</title>"), "{html}");
    let html = only(Block::Plot(plot(Vec::new())));
    assert!(html.contains("No values to draw.") && !html.contains("Left out"));
}

#[test]
fn many_values_make_no_large_page() {
    let points = (1..=10_000).map(|n| (f64::from(n), f64::from(n % 100))).collect();
    let html = only(Block::Plot(plot(points)));
    assert!(html.len() < 500_000, "{} bytes", html.len());
    assert!(html.contains("Of 10000 values"));
}

#[test]
fn bad_cells_are_marked_in_words_too() {
    let cell = |text: &str, is_bad| Cell { text: text.into(), is_bad };
    let column = |heading: &str, align| Column { heading: heading.into(), align };
    let table = Table {
        title: "Table".into(),
        columns: vec![column("Name", Align::Left), column("MB/s", Align::Right)],
        rows: vec![
            vec![cell("a", false), cell("1.0", true)],
            vec![cell("short", false)],
            vec![cell("b", false), cell("2.0", false), cell("more", false)],
        ],
        is_searchable: true,
        ..Table::default()
    };
    let html = only(Block::Table(table));
    assert!(html.contains("marks 1 value to look at."));
    assert!(html.contains("to look at: ") && html.contains("data-searchable"));
    assert!(html.contains("more"), "a cell without a heading is shown");
}

/// Bars are stacked; a line joins our values over their names.
#[test]
fn bars_are_stacked() {
    let axis = |scale| Axis { label: "time".into(), unit: "ns".into(), scale };
    let series = |name: &str, kind, values: [f64; 2]| Series {
        name: name.into(),
        kind,
        points: vec![(0.0, values[0]), (1.0, values[1])],
    };
    let plot = |second| Plot {
        title: "Time of a byte".into(),
        x: axis(Scale::Categories(vec!["x1".into(), "x4".into()])),
        y: axis(Scale::Linear),
        series: vec![
            series("link", SeriesKind::Stacked, [8.0, 2.0]),
            series("beside", SeriesKind::Stacked, [second, second]),
            series("measured", SeriesKind::Ours, [9.0, 3.0]),
        ],
    };
    let html = |plot: Plot| {
        let sections = vec![Section { title: "s".into(), blocks: vec![Block::Plot(plot)] }];
        let (title, summary) = ("t".into(), String::new());
        Page { title, summary, facts: Vec::new(), sections }.to_html()
    };
    let page = html(plot(1.0));
    // Two bars of each part, drawn wide and narrow; a key of each part in the legend.
    assert_eq!(page.matches("<title>link\nx").count(), 2 * 2);
    assert_eq!(page.matches("<rect class=\"mark\"").count(), 2);
    assert!(page.contains("link\nx1: 8 ns") && page.contains("beside\nx4: 1 ns"));
    // Position and height of the bars over x1 in the first drawing.
    let bar = |name: &str| {
        let end = page.find(&format!("<title>{name}\nx1")).unwrap();
        let (_, path) = page[..end].rsplit_once(" d=\"M").unwrap();
        let numbers: Vec<f64> =
            path.split(['h', 'v', ' ', '-', 'z']).filter_map(|text| text.parse().ok()).collect();
        // The middle of its upper edge, half of its width, its height.
        (numbers[1], numbers[3])
    };
    let ((link_y, link_height), (beside_y, beside_height)) = (bar("link"), bar("beside"));
    assert!((beside_y + beside_height - link_y).abs() < 0.6, "one stands upon the other");
    assert!((link_height / beside_height - 8.0).abs() < 0.5, "{link_height} {beside_height}");
}
