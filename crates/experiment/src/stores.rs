// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a core into a memory card, in a lab.

use crosslane_driver::MemoryCard;
use crosslane_fabric::trace::TraceSink;
use crosslane_lab::{Lab, Progress};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_results::{Better, Detail, Figure, Flow, Stores, WritesByLength};

use crate::error::{ExperimentError, Result};
use crate::mmio::{MmioMeasured, MmioOptions, mmio};
use crate::scenario::{Outcome, Scenario, Work, execute};

/// Stores of the first host's core into a memory card.
#[derive(Clone, Debug)]
pub struct StoreWork {
    /// The card, an endpoint's name.
    pub card: String,
    /// The stores.
    pub options: MmioOptions,
}

impl Work for StoreWork {
    type Outcome = MmioMeasured;

    fn name(&self, _lab: &Lab) -> String {
        self.options.name().to_owned()
    }

    fn run(
        scenario: &Scenario<Self>,
        progress: &dyn Progress,
        trace: Option<Box<dyn TraceSink>>,
    ) -> Result<MmioMeasured> {
        let run = scenario.begin(trace)?;
        let bus = run.simulation().bus(HostId(0));
        let program = async {
            let card = MemoryCard::open_by_name(bus.clone(), &scenario.work.card).await?;
            mmio(&bus, &card, &scenario.work.options).await
        };
        let ended = execute(&run, "bench mmio", progress, program)?;
        Ok(ended.into_result().map_err(ExperimentError::failed)?.value)
    }
}

impl Outcome for MmioMeasured {
    fn result(&self) -> crosslane_results::ScenarioResult {
        let sizes = self.metrics.writes_by_length();
        let sizes = sizes.map(|(up_to_bytes, writes)| WritesByLength { up_to_bytes, writes });
        let flow = Flow {
            name: self.options.name().to_owned(),
            bytes: self.options.size_bytes,
            iterations: self.options.passes,
            bytes_per_second: Some(self.bytes_per_second()),
            detail: Detail::Stores(Stores {
                elapsed_ns: self.elapsed.as_seconds() * 1e9,
                fence_ns: self.fence.as_seconds() * 1e9,
                wrong_words: self.data_errors.words,
                writes_by_length: sizes.collect(),
                beats_by_bank: self.metrics.beats.iter().map(|beats| beats.0).collect(),
            }),
            ..Flow::default()
        };
        flow.into()
    }

    fn figure(&self) -> Option<Figure> {
        Some(Figure { value: self.bytes_per_second(), better: Better::Higher })
    }

    fn simulated(&self) -> Picoseconds {
        self.elapsed
    }

    fn wrong_data(&self) -> Option<String> {
        let words = self.data_errors.words;
        (words > 0).then(|| format!("{words} words are not what was stored"))
    }

    fn details(&self) -> String {
        format!("\nfence behind it: {}\n{}", self.fence, self.metrics)
    }
}
