// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calibration of a lab: constants fitted to measured rows, and the other rows predicted with
//! intervals.
//!
//! Read first: [`calibrate`]; `docs/calibrate.md` explains the method.

pub mod least_squares;
mod page;
mod text;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crosslane_experiment::parallel;
use crosslane_lab::{Constant, Lab, Progress};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::quantity::count_words;
use crosslane_results::{CalibratedConstant, CalibratedRow, Calibration, SCHEMA};

use crate::comparison::Kind;
use crate::error::{ReproduceError, Result};
use crate::measured::{MeasuredRow, Measurements, Role, rows_words};
use crate::study::Effort;
use least_squares::{Normal, Parameter, Residuals, derivatives, least_squares, squares, student};

pub use page::page;
pub use text::text;

/// Share of measurements that intervals are for; [`student`] is of this share.
const CONFIDENCE: f64 = 0.95;
/// Least standard deviation of a row, as a fraction: the simulator answers in steps.
const LEAST_DEVIATION: f64 = 0.001;
/// A row that changes by less than this part of a constant's change does not depend on it.
const LEAST_DEPENDENCE: f64 = 1e-3;
/// Constants cannot be told apart if their effects on the rows, each made as long as 1, have a
/// singular value below this.
const LEAST_DIFFERENCE: f64 = 0.02;
/// A constant takes part in what cannot be told apart with at least this part of it.
const LEAST_PART: f64 = 0.3;
/// A constant is looked for within this factor of its value, unless it has a range in the lab, or
/// one is given.
const FACTOR: f64 = 10.0;
/// Beginning of the first line of a lab file that a calibration has written.
const WRITTEN: &str = "# Calibrated by";
/// Significant digits of a fitted value.
const DIGITS: i32 = 5;

/// A constant that is to be fitted: `PATH` or `PATH=LOW..HIGH`.
#[derive(Clone, Debug, PartialEq)]
pub struct FitRequest {
    /// Path of the constant.
    pub path: String,
    /// Range in which it is looked for.
    pub range: Option<(f64, f64)>,
}

impl FromStr for FitRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, range) = match text.split_once('=') {
            None => (text, None),
            Some((path, range)) => {
                let ends = range.split_once("..").and_then(|(low, high)| {
                    let number = |text: &str| text.trim().parse::<f64>().ok();
                    Some((number(low)?, number(high)?))
                });
                let ends = ends.filter(|(low, high)| low < high && high.is_finite());
                let form = "is not a range LOW..HIGH of two numbers, the lower one first";
                (path, Some(ends.ok_or_else(|| format!("{range} {form}"))?))
            }
        };
        match path.is_empty() {
            true => Err(format!("{text} names no constant")),
            false => Ok(Self { path: path.to_owned(), range }),
        }
    }
}

/// Returns the error of a calibration that cannot be made, or says nothing.
fn refused(problem: String) -> ReproduceError {
    ReproduceError::Calibration(problem)
}

/// Returns the parameter of a constant, and the constant.
fn parameter<'a>(lab: &'a Lab, request: &FitRequest) -> Result<(&'a Constant, Parameter)> {
    let FitRequest { path, range } = request;
    let found = lab.constants().find(|constant| constant.path() == *path);
    let number = found.and_then(|constant| constant.value.parse::<f64>().ok());
    let Some((constant, start)) = found.filter(|one| one.is_number).zip(number) else {
        // The lab says why not.
        lab.with_constant(path, 1.0)?;
        return Err(refused(format!("{path} is not a number")));
    };
    let numbers = constant.numbers.ok_or_else(|| {
        refused(format!("{path} can only be one of certain numbers, which cannot be fitted"))
    })?;
    let (least, most) = (numbers.low, numbers.high);
    let of_lab = constant.range.map(|range| (range.low, range.high));
    let (low, high) = match range.or(of_lab) {
        Some((low, high)) if low < least || high > most => {
            let problem = format!("{path}: {low}..{high} reaches beyond {least}..{most}");
            return Err(refused(format!("{problem}, which its key allows")));
        }
        Some(range) => range,
        None if start == 0.0 => {
            let problem = format!("{path} is 0: say where to look for it, as {path}=LOW..HIGH");
            return Err(refused(problem));
        }
        None => ((start / FACTOR).max(least), (start * FACTOR).min(most)),
    };
    if numbers.are_whole && low.ceil() > high.floor() {
        return Err(refused(format!("{path}: no whole number is between {low} and {high}")));
    }
    Ok((constant, Parameter { start, low, high, is_whole: numbers.are_whole }))
}

/// Returns which rows are fitted, in the order of the file.
fn fitted_rows(measurements: &Measurements, named: Option<&[usize]>) -> Result<Vec<bool>> {
    let rows = &measurements.rows;
    if let Some(named) = named {
        let count = rows.len();
        if let Some(number) = named.iter().find(|number| **number > count) {
            let problem = format!("there is no row {number}: {} has {count}", measurements.file);
            return Err(refused(problem));
        }
        return Ok(rows.iter().map(|row| named.contains(&row.number)).collect());
    }
    let says = |role: Role| rows.iter().any(|row| row.role == Some(role));
    Ok(match says(Role::Fit) {
        true => rows.iter().map(|row| row.role == Some(Role::Fit)).collect(),
        false => rows.iter().map(|row| row.role != Some(Role::Predict)).collect(),
    })
}

/// A lab, the constants to be fitted, and the rows.
struct Problem<'a> {
    lab: &'a Lab,
    constants: Vec<(&'a Constant, Parameter)>,
    /// The fitted rows.
    rows: Vec<&'a MeasuredRow>,
    watch: &'a dyn Progress,
    trials: AtomicUsize,
}

/// The end of a search.
struct Judged {
    /// Of each constant, half the length of its interval.
    halves: Vec<f64>,
    /// Of each row of the file, the figure and its interval.
    rows: Vec<(f64, [f64; 2])>,
    residual: f64,
}

impl Problem<'_> {
    fn paths(&self) -> impl Iterator<Item = String> + '_ {
        self.constants.iter().map(|(constant, _)| constant.path())
    }

    fn parameters(&self, at: Option<&[f64]>) -> Vec<Parameter> {
        let moved = |(index, (_, parameter)): (usize, &(&Constant, Parameter))| Parameter {
            start: at.map_or(parameter.start, |at| at[index]),
            ..*parameter
        };
        self.constants.iter().enumerate().map(moved).collect()
    }

    /// Makes the measurements of some rows with values of the constants.
    fn figures(&self, rows: &[&MeasuredRow], values: &[f64], effort: Effort) -> Result<Vec<f64>> {
        if self.watch.is_over() {
            return Err(ReproduceError::Interrupted);
        }
        let mut lab = self.lab.clone();
        for (path, value) in self.paths().zip(values) {
            lab = lab.with_constant(&path, *value)?;
        }
        let lab = Arc::new(lab);
        let figures = parallel::try_map(rows, |row| row.simulate(&lab, effort));
        self.trials.fetch_add(1, Ordering::Relaxed);
        self.watch.done("trial", Picoseconds::ZERO);
        figures
    }

    /// Returns the same if rows can be run with these values.
    fn possible(
        &self,
        rows: &[&MeasuredRow],
        values: &[f64],
        effort: Effort,
    ) -> Result<Option<Vec<f64>>> {
        match self.figures(rows, values, effort) {
            Err(ReproduceError::Interrupted) => Err(ReproduceError::Interrupted),
            figures => Ok(figures.ok()),
        }
    }

    /// Returns the errors of fitted rows as parts of their tolerances.
    fn residuals(&self, figures: &[f64]) -> Vec<f64> {
        let pairs = figures.iter().zip(&self.rows);
        pairs.map(|(figure, row)| (figure / row.value - 1.0) / row.tolerance).collect()
    }

    /// Returns the values that fit best: shorter runs find them, full ones correct them.
    fn solve(&self) -> Result<Vec<f64>> {
        let at = |values: &[f64], effort: Effort| -> Result<Option<Vec<f64>>> {
            let figures = self.possible(&self.rows, values, effort)?;
            Ok(figures.map(|figures| self.residuals(&figures)))
        };
        let start = self.parameters(None);
        let mut values: Vec<f64> = start.iter().map(|one| one.allowed(one.start)).collect();
        // If the rows cannot be run where the search begins, this says why.
        self.figures(&self.rows, &values, Effort::Quick)?;
        let quick = |values: &[f64]| at(values, Effort::Quick);
        let full = |values: &[f64]| at(values, Effort::Full);
        let searches: [(&Residuals<'_, ReproduceError>, bool); 2] =
            [(&quick, true), (&full, false)];
        for (residuals, is_wide) in searches {
            let found = least_squares(residuals, &self.parameters(Some(&values)), is_wide)?;
            values = found.unwrap_or(values);
        }
        let rounded = |(value, parameter): (&f64, &Parameter)| parameter.allowed(rounded(*value));
        Ok(values.iter().zip(&start).map(rounded).collect())
    }

    /// Looks at the lab with these values: the figures of all rows of the file, and what the fitted
    /// ones say of the values.
    fn judge(&self, all: &[MeasuredRow], values: &[f64]) -> Result<Judged> {
        let all: Vec<&MeasuredRow> = all.iter().collect();
        let figures = self.figures(&all, values, Effort::Full)?;
        let relative = |point: &[f64]| -> Result<Option<Vec<f64>>> {
            let moved = self.possible(&all, point, Effort::Full)?;
            Ok(moved.map(|moved| moved.iter().zip(&figures).map(|(a, b)| a / b).collect()))
        };
        let (columns, scales) = derivatives(&relative, &self.parameters(None), values)?;
        let places: Vec<usize> = self.rows.iter().map(|row| row.number - 1).collect();
        self.check_dependence(&columns, &places, values)?;
        // Derivatives of the residuals.
        let weighted = |column: &Vec<f64>| {
            let weighted = places
                .iter()
                .zip(&self.rows)
                .map(|(place, row)| column[*place] * figures[*place] / row.value / row.tolerance);
            weighted.collect()
        };
        let normal = Normal::of(&columns.iter().map(weighted).collect::<Vec<Vec<f64>>>());
        self.check_difference(&normal)?;
        let of_fit: Vec<f64> = places.iter().map(|place| figures[*place]).collect();
        let residuals = self.residuals(&of_fit);
        let freedom = self.rows.len() - self.constants.len();
        let strictest = self.rows.iter().map(|row| row.tolerance).fold(1.0, f64::min);
        let deviation = (squares(&residuals) / freedom as f64).sqrt();
        let deviation = deviation.max(LEAST_DEVIATION / strictest);
        let reach = student(freedom);
        let half = |(index, scale): (usize, &f64)| {
            let unit: Vec<f64> =
                (0..scales.len()).map(|at| if at == index { 1.0 } else { 0.0 }).collect();
            reach * deviation * normal.variance(&unit).max(0.0).sqrt() * scale
        };
        let interval = |(place, row): (usize, &&MeasuredRow)| {
            let slopes: Vec<f64> = columns.iter().map(|column| column[place]).collect();
            let of_constants = normal.variance(&slopes).max(0.0).sqrt();
            let reach = reach * deviation * row.tolerance.hypot(of_constants);
            let figure = figures[place];
            (figure, [figure * (1.0 - reach).max(0.0), figure * (1.0 + reach)])
        };
        let errors = of_fit.iter().zip(&self.rows).map(|(figure, row)| figure / row.value - 1.0);
        let errors: Vec<f64> = errors.collect();
        Ok(Judged {
            halves: scales.iter().enumerate().map(half).collect(),
            rows: all.iter().enumerate().map(interval).collect(),
            residual: (squares(&errors) / errors.len() as f64).sqrt(),
        })
    }

    /// Rejects a constant that no fitted row depends on.
    fn check_dependence(
        &self,
        columns: &[Vec<f64>],
        places: &[usize],
        values: &[f64],
    ) -> Result<()> {
        for ((column, (constant, _)), value) in columns.iter().zip(&self.constants).zip(values) {
            let most = places.iter().map(|place| column[*place].abs()).fold(0.0, f64::max);
            if most < LEAST_DEPENDENCE {
                let unit =
                    if constant.unit.is_empty() { "" } else { &format!(" {}", constant.unit) };
                return Err(refused(format!(
                    "none of {} depends on {} where it is {value}{unit}: fit other rows, or leave \
                     it out",
                    self.words(),
                    constant.path(),
                )));
            }
        }
        Ok(())
    }

    /// Rejects constants whose effects on the fitted rows are alike.
    fn check_difference(&self, normal: &Normal) -> Result<()> {
        let spectrum = normal.values.iter().zip(&normal.vectors);
        let least = spectrum.min_by(|a, b| a.0.total_cmp(b.0));
        let Some((_, vector)) = least.filter(|(value, _)| **value < LEAST_DIFFERENCE.powi(2))
        else {
            return Ok(());
        };
        let parts = self.paths().zip(vector).filter(|(_, part)| part.abs() > LEAST_PART);
        let paths: Vec<String> = parts.map(|(path, _)| path).collect();
        Err(refused(format!(
            "{} cannot tell {}: a change of one is made good by the others; fit other rows too, \
             or fewer constants",
            self.words(),
            paths.join(" from "),
        )))
    }

    fn words(&self) -> String {
        rows_words(&self.rows.iter().map(|row| row.number).collect::<Vec<_>>())
    }
}

/// Rounds to so many digits that the rest is far less than what measurements tell.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = DIGITS - 1 - value.abs().log10().floor() as i32;
    // By way of a decimal number: a power of ten below 1 is none of binary ones.
    match usize::try_from(digits) {
        Ok(digits) => format!("{value:.digits$}").parse().unwrap_or(value),
        Err(_) => (value / 10_f64.powi(-digits)).round() * 10_f64.powi(-digits),
    }
}

/// Returns about how many trials a calibration of this number of constants takes.
pub const fn trials_about(constants: usize) -> usize {
    40 * constants
}

/// Fits constants of a lab to rows of a file: to those of the given numbers; else to those whose
/// use is `fit`; else to all whose use is not `predict`. The lab has its name beside it. `watch` is
/// told of each trial.
///
/// # Errors
/// A constant that cannot be fitted, not more rows than constants, a row that cannot be run in the
/// lab as it is, a constant that no fitted row depends on, constants that these rows cannot tell
/// apart, and an interruption.
pub fn calibrate(
    (name, lab): (&str, &Lab),
    measurements: &Measurements,
    requests: &[FitRequest],
    named: Option<&[usize]>,
    watch: &dyn Progress,
) -> Result<Calibration> {
    let mut constants = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        if requests[..index].iter().any(|other| other.path == request.path) {
            return Err(refused(format!("{} is to be fitted twice", request.path)));
        }
        constants.push(parameter(lab, request)?);
    }
    measurements.check(lab)?;
    let is_fitted = fitted_rows(measurements, named)?;
    let all = &measurements.rows;
    let of_fit = all.iter().zip(&is_fitted).filter(|(_, is_fitted)| **is_fitted);
    let rows: Vec<&MeasuredRow> = of_fit.map(|(row, _)| row).collect();
    if rows.len() <= constants.len() {
        return Err(refused(format!(
            "{} cannot be fitted to {}: more rows than constants are needed",
            count_words(constants.len(), "constant", "constants"),
            count_words(rows.len(), "row", "rows"),
        )));
    }
    let problem = Problem { lab, constants, rows, watch, trials: AtomicUsize::new(0) };
    let values = problem.solve()?;
    let judged = problem.judge(all, &values)?;
    let paths: Vec<String> = problem.paths().collect();
    let others = || lab.constants().filter(|constant| !paths.contains(&constant.path()));
    let row =
        |((row, is_fitted), (figure, [low, high])): ((&MeasuredRow, &bool), &(f64, [f64; 2]))| {
            let mut compared = row.compare(*figure, others());
            if *is_fitted {
                compared.kind = Kind::Fit;
            }
            let [low, high] = [*low, *high].map(|end| (!is_fitted).then_some(end));
            CalibratedRow { row: row.result(&compared), low, high }
        };
    let fitted = problem.constants.iter().zip(&paths).zip(values.iter().zip(&judged.halves));
    let fitted = fitted.map(|(((constant, parameter), path), (value, half))| CalibratedConstant {
        constant: path.clone(),
        unit: constant.unit.to_owned(),
        before: parameter.start,
        value: *value,
        low: value - half,
        high: value + half,
        is_at_bound: [parameter.low, parameter.high].contains(value),
    });
    Ok(Calibration {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lab: name.to_owned(),
        file: measurements.file.clone(),
        fitted_rows: problem.rows.iter().map(|row| row.number).collect(),
        confidence: CONFIDENCE,
        residual: judged.residual,
        trials: problem.trials.load(Ordering::Relaxed),
        constants: fitted.collect(),
        rows: all.iter().zip(&is_fitted).zip(&judged.rows).map(row).collect(),
    })
}

/// Returns the text of a lab's file with the fitted values and their source: `fit: rows 1-4 of
/// measured.csv`. A first line says that `command` has written it.
///
/// # Errors
/// Another lab than that of the calibration.
pub fn calibrated(lab: &Lab, calibration: &Calibration, command: &str) -> Result<String> {
    let name = Path::new(&calibration.file).file_name().unwrap_or_default().to_string_lossy();
    let source = format!("fit: {} of {name}", rows_words(&calibration.fitted_rows));
    let change =
        |fitted: &CalibratedConstant| (fitted.constant.clone(), fitted.value, source.clone());
    let changes: Vec<_> = calibration.constants.iter().map(change).collect();
    let text = lab.file().rewritten(&changes)?;
    let rest = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with(WRITTEN) => rest,
        _ => &text,
    };
    Ok(format!("{WRITTEN} `{command}`.\n{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let read = |text: &str| text.parse::<FitRequest>();
        let plain = FitRequest { path: "part.a.b_ns".to_owned(), range: None };
        assert_eq!(read("part.a.b_ns"), Ok(plain.clone()));
        let ranged = FitRequest { range: Some((0.5, 2e3)), ..plain };
        assert_eq!(read("part.a.b_ns=0.5..2e3"), Ok(ranged));
        for bad in ["", "=1..2", "a=1", "a=2..1", "a=1..", "a=x..2", "a=0..inf", "a=nan..2"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_rounded_to_five_digits() {
        for (value, expected) in [
            (312.412_345, 312.41),
            (0.000_123_456_78, 0.000_123_46),
            (1_234_567.0, 1_234_600.0),
            (99_999.6, 100_000.0),
            (0.0, 0.0),
        ] {
            assert_eq!(rounded(value), expected);
        }
    }
}
