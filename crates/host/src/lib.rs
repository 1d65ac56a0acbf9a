// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces that host code is written against. Driver, workloads and communication libraries
//! are written once, as `async` code over these traits, and run in simulated time and on real
//! hardware. This crate has no implementations.
//!
//! Read first: [`Bus`], then [`Topology`]; [`Rdma`] for other nodes.
//!
//! No async runtime is needed: every wait is a future of the bus, polled by the bus's creator.
//! Futures are `Send` where the bus is.

#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::Pin;

mod any;
mod bus;
mod clock;
mod error;
mod forward;
mod hex;
mod layer;
mod lock;
mod private;
mod rdma;
mod routines;
mod setters;
mod topology;

pub use any::{AnyBus, AnyMemory};
pub use bus::{
    Bus, DmaMemory, HostWork, Mapping, PageSize, RegisterAddress, Segment, Stores, Waiting,
};
pub use clock::Clock;
pub use crosslane_pcie::kind::{ErrorKind, Reason};
pub use crosslane_pcie::kinds;
pub use error::{BusError, BusResult, TopologyError};
pub use hex::hex;
pub use layer::Layer;
pub use lock::lock;
pub use private::check_private;
pub use rdma::{
    FarEnd, MAX_RDMA_MESSAGE_BYTES, NearEnd, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, RdmaResult, RemoteAccess, RemoteMemory,
};
pub use routines::Routines;
pub use topology::{FunctionInfo, IoTranslation, Topology};

/// A call to wait for, behind a pointer: long and rare ones are compiled once so, not anew in each
/// crate that waits for them.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
