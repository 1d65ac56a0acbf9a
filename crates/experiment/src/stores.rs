// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a core into a memory card, in a lab.

use std::sync::Arc;

use crosslane_driver::MemoryCard;
use crosslane_lab::{CheckedRun, Lab};
use crosslane_pcie::units::HostId;
use crosslane_results::{Better, Figure};

use crate::error::{BenchError, ScenarioError};
use crate::mmio::{MmioMeasured, MmioOptions, mmio};

/// Stores of the first host's core into a memory card.
#[derive(Clone, Debug)]
pub struct StoreRun {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The card, an endpoint's name.
    pub card: String,
    /// The stores.
    pub options: MmioOptions,
    /// Random seed.
    pub seed: u64,
}

impl StoreRun {
    /// Makes the run. Wrong data are part of what it has measured.
    ///
    /// # Errors
    /// A lab that cannot be built, and anything else that goes wrong in the run.
    pub fn run(&self) -> Result<MmioMeasured, ScenarioError> {
        let run = CheckedRun::new(&self.lab, self.seed)?;
        let bus = run.simulation().bus(HostId(0));
        let ended = run.run("bench mmio", async {
            let card = MemoryCard::open_by_name(bus.clone(), &self.card).await?;
            mmio(&bus, &card, &self.options).await
        });
        let failed = |error: crosslane_lab::RunError<BenchError>| error.to_string();
        Ok(ended.map_err(|error| ScenarioError::Failed(failed(error)))?.value)
    }

    /// Makes the run and returns its rate.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), and wrong data.
    pub fn figure(&self) -> Result<Figure, ScenarioError> {
        let measured = self.run()?;
        match measured.data_errors.words {
            0 => Ok(Figure { value: measured.bytes_per_second(), better: Better::Higher }),
            words => Err(ScenarioError::Failed(format!("{words} words are not what was stored"))),
        }
    }
}
