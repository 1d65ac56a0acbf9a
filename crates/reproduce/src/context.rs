// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labs and figures of a study, and the way to run host code in a lab.

use crosslane_experiment::{EngineWork, Scenario, Verified};
use crosslane_host::Reason;
use crosslane_lab::{CheckedRun, Ending, EngineKind, Lab, Progress, Simulation};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Explanation;

use crate::error::{ReproduceError, Result};
use crate::published::PublishedFigures;
use crate::study::{self, Study};

/// Longest simulated time of one scenario; the longest takes 0.7 s.
pub(crate) const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);

/// Finds what limits a run, in as few runs of a shortened one as that takes.
pub type Explain<'a> = dyn Fn(&Scenario<EngineWork>) -> Result<Explanation, Reason> + Sync + 'a;

/// A study's labs and figures, and the settings of its runs.
pub struct Context<'a> {
    /// The labs, as [`Study::labs`] names them.
    pub(crate) labs: Vec<Lab>,
    /// The paper's figures.
    pub figures: PublishedFigures,
    /// Random seed.
    pub(crate) seed: u64,
    /// Kind of this project's own engines.
    pub(crate) own: EngineKind,
    /// The way to explain runs, if any are to be explained.
    pub(crate) explain: Option<&'a Explain<'a>>,
    watch: &'a dyn Progress,
}

impl<'a> Context<'a> {
    /// Opens the shipped labs of a study.
    ///
    /// # Errors
    /// An unknown study, and a lab or a file of figures that cannot be read.
    pub fn open(study: &str, seed: u64, watch: &'a dyn Progress) -> Result<Self> {
        Self::of(study::study(study)?, seed, watch)
    }

    pub(crate) fn of(study: &Study, seed: u64, watch: &'a dyn Progress) -> Result<Self> {
        let labs: Vec<Lab> =
            study.labs.iter().map(|name| crosslane_lab::open(name)).collect::<Result<_, _>>()?;
        let figures = match study.figures {
            [] => PublishedFigures::of(&labs[0])?,
            files => PublishedFigures::read(files.iter().copied())?,
        };
        Ok(Self { labs, figures, seed, own: EngineKind::Model, explain: None, watch })
    }

    /// Sets the kind of this project's own engines.
    #[must_use]
    pub fn with_own(self, own: EngineKind) -> Self {
        Self { own, ..self }
    }

    /// Sets the way to explain runs; without it, none is explained.
    #[must_use]
    pub fn with_explain(self, explain: &'a Explain<'a>) -> Self {
        Self { explain: Some(explain), ..self }
    }

    /// Sets one constant to another number, in each lab that has it.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub fn with_constant(mut self, path: &str, value: f64) -> Result<Self> {
        for lab in &mut self.labs {
            if lab.constants().any(|constant| constant.path() == path) {
                *lab = lab.with_constant(path, value)?;
            }
        }
        Ok(self)
    }

    /// Returns the study's lab.
    pub(crate) fn lab(&self) -> &Lab {
        &self.labs[0]
    }

    /// Returns a variant of the study's lab.
    pub(crate) fn variant(&self, name: &str) -> Result<Lab> {
        Ok(self.lab().with_variant(name)?)
    }

    /// Returns an error if no more scenarios are wanted.
    pub(crate) fn may_begin(&self) -> Result<()> {
        if self.watch.is_over() { Err(ReproduceError::Interrupted) } else { Ok(()) }
    }

    /// Reports the end of a scenario.
    pub(crate) fn done(&self, scenario: &str, simulated: Picoseconds) {
        self.watch.done(scenario, simulated);
    }

    /// Runs host code in a separate lab, as a scenario, with the checks of [`CheckedRun`].
    pub(crate) fn run<T, E: Into<Reason>>(
        &self,
        scenario: &str,
        lab: &Lab,
        program: impl AsyncFnOnce(&Simulation) -> Result<T, E>,
    ) -> Result<T> {
        let ending = self.run_to_errors(scenario, lab, program)?;
        let failed = |error| ReproduceError::experiment(scenario, error);
        Ok(ending.into_result().map_err(failed)?.value)
    }

    /// Does the same, but leaves errors to the caller.
    pub(crate) fn run_to_errors<T, E>(
        &self,
        scenario: &str,
        lab: &Lab,
        program: impl AsyncFnOnce(&Simulation) -> Result<T, E>,
    ) -> Result<Ending<T, E>> {
        self.may_begin()?;
        let run = CheckedRun::new(lab, self.seed)?.with_limit(TIME_LIMIT);
        let ending = run.run_to_errors(scenario, program(run.simulation()));
        self.done(scenario, ending.ended);
        Ok(ending)
    }

    /// Runs a workload like [`run`](Self::run); words that arrived wrong are an error.
    pub(crate) fn run_verified<T: Verified, E: Into<Reason>>(
        &self,
        scenario: &str,
        lab: &Lab,
        workload: impl AsyncFnOnce(&Simulation) -> Result<T, E>,
    ) -> Result<T> {
        let value = self.run(scenario, lab, workload)?;
        match value.wrong_words() {
            0 => Ok(value),
            words => {
                let problem = format!("{words} words of 4 B arrived wrong");
                Err(ReproduceError::experiment(scenario, problem))
            }
        }
    }
}
