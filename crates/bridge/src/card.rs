// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card and its clients, which take turns, job by job. Several jobs are posted at once, so that
//! the link always has work.
//!
//! H2C 0 and C2H 0 are connected either to the card's memory or to its stream, as the next job
//! needs; a channel is reconfigured once nothing is in flight in it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::pin::pin;

use crosslane_driver::{
    Buffer, Channel, ChannelKind, ChannelOptions, Completed, CompletionLevel, Device, Notification,
    StreamSource, Target, Ticket, Transfer, TransferError,
};
use crosslane_host::Bus;
use crosslane_host::ErrorKind::Failed;
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_util::future::FutureExt;
use futures_util::{StreamExt, select_biased};

use crate::error::BridgeError;
use crate::slots::{ClientId, Slot};
use crate::stage::Stage;

/// Times a job is repeated because one before it failed.
const MOST_RETRIES: u32 = 8;

/// Settings for the channels of a card.
#[derive(Clone, Copy, Debug)]
pub struct CardWorking {
    /// Chunks posted at once. With 8 the link never waits for the host, and a new client soon has
    /// its turn; with 1 each chunk waits until the host knows that the one before it is complete.
    pub posted_jobs: usize,
    /// Notification of the host that a chunk is complete.
    pub notification: Notification,
    /// Cores of the host that drive the H2C and the C2H channel.
    pub cores: [u16; 2],
}

impl Default for CardWorking {
    fn default() -> Self {
        Self { posted_jobs: 8, notification: Notification::Poll, cores: [1, 2] }
    }
}

/// A part of a registered buffer.
#[derive(Clone, Debug)]
pub(crate) struct Part<B: Bus> {
    pub buffer: Buffer<B>,
    pub range: Range<u64>,
}

/// A job's source and destination.
#[derive(Clone, Debug)]
pub(crate) enum Move<B: Bus> {
    /// From host memory to an address of the card's memory.
    ToCard(Part<B>, u64),
    /// From an address of the card's memory to host memory.
    FromCard(u64, Part<B>),
    /// From host memory through the card's stream to host memory.
    Through(Part<B>, Part<B>),
}

/// The end of a job, which returns its slots.
#[derive(Debug)]
pub(crate) struct Ended {
    pub slots: Vec<Slot>,
    pub result: Result<(), BridgeError>,
    /// Times it was repeated.
    pub retries: u64,
}

/// A job of a client.
pub(crate) struct Job<B: Bus> {
    pub client: ClientId,
    pub what: Move<B>,
    /// Time of the card's bus by which it must be complete.
    pub deadline: Picoseconds,
    pub slots: Vec<Slot>,
    pub ended: oneshot::Sender<Ended>,
}

/// The queue of a card's jobs.
pub(crate) type Orders<B> = mpsc::UnboundedSender<Job<B>>;

/// The connection of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Memory,
    Stream,
}

/// A channel with the jobs posted to it, oldest first.
struct Side<B: Bus> {
    kind: ChannelKind,
    core: u16,
    notification: Notification,
    open: Option<(At, Channel<B>)>,
    posted: VecDeque<(Ticket, u64)>,
}

struct Posted<B: Bus> {
    job: Job<B>,
    /// Sides that have not ended.
    left: u8,
    error: Option<TransferError>,
}

/// A card's jobs.
pub(crate) struct Card<B: Bus> {
    device: Device<B>,
    orders: mpsc::UnboundedReceiver<Job<B>>,
    /// Jobs of each client, with their repetitions so far.
    waiting: BTreeMap<ClientId, VecDeque<(Job<B>, u32)>>,
    /// The client whose job was picked last.
    last: Option<ClientId>,
    posted: BTreeMap<u64, (Posted<B>, u32)>,
    next: u64,
    posted_jobs: usize,
    h2c: Side<B>,
    c2h: Side<B>,
}

/// An event for a card.
enum Event<B: Bus> {
    Order(Job<B>),
    /// The end of one side of a job, or of both.
    Ended(Option<End>, End),
}

/// The end of one side of a job.
struct End {
    kind: ChannelKind,
    number: u64,
    result: Result<Completed, TransferError>,
}

impl<B: Bus> Side<B> {
    fn new(kind: ChannelKind, core: u16, notification: Notification) -> Self {
        Self { kind, core, notification, open: None, posted: VecDeque::new() }
    }

    fn is_at(&self, at: At) -> bool {
        matches!(self.open, Some((now, _)) if now == at)
    }

    async fn close(&mut self) -> Result<(), BridgeError> {
        match self.open.take() {
            Some((_, channel)) => channel.close().await.map_err(BridgeError::driver(Stage::Dma)),
            None => Ok(()),
        }
    }

    /// Reopens the channel at memory or stream; nothing may be in flight in it.
    async fn set_up(&mut self, device: &Device<B>, at: At) -> Result<(), BridgeError> {
        if self.is_at(at) {
            return Ok(());
        }
        self.close().await?;
        let options = ChannelOptions {
            card_memory: at == At::Memory,
            notification: self.notification,
            ..ChannelOptions::default()
        };
        let device = device.on_core(self.core);
        let channel = device.channel(self.kind, 0, options).await;
        self.open = Some((at, channel.map_err(BridgeError::driver(Stage::Dma))?));
        Ok(())
    }

    async fn post(&mut self, transfer: Transfer<B>, number: u64) -> Result<(), BridgeError> {
        let Some((_, channel)) = &mut self.open else {
            return Err(BridgeError::new(Stage::Dma, Failed, "the channel is not open"));
        };
        let posted = channel.post(&[transfer]).await;
        let tickets = posted.map_err(BridgeError::driver(Stage::Dma))?;
        self.posted.extend(tickets.into_iter().map(|ticket| (ticket, number)));
        Ok(())
    }

    /// Waits for its oldest job; forever if it has none.
    async fn oldest(&mut self) -> End {
        match (&mut self.open, self.posted.front().copied()) {
            (Some((_, channel)), Some((ticket, number))) => {
                End { kind: self.kind, number, result: channel.wait(ticket).await }
            }
            _ => std::future::pending().await,
        }
    }

    /// Returns the oldest job posted to it.
    fn front(&self) -> Option<u64> {
        self.posted.front().map(|(_, number)| *number)
    }

    /// Cancels its jobs and restarts; returns which of them were complete.
    async fn give_up(&mut self) -> Vec<(u64, bool)> {
        let mut ended = Vec::new();
        let Some((_, channel)) = &mut self.open else { return ended };
        // A channel that does not answer fails at the next post.
        let _ = channel.cancel().await;
        for (ticket, number) in self.posted.drain(..) {
            ended.push((number, channel.wait(ticket).await.is_ok()));
        }
        ended
    }
}

impl<B: Bus> Card<B> {
    /// Makes a card with these settings, and the queue of its jobs.
    pub fn new(device: Device<B>, working: CardWorking) -> (Self, Orders<B>) {
        let CardWorking { posted_jobs, notification, cores } = working;
        let (sender, orders) = mpsc::unbounded();
        let card = Self {
            device,
            orders,
            waiting: BTreeMap::new(),
            last: None,
            posted: BTreeMap::new(),
            next: 0,
            posted_jobs,
            h2c: Side::new(ChannelKind::H2c, cores[0], notification),
            c2h: Side::new(ChannelKind::C2h, cores[1], notification),
        };
        (card, sender)
    }

    /// Works until all senders of jobs are gone, then closes the channels.
    pub async fn run(mut self) -> Result<(), BridgeError> {
        loop {
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            self.dispatch().await;
            if self.posted.is_empty() {
                match self.orders.next().await {
                    Some(order) => self.take(order),
                    None => break,
                }
                continue;
            }
            match self.next_event().await {
                Event::Order(order) => self.take(order),
                Event::Ended(first, last) => {
                    for end in first.into_iter().chain([last]) {
                        self.end(end).await;
                    }
                }
            }
        }
        self.h2c.close().await?;
        self.c2h.close().await
    }

    /// Waits until a side of a job has ended or a job arrives.
    async fn next_event(&mut self) -> Event<B> {
        let Self { orders, h2c, c2h, waiting, posted, posted_jobs, .. } = self;
        let is_full = posted.len() >= *posted_jobs;
        // If both channels have the same job, wait for both ends, by interrupt if so configured.
        let is_one_job = h2c.front().is_some() && h2c.front() == c2h.front();
        let mut first_end: Option<End> = None;
        let mut of_h2c = pin!(h2c.oldest().fuse());
        let mut of_c2h = pin!(c2h.oldest().fuse());
        loop {
            select_biased! {
                end = of_h2c => match (is_one_job && end.result.is_ok(), first_end.take()) {
                    (true, None) => first_end = Some(end),
                    (_, first) => return Event::Ended(first, end),
                },
                end = of_c2h => match (is_one_job && end.result.is_ok(), first_end.take()) {
                    (true, None) => first_end = Some(end),
                    (_, first) => return Event::Ended(first, end),
                },
                // With all senders gone, no event comes from here.
                job = orders.select_next_some() => {
                    if !is_full && first_end.is_none() {
                        return Event::Order(job);
                    }
                    // The card is full, and asking it here would poll the channels too.
                    waiting.entry(job.client).or_default().push_back((job, 0));
                }
                complete => std::future::pending().await,
            }
        }
    }

    fn take(&mut self, job: Job<B>) {
        self.waiting.entry(job.client).or_default().push_back((job, 0));
    }

    /// Picks the next client's next job.
    fn pick(&mut self) -> Option<(Job<B>, u32)> {
        self.waiting.retain(|_, jobs| !jobs.is_empty());
        let after = |last: ClientId| ClientId(last.0 + 1)..;
        let next = self.last.and_then(|last| self.waiting.range(after(last)).next());
        let client = *next.or_else(|| self.waiting.iter().next())?.0;
        self.last = Some(client);
        self.waiting.get_mut(&client)?.pop_front()
    }

    /// Puts a job back at the head of its client's queue.
    fn put_back(&mut self, job: Job<B>, retries: u32) {
        self.waiting.entry(job.client).or_default().push_front((job, retries));
    }

    /// Posts jobs while the card has room.
    async fn dispatch(&mut self) {
        while self.posted.len() < self.posted_jobs {
            let Some((job, retries)) = self.pick() else { return };
            if job.ended.is_canceled() {
                // Its client no longer waits: dropping it frees its slots.
                continue;
            }
            let (h2c, c2h) = match job.what {
                Move::ToCard(..) => (Some(At::Memory), None),
                Move::FromCard(..) => (None, Some(At::Memory)),
                Move::Through(..) => (Some(At::Stream), Some(At::Stream)),
            };
            let is_busy = |side: &Side<B>, at: Option<At>| {
                at.is_some_and(|at| !side.is_at(at)) && !side.posted.is_empty()
            };
            if is_busy(&self.h2c, h2c) || is_busy(&self.c2h, c2h) {
                self.put_back(job, retries);
                return;
            }
            if let Err(error) = self.post(&job, h2c, c2h).await {
                self.give_back(job, Err(error), retries);
                // One side of it may have been posted.
                self.recover(&[]).await;
                continue;
            }
            let left = u8::from(h2c.is_some()) + u8::from(c2h.is_some());
            self.posted.insert(self.next, (Posted { job, left, error: None }, retries));
            self.next += 1;
        }
    }

    async fn post(
        &mut self,
        job: &Job<B>,
        h2c: Option<At>,
        c2h: Option<At>,
    ) -> Result<(), BridgeError> {
        let device = self.device.clone();
        let is_new_stream =
            h2c == Some(At::Stream) && !(self.h2c.is_at(At::Stream) && self.c2h.is_at(At::Stream));
        if let Some(at) = h2c {
            self.h2c.set_up(&device, at).await?;
        }
        if let Some(at) = c2h {
            self.c2h.set_up(&device, at).await?;
        }
        if is_new_stream {
            let routed = device.user().route(StreamSource::H2c, StreamSource::Generator).await;
            routed.map_err(BridgeError::driver(Stage::Dma))?;
        }
        let transfer =
            |target| Transfer { target, level: CompletionLevel::Visible, deadline: job.deadline };
        let number = self.next;
        match job.what.clone() {
            Move::ToCard(Part { buffer, range }, card) => {
                self.h2c.post(transfer(Target::Card(buffer, range, card)), number).await
            }
            Move::FromCard(card, Part { buffer, range }) => {
                self.c2h.post(transfer(Target::Card(buffer, range, card)), number).await
            }
            Move::Through(from, into) => {
                // The receiving side first, then the sending side.
                let target = Target::Buffer(into.buffer, into.range);
                self.c2h.post(transfer(target), number).await?;
                let target = Target::Buffer(from.buffer, from.range);
                self.h2c.post(transfer(target), number).await
            }
        }
    }

    /// Handles the end of one side of a job.
    async fn end(&mut self, end: End) {
        let End { kind, number, result } = end;
        let side = if kind == ChannelKind::H2c { &mut self.h2c } else { &mut self.c2h };
        side.posted.pop_front();
        let Some((posted, _)) = self.posted.get_mut(&number) else { return };
        posted.left -= 1;
        let Err(error) = result else {
            if posted.left == 0 {
                self.finish(number);
            }
            return;
        };
        posted.error.get_or_insert(error);
        let is_through = matches!(posted.job.what, Move::Through(..));
        let kinds = [ChannelKind::H2c, ChannelKind::C2h];
        let failed: &[ChannelKind] = if is_through {
            &kinds
        } else if kind == ChannelKind::H2c {
            &kinds[..1]
        } else {
            &kinds[1..]
        };
        self.recover(failed).await;
    }

    /// Restarts channels after a fault (both if none is named). Complete jobs stay complete, the
    /// job with the error fails, and the jobs behind it are repeated.
    async fn recover(&mut self, kinds: &[ChannelKind]) {
        let is_meant = |kind| kinds.is_empty() || kinds.contains(&kind);
        let mut ended = Vec::new();
        if is_meant(ChannelKind::H2c) {
            ended.extend(self.h2c.give_up().await);
        }
        if is_meant(ChannelKind::C2h) {
            ended.extend(self.c2h.give_up().await);
        }
        let mut again = Vec::new();
        for (number, is_complete) in ended {
            let Some((posted, _)) = self.posted.get_mut(&number) else { continue };
            posted.left -= u8::from(is_complete);
            if posted.left == 0 && posted.error.is_none() {
                self.finish(number);
            } else if posted.error.is_none() && !again.contains(&number) {
                again.push(number);
            }
        }
        let failed = self.posted.iter().filter(|(_, (posted, _))| posted.error.is_some());
        let failed: Vec<u64> = failed.map(|(number, _)| *number).collect();
        for number in failed {
            self.finish(number);
        }
        again.sort_unstable();
        for number in again.into_iter().rev() {
            let Some((posted, retries)) = self.posted.remove(&number) else { continue };
            if retries >= MOST_RETRIES {
                let why = format!("it was begun {retries} times, and others failed before it");
                self.give_back(posted.job, Err(BridgeError::new(Stage::Dma, Failed, why)), retries);
            } else {
                self.put_back(posted.job, retries + 1);
            }
        }
    }

    fn finish(&mut self, number: u64) {
        let Some((posted, retries)) = self.posted.remove(&number) else { return };
        let result = posted.error.map_or(Ok(()), |error| Err(error.into()));
        self.give_back(posted.job, result, retries);
    }

    fn give_back(&self, job: Job<B>, result: Result<(), BridgeError>, retries: u32) {
        let Job { slots, ended, .. } = job;
        // If the client no longer waits, dropping the message frees the slots.
        let _ = ended.send(Ended { slots, result, retries: u64::from(retries) });
    }
}
