// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gets and credits: posting, waiting, cancelling.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crosslane_host::ErrorKind::{Busy, InvalidArgument, Unsupported};
use crosslane_host::{Bus, BusError, ErrorKind, Mapping, RegisterAddress, Stores, Waiting, lock};
use crosslane_pcie::units::Picoseconds;

use super::error::{NetworkError, NetworkFault};
use super::flights::{Bounce, Held, Kind, NotNow, Outcome, WORD_STRIDE, Written};
use super::options::{
    CHANNELS, Ended, Key, Message, ROUTED_CHANNEL, Requests, ScatteredMessage, TAGS,
};
use super::request::{self, CutWithin, Of, REQUEST_BYTES, Run, SLOT_BYTES};
use super::shared::Shared;
use super::{CREDIT_WINDOW, NetworkProcessor, REQUEST_BAR};
use crate::error::{DriverError, Result};

/// Time that a cancelled message may take to end: unanswered reads of host memory time out within
/// it.
const CANCEL_PATIENCE: Picoseconds = Picoseconds::from_ms(200);
/// Longest time between two checks by a message that waits for a slot.
const PLACE_LOOK: Picoseconds = Picoseconds::from_us(10);

/// A message being sent, or room for one to be received. Dropping it does not stop a message being
/// sent, but takes room back.
pub struct InFlight {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.shared.flights).abandon(self.id);
    }
}

/// A waiter for a message's notification, until this is dropped.
struct Waiter<'a>(&'a InFlight);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        lock(&self.0.shared.flights).end_waiting(self.0.id);
    }
}

/// A message in line for slots, until this is dropped.
struct InLine<'a> {
    shared: &'a Shared,
    kind: Kind,
    turn: u64,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        lock(&self.shared.flights).leave_line(self.kind, self.turn);
    }
}

impl NetworkProcessor {
    /// Sends a message: writes its requests once slots are free. Its part of the buffer belongs to
    /// the device until it has ended; with copied buffers only until it has been copied.
    ///
    /// # Errors
    /// An impossible message, one in more pieces than there are slots, a key in use, or no slot
    /// until the message's deadline.
    pub async fn nget(&self, message: Message) -> Result<InFlight, NetworkError> {
        self.post(Kind::Get, message.into()).await
    }

    /// Sends a message that lies in several parts of a buffer, as [`nget`](Self::nget). Unless they
    /// are copied, each takes a request slot, and so do the datagrams between two of them.
    ///
    /// # Errors
    /// Those of [`nget`](Self::nget).
    pub async fn nget_scattered(
        &self,
        message: ScatteredMessage,
    ) -> Result<InFlight, NetworkError> {
        self.post(Kind::Get, message).await
    }

    /// Makes room for a message to be received. Its part of the buffer belongs to the device until
    /// the message has ended.
    ///
    /// # Errors
    /// See [`nget`](Self::nget).
    pub async fn credit(&self, message: Message) -> Result<InFlight, NetworkError> {
        self.post(Kind::Credit, message.into()).await
    }

    /// Makes room for a message in several parts of a buffer; the sender's may be others.
    ///
    /// # Errors
    /// See [`nget_scattered`](Self::nget_scattered).
    pub async fn credit_scattered(
        &self,
        message: ScatteredMessage,
    ) -> Result<InFlight, NetworkError> {
        self.post(Kind::Credit, message).await
    }

    fn place_of(&self, key: Key) -> String {
        format!("{} {key}", self.shared.access.function.name)
    }

    pub(super) fn refuse(
        &self,
        key: Key,
        kind: ErrorKind,
        problem: impl Into<String>,
    ) -> NetworkError {
        NetworkError::refused(DriverError::refused(self.place_of(key), kind, problem))
    }

    /// Checks a message before anything is written.
    fn check(&self, message: &ScatteredMessage) -> Result<(), NetworkError> {
        let (key, bytes) = (&message.key, message.bytes());
        self.check_key(*key).map_err(|problem| self.refuse(*key, InvalidArgument, problem))?;
        let most = key.max_bytes(self.shared.sizes.payload_bytes());
        if bytes > most {
            return Err(self.refuse(
                *key,
                InvalidArgument,
                format!("a message of {bytes} B; it has {most} B at most"),
            ));
        }
        if bytes == 0 && matches!(key, Key::Routed { .. }) {
            let problem = "a routed message has at least 1 B";
            return Err(self.refuse(*key, InvalidArgument, problem));
        }
        let registered = message.buffer.registered();
        if registered.function != self.shared.access.function.id {
            let problem = "the buffer is another device's";
            return Err(self.refuse(*key, InvalidArgument, problem));
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

    async fn post(&self, kind: Kind, message: ScatteredMessage) -> Result<InFlight, NetworkError> {
        self.settle().await.map_err(|error| self.no_answer(message.key, error))?;
        self.check(&message)?;
        // Dropped messages hold their memory for a moment; this one may want it.
        while lock(&self.shared.flights).is_taking_back() && self.bus().now() < message.deadline {
            self.any_ends(message.deadline).await;
            self.reap();
        }
        let (claims, pieces) = self.claim(kind, &message)?;
        self.check_places(kind, &message, request::by_run(&pieces).count())?;
        let (held, places) = self.hold(kind, &message.buffer, (claims, pieces)).await?;
        let unit_bytes = message.key.unit_bytes(self.shared.sizes.payload_bytes());
        let runs = request::runs(unit_bytes, places.into_iter()).map_err(|CutWithin { at }| {
            let problem = format!(
                "the driver's own memory lies in pieces, and one ends after {at} B, which is not a \
                 multiple of the {unit_bytes} B of a datagram"
            );
            self.refuse(message.key, Unsupported, problem)
        })?;
        self.check_places(kind, &message, runs.len())?;
        let posted = self.begin(kind, &message, runs.len(), held).await?;
        self.call().await;
        self.write_requests(&posted, kind, &runs)
            .await
            .map_err(|error| self.no_answer(message.key, self.shared.access.failed(error)))?;
        Ok(posted)
    }

    /// Checks that there are slots for the requests of a message.
    fn check_places(
        &self,
        kind: Kind,
        message: &ScatteredMessage,
        requests: usize,
    ) -> Result<(), NetworkError> {
        let have = lock(&self.shared.flights).slots(kind);
        if requests <= have as usize {
            return Ok(());
        }
        let contiguous = match message.parts.len() {
            0 | 1 => "copied or mapped buffers are contiguous",
            _ => "copied buffers are contiguous",
        };
        let problem = format!(
            "its memory takes {requests} requests, and there are {have} places for them: \
             {contiguous}"
        );
        Err(self.refuse(message.key, Unsupported, problem))
    }

    /// Takes slots, waiting for them until the message's deadline. The longest waiter goes first.
    async fn begin(
        &self,
        kind: Kind,
        message: &ScatteredMessage,
        runs: usize,
        held: Held,
    ) -> Result<InFlight, NetworkError> {
        let ScatteredMessage { key, deadline, .. } = message;
        let bytes = message.bytes();
        let mut held = Some(held);
        let mut in_line: Option<InLine<'_>> = None;
        loop {
            self.reap();
            let turn = in_line.as_ref().map(|in_line| in_line.turn);
            let begun = {
                let mut flights = lock(&self.shared.flights);
                let begun = flights.begin((kind, *key), runs as u32, bytes, turn, || {
                    held.take().expect("a message begins once")
                });
                if let Ok(id) = begun {
                    let word = flights.get(id).map_or(0, |flight| flight.word);
                    self.shared.words.write(u64::from(word) * WORD_STRIDE, &[0; 8]);
                }
                begun
            };
            match begun {
                Ok(id) => return Ok(InFlight { shared: Arc::clone(&self.shared), id }),
                Err(NotNow::KeyInUse) => {
                    let problem = "another message has it and has not ended";
                    return Err(self.refuse(*key, Busy, problem));
                }
                Err(NotNow::KeyEnding | NotNow::NoPlace) if self.bus().now() >= *deadline => {
                    let fault = NetworkFault::Deadline { deadline: *deadline };
                    return Err(self.failure(*key, fault, 0, bytes));
                }
                Err(not_now) => {
                    match not_now {
                        NotNow::NoPlace if in_line.is_none() => {
                            let turn = lock(&self.shared.flights).wait_in_line(kind, runs as u32);
                            in_line = Some(InLine { shared: &self.shared, kind, turn });
                        }
                        // A message that waits for its key must not block others.
                        NotNow::KeyEnding => in_line = None,
                        _ => {}
                    }
                    self.settle().await.map_err(|error| self.no_answer(*key, error))?;
                    self.any_ends(*deadline).await;
                }
            }
        }
    }

    /// Polls until a message in flight may have ended, until the deadline, or for a few
    /// microseconds, whichever is first: for callers that wait for several.
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

    /// Writes the requests of a message. A store takes effect once polled, so it counts as made
    /// from then on.
    async fn write_requests(
        &self,
        posted: &InFlight,
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

    /// Keeps combined requests in order. Narrow stores were flushed one by one.
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
            function: self.shared.access.function.id,
            bar: REQUEST_BAR,
            offset_bytes: window + u64::from(slot) * SLOT_BYTES as u64,
        };
        let widest = self.bus().widest_store_bytes();
        match self.shared.modes.requests {
            Requests::Stores(Mapping::WriteCombined) => {
                // A whole line leaves by itself; the bytes after the request are ignored.
                let mut line = [0; SLOT_BYTES];
                line[..REQUEST_BYTES].copy_from_slice(&request);
                if (widest as usize) < SLOT_BYTES {
                    // The line may leave between two of its stores, and then arrives in pieces.
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

    /// Writes deferred work: cancels of dropped messages, and a fence.
    pub(super) async fn settle(&self) -> Result<()> {
        let failed = |error| self.shared.access.failed(error);
        self.send_off().await.map_err(failed)?;
        loop {
            // Ended messages need no cancel.
            self.reap();
            if !lock(&self.shared.flights).is_cancel_due() {
                return Ok(());
            }
            // Must follow the requests that it cancels.
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

    /// Flushes this core's combining buffers if they may hold something.
    pub(super) async fn send_off(&self) -> Result<(), BusError> {
        match self.fence_due.swap(false, Ordering::AcqRel) {
            true => self.bus().fence().await,
            false => Ok(()),
        }
    }

    /// Takes in new notifications.
    pub(super) fn reap(&self) {
        let words = &self.shared.words;
        let now = self.bus().now();
        let read = |word| words.read(u64::from(word) * WORD_STRIDE);
        lock(&self.shared.flights).reap(now, read);
    }

    /// Waits until all data of a message have left host memory, or are in the buffer.
    ///
    /// # Errors
    /// The message failed. At the deadline it is taken back, and the memory is the program's again
    /// on return, except with [`NetworkFault::NoNotification`].
    pub async fn wait(
        &self,
        posted: &InFlight,
        deadline: Picoseconds,
    ) -> Result<Ended, NetworkError> {
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

    /// Waits until a message has ended.
    async fn wait_for_word(
        &self,
        posted: &InFlight,
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

    /// Cancels a message. A wait for it then returns [`NetworkFault::Cancelled`], or its result if
    /// it had ended before.
    ///
    /// # Errors
    /// The device cannot be written to.
    pub async fn cancel(&self, posted: &InFlight) -> Result<(), NetworkError> {
        if let Some(flight) = lock(&self.shared.flights).get_mut(posted.id) {
            flight.cancel_due = flight.outcome.is_none();
        }
        let key = self.key_of(posted);
        self.settle().await.map_err(|error| self.no_answer(key, error))
    }

    /// Returns the end of a message if it has ended, without waiting. Of a credit with copied data
    /// the part of the buffer is the program's only after [`wait`](Self::wait).
    ///
    /// # Errors
    /// The message failed.
    pub fn poll(&self, posted: &InFlight) -> Result<Option<Ended>, NetworkError> {
        self.reap();
        let outcome = lock(&self.shared.flights).get(posted.id).and_then(|flight| flight.outcome);
        outcome.map(|outcome| self.ended(posted, outcome, None)).transpose()
    }

    /// Returns the result of an ended message, with its data in the program's buffer.
    async fn result(
        &self,
        posted: &InFlight,
        deadline: Option<Picoseconds>,
    ) -> Result<Ended, NetworkError> {
        let (outcome, bounce) = {
            let mut flights = lock(&self.shared.flights);
            let flight = flights.get_mut(posted.id).expect("its handle is there");
            let outcome = flight.outcome.expect("it has ended");
            (outcome, flight.held.bounce.take())
        };
        if let Some(Bounce { own, target: Some(target) }) = bounce {
            self.copy_out(own, target, outcome.bytes).await;
        }
        self.ended(posted, outcome, deadline)
    }

    fn ended(
        &self,
        posted: &InFlight,
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

    fn key_of(&self, posted: &InFlight) -> Key {
        let flights = lock(&self.shared.flights);
        flights.get(posted.id).expect("its handle is there").key
    }

    fn failed(&self, posted: &InFlight, fault: NetworkFault, moved_bytes: u64) -> NetworkError {
        let flights = lock(&self.shared.flights);
        let flight = flights.get(posted.id).expect("its handle is there");
        self.failure(flight.key, fault, moved_bytes, flight.total_bytes)
    }

    fn no_answer(&self, key: Key, error: DriverError) -> NetworkError {
        self.failure(key, NetworkFault::NoAnswer(Box::new(error)), 0, 0)
    }

    pub(super) fn failure(
        &self,
        key: Key,
        fault: NetworkFault,
        moved_bytes: u64,
        total_bytes: u64,
    ) -> NetworkError {
        NetworkError { place: self.place_of(key), fault, moved_bytes, total_bytes }
    }
}
