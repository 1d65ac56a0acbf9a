// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Highest rate that a link can carry, in closed form, to compare a measured rate with.
//!
//! Read first: [`crate::link`]. Rates are in bytes per second of one direction, decimal. They leave
//! out DLLPs, which depend on the traffic and are therefore counted rather than assumed.
//!
//! ```
//! use crosslane_pcie::ceiling::*;
//! use crosslane_pcie::link::{Generation, LinkRate, Width};
//!
//! // Gen2 x4, payloads of 128 bytes under 20 bytes of framing and 3 DW header.
//! let rate = LinkRate { generation: Generation::Gen2, width: Width::new(4).unwrap() };
//! assert_eq!(rate.bytes_per_second(), 2.0e9);
//! assert_eq!(payload_efficiency(rate.generation, 3, 128), 128.0 / 148.0);
//! let megabytes = write_ceiling_bytes_per_second(rate, 3, 128) / 1e6;
//! assert_eq!(format!("{megabytes:.1}"), "1725.2");
//! // With 64-bit addresses, and with payloads of 256 bytes.
//! let megabytes = write_ceiling_bytes_per_second(rate, 4, 128) / 1e6;
//! assert_eq!(format!("{megabytes:.1}"), "1679.8");
//! let megabytes = write_ceiling_bytes_per_second(rate, 3, 256) / 1e6;
//! assert_eq!(format!("{megabytes:.1}"), "1850.2");
//! ```

use crate::link::{Generation, LinkRate};

/// Header of a completion, and of a memory request below 4 GiB, in DW (PCIe 6.x 2.2.4, 2.2.9).
pub const COMPLETION_HEADER_DW: u32 = 3;

/// Payload's share of a TLP's bytes on the wire, 0 to 1.
pub fn payload_efficiency(generation: Generation, header_dw: u32, payload_bytes: u32) -> f64 {
    let payload = f64::from(payload_bytes);
    payload / (payload + f64::from(generation.tlp_framing_bytes() + 4 * header_dw))
}

/// Share of a link's time that SKP ordered sets leave to packets, 0 to 1: one minus length over
/// interval.
pub fn skp_factor(rate: LinkRate) -> f64 {
    let rule = rate.skp_rule();
    1.0 - rule.length_ticks as f64 / rule.interval_ticks as f64
}

/// Bytes per second that a link has for packets, SKP ordered sets taken off.
pub fn link_ceiling_bytes_per_second(rate: LinkRate) -> f64 {
    rate.bytes_per_second() * skp_factor(rate)
}

/// Payload bytes per second of a link filled with TLPs of `header_dw` DW header and `payload_bytes`
/// each, SKP ordered sets taken off.
pub fn link_payload_ceiling(rate: LinkRate, header_dw: u32, payload_bytes: u32) -> f64 {
    link_ceiling_bytes_per_second(rate)
        * payload_efficiency(rate.generation, header_dw, payload_bytes)
}

/// Payload bytes per second of memory writes with `header_dw` 3 (below 4 GiB) or 4.
pub fn write_ceiling_bytes_per_second(rate: LinkRate, header_dw: u32, payload_bytes: u32) -> f64 {
    link_payload_ceiling(rate, header_dw, payload_bytes)
}

/// Payload bytes per second of reads answered by completions of `completion_payload_bytes` each,
/// the size that the completer really sends rather than Max_Payload_Size. The direction of the
/// completions is the bound.
pub fn read_ceiling_bytes_per_second(rate: LinkRate, completion_payload_bytes: u32) -> f64 {
    link_payload_ceiling(rate, COMPLETION_HEADER_DW, completion_payload_bytes)
}

/// Reads of `request_bytes` in flight that are enough to fill a link's ceiling: rate times round
/// trip over request, rounded up. `round_trip_seconds` is from a request's start to its last byte.
pub fn reads_in_flight(
    ceiling_bytes_per_second: f64,
    round_trip_seconds: f64,
    request_bytes: u32,
) -> u32 {
    (ceiling_bytes_per_second * round_trip_seconds / f64::from(request_bytes)).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Width;
    use crate::link::tests::rate;

    #[test]
    fn efficiencies_of_the_facts_table() {
        for (payload, three, four) in
            [(128, "0.865", "0.842"), (256, "0.928", "0.914"), (512, "0.962", "0.955")]
        {
            let share = |header_dw| payload_efficiency(Generation::Gen3, header_dw, payload);
            assert_eq!(format!("{:.3}", share(3)), three);
            assert_eq!(format!("{:.3}", share(4)), four);
        }
    }

    #[test]
    fn skp_factors() {
        for generation in 1..=2 {
            for width in Width::ALL {
                let factor = skp_factor(rate(generation, width.lanes()));
                assert!((factor - (1.0 - 4.0 / 1538.0)).abs() < 1e-15);
            }
        }
        // One block in 375, and the four bytes of the EDS token spread over the lanes.
        let expected = 1.0 - (16.0 + 4.0 / 8.0) / (375.0 * 16.0);
        assert!((skp_factor(rate(3, 8)) - expected).abs() < 1e-15);
    }

    #[test]
    fn ceilings_of_links() {
        let megabytes = |value: f64| format!("{:.1}", value / 1e6);
        // 2.0e9 x (1 - 4/1538) and x 128/148.
        assert_eq!(megabytes(link_ceiling_bytes_per_second(rate(2, 4))), "1994.8");
        assert_eq!(megabytes(write_ceiling_bytes_per_second(rate(1, 1), 3, 128)), "215.7");
        assert_eq!(megabytes(write_ceiling_bytes_per_second(rate(2, 8), 3, 256)), "3700.5");
        // 8 GT/s x 8 lanes x 128/130 / 8 bits = 7876.9 MB/s before SKP.
        assert_eq!(megabytes(rate(3, 8).bytes_per_second()), "7876.9");
        assert_eq!(megabytes(write_ceiling_bytes_per_second(rate(3, 8), 3, 256)), "7286.0");
        assert_eq!(megabytes(read_ceiling_bytes_per_second(rate(3, 8), 64)), "5985.0");
        // 64 GT/s x 16 lanes x 236/256 x 256/268, no framing.
        assert_eq!(megabytes(write_ceiling_bytes_per_second(rate(6, 16), 3, 256)), "112410.7");
    }

    #[test]
    fn reads_under_way_to_fill_a_link() {
        // 2 GB/s x 1 us = 2000 bytes: four reads of 512.
        assert_eq!(reads_in_flight(2.0e9, 1e-6, 512), 4);
        assert_eq!(reads_in_flight(2.0e9, 1e-6, 500), 4);
        assert_eq!(reads_in_flight(2.0e9, 1e-6, 4096), 1);
    }
}
