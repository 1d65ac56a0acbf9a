// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-regs` from outside, in one program.

mod constants;
