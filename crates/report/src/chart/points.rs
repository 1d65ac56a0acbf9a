// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of a series that can be drawn, and a sentence on the others.

use crosslane_results::quantity::count_words;

use super::axis::{Fault, Span, fault};
use crate::plot::{Plot, Series};

/// A series of more values than this is thinned.
const MOST_POINTS: usize = 500;
/// Columns into which a plot is divided for thinning.
const COLUMNS: usize = 200;

/// Numbers of values that cannot be drawn, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    not_numbers: usize,
    not_positive: usize,
    no_category: usize,
}

impl LeftOut {
    fn add(&mut self, fault: Fault) {
        match fault {
            Fault::NotANumber => self.not_numbers += 1,
            Fault::NotPositive => self.not_positive += 1,
            Fault::NoCategory => self.no_category += 1,
        }
    }

    /// Returns a sentence, or `None` if nothing was left out.
    pub fn words(&self) -> Option<String> {
        let reasons = [
            (self.not_numbers, "not finite"),
            (self.not_positive, "0 or less on a logarithmic axis"),
            (self.no_category, "outside the names of its axis"),
        ];
        let parts: Vec<String> = reasons
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, why)| format!("{} {why}", count_words(*number, "value", "values")))
            .collect();
        (!parts.is_empty()).then(|| format!("Left out: {}.", parts.join(", ")))
    }
}

/// Returns the points of a series that can be drawn in its plot, by x.
pub fn drawable(plot: &Plot, series: &Series, left_out: &mut LeftOut) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(series.points.len());
    for &(x, y) in &series.points {
        match fault(x, &plot.x.scale).or_else(|| fault(y, &plot.y.scale)) {
            Some(fault) => left_out.add(fault),
            None => points.push((x, y)),
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Returns at most a few points for each column of the plot: the first, lowest, highest and last,
/// so that no peak is lost. A short series stays as it is.
pub fn thinned(points: &[(f64, f64)], x: &Span) -> Vec<(f64, f64)> {
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let column = |point: &(f64, f64)| (x.share(point.0) * COLUMNS as f64) as usize;
    let mut thin = Vec::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_y = |&a: &usize, &b: &usize| group[a].1.total_cmp(&group[b].1);
        let low = (0..group.len()).min_by(by_y).unwrap_or(0);
        let high = (0..group.len()).max_by(by_y).unwrap_or(0);
        let mut kept = vec![0, low, high, group.len() - 1];
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().map(|index| group[index]));
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::axis::Way;
    use crate::plot::{Axis, Scale, SeriesKind};

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let axis = |scale| Axis { label: "a".into(), unit: String::new(), scale };
        Plot {
            title: "t".into(),
            x: axis(Scale::Logarithmic),
            y: axis(Scale::Linear),
            series: vec![Series { name: "s".into(), kind: SeriesKind::Ours, points }],
        }
    }

    #[test]
    fn what_is_left_out_is_said() {
        let plot = plot(vec![(0.0, 1.0), (4.0, f64::NAN), (8.0, 2.0), (2.0, 5.0), (-1.0, 0.0)]);
        let mut left_out = LeftOut::default();
        assert_eq!(drawable(&plot, &plot.series[0], &mut left_out), [(2.0, 5.0), (8.0, 2.0)]);
        let words = left_out.words().unwrap();
        assert_eq!(
            words,
            "Left out: 1 value not finite, 2 values 0 or less on a logarithmic axis."
        );
        assert_eq!(LeftOut::default().words(), None);
    }

    #[test]
    fn thinning_keeps_peaks_and_ends() {
        let mut points: Vec<(f64, f64)> =
            (1..=10_000).map(|n| (f64::from(n), f64::from(n % 7))).collect();
        points[5000].1 = 100.0;
        points[7000].1 = -100.0;
        let axis = Axis { label: String::new(), unit: String::new(), scale: Scale::Linear };
        let span = Span::new(&axis, Way::Across, points.iter().map(|point| point.0), 8);
        let thin = thinned(&points, &span);
        assert!(thin.len() <= 4 * (COLUMNS + 1), "{}", thin.len());
        assert!(thin.contains(&points[5000]) && thin.contains(&points[7000]));
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
        assert_eq!(thinned(&points[..500], &span).len(), 500);
    }
}
