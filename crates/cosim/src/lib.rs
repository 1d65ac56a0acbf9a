// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Co-simulation: the gateware of `gateware/rtl`, verilated, as a device of the fabric.
//!
//! A [`Card`] stands where the behavioural engine stands and does the same, clock by clock. It is
//! clocked only while it has work. What arrives is sampled at the next edge of its clock, and what
//! leaves leaves at least one clock later; engine time is simulated time divided by the clock.
//!
//! The models are built with the feature `rtl` ([`CONFIGURATIONS`]: one for each set of parameters
//! that the labs have). Without it there is no model, and [`Card::new`] says so.
//!
//! Read first: `pins.rs` for what goes in and out in a clock, `card.rs` for when.

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
