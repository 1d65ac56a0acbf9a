// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of a lab file, each with its value, unit and source.

use strum::{Display, IntoStaticStr, VariantArray};

use crate::keys::{FASTEST_GB_PER_S, Kind, LONGEST_NS, SLOWEST_GB_PER_S};

/// Kind of a constant's source: the first word of its `source`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Provenance {
    /// A clause of the specification.
    Clause,
    /// A data sheet, product brief or user guide of the part.
    #[strum(to_string = "data sheet")]
    DataSheet,
    /// A publication, such as the paper that the lab reproduces.
    Document,
    /// A machine's configuration space; the text names the register.
    Sysfs,
    /// A fit; the text names the measurements.
    Fit,
    /// Neither measured nor published; the text says why it is plausible.
    Assumption,
}

impl Provenance {
    /// All kinds, the best founded first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the word that begins such a source, without its colon.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Splits a source such as `fit: median of the 64 B row` into kind and text.
    ///
    /// # Errors
    /// The fault of the source, half a sentence.
    pub(crate) fn parse(source: &str) -> Result<(Self, String), String> {
        let (word, text) = source
            .split_once(':')
            .ok_or_else(|| format!("its source \"{source}\" does not say of what kind it is"))?;
        let kind = Self::ALL.iter().copied().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| format!("\"{word}:\" is not a kind of source"))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("its source says only \"{word}:\", and not which"));
        }
        Ok((kind, text.to_owned()))
    }
}

/// Range of a constant whose value is not known for certain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    /// Lowest value that it may have.
    pub low: f64,
    /// Highest value that it may have.
    pub high: f64,
    /// Whether the low end is the faster one: of times, shares and clocks. Of rates, credits, slots
    /// and all else it is the high one.
    pub is_low_fast: bool,
}

impl ValueRange {
    /// Returns the end that makes a lab faster, or the other one.
    pub const fn end(self, fast: bool) -> f64 {
        if self.is_low_fast == fast { self.low } else { self.high }
    }
}

/// A constant as read from a lab file, for `lab show` and for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Dotted path of its table: `part.v7.requester`.
    pub place: String,
    /// Key of the constant: `idle_clocks_per_tlp`.
    pub key: String,
    /// Value as written in the file, or as replaced.
    pub value: String,
    /// Range that its value lies in, if the file gives one; none of a value that was replaced.
    pub range: Option<ValueRange>,
    /// Unit of the value; empty for a plain number or a word.
    pub unit: &'static str,
    /// Kind of its source.
    pub provenance: Provenance,
    /// Text of its source, without the word for its kind.
    pub source: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// Whether it is a number, which [`Lab::with_constant`](crate::Lab::with_constant) may replace.
    pub is_number: bool,
    /// The numbers that its key allows; `None` if they are not all of a range, or it is a word.
    pub numbers: Option<Numbers>,
    /// Bytes of the file that are the constant, its value, and its source in quotes.
    pub(super) spans: [std::ops::Range<usize>; 3],
}

impl Constant {
    /// Returns its dotted path: `part.v7.requester.idle_clocks_per_tlp`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.place, self.key)
    }

    /// Whether its values are whole numbers.
    pub fn is_whole(&self) -> bool {
        self.numbers.is_none_or(|numbers| numbers.are_whole)
    }

    /// Returns its value with its range as a lab file has them:
    /// `value = 132, low = 90, high = 250`.
    pub fn written(&self) -> String {
        let is_plain = self.is_number || matches!(&*self.value, "true" | "false");
        let value = if is_plain { self.value.clone() } else { format!("\"{}\"", self.value) };
        match self.range {
            Some(ValueRange { low, high, .. }) => {
                format!("value = {value}, low = {low}, high = {high}")
            }
            None => format!("value = {value}"),
        }
    }

    /// Returns its value for display, with its range: numeric codes, such as class codes, in
    /// hexadecimal.
    pub fn shown_value(&self) -> String {
        if let Some(ValueRange { low, high, .. }) = self.range {
            return format!("{} ({low}-{high})", self.value);
        }
        let digits = match self.key.as_str() {
            "class_code" => 6,
            "vendor" | "device" => 4,
            _ => return self.value.clone(),
        };
        match self.value.parse::<u32>() {
            Ok(number) => format!("0x{number:0digits$x}"),
            Err(_) => self.value.clone(),
        }
    }
}

/// Returns the unit named by the end of a key.
pub(crate) fn unit_of(key: &str) -> &'static str {
    const UNITS: [(&str, &str); 6] = [
        ("_gb_per_s", "GB/s"),
        ("_mb_per_s", "MB/s"),
        ("_bytes", "B"),
        ("_ns", "ns"),
        ("_probability", "1"),
        ("_data", "credits of 16 B"),
    ];
    let found = UNITS.iter().find(|(end, _)| key.ends_with(end));
    found.map_or(if key == "gb_per_s" { "GB/s" } else { "" }, |(_, unit)| unit)
}

/// Numbers that a key allows: all between two, or all whole ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// Whether they are whole.
    pub are_whole: bool,
}

// Bounds of keys are numbers.
impl Eq for Numbers {}

impl Numbers {
    /// Returns those of a kind of key, if it allows all of a range.
    pub(super) fn of(kind: Kind) -> Option<Self> {
        let (low, high, are_whole) = match kind {
            Kind::Whole(low, high) | Kind::Cost(low, high) | Kind::WholeOrInfinite(low, high) => {
                (low as f64, high as f64, true)
            }
            Kind::Time => (0.0, LONGEST_NS, false),
            Kind::Positive(high) => (f64::MIN_POSITIVE, high, false),
            Kind::Rate | Kind::RateOrInfinite => (SLOWEST_GB_PER_S, FASTEST_GB_PER_S, false),
            Kind::Share(high) => (0.0, high, false),
            _ => return None,
        };
        Some(Self { low, high, are_whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_its_kind_and_says_something() {
        let parsed = Provenance::parse("data sheet: PEX 8747, 100 ns");
        assert_eq!(parsed, Ok((Provenance::DataSheet, "PEX 8747, 100 ns".into())));
        for bad in ["", "guess: 3", "fit:", "fit:  ", "measured", "Fit: x"] {
            assert!(Provenance::parse(bad).is_err(), "{bad}");
        }
    }
}
