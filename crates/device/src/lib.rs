// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural models of endpoints, as devices of the fabric.
//!
//! Read first: `docs/engine.md`, then [`EngineParameters`] and [`Engine`]; `docs/memory-card.md`,
//! then [`MemoryCard`]; `docs/nic.md`, then [`nic::Nic`]; `docs/network-processor.md`, then
//! [`network_processor::NetworkProcessor`].

#![forbid(unsafe_code)]

mod card_memory;
mod engine;
pub mod kit;
mod little_endian;
mod memory_card;
pub mod network_processor;
pub mod nic;
pub mod outside;
mod parameters;

pub use card_memory::{CardMemory, CardMemoryParameters, Copying, Refused};
pub use engine::{Engine, PUSH_BAR, PUSH_BYTES, WINDOW_BAR};
pub use memory_card::{FIFO_BAR, MEMORY_BAR, MemoryCard, MemoryCardParameters};
pub use parameters::{EngineParameters, UNLIMITED_COMPLETIONS};
