// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card and its clients, whose orders take turns so that each moves as many bytes, whatever the
//! sizes of their chunks (start-time fair queueing). Several orders are posted at once, so that the
//! link always has work.
//!
//! H2C 0 and C2H 0 are connected either to the card's memory or to its stream, as the next order
//! needs; a channel is reconfigured once nothing is in flight in it.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;

use crosslane_driver::{
    ChannelKind, Completed, CompletionLevel, Device, Notification, StreamSource, Target, Ticket,
    Transfer, TransferError, TransferFault,
};
use crosslane_host::ErrorKind::Failed;
use crosslane_host::setters;
use crosslane_pcie::units::{BusAddress, Picoseconds};
use futures_channel::{mpsc, oneshot};
use futures_util::future::FutureExt;
use futures_util::{StreamExt, select_biased};
use smart_default::SmartDefault;

use crate::card_channel::{CardChannel, LEAST_ENTRIES};
use crate::error::{At, BridgeError, Result};
use crate::slots::{ClientId, Slot};
use crate::stage::Stage;

/// Times a order is repeated because one before it failed.
const MOST_RETRIES: u32 = 8;

/// Settings for the channels of a card.
#[derive(Clone, Copy, Debug, SmartDefault)]
#[non_exhaustive]
pub struct CardWorking {
    /// Chunks posted at once. With 8 the link never waits for the host, and a new client soon has
    /// its turn; with 1 each chunk waits until the host knows that the one before it is complete.
    #[default(8)]
    pub posted_jobs: usize,
    /// Notification of the host that a chunk is complete.
    #[default(Notification::Poll)]
    pub notification: Notification,
    /// Cores of the host that drive the H2C and the C2H channel.
    #[default([1, 2])]
    pub cores: [u16; 2],
}

setters!(CardWorking {
    with_posted_jobs(posted_jobs: usize),
    with_notification(notification: Notification),
    with_cores(cores: [u16; 2]),
});

/// The end of an order, which returns its slots.
#[derive(Debug)]
pub(crate) struct Ended {
    pub slots: Vec<Slot>,
    pub result: Result<()>,
    /// Times it was repeated.
    pub retries: u64,
}

/// An order of a client: to move one chunk to the card, from it, or through its stream.
pub(crate) struct Order {
    pub client: ClientId,
    /// Data that H2C takes from host memory.
    pub h2c: Option<Target>,
    /// Data that C2H brings to host memory.
    pub c2h: Option<Target>,
    /// Time of the card's bus by which it must be complete.
    pub deadline: Picoseconds,
    pub slots: Vec<Slot>,
    pub ended: oneshot::Sender<Ended>,
    /// Times it was repeated so far.
    pub retries: u32,
}

impl Order {
    /// Returns the bytes that count for its client's turn: a round trip has them both ways at once.
    fn bytes(&self) -> u64 {
        let bytes = |target: &Option<Target>| target.as_ref().map_or(0, Target::bytes);
        bytes(&self.h2c).max(bytes(&self.c2h))
    }
}

/// A client's orders that have still to be posted.
struct Queue {
    orders: VecDeque<Order>,
    /// Bytes that it has had, on the scale of [`Card::turn`].
    served_bytes: u64,
}

/// The queue of a card's orders.
pub(crate) type Orders = mpsc::UnboundedSender<Order>;

/// A channel with the orders posted to it, oldest first.
struct Side {
    channel: CardChannel,
    posted: VecDeque<(Ticket, u64)>,
}

struct Posted {
    order: Order,
    /// Sides that have not ended.
    left: u8,
    error: Option<TransferError>,
}

/// A card's orders.
pub(crate) struct Card {
    device: Device,
    orders: mpsc::UnboundedReceiver<Order>,
    waiting: BTreeMap<ClientId, Queue>,
    /// Bytes that the client which was picked last had been served before: one that has had nothing
    /// to do for a while begins there, without a credit.
    turn: u64,
    posted: BTreeMap<u64, Posted>,
    next: u64,
    posted_jobs: usize,
    h2c: Side,
    c2h: Side,
}

enum Event {
    Order(Order),
    /// The end of one side of a order, or of both.
    Ended(Option<End>, End),
}

/// The end of one side of a order.
struct End {
    kind: ChannelKind,
    number: u64,
    result: Result<Completed, TransferError>,
}

/// Whether a target is in the card's memory, rather than behind its stream.
fn in_memory(target: &Target) -> bool {
    matches!(target, Target::Card(..) | Target::PeerCard(..))
}

impl Side {
    fn new(kind: ChannelKind, core: u16, notification: Notification) -> Self {
        Self { channel: CardChannel::new(kind, core, notification), posted: VecDeque::new() }
    }

    /// Whether it must be set up for a target, and has orders in flight.
    fn is_busy_for(&self, target: Option<&Target>) -> bool {
        target.is_some_and(|target| !self.channel.is_at(in_memory(target)))
            && !self.posted.is_empty()
    }

    /// Opens the channel for a target.
    async fn set_up(&mut self, device: &Device, target: Option<&Target>) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        self.channel.set_up(device, in_memory(target), LEAST_ENTRIES).await.at(Stage::Dma)
    }

    async fn post(
        &mut self,
        target: Option<Target>,
        deadline: Picoseconds,
        number: u64,
    ) -> Result<()> {
        let Some(target) = target else { return Ok(()) };
        let Some(channel) = self.channel.channel() else {
            return Err(BridgeError::new(Stage::Dma, Failed, "the channel is not open"));
        };
        let transfer = Transfer { target, level: CompletionLevel::Visible, deadline };
        let tickets = channel.post(&[transfer]).await.at(Stage::Dma)?;
        self.posted.extend(tickets.into_iter().map(|ticket| (ticket, number)));
        Ok(())
    }

    /// Waits for its oldest order; forever if it has none.
    async fn oldest(&mut self) -> End {
        let kind = self.channel.kind;
        match (self.channel.channel(), self.posted.front().copied()) {
            (Some(channel), Some((ticket, number))) => {
                End { kind, number, result: channel.wait(ticket).await }
            }
            _ => std::future::pending().await,
        }
    }

    /// Returns the oldest order posted to it.
    fn front(&self) -> Option<u64> {
        self.posted.front().map(|(_, number)| *number)
    }

    /// Cancels its orders and restarts; returns which of them were complete.
    async fn give_up(&mut self) -> Vec<(u64, bool)> {
        let mut ended = Vec::new();
        let Some(channel) = self.channel.channel() else { return ended };
        // A channel that does not answer fails at the next post.
        let _ = channel.cancel().await;
        for (ticket, number) in self.posted.drain(..) {
            ended.push((number, channel.wait(ticket).await.is_ok()));
        }
        ended
    }
}

impl Queue {
    const fn new(served_bytes: u64) -> Self {
        Self { orders: VecDeque::new(), served_bytes }
    }
}

/// Puts an order at the end of its client's queue.
fn queue(waiting: &mut BTreeMap<ClientId, Queue>, turn: u64, order: Order) {
    let queue = waiting.entry(order.client).or_insert_with(|| Queue::new(turn));
    if queue.orders.is_empty() {
        queue.served_bytes = queue.served_bytes.max(turn);
    }
    queue.orders.push_back(order);
}

impl Card {
    /// Makes a card with these settings, and the queue of its orders.
    pub fn new(device: Device, working: CardWorking) -> (Self, Orders) {
        let CardWorking { posted_jobs, notification, cores } = working;
        let (sender, orders) = mpsc::unbounded();
        let card = Self {
            device,
            orders,
            waiting: BTreeMap::new(),
            turn: 0,
            posted: BTreeMap::new(),
            next: 0,
            posted_jobs,
            h2c: Side::new(ChannelKind::H2c, cores[0], notification),
            c2h: Side::new(ChannelKind::C2h, cores[1], notification),
        };
        (card, sender)
    }

    /// Works until all senders of orders are gone, then closes the channels.
    pub async fn run(mut self) -> Result<()> {
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
        self.h2c.channel.close().await.at(Stage::Dma)?;
        self.c2h.channel.close().await.at(Stage::Dma)
    }

    /// Waits until a side of a order has ended or a order arrives.
    async fn next_event(&mut self) -> Event {
        let Self { orders, h2c, c2h, waiting, turn, posted, posted_jobs, .. } = self;
        let is_full = posted.len() >= *posted_jobs;
        // If both channels have the same order, wait for both ends, by interrupt if so configured.
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
                order = orders.select_next_some() => {
                    if !is_full && first_end.is_none() {
                        return Event::Order(order);
                    }
                    // The card is full, and asking it here would poll the channels too.
                    queue(waiting, *turn, order);
                }
                complete => std::future::pending().await,
            }
        }
    }

    fn take(&mut self, order: Order) {
        queue(&mut self.waiting, self.turn, order);
    }

    /// Picks the next order of the client that has been served least.
    fn pick(&mut self) -> Option<Order> {
        let turn = self.turn;
        self.waiting.retain(|_, queue| !queue.orders.is_empty() || queue.served_bytes > turn);
        let with_orders = self.waiting.values_mut().filter(|queue| !queue.orders.is_empty());
        let queue = with_orders.min_by_key(|queue| queue.served_bytes)?;
        let order = queue.orders.pop_front()?;
        self.turn = queue.served_bytes;
        queue.served_bytes = queue.served_bytes.saturating_add(order.bytes());
        Some(order)
    }

    /// Puts an order back at the head of its client's queue.
    fn put_back(&mut self, order: Order) {
        let queue = self.waiting.entry(order.client);
        let queue = queue.or_insert_with(|| Queue::new(self.turn));
        queue.served_bytes = queue.served_bytes.saturating_sub(order.bytes());
        queue.orders.push_front(order);
    }

    /// Posts orders while the card has room.
    async fn dispatch(&mut self) {
        while self.posted.len() < self.posted_jobs {
            let Some(order) = self.pick() else { return };
            if order.ended.is_canceled() {
                // Its client no longer waits: dropping it frees its slots.
                continue;
            }
            if self.h2c.is_busy_for(order.h2c.as_ref()) || self.c2h.is_busy_for(order.c2h.as_ref())
            {
                self.put_back(order);
                return;
            }
            if let Err(error) = self.post(&order).await {
                give_back(order, Err(error));
                // One side of it may have been posted.
                self.recover(true, true).await;
                continue;
            }
            let left = u8::from(order.h2c.is_some()) + u8::from(order.c2h.is_some());
            self.posted.insert(self.next, Posted { order, left, error: None });
            self.next += 1;
        }
    }

    async fn post(&mut self, order: &Order) -> Result<()> {
        let device = self.device.clone();
        let (h2c, c2h) = (order.h2c.as_ref(), order.c2h.as_ref());
        let is_stream = self.h2c.channel.is_at(false) && self.c2h.channel.is_at(false);
        self.h2c.set_up(&device, h2c).await?;
        self.c2h.set_up(&device, c2h).await?;
        if !is_stream && h2c.is_some_and(|target| !in_memory(target)) {
            let routed = device.user().route(StreamSource::H2c, StreamSource::Generator).await;
            routed.at(Stage::Dma)?;
        }
        // The receiving side first, then the sending side.
        self.c2h.post(order.c2h.clone(), order.deadline, self.next).await?;
        self.h2c.post(order.h2c.clone(), order.deadline, self.next).await
    }

    /// Handles the end of one side of a order.
    async fn end(&mut self, end: End) {
        let End { kind, number, result } = end;
        let side = if kind == ChannelKind::H2c { &mut self.h2c } else { &mut self.c2h };
        side.posted.pop_front();
        let Some(posted) = self.posted.get_mut(&number) else { return };
        posted.left -= 1;
        let Err(error) = result else {
            if posted.left == 0 {
                self.finish(number);
            }
            return;
        };
        posted.error.get_or_insert(error);
        // An order through the stream has failed on both sides.
        let (h2c, c2h) = (posted.order.h2c.is_some(), posted.order.c2h.is_some());
        self.recover(h2c, c2h).await;
    }

    /// Restarts channels after a fault. Complete orders stay complete, the order with the error
    /// fails, and the orders behind it are repeated.
    async fn recover(&mut self, h2c: bool, c2h: bool) {
        let mut ended = Vec::new();
        if h2c {
            ended.extend(self.h2c.give_up().await);
        }
        if c2h {
            ended.extend(self.c2h.give_up().await);
        }
        let mut again = Vec::new();
        for (number, is_complete) in ended {
            let Some(posted) = self.posted.get_mut(&number) else { continue };
            posted.left -= u8::from(is_complete);
            if posted.left == 0 && posted.error.is_none() {
                self.finish(number);
            } else if posted.error.is_none() && !again.contains(&number) {
                again.push(number);
            }
        }
        let failed = self.posted.iter().filter(|(_, posted)| posted.error.is_some());
        let failed: Vec<u64> = failed.map(|(number, _)| *number).collect();
        for number in failed {
            self.finish(number);
        }
        again.sort_unstable();
        for number in again.into_iter().rev() {
            let Some(Posted { mut order, .. }) = self.posted.remove(&number) else { continue };
            if order.retries >= MOST_RETRIES {
                let retries = order.retries;
                let why = format!("it was begun {retries} times, and others failed before it");
                give_back(order, Err(BridgeError::new(Stage::Dma, Failed, why)));
            } else {
                order.retries += 1;
                self.put_back(order);
            }
        }
    }

    fn finish(&mut self, number: u64) {
        let Some(posted) = self.posted.remove(&number) else { return };
        let Posted { order, error, .. } = posted;
        let result = error.map_or(Ok(()), |error| Err(in_card(error, &order).into()));
        give_back(order, result);
    }
}

/// Gives an error of the card's memory the address there: of a read the engine reports the address
/// in the host's memory that it could not write.
fn in_card(error: TransferError, order: &Order) -> TransferError {
    match &order.c2h {
        Some(Target::Card(_, _, address)) if error.fault == TransferFault::CardMemory => {
            let address = address.saturating_add(error.moved_bytes);
            TransferError { address: Some(BusAddress(address)), ..error }
        }
        _ => error,
    }
}

/// Returns an order to its client.
fn give_back(order: Order, result: Result<()>) {
    let Order { slots, ended, retries, .. } = order;
    // If the client no longer waits, dropping the message frees the slots.
    let _ = ended.send(Ended { slots, result, retries: u64::from(retries) });
}
