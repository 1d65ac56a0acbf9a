// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-experiment` from outside, in one program.

mod acceptance;
mod card_transfer;
mod fuzz_fit;
mod mmio;
mod nget;
mod operations;
mod overhead;
#[cfg(not(target_family = "wasm"))] // threads
mod parts;
#[cfg(not(target_family = "wasm"))] // threads
mod processes;
mod rdma;
mod rosta;
mod traffic;
