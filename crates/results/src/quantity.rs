// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities as text, pages and sentences write them: rates, shares, times, sizes, counts. Sizes
//! are also read as a user writes them: `64`, `4K`, `4KiB`, `1MB`, and ranges such as `64..1M`.

use std::fmt;
use std::str::FromStr;

use crosslane_pcie::units::{Picoseconds, bytes_of};

/// Binary units, largest first.
const BINARY: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Removes the sign of a formatted number that is zero after rounding.
pub fn without_sign_of_zero(number: String) -> String {
    let digits = number.trim_start_matches(['+', '-']);
    let is_zero = digits.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if is_zero { digits.to_owned() } else { number }
}

/// Formats a number with one decimal; zero after rounding has no sign.
pub fn one_decimal(value: f64) -> String {
    without_sign_of_zero(format!("{value:.1}"))
}

/// Formats a number with its sign and that many decimals; zero after rounding has no sign.
pub fn signed(value: f64, decimals: usize) -> String {
    without_sign_of_zero(format!("{value:+.decimals$}"))
}

/// Formats a change, given as a fraction, in percent with its sign and one decimal, without the
/// unit.
pub fn change(fraction: f64) -> String {
    signed(100.0 * fraction, 1)
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

/// Returns a size in the largest binary unit that divides it, and the unit; `None` for bytes.
fn in_binary_unit(bytes: u64) -> Option<(u64, &'static str)> {
    let mut units = BINARY.into_iter();
    let (unit, scale) = units.find(|(_, it)| bytes >= *it && bytes.is_multiple_of(*it))?;
    Some((bytes / scale, unit))
}

/// Formats a size in the largest binary unit that divides it: `64 B`, `1536 B`, `4 MiB`.
pub fn size_words(bytes: u64) -> String {
    let (number, unit) = in_binary_unit(bytes).unwrap_or((bytes, "B"));
    format!("{number} {unit}")
}

/// A size written as shortly as it can be without loss: `64`, `4K`, `1M`.
pub fn short_size(bytes: u64) -> String {
    let (number, unit) = in_binary_unit(bytes).unwrap_or((bytes, ""));
    format!("{number}{}", unit.trim_end_matches("iB"))
}

/// Formats a count and its noun: `1 host`, `3 switches`.
pub fn count_words(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Largest size that is read, bytes: 1 TiB, beyond any host memory of a lab.
pub const MAX_SIZE_BYTES: u64 = 1 << 40;

/// Reads one size in bytes, 1 to [`MAX_SIZE_BYTES`].
///
/// # Errors
/// A sentence that names the text and what is possible.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let Some(bytes) = bytes_of(text) else {
        return Err(format!(
            "{text} is not a size; write bytes with or without a unit, such as 64, 4K or 4KiB \
             (4096), 1MiB, or 1MB (1000000)"
        ));
    };
    match u64::try_from(bytes) {
        Ok(bytes) if (1..=MAX_SIZE_BYTES).contains(&bytes) => Ok(bytes),
        _ => Err(format!("{text} is not a size from 1 byte to 1 TiB")),
    }
}

/// Reads a size that Device Control has a code for.
///
/// # Errors
/// A sentence that names the text and what is possible.
pub fn parse_register_size(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        bytes @ 128..=4096 if bytes.is_power_of_two() => Ok(bytes as u32),
        _ => Err(format!("{text} is none of 128, 256, 512, 1024, 2048 and 4096 bytes")),
    }
}

/// Reads a payload that fits the length field of a TLP.
///
/// # Errors
/// A sentence that names the text and what is possible.
pub fn parse_payload(text: &str) -> Result<u32, String> {
    match parse_size(text)? {
        bytes @ 4..=4096 if bytes.is_power_of_two() => Ok(bytes as u32),
        _ => Err(format!("{text} is not a power of two from 4 to 4096 bytes")),
    }
}

/// A single size, or each double of the first up to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeRange {
    first_bytes: u64,
    last_bytes: u64,
}

impl SizeRange {
    /// The sizes, smallest first; at least one.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        let last = self.last_bytes;
        std::iter::successors(Some(self.first_bytes), |size| size.checked_mul(2))
            .take_while(move |size| *size <= last)
    }
}

impl FromStr for SizeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            let size = parse_size(text)?;
            return Ok(Self { first_bytes: size, last_bytes: size });
        };
        if first.is_empty() || last.is_empty() {
            return Err(format!("{text} lacks one end; a range is FIRST..LAST, such as 64..1M"));
        }
        let (first_bytes, last_bytes) = (parse_size(first)?, parse_size(last)?);
        if first_bytes > last_bytes {
            return Err(format!("{text} runs backwards: {first} is more than {last}"));
        }
        if !first_bytes.is_power_of_two() {
            return Err(format!("{text} has to begin at a power of two, not {first_bytes}"));
        }
        Ok(Self { first_bytes, last_bytes })
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_size(self.first_bytes))?;
        if self.first_bytes != self.last_bytes {
            write!(f, "..{}", short_size(self.last_bytes))?;
        }
        Ok(())
    }
}

/// Sizes and ranges of them, as `64,1K..4K`; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeList(Vec<SizeRange>);

impl SizeList {
    /// The sizes, in the order of the list.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(SizeRange::sizes)
    }
}

impl From<u64> for SizeList {
    fn from(bytes: u64) -> Self {
        Self(vec![SizeRange { first_bytes: bytes, last_bytes: bytes }])
    }
}

impl FromStr for SizeList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for SizeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.0.iter().map(SizeRange::to_string).collect();
        f.write_str(&ranges.join(","))
    }
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
        assert_eq!([change(0.0523), change(-0.0523)], ["+5.2", "-5.2"]);
        assert_eq!([change(0.0004), change(-0.0004), change(-0.0)], ["0.0"; 3]);
        assert_eq!([signed(-0.004, 2), signed(0.006, 2)], ["0.00", "+0.01"]);
        assert_eq!([signed(f64::NAN, 1), signed(f64::NEG_INFINITY, 1)], ["NaN", "-inf"]);
        assert_eq!(microseconds(706_000), "0.706");
        let sizes = [100, 1536, 4096, 4 << 20, 16 << 30].map(size_words);
        assert_eq!(sizes, ["100 B", "1536 B", "4 KiB", "4 MiB", "16 GiB"]);
        assert_eq!([1, 2].map(|count| count_words(count, "host", "hosts")), ["1 host", "2 hosts"]);
    }

    #[test]
    fn units_are_binary_unless_they_end_with_b_alone() {
        for (text, bytes) in [
            ("64", 64),
            ("64B", 64),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("4KB", 4000),
            ("4kB", 4000),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1MB", 1_000_000),
            ("2GiB", 2 << 30),
            ("1024G", 1 << 40),
            ("1T", 1 << 40),
            ("1TiB", 1 << 40),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_said_by_name() {
        for text in ["", "K", "4Q", "-4", "4.5K", "4 K", "0x40", "18446744073709551616"] {
            let error = parse_size(text).unwrap_err();
            assert!(error.starts_with(&format!("{text} is not a size")), "{error}");
        }
        for text in ["0", "0M", "2048G", "2T", "99999999999G"] {
            assert_eq!(parse_size(text), Err(format!("{text} is not a size from 1 byte to 1 TiB")));
        }
    }

    #[test]
    fn register_sizes() {
        assert_eq!(parse_register_size("256"), Ok(256));
        assert_eq!(parse_register_size("4K"), Ok(4096));
        assert!(parse_register_size("192").unwrap_err().starts_with("192 is none of"));
        assert!(parse_register_size("8K").is_err());
    }

    #[test]
    fn payloads_are_powers_of_two() {
        assert_eq!(parse_payload("8"), Ok(8));
        assert_eq!(parse_payload("4K"), Ok(4096));
        for text in ["2", "96", "8K"] {
            let error = parse_payload(text).unwrap_err();
            assert_eq!(error, format!("{text} is not a power of two from 4 to 4096 bytes"));
        }
    }

    #[test]
    fn ranges_double() {
        let sizes =
            |text: &str| -> Vec<u64> { text.parse::<SizeRange>().unwrap().sizes().collect() };
        assert_eq!(sizes("96"), [96]);
        assert_eq!(sizes("64..512"), [64, 128, 256, 512]);
        assert_eq!(sizes("64..500"), [64, 128, 256]);
        assert_eq!(sizes("1K..1K"), [1024]);
        assert_eq!(sizes("512G..1024G"), [1 << 39, 1 << 40]);
        assert_eq!("64..1M".parse::<SizeRange>().unwrap().to_string(), "64..1M");
        let error = |text: &str| text.parse::<SizeRange>().unwrap_err();
        assert_eq!(error("1K..64"), "1K..64 runs backwards: 1K is more than 64");
        assert_eq!(error("96..512"), "96..512 has to begin at a power of two, not 96");
        for text in ["64..", "..64", ".."] {
            assert!(error(text).starts_with(&format!("{text} lacks one end; a range is ")));
        }
    }

    #[test]
    fn lists_have_sizes_and_ranges_in_their_order() {
        let list: SizeList = "1K,64..256,96".parse().unwrap();
        assert_eq!(list.sizes().collect::<Vec<_>>(), [1024, 64, 128, 256, 96]);
        assert_eq!(list.to_string(), "1K,64..256,96");
        for (text, start) in [("64,", " is not a size"), ("64,4Q", "4Q is not a size")] {
            let error = text.parse::<SizeList>().unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn short_sizes_can_be_read_again() {
        for bytes in [1, 64, 1000, 1024, 1536, 4096, 1 << 20, 3 << 20, 1 << 30, 1 << 40, 1_000_000]
        {
            assert_eq!(parse_size(&short_size(bytes)), Ok(bytes));
        }
    }
}
