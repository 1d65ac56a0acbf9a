// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Least-squares fits of y = x/(k a) + b to measured transfers: x bytes over a link of k times the
//! rate a take the time y, of which b has nothing to do with the link.
//!
//! Read first: [`Measurements`], which are read from a file of comma-separated values, then
//! [`fits`].

mod measurements;

use std::collections::BTreeMap;

use crosslane_results::{BAD_RESIDUAL, Fit, FitResidual};

pub use measurements::{FitError, MAX_FIT_BYTES, Measurements, Sample};

/// A straight line y = slope u + fixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of y with u.
    pub slope: f64,
    /// y at u = 0.
    pub fixed: f64,
}

/// Returns the line with the least sum of squares of residuals, each times its weight; none where
/// all values of u are the same, or there are none.
pub fn least_squares(points: impl IntoIterator<Item = (f64, f64, f64)> + Clone) -> Option<Line> {
    let (mut sum, mut sum_u, mut sum_y) = (0.0, 0.0, 0.0);
    for (u, y, weight) in points.clone() {
        sum += weight;
        sum_u += weight * u;
        sum_y += weight * y;
    }
    let (mean_u, mean_y) = (sum_u / sum, sum_y / sum);
    // Around the means, so that no large numbers cancel.
    let (mut square, mut product, mut largest) = (0.0, 0.0, 0.0_f64);
    for (u, y, weight) in points {
        let (du, dy) = (u - mean_u, y - mean_y);
        square += weight * du * du;
        product += weight * du * dy;
        largest = largest.max(weight * u * u);
    }
    // A rest of equal values that rounding leaves is no difference.
    if !square.is_finite() || !product.is_finite() || square <= largest * 1e-24 {
        return None;
    }
    let slope = product / square;
    let line = Line { slope, fixed: mean_y - slope * mean_u };
    (line.slope.is_finite() && line.fixed.is_finite()).then_some(line)
}

/// Returns the fit of the samples of a series: of one size over several links, each residual with
/// the same weight, as in the kc705 paper; or of all sizes, each residual as a part of its time, so
/// that short transfers count as much as long ones. `theory` is the rate of a link of k = 1 in
/// bytes per second, if it is known.
fn fit(
    series: &str,
    size_bytes: Option<u64>,
    samples: &[&Sample],
    theory: Option<f64>,
) -> Option<Fit> {
    let weight = |sample: &Sample| match size_bytes {
        Some(_) => 1.0,
        None => 1.0 / (sample.seconds * sample.seconds),
    };
    let points = samples
        .iter()
        .map(|sample| (sample.bytes as f64 / sample.k, sample.seconds, weight(sample)));
    let line = least_squares(points)?;
    let residual = |sample: &&Sample| {
        let fitted_s = sample.bytes as f64 / sample.k * line.slope + line.fixed;
        FitResidual {
            bytes: sample.bytes,
            link: sample.link.map(|link| link.to_string()),
            k: sample.k,
            line: sample.line,
            measured_ns: sample.seconds * 1e9,
            fitted_ns: fitted_s * 1e9,
            residual: fitted_s / sample.seconds - 1.0,
        }
    };
    let residuals: Vec<FitResidual> = samples.iter().map(residual).collect();
    let fractions = residuals.iter().map(|one| one.residual);
    let worst = fractions.max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
    let fastest_k = samples.iter().map(|sample| sample.k).fold(0.0, f64::max);
    let bytes_per_second = (line.slope > 0.0).then(|| 1.0 / line.slope);
    let half_rate_bytes = bytes_per_second.map(|rate| line.fixed * fastest_k * rate);
    Some(Fit {
        series: series.to_owned(),
        over: if size_bytes.is_some() { "links" } else { "sizes" }.to_owned(),
        size_bytes,
        bytes_per_second,
        of_theory: bytes_per_second.zip(theory).map(|(rate, theory)| rate / theory),
        link_ns_per_byte: line.slope * 1e9,
        fixed_ns: line.fixed * 1e9,
        fastest_k,
        worst_residual: worst,
        is_bad: worst.abs() > BAD_RESIDUAL,
        half_rate_bytes: half_rate_bytes.filter(|bytes| *bytes >= 0.0),
        residuals,
    })
}

/// Returns all fits of some measurements: for each series one over the links for each size that was
/// measured with several, and one over everything where there are several sizes.
///
/// # Errors
/// The error of a series without a line.
pub fn fits(measurements: &Measurements) -> Result<Vec<Fit>, FitError> {
    let theory = measurements.theory_bytes_per_second();
    let mut fits = Vec::new();
    for series in measurements.series() {
        let samples: Vec<&Sample> =
            measurements.samples().iter().filter(|one| one.series == series).collect();
        let before = fits.len();
        let mut sizes: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
        for sample in &samples {
            sizes.entry(sample.bytes).or_default().push(sample);
        }
        for (&bytes, of_size) in &sizes {
            fits.extend(fit(series, Some(bytes), of_size, theory));
        }
        if sizes.len() > 1 {
            fits.extend(fit(series, None, &samples, theory));
        }
        if fits.len() == before {
            let line = samples.first().map_or(1, |one| one.line);
            return Err(measurements.error(line, no_line(series)));
        }
    }
    Ok(fits)
}

fn no_line(series: &str) -> String {
    let of = if series.is_empty() { String::new() } else { format!(" of {series}") };
    format!(
        "cannot put a line through the records{of} that begin here: they need two sizes, or two \
         rates of a link"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_exactly_and_by_least_squares() {
        let exact = [(1.0, 5.0, 1.0), (2.0, 7.0, 1.0), (10.0, 23.0, 1.0)];
        assert_eq!(least_squares(exact), Some(Line { slope: 2.0, fixed: 3.0 }));
        // By hand: means 1 and 2, products 3, squares 2.
        let line = least_squares([(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (2.0, 4.0, 1.0)]).unwrap();
        assert_eq!(line, Line { slope: 1.5, fixed: 0.5 });
        // A weight of two is the point twice.
        let twice = [(0.0, 1.0, 2.0), (1.0, 1.0, 1.0), (2.0, 4.0, 1.0)];
        let written = [(0.0, 1.0, 1.0), (0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (2.0, 4.0, 1.0)];
        assert_eq!(least_squares(twice), least_squares(written));
        assert_eq!(least_squares([(3.0, 1.0, 1.0), (3.0, 2.0, 1.0)]), None);
        assert_eq!(least_squares([]), None);
        assert_eq!(least_squares([(1.0, f64::MAX, 1.0), (2.0, -f64::MAX, 1.0)]), None);
    }

    /// The model of the kc705 paper, turned round: 0.86 of 250 MB/s, and 17 us beside.
    #[test]
    fn a_fit_gives_rate_fixed_time_and_half_rate() {
        let mut text = "generation,width,bytes,us\n".to_owned();
        for (generation, width, k) in [(1, 1, 1.0), (2, 1, 2.0), (1, 4, 4.0), (2, 4, 8.0)] {
            for bytes in [1024.0, 65_536.0] {
                let us = bytes / (k * 215.0) + 17.0;
                text += &format!("{generation},{width},{bytes},{us}\n");
            }
        }
        let fits = fits(&Measurements::parse("x.csv", &text).unwrap()).unwrap();
        let sizes: Vec<Option<u64>> = fits.iter().map(|fit| fit.size_bytes).collect();
        assert_eq!(sizes, [Some(1024), Some(65_536), None]);
        for fit in &fits {
            assert!((fit.of_theory.unwrap() - 0.86).abs() < 1e-9, "{fit:?}");
            assert!((fit.fixed_ns - 17e3).abs() < 1e-6, "{fit:?}");
            // 17 us at 1720 MB/s.
            assert!((fit.half_rate_bytes.unwrap() - 29_240.0).abs() < 1e-3, "{fit:?}");
            assert!(fit.worst_residual.abs() < 1e-9);
        }
    }

    #[test]
    fn times_that_lie_on_no_line_make_a_bad_fit() {
        let fit = |text| fits(&Measurements::parse("x.csv", text).unwrap()).unwrap().remove(0);
        let bent = fit("bytes,us\n1000,10\n2000,10\n3000,10\n4000,30\n");
        assert!(bent.is_bad && bent.worst_residual < -0.3, "{}", bent.worst_residual);
        assert!(!fit("bytes,us\n1000,10\n2000,11\n3000,11.9\n4000,13\n").is_bad);
    }

    #[test]
    fn series_are_fitted_apart_and_one_without_a_line_is_named() {
        let text = "way,bytes,us\nup,1000,11\nup,2000,12\ndown,1000,5\ndown,3000,7\n";
        let found = fits(&Measurements::parse("x.csv", text).unwrap()).unwrap();
        let fixed: Vec<(&str, f64)> =
            found.iter().map(|fit| (fit.series.as_str(), (fit.fixed_ns / 1e3).round())).collect();
        assert_eq!(fixed, [("up", 10.0), ("down", 4.0)]);
        assert_eq!(found[0].of_theory, None);
        let text = "way,bytes,us\nup,1000,11\nup,2000,12\ndown,1000,5\ndown,1000,7\n";
        let error = fits(&Measurements::parse("x.csv", text).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.csv, line 4: cannot put a line through the records of down that begin here: they \
             need two sizes, or two rates of a link"
        );
    }

    #[test]
    fn time_that_does_not_grow_has_no_rate() {
        let text = "bytes,us\n1000,11\n2000,11\n";
        let fit = &fits(&Measurements::parse("x.csv", text).unwrap()).unwrap()[0];
        assert_eq!((fit.bytes_per_second, fit.half_rate_bytes), (None, None));
    }
}
