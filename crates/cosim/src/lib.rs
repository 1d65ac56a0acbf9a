// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Co-simulation: the gateware of `gateware/rtl`, verilated, as a device of the fabric.
//!
//! A [`Card`] replaces the behavioural engine and does the same, clock by clock. It is clocked only
//! while it has work. Arrivals are sampled at the next edge of its clock, and departures follow at
//! least one clock later; engine time is simulated time divided by the clock.
//!
//! A [`NetworkCard`] does so for the network processor. Cables between the cards of a lab are words
//! of line bits, which lanes in the gateware code, align and deskew.
//!
//! The feature `rtl` builds the models, one for each parameter set of the labs
//! ([`CONFIGURATIONS`]). Without it, [`Card::new`] returns an error.
//!
//! Read first: `pins.rs` for the inputs and outputs of a clock, `card.rs` for their timing.

mod cable;
mod card;
mod configurations;
mod error;
mod memory;
mod model;
mod network;
mod pins;
mod tlps;
#[cfg(feature = "rtl")]
mod verilated;

pub use card::{Card, ClockCounts, clocks_run};
pub use configurations::{
    CONFIGURATIONS, CardParameters, Configuration, MOST_NODES, NETWORK_CONFIGURATIONS,
    NetworkCardParameters, NetworkConfiguration, STAND_IN,
};
pub use error::CosimError;
pub use memory::CardMemory;
pub use model::{Model, is_built};
pub use network::{JoinedCards, NetworkCard};
pub use pins::{
    AxiInputs, AxiOutputs, Inputs, LINE_WORDS, MAX_LINKS, MemoryInputs, MemoryOutputs,
    NetworkInputs, NetworkOutputs, Outputs,
};
