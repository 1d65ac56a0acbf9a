// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The workloads in the lab of eight FPGAs, with this project's own engine.

mod peer_reads;
mod rates;
mod refusals;
mod scene;
mod sharing;
mod ways;
