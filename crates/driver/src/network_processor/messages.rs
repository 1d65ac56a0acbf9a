// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets and credits: posting, waiting, taking back.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crosslane_host::{Bus, BusError, Mapping, RegisterAddress, Stores, Waiting};
use crosslane_pcie::units::Picoseconds;

use super::error::{NetworkError, NetworkFault};
use super::flights::{Bounce, Held, Kind, NotNow, Outcome, WORD_STRIDE, Written};
use super::options::{CHANNELS, Ended, Key, Message, ROUTED_CHANNEL, Requests, TAGS};
use super::request::{self, CutWithin, Of, REQUEST_BYTES, Run, SLOT_BYTES};
use super::shared::Shared;
use super::{CREDIT_WINDOW, NetworkProcessor, REQUEST_BAR};
use crate::buffer::lock;
use crate::error::DriverError;

/// How long a message that was taken back may take to end: reads of host memory that get no
/// answer time out within that.
const CANCEL_PATIENCE: Picoseconds = Picoseconds::from_ns(200_000_000);
/// Longest time after which who waits for a place looks again, whatever has happened.
const PLACE_LOOK: Picoseconds = Picoseconds::from_ns(10_000);

/// A message that was posted; see [`Get`] and [`Credit`].
pub(super) struct Posted<B: Bus> {
    shared: Arc<Shared<B>>,
    id: u64,
}

impl<B: Bus> Drop for Posted<B> {
    fn drop(&mut self) {
        lock(&self.shared.flights).abandon(self.id);
    }
}

/// A message that is being sent. To drop it lets it go on.
pub struct Get<B: Bus>(Posted<B>);

/// Room for a message that is to come. To drop it takes it back.
pub struct Credit<B: Bus>(Posted<B>);

/// Somebody waits for a message's notification, until this is dropped.
struct Waiter<'a, B: Bus>(&'a Posted<B>);

impl<B: Bus> Drop for Waiter<'_, B> {
    fn drop(&mut self) {
        lock(&self.0.shared.flights).end_waiting(self.0.id);
    }
}

/// A message waits in line for places, until this is dropped.
struct InLine<'a, B: Bus> {
    shared: &'a Shared<B>,
    kind: Kind,
    turn: u64,
}

impl<B: Bus> Drop for InLine<'_, B> {
    fn drop(&mut self) {
        lock(&self.shared.flights).leave_line(self.kind, self.turn);
    }
}

impl<B: Bus> NetworkProcessor<B> {
    /// Sends a message: writes its requests once there are places for them. Its part of the
    /// buffer is the device's until it has ended; with copied buffers only until it has been
    /// copied.
    ///
    /// # Errors
    /// A message that cannot be, a key that is in use, or no place until the message's deadline.
    pub async fn nget(&self, message: Message<B>) -> Result<Get<B>, NetworkError> {
        Ok(Get(self.post(Kind::Get, message).await?))
    }

    /// Waits until all data of a message have left host memory.
    ///
    /// # Errors
    /// The message failed. At the deadline it is taken back, and memory is the program's again
    /// when this returns, unless [`NetworkFault::NoNotification`] says otherwise.
    pub async fn nget_wait(
        &self,
        get: &Get<B>,
        deadline: Picoseconds,
    ) -> Result<Ended, NetworkError> {
        self.wait(&get.0, deadline).await
    }

    /// How a message has ended, if it has, without waiting.
    ///
    /// # Errors
    /// The message failed.
    pub fn nget_poll(&self, get: &Get<B>) -> Result<Option<Ended>, NetworkError> {
        self.poll(&get.0)
    }

    /// Makes room for a message that is to come. Its part of the buffer is the device's until it
    /// has ended.
    ///
    /// # Errors
    /// As [`nget`](Self::nget).
    pub async fn credit(&self, message: Message<B>) -> Result<Credit<B>, NetworkError> {
        Ok(Credit(self.post(Kind::Credit, message).await?))
    }

    /// Waits until the message is in the buffer.
    ///
    /// # Errors
    /// As [`nget_wait`](Self::nget_wait).
    pub async fn credit_wait(
        &self,
        credit: &Credit<B>,
        deadline: Picoseconds,
    ) -> Result<Ended, NetworkError> {
        self.wait(&credit.0, deadline).await
    }

    /// Whether the message has come, without waiting. With copied buffers the data are in the
    /// program's buffer when [`credit_wait`](Self::credit_wait) has returned.
    ///
    /// # Errors
    /// The message failed.
    pub fn credit_poll(&self, credit: &Credit<B>) -> Result<Option<Ended>, NetworkError> {
        self.poll(&credit.0)
    }

    /// Takes back a message that is being sent. Waiting for it then returns
    /// [`NetworkFault::Cancelled`], or that it had ended before.
    ///
    /// # Errors
    /// The device cannot be written to.
    pub async fn cancel_get(&self, get: &Get<B>) -> Result<(), NetworkError> {
        self.cancel(&get.0).await
    }

    /// Takes back room for a message, in the same way.
    ///
    /// # Errors
    /// The device cannot be written to.
    pub async fn cancel_credit(&self, credit: &Credit<B>) -> Result<(), NetworkError> {
        self.cancel(&credit.0).await
    }

    fn place_of(&self, key: Key) -> String {
        format!("{} {key}", self.shared.access.name)
    }

    fn refuse(&self, key: Key, problem: String) -> NetworkError {
        NetworkError::refused(DriverError::Refused { place: self.place_of(key), problem })
    }

    /// Looks whether a message can be, before anything is written.
    fn check(&self, message: &Message<B>) -> Result<(), NetworkError> {
        let Message { key, part, .. } = message;
        let bytes = part.end.saturating_sub(part.start);
        self.check_key(*key).map_err(|problem| self.refuse(*key, problem))?;
        let most = key.max_bytes();
        if bytes > most {
            return Err(
                self.refuse(*key, format!("a message of {bytes} B; it has {most} B at most"))
            );
        }
        if bytes == 0 && matches!(key, Key::Routed { .. }) {
            let problem = "a routed message has at least 1 B".to_owned();
            return Err(self.refuse(*key, problem));
        }
        let registered = message.buffer.registered();
        if registered.function != self.shared.access.function {
            let problem = "the buffer is another device's".to_owned();
            return Err(self.refuse(*key, problem));
        }
        Ok(())
    }

    pub(super) fn check_key(&self, key: Key) -> Result<(), String> {
        if key.tag() >= TAGS {
            return Err(format!("tags are 0 to {}", TAGS - 1));
        }
        let place = *lock(&self.shared.place);
        match key {
            Key::Neighbour { link, .. } if link >= self.shared.sizes.links => {
                Err(format!("it has {} links, from 0 on", self.shared.sizes.links))
            }
            Key::Neighbour { channel, .. } if channel >= CHANNELS => {
                Err(format!("channels are 0 to {}", CHANNELS - 1))
            }
            Key::Neighbour { channel, .. } if place.is_some() && channel >= ROUTED_CHANNEL => {
                Err("in a torus channels 6 and 7 are for routed messages".to_owned())
            }
            Key::Neighbour { .. } => Ok(()),
            Key::Routed { node, .. } => match place {
                None => Err("the node has no place in a torus, so nothing is routed".to_owned()),
                Some(place) if u32::from(node) >= place.nodes => {
                    Err(format!("the torus has {} nodes, from 0 on", place.nodes))
                }
                Some(place) if node == place.own => Err("that is the node itself".to_owned()),
                Some(_) => Ok(()),
            },
        }
    }

    async fn post(&self, kind: Kind, message: Message<B>) -> Result<Posted<B>, NetworkError> {
        self.settle().await.map_err(|error| self.no_answer(message.key, error))?;
        self.check(&message)?;
        // What was dropped has its memory for a moment yet; it may be what is wanted now.
        while lock(&self.shared.flights).is_taking_back() && self.bus().now() < message.deadline {
            self.any_ends(message.deadline).await;
            self.reap();
        }
        let (held, pieces) = self.hold(kind, &message).await?;
        let runs = match request::runs(message.key, pieces.into_iter()) {
            Ok(runs) => runs,
            Err(CutWithin { at }) => {
                return Err(self.refuse(message.key, format!(
                    "its memory goes on elsewhere after {at} B, which is no multiple of the {} B \
                     of a datagram: copied or mapped buffers are contiguous",
                    message.key.payload_bytes()
                )));
            }
        };
        let posted = self.begin(kind, &message, runs.len(), held).await?;
        self.call().await;
        self.write_requests(&posted, kind, &runs)
            .await
            .map_err(|error| self.no_answer(message.key, self.shared.access.failed(error)))?;
        Ok(posted)
    }

    /// Takes places, waiting for them until the message's deadline. Who has waited for longer comes
    /// first.
    async fn begin(
        &self,
        kind: Kind,
        message: &Message<B>,
        runs: usize,
        held: Held<B>,
    ) -> Result<Posted<B>, NetworkError> {
        let Message { key, part, deadline, .. } = message;
        let mut held = Some(held);
        let mut in_line: Option<InLine<'_, B>> = None;
        loop {
            self.reap();
            let turn = in_line.as_ref().map(|in_line| in_line.turn);
            let begun = {
                let mut flights = lock(&self.shared.flights);
                let have = flights.slots(kind);
                if runs > have as usize {
                    return Err(self.refuse(
                        *key,
                        format!(
                            "its memory lies in {runs} pieces, and there are {have} places for \
                         requests: copied or mapped buffers are contiguous"
                        ),
                    ));
                }
                let (places, bytes) = (runs as u32, part.end - part.start);
                let begun = flights.begin((kind, *key), places, bytes, turn, || {
                    held.take().expect("a message begins once")
                });
                if let Ok(id) = begun {
                    let word = flights.get(id).map_or(0, |flight| flight.word);
                    self.shared.words.write(u64::from(word) * WORD_STRIDE, &[0; 8]);
                }
                begun
            };
            match begun {
                Ok(id) => return Ok(Posted { shared: Arc::clone(&self.shared), id }),
                Err(NotNow::KeyInUse) => {
                    let problem = "another message has it and has not ended".to_owned();
                    return Err(self.refuse(*key, problem));
                }
                Err(NotNow::KeyEnding | NotNow::NoPlace) if self.bus().now() >= *deadline => {
                    return Err(NetworkError {
                        place: self.place_of(*key),
                        fault: NetworkFault::Deadline { deadline: *deadline },
                        moved_bytes: 0,
                        total_bytes: part.end - part.start,
                    });
                }
                Err(not_now) => {
                    match not_now {
                        NotNow::NoPlace if in_line.is_none() => {
                            let turn = lock(&self.shared.flights).wait_in_line(kind, runs as u32);
                            in_line = Some(InLine { shared: &self.shared, kind, turn });
                        }
                        // Nobody waits for a place behind one that waits for its key.
                        NotNow::KeyEnding => in_line = None,
                        _ => {}
                    }
                    self.settle().await.map_err(|error| self.no_answer(*key, error))?;
                    self.any_ends(*deadline).await;
                }
            }
        }
    }

    /// Polls until any message that is under way may have ended, until the deadline, or for a
    /// while of some microseconds, whichever is first: for those who wait for several.
    pub async fn any_ends(&self, deadline: Picoseconds) {
        let until = (self.bus().now() + PLACE_LOOK).min(deadline);
        let words = lock(&self.shared.flights).words_under_way();
        let memory = &self.shared.words.memory;
        let wait = |word: u32| {
            let offset_bytes = u64::from(word) * WORD_STRIDE;
            Box::pin(self.bus().wait_memory(memory, offset_bytes, 0, until))
        };
        let mut waits: Vec<_> = words.into_iter().map(wait).collect();
        if waits.is_empty() {
            self.bus().sleep_until(until).await;
            return;
        }
        poll_fn(|context| {
            let ended = waits.iter_mut().any(|wait| Pin::as_mut(wait).poll(context).is_ready());
            if ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Writes the requests of a message. Once a store has been polled it is made, so it counts as
    /// made from then on.
    async fn write_requests(
        &self,
        posted: &Posted<B>,
        kind: Kind,
        runs: &[Run],
    ) -> Result<(), BusError> {
        let of = {
            let flights = lock(&self.shared.flights);
            let flight = flights.get(posted.id).expect("its handle is there");
            self.of(flight.key, flight.token, flight.word)
        };
        for (number, &run) in runs.iter().enumerate() {
            if number > 0 {
                self.fence_requests().await?;
            }
            let slot = {
                let mut flights = lock(&self.shared.flights);
                let slot = flights.take_slot(kind);
                let flight = flights.get_mut(posted.id).expect("its handle is there");
                flight.written = if run.is_last { Written::All } else { Written::Some };
                if number == 0 {
                    flight.posted = self.bus().now();
                }
                slot
            };
            self.store_request(kind, slot, request::request(of, run)).await?;
        }
        Ok(())
    }

    fn of(&self, key: Key, token: u16, word: u32) -> Of {
        Of { key, token, notify: self.shared.words.address(u64::from(word) * WORD_STRIDE) }
    }

    /// Keeps requests that are combined in their order. Those of narrow stores were sent off one
    /// by one.
    async fn fence_requests(&self) -> Result<(), BusError> {
        let is_wide = self.bus().widest_store_bytes() as usize >= SLOT_BYTES;
        match self.shared.modes.requests {
            Requests::Stores(Mapping::WriteCombined) if is_wide => self.bus().fence().await,
            _ => self.send_off().await,
        }
    }

    async fn store_request(
        &self,
        kind: Kind,
        slot: u32,
        request: [u8; REQUEST_BYTES],
    ) -> Result<(), BusError> {
        let window = match kind {
            Kind::Get => 0,
            Kind::Credit => CREDIT_WINDOW,
        };
        let at = RegisterAddress {
            function: self.shared.access.function,
            bar: REQUEST_BAR,
            offset_bytes: window + u64::from(slot) * SLOT_BYTES as u64,
        };
        let widest = self.bus().widest_store_bytes();
        match self.shared.modes.requests {
            Requests::Stores(Mapping::WriteCombined) => {
                // A whole line leaves by itself; what stands behind the request means nothing.
                let mut line = [0; SLOT_BYTES];
                line[..REQUEST_BYTES].copy_from_slice(&request);
                if (widest as usize) < SLOT_BYTES {
                    // It may leave between two of its stores, and what comes then is no whole line.
                    self.fence_due.store(true, Ordering::Release);
                }
                self.bus().store(at, &line, Stores::combined(widest)).await?;
                self.send_off().await
            }
            Requests::Stores(Mapping::Uncached) | Requests::SystemCall => {
                let width = widest.min(REQUEST_BYTES as u32);
                self.bus().store(at, &request, Stores::uncached(width)).await
            }
        }
    }

    /// Writes what others have left to be written: cancels of what was dropped, and a fence.
    pub(super) async fn settle(&self) -> Result<(), DriverError> {
        let failed = |error| self.shared.access.failed(error);
        self.send_off().await.map_err(failed)?;
        loop {
            // Those that have ended need none.
            self.reap();
            if !lock(&self.shared.flights).is_cancel_due() {
                return Ok(());
            }
            // Behind the requests that it takes back.
            self.fence_requests().await.map_err(failed)?;
            let due = {
                let mut flights = lock(&self.shared.flights);
                flights.take_cancel().map(|due| (due, flights.take_slot(due.0)))
            };
            // Another task may have been faster.
            let Some(((kind, key, token, word), slot)) = due else { continue };
            let cancel = request::cancel(self.of(key, token, word));
            self.store_request(kind, slot, cancel).await.map_err(failed)?;
        }
    }

    /// Sends off what this core has combined, if anything may be left in its buffers.
    pub(super) async fn send_off(&self) -> Result<(), BusError> {
        match self.fence_due.swap(false, Ordering::AcqRel) {
            true => self.bus().fence().await,
            false => Ok(()),
        }
    }

    /// Takes in the notifications that have come.
    pub(super) fn reap(&self) {
        let words = &self.shared.words;
        let now = self.bus().now();
        let read = |word| words.read(u64::from(word) * WORD_STRIDE);
        lock(&self.shared.flights).reap(now, read);
    }

    async fn wait(&self, posted: &Posted<B>, deadline: Picoseconds) -> Result<Ended, NetworkError> {
        let key = self.key_of(posted);
        let no_answer = |error| self.no_answer(key, error);
        self.settle().await.map_err(no_answer)?;
        let waiting = self.shared.modes.waiting;
        let bus_error = match self.wait_for_word(posted, waiting, deadline).await {
            Ok(()) => return self.result(posted, None).await,
            Err(error) => error,
        };
        if !matches!(bus_error, BusError::Deadline { .. }) {
            return Err(no_answer(self.shared.access.failed(bus_error)));
        }
        self.cancel(posted).await?;
        let patience = Picoseconds(self.bus().now().0.saturating_add(CANCEL_PATIENCE.0));
        match self.wait_for_word(posted, Waiting::Polling, patience).await {
            Ok(()) => self.result(posted, Some(deadline)).await,
            Err(_) => Err(self.failed(posted, NetworkFault::NoNotification { deadline }, 0)),
        }
    }

    /// Until a message has ended.
    async fn wait_for_word(
        &self,
        posted: &Posted<B>,
        waiting: Waiting,
        deadline: Picoseconds,
    ) -> Result<(), BusError> {
        loop {
            self.reap();
            let word = {
                let mut flights = lock(&self.shared.flights);
                if !flights.begin_waiting(posted.id) {
                    return Ok(());
                }
                flights.get(posted.id).map_or(0, |flight| flight.word)
            };
            let _waiter = Waiter(posted);
            let offset_bytes = u64::from(word) * WORD_STRIDE;
            let memory = &self.shared.words.memory;
            self.bus().wait_memory_by(waiting, memory, offset_bytes, 0, deadline).await?;
        }
    }

    async fn cancel(&self, posted: &Posted<B>) -> Result<(), NetworkError> {
        if let Some(flight) = lock(&self.shared.flights).get_mut(posted.id) {
            flight.cancel_due = flight.outcome.is_none();
        }
        let key = self.key_of(posted);
        self.settle().await.map_err(|error| self.no_answer(key, error))
    }

    fn poll(&self, posted: &Posted<B>) -> Result<Option<Ended>, NetworkError> {
        self.reap();
        let outcome = lock(&self.shared.flights).get(posted.id).and_then(|flight| flight.outcome);
        outcome.map(|outcome| self.ended(posted, outcome, None)).transpose()
    }

    /// The result of a message that has ended, with its data where the program wants them.
    async fn result(
        &self,
        posted: &Posted<B>,
        deadline: Option<Picoseconds>,
    ) -> Result<Ended, NetworkError> {
        let (outcome, bounce) = {
            let mut flights = lock(&self.shared.flights);
            let flight = flights.get_mut(posted.id).expect("its handle is there");
            let outcome = flight.outcome.expect("it has ended");
            (outcome, flight.held.bounce.take())
        };
        if let Some(Bounce { own, target }) = bounce {
            self.copy_out(&own, target, outcome.bytes).await;
            self.keep(own);
        }
        self.ended(posted, outcome, deadline)
    }

    fn ended(
        &self,
        posted: &Posted<B>,
        outcome: Outcome,
        deadline: Option<Picoseconds>,
    ) -> Result<Ended, NetworkError> {
        let Outcome { status, bytes, ended } = outcome;
        let fault = match (NetworkFault::from_status(status), deadline) {
            (None, _) => {
                let flights = lock(&self.shared.flights);
                let begun = flights.get(posted.id).map_or(ended, |flight| flight.posted);
                return Ok(Ended { bytes, posted: begun, ended });
            }
            (Some(NetworkFault::Cancelled), Some(deadline)) => NetworkFault::Deadline { deadline },
            (Some(fault), _) => fault,
        };
        Err(self.failed(posted, fault, bytes))
    }

    fn key_of(&self, posted: &Posted<B>) -> Key {
        let flights = lock(&self.shared.flights);
        flights.get(posted.id).expect("its handle is there").key
    }

    fn failed(&self, posted: &Posted<B>, fault: NetworkFault, moved_bytes: u64) -> NetworkError {
        let flights = lock(&self.shared.flights);
        let flight = flights.get(posted.id).expect("its handle is there");
        let (place, total_bytes) = (self.place_of(flight.key), flight.total_bytes);
        NetworkError { place, fault, moved_bytes, total_bytes }
    }

    fn no_answer(&self, key: Key, error: DriverError) -> NetworkError {
        let fault = NetworkFault::NoAnswer(Box::new(error));
        NetworkError { place: self.place_of(key), fault, moved_bytes: 0, total_bytes: 0 }
    }
}
