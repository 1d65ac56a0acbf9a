// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Co-simulation: the gateware of `gateware/rtl`, verilated, as a device of the fabric.
//!
//! A [`Card`] replaces the behavioural engine and does the same, clock by clock. It is clocked only
//! while it has work. Arrivals are sampled at the next edge of its clock, and departures follow at
//! least one clock later; engine time is simulated time divided by the clock.
//!
//! The feature `rtl` builds the models, one for each parameter set of the labs
//! ([`CONFIGURATIONS`]). Without it, [`Card::new`] returns an error.
//!
//! Read first: `pins.rs` for the inputs and outputs of a clock, `card.rs` for their timing.

mod card;
mod configurations;
mod error;
mod model;
mod pins;
#[cfg(feature = "rtl")]
mod verilated;

pub use card::{Card, ClockCounts, clocks_run};
pub use configurations::{CONFIGURATIONS, CardParameters, Configuration, STAND_IN};
pub use error::CosimError;
pub use model::{Model, is_built};
pub use pins::{Inputs, Outputs};
