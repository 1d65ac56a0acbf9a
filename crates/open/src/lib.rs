// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens devices by name, and joins a lab's card to a real network.
//!
//! Read first: [`DeviceName`], then [`StagedRdma`].

#![forbid(unsafe_code)]

mod cards;
mod device;
mod pool;
mod staged;

pub use cards::{
    CardError, CardProgram, OpenCards, OpenOptions, open_cards, run_free_on_cards, run_on_cards,
};
pub use device::{DeviceName, LabCard, LabDevice, OpenError, OpenLab};
pub use staged::{StagedConnection, StagedListener, StagedRdma, StagedRegion};
