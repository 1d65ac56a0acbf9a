// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers with cards of other nodes that were posted, and their outcomes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crosslane::bridge::{Outcome, Reloaded};
use crosslane::experiment::bridge_report;
use crosslane::host::{DmaMemory, RdmaRegion, lock};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::link::{Done, Ended, Flight, Link, Unfinished};
use crate::call::SIGNALS;
use crate::error::Failure;
use crate::transfer::seconds;
use crate::view::View;

/// Longest wait of a coroutine's turn, in which no other coroutine runs.
const TURN: Duration = Duration::from_micros(100);

/// A transfer with a card of another node, or its reload, that was posted. It can be awaited.
#[pyclass(frozen, module = "crosslane")]
pub struct BridgeTransfer {
    link: Arc<Link>,
    bytes: u64,
    /// Bytes at its beginning that an earlier transfer has moved.
    first: u64,
    flight: Arc<Flight>,
    /// Object that the data go to.
    sink: Mutex<Option<View>>,
    /// Outcome that Python code was told.
    known: Mutex<Option<PyResult<Told>>>,
}

impl Drop for BridgeTransfer {
    fn drop(&mut self) {
        if self.link.is_foreign() {
            std::mem::forget(Arc::clone(&self.flight));
        }
    }
}

/// Outcome as Python code sees it.
#[derive(Clone, IntoPyObject)]
enum Told {
    Completed(BridgeCompleted),
    Reloaded(BridgeReloaded),
}

fn cloned(py: Python<'_>, known: &PyResult<Told>) -> PyResult<Told> {
    match known {
        Ok(outcome) => Ok(outcome.clone()),
        Err(error) => Err(error.clone_ref(py)),
    }
}

impl BridgeTransfer {
    /// Takes a transfer of that many bytes, of which the first have been moved before, and whose
    /// data go to an object if there is one.
    pub fn new(
        link: Arc<Link>,
        flight: Arc<Flight>,
        (first, bytes): (u64, u64),
        sink: Option<View>,
    ) -> Self {
        Self { link, bytes, first, flight, sink: Mutex::new(sink), known: Mutex::default() }
    }

    /// Waits for the end, at most so long, and takes it in.
    fn look(&self, py: Python<'_>, time: Duration) -> PyResult<Option<Told>> {
        self.link.check()?;
        if let Some(known) = &*lock(&self.known) {
            return cloned(py, known).map(Some);
        }
        let Some(ended) = py.detach(|| self.flight.wait(time)) else { return Ok(None) };
        let outcome = self.take_in(py, ended);
        let mut known = lock(&self.known);
        cloned(py, known.get_or_insert(outcome)).map(Some)
    }

    /// Takes the outcome in: the data go to the object that was given for them.
    fn take_in(&self, py: Python<'_>, ended: Ended) -> PyResult<Told> {
        let memory = self.flight.take_memory();
        let sink = lock(&self.sink).take();
        let told = match ended {
            Ok(Done::Moved(outcome)) => Told::Completed(BridgeCompleted(outcome)),
            Ok(Done::Reloaded(reloaded)) => Told::Reloaded(BridgeReloaded(reloaded)),
            Ok(Done::Surveyed(_)) => return Err(self.link.closed().into()),
            Err(Unfinished::Failed(error)) => return Err(Failure::from(error).into()),
            Err(Unfinished::Closed) => return Err(self.link.closed().into()),
        };
        if let (Some(view), Some(to)) = (sink, memory.last()) {
            // The bytes moved before are in the object.
            let first = self.first;
            let read = |bytes: &mut [u8]| to.memory().read(first, &mut bytes[first as usize..]);
            view.with_mut(py, read).map_err(Failure::from)?;
        }
        self.link.give_back(memory);
        Ok(told)
    }
}

#[pymethods]
impl BridgeTransfer {
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.bytes
    }

    #[getter]
    fn arrived_bytes(&self) -> u64 {
        self.flight.arrived_bytes()
    }

    #[getter]
    fn done(&self) -> PyResult<bool> {
        self.link.check()?;
        Ok(self.flight.is_over())
    }

    /// Waits for its end, at most `deadline` seconds; it then goes on, and `DeadlineError` is
    /// raised.
    #[pyo3(signature = (deadline = None))]
    fn wait(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<Told> {
        let span = deadline.map(|value| seconds("deadline", value)).transpose()?;
        let begun = Instant::now();
        loop {
            let left = span.map_or(SIGNALS, |span| span.saturating_sub(begun.elapsed()));
            if let Some(completed) = self.look(py, left.min(SIGNALS))? {
                return Ok(completed);
            }
            py.check_signals()?;
            if span.is_some_and(|span| begun.elapsed() >= span) {
                let (bytes, waited) = (self.bytes, deadline.unwrap_or_default());
                let problem = format!("the transfer of {bytes} B has not ended in {waited} s");
                return Err(Failure::deadline(problem).into());
            }
        }
    }

    /// Has the server end it; it then fails with what has arrived.
    fn cancel(&self) -> PyResult<()> {
        self.link.check()?;
        self.flight.cancel();
        Ok(())
    }

    fn __await__(slf: Py<Self>) -> BridgeWaiting {
        BridgeWaiting { transfer: slf }
    }

    fn __repr__(&self) -> String {
        let has_ended = !self.link.is_foreign() && self.flight.is_over();
        let state = if has_ended { "ended" } else { "posted" };
        format!("<crosslane.BridgeTransfer of {} B, {state}>", self.bytes)
    }
}

/// A coroutine's wait for a transfer.
#[pyclass(frozen, module = "crosslane")]
pub struct BridgeWaiting {
    transfer: Py<BridgeTransfer>,
}

#[pymethods]
impl BridgeWaiting {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Looks whether it has ended; if not, the event loop goes on with others first.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.transfer.get().look(py, TURN)? {
            Some(completed) => {
                Err(PyStopIteration::new_err((completed.into_pyobject(py)?.unbind(),)))
            }
            None => Ok(Some(py.None())),
        }
    }
}

/// Outcome of a transfer with a card of another node.
#[pyclass(frozen, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeCompleted(Outcome);

#[pymethods]
impl BridgeCompleted {
    /// Bytes moved.
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.report.bytes
    }

    /// Seconds from the request until this node knew that all was done.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.elapsed.as_seconds()
    }

    /// Bytes divided by the seconds.
    #[getter]
    fn bytes_per_second(&self) -> f64 {
        self.0.bytes_per_second()
    }

    /// Sentence that says why it was not faster.
    #[getter]
    fn why(&self) -> String {
        self.0.report.why_not_faster()
    }

    /// The server's report: times and bytes of every stage.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = serde_json::to_string(&bridge_report(&self.0.report));
        let report = report.map_err(|error| Failure::argument(format!("the report: {error}")))?;
        py.import("json")?.call_method1("loads", (report,))
    }

    fn __repr__(&self) -> String {
        format!("BridgeCompleted(bytes={}, seconds={:.6})", self.bytes(), self.seconds())
    }
}

/// A card of a server that was reloaded.
#[pyclass(frozen, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeReloaded(Reloaded);

#[pymethods]
impl BridgeReloaded {
    /// Bytes of the image, the same at both ends.
    #[getter]
    const fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// SHA-256 of the image, the same at both ends.
    #[getter]
    fn sha256<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.sha256)
    }

    /// The last lines that the server's program has written.
    #[getter]
    fn said(&self) -> &str {
        &self.0.said
    }

    /// Seconds from the request until the card was served again.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.elapsed.as_seconds()
    }

    fn __repr__(&self) -> String {
        format!("BridgeReloaded(bytes={}, seconds={:.6})", self.0.bytes, self.seconds())
    }
}
