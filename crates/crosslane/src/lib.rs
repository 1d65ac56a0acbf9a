// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves data between host memory, FPGA memory, other FPGAs and remote nodes over PCI Express and
//! RDMA. The same program runs on a board, on a card that a program serves, and in a lab that is
//! simulated to the byte.
//!
//! A [`Session`](open::Session) opens cards by name and runs programs on them:
//!
//! ```
//! use crosslane::prelude::*;
//!
//! // On a board: "vfio:03:00.0".
//! let session = Session::open("lab:rosta:crosslane/fpga1")?;
//! let moved = session.block_on(async {
//!     let device = session.device(0).await?;
//!     // The user circuit generates words; channel C2H 0 writes them to host memory.
//!     device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
//!     let buffer = device.buffer(65_536, PageSize::Small).await?;
//!     let mut channel = device.channel(ChannelKind::C2h, 0, ChannelOptions::default()).await?;
//!     let deadline = device.deadline(Duration::from_millis(1));
//!     let completed = channel.transfer(Transfer::of(&buffer, deadline)).await?;
//!     channel.close().await?;
//!     Ok::<_, Box<dyn std::error::Error>>(completed.bytes)
//! })??;
//! assert_eq!(moved, 65_536);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | read |
//! |---|---|
//! | open cards by name, of a lab, this machine or a server | [`open`] |
//! | move data with the DMA engine | [`driver`] |
//! | do that without `async` | [`blocking`] |
//! | join a card to remote nodes | [`bridge`] |
//! | send messages in a torus of FPGAs | [`torus`] |
//! | load and change labs | [`lab`] |
//! | list and check labs | [`labs`] |
//! | model a device | [`fabric::Device`] |
//! | measure | [`experiment`] |
//! | make the benchmarks of the command line in a lab | [`mod@bench`] |
//! | learn what limits a run | [`explain`] |
//! | read and write outcomes | [`results`] |
//! | record what every link did | [`trace`] |
//! | change a lab, and find better settings | [`mod@what_if`], [`mod@tune`] |
//! | edit the text of a lab file by its tree | [`mod@edit`] |
//! | examine a machine and its cards | [`machine`] |
//! | make a lab of another machine | [`mod@import`] |
//!
//! Terms: a *channel* moves data between a card and host memory (H2C, C2H) or another card (peer).
//! A *ring* is host memory with descriptors that a channel fetches; a *doorbell* tells it of new
//! ones. A *completion level* says what has happened when a transfer counts as complete.
//!
//! On WebAssembly there are neither cards nor networks nor files: labs, runs and what is made of
//! them are all there is.

#![forbid(unsafe_code)]

pub mod bench;
#[cfg(not(target_family = "wasm"))]
pub mod blocking;
pub mod edit;
pub mod import;
pub mod labs;
#[cfg(not(target_family = "wasm"))]
pub mod machine;
mod matrix;
pub mod trace;
pub mod tune;
pub mod what_if;

pub use crosslane_bridge as bridge;
pub use crosslane_driver as driver;
pub use crosslane_experiment as experiment;
pub use crosslane_explain as explain;
pub use crosslane_fabric as fabric;
pub use crosslane_host as host;
pub use crosslane_lab as lab;
pub use crosslane_lab::device;
#[cfg(not(target_family = "wasm"))]
pub use crosslane_network as network;
#[cfg(not(target_family = "wasm"))]
pub use crosslane_open as open;
pub use crosslane_pcie as pcie;
pub use crosslane_results as results;
pub use crosslane_torus as torus;
pub use matrix::matrix;

/// The names that most programs need.
#[cfg(not(target_family = "wasm"))]
pub mod prelude {
    pub use std::time::Duration;

    pub use crosslane_driver::{
        Buffer, Channel, ChannelKind, ChannelOptions, CompletionLevel, Device, PeerOptions,
        StreamSource, Target, Transfer, Window, WindowOptions,
    };
    pub use crosslane_host::{Bus, DmaMemory, ErrorKind, PageSize, Topology};
    pub use crosslane_open::{AnyBus, Session, SessionOptions};
    pub use crosslane_pcie::units::Picoseconds;
}
