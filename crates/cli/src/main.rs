// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `crosslane` program.

fn main() {}
