// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--engine`: whether engines are the behavioural model or the gateware; and how fast the gateware
//! was simulated.

use std::time::Instant;

use clap::{Args, ValueEnum};
use crosslane::lab::EngineKind;

use crate::error::CommandError;
use crate::output::print_hint;

/// Implementation of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineWord {
    /// The behavioural model.
    Model,
    /// The gateware, clock by clock.
    Rtl,
}

/// The model, or the gateware.
#[derive(Args, Clone, Debug)]
pub struct EngineArguments {
    /// This project's engines: the behavioural model, or the gateware.
    #[arg(long, value_name = "ENGINE", default_value = "model")]
    pub engine: EngineWord,
}

impl EngineArguments {
    /// The choice.
    ///
    /// # Errors
    /// The gateware is not in this program.
    pub fn kind(&self) -> Result<EngineKind, CommandError> {
        match self.engine {
            EngineWord::Model => Ok(EngineKind::Model),
            EngineWord::Rtl if crosslane_cosim::is_built() => Ok(EngineKind::Rtl),
            EngineWord::Rtl => {
                let sentence = crosslane_cosim::CosimError::NotBuilt.to_string();
                Err(CommandError::Usage(format!("--engine rtl: {sentence}")))
            }
        }
    }

    /// Says on standard error how many clocks were simulated since `begun`, if any.
    pub fn print_speed(&self, begun: Instant) {
        let clocks = crosslane_cosim::clocks_run();
        if self.engine == EngineWord::Rtl && clocks > 0 {
            let seconds = begun.elapsed().as_secs_f64().max(1e-3);
            let rate = clocks as f64 / seconds / 1e6;
            print_hint(&format!(
                "gateware: {clocks} clocks in {seconds:.1} s, {rate:.2} million a second"
            ));
        }
    }
}
