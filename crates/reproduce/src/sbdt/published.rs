// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's figures, and what each is held to.
//!
//! A figure is *fit* where a fitted constant of the lab names it, as in `fit: dma_cpu_to_fpga,
//! 85.6 % of the link`; it is context where the file says so.

use crosslane_lab::{Lab, Provenance};

use crate::comparison::{Kind, Row, Tolerance, relative_error};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

/// What the file calls a figure that is no pass mark.
const CONTEXT: &str = "context";

struct Figure {
    quantity: String,
    conditions: String,
    value: f64,
    unit: String,
    is_context: bool,
}

/// The figures.
pub(super) struct Figures {
    figures: Vec<Figure>,
    /// Quantities that constants were fitted to.
    fitted: Vec<String>,
}

impl Figures {
    /// The figures of the files that the lab names.
    ///
    /// # Errors
    /// A file that cannot be read, or a constant that is fitted to no figure.
    pub fn read(lab: &Lab) -> Result<Self, ReproduceError> {
        let mut figures = Vec::new();
        for measurements in &lab.file().measurements {
            let file = PublishedFile::open(&measurements.file)?;
            let names: [&[&str]; 5] =
                [&["quantity"], &["conditions"], &["value"], &["unit"], &["role"]];
            for (index, [quantity, conditions, value, unit, role]) in
                file.columns(names)?.into_iter().enumerate()
            {
                figures.push(Figure {
                    quantity: quantity.to_owned(),
                    conditions: conditions.to_owned(),
                    value: file.number(index, value)?,
                    unit: unit.to_owned(),
                    is_context: role == CONTEXT,
                });
            }
        }
        let mut fitted = Vec::new();
        let fits = lab.constants().filter(|constant| constant.provenance == Provenance::Fit);
        for constant in fits {
            let named = named(&constant.source, &figures);
            if named.is_empty() {
                let problem = format!("`{}` names no figure", constant.source);
                return Err(ReproduceError::experiment(constant.path(), problem));
            }
            fitted.extend(named);
        }
        Ok(Self { figures, fitted })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.figures.len()
    }

    fn find(&self, quantity: &str, conditions: &str) -> Result<&Figure, ReproduceError> {
        let is_it = |one: &&Figure| one.quantity == quantity && one.conditions == conditions;
        self.figures.iter().find(is_it).ok_or_else(|| {
            let problem = format!("there is no {quantity}, {conditions}");
            ReproduceError::experiment("the figures of sbdt", problem)
        })
    }

    /// A figure of the document.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn value(&self, quantity: &str, conditions: &str) -> Result<f64, ReproduceError> {
        Ok(self.find(quantity, conditions)?.value)
    }

    /// A figure of the document beside the lab's, in the document's unit.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn compare(
        &self,
        quantity: &str,
        conditions: &str,
        simulated: Option<f64>,
        tolerance: Tolerance,
        label: &str,
    ) -> Result<Row, ReproduceError> {
        let figure = self.find(quantity, conditions)?;
        let is_fitted = self.fitted.iter().any(|one| one == quantity);
        let (kind, reason) = match (figure.is_context, is_fitted) {
            (true, _) => (Kind::Context, "shown beside"),
            (false, true) => (Kind::Fit, "one constant was fitted to it"),
            (false, false) => (Kind::Predicted, "no constant comes from it"),
        };
        let published = Some(figure.value);
        Ok(Row {
            quantity: quantity.to_owned(),
            conditions: conditions.to_owned(),
            unit: figure.unit.clone(),
            published,
            simulated,
            error: relative_error(published, simulated),
            kind,
            tolerance: (!figure.is_context).then_some(tolerance),
            reason: reason.to_owned(),
            label: label.to_owned(),
        })
    }
}

/// A figure of the lab's that the document does not have.
pub(super) fn context(quantity: &str, conditions: String, unit: &str, simulated: f64) -> Row {
    Row {
        quantity: quantity.to_owned(),
        conditions,
        unit: unit.to_owned(),
        published: None,
        simulated: Some(simulated),
        error: None,
        kind: Kind::Context,
        tolerance: None,
        reason: "the document has it in a plot only, or not".to_owned(),
        label: String::new(),
    }
}

/// The quantities that a source names behind `fit: `, up to its first comma: one, or several joined
/// by `and`.
fn named(source: &str, figures: &[Figure]) -> Vec<String> {
    let quantities = source.split(',').next().unwrap_or_default();
    let is_known = |name: &&str| figures.iter().any(|figure| figure.quantity == *name);
    quantities.split(" and ").filter(is_known).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Tolerance = Tolerance { fraction: 0.05, reason: "a test" };

    #[test]
    fn figures_are_read_and_fits_name_them() {
        let figures = Figures::read(&crosslane_lab::open("sbdt").unwrap()).unwrap();
        assert_eq!(figures.count(), 20);
        let row = |quantity, conditions| {
            figures.compare(quantity, conditions, Some(6000.0), RATE, "").unwrap()
        };
        let all = "1 GB; 8 MB buffers";
        assert_eq!(row("dma_cpu_to_fpga", all).kind, Kind::Fit);
        assert_eq!(row("dma_fpga_to_cpu", all).is_met(), Some(true));
        assert_eq!(row("dma_fpga_to_fpga_memory", "1 GB").kind, Kind::Predicted);
        let link = row("link_raw", "PCIe Gen3 x8");
        assert_eq!((link.kind, link.is_met()), (Kind::Context, None));
        let missing = figures.value("link_raw", "Gen4").unwrap_err().to_string();
        assert!(missing.contains("there is no link_raw, Gen4"), "{missing}");
        assert!(named("nothing, at all", &figures.figures).is_empty());
        assert_eq!(named("link_raw and dma_cpu_to_fpga, both", &figures.figures).len(), 2);
    }
}
