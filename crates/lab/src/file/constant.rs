// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A constant of a lab file: its value, its unit, and where it comes from.

use std::fmt;

/// What kind of source a constant has: the first word of its `source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// A clause of the specification.
    Clause,
    /// A data sheet, product brief or user guide of the part.
    DataSheet,
    /// The document that the lab reproduces.
    Document,
    /// Read from a machine's configuration space; the text says from which register.
    Sysfs,
    /// Fitted; the text says to which measurements.
    Fit,
    /// Nobody has measured or written it: the text says why it is plausible.
    Assumption,
}

impl Provenance {
    /// Every kind, the best founded first.
    pub const ALL: [Self; 6] =
        [Self::Clause, Self::DataSheet, Self::Document, Self::Sysfs, Self::Fit, Self::Assumption];

    /// The word that a source begins with, without its colon.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clause => "clause",
            Self::DataSheet => "data sheet",
            Self::Document => "document",
            Self::Sysfs => "sysfs",
            Self::Fit => "fit",
            Self::Assumption => "assumption",
        }
    }

    /// Kind and text of a source such as `fit: median of the 64 B row`.
    ///
    /// # Errors
    /// What is wrong with it, half a sentence.
    pub(crate) fn parse(source: &str) -> Result<(Self, String), String> {
        let (word, text) = source
            .split_once(':')
            .ok_or_else(|| format!("its source \"{source}\" does not say of what kind it is"))?;
        let kind = Self::ALL.into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| format!("\"{word}:\" is not a kind of source"))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("its source says only \"{word}:\", and not which"));
        }
        Ok((kind, text.to_owned()))
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A constant as a lab file gives it, for `lab show` and for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The table it stands in, with dots: `part.v7.requester`.
    pub place: String,
    /// Its key: `idle_clocks_per_tlp`.
    pub key: String,
    /// Its value as the file writes it (or as it was set anew).
    pub value: String,
    /// Its unit; empty for a plain number or a word.
    pub unit: &'static str,
    /// What kind of source it has.
    pub provenance: Provenance,
    /// The source, without the word of its kind.
    pub source: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// Whether [`Lab::with_constant`](crate::Lab::with_constant) may set it: it is a number.
    pub is_number: bool,
}

impl Constant {
    /// Place and key: `part.v7.requester.idle_clocks_per_tlp`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.place, self.key)
    }

    /// Its value for people: numbers that stand for something, such as class codes, in hexadecimal.
    #[must_use]
    pub fn shown_value(&self) -> String {
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

/// The unit that the end of a key names.
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
