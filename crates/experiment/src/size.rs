// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes as a user writes them: `64`, `4K`, `4KiB`, `1MB`, and ranges such as `64..1M`.

use std::fmt;
use std::str::FromStr;

use crosslane_results::quantity::short_size;

/// Largest size that is read, bytes: 1 TiB, beyond any host memory of a lab.
pub const MAX_SIZE_BYTES: u64 = 1 << 40;

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

/// Reads one size in bytes, 1 to [`MAX_SIZE_BYTES`].
///
/// # Errors
/// A sentence that names the text and what is possible.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let (Ok(number), Some(scale)) = (number.parse::<u64>(), scale) else {
        return Err(format!(
            "{text} is not a size; write bytes with or without a unit, such as 64, 4K or 4KiB \
             (4096), 1MiB, or 1MB (1000000)"
        ));
    };
    match number.checked_mul(scale) {
        Some(bytes) if (1..=MAX_SIZE_BYTES).contains(&bytes) => Ok(bytes),
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
        _ => Err(format!("{text} is no power of two from 4 to 4096 bytes")),
    }
}

/// One size, or each double of the first up to the last.
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(error, format!("{text} is no power of two from 4 to 4096 bytes"));
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
    fn short_sizes_can_be_read_again() {
        for bytes in [1, 64, 1000, 1024, 1536, 4096, 1 << 20, 3 << 20, 1 << 30, 1 << 40, 1_000_000]
        {
            assert_eq!(parse_size(&short_size(bytes)), Ok(bytes));
        }
    }
}
