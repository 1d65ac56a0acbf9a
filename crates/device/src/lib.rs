// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Behavioural models of endpoints, as devices of the fabric.
//!
//! Read first: `docs/engine.md`, then [`EngineParameters`].

#![forbid(unsafe_code)]

mod parameters;

pub use parameters::EngineParameters;
