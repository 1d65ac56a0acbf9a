// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Validation of labs with measurements: their errors, and the constants that matter most.

use std::collections::BTreeSet;

use crosslane_lab::{Constant, Progress, Provenance};
use crosslane_results::{Influence, RowErrors, ValidatedSet};
use rayon::prelude::*;

use crate::comparison::{Kind, Row, worst_and_median};
use crate::context::Context;
use crate::error::Result;
use crate::study::{Effort, Study, study};

/// Relative change of each constant.
pub const CHANGE: f64 = 0.10;
/// Number of constants that are listed.
const NAMED: usize = 5;
/// The seed of the runs; in these labs it affects only jitter.
const SEED: u64 = 1;

/// Returns the errors of some rows.
fn errors_of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> RowErrors {
    let errors: Vec<f64> = rows.into_iter().filter_map(|row| row.error).collect();
    let (worst, median) = worst_and_median(errors.iter().copied()).unwrap_or_default();
    RowErrors { rows: errors.len(), worst, median }
}

/// Lists the constants of a study's labs; equal lines of several labs appear once.
fn constants(context: &Context<'_>) -> Vec<Constant> {
    let mut seen = BTreeSet::new();
    let all = context.labs.iter().flat_map(|lab| lab.constants());
    all.filter(|one| seen.insert((one.line, one.path()))).cloned().collect()
}

/// Returns the compared rows of shorter experiments, with one constant changed.
fn quick(study: &Study, change: Option<(&str, f64)>) -> Result<Vec<Row>> {
    let mut context = Context::of(study, SEED, &())?;
    if let Some((path, value)) = change {
        context = context.with_constant(path, value)?;
    }
    (study.compared)(&context, Effort::Quick)
}

/// Returns the number of numeric constants of a set: its validation takes as many runs, and one
/// more.
///
/// # Errors
/// An unknown set.
pub fn numbers(name: &str) -> Result<usize> {
    let context = Context::open(name, SEED, &())?;
    Ok(constants(&context).iter().filter(|constant| constant.is_number).count())
}

/// Validates one set. `watch` is told of each constant; when it wants no more to begin, the
/// remaining ones are not changed.
///
/// # Errors
/// An unknown set, or an experiment that fails with unchanged constants.
pub fn validate(name: &str, watch: &dyn Progress) -> Result<ValidatedSet> {
    let study = study(name)?;
    let context = Context::of(study, SEED, &())?;
    let constants = constants(&context);
    let rows = (study.compared)(&context, Effort::Full)?;
    let compared = crate::reproduction::compared(rows.iter());
    let predicted = compared.iter().copied().filter(|row| row.kind == Kind::Predicted);
    let outside = compared.iter().filter(|row| row.is_met() == Some(false));
    let base = quick(study, None)?;
    let numbers: Vec<&Constant> = constants.iter().filter(|one| one.is_number).collect();
    let tried: Vec<Option<Option<Influence>>> = numbers
        .par_iter()
        .map(|constant| {
            if watch.is_over() {
                return None;
            }
            let influence = influence(study, constant, &base);
            watch.done(&constant.path(), crosslane_pcie::units::Picoseconds::ZERO);
            Some(influence)
        })
        .collect();
    let not_raised = tried.iter().filter(|one| one.is_none()).count();
    let tried: Vec<Option<Influence>> = tried.into_iter().flatten().collect();
    let changed = tried.iter().flatten().count();
    let mut influences: Vec<Influence> = tried.into_iter().flatten().collect();
    influences.sort_by(|a, b| b.average.total_cmp(&a.average));
    influences.truncate(NAMED);
    Ok(ValidatedSet {
        set: study.labs[0].to_owned(),
        rows: context.figures.count(),
        constants: constants.len(),
        fitted: constants.iter().filter(|one| one.provenance == Provenance::Fit).count(),
        compared: errors_of(compared.iter().copied()),
        predicted: errors_of(predicted),
        outside: outside.map(|row| row.label.clone()).collect(),
        influences,
        changed,
        fixed: numbers.len() - not_raised - changed,
        not_raised,
    })
}

/// Changes a constant and compares the rows; `None` if it cannot have the other value.
fn influence(study: &Study, constant: &Constant, base: &[Row]) -> Option<Influence> {
    let value = number_of(&constant.value)?;
    let changed_to = changed(value, constant.unit);
    let rows = quick(study, Some((&constant.path(), changed_to))).ok()?;
    let changes = base.iter().zip(&rows).filter_map(|(before, after)| {
        let (before_value, after_value) = (before.simulated?, after.simulated?);
        Some(((after_value - before_value) / before_value, before.label.as_str()))
    });
    let changes: Vec<(f64, &str)> = changes.filter(|(change, _)| change.is_finite()).collect();
    let average =
        changes.iter().map(|(change, _)| change.abs()).sum::<f64>() / changes.len().max(1) as f64;
    let (largest, row) = changes.into_iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    Some(Influence {
        constant: constant.path(),
        value,
        changed_to,
        unit: constant.unit.to_owned(),
        average,
        row: row.to_owned(),
        largest,
    })
}

/// Returns the number that a lab file writes as `4_096` or `49.5`; `None` for zero, which has no
/// tenth, and for values that are not plain numbers.
fn number_of(text: &str) -> Option<f64> {
    let value: f64 = text.replace('_', "").parse().ok()?;
    (value != 0.0).then_some(value)
}

/// Returns a value increased by a tenth. Counts (TLPs, credits, bytes) increase by at least one.
fn changed(value: f64, unit: &str) -> f64 {
    let more = value * (1.0 + CHANGE);
    let is_counted = !matches!(unit, "ns" | "GB/s" | "MB/s" | "1");
    if is_counted && more.round() == value { value + 1.0 } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_goes_up_by_a_tenth_or_by_one() {
        assert_eq!(changed(1.0, ""), 2.0);
        assert_eq!(changed(1.0, "ns"), 1.1);
        assert_eq!(changed(200.0, "B"), 200.0 * 1.1);
        assert_eq!(number_of("65_536"), Some(65536.0));
        assert_eq!(number_of("0"), None);
        assert_eq!(number_of("infinite"), None);
    }

    #[test]
    fn an_unknown_set_is_answered_with_those_that_are_there() {
        let error = numbers("nowhere").unwrap_err().to_string();
        let expected = "there is no set of measurements nowhere; there are aws-f1, kc705, nget, \
                        pciebench, pciebench:iommu, pciebench:t430, pciebench:t620, \
                        pciebench:t620-v2, pciebench:t630, rosta, sbdt";
        assert_eq!(error, expected);
    }
}
