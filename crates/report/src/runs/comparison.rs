// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side.

use std::collections::{BTreeMap, BTreeSet};

use crosslane_results::{
    Compared, ComparedBottleneck, ComparedFigure, Outcome, ScenarioResult, SingleFigure,
};

use super::run_page::{limit_words, size_words};
use super::values::{Better, Value, values};

/// Smaller changes are rounding errors of printed figures.
const LEAST_CHANGE: f64 = 1e-9;

/// A value of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Its name, and its value in the first run.
    pub first: Value,
    /// Its value in the second run, in the same unit.
    pub second: f64,
}

impl Pair {
    /// Returns the difference of the second value as a fraction of the first; `None` if that is 0.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        let change = (self.second - self.first.value) / self.first.value;
        let is_small = change.abs() < LEAST_CHANGE;
        change.is_finite().then_some(if is_small { 0.0 } else { change })
    }

    /// Returns whether the second run is worse by more than `fraction`.
    #[must_use]
    pub fn is_worse(&self, fraction: f64) -> bool {
        let Some(change) = self.change() else { return false };
        match self.first.better {
            Better::Higher => change < -fraction,
            Better::Lower => change > fraction,
            Better::Neither => false,
        }
    }
}

/// Values that two runs have in common, and those that only one of them has.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The first run.
    pub first: Outcome,
    /// The second.
    pub second: Outcome,
    /// Values that both have, in the order of the first.
    pub pairs: Vec<Pair>,
    /// Values that only the first has.
    pub only_first: Vec<Value>,
    /// Values that only the second has.
    pub only_second: Vec<Value>,
}

/// Identity of a value: subject, conditions, quantity and unit, and its number among the values
/// with the same four.
type Key = ([String; 4], usize);

fn keyed(values: Vec<Value>) -> Vec<(Key, Value)> {
    let mut seen: BTreeMap<[String; 4], usize> = BTreeMap::new();
    let key = |value: Value| {
        let Value { subject, conditions, quantity, unit, .. } = &value;
        let key = [subject, conditions, quantity, unit].map(Clone::clone);
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        ((key, *count), value)
    };
    values.into_iter().map(key).collect()
}

impl Comparison {
    /// Compares two runs.
    #[must_use]
    pub fn of(first: Outcome, second: Outcome) -> Self {
        let of_second = keyed(values(&second));
        let others: BTreeMap<&Key, f64> =
            of_second.iter().map(|(key, value)| (key, value.value)).collect();
        let (mut pairs, mut only_first) = (Vec::new(), Vec::new());
        let mut in_both = BTreeSet::new();
        for (key, value) in keyed(values(&first)) {
            match others.get(&key) {
                Some(other) => {
                    pairs.push(Pair { first: value, second: *other });
                    in_both.insert(key);
                }
                None => only_first.push(value),
            }
        }
        let only_second = of_second.into_iter().filter(|(key, _)| !in_both.contains(key));
        let only_second = only_second.map(|(_, value)| value).collect();
        Self { first, second, pairs, only_first, only_second }
    }

    /// Returns the bottleneck of each scenario that both runs explain: its size, and the words of
    /// both. Empty for reproductions.
    #[must_use]
    pub fn bottlenecks(&self) -> Vec<(String, String, String)> {
        let (Outcome::Bench(first), Outcome::Bench(second)) = (&self.first, &self.second) else {
            return Vec::new();
        };
        let words = |scenario: &ScenarioResult| {
            let why = scenario.why_not_faster.as_ref()?;
            let Some(step) = why.steps.first() else { return Some("nothing".to_owned()) };
            Some(limit_words(step, " and "))
        };
        let mut rows = Vec::new();
        for scenario in &first.scenarios {
            let size = size_words(scenario);
            let other = second.scenarios.iter().find(|other| size_words(other) == size);
            if let (Some(one), Some(two)) = (words(scenario), other.and_then(words)) {
                rows.push((size, one, two));
            }
        }
        rows
    }

    /// Returns the comparison as plain data.
    #[must_use]
    pub fn result(&self) -> Compared {
        let figure = |pair: &Pair| {
            let Value { subject, conditions, quantity, unit, value, .. } = pair.first.clone();
            let (second, change) = (pair.second, pair.change());
            ComparedFigure { subject, conditions, quantity, unit, first: value, second, change }
        };
        let single = |value: &Value| {
            let Value { subject, conditions, quantity, unit, value, .. } = value.clone();
            SingleFigure { subject, conditions, quantity, unit, value }
        };
        let bottlenecks = self.bottlenecks().into_iter();
        Compared {
            first: self.first.name(),
            second: self.second.name(),
            figures: self.pairs.iter().map(figure).collect(),
            only_first: self.only_first.iter().map(single).collect(),
            only_second: self.only_second.iter().map(single).collect(),
            bottlenecks: bottlenecks
                .map(|(size, first, second)| ComparedBottleneck { size, first, second })
                .collect(),
        }
    }
}
