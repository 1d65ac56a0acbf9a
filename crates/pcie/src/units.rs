// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Units and addresses. Interfaces never take a bare integer: they take one of these types, or a
//! name that ends with its unit.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Bytes of a unit. Those of binary kind may leave out `iB`; decimal ones may not leave
/// out `B`.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KIB", 1 << 10),
    ("M", 1 << 20),
    ("MIB", 1 << 20),
    ("G", 1 << 30),
    ("GIB", 1 << 30),
    ("T", 1 << 40),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Bytes that a text names: digits with or without a unit behind them, such as `64`, `4K` or
/// `4KiB` (4096), or `1MB` (1000000), in upper or lower case. `None` if it names none, or if its
/// digits are beyond 64 bits.
pub fn bytes_of(text: &str) -> Option<u128> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let (_, scale) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    Some(u128::from(number.parse::<u64>().ok()?) * u128::from(*scale))
}

/// A span or a moment of simulated time, in picoseconds since the lab was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// The time span of length zero.
    pub const ZERO: Self = Self(0);
    /// A moment that never comes; later than every other.
    pub const NEVER: Self = Self(u64::MAX);

    /// Converts from whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// Converts from whole microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// Converts from whole milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// Converts from whole seconds. The longest span is 213 days.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000_000)
    }

    /// Converts from nanoseconds, rounded to the nearest picosecond; negative values become 0.
    pub fn from_ns_f64(ns: f64) -> Self {
        Self((ns * 1e3).round().max(0.0) as u64)
    }

    /// Converts to nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Converts to seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span from `earlier` to `self`, or zero where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Picoseconds {
    /// Converts a span of time; one that is too long becomes [`NEVER`](Self::NEVER).
    fn from(span: Duration) -> Self {
        u64::try_from(span.as_nanos().saturating_mul(1_000)).map_or(Self::NEVER, Self)
    }
}

impl Add for Picoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Picoseconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Picoseconds {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// Prints the value in the largest unit in which it is at least one after rounding to three
/// decimals: `706 ns`, `2.765 ms`.
impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1_000 {
            return write!(f, "{} ps", self.0);
        }
        let mut scale_ps: u128 = 1_000;
        let mut units = ["ns", "us", "ms", "s"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        let thousandths = loop {
            let thousandths = (u128::from(self.0) * 1_000 + scale_ps / 2) / scale_ps;
            if thousandths < 1_000_000 {
                break thousandths;
            }
            let Some(larger) = units.next() else { break thousandths };
            (unit, scale_ps) = (larger, scale_ps * 1_000);
        };
        let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text} {unit}")
    }
}

/// An address on the bus of one host, as memory requests carry it. Printed in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusAddress(pub u64);

impl BusAddress {
    /// Returns the address `bytes` above this one.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// Whether a request to this address needs the 4 DW header (PCIe 6.x 2.2.4.1: addresses
    /// below 4 GiB must use the 3 DW form).
    #[inline]
    pub const fn needs_four_dw_header(self) -> bool {
        self.0 > u32::MAX as u64
    }
}

impl fmt::Display for BusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// Index of one of a lab's hosts, each with its own address space and bus numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

/// A bus address together with the host it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostAddress {
    /// The host whose address space `address` is in.
    pub host: HostId,
    /// The address in that space.
    pub address: BusAddress,
}

/// Bus, device and function number: 8, 5 and 3 bits (PCIe 6.x 2.2.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingId(pub u16);

impl RoutingId {
    /// Builds the ID from its three numbers; `device` is taken modulo 32 and `function` modulo 8.
    pub const fn new(bus: u8, device: u8, function: u8) -> Self {
        Self(((bus as u16) << 8) | (((device & 0x1f) as u16) << 3) | (function & 7) as u16)
    }

    /// Bus number, 0 to 255.
    #[inline]
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Device number, 0 to 31.
    pub const fn device(self) -> u8 {
        ((self.0 >> 3) & 0x1f) as u8
    }

    /// Function number, 0 to 7.
    pub const fn function(self) -> u8 {
        (self.0 & 7) as u8
    }
}

/// Prints the ID as `lspci` does: `03:00.0`.
impl fmt::Display for RoutingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus(), self.device(), self.function())
    }
}

/// A transaction's tag: 5, 8 or 10 bits (PCIe 6.x 2.2.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_in_the_unit_that_fits() {
        for (ps, expected) in [
            (0, "0 ps"),
            (999, "999 ps"),
            (1_000, "1 ns"),
            (1_001, "1.001 ns"),
            (706_000, "706 ns"),
            (999_999, "999.999 ns"),
            (1_000_000, "1 us"),
            (1_234_567, "1.235 us"),
            (100_000_000, "100 us"),
            (999_999_499, "999.999 us"),
            (999_999_500, "1 ms"),
            (2_765_432_100, "2.765 ms"),
            (1_000_000_000_000, "1 s"),
            (3_600_000_000_000_000, "3600 s"),
        ] {
            assert_eq!(Picoseconds(ps).to_string(), expected, "{ps} ps");
        }
    }

    #[test]
    fn spans_from_and_to_other_units() {
        assert_eq!(Picoseconds::from_ns(3), Picoseconds(3_000));
        assert_eq!(Picoseconds::from_us(3), Picoseconds::from_ns(3_000));
        assert_eq!(Picoseconds::from_ms(3), Picoseconds::from_us(3_000));
        assert_eq!(Picoseconds::from_secs(3), Picoseconds::from_ms(3_000));
        assert_eq!(Picoseconds::from(Duration::from_millis(3)), Picoseconds::from_ms(3));
        assert_eq!(Picoseconds::from(Duration::MAX), Picoseconds::NEVER);
        assert_eq!(Picoseconds::from_ns_f64(126.953_125), Picoseconds(126_953));
        assert_eq!(Picoseconds::from_ns_f64(-1.0), Picoseconds::ZERO);
        assert_eq!(Picoseconds(1_500).as_ns(), 1.5);
        assert_eq!(Picoseconds(2_000_000_000_000).as_seconds(), 2.0);
        assert_eq!(Picoseconds(5).since(Picoseconds(3)), Picoseconds(2));
        assert_eq!(Picoseconds(3).since(Picoseconds(5)), Picoseconds::ZERO);
        assert_eq!(Picoseconds(3) + Picoseconds(4) - Picoseconds(2), Picoseconds(5));
    }

    #[test]
    fn addresses_and_ids_as_they_are_printed() {
        assert_eq!(BusAddress(0xfe00_1000).offset(0x10).to_string(), "0xfe001010");
        assert_eq!(RoutingId::new(3, 0, 0).to_string(), "03:00.0");
        assert_eq!(RoutingId::new(0xaf, 0x1f, 7).to_string(), "af:1f.7");
        let id = RoutingId::new(0x12, 0x23, 9);
        assert_eq!((id.bus(), id.device(), id.function()), (0x12, 3, 1), "modulo 32 and 8");
    }

    #[test]
    fn addresses_from_4_gib_on_need_the_long_header() {
        assert!(!BusAddress(0xffff_ffff).needs_four_dw_header());
        assert!(BusAddress(0x1_0000_0000).needs_four_dw_header());
    }
}
