// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots: small messages through a window onto memory, in any mapping.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosslane::driver::{SlotReceiver as Receiver, SlotSender as Sender};
use crosslane::host::lock;
use crosslane::pcie::units::Picoseconds;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Failure;
use crate::kept::Kept;
use crate::session::Shared;
use crate::transfer::seconds;
use crate::view::View;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_nanos(100);

/// Looks for something until it is there, at most for some seconds of the session's clock. Others
/// have their turns with the session meanwhile.
fn look_until<T>(
    py: Python<'_>,
    session: &Shared,
    (deadline, missing): (f64, &str),
    look: impl Fn() -> PyResult<Option<T>>,
) -> PyResult<T> {
    let span = seconds("deadline", deadline)?;
    let limit = Picoseconds(session.now()?.0.saturating_add(Picoseconds::from(span).0));
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if session.now()? >= limit {
            return Err(Failure::deadline(format!("{missing} in {deadline} s")).into());
        }
        session.call(py, |state| state.sleep(PAUSE))?;
        py.check_signals()?;
    }
}

/// The sending end of slots. A message has at most 47 B.
#[pyclass(frozen, module = "crosslane")]
pub struct SlotSender {
    sender: Kept<Mutex<Sender>>,
    #[pyo3(get)]
    slots: u64,
}

impl SlotSender {
    /// Takes a sender that was just made.
    pub fn new(session: &Arc<Shared>, sender: Sender) -> Self {
        let slots = sender.slots();
        Self { sender: Kept::new(session, "the sender of slots", Mutex::new(sender)), slots }
    }

    fn store(&self, py: Python<'_>, message: &[u8]) -> PyResult<Option<()>> {
        let is_sent = self.sender.call(py, |state, it| state.run(lock(it).try_send(message)))?;
        Ok(is_sent.then_some(()))
    }
}

#[pymethods]
impl SlotSender {
    /// Sends a message if a slot is free, and returns whether one was.
    fn try_send(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let message = View::of(message)?.with(py, <[u8]>::to_vec);
        Ok(self.store(py, &message)?.is_some())
    }

    /// Sends a message, once a slot is free.
    #[pyo3(signature = (message, *, deadline = 10.0))]
    fn send(&self, py: Python<'_>, message: &Bound<'_, PyAny>, deadline: f64) -> PyResult<()> {
        let message = View::of(message)?.with(py, <[u8]>::to_vec);
        let missing = (deadline, "no slot was free");
        look_until(py, self.sender.session(), missing, || self.store(py, &message))
    }

    /// Makes all messages sent so far visible to the receiver: a fence.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.sender.call(py, |state, sender| state.run(lock(sender).flush()))
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.SlotSender of {} slots>", self.slots)
    }
}

/// The receiving end of slots.
#[pyclass(frozen, module = "crosslane")]
pub struct SlotReceiver {
    receiver: Kept<Mutex<Receiver>>,
}

impl SlotReceiver {
    /// Takes a receiver that was just made.
    pub fn new(session: &Arc<Shared>, receiver: Receiver) -> Self {
        Self { receiver: Kept::new(session, "the receiver of slots", Mutex::new(receiver)) }
    }

    fn load(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.receiver.call(py, |state, it| state.run(lock(it).try_receive()))
    }
}

#[pymethods]
impl SlotReceiver {
    /// Takes the next message if it has arrived in whole, and frees its slot.
    fn try_receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.load(py)?.map(|message| PyBytes::new(py, &message)))
    }

    /// Waits for the next message, and frees its slot.
    #[pyo3(signature = (*, deadline = 10.0))]
    fn receive<'py>(&self, py: Python<'py>, deadline: f64) -> PyResult<Bound<'py, PyBytes>> {
        let missing = (deadline, "no message has arrived");
        let message = look_until(py, self.receiver.session(), missing, || self.load(py))?;
        Ok(PyBytes::new(py, &message))
    }
}
