// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of the data link layer's timers: time until an Ack, an UpdateFC or a replay is due.
//!
//! Read first: base specification 3.6.2.1 (replay) and 3.6.3.1 (Ack latency), non-FLIT mode.
//! The tables there follow from one formula, in symbol times:
//!
//! `floor((Max_Payload_Size + 28) x AckFactor / lanes) + InternalDelay`
//!
//! Generation 6 is counted as generation 5: in FLIT mode DLLPs are in each FLIT, and the limits are
//! those of how long a receiver may keep an Ack or credits to itself.
//!
//! They depend on the payload size that is *set*, so take
//! [`ConfigSpace::max_payload_bytes`](crate::config::ConfigSpace::max_payload_bytes).

use crate::link::{Generation, Width};
use crate::units::Picoseconds;
use std::ops::RangeInclusive;

/// Bytes of header, digest, framing and LCRC that the formula adds to the payload
/// (PCIe 3.1 3.5.3.1, TLPOverhead).
pub const TLP_OVERHEAD_BYTES: u32 = 28;

/// Limit of the replay timer in Ack limits (PCIe 3.1 3.5.2.1).
pub const REPLAY_ACK_LIMITS: u32 = 3;

/// The simplified replay limit, symbol times: required from Gen4 on, recommended for all
/// (PCIe 6.x 3.6.2.1). It does not depend on width or payload.
pub const SIMPLIFIED_REPLAY_SYMBOLS: RangeInclusive<u32> = 24_000..=31_000;

/// Internal delay of a port of this rate, symbol times (PCIe 3.1 3.5.3.1).
pub const fn internal_delay_symbols(generation: Generation) -> u32 {
    match generation {
        Generation::Gen1 => 19,
        Generation::Gen2 => 70,
        Generation::Gen3 | Generation::Gen4 | Generation::Gen5 | Generation::Gen6 => 115,
    }
}

/// Packets of the largest size that a receiver may let pass before it acknowledges, in tenths (the
/// tables' AckFactor; PCIe 3.1 3.5.3.1). x12 and x32 have the factor of x16, as the published
/// replay table shows.
///
/// # Panics
/// If `max_payload_bytes` is not a power of two from 128 to 4096.
pub fn ack_factor_tenths(width: Width, max_payload_bytes: u32) -> u32 {
    assert!(
        max_payload_bytes.is_power_of_two() && (128..=4096).contains(&max_payload_bytes),
        "{max_payload_bytes} bytes is not a payload size"
    );
    match (width.lanes(), max_payload_bytes) {
        (1..=4, ..=256) => 14,
        (8, ..=256) => 25,
        (_, ..=256) => 30,
        (1..=8, _) => 10,
        (_, _) => 20,
    }
}

/// Longest time from the end of a TLP to the start of the Ack that covers it, in symbol times (PCIe
/// 3.1 3.5.3.1).
///
/// # Panics
/// If `max_payload_bytes` is not a power of two from 128 to 4096.
pub fn ack_latency_limit_symbols(
    generation: Generation,
    width: Width,
    max_payload_bytes: u32,
) -> u32 {
    let tenths = ack_factor_tenths(width, max_payload_bytes);
    let lanes = u32::from(width.lanes());
    (max_payload_bytes + TLP_OVERHEAD_BYTES) * tenths / (10 * lanes)
        + internal_delay_symbols(generation)
}

/// Time without an Ack until the oldest packet is sent again, in symbol times, as the tables give
/// it (PCIe 3.1 3.5.2.1; tolerance -0 %, +100 %): three Ack limits of that rate, internal delay
/// included.
///
/// From Gen4 on the specification has no table and requires [`SIMPLIFIED_REPLAY_SYMBOLS`]; the
/// result is then the lower end of that range, so that it is always a permitted limit.
///
/// # Panics
/// If `max_payload_bytes` is not a power of two from 128 to 4096.
pub fn replay_timer_symbols(generation: Generation, width: Width, max_payload_bytes: u32) -> u32 {
    let table = REPLAY_ACK_LIMITS * ack_latency_limit_symbols(generation, width, max_payload_bytes);
    match generation {
        Generation::Gen1 | Generation::Gen2 | Generation::Gen3 => table,
        Generation::Gen4 | Generation::Gen5 | Generation::Gen6 => {
            *SIMPLIFIED_REPLAY_SYMBOLS.start()
        }
    }
}

/// Converts `count` symbol times of this rate to a span.
pub const fn symbols(generation: Generation, count: u32) -> Picoseconds {
    Picoseconds(generation.symbol_ps() * count as u64)
}

/// [`ack_latency_limit_symbols`] as a span.
///
/// # Panics
/// If `max_payload_bytes` is not a power of two from 128 to 4096.
pub fn ack_latency_limit(
    generation: Generation,
    width: Width,
    max_payload_bytes: u32,
) -> Picoseconds {
    symbols(generation, ack_latency_limit_symbols(generation, width, max_payload_bytes))
}

/// [`replay_timer_symbols`] as a span.
///
/// # Panics
/// If `max_payload_bytes` is not a power of two from 128 to 4096.
pub fn replay_timer(generation: Generation, width: Width, max_payload_bytes: u32) -> Picoseconds {
    symbols(generation, replay_timer_symbols(generation, width, max_payload_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: &str = include_str!("../../../labs/published/ack-and-updatefc-latency.csv");
    const REPLAY: &str = include_str!("../../../labs/published/replay-timer-gen1.csv");

    #[test]
    fn every_row_of_the_published_ack_table() {
        let mut rows = 0;
        for line in ACK.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let generations: &[Generation] = match fields[0] {
                "gen1" => &[Generation::Gen1],
                "gen2" => &[Generation::Gen2],
                "gen3+" => &[Generation::Gen3, Generation::Gen4, Generation::Gen5],
                other => panic!("{other} is no generation"),
            };
            let width: Width = fields[1].parse().unwrap();
            let payload: u32 = fields[2].parse().unwrap();
            let factor: f64 = fields[3].parse().unwrap();
            assert_eq!(f64::from(ack_factor_tenths(width, payload)) / 10.0, factor, "{line}");
            for &generation in generations {
                assert_eq!(internal_delay_symbols(generation).to_string(), fields[4], "{line}");
                let limit = ack_latency_limit_symbols(generation, width, payload);
                assert_eq!(limit.to_string(), fields[5], "{line}");
            }
            rows += 1;
        }
        assert_eq!(rows, 90);
    }

    #[test]
    fn every_cell_of_the_published_replay_table() {
        let mut lines = REPLAY.lines();
        let widths: Vec<Width> =
            lines.next().unwrap().split(',').skip(1).map(|text| text.parse().unwrap()).collect();
        assert_eq!(widths, Width::ALL, "x12 and x32 too");
        let mut cells = 0;
        for line in lines {
            let mut fields = line.split(',').map(|text| text.parse::<u32>().unwrap());
            let payload = fields.next().unwrap();
            for (&width, published) in widths.iter().zip(fields) {
                let limit = replay_timer_symbols(Generation::Gen1, width, payload);
                assert_eq!(limit, published, "{width}, {payload} bytes");
                cells += 1;
            }
        }
        assert_eq!(cells, 42);
    }

    #[test]
    fn from_gen4_on_the_replay_limit_is_the_simplified_one() {
        for payload in [128, 256, 512, 1024, 2048, 4096] {
            for width in Width::ALL {
                for generation in Generation::ALL {
                    let limit = replay_timer_symbols(generation, width, payload);
                    let three = 3 * ack_latency_limit_symbols(generation, width, payload);
                    if generation < Generation::Gen4 {
                        assert_eq!(limit, three);
                    } else {
                        assert!(SIMPLIFIED_REPLAY_SYMBOLS.contains(&limit) && limit > three);
                    }
                }
            }
        }
    }

    #[test]
    fn limits_as_time() {
        let x4 = Width::new(4).unwrap();
        assert_eq!(ack_latency_limit(Generation::Gen1, x4, 128), Picoseconds(73 * 4_000));
        assert_eq!(ack_latency_limit(Generation::Gen2, x4, 256), Picoseconds(169 * 2_000));
        assert_eq!(replay_timer(Generation::Gen3, x4, 128), Picoseconds(3 * 169 * 1_000));
        assert_eq!(replay_timer(Generation::Gen5, x4, 128), Picoseconds::from_us(6));
    }

    #[test]
    fn the_recommended_update_limit_is_within_the_one_that_must_hold() {
        let x1 = Width::new(1).unwrap();
        let longest = ack_latency_limit(Generation::Gen1, x1, 4096);
        assert!(longest.0 < crate::credits::UPDATE_FC_LIMIT_PS, "{longest}");
    }

    #[test]
    #[should_panic(expected = "is not a payload size")]
    fn a_payload_that_no_register_holds_is_a_programmer_error() {
        let _ = ack_factor_tenths(Width::ALL[0], 192);
    }
}
