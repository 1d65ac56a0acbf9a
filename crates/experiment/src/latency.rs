// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One-way latency between two cards, by ping-pong.

use crosslane_driver::{
    ChannelKind, ChannelOptions, DescriptorSource, Device, PeerOptions, Plan, StreamSource,
};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Latencies, Latency};

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, Measuring};
use crate::options::Options;
use crate::transfer::wait_drained;
use crate::workload::summary_of;

impl Options {
    /// A ping-pong of a thousand messages of 64 B, at most a millisecond each round. Of the options
    /// only size, number, payload, credits, seed and time matter.
    pub fn ping_pong() -> Self {
        let timeout = Picoseconds::from_ms(1);
        Self { size_bytes: 64, iterations: 1000, timeout, ..Self::default() }
    }
}

/// Measurements of a ping-pong.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTrips {
    /// Ends of the ping-pong.
    pub name: String,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Time of each round trip by the initiator's timer, from the first TLP begun until data
    /// enter its receive queue.
    pub round_trips: Vec<Picoseconds>,
    /// Path of the messages to the second card.
    pub plan: Plan,
    /// Words that came back different from those sent.
    pub data_errors: DataErrors,
}

impl RoundTrips {
    /// Returns the one-way latencies, half of each round trip, in five numbers.
    pub fn one_way(&self) -> Latencies {
        Latencies::of(self.round_trips.iter().map(|time| time.0 / 2).collect())
    }

    /// Returns the round trips as plain data.
    pub fn result(&self) -> Latency {
        Latency {
            name: self.name.clone(),
            bytes: self.message_bytes,
            round_trips: self.round_trips.len(),
            one_way: self.one_way(),
            plan: Some(summary_of(&self.plan, self.plan.expected_bytes_per_second)),
            wrong_words: self.data_errors.words,
        }
    }
}

/// Ping-pong: the first card sends a message, the second sends what it receives straight back,
/// and the first card's timer stops as it begins to come in. The data that come back are
/// compared.
///
/// # Errors
/// A message that does not fit, and a failure of the run.
pub fn latency<'a>(
    from: &'a Device,
    to: &'a Device,
    options: &'a Options,
) -> Measuring<'a, RoundTrips> {
    Box::pin(ping_pong(from, to, options))
}

async fn ping_pong(from: &Device, to: &Device, options: &Options) -> Result<RoundTrips> {
    let name = format!("{} -> {}", from.function().name, to.function().name);
    let credits = PeerOptions::default().with_credits(options.credits);
    let there = from.connect(to, credits).await?;
    let back = to.connect(from, credits).await?;
    let payload = payload_bytes(&name, from, to, there.plan(), options)?;
    let channel = ChannelOptions::default()
        .with_descriptors(DescriptorSource::CommandPort)
        .with_payload_bytes(Some(payload));
    let sending = from.channel(ChannelKind::Peer, 0, channel).await?;
    let returning = to.channel(ChannelKind::Peer, 0, channel).await?;
    from.user().route(StreamSource::Generator, StreamSource::Generator).await?;
    to.user()
        .route(StreamSource::Generator, StreamSource::ReceiveQueue(there.receive_queue()))
        .await?;
    from.user().seed(options.seed).await?;
    back.check(options.seed).await?;
    // One command covers every message that is sent back.
    let all = options.size_bytes * options.iterations;
    to.user().command(back.address(), all as u32).await?;
    let clock = from.description().clock;
    let mut round_trips = Vec::new();
    for _ in 0..options.iterations {
        let deadline = options.deadline(from.bus());
        let message = options.size_bytes as u32;
        // One round at a time, so that each has its own time.
        let made = from.user().ping_pong(there.address(), message, 1, deadline).await?;
        round_trips.push(Picoseconds(made.sum_clocks * clock.0));
    }
    let place = format!("receive queue {} of {}", back.receive_queue(), from.function().name);
    wait_drained(from.bus(), &back, &place, all, options.timeout).await?;
    let check = back.check_result().await?;
    let plan = there.plan().clone();
    sending.close().await?;
    returning.close().await?;
    there.close().await?;
    back.close().await?;
    Ok(RoundTrips {
        name,
        message_bytes: options.size_bytes,
        round_trips,
        plan,
        data_errors: check.into(),
    })
}

/// Returns the payload of every TLP: the longest that the path allows, or the message where that is
/// shorter, so that the far engine sends it back as soon as it is whole.
fn payload_bytes(
    name: &str,
    from: &Device,
    to: &Device,
    plan: &Plan,
    options: &Options,
) -> Result<u32> {
    let engines = from.description().max_write_bytes.min(to.description().max_write_bytes);
    let longest = plan.max_payload_bytes.min(engines);
    let longest = options.payload_bytes.map_or(longest, |payload| payload.min(longest));
    let (message, rounds) = (options.size_bytes, options.iterations);
    let all = message.saturating_mul(rounds);
    let longest = u64::from(longest);
    let problem = if message == 0 || !message.is_multiple_of(4) {
        format!("a message of {message} B: it has to be a multiple of 4 B, and not 0")
    } else if message < longest && !message.is_power_of_two() {
        format!(
            "a message of {message} B is shorter than the payload, {longest} B, and no power of two"
        )
    } else if message > longest && !message.is_multiple_of(longest) {
        format!("a message of {message} B is no multiple of the payload, {longest} B")
    } else if rounds == 0 {
        "at least one round trip has to be made".to_owned()
    } else if u32::try_from(all).is_err() {
        format!("{rounds} messages of {message} B are more than one command moves")
    } else {
        return Ok(longest.min(message) as u32);
    };
    Err(ExperimentError::refused(name, problem))
}
