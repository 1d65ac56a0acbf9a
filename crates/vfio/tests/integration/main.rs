// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-vfio` from outside, in one program.

mod bus;
#[path = "../../../driver/tests/integration/fails.rs"]
mod fails;
mod fake;
mod fuzz_configuration;
mod fuzz_user;
mod played_server;
mod sysfs;
mod user_client;
mod waits;
