// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of errors on x8 at 5 Gb/s, exact in simulated time: computes each row about it in
//! `docs/torus-link.md`.

use crate::support;
use crate::support::cable;

use cable::{Cable, Faults};
use crosslane_torus_link::lanes::MAX_LANES;
use crosslane_torus_link::*;
use support::{Fate, Pair};

const PAGE: &str = include_str!("../../../../docs/torus-link.md");
const SYMBOL_PS: u64 = 250;
const LATENCY_PS: u64 = 136_000;

/// Reports all rows that are missing on the page together.
fn assert_on_page(rows: &[String]) {
    let missing: Vec<&String> = rows.iter().filter(|row| !PAGE.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "the page lacks {missing:#?}");
}

/// Returns when the last of `count` datagrams of side 0 arrives, and when both ends agree, with the
/// given frames lost: side, operation (`None` for datagrams), index among frames of that kind.
fn times(count: u32, lost: &[(usize, Option<Operation>, u32)]) -> (u64, u64) {
    let mut seen = [0_u32; 16];
    let parameters = EndParameters::for_wire(136 * SYMBOL_PS, LATENCY_PS);
    let mut pair = Pair::new(parameters, SYMBOL_PS, LATENCY_PS, |side, frame, _| {
        let sort = match frame {
            Frame::Datagram(_) => None,
            Frame::Command(command) => Some(command.operation),
        };
        let at = side * 8 + sort.map_or(0, |operation| operation as usize + 1);
        seen[at] += 1;
        if lost.contains(&(side, sort, seen[at])) { Fate::Damaged } else { Fate::Comes }
    });
    pair.sides[0].to_send[3] = count;
    assert!(pair.run(u64::MAX));
    pair.assert_done([count, 0]);
    (pair.sides[1].last_taken_at_ps, pair.now_ps)
}

#[test]
fn what_a_lost_frame_costs() {
    use Operation::{NotAcknowledge, Restart};
    let (plain_ps, _) = times(100, &[]);
    let cost = |lost: &[_]| times(100, lost).0 - plain_ps;
    let datagram = (0, None, 50);
    let mut rows = Vec::new();
    for (name, lost) in [
        ("a datagram", &[datagram][..]),
        ("a datagram and the NACK for it", &[datagram, (1, Some(NotAcknowledge), 1)]),
        ("a datagram and the RESTART behind it", &[datagram, (0, Some(Restart), 1)]),
        ("the last datagram", &[(0, None, 100)]),
    ] {
        rows.push(format!("| {name} | {:.0} |", cost(lost) as f64 / 1e3));
    }
    assert_on_page(&rows);
}

/// Share of 128/136 of the rate that remains with bit errors in both directions.
#[test]
fn what_bit_errors_cost() {
    let mut rows = Vec::new();
    for (rate, datagrams) in [0.0, 1e-7, 1e-6, 1e-5, 1e-4]
        .map(|rate| (rate, 20_000))
        .into_iter()
        .chain([(2e-4, 5_000), (5e-4, 2_000), (1e-3, 1_000)])
    {
        let mut shares = Vec::new();
        for ways in 1..=2 {
            let mut cable = Cable::new(8, 2_000, LATENCY_PS, [[(0, 0); MAX_LANES]; 2]);
            cable.enable();
            assert!(cable.run(10_000, Cable::are_up));
            for (at, side) in cable.sides.iter_mut().enumerate() {
                side.faults = Faults::new(rate, at as u64);
                side.to_send = if at < ways { datagrams } else { 0 };
            }
            assert!(cable.run(10_000_000, Cable::is_settled), "{rate}");
            for to in &cable.sides[2 - ways..] {
                let bytes = f64::from(to.taken - 1) * 128.0;
                let span_ps = to.last_taken_at_ps - to.first_taken_at_ps;
                // 4 B per nanosecond after 8b/10b.
                shares.push(bytes / (span_ps as f64 / 1e3) / (4.0 * 128.0 / 136.0));
            }
        }
        // The slower of both directions.
        let both = shares[1].min(shares[2]);
        rows.push(format!("| {rate:e} | {:.1} % | {:.1} % |", shares[0] * 100.0, both * 100.0));
    }
    assert_on_page(&rows);
}

#[test]
fn how_long_training_takes() {
    let mut rows = Vec::new();
    for (lanes, column_ps) in
        [(1, 4_000), (1, 2_000), (4, 4_000), (4, 2_000), (8, 4_000), (8, 2_000)]
    {
        let mut cable = Cable::new(lanes, column_ps, LATENCY_PS, [[(0, 0); MAX_LANES]; 2]);
        cable.enable();
        assert!(cable.run(10_000, Cable::are_up));
        let up_ps = cable.now_ps;
        cable.run(5_000, |_| false);
        cable.sides[0].cut[..lanes].fill(true);
        cable.run(5_000, |_| false);
        assert!(!cable.are_up());
        cable.sides[0].cut.fill(false);
        let mended_ps = cable.now_ps;
        assert!(cable.run(10_000, Cable::are_up));
        let gigabits = if column_ps == 4_000 { "2.5" } else { "5" };
        let again_ps = cable.now_ps - mended_ps;
        rows.push(format!("| {lanes} | {gigabits} | {} | {} |", up_ps / 1_000, again_ps / 1_000));
    }
    assert_on_page(&rows);
}
