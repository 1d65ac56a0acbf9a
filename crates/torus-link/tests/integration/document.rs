// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the budget's table in `docs/torus-link.md` against its formulas.

use crosslane_torus_link::EndParameters;
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
        assert_eq!(parameters.check(), Ok(()));
    }
}
