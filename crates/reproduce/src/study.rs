// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published studies, whose measurements are repeated in labs.

use crosslane_lab::Lab;

use crate::comparison::Row;
use crate::context::Context;
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::published::PublishedFigures;
use crate::{aws_f1, kc705, nget, pciebench, rosta, sbdt};

/// Length of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As long as compared figures require.
    Full,
    /// Just long enough to see which constants matter.
    Quick,
}

/// A study whose experiments can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name.
    pub name: &'static str,
    /// The system and the measurements, one sentence.
    pub summary: &'static str,
    /// Number of its scenarios.
    pub scenarios: u64,
    /// Whether engines of this project take part, which can be the gateware.
    pub has_engines: bool,
}

/// A published study with a lab in which its measurements are repeated.
pub trait Study: Sync {
    /// Returns the names of the labs: first the study's own, which gives the study its name, then
    /// variants with additional constants.
    fn labs(&self) -> &'static [&'static str];

    /// Describes the reproduction of its experiments; `None` for a study that is only validated.
    fn reproducible(&self) -> Option<Reproducible> {
        None
    }

    /// Reads the figures of the comparison.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn figures(&self, lab: &Lab) -> Result<PublishedFigures, ReproduceError> {
        PublishedFigures::of(lab)
    }

    /// Runs every experiment, in order, each scenario in a separate lab; `done` gets the
    /// experiments as they end.
    ///
    /// # Errors
    /// An experiment that fails or was interrupted.
    fn experiments(
        &self,
        context: &Context<'_>,
        done: &mut Vec<Experiment>,
    ) -> Result<(), ReproduceError> {
        let _ = (context, done);
        Ok(())
    }

    /// Runs only the scenarios of the compared rows.
    ///
    /// # Errors
    /// Those of [`experiments`](Self::experiments).
    fn compared(&self, context: &Context<'_>, effort: Effort) -> Result<Vec<Row>, ReproduceError>;
}

/// The studies, by name.
const STUDIES: [&dyn Study; 7] = [
    &aws_f1::AwsF1,
    &kc705::Kc705,
    &nget::Nget,
    &pciebench::Pciebench,
    &pciebench::iommu::PciebenchIommu,
    &rosta::Rosta,
    &sbdt::Sbdt,
];

/// Finds a study by its name.
///
/// # Errors
/// An unknown name, with the known ones.
pub fn study(name: &str) -> Result<&'static dyn Study, ReproduceError> {
    STUDIES.into_iter().find(|study| study.labs()[0] == name).ok_or_else(|| {
        let (what, known) = ("set of measurements", studies().collect::<Vec<_>>().join(", "));
        ReproduceError::Unknown { what, name: name.to_owned(), known }
    })
}

/// Returns the names of all studies, each of which can be validated.
pub fn studies() -> impl Iterator<Item = &'static str> {
    STUDIES.into_iter().map(|study| study.labs()[0])
}

/// Returns the studies whose experiments can be run.
pub fn reproducible() -> impl Iterator<Item = Reproducible> {
    STUDIES.into_iter().filter_map(Study::reproducible)
}
