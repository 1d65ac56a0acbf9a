// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of benchmarks that move data in flows.

use serde::{Deserialize, Serialize};

use crate::explanation::Explanation;
use crate::flow::{Flow, Latencies, PlanSummary};
use crate::links::{DirectionLoad, Link};

/// Number of the schema that this crate writes.
pub const SCHEMA: u32 = 1;

/// Outcome of one benchmark command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Number of the schema; 0 if the file has none.
    #[serde(default)]
    pub schema: u32,
    /// The benchmark: `write`, `traffic`, ….
    pub bench: String,
    /// The lab or the cards.
    #[serde(flatten)]
    pub platform: Platform,
    /// Random seed.
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// One run for each point of a sweep.
    pub scenarios: Vec<ScenarioResult>,
    /// Progress of the benchmark, if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
}

impl Bench {
    /// Iterates over the flows of all scenarios.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.scenarios.iter().flat_map(|scenario| &scenario.flows)
    }

    /// Whether its runs are of different flows of generated traffic, one after the other.
    pub fn flows_in_turn(&self) -> bool {
        let names = |scenario: &ScenarioResult| -> Vec<String> {
            let traffic = scenario.flows.iter().filter(|flow| flow.traffic().is_some());
            traffic.map(|flow| flow.name.clone()).collect()
        };
        let first = self.scenarios.first().map(names);
        self.scenarios.iter().any(|scenario| Some(names(scenario)) != first)
    }
}

/// Place of a run: a lab, or real or served cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Platform {
    /// A lab, in simulated time.
    Lab {
        /// Name of the lab.
        lab: String,
        /// The chosen variant of the lab, if any. Older files do not name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        variant: Option<String>,
    },
    /// Cards opened by name, in the time of this machine.
    Cards {
        /// Names of the cards.
        devices: Vec<String>,
        /// Whether a program serves the cards. It may simulate them, with its own clock.
        #[serde(default)]
        served: bool,
    },
}

impl Platform {
    /// Returns the name of the lab with its variant, `rosta:crosslane`, or the names of the cards.
    pub fn name(&self) -> String {
        match self {
            Self::Lab { lab, variant: Some(variant) } => format!("{lab}:{variant}"),
            Self::Lab { lab, variant: None } => lab.clone(),
            Self::Cards { devices, .. } => devices.join(", "),
        }
    }

    /// Returns whether the run was in a lab.
    pub const fn is_lab(&self) -> bool {
        matches!(self, Self::Lab { .. })
    }

    /// Returns whether a program serves the cards.
    pub const fn is_served(&self) -> bool {
        matches!(self, Self::Cards { served: true, .. })
    }
}

/// Progress of an interrupted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Runs that were made.
    pub done: u64,
    /// Runs that were asked for.
    pub of: u64,
}

/// Outcome of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioResult {
    /// Bytes of one transfer, if all flows have the same.
    pub bytes: Option<u64>,
    /// Flows of data.
    pub flows: Vec<Flow>,
    /// Totals of several flows while all of them were active.
    pub while_all_active: Option<Together>,
    /// Latency of a ping-pong.
    pub latency: Option<Latency>,
    /// Directions of links that data crossed.
    pub links: Vec<Link>,
    /// Load of every direction of the lab; of a large one, of those that data crossed.
    pub link_loads: Vec<DirectionLoad>,
    /// Time over which links were counted.
    pub links_span_ps: Option<u64>,
    /// Ports that were set to another Max_Payload_Size first.
    pub ports_set: Vec<String>,
    /// Simulated time at the end.
    pub simulated_ps: Option<u64>,
    /// TLPs over all links, each counted once a link.
    pub tlp_hops: Option<u64>,
    /// Errors, one sentence each; no more than the fabric keeps.
    pub errors: Vec<String>,
    /// Number of errors.
    pub error_count: u64,
    /// Explanation of the run; absent if it was not requested or is not known.
    pub why_not_faster: Option<Explanation>,
    /// Reason for which there is no explanation.
    pub not_explained: Option<String>,
}

/// A run of one flow.
impl From<Flow> for ScenarioResult {
    fn from(flow: Flow) -> Self {
        Self { bytes: Some(flow.bytes), flows: vec![flow], ..Self::default() }
    }
}

/// Totals of several flows over the time in which all of them were active.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// Begin of the last flow to begin.
    pub from_ps: u64,
    /// End of the first flow to end.
    pub to_ps: u64,
    /// Bytes moved between the two.
    pub bytes: u64,
    /// Rate of all flows together.
    pub bytes_per_second: f64,
}

/// Outcome of a ping-pong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The two ends: `fpga1 -> fpga2`.
    pub name: String,
    /// Bytes of a message.
    #[serde(default)]
    pub bytes: u64,
    /// Number of round trips.
    #[serde(default)]
    pub round_trips: usize,
    /// Half of each round trip.
    pub one_way: Latencies,
    /// The path.
    pub plan: Option<PlanSummary>,
    /// Words of 4 B that were not what was sent.
    #[serde(default)]
    pub wrong_words: u64,
}
