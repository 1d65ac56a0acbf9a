// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is run through the driver.

use crosslane_driver::Device;
use crosslane_host::Bus;

use crate::chain::chain;
use crate::error::BenchError;
use crate::latency::{LatencyOptions, RoundTrips, latency};
use crate::options::Options;
use crate::together::{Flow, Observer, Together, Work, observed, together};

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
    /// Returns the options of transfers; none of a ping-pong.
    #[must_use]
    pub const fn options(&self) -> Option<&Options> {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => Some(options),
            Self::Latency(_) => None,
        }
    }

    /// Returns the same to be changed.
    pub const fn options_mut(&mut self) -> Option<&mut Options> {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options) => Some(options),
            Self::Latency(_) => None,
        }
    }

    /// Whether engines keep to the credit windows of the receive queues that they write to.
    #[must_use]
    pub const fn keeps_windows(&self) -> bool {
        match self {
            Self::Peer(options) | Self::Chain(options) => options.credits,
            Self::Latency(options) => options.credits,
            Self::Write(_) | Self::Read(_) => false,
        }
    }

    /// Returns the bytes of one transfer or message.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Write(it) | Self::Read(it) | Self::Peer(it) | Self::Chain(it) => it.size_bytes,
            Self::Latency(options) => options.message_bytes as u64,
        }
    }

    /// Returns the most transfers of a flow that are in flight at once.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.options().map_or(1, |options| options.outstanding.into())
    }

    /// Returns the bytes that one flow moves; no more than fit.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let count = match self {
            Self::Write(it) | Self::Read(it) | Self::Peer(it) | Self::Chain(it) => it.iterations,
            Self::Latency(options) => options.rounds,
        };
        self.size_bytes().saturating_mul(count)
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

impl Brought {
    /// Returns a sentence for each flow whose data arrived wrong.
    #[must_use]
    pub fn wrong_data(&self) -> Vec<String> {
        let sentence = |name: &str, words: u64| {
            (words > 0).then(|| format!("{name}: {words} words of the data that arrived are wrong"))
        };
        match self {
            Self::Flows(together) => together
                .flows
                .iter()
                .filter_map(|flow| sentence(&flow.name, flow.data_errors.words))
                .collect(),
            Self::RoundTrips(trips) => {
                sentence(&trips.name, trips.data_errors.words).into_iter().collect()
            }
        }
    }
}
