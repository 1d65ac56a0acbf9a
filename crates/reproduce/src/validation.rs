// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Validation of labs with measurements: their errors, and the constants that matter most.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crosslane_experiment::parallel;
use crosslane_lab::{Constant, Items, Lab, Progress, Provenance};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Influence, RowErrors, ValidatedRow, ValidatedSet};

use crate::comparison::{Kind, Row, worst_and_median};
use crate::context::Context;
use crate::error::Result;
use crate::measured::Measurements;
use crate::study::{Effort, study};

/// Relative change of each constant.
pub const CHANGE: f64 = 0.10;
/// Number of constants that are listed.
const NAMED: usize = 5;
/// The seed of the runs; in these labs it affects only jitter.
const SEED: u64 = 1;
/// Items of a set before those of its constants: the compared rows, and the same of shorter runs.
pub const ITEMS_BEFORE: u64 = 2;

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

/// Returns the paths of the numeric constants of a set, each of which is changed.
///
/// # Errors
/// An unknown set.
pub fn numbers(name: &str) -> Result<Vec<String>> {
    let context = Context::open(name, SEED, &())?;
    Ok(paths(constants(&context).iter()))
}

/// Returns the same of a lab with a file of measurements.
pub fn numbers_of(lab: &Lab) -> Vec<String> {
    paths(lab.constants())
}

fn paths<'a>(constants: impl Iterator<Item = &'a Constant>) -> Vec<String> {
    constants.filter(|constant| constant.is_number).map(Constant::path).collect()
}

/// A set of measurements, as it is validated.
struct Set<'a> {
    name: &'a str,
    /// Number of its figures.
    rows: usize,
    constants: Vec<Constant>,
    /// Makes the compared rows, with one constant changed.
    compared: &'a Compared<'a>,
}

type Compared<'a> = dyn Fn(Option<(&str, f64)>, Effort) -> Result<Vec<Row>> + Sync + 'a;

/// Validates one set. `watch` is told of each constant; when it wants no more to begin, the
/// remaining ones are not changed. The items are [`ITEMS_BEFORE`] and one for each numeric
/// constant; if `items` lacks some of them, the result is `None`.
///
/// # Errors
/// An unknown set, or an experiment that fails with unchanged constants.
pub fn validate(
    name: &str,
    watch: &dyn Progress,
    items: &impl Items,
) -> Result<Option<ValidatedSet>> {
    let study = study(name)?;
    let context = Context::of(study, SEED, &())?;
    let set = Set {
        name: study.labs[0],
        rows: context.figures.count(),
        constants: constants(&context),
        compared: &|change, effort| {
            let mut context = Context::of(study, SEED, &())?;
            if let Some((path, value)) = change {
                context = context.with_constant(path, value)?;
            }
            (study.compared)(&context, effort)
        },
    };
    Ok(set.validate(watch, items)?.map(|validated| validated.set))
}

/// Validates a lab with a file of measurements, as [`validate`]; `name` is that of the lab.
///
/// # Errors
/// A row whose flow the lab does not have, or a run that fails with unchanged constants.
pub fn validate_measured(
    name: &str,
    lab: &Lab,
    measurements: &Measurements,
    watch: &dyn Progress,
    items: &impl Items,
) -> Result<Option<ValidatedSet>> {
    measurements.check(lab)?;
    let rows = &measurements.rows;
    let set = Set {
        name,
        rows: rows.len(),
        constants: lab.constants().cloned().collect(),
        compared: &|change, effort| {
            let lab = match change {
                Some((path, value)) => lab.with_constant(path, value)?,
                None => lab.clone(),
            };
            let lab = Arc::new(lab);
            parallel::try_map(rows, |row| {
                Ok(row.compare(row.simulate(&lab, effort)?, lab.constants()))
            })
        },
    };
    let Some(validated) = set.validate(watch, items)? else { return Ok(None) };
    let measured = rows.iter().zip(&validated.rows).enumerate().map(|(index, (row, compared))| {
        let of_row = validated.tried.iter().map(|tried| (tried, tried.changes[index]));
        let moving = of_row.filter(|(_, change)| change.is_finite() && *change != 0.0);
        let most = moving.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        ValidatedRow {
            row: row.result(compared),
            moved_by: most.map(|(tried, _)| tried.influence.constant.clone()),
            change: most.map(|(_, change)| change),
        }
    });
    let (file, measured) = (Some(measurements.file.clone()), measured.collect());
    Ok(Some(ValidatedSet { file, measured, ..validated.set }))
}

/// The lab's figures of the compared rows, in their order.
type Figures = Vec<Option<f64>>;

/// The effect of a constant on all rows.
struct Tried {
    influence: Influence,
    /// Change of each compared row, as a fraction; not finite if it has no figure.
    changes: Vec<f64>,
}

/// Outcome of a validation.
struct Validated {
    set: ValidatedSet,
    /// The compared rows.
    rows: Vec<Row>,
    /// The changed constants, the most influential first.
    tried: Vec<Tried>,
}

impl Set<'_> {
    fn validate(&self, watch: &dyn Progress, items: &impl Items) -> Result<Option<Validated>> {
        let constants = &self.constants;
        let rows = items.once(0, || (self.compared)(None, Effort::Full))?;
        let base = items.once(1, || (self.compared)(None, Effort::Quick))?;
        let numbers: Vec<&Constant> = constants.iter().filter(|one| one.is_number).collect();
        let is_complete = AtomicBool::new(true);
        let counted: Vec<(usize, &Constant)> = numbers.iter().copied().enumerate().collect();
        let changed: Vec<Option<Option<Figures>>> = parallel::map(&counted, |(index, constant)| {
            if watch.is_over() {
                return None;
            }
            let item = ITEMS_BEFORE + *index as u64;
            let Ok(figures): Result<_, Infallible> =
                items.once(item, || Ok(self.changed(constant)));
            match &figures {
                Some(_) => watch.done(&constant.path(), Picoseconds::ZERO),
                None => is_complete.store(false, Ordering::Relaxed),
            }
            figures
        });
        let (Some(rows), Some(base), true) = (rows, base, is_complete.into_inner()) else {
            return Ok(None);
        };
        let compared = crate::reproduction::compared(rows.iter());
        let predicted = compared.iter().copied().filter(|row| row.kind == Kind::Predicted);
        let outside = compared.iter().filter(|row| row.is_met() == Some(false));
        let not_raised = changed.iter().filter(|one| one.is_none()).count();
        let changed = numbers.iter().zip(changed.into_iter().map(Option::flatten));
        let tried = changed.filter_map(|(constant, figures)| tried(constant, &base, &figures?));
        let mut tried: Vec<Tried> = tried.collect();
        let changed = tried.len();
        tried.sort_by(|a, b| b.influence.average.total_cmp(&a.influence.average));
        let set = ValidatedSet {
            set: self.name.to_owned(),
            rows: self.rows,
            constants: constants.len(),
            fitted: constants.iter().filter(|one| one.provenance == Provenance::Fit).count(),
            compared: errors_of(compared.iter().copied()),
            predicted: errors_of(predicted),
            outside: outside.map(|row| row.label.clone()).collect(),
            influences: tried.iter().take(NAMED).map(|tried| tried.influence.clone()).collect(),
            changed,
            fixed: numbers.len() - not_raised - changed,
            not_raised,
            file: None,
            measured: Vec::new(),
        };
        Ok(Some(Validated { set, rows, tried }))
    }

    /// Changes a constant; `None` if it cannot have the other value.
    fn changed(&self, constant: &Constant) -> Option<Figures> {
        let (_, changed_to) = change_of(constant)?;
        let rows = (self.compared)(Some((&constant.path(), changed_to)), Effort::Quick).ok()?;
        Some(rows.iter().map(|row| row.simulated).collect())
    }
}

/// Compares the rows before the change of a constant with those after it.
fn tried(constant: &Constant, base: &[Row], after: &Figures) -> Option<Tried> {
    let (value, changed_to) = change_of(constant)?;
    let change = |(before, after): (&Row, &Option<f64>)| {
        let (before, after) = before.simulated.zip(*after)?;
        Some((after - before) / before)
    };
    let changes = base.iter().zip(after).map(|pair| change(pair).unwrap_or(f64::NAN));
    let changes: Vec<f64> = changes.collect();
    let finite = || changes.iter().zip(base).filter(|(change, _)| change.is_finite());
    let sum: f64 = finite().map(|(change, _)| change.abs()).sum();
    let (largest, row) = finite().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    let influence = Influence {
        constant: constant.path(),
        value,
        changed_to,
        unit: constant.unit.to_owned(),
        average: sum / finite().count().max(1) as f64,
        row: row.label.clone(),
        largest: *largest,
    };
    Some(Tried { influence, changes })
}

/// Returns the value of a constant, and its changed value.
fn change_of(constant: &Constant) -> Option<(f64, f64)> {
    let value = number_of(&constant.value)?;
    Some((value, changed(value, constant.is_whole())))
}

/// Returns the number that a lab file writes as `4_096` or `49.5`; `None` for zero, which has no
/// tenth, and for values that are not plain numbers.
fn number_of(text: &str) -> Option<f64> {
    let value: f64 = text.replace('_', "").parse().ok()?;
    (value != 0.0).then_some(value)
}

/// Returns a value increased by a tenth. Whole numbers (TLPs, credits, bytes) increase by at least
/// one.
fn changed(value: f64, is_whole: bool) -> f64 {
    let more = value * (1.0 + CHANGE);
    if is_whole && more.round() == value { value + 1.0 } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_goes_up_by_a_tenth_or_by_one() {
        assert_eq!(changed(1.0, true), 2.0);
        assert_eq!(changed(1.0, false), 1.1);
        assert_eq!(changed(200.0, true), 200.0 * 1.1);
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
