// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-serve` from outside, in one program.

mod endings;
mod fuzz_server;
mod hostile;
mod memory;
mod messages;
mod other_clients;
mod raw;
mod reference;
mod served;
mod support;
