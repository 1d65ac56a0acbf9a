// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run as a list of named values.

use serde_json::error::Category;
use thiserror::Error;

use super::document::{
    BenchDocument, FlowDocument, ReproductionDocument, ScenarioDocument, StatisticsDocument,
};
use super::rows::{self, RowsRun};
use crate::number::whole_size;

/// Longest file that is read, bytes.
pub const MAX_RUN_BYTES: usize = 256 << 20;

/// A file that is no run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// No JSON at all, or not all of it.
    #[error("line {line}, column {column}: this is no JSON: {problem}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// JSON that this program does not print.
    #[error(
        "neither a benchmark nor a reproduction: {problem}; compared is what `crosslane bench`, \
         `crosslane bridge bench` and `crosslane reproduce` print with `--json`"
    )]
    Unknown {
        /// What is missing or other than expected.
        problem: String,
    },
    /// A benchmark whose JSON has no figures that two runs could have in common.
    #[error("cannot compare `bench {bench}`: its JSON has neither scenarios nor known rows")]
    Kind {
        /// What it calls itself.
        bench: String,
    },
    /// A number that cannot be.
    #[error("{place}: {value} is no {what}")]
    Number {
        /// Where it stands.
        place: String,
        /// What should stand there.
        what: &'static str,
        /// What stands there.
        value: String,
    },
    /// Too long.
    #[error("{bytes} B are more than the {MAX_RUN_BYTES} B of the longest run that is read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

/// What a run is.
#[derive(Clone, Debug, PartialEq)]
pub enum RunKind {
    /// A benchmark.
    Bench(BenchDocument),
    /// A benchmark that prints rows.
    Rows(RowsRun),
    /// A reproduction.
    Reproduction(ReproductionDocument),
}

/// Which way a value gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    Higher,
    /// A time.
    Lower,
    /// Neither: only the difference counts.
    Neither,
}

/// A named value of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Who moves what to whom, or what was measured.
    pub subject: String,
    /// Bytes of a transfer, or the conditions.
    pub conditions: String,
    /// Which figure: `application`, `p99`, ….
    pub quantity: String,
    /// `MB/s`, `us`, `%`, or the unit of a row.
    pub unit: String,
    /// In that unit.
    pub value: f64,
    /// Which way it gets better.
    pub better: Better,
}

/// A run that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What it is.
    pub kind: RunKind,
}

impl Run {
    /// Reads what the program has printed.
    ///
    /// # Errors
    /// What it is not, and where.
    pub fn parse(text: &str) -> Result<Self, RunError> {
        if text.len() > MAX_RUN_BYTES {
            return Err(RunError::TooLong { bytes: text.len() });
        }
        let document: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let problem = match error.classify() {
                Category::Eof => "it ends too early".to_owned(),
                _ => error.to_string(),
            };
            RunError::Syntax { line, column, problem }
        })?;
        Self::of(document)
    }

    /// The run of such a document.
    ///
    /// # Errors
    /// What it is not, and where.
    pub fn of(document: serde_json::Value) -> Result<Self, RunError> {
        let unknown = |error: serde_json::Error| RunError::Unknown { problem: error.to_string() };
        let kind = if document.get("reproduction").is_some() {
            RunKind::Reproduction(serde_json::from_value(document).map_err(unknown)?)
        } else if let Some(rows) = rows::read(&document) {
            RunKind::Rows(rows.map_err(unknown)?)
        } else if let Some(bench) = document.get("bench") {
            if document.get("scenarios").is_none() {
                let bench = bench.as_str().unwrap_or_default().to_owned();
                return Err(RunError::Kind { bench });
            }
            let bench: BenchDocument = serde_json::from_value(document).map_err(unknown)?;
            if bench.lab.is_none() && bench.devices.is_empty() {
                let problem = "it has neither `lab` nor `devices`".to_owned();
                return Err(RunError::Unknown { problem });
            }
            RunKind::Bench(bench)
        } else {
            let problem = "it has neither `bench` nor `reproduction`".to_owned();
            return Err(RunError::Unknown { problem });
        };
        let run = Self { kind };
        run.check()?;
        Ok(run)
    }

    /// What the types do not say: shares and rates are what they can be.
    fn check(&self) -> Result<(), RunError> {
        let RunKind::Bench(bench) = &self.kind else { return Ok(()) };
        for (index, scenario) in bench.scenarios.iter().enumerate() {
            for value in scenario.links.iter().map(|link| link.bytes_per_second) {
                if value < 0.0 {
                    let (place, value) = (format!("scenarios[{index}].links"), value.to_string());
                    return Err(RunError::Number { place, what: "rate", value });
                }
            }
            let accounts = scenario.why_not_faster.iter().filter_map(|why| why.account.as_ref());
            for part in accounts.flat_map(|account| &account.uses) {
                if !(0.0..=1.0).contains(&part.share) {
                    let place = format!("scenarios[{index}].why_not_faster.account");
                    let value = part.share.to_string();
                    return Err(RunError::Number { place, what: "share of time", value });
                }
            }
        }
        Ok(())
    }

    /// What it is, in a few words: `bench write, lab rosta`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.kind {
            RunKind::Bench(bench) => match &bench.lab {
                Some(lab) => format!("bench {}, lab {lab}", bench.bench),
                None => format!("bench {}, {}", bench.bench, bench.place()),
            },
            RunKind::Rows(run) => run.name.clone(),
            RunKind::Reproduction(run) => format!("reproduction {}", run.reproduction),
        }
    }

    /// Version of the program and seed of the run.
    #[must_use]
    pub fn origin(&self) -> (&str, u64) {
        match &self.kind {
            RunKind::Bench(bench) => (&bench.version, bench.seed),
            RunKind::Rows(run) => (&run.version, run.seed),
            RunKind::Reproduction(run) => (&run.version, run.seed),
        }
    }

    /// Its values, in the order of the file.
    #[must_use]
    pub fn values(&self) -> Vec<Value> {
        match &self.kind {
            RunKind::Bench(bench) => {
                let scenarios = bench.scenarios.iter();
                scenarios.flat_map(|scenario| scenario_values(scenario, bench.served)).collect()
            }
            RunKind::Rows(run) => run.values.clone(),
            RunKind::Reproduction(run) => reproduction_values(run),
        }
    }
}

impl FlowDocument {
    /// `fpga1 -> host`, and of traffic what it does.
    #[must_use]
    pub fn words(&self) -> String {
        match (&self.name, &self.from, &self.to) {
            (Some(name), ..) => name.clone(),
            (None, Some(from), Some(to)) => {
                let kind = self.kind.as_deref().unwrap_or("moves");
                format!("{from} -> {to}, {kind}")
            }
            _ => "flow".to_owned(),
        }
    }

    /// Rate by the engine's timers, or the one rate that there is, bytes per second.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let hardware = self.hardware.as_ref().map(|hardware| hardware.bytes_per_second);
        hardware.or(self.bytes_per_second).or(self.application_bytes_per_second)
    }
}

/// Of `served` cards the engines' timers are in another time than all else, and left out.
fn scenario_values(scenario: &ScenarioDocument, served: bool) -> Vec<Value> {
    let mut values = Vec::new();
    for flow in &scenario.flows {
        let timer = flow.hardware.as_ref().filter(|_| !served);
        let rates = [
            ("rate at the application", flow.application_bytes_per_second),
            ("rate by timers", timer.map(|timer| timer.bytes_per_second)),
            ("rate", flow.bytes_per_second),
        ];
        let conditions = whole_size(flow.bytes);
        let value = |quantity: &str, unit: &str, value: f64, better: Better| Value {
            subject: flow.words(),
            conditions: conditions.clone(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            value,
            better,
        };
        for (quantity, rate) in rates {
            values.extend(rate.map(|rate| value(quantity, "MB/s", rate / 1e6, Better::Higher)));
        }
        let share = flow.share_of_ceiling;
        values.extend(share.map(|part| value("of the ceiling", "%", part * 1e2, Better::Higher)));
        for (quantity, us) in flow.latency.iter().flat_map(times) {
            values.push(value(quantity, "us", us, Better::Lower));
        }
    }
    if let Some(latency) = &scenario.latency {
        for (quantity, us) in times(&latency.one_way) {
            values.push(Value {
                subject: format!("{}, one way", latency.name),
                conditions: scenario.bytes.map_or(String::new(), whole_size),
                quantity: quantity.to_owned(),
                unit: "us".to_owned(),
                value: us,
                better: Better::Lower,
            });
        }
    }
    values
}

fn times(statistics: &StatisticsDocument) -> [(&'static str, f64); 3] {
    [
        ("typical time", statistics.typical_ps),
        ("p99 time", statistics.p99_ps),
        ("longest time", statistics.max_ps),
    ]
    .map(|(quantity, ps)| (quantity, ps as f64 / 1e6))
}

fn reproduction_values(run: &ReproductionDocument) -> Vec<Value> {
    let value = |row: &super::document::RowDocument| {
        let better = match row.unit.as_str() {
            "MiB/s" | "MB/s" | "GB/s" | "Gbit/s" => Better::Higher,
            "ns" | "us" | "ms" | "s" => Better::Lower,
            _ => Better::Neither,
        };
        Some(Value {
            subject: row.quantity.clone(),
            conditions: row.conditions.clone(),
            quantity: "simulated".to_owned(),
            unit: row.unit.clone(),
            value: row.simulated?,
            better,
        })
    };
    run.rows.iter().filter_map(value).collect()
}
