// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction `sbdt`: the system of the software-bridged transfer, in the lab of that name.
//!
//! Each part of the paper has a module: `local`, DMA within the node that has the FPGA; `rdma`, the
//! network between the nodes; `bridged`, to the FPGA from the other node and back; `own`, with our
//! engine and pipeline.

mod bridged;
mod local;
mod own;
mod rdma;

use crosslane_lab::{RunningHost, Simulation};
use crosslane_report::Series;

use crate::error::{ReproduceError, Result};
use crate::study::{Effort, Reproducible, Study};

/// The card, and the host that it is in.
const CARD: &str = "pac";
const HOST: &str = "fpga-node";

/// Returns a host of the lab by its name.
fn host<'a>(simulation: &'a Simulation, name: &str) -> Result<&'a RunningHost> {
    simulation
        .hosts()
        .iter()
        .find(|host| host.name == name)
        .ok_or_else(|| ReproduceError::experiment("lab sbdt", format!("it has no host {name}")))
}

/// A curve of a figure: a name, and points by size.
#[derive(Clone, Debug)]
struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Returns its line in a plot, under a name.
    fn line(&self, name: impl Into<String>) -> Series {
        crate::plots::ours(name, self.points.iter().copied())
    }
}

/// The study.
pub(crate) const STUDY: Study = Study {
    labs: &["sbdt"],
    figures: &[],
    reproducible: Some(Reproducible {
        name: "sbdt",
        summary: "Software-bridged transfer: DMA through rings of host buffers to an Arria 10 \
                      card, through it, and back.",
        scenarios: local::SCENARIOS + rdma::SCENARIOS + bridged::SCENARIOS + own::SCENARIOS,
        has_engines: false,
        beside_gateware: 0,
        experiments: |context, done| {
            // The curves of figure 5 are in figure 12 too.
            let (local, curves) = local::experiments(context)?;
            done.extend(local);
            done.push(rdma::experiment(context)?);
            done.extend(bridged::experiments(context, &curves)?);
            done.push(own::experiment(context)?);
            Ok(())
        },
    }),
    compared: |context, effort| {
        let mut rows = local::compared(context, effort)?;
        rows.extend(rdma::compared(context, effort)?);
        // Bridged transfers with buffers of 8 MiB take too long for a sweep.
        if effort == Effort::Full {
            rows.extend(bridged::compared(context)?);
        }
        Ok(rows)
    },
};
