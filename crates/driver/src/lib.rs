// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host side of the DMA engine, over the traits of `crosslane-host`: the same code drives a
//! board through VFIO and a model in simulated time.
//!
//! Read first: [`Device`], [`Channel`], [`Transfer`]; `docs/engine.md` says what the engine does.
//! The network processor, another device, is in [`network_processor`].
//!
//! Create once, post many: open a device, register buffers, open channels; then post batches of
//! transfers (one doorbell each) and wait for them, or poll.
//!
//! ```
//! use std::time::Duration;
//!
//! use crosslane_driver::*;
//! use crosslane_host::PageSize;
//! use crosslane_lab::{Simulation, open};
//! use crosslane_pcie::units::HostId;
//!
//! let simulation = Simulation::new(open("rosta")?.build_engines(1)?);
//! let bus = simulation.bus(HostId(0));
//! let moved = simulation.run("example", async {
//!     let device = Device::open_by_name(bus, "fpga1").await?;
//!     // The user circuit generates words; channel C2H 0 writes them to host memory.
//!     device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
//!     device.user().seed(7).await?;
//!     let buffer = device.buffer(65_536, PageSize::Small).await?;
//!     let mut channel = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await?;
//!     let deadline = device.deadline(Duration::from_millis(1));
//!     let completed = channel.transfer(Transfer::of(&buffer, deadline)).await?;
//!     assert_eq!(buffer.to_vec::<u32>(400..404)?, [pattern_word(7, 100)]);
//!     channel.close().await?;
//!     Ok::<_, Box<dyn std::error::Error>>(completed.bytes)
//! })??;
//! assert_eq!(moved, 65_536);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rules that hold everywhere:
//!
//! * An impossible request is refused before anything is written, with an error that names the
//!   device, channel or buffer.
//! * A failed transfer reports how much was moved. Its channel stops, or is restarted if the host
//!   gave up; no other channel is affected, and no reset is needed.
//! * A part of a buffer belongs to the device until its transfer has ended. Futures and channels
//!   may be dropped at any time: memory that the device may still write is kept.
//! * No payload is longer than every port of the path is set to take, unless
//!   [`ChannelOptions::oversize`] asks for the error.

#![forbid(unsafe_code)]

mod access;
mod buffer;
mod channel;
mod claims;
mod connection;
mod device;
mod error;
mod memory_card;
pub mod network_processor;
mod peer_memory;
mod plan;
mod ports;
mod shared;
mod slots;
mod user;
mod window;

pub use buffer::Buffer;
pub use channel::{
    Channel, ChannelCounters, ChannelKind, ChannelOptions, Completed, CompletionLevel,
    DescriptorSource, INLINE_BYTES, Notification, Packet, PacketPart, ReceivedPacket, Statistics,
    Target, Ticket, Transfer,
};
pub use connection::{Peer, PeerOptions, ReceiveQueueCounters, ReceiveQueuePolicy};
pub use device::{CARD_MEMORY_BAR, Description, Device};
pub use error::{DriverError, PortErrors, TransferError, TransferFault};
pub use memory_card::{CardMetrics, FIFO_BAR, MEMORY_BAR, MemoryCard};
pub use peer_memory::PeerMemory;
pub use plan::{Addressing, PathEnd, Plan, PlanError, Refusal, set_max_payload_on_path};
pub use slots::{MAX_MESSAGE_BYTES, SLOT_BYTES, SlotReceiver, SlotSender};
pub use user::{Check, PingPong, StreamSource, User, fill_pattern, is_pattern, pattern_word};
pub use window::{Contents, LINE_BYTES, Window, WindowOptions};
