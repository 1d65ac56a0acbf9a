// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `kc705`: the paper's figures within their tolerance, its conclusions, and the
//! current page.

use crate::support;

use std::sync::LazyLock;

use crosslane_lab::Provenance;
use crosslane_reproduce::comparison::{Kind, Row};
use crosslane_reproduce::reproduction::Reproduction;
use crosslane_reproduce::study::Effort;

/// The reproduction, run once for all tests.
static RUN: LazyLock<Reproduction> = LazyLock::new(|| support::reproduced("kc705"));
/// Its compared rows at full length, also run once.
static COMPARED: LazyLock<Vec<Row>> = LazyLock::new(|| support::compared("kc705", Effort::Full));

fn rows(quantity: &str) -> Vec<&'static Row> {
    RUN.rows().filter(|row| row.quantity == quantity).collect()
}

fn simulated(quantity: &str, conditions: &str) -> f64 {
    let found = rows(quantity).into_iter().find(|row| row.conditions == conditions);
    let row = found.unwrap_or_else(|| panic!("there is no {quantity}, {conditions}"));
    row.simulated.unwrap()
}

#[test]
fn the_page_is_what_is_simulated() {
    support::assert_page_is_fresh(&RUN);
}

/// Four rates within 4 %, the fitted ratio within 0.02; one constant fitted to two of them.
#[test]
fn every_figure_is_within_its_tolerance_and_three_are_predicted() {
    let published: Vec<&Row> = RUN.rows().filter(|row| row.published.is_some()).collect();
    for row in published.iter().copied().chain(&*COMPARED) {
        let off = (row.simulated.unwrap() - row.published.unwrap()).abs();
        match row.unit.as_str() {
            "MB/s" => assert!(off <= 0.04 * row.published.unwrap(), "{row:?}"),
            unit => assert!(unit == "ratio" && off <= 0.02, "{row:?}"),
        }
        assert_eq!(row.is_met(), Some(true), "{row:?}");
    }
    let kinds = |kind| COMPARED.iter().filter(|row| row.kind == kind).count();
    assert_eq!((COMPARED.len(), kinds(Kind::Fit), kinds(Kind::Predicted)), (5, 2, 3));
    assert_eq!(published.len(), 5);
    let lab = crosslane_lab::open("kc705").unwrap();
    assert_eq!(lab.constants().filter(|one| one.provenance == Provenance::Fit).count(), 1);
}

/// About 0.6 and 0.4 ns per byte beside the link.
#[test]
fn the_time_beside_the_link_comes_out_of_widths_and_clocks() {
    let ns = |way: &str| simulated("time beside the link", &format!("4 MiB; {way}"));
    assert!((0.55..0.65).contains(&ns("host to card")), "{}", ns("host to card"));
    assert!((0.35..0.45).contains(&ns("card to host")), "{}", ns("card to host"));
    // With 64 bits it is 0.94 ns more, and a second round trip for each 4 KiB.
    for way in ["host to card", "card to host"] {
        let narrow = simulated(&format!("{way}, 64 bit"), "Gen2 x4; 4 MiB");
        assert!(narrow < 520.0, "{way}: {narrow}");
    }
}

/// "Not simply twice".
#[test]
fn one_more_grade_of_link_does_not_double_the_rate() {
    for (way, quantity) in
        [("host to card", "dma_host_to_fpga"), ("card to host", "dma_fpga_to_host")]
    {
        let before = simulated(quantity, "Gen2 x4; 4 MB");
        for link in ["Gen2 x8", "Gen3 x4"] {
            let next = simulated(&format!("{way}, one more grade"), &format!("{link}; 4 MiB"));
            assert!((1.2..1.6).contains(&(next / before)), "{way}, {link}: {next}");
        }
    }
}

/// 64 transfers of 1 KiB in the ring: at least 25 times the paper's 58 MB/s.
#[test]
fn queued_transfers_are_25_times_as_fast() {
    for way in ["host to card", "card to host"] {
        let quantity = format!("{way}, our engine queued over the paper");
        let [row] = rows(&quantity)[..] else { panic!("one row of {quantity}") };
        assert!(row.simulated.unwrap() >= 25.0, "{row:?}");
    }
}

#[test]
fn shorter_transfers_of_a_sweep_say_the_same() {
    for (short, long) in support::compared("kc705", Effort::Quick).iter().zip(&*COMPARED) {
        assert_eq!(short.label, long.label);
        let (short, long) = (short.simulated.unwrap(), long.simulated.unwrap());
        assert!((short / long - 1.0).abs() < 0.1, "{short} and {long}");
    }
}
