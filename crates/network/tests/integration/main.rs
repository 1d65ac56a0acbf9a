// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-network` from outside, in one program.

mod certificates;
mod fuzz_frames;
mod hostile;
mod network;
mod strangers;
mod support;
mod tls;
