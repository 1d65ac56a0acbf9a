// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers that were posted, and their outcomes.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane::driver::{Buffer as Registered, Completed as Done, TransferError};
use crosslane::host::lock;
use crosslane::open::AnyBus;
use crosslane::pcie::units::Picoseconds;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::error::Failure;
use crate::session::{Held, LineKey, Shared};
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
    pub registered: Registered<AnyBus>,
    /// Its part.
    pub part: Range<u64>,
    /// The object that the data go to.
    pub sink: Sink,
    /// Whether the memory was lent for this transfer.
    pub is_spare: bool,
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
    key: LineKey,
    ticket: u64,
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
        transfer.session.leave(transfer.key, transfer.ticket);
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
                let (key, ticket) = (transfer.key, transfer.ticket);
                match transfer.session.step(py, key, ticket, turn)? {
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
    /// Takes a transfer that was posted.
    pub fn new(
        session: Arc<Shared>,
        key: LineKey,
        ticket: u64,
        bytes: u64,
        memory: Memory,
    ) -> Self {
        let memory = Arc::new(InFlight(Mutex::new(Some(memory))));
        session.hold(&memory);
        let outcome = Mutex::new(None);
        Self { session, key, ticket, bytes, memory, outcome }
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
    fn take_in(&self, py: Python<'_>, outcome: Result<Done, TransferError>) -> PyResult<Completed> {
        let memory = lock(&self.memory.0).take();
        let outcome = match (outcome, memory) {
            (Err(error), _) => Err(Failure::from(error).into()),
            (Ok(done), memory) => {
                let Done { bytes, posted, completed } = done;
                let completed = Completed { bytes, posted_ps: posted.0, completed_ps: completed.0 };
                let delivered = memory.map_or(Ok(()), |memory| self.deliver(py, memory));
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

    fn deliver(&self, py: Python<'_>, memory: Memory) -> PyResult<()> {
        let Memory { registered, part, sink, is_spare } = memory;
        match &sink {
            Sink::None => {}
            Sink::View(view) => {
                let read = view.with_mut(py, |bytes| registered.read(part.start, bytes));
                read.map_err(Failure::from)?;
            }
            Sink::Buffer(buffer) => buffer.get().fetch(&registered, &part)?,
        }
        if is_spare {
            self.session.give_spare(self.key.0, registered);
        }
        Ok(())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.session.is_foreign() {
            std::mem::forget(Arc::clone(&self.memory));
        } else if lock(&self.outcome).is_none() {
            self.session.abandon(self.key, self.ticket);
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

    /// Waits for the end of the transfer, at most `deadline` seconds of the card's clock.
    #[pyo3(signature = (deadline = None))]
    fn wait(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<Completed> {
        if let Some(known) = self.known(py) {
            return known;
        }
        let span = deadline.map(|value| seconds("deadline", value)).transpose()?;
        let now = self.session.now()?;
        let limit = span.map(|it| Picoseconds(now.0.saturating_add(Picoseconds::from(it).0)));
        match self.session.wait(py, self.key, self.ticket, limit)? {
            Some(outcome) => self.take_in(py, outcome),
            None => {
                let waited = deadline.unwrap_or_default();
                let problem =
                    format!("the transfer of {} B has not ended in {waited} s", self.bytes);
                Err(Failure::deadline(problem).into())
            }
        }
    }

    /// Cancels it, and everything else that is in flight on its channel.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.session.call(py, |state| state.cancel(self.key))
    }

    fn __await__(slf: Py<Self>) -> Waiting {
        Waiting { transfer: slf, turns: AtomicU32::new(0) }
    }

    fn __repr__(&self) -> String {
        let state = if self.done() { "ended" } else { "posted" };
        format!("<crosslane.Transfer of {} B, {state}>", self.bytes)
    }
}
