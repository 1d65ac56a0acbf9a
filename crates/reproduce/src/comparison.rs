// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A published figure beside the same measurement in the lab, and the worth of such a pair.

use serde::{Deserialize, Serialize};
use strum::Display;

/// Worth of a row.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// A constant was taken from it.
    Input,
    /// Constants were fitted to it.
    Fit,
    /// Compared, and no constant comes from it: evidence.
    Predicted,
    /// Shown for comparison only, without tolerance.
    Context,
}

/// One figure: the published one, the simulated one, or both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The quantity, as the file of published figures calls it.
    pub quantity: String,
    /// The conditions of its measurement.
    pub conditions: String,
    /// Unit of both figures.
    pub unit: String,
    /// The paper's figure, if it gives one.
    pub published: Option<f64>,
    /// The lab's figure, if it has one.
    pub simulated: Option<f64>,
    /// (simulated - published) / published, if there are both.
    pub error: Option<f64>,
    /// Kind of the figure: what its comparison is worth.
    pub kind: Kind,
    /// Largest absolute error that is allowed; `None` for context.
    pub tolerance: Option<f64>,
    /// Reason for this tolerance.
    pub because: String,
    /// Reason for this kind.
    pub reason: String,
    /// Quantity and conditions in a few words, for tables; empty for a row that is in no table.
    pub label: String,
    /// Number of devices of this measurement, if one published figure covers several numbers.
    pub devices: Option<usize>,
}

impl Row {
    /// Returns a row of a figure that only the lab has.
    pub fn simulated(
        quantity: impl Into<String>,
        conditions: impl Into<String>,
        unit: &str,
        simulated: f64,
    ) -> Self {
        Self {
            quantity: quantity.into(),
            conditions: conditions.into(),
            unit: unit.to_owned(),
            published: None,
            simulated: Some(simulated),
            error: None,
            kind: Kind::Context,
            tolerance: None,
            because: String::new(),
            reason: String::new(),
            label: String::new(),
            devices: None,
        }
    }

    /// Returns the row as plain data.
    pub fn result(&self) -> crosslane_results::Row {
        crosslane_results::Row {
            quantity: self.quantity.clone(),
            conditions: self.conditions.clone(),
            unit: self.unit.clone(),
            published: self.published,
            simulated: self.simulated,
            error: self.error,
            kind: self.kind.to_string(),
        }
    }

    /// Returns whether it is within its tolerance; `None` without tolerance.
    pub fn is_met(&self) -> Option<bool> {
        Some(self.error?.abs() <= self.tolerance?)
    }

    /// Returns whether it is compared: it has a tolerance.
    pub const fn is_compared(&self) -> bool {
        self.tolerance.is_some()
    }
}

/// Returns (simulated - published) / published; `None` if one is missing or the published one is 0.
pub fn relative_error(published: Option<f64>, simulated: Option<f64>) -> Option<f64> {
    let (published, simulated) = (published?, simulated?);
    (published != 0.0).then(|| (simulated - published) / published)
}

/// Returns the worst error (with its sign) and the median of the absolute errors; `None` without
/// errors.
pub fn worst_and_median(errors: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut errors: Vec<f64> = errors.into_iter().collect();
    errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let worst = *errors.last()?;
    let middle = errors.len() / 2;
    let median = if errors.len().is_multiple_of(2) {
        (errors[middle - 1].abs() + errors[middle].abs()) / 2.0
    } else {
        errors[middle].abs()
    };
    Some((worst, median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(error: Option<f64>, tolerance: Option<f64>) -> Row {
        Row { error, tolerance, kind: Kind::Predicted, ..Row::simulated("q", "c", "ns", 1.0) }
    }

    #[test]
    fn errors_are_fractions_of_the_published_figure() {
        let error = relative_error(Some(200.0), Some(190.0)).unwrap();
        assert!((error + 0.05).abs() < 1e-12);
        assert_eq!(relative_error(None, Some(1.0)), None);
        assert_eq!(relative_error(Some(1.0), None), None);
        assert_eq!(relative_error(Some(0.0), Some(1.0)), None);
    }

    #[test]
    fn a_row_is_met_within_its_tolerance_on_either_side() {
        assert_eq!(row(Some(-0.02), Some(0.02)).is_met(), Some(true));
        assert_eq!(row(Some(0.0201), Some(0.02)).is_met(), Some(false));
        assert_eq!(row(Some(-0.0201), Some(0.02)).is_met(), Some(false));
        assert_eq!(row(Some(0.5), None).is_met(), None);
        assert_eq!(row(None, Some(0.02)).is_met(), None);
    }

    #[test]
    fn the_worst_keeps_its_sign_and_the_median_has_none() {
        assert_eq!(worst_and_median([0.01, -0.04, 0.02]), Some((-0.04, 0.02)));
        assert_eq!(worst_and_median([0.01, -0.03]), Some((-0.03, 0.02)));
        assert_eq!(worst_and_median([]), None);
    }

    #[test]
    fn json_has_the_fields_of_a_row_and_no_others() {
        let value = serde_json::to_value(row(None, Some(0.1)).result()).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        let expected =
            ["conditions", "error", "kind", "published", "quantity", "simulated", "unit"];
        assert_eq!(keys, expected);
        assert_eq!(value["kind"], "predicted");
        assert!(value["error"].is_null());
    }
}
