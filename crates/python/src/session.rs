// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open cards, shared by the objects that use them, in one thread after the other.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crosslane::driver::Buffer as Registered;
use crosslane::host::{Bus, PageSize, lock};
use crosslane::lab::LabBus;
use crosslane::open::{AnyBus, Session as Opened};
use crosslane::pcie::units::Picoseconds;
use pyo3::prelude::*;

use crate::call::without_gil;
use crate::error::Failure;
use crate::posted::{Posted, Waited};
use crate::process;
use crate::state::State;

/// Time for which a wait for a real card keeps other threads from the session.
const SLICE: Duration = Duration::from_millis(1);
/// Spare buffers that are kept for each owner.
const MOST_SPARE: usize = 8;
/// Fewest bytes of a spare buffer.
const LEAST_SPARE_BYTES: u64 = 4096;

/// The owner of registered memory, which alone can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The engine of a card.
    Card(usize),
    /// A network processor, by its number in the session.
    Network(u64),
}

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
    /// Buffers of transfers that have ended, each with its owner.
    spare: Mutex<Vec<(Owner, Registered)>>,
    /// Transfers that were dropped before they had ended.
    abandoned: Mutex<Vec<Posted>>,
    /// Transfers for which a coroutine no longer waits.
    left: Mutex<Vec<Posted>>,
    /// Objects that keep cards open: they end with the session, whatever Python code still has.
    held: Mutex<Vec<Weak<dyn Held>>>,
}

/// Something that keeps cards open.
pub trait Held: Send + Sync {
    /// Lets the cards go.
    fn release(&self);
}

impl Shared {
    /// Shares a session.
    pub fn new(name: String, session: Opened) -> Arc<Self> {
        let bus = session.bus().clone();
        let state = State::new(session);
        Arc::new(Self {
            name,
            process: process::id(),
            is_lab: bus.downcast::<LabBus>().is_some(),
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
            for posted in std::mem::take(&mut *lock(&self.left)) {
                state.set_awaited(posted, false);
            }
            for posted in std::mem::take(&mut *lock(&self.abandoned)) {
                state.abandon(posted);
            }
            call(state)
        })
    }

    /// Forgets a transfer that nobody waits for.
    pub fn abandon(&self, posted: Posted) {
        if !self.is_foreign() {
            lock(&self.abandoned).push(posted);
        }
    }

    /// Waits for a transfer, at most until a time of the bus.
    pub fn wait(
        &self,
        py: Python<'_>,
        posted: Posted,
        limit: Option<Picoseconds>,
    ) -> PyResult<Waited> {
        if self.is_lab {
            // Time moves only here, so that nothing is gained by slices.
            return self.call(py, |state| state.wait(posted, limit));
        }
        loop {
            let slice = Picoseconds(self.now()?.0.saturating_add(Picoseconds::from(SLICE).0));
            let until = limit.map_or(slice, |limit| limit.min(slice));
            let waited = self.call(py, |state| state.wait(posted, Some(until)))?;
            if waited.is_some() {
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
    pub fn step(&self, py: Python<'_>, posted: Posted, turn: u32) -> PyResult<Waited> {
        let is_lab = self.is_lab;
        self.call(py, |state| state.step(posted, is_lab, turn))
    }

    /// Notes that a coroutine no longer waits for a transfer.
    pub fn leave(&self, posted: Posted) {
        if !self.is_foreign() {
            lock(&self.left).push(posted);
        }
    }

    /// Takes a spare buffer of at least that many bytes, or registers one.
    pub fn spare(
        &self,
        py: Python<'_>,
        owner: Owner,
        bytes: u64,
        register: impl FnOnce(&mut State, u64) -> Result<Registered, Failure> + Send,
    ) -> PyResult<Registered> {
        self.check()?;
        let mut spare = lock(&self.spare);
        let fits = |(of, it): &(Owner, Registered)| *of == owner && it.size_bytes() >= bytes;
        if let Some(index) = spare.iter().position(fits) {
            return Ok(spare.swap_remove(index).1);
        }
        drop(spare);
        let bytes = bytes.max(LEAST_SPARE_BYTES).checked_next_power_of_two();
        let bytes = bytes.ok_or_else(|| Failure::argument("more bytes than a card can move"))?;
        self.call(py, |state| register(state, bytes))
    }

    /// Takes a spare buffer of a card, or registers one.
    pub fn spare_of_card(&self, py: Python<'_>, card: usize, bytes: u64) -> PyResult<Registered> {
        self.spare(py, Owner::Card(card), bytes, |state, bytes| {
            let device = state.device(card)?;
            state.run(device.buffer(bytes, PageSize::Huge))
        })
    }

    /// Keeps the buffer of a transfer that has ended.
    pub fn give_spare(&self, owner: Owner, buffer: Registered) {
        let mut spare = lock(&self.spare);
        if spare.iter().filter(|(of, _)| *of == owner).count() < MOST_SPARE {
            spare.push((owner, buffer));
        }
    }

    /// Gives back the spare buffers of an owner that goes.
    pub fn drop_spare(&self, owner: Owner) {
        if self.is_foreign() {
            return;
        }
        let mut kept = lock(&self.spare);
        let (gone, stay) = std::mem::take(&mut *kept).into_iter().partition(|(of, _)| *of == owner);
        *kept = stay;
        drop(kept);
        let gone: Vec<(Owner, Registered)> = gone;
        drop(gone);
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
pub struct Inside;

impl Inside {
    /// Enters a call.
    pub fn enter(name: &str) -> Result<Self, Failure> {
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
