// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-open` from outside, in one program.

mod bridge;
mod device;
mod direct;
mod memory;
mod staged;
mod support;
mod trouble;
