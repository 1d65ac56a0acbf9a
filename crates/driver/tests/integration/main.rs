// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-driver` from outside, in one program.

mod fails;
mod lab;
mod network_processor;
mod same_tlps;
mod windows;
