// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes from one card to another.

use crosslane_driver::Device;
use crosslane_host::Bus;

use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::Options;

/// Card to card: the generator of one engine writes into a lane of the other, whose checker
/// compares. By the command port a transfer ends when the engine has sent it; by the ring when
/// the peer has taken it if `credits` are kept, else when it is sent. The workload ends when all
/// has arrived.
///
/// # Errors
/// What cannot be asked for, and what fails on the way.
pub async fn peer_write<B: Bus>(
    from: &Device<B>,
    to: &Device<B>,
    options: &Options,
) -> Result<Measured, BenchError> {
    let _ = (from, to, options);
    unimplemented!()
}
