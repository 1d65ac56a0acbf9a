// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities as text, pages and sentences write them: rates, shares, times, sizes, counts.

use crosslane_pcie::units::Picoseconds;

/// Binary units, largest first.
const BINARY: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Formats a number with one decimal; zero after rounding has no sign.
pub fn one_decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// Formats a rate in MB/s (10^6 bytes a second) with one decimal.
pub fn megabytes(bytes_per_second: f64) -> String {
    one_decimal(bytes_per_second / 1e6)
}

/// Formats a rate in MiB/s (2^20 bytes a second) with one decimal.
pub fn mebibytes(bytes_per_second: f64) -> String {
    one_decimal(bytes_per_second / f64::from(1 << 20))
}

/// Formats a share of one in percent with one decimal.
pub fn percent(share: f64) -> String {
    one_decimal(share * 100.0)
}

/// Formats a time in microseconds with three decimals: to the nanosecond.
pub fn microseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e6)
}

/// Formats a time in the unit that suits it: `1.5 us`.
pub fn time_words(ps: u64) -> String {
    Picoseconds(ps).to_string()
}

/// Formats a size in the largest binary unit that divides it: `64 B`, `1536 B`, `4 MiB`.
pub fn size_words(bytes: u64) -> String {
    let mut units = BINARY.into_iter();
    match units.find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale)) {
        Some((unit, scale)) => format!("{} {unit}", bytes / scale),
        None => format!("{bytes} B"),
    }
}

/// A size written as shortly as it can be without loss: `64`, `4K`, `1M`.
pub fn short_size(bytes: u64) -> String {
    for (unit, scale) in [("T", 1_u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    bytes.to_string()
}

/// Formats a count and its noun: `1 host`, `3 switches`.
pub fn count_words(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        assert_eq!(megabytes(1_725_184_000.0), "1725.2");
        assert_eq!(mebibytes(1_048_576.0 * 1603.0), "1603.0");
        assert_eq!(percent(0.9996), "100.0");
        assert_eq!([percent(-0.0), percent(-0.0004)], ["0.0"; 2]);
        assert_eq!(microseconds(706_000), "0.706");
        let sizes = [100, 1536, 4096, 4 << 20, 16 << 30].map(size_words);
        assert_eq!(sizes, ["100 B", "1536 B", "4 KiB", "4 MiB", "16 GiB"]);
        assert_eq!([1, 2].map(|count| count_words(count, "host", "hosts")), ["1 host", "2 hosts"]);
    }
}
