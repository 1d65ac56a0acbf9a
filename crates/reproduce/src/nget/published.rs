// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The document's figures, and what each is held to.
//!
//! The peak is one figure for all payloads of 1 KiB and more, and for two machines that the text
//! does not tell apart. It is *fit* at the size and on the machine whose constant names it, as in
//! `fit: nget_peak_over_theory of 64 KiB`, and predicted elsewhere.

use crosslane_lab::{Lab, Provenance};

use super::Machine;
use crate::comparison::{Kind, Row, Tolerance, relative_error};
use crate::error::ReproduceError;
use crate::published::PublishedFile;

/// Of the peak.
const PEAK: &str = "nget_peak_over_theory";
/// The document writes it as about 82 %.
const PEAK_TOLERANCE: Tolerance =
    Tolerance { fraction: 0.02, reason: "the document says: about 82 %" };
/// What a request of our engine takes of the link beside 1 KiB of completions.
const SHORT_TOLERANCE: Tolerance = Tolerance {
    fraction: 0.09,
    reason: "2 %, and 7 % for our engine's requests of 88 B on the wire; the document's are not \
             known",
};
/// Gets for which that matters, in words.
const SHORT: &str = "1 KiB";
/// An input comes out as it went in.
const INPUT_TOLERANCE: Tolerance =
    Tolerance { fraction: 0.001, reason: "it is an input: what is measured is what was put in" };

/// A figure of the document.
pub(super) struct Figure {
    pub quantity: String,
    pub conditions: String,
    pub value: f64,
    pub unit: String,
}

/// The figures.
pub(super) struct Figures {
    figures: Vec<Figure>,
    /// Size of the gets that a constant was fitted to, in words, and the part that has it.
    fitted: Vec<(String, String)>,
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
        for constant in lab.constants().filter(|one| one.provenance == Provenance::Fit) {
            let size = size_named(&constant.source).ok_or_else(|| {
                let problem = format!("`{}` names no figure", constant.source);
                ReproduceError::experiment(constant.path(), problem)
            })?;
            fitted.push((size.to_owned(), constant.path()));
        }
        Ok(Self { figures, fitted })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.figures.len()
    }

    /// All of a quantity.
    pub fn of<'a>(&'a self, quantity: &'a str) -> impl Iterator<Item = &'a Figure> {
        self.figures.iter().filter(move |figure| figure.quantity == quantity)
    }

    /// The only one of a quantity.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn one(&self, quantity: &str) -> Result<&Figure, ReproduceError> {
        self.figures.iter().find(|figure| figure.quantity == quantity).ok_or_else(|| {
            ReproduceError::experiment("the figures of nget", format!("there is no {quantity}"))
        })
    }

    /// The document's peak, of the link's 4 GB/s.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn peak(&self) -> Result<f64, ReproduceError> {
        Ok(self.one(PEAK)?.value)
    }

    /// The peak beside that of a machine at a size.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn compare_peak(
        &self,
        machine: Machine,
        size: &str,
        ratio: f64,
    ) -> Result<Row, ReproduceError> {
        let figure = self.one(PEAK)?;
        let part = format!("part.{}.", machine.part());
        let is_fitted = self.fitted.iter().any(|(of, path)| of == size && path.starts_with(&part));
        let (kind, reason) = match is_fitted {
            true => (Kind::Fit, "one constant was fitted to it, the mixture of completions"),
            false => (Kind::Predicted, "no constant comes from it"),
        };
        let label = format!("peak over theory, {}, {size}", machine.words());
        let tolerance = Some(if size == SHORT { SHORT_TOLERANCE } else { PEAK_TOLERANCE });
        Ok(row(figure, Some(ratio), kind, tolerance, reason, label))
    }

    /// An input of the lab beside what is measured.
    ///
    /// # Errors
    /// The file does not have it.
    pub fn input(
        &self,
        quantity: &str,
        simulated: f64,
        label: &str,
    ) -> Result<Row, ReproduceError> {
        let (kind, tolerance) = (Kind::Input, Some(INPUT_TOLERANCE));
        let reason = "a constant of the lab is this figure";
        Ok(row(self.one(quantity)?, Some(simulated), kind, tolerance, reason, label.to_owned()))
    }

    /// A figure that is shown beside, with what the lab has for it, if anything.
    pub fn context(figure: &Figure, simulated: Option<f64>, reason: &str, label: String) -> Row {
        row(figure, simulated, Kind::Context, None, reason, label)
    }
}

fn row(
    figure: &Figure,
    simulated: Option<f64>,
    kind: Kind,
    tolerance: Option<Tolerance>,
    reason: &str,
    label: String,
) -> Row {
    let published = Some(figure.value);
    Row {
        quantity: figure.quantity.clone(),
        conditions: figure.conditions.clone(),
        unit: figure.unit.clone(),
        published,
        simulated,
        error: relative_error(published, simulated),
        kind,
        tolerance,
        reason: reason.to_owned(),
        label,
    }
}

/// A figure of the lab's that the document does not have, or has in a lost plot.
pub(super) fn shown(quantity: &str, conditions: String, unit: &str, simulated: f64) -> Row {
    Row {
        quantity: quantity.to_owned(),
        conditions,
        unit: unit.to_owned(),
        published: None,
        simulated: Some(simulated),
        error: None,
        kind: Kind::Context,
        tolerance: None,
        reason: "the document has it in a plot that is lost, or not at all".to_owned(),
        label: String::new(),
    }
}

/// The size that a source names behind `fit: `, as in `nget_peak_over_theory of 64 KiB, …`.
fn size_named(source: &str) -> Option<&str> {
    let (quantity, rest) = source.split_once(" of ")?;
    (quantity == PEAK).then(|| rest.split(',').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_the_fit_names_one() {
        let figures = Figures::read(&crosslane_lab::open("nget").unwrap()).unwrap();
        assert_eq!(figures.count(), 10);
        assert_eq!(figures.fitted.len(), 1);
        let kind = |machine, size| figures.compare_peak(machine, size, 0.82).unwrap().kind;
        assert_eq!(kind(Machine::Gpu1, "64 KiB"), Kind::Fit);
        assert_eq!(kind(Machine::Gpu1, "1 KiB"), Kind::Predicted);
        assert_eq!(kind(Machine::Gpu2, "64 KiB"), Kind::Predicted);
        assert_eq!(figures.of("network_latency").count(), 3);
        assert!(figures.one("nothing").is_err());
        assert_eq!(size_named("something of 1 KiB, and more"), None);
    }
}
