// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's figures, and what each is held to.
//!
//! A figure is *fit* where a fitted constant of the lab names it, as in `fit: dma_host_to_fpga of
//! 1 KiB`.

use crosslane_bench::CardDirection;
use crosslane_explain::size_words;
use crosslane_lab::{Lab, Provenance};

use crate::comparison::{Kind, Row, Tolerance, relative_error};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

/// The document gives its rates as "about".
const RATE: Tolerance = Tolerance { fraction: 0.04, reason: "the document says: about" };
/// 0.02 of 0.86.
const RATIO: Tolerance =
    Tolerance { fraction: 0.02 / 0.86, reason: "0.02 of a ratio that is given as about 0.86" };

/// The quantity of a rate.
const fn quantity(direction: CardDirection) -> &'static str {
    match direction {
        CardDirection::ToCard => "dma_host_to_fpga",
        CardDirection::FromCard => "dma_fpga_to_host",
    }
}

/// The quantity of the fit.
const FITTED: &str = "fitted_link_rate_over_theory";

struct Figure {
    quantity: String,
    conditions: String,
    value: f64,
    unit: String,
}

/// The figures.
pub(super) struct Figures {
    figures: Vec<Figure>,
    /// Quantities and sizes that constants were fitted to.
    fitted: Vec<(&'static str, String)>,
}

impl Figures {
    /// The figures of the files that the lab names.
    ///
    /// # Errors
    /// A file that cannot be read, a figure that nothing here is about, or a constant that is
    /// fitted to none.
    pub fn read(lab: &Lab) -> Result<Self, ReproduceError> {
        let mut figures = Vec::new();
        for measurements in &lab.file().measurements {
            let file = PublishedFile::open(&measurements.file)?;
            let names: [&[&str]; 4] = [&["quantity"], &["conditions"], &["value"], &["unit"]];
            for (index, [quantity, conditions, value, unit]) in
                file.columns(names)?.into_iter().enumerate()
            {
                figures.push(Figure {
                    quantity: quantity.to_owned(),
                    conditions: conditions.to_owned(),
                    value: file.number(index, value)?,
                    unit: unit.to_owned(),
                });
            }
        }
        let mut fitted = Vec::new();
        let fits = lab.constants().filter(|constant| constant.provenance == Provenance::Fit);
        for constant in fits {
            let named = named(&constant.source);
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

    /// The document's rate at Gen2 x4, MB/s, if it gives one.
    pub fn rate(&self, direction: CardDirection, size_bytes: u64) -> Option<f64> {
        self.find(direction, size_bytes).map(|figure| figure.value)
    }

    fn find(&self, direction: CardDirection, size_bytes: u64) -> Option<&Figure> {
        // The file of figures writes binary sizes as the paper does: `1 KB`.
        let conditions = format!("Gen2 x4; {}", size_words(size_bytes).replace("iB", "B"));
        self.figures
            .iter()
            .find(|one| one.quantity == quantity(direction) && one.conditions == conditions)
    }

    /// The document's rate beside the lab's, if it gives one.
    pub fn compare(
        &self,
        direction: CardDirection,
        size_bytes: u64,
        bytes_per_second: f64,
    ) -> Option<Row> {
        let figure = self.find(direction, size_bytes)?;
        let size = size_words(size_bytes);
        let is_fitted = self.fitted.iter().any(|one| one.0 == figure.quantity && one.1 == size);
        let (kind, reason) = match is_fitted {
            true => (Kind::Fit, "one constant was fitted to the two figures of 1 KiB"),
            false => (Kind::Predicted, "no constant comes from it"),
        };
        let label = format!("{}, Gen2 x4, {size}", direction.words());
        Some(row(figure, bytes_per_second / 1e6, kind, reason, RATE, label))
    }

    /// The document's ratio beside the lab's.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn compare_ratio(&self, ratio: f64) -> Result<Row, ReproduceError> {
        let figure = self.figures.iter().find(|one| one.quantity == FITTED).ok_or_else(|| {
            ReproduceError::experiment("the figures of kc705", format!("there is no {FITTED}"))
        })?;
        let reason = "no constant comes from it; it is what packets of 128 B leave";
        let label = "fitted rate of the link over theory, host to card, 4 MiB".to_owned();
        Ok(row(figure, ratio, Kind::Predicted, reason, RATIO, label))
    }
}

fn row(
    figure: &Figure,
    simulated: f64,
    kind: Kind,
    reason: &str,
    tolerance: Tolerance,
    label: String,
) -> Row {
    let (published, simulated) = (Some(figure.value), Some(simulated));
    Row {
        quantity: figure.quantity.clone(),
        conditions: figure.conditions.clone(),
        unit: figure.unit.clone(),
        published,
        simulated,
        error: relative_error(published, simulated),
        kind,
        tolerance: Some(tolerance),
        reason: reason.to_owned(),
        label,
    }
}

/// The quantities and the size that a source names behind `fit: `, as in `dma_host_to_fpga and
/// dma_fpga_to_host of 1 KiB, …`.
fn named(source: &str) -> Vec<(&'static str, String)> {
    let Some((quantities, rest)) = source.split_once(" of ") else { return Vec::new() };
    let size = rest.split(',').next().unwrap_or_default();
    let known = CardDirection::ALL.map(quantity).into_iter();
    let named = known.filter(|known| quantities.split(" and ").any(|one| one == *known));
    named.map(|quantity| (quantity, size.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_fits_name_them() {
        let figures = Figures::read(&crosslane_lab::open("kc705").unwrap()).unwrap();
        assert_eq!(figures.count(), 5);
        let fitted: Vec<&str> = figures.fitted.iter().map(|(name, _)| *name).collect();
        assert_eq!(fitted, ["dma_host_to_fpga", "dma_fpga_to_host"]);
        let kind = |direction, size| figures.compare(direction, size, 1.0).unwrap().kind;
        for direction in CardDirection::ALL {
            assert_eq!(kind(direction, 1024), Kind::Fit);
            assert_eq!(kind(direction, 4 << 20), Kind::Predicted);
            assert!(figures.compare(direction, 4096, 1.0).is_none());
        }
        assert!((figures.compare_ratio(0.86).unwrap().error.unwrap()).abs() < 1e-12);
        assert_eq!(named("something of 1 KiB, and more"), []);
    }
}
