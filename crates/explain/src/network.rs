// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of network processors as cases: gets, and exchanges in a torus.

use std::sync::Arc;

use crosslane_experiment::{BenchError, HaloRun, NgetOptions, NgetRun, ScenarioError};
use crosslane_lab::Lab;
use crosslane_results::{Account, Better, Figure};

use crate::case::{Case, LENGTHS, SHORT_BYTES, Short};
use crate::error::ExplainError;

/// Fewest loops of a shortened run of gets.
const SHORT_LOOPS: u64 = 16;

fn failed(error: BenchError) -> ExplainError {
    ScenarioError::from(error).into()
}

fn rate(bytes_per_second: f64, wrong: u64) -> Result<Figure, ExplainError> {
    match wrong {
        0 => Ok(Figure { value: bytes_per_second, better: Better::Higher }),
        wrong => Err(ScenarioError::Failed(format!("{wrong} messages with wrong data")).into()),
    }
}

impl Case for NgetRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        let outcome = self.run().map_err(failed)?;
        rate(outcome.measured.bytes_per_second(), outcome.measured.wrong.into())
    }

    fn account(&self) -> Result<Option<Account>, ExplainError> {
        Ok(Some(self.run().map_err(failed)?.account))
    }

    fn shortened(&self) -> Vec<Short<Self>> {
        let NgetOptions { size_bytes, in_flight, per_loop, loops, .. } = self.options;
        let each = size_bytes * u64::from(per_loop);
        let least = SHORT_LOOPS.max(4 * u64::from(in_flight) / u64::from(per_loop));
        let mut shortened = Vec::new();
        for times in LENGTHS {
            let fewer = (SHORT_BYTES * times / each.max(1)).max(least * times).min(loops);
            let mut short = self.clone();
            short.options.loops = fewer;
            if fewer == loops {
                shortened.push((short, None));
                break;
            }
            shortened.push((short, Some(format!("{fewer} loops instead of {loops}"))));
        }
        shortened
    }
}

impl Case for HaloRun {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn with_lab(self, lab: Lab) -> Self {
        Self { lab: Arc::new(lab), ..self }
    }

    fn figure(&self) -> Result<Figure, ExplainError> {
        let outcome = self.run().map_err(failed)?;
        rate(outcome.node_bytes_per_second(), outcome.checked().1)
    }

    /// Shortens the number of exchanges: all are alike.
    fn shortened(&self) -> Vec<Short<Self>> {
        let exchanges = self.options.exchanges;
        let mut short = self.clone();
        short.options.exchanges = 1;
        match exchanges {
            0 | 1 => vec![(short, None)],
            2.. => vec![
                (short, Some(format!("1 exchange instead of {exchanges}"))),
                (self.clone(), None),
            ],
        }
    }
}
