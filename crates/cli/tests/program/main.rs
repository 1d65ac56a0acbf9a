// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program from outside, as a user types it.

mod commands;
mod device;
mod fits;
mod gateware;
#[path = "../../../vfio/tests/sysfs/machine.rs"]
#[allow(dead_code, reason = "another crate's tests need more of it")]
mod machine;
mod mmio;
mod readme;
mod reports;
mod run;
mod served;
mod torture;
mod torus;
mod traffic;
mod why;
mod workload;
