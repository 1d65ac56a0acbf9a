// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads of engines through the driver, in a lab or on cards.
//!
//! Read first: [`Workload`]; [`EngineWork`], one in a lab; [`WorkloadOutcome`].

mod ends;
mod gather;
mod outcome;
mod run;

pub use ends::{End, Ends, FlowEnds};
pub(crate) use outcome::summary_of;
pub use outcome::{WorkloadFlow, WorkloadOutcome};
pub use run::EngineWork;

use crosslane_driver::{DescriptorSource, Device, Notification};
use crosslane_host::Bus;
use crosslane_results::Figure;

use crate::chain::chain;
use crate::error::Result;
use crate::latency::{RoundTrips, latency};
use crate::options::Options;
use crate::together::{Flow, Observer, Together, observed, together};

/// A workload with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Card to host.
    Write(Options),
    /// Host to card.
    Read(Options),
    /// Card to card.
    Peer(Options),
    /// Host through cards to host.
    Chain(Options),
    /// Card to card and back.
    Latency(Options),
}

impl Workload {
    /// Returns its options.
    pub const fn options(&self) -> &Options {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options)
            | Self::Latency(options) => options,
        }
    }

    /// Formats the modes of its transfers: `descriptors in a ring, polled`.
    pub fn modes(&self) -> String {
        let options = self.options();
        if let Self::Latency(_) = self {
            return "ping-pong".to_owned();
        }
        let descriptors = match options.descriptors {
            DescriptorSource::Table => "descriptors in the engine's table",
            DescriptorSource::Ring { .. } => "descriptors in a ring",
            DescriptorSource::CommandPort => "by the command port",
        };
        let notification = match options.notification {
            Notification::Poll => "polled",
            Notification::Interrupt | Notification::InterruptOnly => "with interrupts",
        };
        format!("{descriptors}, {notification}")
    }

    /// Returns the same to be changed.
    pub const fn options_mut(&mut self) -> &mut Options {
        match self {
            Self::Write(options)
            | Self::Read(options)
            | Self::Peer(options)
            | Self::Chain(options)
            | Self::Latency(options) => options,
        }
    }

    /// Whether engines keep to the credit windows of the receive queues that they write to.
    pub const fn keeps_windows(&self) -> bool {
        !matches!(self, Self::Write(_) | Self::Read(_)) && self.options().credits
    }

    /// Returns the bytes of one transfer or message.
    pub const fn size_bytes(&self) -> u64 {
        self.options().size_bytes
    }

    /// Returns the bytes that one flow moves; no more than fit.
    pub fn total_bytes(&self) -> u64 {
        self.size_bytes().saturating_mul(self.options().iterations)
    }

    /// Runs it on opened cards: those of each flow, in the order of the data's path. Ping-pongs and
    /// chains are of the first flow.
    ///
    /// # Errors
    /// Options that exclude each other, and a failure on the way.
    ///
    /// # Panics
    /// If a flow has fewer cards than the workload takes.
    pub async fn run<B: Bus>(
        &self,
        cards: &[Vec<Device<B>>],
        observer: &impl Observer,
    ) -> Result<Measurement> {
        match *self {
            Self::Latency(options) => {
                let round_trips = latency(&cards[0][0], &cards[0][1], &options).await?;
                Ok(Measurement::RoundTrips(round_trips))
            }
            Self::Chain(options) => {
                let bus = cards[0][0].bus().clone();
                let measured = observed(bus, observer, chain(&cards[0], &options)).await?;
                Ok(Measurement::Flows(Together { flows: vec![measured], common: None }))
            }
            Self::Write(_) | Self::Read(_) | Self::Peer(_) => {
                let flow = |(core, devices): (u16, &Vec<Device<B>>)| Flow {
                    workload: *self,
                    devices: devices.clone(),
                    core,
                };
                let flows: Vec<Flow<B>> = (0..).zip(cards).map(flow).collect();
                Ok(Measurement::Flows(together(&flows, observer).await?))
            }
        }
    }
}

/// Measurement of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurement {
    /// Of flows of data.
    Flows(Together),
    /// Of a ping-pong.
    RoundTrips(RoundTrips),
}

impl Measurement {
    /// Returns its figure: the rate of all flows together, or the typical latency one way.
    pub fn figure(&self) -> Figure {
        match self {
            Self::Flows(together) => outcome::rate_of(together.flows.iter()),
            Self::RoundTrips(trips) => outcome::one_way_of(trips),
        }
    }

    /// Returns a sentence for each flow whose data arrived wrong.
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
