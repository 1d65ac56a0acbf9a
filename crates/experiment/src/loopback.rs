// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory through one card and back.

use crosslane_driver::Device;
use crosslane_host::Bus;

use crate::chain::Chain;
use crate::error::Result;
use crate::measured::Measured;
use crate::options::Options;

/// In which order the two directions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loopback {
    /// All is written to the card, then all is read back: no more than its FIFOs hold.
    InTurn,
    /// Both are posted, and the card passes on what comes in: any size.
    AtOnce,
}

/// The card writes back what it reads; the host compares. One transfer is under way at a time.
///
/// # Errors
/// More [`InTurn`](Loopback::InTurn) than the card holds (at the deadline), and what fails on the
/// way.
pub async fn loopback<B: Bus>(
    device: &Device<B>,
    order: Loopback,
    options: &Options,
) -> Result<Measured> {
    let mut card = Chain::prepare(std::slice::from_ref(device), options).await?;
    card.run(order).await?;
    card.finish().await
}
