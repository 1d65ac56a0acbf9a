// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `crosslane-cosim`, in one program.

#[cfg(feature = "stand-in")]
#[path = "../../../fabric/tests/integration/support/mod.rs"]
mod fabric_support;
mod stand_in;
