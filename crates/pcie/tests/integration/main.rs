// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-pcie` from outside, in one program.

mod corpus;
mod fuzz_configuration;
mod fuzz_layout;
