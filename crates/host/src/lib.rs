// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What host code stands on. Driver, workloads and communication libraries are written once, as
//! `async` code over these traits; they run in simulated time and on real hardware. Nothing is
//! implemented here.
//!
//! Read first: [`Bus`], then [`Topology`]; [`Rdma`] for other nodes.
//!
//! No async runtime is needed: every wait is a future of the bus, and whoever made the bus polls
//! it. Futures are `Send` where the bus is.

#![forbid(unsafe_code)]

mod bus;
mod clock;
mod error;
mod rdma;
mod routines;
mod topology;

pub use bus::{
    Bus, DmaMemory, HostWork, Mapping, PageSize, RegisterAddress, Segment, Stores, Waiting,
};
pub use clock::Clock;
pub use error::{BusError, TopologyError};
pub use rdma::{
    FarEnd, MAX_RDMA_MESSAGE_BYTES, NearEnd, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, RemoteAccess, RemoteMemory,
};
pub use routines::Routines;
pub use topology::{FunctionInfo, IoTranslation, Topology};
