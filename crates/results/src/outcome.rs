// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsing of any outcome from JSON.

use crosslane_pcie::kinds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use thiserror::Error;

use crate::bench::{Bench, SCHEMA};
use crate::bridge::Bridge;
use crate::reproduction::Reproduction;
use crate::rows::{Operations, Overhead, Packets, Sweep};

/// Length of the longest file that is accepted, bytes.
pub const MAX_OUTCOME_BYTES: usize = 256 << 20;

/// Reason for which a file is not an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// Invalid or incomplete JSON.
    #[error("line {line}, column {column}: this is not JSON: {problem}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The problem.
        problem: String,
    },
    /// JSON that is not an outcome.
    #[error(
        "neither a benchmark nor a reproduction: {problem}; `crosslane compare` reads the output \
         of `crosslane bench`, `crosslane bridge bench` and `crosslane reproduce` with `--json`"
    )]
    Unknown {
        /// The missing or unexpected part.
        problem: String,
    },
    /// A benchmark that this version does not know.
    #[error("cannot compare `bench {bench}`: its JSON has neither scenarios nor known rows")]
    Kind {
        /// Name of the benchmark.
        bench: String,
    },
    /// A newer schema.
    #[error("cannot read schema {schema}: this version reads schemas up to {SCHEMA}")]
    Schema {
        /// Number of the schema.
        schema: u64,
    },
    /// An impossible number.
    #[error("{place}: {value} is not a {what}")]
    Number {
        /// Path of the key.
        place: String,
        /// The quantity that it stands for.
        what: &'static str,
        /// The number.
        value: String,
    },
    /// A file that is too long.
    #[error("cannot read {bytes} B: the limit is {MAX_OUTCOME_BYTES} B")]
    TooLong {
        /// Length of the file, bytes.
        bytes: usize,
    },
}

kinds!(OutcomeError {
    Self::Kind { .. } | Self::Schema { .. } | Self::TooLong { .. } => Unsupported,
    Self::Syntax { .. } | Self::Unknown { .. } | Self::Number { .. } => InvalidArgument,
});

/// Outcome of any command that measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Outcome {
    /// Flows of data.
    Bench(Bench),
    /// Single accesses and transfers.
    Overhead(Overhead),
    /// Single small operations.
    Operations(Operations),
    /// Packets by their size.
    Packets(Packets),
    /// A sweep of parameters.
    Sweep(Sweep),
    /// Bridged transfers.
    Bridge(Bridge),
    /// A reproduction.
    Reproduction(Reproduction),
}

fn of_value<T: DeserializeOwned>(document: Value) -> Result<T, OutcomeError> {
    let unknown = |error: serde_json::Error| OutcomeError::Unknown { problem: error.to_string() };
    serde_json::from_value(document).map_err(unknown)
}

impl Outcome {
    /// Reads an outcome from JSON.
    ///
    /// # Errors
    /// A text that is not an outcome, with the place of the error.
    pub fn parse(text: &str) -> Result<Self, OutcomeError> {
        if text.len() > MAX_OUTCOME_BYTES {
            return Err(OutcomeError::TooLong { bytes: text.len() });
        }
        let document: Value = serde_json::from_str(text).map_err(|error| {
            let problem = match error.classify() {
                Category::Eof => "it ends too early".to_owned(),
                _ => error.to_string(),
            };
            OutcomeError::Syntax { line: error.line(), column: error.column(), problem }
        })?;
        let unknown = |problem: &str| OutcomeError::Unknown { problem: problem.to_owned() };
        let schema = document.get("schema").and_then(Value::as_u64).unwrap_or_default();
        if schema > u64::from(SCHEMA) {
            return Err(OutcomeError::Schema { schema });
        }
        if document.get("reproduction").is_some() {
            return of_value(document).map(Self::Reproduction);
        }
        let Some(bench) = document.get("bench") else {
            return Err(unknown("it has neither `bench` nor `reproduction`"));
        };
        match bench.as_str().unwrap_or_default() {
            "overhead" => of_value(document).map(Self::Overhead),
            "operations" => of_value(document).map(Self::Operations),
            "packets" => of_value(document).map(Self::Packets),
            "sweep" => of_value(document).map(Self::Sweep),
            "bridge" => of_value(document).map(Self::Bridge),
            bench if document.get("scenarios").is_none() => {
                Err(OutcomeError::Kind { bench: bench.to_owned() })
            }
            _ if document.get("lab").is_none() && document.get("devices").is_none() => {
                Err(unknown("it has neither `lab` nor `devices`"))
            }
            _ => {
                let bench: Bench = of_value(document)?;
                check(&bench)?;
                Ok(Self::Bench(bench))
            }
        }
    }

    /// Returns the version of the program and the seed.
    pub fn origin(&self) -> (&str, u64) {
        match self {
            Self::Bench(run) => (&run.version, run.seed),
            Self::Overhead(run) => (&run.version, run.seed),
            Self::Operations(run) => (&run.version, run.seed),
            Self::Packets(run) => (&run.version, run.seed),
            Self::Sweep(run) => (&run.version, run.seed),
            Self::Bridge(run) => (&run.version, run.seed),
            Self::Reproduction(run) => (&run.version, run.seed),
        }
    }

    /// Returns a name: `bench write, lab rosta:crosslane`.
    pub fn name(&self) -> String {
        match self {
            Self::Bench(run) => {
                let lab = if run.platform.is_lab() { "lab " } else { "" };
                format!("bench {}, {lab}{}", run.bench, run.platform.name())
            }
            Self::Overhead(run) => format!("bench overhead, {}", run.device),
            Self::Operations(run) => format!("bench operations, {}", run.device),
            Self::Packets(run) => format!("bench packets, {}", run.device),
            Self::Sweep(run) if run.platform.is_lab() => {
                format!("bench sweep, {} of lab {}", run.card, run.platform.name())
            }
            Self::Sweep(run) => format!("bench sweep, {}", run.card),
            Self::Bridge(run) => format!("bridge bench, {}", run.place),
            Self::Reproduction(run) => format!("reproduction {}", run.reproduction),
        }
    }
}

/// Rejects impossible rates and shares.
fn check(bench: &Bench) -> Result<(), OutcomeError> {
    for (index, scenario) in bench.scenarios.iter().enumerate() {
        for value in scenario.links.iter().map(|link| link.bytes_per_second) {
            if value < 0.0 {
                let (place, value) = (format!("scenarios[{index}].links"), value.to_string());
                return Err(OutcomeError::Number { place, what: "rate", value });
            }
        }
        let accounts = scenario.why_not_faster.iter().filter_map(|why| why.account.as_ref());
        for part in accounts.flat_map(|account| &account.uses) {
            if !(0.0..=1.0).contains(&part.share) {
                let place = format!("scenarios[{index}].why_not_faster.account");
                let value = part.share.to_string();
                return Err(OutcomeError::Number { place, what: "share of time", value });
            }
        }
    }
    Ok(())
}
