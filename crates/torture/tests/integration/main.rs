// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-torture` from outside, in one program.

mod flaps;
mod mutations;
mod seeds;
mod tori;
