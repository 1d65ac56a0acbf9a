// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as a page prints them.

use crosslane_results::quantity;

/// Binary units, largest first.
const BINARY: [(&str, f64); 5] = [
    ("TiB", 1_099_511_627_776.0),
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1024.0),
    ("B", 1.0),
];
/// Numbers from here on are written with an exponent.
const LARGE: f64 = 1e9;
/// So are numbers below this.
const SMALL: f64 = 1e-4;

/// Formats a number with at most `decimals` decimals and no zero at the end.
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    quantity::without_sign_of_zero(if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    })
}

/// Formats a plain number with about five significant digits: `1672.8`, `0.125`, `3e12`.
pub fn plain(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(SMALL..LARGE).contains(&size) {
        let text = format!("{value:.2e}");
        return match text.split_once('e') {
            Some((digits, exponent)) if digits.contains('.') => {
                format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        };
    }
    let whole_digits = size.log10().floor().max(0.0) as usize + 1;
    let decimals = if size < 1.0 { 4 } else { 5_usize.saturating_sub(whole_digits).min(3) };
    trimmed(value, decimals)
}

/// Formats a size in the largest binary unit that leaves few decimals: `64 B`, `1.5 KiB`, `4 MiB`.
pub fn size(bytes: f64) -> String {
    for (unit, scale) in BINARY {
        if bytes.abs() >= scale {
            return format!("{} {unit}", plain(bytes / scale));
        }
    }
    format!("{} B", plain(bytes))
}

/// Formats a value with its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "B" => size(value),
        "" => plain(value),
        _ => format!("{} {unit}", plain(value)),
    }
}

/// Formats a share in percent.
pub fn percent(share: f64) -> String {
    if share.abs() < LARGE {
        format!("{} %", quantity::percent(share))
    } else {
        // It is not a share, or too large to print.
        "–".to_owned()
    }
}

/// Formats bytes per second as MB/s.
pub fn megabytes(bytes_per_second: f64) -> String {
    if bytes_per_second.abs() < LARGE * 1e6 {
        format!("{} MB/s", quantity::megabytes(bytes_per_second))
    } else {
        "–".to_owned()
    }
}

/// Returns a share that can be drawn: between 0 and 1, and 0 for NaN.
pub fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// Formats a latency, nanoseconds, in the largest unit that leaves it above one.
pub fn latency_words(ns: f64) -> String {
    quantity::time_words((ns * 1e3).round() as u64)
}

/// Formats a length or a position in a drawing, to a tenth of a pixel.
pub fn pixels(value: f64) -> String {
    trimmed(value, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_should() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(-0.0), "0");
        assert_eq!(plain(1672.84), "1672.8");
        assert_eq!(plain(0.125), "0.125");
        assert_eq!(plain(12.5), "12.5");
        assert_eq!(plain(250_000.0), "250000");
        assert_eq!(plain(3e12), "3e12");
        assert_eq!(plain(1.5e-7), "1.5e-7");
        assert_eq!(plain(-42.0), "-42");
        assert_eq!(size(64.0), "64 B");
        assert_eq!(size(1536.0), "1.5 KiB");
        assert_eq!(size(4_194_304.0), "4 MiB");
        assert_eq!(with_unit(3.5, "µs"), "3.5 µs");
        assert_eq!(percent(0.8421), "84.2 %");
        // A value close to zero, on either side of it, is printed as zero.
        assert_eq!([percent(-0.0), percent(-0.0004), percent(0.0004)], ["0.0 %"; 3]);
        assert_eq!(percent(-0.0006), "-0.1 %");
        assert_eq!(megabytes(-1.0), "0.0 MB/s");
        assert_eq!(megabytes(1_672_800_000.0), "1672.8 MB/s");
        assert_eq!(pixels(-0.01), "0");
        assert_eq!(share(f64::NAN), 0.0);
        assert_eq!(share(f64::INFINITY), 1.0);
    }
}
