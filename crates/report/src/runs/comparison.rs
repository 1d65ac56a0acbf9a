// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two outcomes side by side.

use std::collections::{BTreeMap, BTreeSet};

use crosslane_results::{
    Compared, ComparedBottleneck, ComparedFigure, Outcome, ScenarioResult, SingleFigure,
};

use super::run_page::{limit_words, size_words};
use super::values::values;

/// Two outcomes, and what they have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The first and the second outcome.
    pub outcomes: [Outcome; 2],
    /// The comparison as plain data: figures in the order of the first outcome.
    pub result: Compared,
}

/// Identity of a figure: subject, conditions, quantity and unit, and its number among the figures
/// with the same four.
type Key = ([String; 4], usize);

fn keyed(figures: Vec<SingleFigure>) -> Vec<(Key, SingleFigure)> {
    let mut seen: BTreeMap<[String; 4], usize> = BTreeMap::new();
    let key = |figure: SingleFigure| {
        let SingleFigure { subject, conditions, quantity, unit, .. } = &figure;
        let key = [subject, conditions, quantity, unit].map(Clone::clone);
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        ((key, *count), figure)
    };
    figures.into_iter().map(key).collect()
}

impl Comparison {
    /// Compares two outcomes.
    pub fn of(first: Outcome, second: Outcome) -> Self {
        let of_second = keyed(values(&second));
        let others: BTreeMap<&Key, f64> =
            of_second.iter().map(|(key, figure)| (key, figure.value)).collect();
        let (mut figures, mut only_first) = (Vec::new(), Vec::new());
        let mut in_both = BTreeSet::new();
        for (key, figure) in keyed(values(&first)) {
            match others.get(&key) {
                Some(other) => {
                    figures.push(ComparedFigure::new(figure, *other));
                    in_both.insert(key);
                }
                None => only_first.push(figure),
            }
        }
        let only_second = of_second.into_iter().filter(|(key, _)| !in_both.contains(key));
        let result = Compared {
            first: first.name(),
            second: second.name(),
            figures,
            only_first,
            only_second: only_second.map(|(_, figure)| figure).collect(),
            bottlenecks: bottlenecks(&first, &second),
        };
        Self { outcomes: [first, second], result }
    }
}

/// Returns the bottleneck of each scenario that both outcomes explain; none of reproductions.
fn bottlenecks(first: &Outcome, second: &Outcome) -> Vec<ComparedBottleneck> {
    let (Outcome::Bench(first), Outcome::Bench(second)) = (first, second) else {
        return Vec::new();
    };
    let words = |scenario: &ScenarioResult| {
        let why = scenario.why_not_faster.as_ref()?;
        let Some(step) = why.steps.first() else { return Some("nothing".to_owned()) };
        Some(limit_words(step, " and "))
    };
    let both = first.scenarios.iter().filter_map(|scenario| {
        let size = size_words(scenario);
        let other = second.scenarios.iter().find(|other| size_words(other) == size)?;
        Some(ComparedBottleneck { first: words(scenario)?, second: words(other)?, size })
    });
    both.collect()
}
