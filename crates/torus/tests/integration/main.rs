// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-torus` from outside, in one program.

mod communication;
