// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens devices by name: [`Session`] owns them, with the lab if they are simulated, and runs
//! programs on them; [`Cards`] are of several buses, or memory that stands for a card. [`AnyRdma`]
//! joins a bus to a real network.

#![forbid(unsafe_code)]

mod cards;
mod name;
mod network;
mod pool;
mod session;

pub use cards::{Cards, Opened};
pub use crosslane_driver::Device;
pub use crosslane_host::{AnyBus, AnyMemory};
pub use crosslane_vfio::{BusOptions, NumaNode, Placement, VfioMemory};
pub use name::{DeviceName, LabDevice, OpenError};
pub use network::{AnyConnection, AnyListener, AnyRdma, AnyRegion};
pub use session::{Card, CardError, Session, SessionOptions};
