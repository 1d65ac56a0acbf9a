// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the budget's table in `docs/torus-link.md` against its formulas.

use crosslane_torus_link::EndParameters;
use crosslane_torus_link::block::SKIP_INTERVAL_ROWS;
use crosslane_torus_link::lanes::{SKIP_COLUMNS, SKIP_INTERVAL_COLUMNS};

const PAGE: &str = include_str!("../../../../docs/torus-link.md");
const LATENCY_PS: u64 = 136_000;
const ACKNOWLEDGE: u64 = 8;

/// Formats with a comma before the last three digits of the whole part.
fn grouped(number: String) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    match whole.len() {
        0..=3 => number,
        _ => format!("{},{}{rest}", &whole[..whole.len() - 3], &whole[whole.len() - 3..]),
    }
}

#[test]
fn the_budget_is_what_it_computes() {
    for (lanes, gigabits, symbol_ps) in
        [(1, "2.5", 4_000), (1, "5", 2_000), (4, "2.5", 4_000), (4, "5", 2_000)]
            .into_iter()
            .chain([(8, "2.5", 4_000), (8, "5", 2_000)])
    {
        let datagram_ps = 136 / lanes * symbol_ps;
        let command_ps = 8 / lanes * symbol_ps;
        let skip_ps = u64::from(SKIP_COLUMNS) * symbol_ps;
        let round_trip_ps = (ACKNOWLEDGE + 1) * datagram_ps + command_ps + skip_ps + 2 * LATENCY_PS;
        let least = round_trip_ps.div_ceil(datagram_ps);
        let nack_round_trip_ps = 2 * (LATENCY_PS + datagram_ps + command_ps) + skip_ps;
        let interval = f64::from(SKIP_INTERVAL_COLUMNS);
        let of_skip_sets = interval / (interval + f64::from(SKIP_COLUMNS));
        let rate = lanes as f64 * 1e6 / symbol_ps as f64;
        let one_way = rate * 128.0 / 136.0 * of_skip_sets;
        let acknowledged = ACKNOWLEDGE as f64;
        let both = rate * 128.0 * acknowledged / (136.0 * acknowledged + 8.0) * of_skip_sets;
        let row = format!(
            "| {lanes} | {gigabits} | {} | {} | {} | {least} | {} | {} |",
            grouped(format!("{rate}")),
            grouped((datagram_ps / 1_000).to_string()),
            grouped((round_trip_ps / 1_000).to_string()),
            grouped(format!("{one_way:.1}")),
            grouped(format!("{both:.1}")),
        );
        assert!(PAGE.contains(&row), "the page lacks\n{row}");
        let parameters = EndParameters::for_wire(datagram_ps, LATENCY_PS);
        assert!(u64::from(parameters.retry_datagrams) >= least);
        assert!(u64::from(parameters.channel_datagrams) >= least);
        assert!(parameters.acknowledge_within_ps > ACKNOWLEDGE * datagram_ps);
        assert!(parameters.retry_timeout_ps > round_trip_ps + parameters.acknowledge_within_ps);
        assert!(parameters.refresh_ps > 8 * ACKNOWLEDGE * datagram_ps + round_trip_ps);
        assert!(parameters.refresh_ps > 4 * nack_round_trip_ps);
        assert_eq!(parameters.check(), Ok(()));
    }
}

/// Shares of a rate that are payload of `bytes` a datagram, one way and both ways.
fn shares(bytes: f64, of_skip_sets: f64) -> [f64; 2] {
    let acknowledged = ACKNOWLEDGE as f64;
    let both = bytes * acknowledged / ((bytes + 8.0) * acknowledged + 8.0);
    [bytes / (bytes + 8.0), both].map(|share| share * of_skip_sets)
}

#[test]
fn the_budget_of_blocks_is_what_it_computes() {
    let rows = f64::from(SKIP_INTERVAL_ROWS);
    let of_skip_rows = rows / (rows + 1.0);
    for lanes in [1, 4, 8_u64] {
        for (gigabits, lane_block_ps) in [("2.5", 26_400), ("5", 13_200)] {
            let block_ps = lane_block_ps / lanes;
            let datagram_ps = 33 * block_ps;
            let skip_ps = 2 * lane_block_ps;
            let round_trip_ps =
                (ACKNOWLEDGE + 1) * datagram_ps + block_ps + skip_ps + 2 * LATENCY_PS;
            let least = round_trip_ps.div_ceil(datagram_ps);
            let rate = 8e6 / block_ps as f64;
            let [one_way, both] = shares(256.0, of_skip_rows).map(|share| rate * share);
            let row = format!(
                "| {lanes} | {gigabits} | {} | {} | {} | {least} | {} | {} |",
                grouped(format!("{rate:.1}")),
                grouped(format!("{:.2}", datagram_ps as f64 / 1e3)),
                grouped((round_trip_ps / 1_000).to_string()),
                grouped(format!("{one_way:.1}")),
                grouped(format!("{both:.1}")),
            );
            assert!(PAGE.contains(&row), "the page lacks\n{row}");
            let parameters = EndParameters::for_wire(datagram_ps, LATENCY_PS);
            assert!(u64::from(parameters.retry_datagrams) >= least);
        }
    }
    let columns = f64::from(SKIP_INTERVAL_COLUMNS);
    let of_skip_sets = columns / (columns + f64::from(SKIP_COLUMNS));
    for (code, of_code, skipped) in
        [("8b/10b", 0.8, of_skip_sets), ("64b/66b", 64.0 / 66.0, of_skip_rows)]
    {
        for bytes in [128.0, 256.0] {
            let [one_way, both] = shares(bytes, skipped).map(|share| 100.0 * of_code * share);
            let row = format!("| {code} | {bytes} | {one_way:.1} % | {both:.1} % |");
            assert!(PAGE.contains(&row), "the page lacks\n{row}");
        }
    }
}
