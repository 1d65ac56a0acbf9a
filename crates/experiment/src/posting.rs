// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeping a channel full: transfers are posted as others complete.

use std::collections::VecDeque;

use crosslane_driver::{Channel, Completed, Ticket, Transfer};
use crosslane_host::{Bus, HostWork};
use crosslane_pcie::units::Picoseconds;

use crate::error::Result;
use crate::options::Options;

/// A run as the application has seen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timing {
    /// It began.
    pub(crate) started: Picoseconds,
    /// It had the last completion.
    pub(crate) ended: Picoseconds,
    /// The first post began.
    pub(crate) first_post: Option<Picoseconds>,
    /// Time of each transfer, in order.
    pub(crate) latencies: Vec<Picoseconds>,
}

/// Source of the transfers of a run.
pub(crate) trait Source<B: Bus> {
    /// The bus of the core that posts.
    fn bus(&self) -> &B;

    /// How the run is made.
    fn options(&self) -> &Options;

    /// Transfer number `index`, ready to be posted.
    fn transfer(&mut self, index: u64) -> Result<Transfer<B>>;

    /// That transfer is complete.
    fn completed(&mut self, _index: u64) -> Result<()> {
        Ok(())
    }

    /// Returns the time of a transfer that the application began to post at `begun`.
    fn time(&self, begun: Picoseconds, completed: &Completed) -> Picoseconds {
        completed.completed.since(begun)
    }
}

/// A transfer on its way.
struct Posted {
    ticket: Ticket,
    index: u64,
    begun: Picoseconds,
}

/// Posts all transfers of a source and waits for them, with as many on their way as the options
/// say. What completes together is posted anew together, with one doorbell.
pub(crate) async fn run_posted<B: Bus, S: Source<B>>(
    channel: &mut Channel<B>,
    source: &mut S,
) -> Result<Timing> {
    let bus = source.bus().clone();
    let mut timing = Timing { started: bus.now(), ..Timing::default() };
    let iterations = source.options().iterations;
    let mut posted = VecDeque::new();
    let mut next = 0;
    while next < iterations || !posted.is_empty() {
        let room = u64::from(source.options().outstanding) - posted.len() as u64;
        let batch = room.min(iterations - next);
        if batch > 0 {
            post(channel, source, next..next + batch, &mut posted, &mut timing).await?;
            next += batch;
        }
        let Some(oldest) = posted.pop_front() else { break };
        let completed = channel.wait(oldest.ticket).await?;
        end(source, &oldest, completed, &mut timing)?;
        while let Some(front) = posted.front() {
            let Some(completed) = channel.poll(front.ticket).await? else { break };
            end(source, front, completed, &mut timing)?;
            posted.pop_front();
        }
    }
    timing.ended = bus.now();
    Ok(timing)
}

async fn post<B: Bus, S: Source<B>>(
    channel: &mut Channel<B>,
    source: &mut S,
    indices: std::ops::Range<u64>,
    posted: &mut VecDeque<Posted>,
    timing: &mut Timing,
) -> Result<()> {
    let bus = source.bus().clone();
    let begun = bus.now();
    if source.options().system_call {
        for _ in indices.clone() {
            bus.work(HostWork::SystemCall).await;
        }
    }
    let transfers: Vec<Transfer<B>> =
        indices.clone().map(|index| source.transfer(index)).collect::<Result<_, _>>()?;
    timing.first_post.get_or_insert(bus.now());
    let tickets = channel.post(&transfers).await?;
    posted.extend(tickets.into_iter().zip(indices).map(|(ticket, index)| Posted {
        ticket,
        index,
        begun,
    }));
    Ok(())
}

fn end<B: Bus, S: Source<B>>(
    source: &mut S,
    posted: &Posted,
    completed: Completed,
    timing: &mut Timing,
) -> Result<()> {
    timing.latencies.push(source.time(posted.begun, &completed));
    source.completed(posted.index)
}
