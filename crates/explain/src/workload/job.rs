// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is run through the driver.

use crosslane_bench::{LatencyOptions, Options};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    /// Card to host.
    Write(Options),
    /// Host to card.
    Read(Options),
    /// Card to card.
    Peer(Options),
    /// Host through cards to host.
    Chain(Options),
    /// Card to card and back.
    Latency(LatencyOptions),
}

impl Job {
    /// Bytes of one transfer or message.
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => options.size_bytes,
            Self::Latency(options) => options.message_bytes as u64,
        }
    }

    /// Bytes that one flow moves.
    pub const fn total_bytes(&self) -> u64 {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => options.size_bytes.saturating_mul(options.iterations),
            Self::Latency(options) => (options.message_bytes as u64).saturating_mul(options.rounds),
        }
    }
}
