// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library of parts, as plain data: what no register of a device says, by its PCI ID. Lab files
//! are read elsewhere (crate `lab`), so that who exports a machine hands the library in.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crosslane_sysfs::{LinkCode, PciFunction};

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// Root ports, memory and processor.
    RootComplex,
    /// A switch.
    Switch,
    /// An endpoint.
    Endpoint,
}

impl PartKind {
    /// Returns its word in a lab file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RootComplex => "root-complex",
            Self::Switch => "switch",
            Self::Endpoint => "endpoint",
        }
    }
}

/// A constant of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartConstant {
    /// Name of the part in which it stands: this one, or one that this one is like.
    pub part: String,
    /// Its table below the part: `memory`, or empty.
    pub table: String,
    /// Its key.
    pub key: String,
    /// Its value and range as a lab file has them: `value = 132, low = 90, high = 250`.
    pub value: String,
    /// Its source, without quotes.
    pub source: String,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PartKind,
    /// Description of it, a sentence.
    pub summary: String,
    /// Vendor and device IDs that it stands for.
    pub devices: Vec<(u16, RangeInclusive<u16>)>,
    /// Classes and subclasses that it stands for, where no part has the ID.
    pub classes: Vec<u16>,
    /// Its constants.
    pub constants: Vec<PartConstant>,
}

impl Part {
    /// Whether it stands for every device of its kind that no other part matches.
    pub const fn is_general(&self) -> bool {
        self.devices.is_empty() && self.classes.is_empty()
    }

    /// Whether it has constants in a table.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.constants.iter().any(|constant| constant.table == table)
    }

    /// Returns the value of a constant as a lab file has it.
    pub(crate) fn value(&self, table: &str, key: &str) -> Option<&str> {
        let found = self.constants.iter().find(|it| it.table == table && it.key == key);
        found.map(|constant| constant.value.as_str())
    }

    /// Returns the best link of a port in a table.
    pub(crate) fn best_link(&self, table: &str) -> Option<LinkCode> {
        let number = |key: &str| {
            let value = self.value(table, key)?.strip_prefix("value = ")?;
            value.split(',').next()?.trim().parse().ok()
        };
        Some(LinkCode { speed: number("max_generation")?, lanes: number("max_width")? })
    }

    /// Adds the constants of a table to the last one of a lab's text, without those that it has.
    pub(crate) fn fill(&self, text: &mut String, table: &str) {
        let begin = text.rfind("\n[").map_or(0, |at| at + 1);
        let has = |text: &str, key: &str| {
            text[begin..]
                .lines()
                .any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" =")))
        };
        for constant in self.constants.iter().filter(|constant| constant.table == table) {
            let PartConstant { part, key, value, source, .. } = constant;
            if !has(text, key) {
                let _ = writeln!(text, "{key} = {{ {value}, source = \"{source} [{part}]\" }}");
            }
        }
    }
}

/// The library of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    parts: Vec<Part>,
}

impl Library {
    /// Makes a library of parts.
    ///
    /// # Panics
    /// Panics unless there is one general part of each kind, which stands for all that no other
    /// part matches.
    pub fn new(parts: Vec<Part>) -> Self {
        for kind in [PartKind::RootComplex, PartKind::Switch, PartKind::Endpoint] {
            let general = parts.iter().filter(|part| part.kind == kind && part.is_general());
            assert_eq!(general.count(), 1, "general parts of the kind {}", kind.word());
        }
        Self { parts }
    }

    /// Returns the part that stands for a device: by its ID, by its class, or for all others.
    pub(crate) fn part(&self, kind: PartKind, function: Option<&PciFunction>) -> &Part {
        let alike = || self.parts.iter().filter(move |part| part.kind == kind);
        let by_id = |function: &PciFunction| {
            alike().find(|part| {
                let mut devices = part.devices.iter();
                devices.any(|(vendor, devices)| {
                    *vendor == function.vendor && devices.contains(&function.device)
                })
            })
        };
        let by_class = |function: &PciFunction| {
            alike().find(|part| part.classes.contains(&((function.class >> 8) as u16)))
        };
        function
            .and_then(|function| by_id(function).or_else(|| by_class(function)))
            .or_else(|| alike().find(|part| part.is_general()))
            .expect("a library has a general part of each kind")
    }
}
