// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Software-bridged transfers: data move between a remote node's memory and an FPGA's through a
//! ring of host buffers accessible to both the network and the FPGA.
//!
//! Read first: [`Server`] and [`Client`]; [`files::FileClient`] moves files and resumes, and
//! [`local::LocalDma`] moves data within the node of the card. `docs/bridge.md` describes the
//! course of a transfer and its limits.
//!
//! The same code runs in the lab, where network adapters are PCI Express devices of the same
//! fabric as the FPGA, and on real networks: it is written over the traits
//! [`Bus`](crosslane_host::Bus), [`Rdma`](crosslane_host::Rdma) and
//! [`Clock`](crosslane_host::Clock).

#![forbid(unsafe_code)]

mod address;
mod card;
mod card_channel;
mod chunks;
mod client;
mod control;
mod deadline;
mod error;
pub mod files;
mod key;
pub mod local;
pub mod messages;
mod pipeline;
mod policy;
mod reload;
mod report;
mod served;
mod server;
mod slots;
mod stage;

pub use address::{CardAddress, CardName};
pub use card::CardWorking;
pub use chunks::{Chunking, Chunks};
pub use client::{CardPlace, Client, Identity, MemoryPart, Outcome, TransferOptions};
pub use error::BridgeError;
pub use key::Key;
pub use policy::{Access, Guard, Policy, is_loopback};
pub use reload::{ImageFile, Reloaded, Reloader, Renewed};
pub use report::{Mode, NaiveStep, Path, Report, Step, stages_of};
pub use served::Served;
pub use server::{CardChanges, Server, ServerEvent, ServerOptions};
pub use stage::{Stage, StageStatistics};
