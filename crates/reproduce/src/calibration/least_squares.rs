// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Least squares of a few parameters within bounds: Levenberg and Marquardt's method, with
//! derivatives by central differences.
//!
//! A simulator answers in small steps, so that differences are taken over 2 % of a parameter and
//! not over as little as rounding allows.

use crosslane_experiment::parallel;

/// Difference over which a derivative is taken on either side, as a part of the parameter; of one
/// that may be 0, at least a part of its range.
const STEP: f64 = 0.02;
const STEP_OF_RANGE: f64 = 0.0005;
/// Places of a parameter's range that are tried before the first step.
const PLACES: usize = 6;
/// Most looks over the whole ranges, each with a descent behind it; most steps of a descent, and
/// most tries of each.
const MAX_ROUNDS: usize = 3;
const MAX_STEPS: usize = 12;
const MAX_TRIES: usize = 6;
/// The search ends where a step changes no parameter by more than this part of it.
const CLOSE: f64 = 1e-4;

/// A parameter and the range in which it is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Value to begin with.
    pub start: f64,
    /// Least value.
    pub low: f64,
    /// Greatest value.
    pub high: f64,
    /// Whether it is a whole number.
    pub is_whole: bool,
}

impl Parameter {
    /// Returns the nearest value that it may have.
    pub fn allowed(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.is_whole { value.round().clamp(self.low.ceil(), self.high.floor()) } else { value }
    }

    /// Returns the change that counts as one: the value, or a part of the range near zero.
    fn scale(&self, value: f64) -> f64 {
        let part = (self.high - self.low) * STEP_OF_RANGE / STEP;
        if self.low > 0.0 { value } else { value.abs().max(part) }
    }

    /// Returns values of its range, evenly apart, by factors where it reaches over several.
    fn places(&self) -> impl Iterator<Item = f64> + '_ {
        let is_wide = self.low > 0.0 && self.high / self.low > 4.0;
        (0..PLACES).map(move |place| {
            let share = place as f64 / (PLACES - 1) as f64;
            self.allowed(match is_wide {
                true => self.low * (self.high / self.low).powf(share),
                false => self.low + (self.high - self.low) * share,
            })
        })
    }
}

/// Residuals at a point; `None` where there cannot be any. An error ends the search.
pub type Residuals<'a, E> = dyn Fn(&[f64]) -> Result<Option<Vec<f64>>, E> + Sync + 'a;

/// Returns the derivatives of residuals by parameters at a point, a list of residuals for each
/// parameter, each times the scale of its parameter, and the scales. A parameter with no two
/// possible values has zeros.
///
/// # Errors
/// That of the residuals.
pub fn derivatives<E: Send>(
    residuals: &Residuals<'_, E>,
    parameters: &[Parameter],
    at: &[f64],
) -> Result<(Vec<Vec<f64>>, Vec<f64>), E> {
    let moved = |index: usize, sign: f64| {
        let (parameter, value) = (&parameters[index], at[index]);
        let step = parameter.scale(value) * STEP;
        let step = if parameter.is_whole { step.round().max(1.0) } else { step };
        let mut point = at.to_vec();
        point[index] = parameter.allowed(value + sign * step);
        point
    };
    let points: Vec<Vec<f64>> =
        (0..at.len()).flat_map(|index| [moved(index, -1.0), moved(index, 1.0)]).collect();
    let found: Vec<Option<Vec<f64>>> = parallel::try_map(&points, |point| residuals(point))?;
    let here = if found.iter().any(Option::is_none) { residuals(at)? } else { None };
    let scales = parameters.iter().zip(at).map(|(parameter, value)| parameter.scale(*value));
    let scales: Vec<f64> = scales.collect();
    let column = |index: usize| {
        let end = |end: usize| match &found[2 * index + end] {
            Some(residuals) => Some((residuals, points[2 * index + end][index])),
            None => here.as_ref().map(|residuals| (residuals, at[index])),
        };
        let ((below, from), (above, to)) = (end(0)?, end(1)?);
        let difference = |(below, above): (&f64, &f64)| {
            if to > from { (above - below) / (to - from) * scales[index] } else { 0.0 }
        };
        Some(below.iter().zip(above).map(difference).collect())
    };
    let columns = (0..at.len()).map(|index| column(index).unwrap_or_default()).collect();
    Ok((columns, scales))
}

/// Returns the parameters with the least sum of squares that is found from the start, with
/// `is_wide` also from places all over each range; `None` if there are no residuals at the start.
///
/// # Errors
/// That of the residuals.
pub fn least_squares<E: Send>(
    residuals: &Residuals<'_, E>,
    parameters: &[Parameter],
    is_wide: bool,
) -> Result<Option<Vec<f64>>, E> {
    let at: Vec<f64> = parameters.iter().map(|one| one.allowed(one.start)).collect();
    let Some(here) = residuals(&at)? else { return Ok(None) };
    let mut search = Search { residuals, parameters, at, here };
    for round in 0..MAX_ROUNDS {
        // Where nothing depends on a parameter, no descent leads away.
        let is_moved = is_wide && search.look_around()?;
        if round > 0 && !is_moved {
            break;
        }
        search.descend()?;
    }
    search.look_beside()?;
    Ok(Some(search.at))
}

/// A search, and the best point so far.
struct Search<'a, E> {
    residuals: &'a Residuals<'a, E>,
    parameters: &'a [Parameter],
    at: Vec<f64>,
    /// Residuals there.
    here: Vec<f64>,
}

impl<E: Send> Search<'_, E> {
    /// Goes to the best of some values of a parameter, if that is better; returns whether it is.
    fn take_best(&mut self, index: usize, values: impl Iterator<Item = f64>) -> Result<bool, E> {
        let with = |value: f64| {
            let mut point = self.at.clone();
            point[index] = value;
            point
        };
        let points: Vec<Vec<f64>> = values.map(with).collect();
        let found: Vec<Option<Vec<f64>>> =
            parallel::try_map(&points, |point| (self.residuals)(point))?;
        let mut is_moved = false;
        for (point, found) in points.into_iter().zip(found) {
            if let Some(found) = found.filter(|found| squares(found) < squares(&self.here)) {
                (self.at, self.here) = (point, found);
                is_moved = true;
            }
        }
        Ok(is_moved)
    }

    /// Tries places all over the range of each parameter; returns whether one was better.
    fn look_around(&mut self) -> Result<bool, E> {
        let mut is_moved = false;
        for (index, parameter) in self.parameters.iter().enumerate() {
            is_moved |= self.take_best(index, parameter.places())?;
        }
        Ok(is_moved)
    }

    /// Tries the neighbours of each whole number.
    fn look_beside(&mut self) -> Result<(), E> {
        for (index, one) in self.parameters.iter().enumerate().filter(|(_, one)| one.is_whole) {
            let value = self.at[index];
            self.take_best(index, [-1.0, 1.0].into_iter().map(|more| one.allowed(value + more)))?;
        }
        Ok(())
    }

    /// Goes down by damped steps until none leads further.
    fn descend(&mut self) -> Result<(), E> {
        let mut damping = 1e-3;
        for _ in 0..MAX_STEPS {
            let (columns, scales) = derivatives(self.residuals, self.parameters, &self.at)?;
            let normal = Normal::of(&columns);
            let mut is_moved = false;
            for _ in 0..MAX_TRIES {
                let step = normal.step(&self.here, damping);
                let moves = step.iter().zip(&scales).zip(self.parameters).zip(&self.at);
                let point: Vec<f64> =
                    moves.map(|(((step, by), one), at)| one.allowed(at + step * by)).collect();
                let changes = point.iter().zip(&self.at).zip(&scales);
                let changes = changes.map(|((to, from), scale)| (to - from).abs() / scale);
                if changes.fold(0.0, f64::max) < CLOSE {
                    break;
                }
                let found = (self.residuals)(&point)?;
                if let Some(found) = found.filter(|found| squares(found) < squares(&self.here)) {
                    (self.at, self.here) = (point, found);
                    damping = (damping / 10.0).max(1e-9);
                    is_moved = true;
                    break;
                }
                damping = (damping * 10.0).min(1e9);
            }
            if !is_moved {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the sum of the squares.
pub fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The normal equations of a linear problem, solved by eigenvalues.
pub struct Normal {
    columns: Vec<Vec<f64>>,
    /// Length of each column; the columns of the equations have length 1.
    lengths: Vec<f64>,
    /// Eigenvalues, the squares of the singular values.
    pub values: Vec<f64>,
    /// Eigenvectors, each a list with a number for each column.
    pub vectors: Vec<Vec<f64>>,
}

impl Normal {
    /// Makes those of some columns, a list of residuals' derivatives for each parameter.
    pub fn of(columns: &[Vec<f64>]) -> Self {
        let lengths: Vec<f64> = columns.iter().map(|column| squares(column).sqrt()).collect();
        let count = columns.len();
        let entry = |i: usize, j: usize| match lengths[i] * lengths[j] {
            0.0 => 0.0,
            size => product(&columns[i], &columns[j]) / size,
        };
        let matrix = (0..count).map(|i| (0..count).map(|j| entry(i, j)).collect()).collect();
        let (values, vectors) = eigen(matrix);
        Self { columns: columns.to_vec(), lengths, values, vectors }
    }

    /// Returns the damped step against residuals, in the scales of the derivatives. Columns without
    /// length stay where they are.
    fn step(&self, residuals: &[f64], damping: f64) -> Vec<f64> {
        let slope = |index: usize| match self.lengths[index] {
            0.0 => 0.0,
            length => -product(&self.columns[index], residuals) / length,
        };
        let slopes: Vec<f64> = (0..self.lengths.len()).map(slope).collect();
        self.inverse(&slopes, damping)
    }

    /// Returns the inverse of the damped equations times a vector, in the scales of the columns.
    fn inverse(&self, vector: &[f64], damping: f64) -> Vec<f64> {
        let mut result = vec![0.0; vector.len()];
        for (value, eigenvector) in self.values.iter().zip(&self.vectors) {
            let size = value.max(0.0) + damping;
            let part = if size > 0.0 { product(eigenvector, vector) / size } else { 0.0 };
            result.iter_mut().zip(eigenvector).for_each(|(sum, one)| *sum += part * one);
        }
        let scaled = result.iter().zip(&self.lengths);
        scaled.map(|(one, length)| if *length > 0.0 { one / length } else { 0.0 }).collect()
    }

    /// Returns the variance of a linear function of the parameters, given by its derivatives in the
    /// same scales, for residuals of variance 1.
    pub fn variance(&self, derivatives: &[f64]) -> f64 {
        let scaled = derivatives.iter().zip(&self.lengths);
        let scaled: Vec<f64> =
            scaled.map(|(one, length)| if *length > 0.0 { one / length } else { 0.0 }).collect();
        product(derivatives, &self.inverse(&scaled, 0.0))
    }
}

/// Returns eigenvalues and eigenvectors of a symmetric matrix, by Jacobi's rotations.
fn eigen(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    const MAX_SWEEPS: usize = 60;
    let count = matrix.len();
    let unit = |row: usize| (0..count).map(|at| f64::from(u8::from(at == row))).collect();
    let mut vectors: Vec<Vec<f64>> = (0..count).map(unit).collect();
    for _ in 0..MAX_SWEEPS {
        let rest = (0..count).flat_map(|i| (0..i).map(move |j| (i, j)));
        if rest.map(|(i, j)| matrix[i][j].abs()).fold(0.0, f64::max) < 1e-14 {
            break;
        }
        for i in 0..count {
            for j in 0..i {
                if matrix[i][j] == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * matrix[i][j]).atan2(matrix[i][i] - matrix[j][j]);
                let (sine, cosine) = angle.sin_cos();
                for row in &mut matrix {
                    (row[i], row[j]) =
                        (cosine * row[i] + sine * row[j], cosine * row[j] - sine * row[i]);
                }
                for at in 0..count {
                    let (a, b) = (matrix[i][at], matrix[j][at]);
                    (matrix[i][at], matrix[j][at]) = (cosine * a + sine * b, cosine * b - sine * a);
                    let (a, b) = (vectors[i][at], vectors[j][at]);
                    (vectors[i][at], vectors[j][at]) =
                        (cosine * a + sine * b, cosine * b - sine * a);
                }
            }
        }
    }
    ((0..count).map(|at| matrix[at][at]).collect(), vectors)
}

/// Returns the share of the standard deviation within which 95 % of the values lie on either side
/// of the mean, for a deviation that is known from so many values beyond the fitted ones (Student's
/// distribution).
pub fn student(freedom: usize) -> f64 {
    const EXACT: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => EXACT[freedom - 1],
        // The expansion around the normal distribution, right to 0.001 from here on.
        _ => {
            let (z, n) = (1.959_964_f64, freedom as f64);
            let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
            z + (z3 + z) / (4.0 * n)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n * n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(start: f64, low: f64, high: f64) -> Parameter {
        Parameter { start, low, high, is_whole: false }
    }

    /// Times of reads: a latency, and bytes over a rate, that stop depending on the rate where
    /// another limit holds them.
    fn times(point: &[f64]) -> Vec<f64> {
        [64.0, 256.0, 1024.0, 4096.0].map(|bytes| point[0] + bytes / point[1].min(50.0)).to_vec()
    }

    fn found(truth: &[f64], parameters: &[Parameter]) -> Vec<f64> {
        let wanted = times(truth);
        let residuals = |point: &[f64]| -> Result<_, ()> {
            let times = times(point).into_iter().zip(&wanted);
            Ok(Some(times.map(|(time, wanted)| time / wanted - 1.0).collect()))
        };
        least_squares(&residuals, parameters, true).unwrap().unwrap()
    }

    #[test]
    fn parameters_are_found_from_afar_and_from_a_plateau() {
        let is_near = |found: &[f64], truth: &[f64]| {
            found.iter().zip(truth).all(|(one, truth)| (one / truth - 1.0).abs() < 2e-4)
        };
        let truth = [500.0, 12.0];
        let from_afar = [parameter(50.0, 1.0, 5e3), parameter(2.0, 0.1, 100.0)];
        assert!(is_near(&found(&truth, &from_afar), &truth));
        // At 80 no time depends on the rate.
        let from_a_plateau = [parameter(700.0, 1.0, 5e3), parameter(80.0, 1.0, 100.0)];
        assert!(is_near(&found(&truth, &from_a_plateau), &truth));
        // The best within a range that does not reach the truth is its end.
        let bounded = [parameter(700.0, 600.0, 5e3), parameter(12.0, 11.9, 12.1)];
        assert_eq!(found(&truth, &bounded)[0], 600.0);
        let whole = Parameter { is_whole: true, ..parameter(3.0, 1.0, 64.0) };
        assert_eq!(found(&truth, &[parameter(500.0, 499.9, 500.1), whole])[1], 12.0);
    }

    #[test]
    fn impossible_points_are_avoided_and_errors_end_the_search() {
        let residuals = |point: &[f64]| -> Result<_, ()> {
            Ok((point[0] < 11.0).then(|| vec![point[0] - 10.0, 1e-3]))
        };
        let found =
            least_squares(&residuals, &[parameter(1.0, 0.0, 100.0)], true).unwrap().unwrap();
        assert!((found[0] - 10.0).abs() < 1e-2, "{found:?}");
        assert_eq!(least_squares(&residuals, &[parameter(50.0, 20.0, 100.0)], true), Ok(None));
        let failing = |_: &[f64]| Err("over");
        assert_eq!(least_squares(&failing, &[parameter(1.0, 0.0, 2.0)], true), Err("over"));
    }

    /// A straight line through four points, against the textbook's variances.
    #[test]
    fn variances_are_those_of_linear_regression() {
        let columns = vec![vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]];
        let normal = Normal::of(&columns);
        // 1/n + mean^2 / Sxx, 1 / Sxx, and at x = 3: 1/n + (x - mean)^2 / Sxx; Sxx is 5.
        for (derivatives, variance) in [([1.0, 0.0], 0.7), ([0.0, 1.0], 0.2), ([1.0, 3.0], 0.7)] {
            assert!((normal.variance(&derivatives) - variance).abs() < 1e-12);
        }
        let alike = Normal::of(&[vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]]);
        let least = alike.values.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least.abs() < 1e-12, "{:?}", alike.values);
        assert!(
            alike.vectors.iter().flatten().all(|one| (one.abs() - 0.5_f64.sqrt()).abs() < 1e-9)
        );
    }

    #[test]
    fn student_goes_over_to_the_normal_distribution() {
        for (freedom, exact) in [(10, 2.228), (11, 2.201), (20, 2.086), (1_000_000, 1.960)] {
            assert!((student(freedom) - exact).abs() < 1e-3, "{freedom}: {}", student(freedom));
        }
    }
}
