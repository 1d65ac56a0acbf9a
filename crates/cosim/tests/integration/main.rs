// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-cosim` from outside, in one program.

#[cfg(feature = "stand-in")]
#[path = "../../../fabric/tests/integration/support/mod.rs"]
mod fabric_support;
mod stand_in;
