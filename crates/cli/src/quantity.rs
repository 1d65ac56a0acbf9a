// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as they are printed: decimal and binary rates, shares, times.

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
    let text = format!("{:.1}", share * 100.0);
    // A number that is rounded to zero has no sign.
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// A time in microseconds with three decimals: to the nanosecond.
#[must_use]
pub fn microseconds(ps: u64) -> String {
    format!("{:.3}", ps as f64 / 1e6)
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
        assert_eq!([percent(-0.0), percent(-0.0004)], ["0.0"; 2]);
        assert_eq!(microseconds(706_000), "0.706");
    }
}
