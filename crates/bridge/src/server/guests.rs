// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections of a server. Those that have not shown yet whose they are have few places, which
//! the oldest lose to new ones; a client that is idle gives way to a new client when all are taken.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crosslane_host::ErrorKind::Busy;
use crosslane_pcie::units::Picoseconds;
use futures_channel::oneshot;

use crate::error::{BridgeError, Result};
use crate::slots::ClientId;
use crate::stage::Stage;

/// Most clients served at once.
pub(super) const MOST_CLIENTS: usize = 256;
/// Most connections that have not shown whose they are.
pub(super) const MOST_STRANGERS: usize = 128;
/// Time that a connection has to show it, however many others come: those that come at the same
/// time are all heard. New ones wait for so long where all places are taken.
const LEAST_TIME: Picoseconds = Picoseconds::from_ns(200_000_000);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Stranger,
    /// A client without a transfer; the number rises with the time at which that began.
    Idle(u64),
    Busy,
}

struct Place {
    state: State,
    since: Picoseconds,
    leave: oneshot::Sender<()>,
}

/// The places of a server's connections.
#[derive(Default)]
pub(super) struct Guests {
    places: RefCell<BTreeMap<ClientId, Place>>,
    last: Cell<u64>,
}

/// The place of a connection, until it is dropped.
pub(super) struct Guest<'a> {
    guests: &'a Guests,
    pub client: ClientId,
}

impl Guests {
    /// Returns the time at which a new connection can be given a place; none if there is one.
    pub fn room_at(&self) -> Option<Picoseconds> {
        let places = self.places.borrow();
        let strangers = || places.values().filter(|place| place.state == State::Stranger);
        let oldest = strangers().map(|place| place.since.0).min()?;
        let is_full = strangers().count() >= MOST_STRANGERS;
        is_full.then_some(Picoseconds(oldest.saturating_add(LEAST_TIME.0)))
    }

    /// Gives a place to a new connection; the future that comes with it ends when it has to leave.
    pub fn come(&self, client: ClientId, now: Picoseconds) -> (Guest<'_>, oneshot::Receiver<()>) {
        self.make_room(MOST_STRANGERS, |state| (state == State::Stranger).then_some(0));
        let (leave, left) = oneshot::channel();
        self.places
            .borrow_mut()
            .insert(client, Place { state: State::Stranger, since: now, leave });
        (Guest { guests: self, client }, left)
    }

    /// Sends the first of those away that have a rank, unless fewer than `most` have one.
    fn make_room(&self, most: usize, rank: impl Fn(State) -> Option<u64>) -> bool {
        let mut places = self.places.borrow_mut();
        let ranked = || places.iter().filter_map(|(id, at)| Some((rank(at.state)?, *id)));
        if ranked().count() < most {
            return true;
        }
        let first = ranked().min().map(|(_, id)| id);
        if let Some(place) = first.and_then(|first| places.remove(&first)) {
            // One that has just ended needs not be told.
            let _ = place.leave.send(());
            return true;
        }
        false
    }

    fn next(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }
}

impl Guest<'_> {
    /// Notes that the connection has shown whose it is: it counts as a client, in the place of the
    /// one that has been idle longest if there is no other.
    ///
    /// # Errors
    /// All places are of clients with transfers.
    pub fn is_known(&self) -> Result<()> {
        let of =
            |state| self.guests.places.borrow().values().filter(|it| it.state == state).count();
        let idle = |state| if let State::Idle(since) = state { Some(since) } else { None };
        let busy = of(State::Busy);
        if busy >= MOST_CLIENTS || !self.guests.make_room(MOST_CLIENTS - busy, idle) {
            let why = format!("this server has {busy} clients with transfers, and no more at once");
            return Err(BridgeError::new(Stage::Connection, Busy, why));
        }
        self.is_idle();
        Ok(())
    }

    /// Notes that the client waits for nothing.
    pub fn is_idle(&self) {
        let idle = State::Idle(self.guests.next());
        self.set(idle);
    }

    /// Notes that the client has a transfer.
    pub fn is_busy(&self) {
        self.set(State::Busy);
    }

    fn set(&self, state: State) {
        if let Some(place) = self.guests.places.borrow_mut().get_mut(&self.client) {
            place.state = state;
        }
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.guests.places.borrow_mut().remove(&self.client);
    }
}
