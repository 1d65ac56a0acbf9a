// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `crosslane-torus`, in one program.

mod communication;
mod strided;

#[path = "../../../driver/tests/integration/network_processor/small_torus.rs"]
mod small_torus;
