// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of small DMA operations, with as many in flight as a ring takes well.

use std::collections::VecDeque;

use crosslane_driver::{
    Channel, ChannelKind, ChannelOptions, DescriptorSource, Device, StreamSource, Target, Ticket,
    Transfer,
};
use crosslane_host::{Bus, PageSize};
use crosslane_pcie::tlp::TlpKind;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::OperationRate;

use crate::error::{ExperimentError, Result};
use crate::measured::DataErrors;
use crate::operations::{CardLink, OperationOptions, Seen};
use crate::pattern::{WORD_BYTES, compare, fill};

/// Operations of a post, and posts in flight: a ring of 1024 is half full while a post is made.
const BATCH: u64 = 128;
const BATCHES: u64 = 6;
/// Most posts of a measurement, so that the first and the last weigh little, and the bytes beyond
/// which there are fewer.
const POSTS: u64 = 24;
const MOST_BYTES: u64 = 1 << 20;
/// Operations for each status block.
const REPORT_EVERY: u32 = 64;

/// Measures DMA writes and reads of each size with many in flight, by a ring, reported in groups.
/// All data are compared. `link` shows how much of the link they take, in a lab.
///
/// # Errors
/// Impossible options, a failure of the run, and [`ExperimentError::Refused`] where data are not
/// what was sent.
pub async fn operation_rates(
    device: &Device,
    link: Option<&CardLink<'_>>,
    options: &OperationOptions,
) -> Result<Vec<OperationRate>> {
    options.check()?;
    device.user().route(StreamSource::Generator, StreamSource::Generator).await?;
    let mut rates = Vec::new();
    for kind in [ChannelKind::C2h, ChannelKind::H2c] {
        for &bytes in &options.sizes {
            rates.push(rate(device, link, options, kind, bytes).await?);
        }
    }
    Ok(rates)
}

async fn rate(
    device: &Device,
    link: Option<&CardLink<'_>>,
    options: &OperationOptions,
    kind: ChannelKind,
    bytes: u64,
) -> Result<OperationRate> {
    let ring = DescriptorSource::Ring { entries: 1024 };
    let channel_options = ChannelOptions::default()
        .with_descriptors(ring)
        .with_report_every(REPORT_EVERY)
        .with_push(false);
    let mut channel = device.channel(kind, 0, channel_options).await?;
    let (seed, is_read) = (options.seed, kind == ChannelKind::H2c);
    match is_read {
        true => device.user().check_h2c(seed).await?,
        false => device.user().seed(seed).await?,
    }
    let batch_bytes = BATCH * bytes;
    let posts = (MOST_BYTES / batch_bytes).clamp(BATCHES, POSTS);
    let buffer = device.buffer(BATCHES * batch_bytes, PageSize::Huge).await?;
    device.reset_counters().await?;
    link.into_iter().for_each(CardLink::forget);
    let bus = device.bus();
    let mut errors = DataErrors::default();
    let mut posted: VecDeque<(u64, Vec<Ticket>)> = VecDeque::new();
    for post in 0..posts + BATCHES {
        if post >= BATCHES
            && let Some((number, tickets)) = posted.pop_front()
        {
            wait(&mut channel, tickets).await?;
            if !is_read {
                let (at, first) = place(number, batch_bytes);
                compare(&buffer, at, batch_bytes, seed, first, &mut errors)?;
            }
        }
        if post < posts {
            let (at, first) = place(post, batch_bytes);
            if is_read {
                fill(&buffer, at, batch_bytes, seed, first)?;
            }
            let deadline = Picoseconds(Bus::now(bus).0.saturating_add(options.timeout.0));
            let part = |n: u64| at + n * bytes..at + (n + 1) * bytes;
            let transfer = |n| Transfer::new(Target::Buffer(buffer.clone(), part(n)), deadline);
            let transfers: Vec<_> = (0..BATCH).map(transfer).collect();
            posted.push_back((post, channel.post(&transfers).await?));
        }
    }
    let link_share = link.and_then(|link| link.share(is_read));
    let counters = channel.counters().await?;
    if is_read {
        // Data that still wait in the engine are compared before the restart ends.
        channel.restart().await?;
        errors.words = device.user().h2c_check_result().await?.errors.into();
    }
    channel.close().await?;
    buffer.unregister().await?;
    let what = if is_read { "DMA reads" } else { "DMA writes" }.to_owned();
    if errors.words > 0 {
        let (card, words) = (device.function().name.clone(), errors.words);
        let problem = format!(
            "{what}, {bytes} B, many in flight: {words} words of 4 B are not what was sent"
        );
        return Err(ExperimentError::refused(card, problem));
    }
    let clocks = counters.last_clocks - counters.first_clocks;
    let ps = clocks * device.description().clock.0;
    Ok(OperationRate { what, bytes, operations: posts * BATCH, ps, link_share })
}

/// Returns the place of a post's data in the buffer, and the first word of the pattern there.
const fn place(post: u64, batch_bytes: u64) -> (u64, u64) {
    (post % BATCHES * batch_bytes, post * batch_bytes / WORD_BYTES)
}

async fn wait(channel: &mut Channel, tickets: Vec<Ticket>) -> Result<()> {
    for ticket in tickets {
        channel.wait(ticket).await?;
    }
    Ok(())
}

impl CardLink<'_> {
    /// Returns the share of the time in which TLPs were on the link, from the first TLP of data to
    /// the last, in their direction; `None` if there was none.
    fn share(&self, is_read: bool) -> Option<f64> {
        let kind = if is_read { TlpKind::CompletionData } else { TlpKind::MemoryWrite };
        let seen = self.seen();
        let of_data = || seen.iter().filter(|tlp| tlp.is_down == is_read && tlp.kind == kind);
        let begin = of_data().map(|tlp| tlp.begin).min()?;
        let end = of_data().map(|tlp| tlp.end).max()?;
        let is_among = |tlp: &&Seen| tlp.is_down == is_read && tlp.begin >= begin && tlp.end <= end;
        let busy: u64 = seen.iter().filter(is_among).map(|tlp| tlp.end.since(tlp.begin).0).sum();
        Some(busy as f64 / end.since(begin).0.max(1) as f64)
    }
}
