// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural models of endpoints, as devices of the fabric.
//!
//! Read first: `docs/engine.md`, then [`EngineParameters`] and [`Engine`].

#![forbid(unsafe_code)]

mod engine;
mod parameters;

pub use engine::{ChannelKind, ChannelWaits, Engine};
pub use parameters::{EngineParameters, ParameterError};
