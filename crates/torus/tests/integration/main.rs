// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integration tests of `crosslane-torus`, in one program.

mod communication;
