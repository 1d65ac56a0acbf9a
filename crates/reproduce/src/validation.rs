// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every lab that has measurements beside it: how good it is, and which constants matter.

use std::collections::BTreeSet;

use crosslane_lab::{Constant, Lab, Provenance};
use rayon::prelude::*;
use serde::Serialize;

use crate::comparison::{Kind, Row, worst_and_median};
use crate::error::ReproduceError;
use crate::pciebench::{self, Effort, iommu};
use crate::watch::Watch;
use crate::{aws_f1, kc705, nget, rosta, sbdt};

/// By how much each constant is changed.
pub const CHANGE: f64 = 0.10;
/// Constants that are named.
const NAMED: usize = 5;
/// The seed of the runs; nothing in these labs depends on it but jitter.
const SEED: u64 = 1;

/// The sets, by the name of their lab.
pub const SETS: [&str; 7] =
    ["aws-f1", "kc705", "nget", "pciebench", "pciebench:iommu", "rosta", "sbdt"];

/// How good some rows are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// How many rows.
    pub rows: usize,
    /// The largest error, with its sign, as a fraction.
    pub worst: f64,
    /// The median of the errors' sizes, as a fraction.
    pub median: f64,
}

impl Errors {
    fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let errors: Vec<f64> = rows.into_iter().filter_map(|row| row.error).collect();
        let (worst, median) = worst_and_median(errors.iter().copied()).unwrap_or_default();
        Self { rows: errors.len(), worst, median }
    }
}

/// What a change of one constant does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Influence {
    /// Path of the constant.
    pub constant: String,
    /// Its value.
    pub value: f64,
    /// What it was set to.
    pub changed_to: f64,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// Average size of the change of a compared row, as a fraction of the row.
    pub average: f64,
    /// The row that changes most.
    pub row: String,
    /// By how much, as a fraction, with its sign.
    pub largest: f64,
}

/// What the validation of one set has found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// Name of its lab.
    pub set: &'static str,
    /// Published rows.
    pub rows: usize,
    /// Constants of the lab, those of its variants that the set needs included.
    pub constants: usize,
    /// Those that were fitted.
    pub fitted: usize,
    /// Errors of the rows that are compared.
    pub compared: Errors,
    /// Errors of those that are predicted.
    pub predicted: Errors,
    /// Rows outside their tolerance, by label.
    pub outside: Vec<String>,
    /// The constants that move the compared rows most, most first.
    pub influences: Vec<Influence>,
    /// Numbers that were changed.
    pub changed: usize,
    /// Numbers that can only have other values (powers of two, generations), or with which the
    /// experiments do not run.
    pub fixed: usize,
    /// Numbers that were not changed, because the validation was interrupted before.
    pub not_raised: usize,
}

/// A lab with measurements.
trait Set: Sync {
    fn constants(&self) -> Vec<Constant>;
    /// Every published row, simulated.
    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError>;
    /// The compared rows, by shorter experiments, with one constant changed.
    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError>;
}

struct Pciebench(pciebench::Labs);

impl Set for Pciebench {
    fn constants(&self) -> Vec<Constant> {
        distinct(self.0.labs().into_iter().flat_map(Lab::constants))
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let results = self.0.results()?;
        Ok((results.len(), results.iter().map(|(row, value)| row.compared(*value)).collect()))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let changed = change.map(|(path, value)| self.0.with_constant(path, value)).transpose()?;
        let labs = changed.as_ref().unwrap_or(&self.0);
        let rows = self.0.rows()?.into_iter().filter(|row| row.tolerance().is_some());
        rows.map(|row| Ok(row.compared(labs.simulate(&row, Effort::QUICK)?))).collect()
    }
}

struct PciebenchIommu(Lab);

impl PciebenchIommu {
    /// Rows in the lab, each in one of its own, beside each other.
    fn run(lab: &Lab, rows: &[iommu::Row], operations: u64) -> Result<Vec<Row>, ReproduceError> {
        let run = |row: &iommu::Row| Ok(row.compared(iommu::simulate(lab, row, operations)?.0));
        rows.par_iter().map(run).collect()
    }
}

impl Set for PciebenchIommu {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let rows = iommu::rows()?;
        Ok((rows.len(), Self::run(&self.0, &rows, iommu::OPERATIONS)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        let mut rows = iommu::rows()?;
        rows.retain(|row| row.tolerance().is_some());
        Self::run(&lab, &rows, iommu::QUICK_OPERATIONS)
    }
}

struct AwsF1(Lab);

impl Set for AwsF1 {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let context = aws_f1::Context::new(SEED, &())?;
        Ok((context.published_rows(), aws_f1::compared(&context)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        aws_f1::quick(&aws_f1::Context::of(lab, SEED, &())?)
    }
}

struct Kc705(Lab);

impl Set for Kc705 {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let context = kc705::Context::new(SEED, &())?;
        Ok((context.published_rows(), kc705::compared(&context)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        kc705::quick(&kc705::Context::of(lab, SEED, &())?)
    }
}

struct Nget(Lab);

impl Set for Nget {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let context = nget::Context::new(SEED, &())?;
        Ok((context.published_rows(), nget::compared(&context)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        nget::quick(&nget::Context::of(lab, SEED, &())?)
    }
}

struct Sbdt(Lab);

impl Set for Sbdt {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let context = sbdt::Context::new(SEED, &())?;
        Ok((context.published_rows(), sbdt::compared(&context)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        sbdt::quick(&sbdt::Context::of(lab, SEED, &())?)
    }
}

struct Rosta(Lab);

impl Set for Rosta {
    fn constants(&self) -> Vec<Constant> {
        self.0.constants().cloned().collect()
    }

    fn rows(&self) -> Result<(usize, Vec<Row>), ReproduceError> {
        let context = rosta::Context::new(SEED, &())?;
        Ok((context.published_rows(), rosta::compared(&context)?))
    }

    fn quick(&self, change: Option<(&str, f64)>) -> Result<Vec<Row>, ReproduceError> {
        let lab = match change {
            Some((path, value)) => self.0.with_constant(path, value)?,
            None => self.0.clone(),
        };
        rosta::compared(&rosta::Context::quick(lab, SEED, &())?)
    }
}

/// Constants without those that stand in the same line.
fn distinct<'a>(constants: impl Iterator<Item = &'a Constant>) -> Vec<Constant> {
    let mut lines = BTreeSet::new();
    constants.filter(|constant| lines.insert(constant.line)).cloned().collect()
}

fn set_of(name: &str) -> Result<(&'static str, Box<dyn Set>), ReproduceError> {
    match SETS.into_iter().find(|known| *known == name) {
        Some(known @ "pciebench") => Ok((known, Box::new(Pciebench(pciebench::Labs::open()?)))),
        Some(known @ "pciebench:iommu") => {
            Ok((known, Box::new(PciebenchIommu(crosslane_lab::open(known)?))))
        }
        Some(known @ "aws-f1") => Ok((known, Box::new(AwsF1(crosslane_lab::open(known)?)))),
        Some(known @ "kc705") => Ok((known, Box::new(Kc705(crosslane_lab::open(known)?)))),
        Some(known @ "nget") => Ok((known, Box::new(Nget(crosslane_lab::open(known)?)))),
        Some(known @ "sbdt") => Ok((known, Box::new(Sbdt(crosslane_lab::open(known)?)))),
        Some(known) => Ok((known, Box::new(Rosta(crosslane_lab::open(known)?)))),
        None => {
            let (what, known) = ("set of measurements", SETS.join(", "));
            Err(ReproduceError::Unknown { what, name: name.to_owned(), known })
        }
    }
}

/// Constants of a set that are numbers: as many runs does its validation take, and one more.
///
/// # Errors
/// No set of that name.
pub fn numbers(name: &str) -> Result<usize, ReproduceError> {
    Ok(set_of(name)?.1.constants().iter().filter(|constant| constant.is_number).count())
}

/// Validates one set. `watch` hears of each constant; where it wants no more to begin, the others
/// are not raised.
///
/// # Errors
/// No set of that name, or an experiment that does not run with the constants as they are.
pub fn validate(name: &str, watch: &dyn Watch) -> Result<Validation, ReproduceError> {
    let (set_name, set) = set_of(name)?;
    let constants = set.constants();
    let (published, rows) = set.rows()?;
    let compared = crate::reproduction::compared(rows.iter());
    let predicted = compared.iter().copied().filter(|row| row.kind == Kind::Predicted);
    let outside = compared.iter().filter(|row| row.is_met() == Some(false));
    let base = set.quick(None)?;
    let numbers: Vec<&Constant> = constants.iter().filter(|one| one.is_number).collect();
    let tried: Vec<Option<Option<Influence>>> = numbers
        .par_iter()
        .map(|constant| {
            if watch.is_over() {
                return None;
            }
            let influence = influence(&*set, constant, &base);
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
    Ok(Validation {
        set: set_name,
        rows: published,
        constants: constants.len(),
        fitted: constants.iter().filter(|one| one.provenance == Provenance::Fit).count(),
        compared: Errors::of(compared.iter().copied()),
        predicted: Errors::of(predicted),
        outside: outside.map(|row| row.label.clone()).collect(),
        influences,
        changed,
        fixed: numbers.len() - not_raised - changed,
        not_raised,
    })
}

/// What a constant does to the compared rows; none where it cannot have the other value.
fn influence(set: &dyn Set, constant: &Constant, base: &[Row]) -> Option<Influence> {
    let value = number_of(&constant.value)?;
    let changed_to = changed(value, constant.unit);
    let rows = set.quick(Some((&constant.path(), changed_to))).ok()?;
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
        unit: constant.unit,
        average,
        row: row.to_owned(),
        largest,
    })
}

/// The number that a lab file writes as `4_096` or `49.5`; none for zero, of which there is no
/// part, and for numbers that stand for something else.
fn number_of(text: &str) -> Option<f64> {
    let value: f64 = text.replace('_', "").parse().ok()?;
    (value != 0.0).then_some(value)
}

/// One tenth more. What is counted (TLPs, credits, bytes) goes up by one at least.
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
                        pciebench, pciebench:iommu, rosta, sbdt";
        assert_eq!(error, expected);
    }
}
