// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program from outside, as a user types it.

mod commands;
mod fits;
mod gateware;
mod mmio;
mod readme;
mod reports;
mod run;
mod torture;
mod torus;
mod traffic;
mod why;
mod workload;
