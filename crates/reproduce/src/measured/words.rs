// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of a file of measurements: flows, units, quantities.

use std::fmt;
use std::str::FromStr;

use crosslane_experiment::kind_word;
use crosslane_fabric::FlowKind;

/// Quantity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Payload per time.
    Rate,
    /// Time of one operation, the median.
    Latency,
}

impl Quantity {
    /// Returns its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Latency => "latency",
        }
    }

    /// Returns the unit of a row that says none.
    pub(super) fn default_unit(self) -> Unit {
        let word = if self == Self::Rate { "GB/s" } else { "ns" };
        *UNITS.iter().find(|unit| unit.word == word).expect("it is one of the units")
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let known = [Self::Rate, Self::Latency].into_iter().find(|one| one.word() == text);
        known.ok_or_else(|| format!("\"{text}\" is neither rate nor latency"))
    }
}

/// Unit of a measured figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// The unit, as a file writes it.
    pub word: &'static str,
    /// Quantity that it measures.
    pub quantity: Quantity,
    /// Bytes per second, or seconds, of one.
    pub scale: f64,
}

const fn rate(word: &'static str, scale: f64) -> Unit {
    Unit { word, quantity: Quantity::Rate, scale }
}

const fn latency(word: &'static str, scale: f64) -> Unit {
    Unit { word, quantity: Quantity::Latency, scale }
}

/// The units that a file may have.
const UNITS: [Unit; 11] = [
    rate("GB/s", 1e9),
    rate("MB/s", 1e6),
    rate("GiB/s", (1_u64 << 30) as f64),
    rate("MiB/s", (1_u64 << 20) as f64),
    rate("Gbit/s", 1e9 / 8.0),
    rate("Gb/s", 1e9 / 8.0),
    rate("Mbit/s", 1e6 / 8.0),
    latency("ns", 1e-9),
    latency("us", 1e-6),
    latency("ms", 1e-3),
    latency("s", 1.0),
];

impl Unit {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        UNITS.into_iter().find(|unit| unit.word == text).ok_or_else(|| {
            let known = UNITS.map(|unit| unit.word).join(", ");
            format!("\"{text}\" is not a unit; units are {known}")
        })
    }
}

/// Requester of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A generic requester, or a core, as in `bench traffic`.
    Requester(FlowKind),
    /// Two generic requesters at once, a reader and a writer, with the same payload each.
    Both,
    /// The engine of a card to host memory, by the driver.
    ToHost,
    /// The engine of a card from host memory, by the driver.
    FromHost,
    /// The engine of a card to another card, by the driver.
    Peer,
}

impl Mover {
    const ALL: [Self; 7] = [
        Self::Requester(FlowKind::Write),
        Self::Requester(FlowKind::Read),
        Self::Requester(FlowKind::WriteRead),
        Self::Both,
        Self::ToHost,
        Self::FromHost,
        Self::Peer,
    ];

    /// Returns its word: that of a kind of flow, or of a channel of an engine.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Requester(kind) => kind_word(kind),
            Self::Both => "both",
            Self::ToHost => "c2h",
            Self::FromHost => "h2c",
            Self::Peer => "p2p",
        }
    }
}

/// A flow without its size: `FROM:TO:KIND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredFlow {
    /// The requester, or the first end of the data's way by an engine.
    pub from: String,
    /// The memory, or the second end.
    pub to: String,
    /// Its requester.
    pub mover: Mover,
}

impl fmt::Display for MeasuredFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.from, self.to, self.mover.word())
    }
}

impl FromStr for MeasuredFlow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [from, to, kind] = parts[..] else {
            let form = "a flow is FROM:TO:KIND, and its size has a column";
            return Err(format!("\"{text}\" has {} parts; {form}", parts.len()));
        };
        if from.is_empty() || to.is_empty() {
            return Err(format!("\"{text}\" lacks a name; a flow is FROM:TO:KIND"));
        }
        let mover = Mover::ALL.into_iter().find(|mover| mover.word() == kind).ok_or_else(|| {
            let known = Mover::ALL.map(Mover::word).join(", ");
            format!("\"{kind}\" is not a kind of flow; known are {known}")
        })?;
        Ok(Self { from: from.to_owned(), to: to.to_owned(), mover })
    }
}
