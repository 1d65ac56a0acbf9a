// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens devices by name, and joins cards to a real network.
//!
//! Read first: [`DeviceName`], then [`CardBus`].

#![forbid(unsafe_code)]

mod cards;
mod device;
mod direct;
mod network;
mod pool;
mod staged;

pub use cards::{
    CardError, CardProgram, OpenCards, OpenOptions, open_cards, run_free_on_card, run_on_cards,
};
pub use device::{DeviceName, LabCard, LabDevice, OpenError, OpenLab};
pub use direct::{DirectConnection, DirectListener, DirectRdma, DirectRegion};
pub use network::CardBus;
pub use staged::{StagedConnection, StagedListener, StagedRdma, StagedRegion};
