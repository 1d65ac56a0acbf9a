// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is run through the driver.

use crosslane_bench::{
    BenchError, Flow, LatencyOptions, Observer, Options, RoundTrips, Together, Work, chain,
    latency, observed, together,
};
use crosslane_driver::Device;
use crosslane_host::Bus;

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

    /// Transfers of a flow that are on their way at once, at the most.
    pub const fn in_flight(&self) -> u64 {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => options.outstanding as u64,
            Self::Latency(_) => 1,
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

    /// Runs it with opened cards: those of each flow, in the order of the data's way. A latency and
    /// a chain are of the first flow.
    ///
    /// # Errors
    /// What cannot be asked for, and what fails on the way.
    ///
    /// # Panics
    /// Where a flow has fewer cards than the job takes.
    pub async fn run<B: Bus>(
        &self,
        cards: &[Vec<Device<B>>],
        observer: &impl Observer,
    ) -> Result<Brought, BenchError> {
        match *self {
            Self::Latency(options) => {
                Ok(Brought::RoundTrips(latency(&cards[0][0], &cards[0][1], &options).await?))
            }
            Self::Chain(options) => {
                let bus = cards[0][0].bus().clone();
                let measured = observed(bus, observer, chain(&cards[0], &options)).await?;
                Ok(Brought::Flows(Together { flows: vec![measured], common: None }))
            }
            Self::Write(options) | Self::Read(options) | Self::Peer(options) => {
                let flows: Vec<Flow<B>> = (0..)
                    .zip(cards)
                    .map(|(core, devices)| Flow { work: self.work(devices), core, options })
                    .collect();
                Ok(Brought::Flows(together(&flows, observer).await?))
            }
        }
    }

    fn work<B: Bus>(&self, devices: &[Device<B>]) -> Work<B> {
        let first = devices[0].clone();
        match self {
            Self::Write(_) => Work::Write(first),
            Self::Read(_) => Work::Read(first),
            _ => Work::Peer { from: first, to: devices[1].clone() },
        }
    }
}

/// What a job has measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Brought {
    /// Of flows.
    Flows(Together),
    /// Of a latency.
    RoundTrips(RoundTrips),
}
