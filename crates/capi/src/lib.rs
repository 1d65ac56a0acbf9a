// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library: `crosslane.h`, over crate [`crosslane`]. `docs/c.md` is the page for its users.
//!
//! Read first: [`crosslane_session_open`](session::crosslane_session_open), then [`mod@handle`] for
//! what C holds, and module `structs` for what it passes. The header is generated from this crate
//! (`make c-header`); a test compares.
//!
//! Rules that hold for every function: it returns a negative number of errno.h on failure, and
//! `crosslane_last_error` then has the sentence; no panic leaves it; no pointer is kept after the
//! call, but that of registered memory; no handle is followed as a pointer.

#![allow(unsafe_code)]

pub mod bridge;
pub mod bridge_server;
pub mod bridge_transfer;
pub mod buffer;
pub mod channel;
pub mod commands;
pub mod completions;
pub mod counters;
pub mod device;
pub mod dma;
pub mod error;
mod event;
pub mod handle;
pub mod memory_card;
pub mod network;
pub mod packets;
pub mod peer;
pub mod plan;
pub mod session;
pub mod slots;
mod structs;
pub mod why;
pub mod window;
