// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers that were posted, and their outcomes.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane::driver::{Buffer as Registered, Completed as Done};
use crosslane::host::lock;
use crosslane::pcie::units::Picoseconds;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::error::Failure;
use crate::posted::{Outcome, Posted};
use crate::session::{Held, Owner, Shared};
use crate::view::View;

/// Longest time in seconds that a call takes: as far as the clock of a bus counts.
const MOST_SECONDS: f64 = 1e6;

/// Reads a time in seconds.
///
/// # Errors
/// A number that is no time, or none that a clock reaches.
pub fn seconds(name: &str, value: f64) -> Result<Duration, Failure> {
    if (0.0..=MOST_SECONDS).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    let problem = format!("{name}={value}: it is a time in seconds from 0 to {MOST_SECONDS}");
    Err(Failure::argument(problem))
}

/// Object that the data of a transfer go to when it has ended.
pub enum Sink {
    /// None: the data come from here.
    None,
    /// The bytes of an object.
    View(View),
    /// A buffer.
    Buffer(Py<Buffer>),
}

/// Memory of a transfer.
pub struct Memory {
    /// The memory that the card reaches.
    pub registered: Registered,
    /// Its part.
    pub part: Range<u64>,
    /// The object that the data go to.
    pub sink: Sink,
    /// Owner to which the memory goes back, if it was lent for this transfer.
    pub lent_by: Option<Owner>,
}

/// Returns the part of something with `bytes` bytes.
///
/// # Errors
/// A part that is not within it, or has no bytes.
pub fn part_of(bytes: u64, start: u64, stop: Option<u64>) -> Result<Range<u64>, Failure> {
    let stop = stop.unwrap_or(bytes);
    if start < stop && stop <= bytes {
        return Ok(start..stop);
    }
    let problem = format!("bytes {start} to {stop} of {bytes} B: they have to be within it");
    Err(Failure::argument(format!("{problem}, and at least one")))
}

/// A part of an object that data come from or go to, and the owner of the memory that takes part.
pub struct Asked<'a, 'py> {
    /// The object.
    pub object: &'a Bound<'py, PyAny>,
    /// First byte.
    pub start: u64,
    /// The byte behind the last; `None` for all that follow.
    pub stop: Option<u64>,
    /// The owner.
    pub owner: Owner,
}

impl Memory {
    /// Takes the data of an object: a buffer's as they are, or copied into memory that is lent.
    ///
    /// # Errors
    /// An object whose bytes cannot be taken, a part beyond it, or no memory.
    pub fn source(
        session: &Arc<Shared>,
        asked: &Asked<'_, '_>,
        lend: impl FnOnce(u64) -> PyResult<Registered>,
    ) -> PyResult<Self> {
        let &Asked { object, start, stop, owner } = asked;
        if let Ok(buffer) = object.cast::<Buffer>() {
            let buffer = buffer.get();
            let registered = buffer.registered(session, owner)?;
            let part = part_of(registered.size_bytes(), start, stop)?;
            buffer.publish(&registered, &part)?;
            return Ok(Self { registered, part, sink: Sink::None, lent_by: None });
        }
        let view = View::of(object)?;
        let part = part_of(view.bytes(), start, stop)?;
        let bytes = part.end - part.start;
        let registered = lend(bytes)?;
        let write =
            |from: &[u8]| registered.write(0, &from[part.start as usize..part.end as usize]);
        view.with(object.py(), write).map_err(Failure::from)?;
        Ok(Self { registered, part: 0..bytes, sink: Sink::None, lent_by: Some(owner) })
    }

    /// Makes room for data that go to an object: a buffer's memory, or memory that is lent.
    ///
    /// # Errors
    /// An object that cannot take data, a part beyond it, or no memory.
    pub fn sink(
        session: &Arc<Shared>,
        asked: &Asked<'_, '_>,
        lend: impl FnOnce(u64) -> PyResult<Registered>,
    ) -> PyResult<Self> {
        let &Asked { object, start, stop, owner } = asked;
        if let Ok(buffer) = object.cast::<Buffer>() {
            let registered = buffer.get().registered(session, owner)?;
            let part = part_of(registered.size_bytes(), start, stop)?;
            let sink = Sink::Buffer(buffer.clone().unbind());
            return Ok(Self { registered, part, sink, lent_by: None });
        }
        let view = View::writable(object)?;
        if start != 0 || stop.is_some_and(|stop| stop != view.bytes()) {
            let problem = "start= and stop= are for a Buffer; take a part, memoryview(x)[a:b]";
            return Err(Failure::argument(problem).into());
        }
        let part = part_of(view.bytes(), 0, None)?;
        let registered = lend(part.end)?;
        Ok(Self { registered, part, sink: Sink::View(view), lent_by: Some(owner) })
    }
}

/// Memory of a transfer whose outcome is not known.
struct InFlight(Mutex<Option<Memory>>);

impl Held for InFlight {
    fn release(&self) {
        let memory = lock(&self.0).take();
        drop(memory);
    }
}

/// A transfer that was posted. It can be awaited.
#[pyclass(frozen, module = "crosslane")]
pub struct Transfer {
    session: Arc<Shared>,
    posted: Posted,
    bytes: u64,
    memory: Arc<InFlight>,
    outcome: Mutex<Option<PyResult<Completed>>>,
}

/// A coroutine's wait for a transfer.
#[pyclass(frozen, module = "crosslane")]
pub struct Waiting {
    transfer: Py<Transfer>,
    /// Turns that it has had.
    turns: AtomicU32,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let transfer = self.transfer.get();
        transfer.session.leave(transfer.posted);
    }
}

#[pymethods]
impl Waiting {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Looks whether it has ended; if not, the event loop goes on with others first.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let transfer = self.transfer.get();
        let outcome = match transfer.known(py) {
            Some(known) => known,
            None => {
                let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                match transfer.session.step(py, transfer.posted, turn)? {
                    Some(outcome) => transfer.take_in(py, outcome),
                    None => return Ok(Some(py.None())),
                }
            }
        };
        let completed = Py::new(py, outcome?)?;
        Err(PyStopIteration::new_err((completed,)))
    }
}

/// Outcome of a transfer.
#[pyclass(frozen, get_all, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// Bytes moved.
    bytes: u64,
    /// Time of its doorbell, picoseconds.
    posted_ps: u64,
    /// Time at which the host learnt of its completion, picoseconds.
    completed_ps: u64,
}

#[pymethods]
impl Completed {
    /// Seconds from its doorbell until the host learnt of its completion.
    #[getter]
    fn seconds(&self) -> f64 {
        Picoseconds(self.completed_ps.saturating_sub(self.posted_ps)).as_seconds()
    }

    /// Bytes divided by the seconds.
    #[getter]
    fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds()
    }

    fn __repr__(&self) -> String {
        format!("Completed(bytes={}, seconds={:.9})", self.bytes, self.seconds())
    }
}

impl Transfer {
    /// Takes a transfer that was posted, with its memory if it is the host's.
    pub fn new(session: &Arc<Shared>, posted: Posted, bytes: u64, memory: Option<Memory>) -> Self {
        let (memory, outcome) = (Arc::new(InFlight(Mutex::new(memory))), Mutex::new(None));
        session.hold(&memory);
        Self { session: Arc::clone(session), posted, bytes, memory, outcome }
    }

    /// Returns the outcome if it is known.
    fn known(&self, py: Python<'_>) -> Option<PyResult<Completed>> {
        let outcome = lock(&self.outcome);
        outcome.as_ref().map(|known| match known {
            Ok(completed) => Ok(completed.clone()),
            Err(error) => Err(error.clone_ref(py)),
        })
    }

    /// Takes the outcome in: the data go to the object that was given for them.
    fn take_in(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Completed> {
        let memory = lock(&self.memory.0).take();
        let outcome = match (outcome, memory) {
            (Err(error), _) => Err(error.into()),
            (Ok(done), memory) => {
                let Done { bytes, posted, completed } = done;
                // Of a batch of packets it is the outcome of the last one.
                let bytes = match self.posted {
                    Posted::Transfer(..) | Posted::Command(..) => self.bytes,
                    Posted::Message(_) | Posted::Packets(_) => bytes,
                };
                let completed = Completed { bytes, posted_ps: posted.0, completed_ps: completed.0 };
                let delivered = memory.map_or(Ok(()), |memory| self.deliver(py, memory, bytes));
                delivered.map(|()| completed)
            }
        };
        let result = match &outcome {
            Ok(completed) => Ok(completed.clone()),
            Err(error) => Err(error.clone_ref(py)),
        };
        *lock(&self.outcome) = Some(outcome);
        result
    }

    /// Gives the object the bytes that were moved: a message may be shorter than the room for it.
    fn deliver(&self, py: Python<'_>, memory: Memory, bytes: u64) -> PyResult<()> {
        let Memory { registered, part, sink, lent_by } = memory;
        let part = part.start..part.end.min(part.start.saturating_add(bytes));
        match &sink {
            Sink::None => {}
            Sink::View(view) => {
                let length = (part.end - part.start) as usize;
                let read = |into: &mut [u8]| {
                    registered.read(part.start, into.get_mut(..length).unwrap_or_default())
                };
                let read = view.with_mut(py, read);
                read.map_err(Failure::from)?;
            }
            Sink::Buffer(buffer) => buffer.get().fetch(&registered, &part)?,
        }
        if let Some(owner) = lent_by {
            self.session.give_spare(owner, registered);
        }
        Ok(())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.session.is_foreign() {
            std::mem::forget(Arc::clone(&self.memory));
        } else if lock(&self.outcome).is_none() {
            self.session.abandon(self.posted);
        }
    }
}

#[pymethods]
impl Transfer {
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it has ended, as far as this object knows.
    #[getter]
    fn done(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    /// Waits for its end, at most `deadline` seconds of the card's clock; it then goes on, and
    /// `DeadlineError` is raised.
    #[pyo3(signature = (deadline = None))]
    fn wait(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<Completed> {
        if let Some(known) = self.known(py) {
            return known;
        }
        let limit = |value| -> PyResult<Picoseconds> {
            let span = Picoseconds::from(seconds("deadline", value)?);
            Ok(Picoseconds(self.session.now()?.0.saturating_add(span.0)))
        };
        let limit = deadline.map(limit).transpose()?;
        match self.session.wait(py, self.posted, limit)? {
            Some(outcome) => self.take_in(py, outcome),
            None => {
                let waited = deadline.unwrap_or_default();
                let problem =
                    format!("the transfer of {} B has not ended in {waited} s", self.bytes);
                Err(Failure::deadline(problem).into())
            }
        }
    }

    /// Cancels it, and everything else that is in flight on the channel of a transfer.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.session.call(py, |state| state.cancel(self.posted))
    }

    fn __await__(slf: Py<Self>) -> Waiting {
        Waiting { transfer: slf, turns: AtomicU32::new(0) }
    }

    fn __repr__(&self) -> String {
        let state = if self.done() { "ended" } else { "posted" };
        format!("<crosslane.Transfer of {} B, {state}>", self.bytes)
    }
}
