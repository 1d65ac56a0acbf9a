// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory through a row of cards and back to host memory.

use crosslane_driver::Device;
use crosslane_host::Bus;

use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::Options;

/// The first card reads host memory and writes to the second, that to the third, and the last
/// writes to host memory, where what has come is compared. A transfer's time is from its post to
/// its completion in host memory. One transfer is under way at a time.
///
/// # Errors
/// No card, a card twice, and what fails on the way.
pub async fn chain<B: Bus>(
    devices: &[Device<B>],
    options: &Options,
) -> Result<Measured, BenchError> {
    let _ = (devices, options);
    unimplemented!()
}
