// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published studies: what is measured again in their labs.

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
    /// As long as figures need that are compared.
    Full,
    /// As short as is enough to see which constants matter.
    Quick,
}

/// A study whose experiments can be run, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name.
    pub name: &'static str,
    /// The system and the measurements, one sentence.
    pub summary: &'static str,
    /// Number of scenarios that are run.
    pub scenarios: u64,
    /// Whether engines of this project take part, which may be the gateware.
    pub has_engines: bool,
}

/// A published study with a lab in which its measurements are repeated.
pub trait Study: Sync {
    /// Returns the names of the labs: the study's own first, which names the study, then variants
    /// that have constants of their own.
    fn labs(&self) -> &'static [&'static str];

    /// Describes the reproduction of its experiments; a study that is validated only has none.
    fn reproducible(&self) -> Option<Reproducible> {
        None
    }

    /// Reads the figures that the experiments are compared with.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn figures(&self, lab: &Lab) -> Result<PublishedFigures, ReproduceError> {
        PublishedFigures::of(lab)
    }

    /// Runs every experiment, in order, each scenario in a lab of its own; `done` gets the
    /// experiments as they end.
    ///
    /// # Errors
    /// An experiment that does not run as it should, or was interrupted.
    fn experiments(
        &self,
        context: &Context<'_>,
        done: &mut Vec<Experiment>,
    ) -> Result<(), ReproduceError> {
        let _ = (context, done);
        Ok(())
    }

    /// Runs what gives the rows that are compared, and no more.
    ///
    /// # Errors
    /// As [`experiments`](Self::experiments).
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
/// A name that there is not, answered with those that there are.
pub fn study(name: &str) -> Result<&'static dyn Study, ReproduceError> {
    STUDIES.into_iter().find(|study| study.labs()[0] == name).ok_or_else(|| {
        let (what, known) = ("set of measurements", studies().collect::<Vec<_>>().join(", "));
        ReproduceError::Unknown { what, name: name.to_owned(), known }
    })
}

/// Returns the names of all studies: each can be validated.
pub fn studies() -> impl Iterator<Item = &'static str> {
    STUDIES.into_iter().map(|study| study.labs()[0])
}

/// Returns the studies whose experiments can be run.
pub fn reproducible() -> impl Iterator<Item = Reproducible> {
    STUDIES.into_iter().filter_map(Study::reproducible)
}
