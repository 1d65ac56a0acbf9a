// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables 1 and 2 of the paper: the rates of the links, by its formula and exactly.

use crosslane_pcie::ceiling::{skp_factor, write_ceiling_bytes_per_second};
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_report::{Plot, Table};

use crate::comparison::Row;
use crate::experiment::{Experiment, mebibytes, paragraphs};
use crate::plots::{ceiling, ours, payloads, published, rates};
use crate::published::PublishedFigures;

/// Bytes that the paper adds to the payload of each packet: 20 of the packet itself, and 3 for Ack,
/// UpdateFC and everything else without data.
const DOCUMENT_OVERHEAD_BYTES: f64 = 23.0;
/// Payloads of the tables, bytes.
const PAYLOADS_BYTES: [u32; 6] = [8, 16, 32, 64, 128, 256];
/// Header of a write below 4 GiB, double words.
const HEADER_DW: u32 = 3;

/// Returns the share of data on a link, by the paper's formula 1.
pub(super) fn formula(payload_bytes: u32) -> f64 {
    let payload = f64::from(payload_bytes);
    payload / (payload + DOCUMENT_OVERHEAD_BYTES)
}

/// Returns Gen2 with this number of lanes.
pub(super) fn gen2(lanes: u8) -> LinkRate {
    let width = Width::new(lanes).expect("the paper has x4 and x8");
    LinkRate { generation: Generation::Gen2, width }
}

/// Returns bytes per second by the paper's formula, less SKP ordered sets.
pub(super) fn limit_with_skp(rate: LinkRate, payload_bytes: u32) -> f64 {
    rate.bytes_per_second() * skp_factor(rate) * formula(payload_bytes)
}

/// Computes the limits, by arithmetic alone.
pub(super) fn run(figures: &PublishedFigures) -> Experiment {
    let mut table = Table::headed(
        "payload B: | x/(x+23): | x4 formula: | with SKP: | x4 exact: | x8 formula: | \
         with SKP: | x8 exact:",
    );
    let mut rows = Vec::new();
    for payload in PAYLOADS_BYTES {
        let mut cells = vec![payload.to_string(), format!("{:.4}", formula(payload))];
        for lanes in [4, 8] {
            let rate = gen2(lanes);
            let without = rate.bytes_per_second() * formula(payload);
            let with = limit_with_skp(rate, payload);
            let exact = write_ceiling_bytes_per_second(rate, HEADER_DW, payload);
            cells.extend([without, with, exact].map(|limit| format!("{:.1}", mebibytes(limit))));
            let link = format!("x{lanes} Gen2; MPS {payload}");
            let by_formula = format!("{link}; the paper's formula with SKP");
            rows.push(if payload == 128 {
                figures.compare("limit", &by_formula, mebibytes(with))
            } else {
                Row::simulated("limit", &by_formula, "MiB/s", mebibytes(with))
            });
            let conditions = format!("{link}; the paper's formula without SKP");
            rows.push(Row::simulated("limit", &conditions, "MiB/s", mebibytes(without)));
            let conditions = format!("{link}; 3 DW headers, no DLLPs");
            rows.push(Row::simulated("ceiling", &conditions, "MiB/s", mebibytes(exact)));
        }
        table.row(cells);
    }
    Experiment {
        title: "Limits of Gen2 links, MiB/s (Tables 1 and 2)",
        text: paragraphs([
            "3 of the 23 B are for DLLPs; SKP: times 1 - 4/1538; exact: 20 B a packet, SKP, no \
             DLLPs.",
        ]),
        tables: vec![table],
        plots: vec![plot(figures)],
        rows,
        ..Experiment::default()
    }
}

/// Plots both formulas for both widths.
fn plot(figures: &PublishedFigures) -> Plot {
    let mut series = Vec::new();
    for lanes in [8, 4] {
        let by = |limit: fn(LinkRate, u32) -> f64| {
            PAYLOADS_BYTES.map(|bytes| (f64::from(bytes), mebibytes(limit(gen2(lanes), bytes))))
        };
        let exact: fn(LinkRate, u32) -> f64 =
            |rate, bytes| write_ceiling_bytes_per_second(rate, HEADER_DW, bytes);
        series.push(ceiling(format!("x{lanes}: 20 B a packet, SKP"), by(exact)));
        series.push(ours(format!("x{lanes}: the paper's formula with SKP"), by(limit_with_skp)));
        let conditions = format!("x{lanes} Gen2; MPS 128; the paper's formula with SKP");
        let value = figures.value("limit", &conditions);
        let name = format!("x{lanes}: the paper's formula with SKP");
        series.push(published(&name, [(128.0, value)]));
    }
    rates("What links of Gen2 can carry (Tables 1 and 2)", payloads(), series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_limits_follow_from_its_formula() {
        let mebibytes = |limit: f64| format!("{:.1}", limit / 1_048_576.0);
        assert_eq!(mebibytes(limit_with_skp(gen2(4), 128)), "1612.6");
        assert_eq!(mebibytes(limit_with_skp(gen2(8), 128)), "3225.2");
        assert_eq!(mebibytes(gen2(4).bytes_per_second() * formula(128)), "1616.8");
    }
}
