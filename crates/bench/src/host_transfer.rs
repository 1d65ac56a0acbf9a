// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between one card and host memory.

use crosslane_driver::Device;
use crosslane_host::Bus;

use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::Options;

/// Card to host: the generator's pattern is written to host memory, where every byte is compared.
///
/// # Errors
/// What cannot be asked for, and what fails on the way.
pub async fn write<B: Bus>(device: &Device<B>, options: &Options) -> Result<Measured, BenchError> {
    let _ = (device, options);
    unimplemented!()
}

/// Host to card: the pattern is read from host memory, and compared by the card's checker.
///
/// # Errors
/// As [`write`].
pub async fn read<B: Bus>(device: &Device<B>, options: &Options) -> Result<Measured, BenchError> {
    let _ = (device, options);
    unimplemented!()
}
