// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--engine`: whether engines are the behavioural model or the gateware; and how fast the gateware
//! was simulated.

use std::time::Instant;

use clap::Args;
use crosslane::lab::EngineKind;

use crate::error::{Result, usage};
use crate::output::print_hint;
use crate::values::one_of;

/// Implementations of engines.
const ENGINES: [(&str, &str, EngineKind); 2] = [
    ("model", "The behavioural model", EngineKind::Model),
    ("rtl", "The gateware, clock by clock", EngineKind::Rtl),
];

/// The model, or the gateware.
#[derive(Args, Clone, Debug)]
pub struct EngineArguments {
    /// This project's engines: the behavioural model, or the gateware.
    #[arg(long, value_name = "ENGINE", default_value = "model", value_parser = one_of(&ENGINES))]
    pub engine: EngineKind,
}

impl EngineArguments {
    /// The choice.
    ///
    /// # Errors
    /// The gateware is not in this program.
    pub fn kind(&self) -> Result<EngineKind> {
        if self.engine == EngineKind::Rtl && !crosslane_cosim::is_built() {
            let sentence = crosslane_cosim::CosimError::NotBuilt;
            return Err(usage(format!("--engine rtl: {sentence}")));
        }
        Ok(self.engine)
    }

    /// Refuses the gateware of network processors that are cards.
    ///
    /// # Errors
    /// The gateware was chosen.
    pub fn not_of_cards(&self) -> Result<()> {
        self.only_model("it is of network processors in a lab; --device names cards")
    }

    /// Refuses the gateware where there is no engine of a lab, for the reason `why`.
    ///
    /// # Errors
    /// The gateware was chosen.
    pub fn only_model(&self, why: &str) -> Result<()> {
        match self.engine {
            EngineKind::Model => Ok(()),
            EngineKind::Rtl => Err(usage(format!("--engine rtl: {why}"))),
        }
    }

    /// Says on standard error how many clocks were simulated since `begun`, if any.
    pub fn print_speed(&self, begun: Instant) {
        let clocks = crosslane_cosim::clocks_run();
        if self.engine == EngineKind::Rtl && clocks > 0 {
            let seconds = begun.elapsed().as_secs_f64().max(1e-3);
            let rate = clocks as f64 / seconds / 1e6;
            print_hint(&format!(
                "gateware: {clocks} clocks in {seconds:.1} s, {rate:.2} million a second"
            ));
        }
    }
}
