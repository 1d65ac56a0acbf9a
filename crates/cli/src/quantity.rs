// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as they are printed: decimal and binary rates, sizes, shares, times.

/// MB/s (10^6 bytes a second) with one decimal.
#[must_use]
pub fn megabytes(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / 1e6)
}

/// MiB/s (2^20 bytes a second) with one decimal.
#[must_use]
pub fn mebibytes(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / f64::from(1 << 20))
}

/// A share of one in percent with one decimal.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A time in microseconds with three decimals: to the nanosecond.
#[must_use]
pub fn microseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e6)
}

/// A size in the largest binary unit that keeps it whole: `64 B`, `4 KiB`, `16 GiB`.
#[must_use]
pub fn size_words(bytes: u64) -> String {
    for (unit, scale) in
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
    {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{} {unit}", bytes / scale);
        }
    }
    format!("{bytes} B")
}

/// A count and its noun: `1 host`, `3 switches`.
#[must_use]
pub fn count_words(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_should() {
        assert_eq!(megabytes(1_725_184_000.0), "1725.2");
        assert_eq!(mebibytes(1_048_576.0 * 1603.0), "1603.0");
        assert_eq!(percent(0.9996), "100.0");
        assert_eq!(microseconds(706_000), "0.706");
        assert_eq!(size_words(100), "100 B");
        assert_eq!(size_words(1536), "1536 B");
        assert_eq!(size_words(4096), "4 KiB");
        assert_eq!(size_words(16 << 30), "16 GiB");
    }
}
