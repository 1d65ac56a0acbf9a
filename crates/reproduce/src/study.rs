// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published studies, whose measurements are repeated in labs.

use crate::comparison::Row;
use crate::context::Context;
use crate::error::{ReproduceError, Result};
use crate::experiment::Experiment;
use crate::{aws_f1, kc705, nget, pciebench, rosta, sbdt};

/// Length of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As long as compared figures require.
    Full,
    /// Just long enough to see which constants matter.
    Quick,
}

/// The reproduction of a study's experiments.
#[derive(Clone, Copy, Debug)]
pub struct Reproducible {
    /// Name of the reproduction.
    pub name: &'static str,
    /// The system and the measurements, one sentence.
    pub summary: &'static str,
    /// Number of its scenarios.
    pub scenarios: u64,
    /// Whether engines of this project take part, which can be the gateware.
    pub has_engines: bool,
    /// Number of further scenarios where they are the gateware: those of the model beside it.
    pub beside_gateware: u64,
    /// Runs every experiment, in order, each scenario in a separate lab, and adds the experiments
    /// as they end. Its error is that of an experiment that fails or was interrupted.
    pub experiments: fn(&Context<'_>, &mut Vec<Experiment>) -> Result<()>,
}

/// A published study with a lab in which its measurements are repeated.
#[derive(Debug)]
pub struct Study {
    /// Names of the labs: first the study's own, which gives the study its name, then variants with
    /// additional constants.
    pub labs: &'static [&'static str],
    /// The files of the compared figures; none if the lab names them.
    pub figures: &'static [&'static str],
    /// The reproduction of its experiments; `None` for a study that is only validated.
    pub reproducible: Option<Reproducible>,
    /// Runs only the scenarios of the compared rows. Its error is that of an experiment.
    pub compared: fn(&Context<'_>, Effort) -> Result<Vec<Row>>,
}

/// The studies, by name.
static STUDIES: [&Study; 11] = [
    &aws_f1::STUDY,
    &kc705::STUDY,
    &nget::STUDY,
    &pciebench::STUDY,
    &pciebench::iommu::STUDY,
    &pciebench::systems::STUDIES[0],
    &pciebench::systems::STUDIES[1],
    &pciebench::systems::STUDIES[2],
    &pciebench::systems::STUDIES[3],
    &rosta::STUDY,
    &sbdt::STUDY,
];

/// Finds a study by its name.
///
/// # Errors
/// An unknown name, with the known ones.
pub fn study(name: &str) -> Result<&'static Study> {
    STUDIES.into_iter().find(|study| study.labs[0] == name).ok_or_else(|| {
        let (what, known) = ("set of measurements", studies().collect::<Vec<_>>().join(", "));
        ReproduceError::Unknown { what, name: name.to_owned(), known }
    })
}

/// Returns the names of all studies, each of which can be validated.
pub fn studies() -> impl Iterator<Item = &'static str> {
    STUDIES.into_iter().map(|study| study.labs[0])
}

/// Returns the studies whose experiments can be run.
pub fn reproducible() -> impl Iterator<Item = Reproducible> {
    STUDIES.into_iter().filter_map(|study| study.reproducible)
}
