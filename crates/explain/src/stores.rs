// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of a core that stores into a memory card.

use std::sync::Arc;

use crosslane_bench::{BenchError, MmioMeasured, MmioOptions, mmio};
use crosslane_driver::MemoryCard;
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::HostId;
use crosslane_results::{Better, Figure};

use crate::case::{Case, LENGTHS, Short};
use crate::error::ExplainError;
use crate::words::size_words;

/// Most bytes of a shortened run, before it is lengthened: what goes ahead of the rate into queues
/// counts for little then.
const SHORT_BYTES: u64 = 256 << 10;

/// Stores of the first host's core into a memory card.
#[derive(Clone, Debug)]
pub struct StoreRun {
    /// The lab.
    pub lab: Arc<Lab>,
    /// The card, an endpoint's name.
    pub card: String,
    /// What is stored how.
    pub options: MmioOptions,
    /// Everything random comes from it.
    pub seed: u64,
}

impl StoreRun {
    /// Makes the run.
    ///
    /// # Errors
    /// A lab that cannot be built, and what goes wrong in the run.
    pub fn run(&self) -> Result<MmioMeasured, ExplainError> {
        let simulation = Simulation::new(self.lab.build_engines(self.seed)?);
        let bus = simulation.bus(HostId(0));
        let run: Result<Result<_, BenchError>, _> = simulation.run("bench mmio", async {
            let card = MemoryCard::open_by_name(bus.clone(), &self.card).await?;
            mmio(&bus, &card, &self.options).await
        });
        let failed = |error: &dyn std::error::Error| ExplainError::Failed(error.to_string());
        run.map_err(|stuck| failed(&stuck))?.map_err(|error| failed(&error))
    }
}

impl Case for StoreRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        let measured = self.run()?;
        if measured.data_errors.words > 0 {
            let words = measured.data_errors.words;
            return Err(ExplainError::Failed(format!("{words} words are not what was stored")));
        }
        Ok(Figure { value: measured.bytes_per_second(), better: Better::Higher })
    }

    fn shortened(&self) -> Vec<Short<Self>> {
        let MmioOptions { size_bytes, passes, .. } = self.options;
        let mut shortened = Vec::new();
        for bytes in LENGTHS.map(|times| SHORT_BYTES * times) {
            let mut short = self.clone();
            short.options.size_bytes = size_bytes.min(bytes);
            short.options.passes = (bytes / size_bytes).clamp(1, passes);
            let MmioOptions { size_bytes: bytes, passes: fewer, .. } = short.options;
            if (bytes, fewer) == (size_bytes, passes) {
                shortened.push((short, None));
                break;
            }
            let [size, whole] = [bytes, size_bytes].map(size_words);
            let words = format!("{fewer} x {size} instead of {passes} x {whole}");
            shortened.push((short, Some(words)));
        }
        shortened
    }
}
