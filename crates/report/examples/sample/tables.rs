// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables and bars of the sample.

use crosslane_report::{Align, Bar, Bars, Cell, Column, Table};

fn columns(columns: &[(&str, Align)]) -> Vec<Column> {
    let column =
        |(heading, align): &(&str, Align)| Column { heading: (*heading).into(), align: *align };
    columns.iter().map(column).collect()
}

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), is_bad: false }
}

/// Published beside simulated.
pub fn rates() -> Table {
    let rows = [
        ("64 KiB", 1662.0, 1672.8),
        ("128 KiB", 1668.0, 1678.4),
        ("256 KiB", 1671.0, 1681.2),
        ("512 KiB", 1590.0, 1682.6),
        ("1 MiB", 1673.0, 1683.4),
    ];
    let rows = rows.map(|(size, published, simulated)| {
        let error: f64 = (simulated / published - 1.0) * 100.0;
        vec![
            cell(size),
            cell(format!("{published:.1}")),
            cell(format!("{simulated:.1}")),
            Cell { text: format!("{error:+.1} %"), is_bad: error.abs() > 3.0 },
            cell("prediction"),
        ]
    });
    Table {
        title: "Published and simulated".into(),
        columns: columns(&[
            ("Size", Align::Right),
            ("Published, MB/s", Align::Right),
            ("Simulated, MB/s", Align::Right),
            ("Error", Align::Right),
            ("Kind", Align::Left),
        ]),
        rows: rows.to_vec(),
        ..Table::default()
    }
}

/// The next bottlenecks.
pub fn lifted() -> Table {
    let rows = [
        ("wire of the first link", "1683.4", "3290.1", "request gap of the engine"),
        ("request gap of the engine", "1683.4", "1725.0", "wire of the first link"),
    ];
    Table {
        title: "If a bottleneck were lifted".into(),
        columns: columns(&[
            ("Lifted", Align::Left),
            ("Now, MB/s", Align::Right),
            ("Then, MB/s", Align::Right),
            ("Next bottleneck", Align::Left),
        ]),
        rows: rows.map(|(a, b, c, d)| vec![cell(a), cell(b), cell(c), cell(d)]).to_vec(),
        ..Table::default()
    }
}

/// A table with a search field.
pub fn figures() -> Table {
    let rows = (0_u32..60).map(|number| {
        let (from, to) = (number % 8 + 1, (number * 5 + 3) % 8 + 1);
        let rate = 1683.4 - f64::from(number * 37 % 101);
        let kind = ["write", "read", "copy"][number as usize % 3];
        vec![
            cell(format!("figure {}", number + 1)),
            cell(format!("fpga{from}")),
            cell(format!("fpga{to}")),
            cell(kind),
            cell(if number == 17 { "–".to_owned() } else { format!("{rate:.1}") }),
            cell(["64 B", "4 KiB", "1 MiB", "256 B"][number as usize % 4]),
        ]
    });
    Table {
        title: "Every figure".into(),
        columns: columns(&[
            ("Figure", Align::Left),
            ("From", Align::Left),
            ("To", Align::Left),
            ("Kind", Align::Left),
            ("MB/s", Align::Right),
            ("Size", Align::Right),
        ]),
        rows: rows.collect(),
        is_searchable: true,
        ..Table::default()
    }
}

/// Bars that divide the time of links.
pub fn bars() -> Bars {
    let bar = |name: &str, shares: [f64; 6]| {
        let names = ["payload", "headers", "DLLPs", "SKP", "nothing to send", "no credit"];
        let parts = names.iter().map(|name| (*name).to_owned()).zip(shares);
        Bar { name: name.into(), parts: parts.filter(|part| part.1 > 0.0).collect() }
    };
    Bars {
        title: "Time of fpga1 → rc47a.down0".into(),
        bars: vec![
            bar("64 B", [0.11, 0.034, 0.002, 0.003, 0.851, 0.0]),
            bar("4 KiB", [0.61, 0.095, 0.004, 0.003, 0.108, 0.18]),
            bar("1 MiB", [0.842, 0.132, 0.0, 0.003, 0.023, 0.0]),
        ],
    }
}
