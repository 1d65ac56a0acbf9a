// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab beside itself with changes: what every pair of endpoints can move, or what flows do,
//! before and after, and what limits each.
//!
//! Read first: [`Change`], then [`apply()`].

mod apply;
mod change;
pub(crate) mod tree;
mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use crosslane_experiment::parallel;
use crosslane_experiment::{
    Choices, ExperimentError, FlowRequest, Outcome, Progress, Scenario, TrafficWork,
};
use crosslane_explain::{ExplainError, Ran, explain, explain_all};
use crosslane_fabric::FlowKind;
use crosslane_host::kinds;
use crosslane_lab::Lab;
use crosslane_results::topology::{Matrix, MatrixPair};
use crosslane_results::{BeforeAfter, ChangedPairs, ExplainedPair, ScenarioResult, Step, WhatIf};
use thiserror::Error;

pub(crate) use apply::PLAIN_TAGS;
pub use apply::{Changed, apply};
pub use change::Change;
pub use written::written;

use crate::matrix::{OneWay, matrix, one_ways, uneven_payload_bytes};

/// Least change of a figure that makes a pair a changed one, as a fraction.
const THRESHOLD: f64 = 0.01;

/// Reason for which a changed lab cannot be compared.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// An impossible change.
    #[error("{change}: {problem}")]
    Change {
        /// The change, as an option of the command line.
        change: String,
        /// The reason, with its values.
        problem: String,
    },
    /// A run that cannot be made.
    #[error(transparent)]
    Run(#[from] ExperimentError),
    /// A run whose limits cannot be found.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// A lab file into which changes cannot be written.
    #[error("cannot write the changed lab: {problem}")]
    Unwritten {
        /// The reason, with its values.
        problem: String,
    },
    /// Flows that fail in the lab as it is.
    #[error("the flows cannot run: {problem}")]
    Flows {
        /// The first thing that goes wrong.
        problem: String,
    },
}

kinds!(WhatIfError {
    Self::Change { .. } | Self::Unwritten { .. } => InvalidArgument,
    Self::Run(error) => error.kind(),
    Self::Explain(error) => error.kind(),
    Self::Flows { .. } => Failed,
});

impl WhatIfError {
    pub(crate) fn change(change: &Change, problem: String) -> Self {
        Self::Change { change: change.to_string(), problem }
    }
}

/// Flows to be compared.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// The flows.
    pub requests: Vec<FlowRequest>,
    /// Options of all of them.
    pub choices: Choices,
    /// Random seed.
    pub seed: u64,
}

impl Flows {
    /// Makes the run of the flows in a changed lab. Payloads of writes are those of the least
    /// function on the way where these differ, since a root complex may cut a write only into such
    /// pieces (PCIe 6.x 1.3.1).
    ///
    /// # Errors
    /// A lab that cannot be built, and an impossible flow.
    pub fn scenario(&self, changed: &Changed) -> Result<Scenario<TrafficWork>, ExperimentError> {
        let flows = self.requests.iter().map(|flow| {
            let relaxed = flow.relaxed || changed.relaxed.contains(&flow.from);
            flow.clone().with_relaxed(relaxed)
        });
        let work = TrafficWork { flows: flows.collect(), choices: self.choices, shuffle: false };
        let mut scenario = Scenario::new(changed.lab.clone(), work).with_seed(self.seed);
        let running = changed.lab.build(self.seed)?;
        let planned = scenario.plan(&running)?;
        for (flow, planned) in scenario.work.flows.iter_mut().zip(&planned) {
            if flow.kind == FlowKind::Write && flow.payload_bytes.is_none() {
                flow.payload_bytes = uneven_payload_bytes(&changed.lab, &running, planned);
            }
        }
        Ok(scenario)
    }
}

fn begin(lab: &Lab, changes: &[Change]) -> Result<(Changed, Changed, WhatIf), WhatIfError> {
    let (before, after) = (apply(lab, &[])?, apply(lab, changes)?);
    let compared = WhatIf {
        lab: name(lab),
        changes: changes.iter().map(Change::to_string).collect(),
        notes: after.notes.clone(),
        ..WhatIf::default()
    };
    Ok((before, after, compared))
}

/// Returns the name of a lab with its variant.
pub(crate) fn name(lab: &Lab) -> String {
    let variant = lab.variant().map_or_else(String::new, |variant| format!(":{variant}"));
    format!("{}{variant}", lab.name())
}

/// Compares what every pair of a lab's endpoints can move; with `why` also what limits each pair
/// that changes, one way.
///
/// # Errors
/// An impossible change, a lab that cannot be built, and a run that fails for another reason than
/// its way.
pub fn compare_pairs(
    lab: &Lab,
    changes: &[Change],
    why: bool,
    progress: &dyn Progress,
) -> Result<WhatIf, WhatIfError> {
    let (before, after, compared) = begin(lab, changes)?;
    if let Some(change) = changes.iter().find(|change| change.is_of_flows()) {
        let problem = "relaxed ordering is a choice of flows, and no --flow is given".to_owned();
        return Err(WhatIfError::change(change, problem));
    }
    let [first, second] = [&before, &after].map(|it| matrix(&it.lab, progress));
    let (first, second) = (first?, second?);
    let key = |pair: &MatrixPair| (pair.from.clone(), pair.to.clone());
    let mut afterwards: BTreeMap<_, MatrixPair> =
        second.pairs.into_iter().map(|pair| (key(&pair), pair)).collect();
    let Matrix { pairs, .. } = first;
    let count = pairs.len();
    let both = pairs.into_iter().filter_map(|pair| {
        let after = afterwards.remove(&key(&pair))?;
        differ(&pair, &after).then_some((pair, after))
    });
    let both: Vec<(MatrixPair, MatrixPair)> = both.collect();
    let unchanged = count - both.len();
    let (left, right): (Vec<MatrixPair>, Vec<MatrixPair>) = both.into_iter().unzip();
    let left = explained(&before.lab, left, why)?;
    let right = explained(&after.lab, right, why)?;
    let changed = left.into_iter().zip(right);
    let changed = changed.map(|(before, after)| BeforeAfter { before, after }).collect();
    let pairs = Some(ChangedPairs { changed, unchanged, threshold: THRESHOLD });
    Ok(WhatIf { pairs, ..compared })
}

/// Whether figures of a pair differ by [`THRESHOLD`], or its way or problem at all.
fn differ(before: &MatrixPair, after: &MatrixPair) -> bool {
    let figures = |pair: &MatrixPair| {
        [pair.one_way_bytes_per_second, pair.both_ways_bytes_per_second, pair.read_latency_ns]
    };
    let mut both = figures(before).into_iter().zip(figures(after));
    let is_changed = both.any(|(before, after)| match (before, after) {
        (Some(before), Some(after)) => (after - before).abs() >= THRESHOLD * before.abs(),
        (before, after) => before != after,
    });
    is_changed || before.way != after.way || before.problem != after.problem
}

/// Finds the bottleneck of each pair one way; pairs that are alike have the same.
fn explained(
    lab: &Arc<Lab>,
    pairs: Vec<MatrixPair>,
    why: bool,
) -> Result<Vec<ExplainedPair>, WhatIfError> {
    if !why {
        let plain = |pair| ExplainedPair { pair, bottleneck: None };
        return Ok(pairs.into_iter().map(plain).collect());
    }
    let ways = one_ways(lab)?;
    let way_of = |pair: &MatrixPair| {
        let has_rate = pair.one_way_bytes_per_second.is_some();
        ways.iter().find(|way| has_rate && way.from == pair.from && way.to == pair.to)
    };
    let mut alike: BTreeMap<&str, &OneWay> = BTreeMap::new();
    for way in pairs.iter().filter_map(way_of) {
        alike.entry(&way.likeness).or_insert(way);
    }
    let alike: Vec<_> = alike.into_iter().collect();
    let found = parallel::try_map(&alike, |(likeness, way)| {
        let explanation = explain(&way.scenario, None, 1, &|_| ())?;
        Ok::<_, ExplainError>((*likeness, explanation.steps.into_iter().next()))
    })?;
    let found: BTreeMap<&str, Option<Step>> = found.into_iter().collect();
    let bottlenecks: Vec<Option<Step>> = pairs
        .iter()
        .map(|pair| found.get(way_of(pair)?.likeness.as_str()).cloned().flatten())
        .collect();
    let both = pairs.into_iter().zip(bottlenecks);
    Ok(both.map(|(pair, bottleneck)| ExplainedPair { pair, bottleneck }).collect())
}

/// Compares the rates and latencies of flows; with `why` also what limits them.
///
/// # Errors
/// An impossible change or flow, and a lab that cannot be built. Errors of runs are in the outcome,
/// and so is the reason for which a lab forbids the way of a flow.
pub fn compare_flows(
    lab: &Lab,
    changes: &[Change],
    flows: &Flows,
    why: bool,
    progress: &dyn Progress,
) -> Result<WhatIf, WhatIfError> {
    let (before, after, compared) = begin(lab, changes)?;
    let ran = |changed: &Changed| -> Result<ScenarioResult, WhatIfError> {
        let scenario = match flows.scenario(changed) {
            Err(error @ ExperimentError::Forbidden { .. }) => {
                let errors = vec![error.to_string()];
                return Ok(ScenarioResult { errors, error_count: 1, ..ScenarioResult::default() });
            }
            scenario => scenario?,
        };
        let outcome = scenario.run(progress, None)?;
        let whys = match why {
            true => explain_all(&[scenario], &[Ran::of(&outcome)], true, &()),
            false => vec![None],
        };
        let why = whys.into_iter().next().flatten();
        let (why_not_faster, not_explained) = match why {
            Some(Ok(why)) => (Some(why), None),
            Some(Err(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        Ok(ScenarioResult { why_not_faster, not_explained, ..outcome.result() })
    };
    let (before, after) = (ran(&before)?, ran(&after)?);
    Ok(WhatIf { flows: Some(BeforeAfter { before, after }), ..compared })
}
