// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host side of the DMA engine, over the traits of `crosslane-host`: the same code drives a
//! board through VFIO and a model in simulated time.
//!
//! Read first: [`Device`], [`Channel`], [`Transfer`]; `docs/engine.md` says what the engine does.
//!
//! Create once, post many: open a device, register buffers, open channels; then post batches of
//! transfers (one doorbell each) and wait for them, or poll.

#![forbid(unsafe_code)]

mod buffer;
mod channel;
mod claims;

mod connection;
mod device;
mod error;
mod peer;
mod plan;
mod ports;
mod shared;
mod user;

pub use buffer::Buffer;
pub use channel::{
    Channel, ChannelCounters, ChannelKind, ChannelOptions, Completed, CompletionLevel,
    DescriptorSource, Notification, Statistics, Target, Ticket, Transfer,
};
pub use device::{Description, Device};
pub use error::{DriverError, TransferError, TransferFault};
pub use peer::{LaneCounters, LanePolicy, Peer, PeerOptions};
pub use plan::{Place, Plan, PlanError, Refusal, set_max_payload_on_path};
pub use user::{Check, PingPong, StreamSource, User};
