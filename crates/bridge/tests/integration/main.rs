// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-bridge` from outside, in one program.

mod adapters;
mod changes;
mod copies;
mod files;
mod fuzz_client;
mod fuzz_control;
mod hostile;
mod kills;
mod local;
mod memory;
mod reload;
mod server;
mod support;
mod within;
