// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open cards, their channels, and the simulation that they run in.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crosslane::driver::{
    Buffer as Registered, Channel, ChannelKind, ChannelOptions, Completed, Device, DriverError,
    StreamSource, Ticket, Transfer, TransferError,
};
use crosslane::host::{Bus, PageSize, lock};
use crosslane::open::{AnyBus, Session as Opened};
use crosslane::pcie::units::Picoseconds;
use futures_util::future::{Either, select, select_all};
use pyo3::prelude::*;

use crate::call::{until_signal, without_gil};
use crate::error::Failure;

/// Time for which a wait for a real card keeps other threads from the session.
const SLICE: Duration = Duration::from_millis(1);
/// Spare buffers that are kept for each card.
const MOST_SPARE: usize = 8;
/// Turns of a coroutine after which time moves although another has still to be told of an end: it
/// may wait for something else before it looks.
const MOST_TURNS: u32 = 1000;
/// Fewest bytes of a spare buffer.
const LEAST_SPARE_BYTES: u64 = 4096;

/// Cards that are open, shared by the objects that use them.
pub struct Shared {
    /// Name by which they were opened.
    pub name: String,
    /// Process that opened them: a child that it forks has neither its threads nor its devices.
    process: u32,
    /// Whether the cards are a lab's.
    pub is_lab: bool,
    /// The bus, until the session is closed.
    bus: Mutex<Option<AnyBus>>,
    is_closed: AtomicBool,
    state: Mutex<Option<State>>,
    /// Buffers of transfers that have ended, each with its card.
    spare: Mutex<Vec<(usize, Registered<AnyBus>)>>,
    /// Transfers that were dropped before they had ended.
    abandoned: Mutex<Vec<(LineKey, u64)>>,
    /// Transfers for which a coroutine no longer waits.
    left: Mutex<Vec<(LineKey, u64)>>,
    /// Objects that keep cards open: they end with the session, whatever Python code still has.
    held: Mutex<Vec<Weak<dyn Held>>>,
}

/// Something that keeps cards open.
pub trait Held: Send + Sync {
    /// Lets the cards go.
    fn release(&self);
}

/// A session that one thread after the other uses.
struct Owned(Opened);

// SAFETY: of a session's parts only the simulation is not `Send`, because of cells and of futures
// that were spawned in it. The mutex of `Shared` lets one thread at a time use the cells, and
// nothing in this crate, driver or experiment spawns a future in the session of this module.
unsafe impl Send for Owned {}

impl Deref for Owned {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.0
    }
}

/// A channel by its card, its kind, and whether it reaches the card's memory.
pub type LineKey = (usize, ChannelKind, bool);

/// An open channel.
struct Line {
    channel: Channel<AnyBus>,
    /// Transfers without an outcome yet.
    open: BTreeSet<u64>,
    /// Transfers that coroutines wait for, whether or not they have ended.
    awaited: BTreeSet<u64>,
    /// Outcomes that were seen while another transfer was waited for.
    ended: BTreeMap<u64, Result<Completed, TransferError>>,
}

impl Line {
    fn new(channel: Channel<AnyBus>) -> Self {
        let (open, awaited) = (BTreeSet::new(), BTreeSet::new());
        Self { channel, open, awaited, ended: BTreeMap::new() }
    }

    /// Returns the first of the transfers that coroutines wait for and that has not ended.
    fn first_awaited(&self) -> Option<u64> {
        self.awaited.intersection(&self.open).next().copied()
    }

    /// Whether a coroutine has still to be told that its transfer has ended.
    fn has_news(&self) -> bool {
        self.ended.keys().any(|ticket| self.awaited.contains(ticket))
    }

    /// Returns the outcome of a transfer if it has ended and was seen.
    fn take(&mut self, ticket: u64) -> Waited {
        let outcome = self.ended.remove(&ticket);
        if outcome.is_some() {
            self.awaited.remove(&ticket);
        }
        outcome
    }

    /// Notes that a transfer has ended.
    fn end(&mut self, ticket: u64) {
        self.open.remove(&ticket);
        self.awaited.remove(&ticket);
    }
}

/// Outcome of a wait, if there is one yet.
type Waited = Option<Result<Completed, TransferError>>;

impl Shared {
    /// Shares a session.
    pub fn new(name: String, session: Opened) -> Arc<Self> {
        let bus = session.bus().clone();
        let devices = session.cards().iter().map(|_| None).collect();
        let state = State { session: Owned(session), devices, lines: HashMap::new() };
        Arc::new(Self {
            name,
            process: process::id(),
            is_lab: matches!(bus, AnyBus::Lab(_)),
            bus: Mutex::new(Some(bus)),
            is_closed: AtomicBool::new(false),
            state: Mutex::new(Some(state)),
            spare: Mutex::default(),
            abandoned: Mutex::default(),
            left: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// Whether it belongs to the process that forked this one, which must not touch it.
    pub fn is_foreign(&self) -> bool {
        self.process != process::id()
    }

    fn check(&self) -> Result<(), Failure> {
        if self.is_foreign() {
            let problem = "it was opened by the process that forked this one; open it here";
            return Err(Failure::closed(format!("{}: {problem}", self.name)));
        }
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(self.closed()),
            false => Ok(()),
        }
    }

    /// Whether the session is closed.
    pub fn is_closed(&self) -> bool {
        self.check().is_err()
    }

    /// Returns the time of the bus: simulated in a lab.
    pub fn now(&self) -> Result<Picoseconds, Failure> {
        self.check()?;
        let bus = lock(&self.bus);
        bus.as_ref().map(Bus::now).ok_or_else(|| self.closed())
    }

    /// Adds something that keeps cards open.
    pub fn hold(&self, held: &Arc<impl Held + 'static>) {
        let mut all = lock(&self.held);
        if all.len() == all.capacity() {
            all.retain(|one| one.strong_count() > 0);
        }
        let held: Weak<dyn Held> = Arc::<_>::downgrade(held) as Weak<dyn Held>;
        all.push(held);
    }

    fn closed(&self) -> Failure {
        Failure::closed(format!("{}: the session is closed", self.name))
    }

    /// Makes a call with the state, without the GIL. Other threads wait meanwhile.
    pub fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut State) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let _inside = Inside::enter(&self.name)?;
        without_gil(py, || {
            let broken = "a call has failed in the middle; open it anew";
            let broken = |_| Failure::closed(format!("{}: {broken}", self.name));
            let mut state = self.state.lock().map_err(broken)?;
            let state = state.as_mut().ok_or_else(|| self.closed())?;
            for (key, ticket) in std::mem::take(&mut *lock(&self.left)) {
                if let Some(line) = state.lines.get_mut(&key) {
                    line.awaited.remove(&ticket);
                }
            }
            for (key, ticket) in std::mem::take(&mut *lock(&self.abandoned)) {
                if let Some(line) = state.lines.get_mut(&key) {
                    line.ended.remove(&ticket);
                }
            }
            call(state)
        })
    }

    /// Forgets a transfer that nobody waits for.
    pub fn abandon(&self, key: LineKey, ticket: u64) {
        if !self.is_foreign() {
            lock(&self.abandoned).push((key, ticket));
        }
    }

    /// Waits for a transfer, at most until a time of the bus.
    pub fn wait(
        &self,
        py: Python<'_>,
        key: LineKey,
        ticket: u64,
        limit: Option<Picoseconds>,
    ) -> PyResult<Waited> {
        loop {
            // In a lab time moves only here, so that nothing is gained by slices.
            let slice = Picoseconds(self.now()?.0.saturating_add(Picoseconds::from(SLICE).0));
            let slice = (!self.is_lab).then_some(slice);
            let until = [limit, slice].into_iter().flatten().min();
            let waited = self.call(py, |state| state.wait(key, ticket, until))?;
            if waited.is_some() || slice.is_none() {
                return Ok(waited);
            }
            let now = self.now()?;
            if limit.is_some_and(|limit| now >= limit) {
                return Ok(None);
            }
            py.check_signals()?;
            // Others that wait for the session come first.
            py.detach(thread::yield_now);
        }
    }

    /// Looks for the outcome of a transfer that a coroutine waits for. In a lab time moves to the
    /// end of the first transfer for which any coroutine waits, but neither on the first turn of a
    /// coroutine nor while another has still to be told of an end. The caller asks again when all
    /// others have had a turn.
    pub fn step(&self, py: Python<'_>, key: LineKey, ticket: u64, turn: u32) -> PyResult<Waited> {
        let is_lab = self.is_lab;
        self.call(py, |state| state.step(key, ticket, is_lab, turn))
    }

    /// Notes that a coroutine no longer waits for a transfer.
    pub fn leave(&self, key: LineKey, ticket: u64) {
        if !self.is_foreign() {
            lock(&self.left).push((key, ticket));
        }
    }

    /// Takes a spare buffer of at least that many bytes, or registers one.
    pub fn spare(&self, py: Python<'_>, card: usize, bytes: u64) -> PyResult<Registered<AnyBus>> {
        self.check()?;
        let mut spare = lock(&self.spare);
        let fits = |(of, it): &(usize, Registered<AnyBus>)| *of == card && it.size_bytes() >= bytes;
        if let Some(index) = spare.iter().position(fits) {
            return Ok(spare.swap_remove(index).1);
        }
        drop(spare);
        let bytes = bytes.max(LEAST_SPARE_BYTES).checked_next_power_of_two();
        let bytes = bytes.ok_or_else(|| Failure::argument("more bytes than a card can move"))?;
        self.call(py, |state| {
            let device = state.device(card)?;
            state.run(device.buffer(bytes, PageSize::Huge))
        })
    }

    /// Keeps the buffer of a transfer that has ended.
    pub fn give_spare(&self, card: usize, buffer: Registered<AnyBus>) {
        let mut spare = lock(&self.spare);
        if spare.iter().filter(|(of, _)| *of == card).count() < MOST_SPARE {
            spare.push((card, buffer));
        }
    }

    /// Closes channels and session. In a lab what programs have left runs to its end, unless the
    /// program has failed.
    pub fn close(&self, py: Python<'_>, is_failed: bool) -> PyResult<()> {
        let _inside = Inside::enter(&self.name)?;
        if self.is_foreign() || self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        without_gil(py, || {
            // A state whose call has failed in the middle is dropped as it is.
            let closed = match self.state.lock().map(|mut state| state.take()) {
                Ok(Some(state)) => state.close(is_failed),
                Ok(None) | Err(_) => Ok(()),
            };
            lock(&self.spare).clear();
            // Nothing is locked while it goes: Python code may run then.
            let all = std::mem::take(&mut *lock(&self.held));
            all.iter().filter_map(Weak::upgrade).for_each(|held| held.release());
            *lock(&self.bus) = None;
            closed
        })
    }
}

thread_local! {
    /// Whether this thread is in a call of a session.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call of a session in this thread. There is one at a time: a second one, of a signal handler,
/// would wait for the first for ever.
struct Inside;

impl Inside {
    fn enter(name: &str) -> Result<Self, Failure> {
        match IS_INSIDE.replace(true) {
            true => Err(Failure::busy(format!(
                "{name}: a call of this thread is under way, which a signal has interrupted"
            ))),
            false => Ok(Self),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_foreign() {
            // Open things belong to the process that forked this one.
            let state = std::mem::replace(&mut self.state, Mutex::new(None));
            let spare = std::mem::take(&mut self.spare);
            std::mem::forget((state, spare, std::mem::take(&mut self.bus)));
        }
    }
}

/// The session and what was opened in it.
pub struct State {
    session: Owned,
    devices: Vec<Option<Device<AnyBus>>>,
    lines: HashMap<LineKey, Line>,
}

impl State {
    /// Closes every channel. In a lab what programs have left runs to its end, unless they have
    /// failed.
    fn close(mut self, is_failed: bool) -> Result<(), Failure> {
        let mut closed = Ok(());
        for (_, line) in std::mem::take(&mut self.lines) {
            closed = closed.and(self.run(line.channel.close()));
        }
        match is_failed {
            true => Ok(()),
            false => closed.and_then(|()| Ok(self.session.finish()?)),
        }
    }

    /// Runs a call of the driver to its end.
    pub fn run<T, E>(&self, call: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        // Pinned where they are made: futures are too large to be handed on by value.
        self.session.block_on(pin!(until_signal(pin!(call))))?
    }

    /// Returns the engine of a card, opened if it was not.
    pub fn device(&mut self, card: usize) -> Result<Device<AnyBus>, Failure> {
        if let Some(Some(device)) = self.devices.get(card) {
            return Ok(device.clone());
        }
        if card >= self.devices.len() {
            return Err(Failure::argument(format!("there is no card {card}")));
        }
        let device = self.run(self.session.device(card))?;
        self.devices[card] = Some(device.clone());
        Ok(device)
    }

    /// Returns a channel, opened if it was not. A channel of the same kind that moves other data
    /// gives its place up when nothing is in flight.
    fn line(&mut self, key: LineKey) -> Result<&mut Line, Failure> {
        if !self.lines.contains_key(&key) {
            let (card, kind, card_memory) = key;
            let device = self.device(card)?;
            let other = (card, kind, !card_memory);
            if let Some(mut line) = self.lines.remove(&other) {
                self.settle(&mut line)?;
                if !line.open.is_empty() {
                    let count = line.open.len();
                    self.lines.insert(other, line);
                    let name = &device.function().name;
                    let problem = format!(
                        "{name} {kind} 0: {count} transfers are in flight, so it cannot turn to \
                         {}",
                        if card_memory { "the card's memory" } else { "its stream" }
                    );
                    return Err(Failure::busy(problem));
                }
                self.run(line.channel.close())?;
            }
            let options = ChannelOptions::default().with_card_memory(card_memory);
            let channel = self.run(device.channel(kind, 0, options))?;
            let line = Line::new(channel);
            self.lines.insert(key, line);
        }
        let missing = || Failure::closed("the channel is closed");
        self.lines.get_mut(&key).ok_or_else(missing)
    }

    /// Takes in the outcomes of a channel that are known.
    fn settle(&self, line: &mut Line) -> Result<(), Failure> {
        for ticket in line.open.clone() {
            let polled = self.session.block_on(line.channel.poll(Ticket(ticket)))?;
            if let Some(outcome) = polled.transpose() {
                line.open.remove(&ticket);
                line.ended.insert(ticket, outcome);
            }
        }
        Ok(())
    }

    /// Posts a transfer and returns its ticket. A channel that has stopped at a fault, which is
    /// that of an earlier transfer, is restarted.
    pub fn post(&mut self, key: LineKey, transfer: Transfer<AnyBus>) -> Result<u64, Failure> {
        self.line(key)?;
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key).ok_or_else(|| Failure::closed("the channel is closed"))?;
        let channel = &mut line.channel;
        let posted = pin!(async {
            let transfer = std::slice::from_ref(&transfer);
            match channel.post(transfer).await {
                Err(DriverError::Stopped { .. }) => {
                    channel.restart().await?;
                    channel.post(transfer).await
                }
                posted => posted,
            }
        });
        let tickets = session.block_on(pin!(until_signal(posted)))??;
        let Some(&Ticket(ticket)) = tickets.first() else {
            return Err(Failure::argument("nothing was posted"));
        };
        line.open.insert(ticket);
        Ok(ticket)
    }

    fn wait(
        &mut self,
        key: LineKey,
        ticket: u64,
        until: Option<Picoseconds>,
    ) -> Result<Waited, Failure> {
        let State { session, lines, .. } = self;
        let line = lines.get_mut(&key).ok_or_else(|| Failure::closed("the channel is closed"))?;
        if let Some(outcome) = line.take(ticket) {
            return Ok(Some(outcome));
        }
        let bus = session.bus().clone();
        let channel = &mut line.channel;
        let waited = session.block_on(until_signal(async move {
            let waiting = pin!(channel.wait(Ticket(ticket)));
            let Some(until) = until else { return Ok::<_, Failure>(Some(waiting.await)) };
            match select(waiting, pin!(bus.sleep_until(until))).await {
                Either::Left((outcome, _)) => Ok(Some(outcome)),
                Either::Right(_) => Ok(None),
            }
        }))??;
        if waited.is_some() {
            line.end(ticket);
        }
        Ok(waited)
    }

    fn step(
        &mut self,
        key: LineKey,
        ticket: u64,
        is_lab: bool,
        turn: u32,
    ) -> Result<Waited, Failure> {
        let State { session, lines, .. } = self;
        let closed = || Failure::closed("the channel is closed");
        let line = lines.get_mut(&key).ok_or_else(closed)?;
        if let Some(outcome) = line.take(ticket) {
            return Ok(Some(outcome));
        }
        if !is_lab || !line.open.contains(&ticket) {
            // An outcome that was given before is an error of the channel.
            let outcome = session.block_on(line.channel.poll(Ticket(ticket)))?.transpose();
            if outcome.is_some() {
                line.end(ticket);
            }
            return Ok(outcome);
        }
        line.awaited.insert(ticket);
        let has_news = lines.values().any(Line::has_news);
        if turn == 0 || has_news && !turn.is_multiple_of(MOST_TURNS) {
            return Ok(None);
        }
        let waits = lines.iter_mut().filter_map(|(key, line)| {
            let (key, first) = (*key, line.first_awaited()?);
            let channel = &mut line.channel;
            Some(Box::pin(async move { (key, first, channel.wait(Ticket(first)).await) }))
        });
        let waits: Vec<_> = waits.collect();
        let (of, ended, outcome) = session
            .block_on(until_signal(async { Ok::<_, Failure>(select_all(waits).await.0) }))??;
        if let Some(line) = lines.get_mut(&of) {
            line.open.remove(&ended);
            line.ended.insert(ended, outcome);
        }
        Ok(lines.get_mut(&key).ok_or_else(closed)?.take(ticket))
    }

    /// Cancels what is in flight on a channel.
    pub fn cancel(&mut self, key: LineKey) -> Result<(), Failure> {
        let State { session, lines, .. } = self;
        match lines.get_mut(&key) {
            Some(line) => session.block_on(until_signal(line.channel.cancel()))?,
            None => Ok(()),
        }
    }

    /// Sets the sources of a card's outgoing streams.
    pub fn route(&mut self, card: usize, source: StreamSource) -> Result<(), Failure> {
        let device = self.device(card)?;
        self.run(device.user().route(source, StreamSource::Generator))
    }

    /// Sets the seed of a card's generator.
    pub fn seed(&mut self, card: usize, seed: u32) -> Result<(), Failure> {
        let device = self.device(card)?;
        self.run(device.user().seed(seed))
    }

    /// Resets a card. It has to be opened anew afterwards.
    pub fn reset(&mut self, card: usize) -> Result<(), Failure> {
        let Some(found) = self.session.cards().get(card) else {
            return Err(Failure::argument(format!("there is no card {card}")));
        };
        let function = found.function;
        self.lines.retain(|(of, ..), _| *of != card);
        self.devices[card] = None;
        self.run(self.session.reset(function))
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Duration) -> Result<(), Failure> {
        let bus = self.session.bus().clone();
        self.run(async move {
            bus.sleep_until(bus.after(span)).await;
            Ok::<_, Failure>(())
        })
    }
}
