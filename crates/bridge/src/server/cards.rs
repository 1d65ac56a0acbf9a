// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards that come to a server and leave it while it serves others.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use crosslane_driver::Buffer;
use crosslane_host::ErrorKind::{Failed, InvalidArgument, LinkDown, NotFound};
use crosslane_host::{AnyMemory, Clock, Rdma, RemoteAccess};
use crosslane_pcie::units::Picoseconds;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, FutureExt, Shared as SharedFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::reload::ReloadOrder;
use super::shares::Shares;
use super::{ServedCard, ServerEvent, ServerOptions, Shared};
use crate::card::Card;
use crate::deadline::after;
use crate::error::{At, BridgeError, Result};
use crate::messages::MAX_NAME_BYTES;
use crate::served::{Core, Served};
use crate::slots::Ring;
use crate::stage::Stage;

/// Time between two looks whether the last client of a removed card has gone.
const LOOK: Picoseconds = Picoseconds::from_ns(10_000_000);

/// How the error of a transfer ends whose card leaves.
const REMOVED: &str = "was removed from this server";

/// Most cards of a server.
const MOST_CARDS: usize = 1024;

/// A change of a running server's cards, and the one that hears how it ended.
pub(super) enum Change {
    Add(String, Served, oneshot::Sender<Result<()>>),
    Remove(String, oneshot::Sender<Result<()>>),
    Reload(ReloadOrder),
}

/// Adds cards to a server that runs, and removes them.
#[derive(Clone)]
pub struct CardChanges(pub(super) mpsc::UnboundedSender<Change>);

/// A card's engine at work, and who hears how that ended: nobody, unless the card was removed.
pub(super) type Worker = (Card, oneshot::Sender<Result<()>>);

/// The sign that a card is being removed.
pub(super) struct Leaving {
    sign: SharedFuture<oneshot::Receiver<()>>,
    give: RefCell<Option<oneshot::Sender<()>>>,
    why: Cell<&'static str>,
}

impl Leaving {
    fn new() -> Self {
        let (give, sign) = oneshot::channel();
        Self { sign: sign.shared(), give: RefCell::new(Some(give)), why: Cell::new("") }
    }

    /// Whether the card is being removed.
    pub fn is_begun(&self) -> bool {
        self.give.borrow().is_none()
    }

    /// Completes when the card is being removed.
    pub fn sign(&self) -> impl Future<Output = ()> + use<> {
        self.sign.clone().map(drop)
    }

    /// Has all transfers of the card end, for this reason.
    pub fn begin(&self, why: &'static str) {
        self.why.set(why);
        drop(self.give.borrow_mut().take());
    }
}

impl CardChanges {
    /// Adds a card under a name that no other card has.
    ///
    /// # Errors
    /// A name that is taken or too long, a card that cannot be served, memory that cannot be
    /// allocated or registered, and a server that has ended.
    pub async fn add(&self, name: &str, card: impl Into<Served>) -> Result<()> {
        let (told, hear) = oneshot::channel();
        self.ask(Change::Add(name.to_owned(), card.into(), told), hear).await
    }

    /// Removes a card: its transfers end with an error, and once no client can use its memory any
    /// more its channels are closed. Complete when nothing of it is left.
    ///
    /// # Errors
    /// No such card, one whose channels do not close, and a server that has ended.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let (told, hear) = oneshot::channel();
        self.ask(Change::Remove(name.to_owned(), told), hear).await
    }

    async fn ask(&self, change: Change, hear: oneshot::Receiver<Result<()>>) -> Result<()> {
        let over = || BridgeError::new(Stage::Request, LinkDown, "the server has ended");
        self.0.unbounded_send(change).map_err(|_| over())?;
        hear.await.map_err(|_| over())?
    }
}

/// Runs the engines of cards until no more can come and all have closed their channels.
pub(super) async fn work(mut hired: mpsc::UnboundedReceiver<Worker>) -> Result<()> {
    let mut working = FuturesUnordered::new();
    let mut is_open = true;
    let run = |(card, told): Worker| async move {
        let result = card.run().await;
        // A card that was not removed ends its server.
        told.send(result).map_or_else(|result| result, |()| Ok(()))
    };
    while is_open || !working.is_empty() {
        let next = match (is_open, working.is_empty()) {
            (true, true) => Either::Left(hired.next().await),
            (false, _) => Either::Right(working.next().await),
            (true, false) => match select(hired.next(), working.next()).await {
                Either::Left((next, _)) => Either::Left(next),
                Either::Right((ended, _)) => Either::Right(ended),
            },
        };
        match next {
            Either::Left(Some(worker)) => working.push(run(worker)),
            Either::Left(None) => is_open = false,
            Either::Right(Some(result)) => result?,
            Either::Right(None) => {}
        }
    }
    Ok(())
}

/// Makes the changes that are asked for; never ends.
pub(super) async fn change<R: Rdma<Memory = AnyMemory>, C: Clock>(
    shared: &Shared<R, C>,
    mut changes: mpsc::UnboundedReceiver<Change>,
    hire: mpsc::UnboundedSender<Worker>,
) -> Result<()> {
    let mut leaving = FuturesUnordered::new();
    loop {
        let change = if leaving.is_empty() {
            changes.next().await
        } else {
            match select(changes.next(), leaving.next()).await {
                Either::Left((change, _)) => change,
                Either::Right(_) => continue,
            }
        };
        match change {
            Some(Change::Add(name, card, told)) => {
                let added = match shared.outage(&name) {
                    None => shared.add(&name, card, &hire).await,
                    Some(error) => Err(error),
                };
                if added.is_ok() {
                    shared.removed.borrow_mut().remove(&name);
                    (shared.tell)(&ServerEvent::CardAdded { card: name });
                }
                // Whoever asked may have gone.
                let _ = told.send(added);
            }
            Some(Change::Remove(name, told)) => match shared.card(&name) {
                Ok(card) => {
                    card.leaving.begin(REMOVED);
                    shared.note_removed(name);
                    leaving.push(shared.remove(card, told).boxed_local());
                }
                Err(_) if shared.forget(&name) => {
                    shared.note_removed(name.clone());
                    (shared.tell)(&ServerEvent::CardRemoved { card: name });
                    drop(told.send(Ok(())));
                }
                Err(error) => drop(told.send(Err(error))),
            },
            Some(Change::Reload(order)) => {
                leaving.push(shared.reload(order, hire.clone()).boxed_local());
            }
            // The server itself has a sender.
            None => std::future::pending().await,
        }
    }
}

impl<R: Rdma<Memory = AnyMemory>, C: Clock> Shared<R, C> {
    /// Returns the cards that are served.
    pub fn served(&self) -> Vec<Rc<ServedCard<R>>> {
        let places = self.places.borrow();
        places.iter().filter(|place| !place.leaving.is_begun()).cloned().collect()
    }

    /// Returns the card of a name.
    pub fn card(&self, name: &str) -> Result<Rc<ServedCard<R>>> {
        let is_it = |place: &&Rc<ServedCard<R>>| place.name == name && !place.leaving.is_begun();
        let found = self.places.borrow().iter().find(is_it).cloned();
        found.ok_or_else(|| {
            if let Some(outage) = self.outage(name) {
                return outage;
            }
            let served = self.served();
            let have: Vec<&str> = served.iter().map(|place| place.name.as_str()).collect();
            let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
            let why = match self.removed.borrow().contains(name) {
                true => format!("{name} {REMOVED}, which has {have}"),
                false => format!("there is no card {name}: this server has {have}"),
            };
            BridgeError::new(Stage::Request, NotFound, why)
        })
    }

    /// Sets a card up: its rings, and the work of its engine.
    pub async fn add(
        &self,
        name: &str,
        card: Served,
        hire: &mpsc::UnboundedSender<Worker>,
    ) -> Result<()> {
        self.check(name, &card)?;
        let ServerOptions { slots, slot_bytes, .. } = self.options;
        let (size, none) = ((slots, slot_bytes), RemoteAccess::NONE);
        let to_card = Ring::new(card.device(), &self.rdma, size, none).await?;
        let from_card = Ring::new(card.device(), &self.rdma, size, none).await?;
        let mut ended = None;
        let core = match card {
            Served::Engine(device) => {
                let (worker, orders) = Card::new(device.clone(), self.options.card);
                let (told, hear) = oneshot::channel();
                let gone = |_| BridgeError::new(Stage::Dma, Failed, "no card works any more");
                hire.unbounded_send((worker, told)).map_err(gone)?;
                ended = Some(hear);
                Core::Engine(device, orders)
            }
            Served::Memory(memory) => Core::of_memory(&memory, &self.rdma).await?,
            Served::Null => Core::Null,
        };
        let (name, shares, leaving) = (name.to_owned(), Shares::default(), Leaving::new());
        let ended = RefCell::new(ended);
        let place = ServedCard { name, core, to_card, from_card, shares, leaving, ended };
        self.places.borrow_mut().push(Rc::new(place));
        Ok(())
    }

    fn check(&self, name: &str, card: &Served) -> Result<()> {
        let places = self.places.borrow();
        let problem = if name.is_empty() || name.len() > MAX_NAME_BYTES {
            format!("{name}: a name has 1 to {MAX_NAME_BYTES} B")
        } else if places.iter().any(|place| place.name == name) {
            format!("two cards have the name {name}")
        } else if places.len() >= MOST_CARDS {
            format!("a server has at most {MOST_CARDS} cards")
        } else if let Some(problem) = card.problem() {
            problem
        } else {
            return Ok(());
        };
        Err(BridgeError::new(Stage::Request, InvalidArgument, problem))
    }

    /// Notes that a card was removed; of too many one is forgotten.
    fn note_removed(&self, name: String) {
        let mut removed = self.removed.borrow_mut();
        if removed.len() == MOST_CARDS {
            removed.pop_first();
        }
        removed.insert(name);
    }

    /// Frees a card once its transfers have ended, and tells whoever asked.
    async fn remove(&self, card: Rc<ServedCard<R>>, told: oneshot::Sender<Result<()>>) {
        let name = card.name.clone();
        let removed = self.let_go(card).await;
        (self.tell)(&ServerEvent::CardRemoved { card: name });
        // Whoever asked may have gone.
        let _ = told.send(removed);
    }

    /// Frees a card once its transfers have ended.
    pub async fn let_go(&self, card: Rc<ServedCard<R>>) -> Result<()> {
        // Its transfers end now; what a client's network may still use comes back when its
        // connection is closed.
        let is_free = |card: &Rc<ServedCard<R>>| {
            let counts = [&card.to_card, &card.from_card].map(|ring| ring.credits.counts());
            // One is here, one among the server's cards.
            Rc::strong_count(card) <= 2 && counts.iter().all(|(all, free)| all == free)
        };
        while !is_free(&card) {
            self.clock.sleep_until(after(&self.clock, LOOK)).await;
        }
        self.places.borrow_mut().retain(|place| !Rc::ptr_eq(place, &card));
        match Rc::try_unwrap(card) {
            Ok(card) => free(card).await,
            // Nobody can have got it again.
            Err(_) => Ok(()),
        }
    }
}

/// Closes a card's channels and gives back its memory.
async fn free<R: Rdma<Memory = AnyMemory>>(card: ServedCard<R>) -> Result<()> {
    let ServedCard { core, to_card, from_card, ended, .. } = card;
    let buffers: [Option<Buffer>; 2] = [to_card.buffer, from_card.buffer];
    // Without orders to come, the engine's work ends.
    drop(core);
    let closed = match ended.into_inner() {
        Some(ended) => ended.await.unwrap_or(Ok(())),
        None => Ok(()),
    };
    for buffer in buffers.into_iter().flatten() {
        buffer.unregister().await.at(Stage::Registration)?;
    }
    closed
}

/// Runs a transfer until it ends, or one of its cards is removed: then it fails with the bytes that
/// have arrived, of all of them.
pub(super) async fn unless_removed<R: Rdma<Memory = AnyMemory>, T>(
    cards: [Option<&ServedCard<R>>; 2],
    running: impl Future<Output = Result<T>>,
    arrived: impl Fn() -> (u64, u64),
) -> Result<T> {
    let [first, other] = cards.map(|card| async move {
        match card {
            Some(card) => {
                card.leaving.sign().await;
                format!("{} {}", card.name, card.leaving.why.get())
            }
            None => std::future::pending().await,
        }
    });
    let (first, other, running) = (pin!(first), pin!(other), pin!(running));
    let gone = select(first, other);
    match select(running, gone).await {
        Either::Left((result, _)) => result,
        Either::Right((gone, _)) => {
            let (why, _) = gone.factor_first();
            let (arrived_bytes, total_bytes) = arrived();
            Err(BridgeError::new(Stage::Dma, LinkDown, why).arrived(arrived_bytes, total_bytes))
        }
    }
}
