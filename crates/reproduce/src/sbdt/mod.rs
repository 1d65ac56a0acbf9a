// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `sbdt`: the system of the software-bridged transfer, in the lab of that name.
//!
//! Read first: `published`, what each figure is held to; then the parts of the document, a module
//! each: `local`, DMA within the node that has the FPGA; `rdma`, the network between the nodes;
//! `bridged`, to the FPGA from the other node and back; `own`, with our engine and pipeline.

mod bridged;
mod local;
mod own;
mod published;
mod rdma;

use crosslane_lab::{Lab, RunningHost, Simulation};
use crosslane_pcie::units::Picoseconds;
use crosslane_report::{Series, SeriesKind};

use crate::comparison::{Row, Tolerance};
use crate::error::ReproduceError;
use crate::experiment::Experiment;
use crate::watch::{Watch, may_begin};
use published::Figures;

/// The card, and the host that has it.
const CARD: &str = "pac";
const HOST: &str = "fpga-node";
/// Longest simulated time of one scenario; the longest takes 0.3 s.
const TIME_LIMIT: Picoseconds = Picoseconds::from_ns(10_000_000_000);
/// What rates are held to.
const RATE: Tolerance =
    Tolerance { fraction: 0.05, reason: "the mean of ten runs, whose spread is not given" };

/// Scenarios that [`experiments`] runs.
pub const SCENARIOS: u64 = local::SCENARIOS + rdma::SCENARIOS + bridged::SCENARIOS + own::SCENARIOS;

/// What all experiments have in common.
pub struct Context<'a> {
    lab: Lab,
    seed: u64,
    watch: &'a dyn Watch,
    figures: Figures,
}

impl<'a> Context<'a> {
    /// The shipped lab.
    ///
    /// # Errors
    /// A lab or a file of figures that cannot be read.
    pub fn new(seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        Self::of(crosslane_lab::open("sbdt")?, seed, watch)
    }

    /// Another lab with the same measurements.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of(lab: Lab, seed: u64, watch: &'a dyn Watch) -> Result<Self, ReproduceError> {
        let figures = Figures::read(&lab)?;
        Ok(Self { lab, seed, watch, figures })
    }

    /// Rows of the file of published figures.
    #[must_use]
    pub fn published_rows(&self) -> usize {
        self.figures.count()
    }

    /// The lab, or a variant of it.
    fn lab(&self, variant: Option<&str>) -> Result<Lab, ReproduceError> {
        Ok(match variant {
            Some(variant) => self.lab.with_variant(variant)?,
            None => self.lab.clone(),
        })
    }

    /// A simulation of a lab for a scenario.
    fn simulation(&self, lab: &Lab) -> Result<Simulation, ReproduceError> {
        may_begin(self.watch)?;
        let simulation = Simulation::new(lab.build_engines(self.seed)?);
        simulation.set_time_limit(Some(TIME_LIMIT));
        Ok(simulation)
    }

    /// A scenario is over: nothing may be left of it.
    fn end(&self, name: &str, simulation: &Simulation) -> Result<(), ReproduceError> {
        let (errors, now) = simulation.with_fabric(|fabric| (fabric.errors().len(), fabric.now()));
        if errors > 0 {
            return Err(ReproduceError::experiment(name, format!("{errors} errors on the links")));
        }
        self.watch.done(name, now);
        Ok(())
    }
}

/// A host of the lab by its name.
fn host<'a>(simulation: &'a Simulation, name: &str) -> Result<&'a RunningHost, ReproduceError> {
    simulation
        .hosts()
        .iter()
        .find(|host| host.name == name)
        .ok_or_else(|| ReproduceError::experiment("lab sbdt", format!("it has no host {name}")))
}

/// Every experiment, in order, each scenario in a lab of its own; `done` gets them as they end.
///
/// # Errors
/// An experiment that does not run as it should, or was interrupted.
pub fn experiments(
    context: &Context<'_>,
    done: &mut Vec<Experiment>,
) -> Result<(), ReproduceError> {
    done.extend(local::experiments(context)?);
    // The curves of figure 5 are in figure 12 too.
    let plots = done.iter().flat_map(|experiment| &experiment.plots);
    let figure_5 = plots.filter(|plot| plot.title.starts_with("Figure 5"));
    let curves = figure_5.flat_map(|plot| &plot.series);
    let local: Vec<Series> =
        curves.filter(|curve| curve.kind == SeriesKind::Ours).cloned().collect();
    done.extend(rdma::experiments(context)?);
    done.extend(bridged::experiments(context, &local)?);
    done.extend(own::experiments(context)?);
    Ok(())
}

/// The rows that are compared, and no others.
///
/// # Errors
/// As [`experiments`].
pub fn compared(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    Ok([local::compared(context)?, rdma::compared(context)?, bridged::compared(context)?].concat())
}

/// The same with transfers that take little time: for sweeps over the lab's constants.
///
/// # Errors
/// As [`experiments`].
pub fn quick(context: &Context<'_>) -> Result<Vec<Row>, ReproduceError> {
    // Bridged transfers with buffers of 8 MiB take too long for that.
    Ok([local::quick(context)?, rdma::quick(context)?].concat())
}
