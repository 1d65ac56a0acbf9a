// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions and cards as Python code sees them.

use std::ops::Range;
use std::sync::Arc;

use crosslane::driver::{
    Buffer as Registered, ChannelKind, StreamSource, Target, Transfer as Posted,
};
use crosslane::host::{Bus, PageSize};
use crosslane::open::{AnyBus, AnyMemory, DeviceName, Session as Opened, SessionOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer::Buffer;
use crate::call::without_gil;
use crate::error::Failure;
use crate::lab::{Lab, engine_kind};
use crate::session::{LineKey, Shared};
use crate::transfer::{Memory, Sink, Transfer, seconds};
use crate::view::View;

/// Seconds after which a transfer has failed, unless the caller says another time.
const DEADLINE_SECONDS: f64 = 10.0;

/// Cards that are open, of one host.
#[pyclass(frozen, module = "crosslane")]
pub struct Session {
    shared: Arc<Shared>,
    cards: Vec<Py<Card>>,
}

/// An open card.
#[pyclass(frozen, module = "crosslane")]
pub struct Card {
    shared: Arc<Shared>,
    index: usize,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    address: String,
}

/// Opens cards by their name, or those of a lab that is at hand.
#[pyfunction]
#[pyo3(signature = (name, *, endpoint = None, engine = None, seed = 1))]
pub fn open(
    py: Python<'_>,
    name: &Bound<'_, PyAny>,
    endpoint: Option<&str>,
    engine: Option<&str>,
    seed: u64,
) -> PyResult<Session> {
    let engine = engine.map(engine_kind).transpose()?;
    let (name, session) = if let Ok(lab) = name.cast::<Lab>() {
        let lab = lab.get().with_engine_kind(engine);
        let name = lab.name().to_owned();
        let options = SessionOptions::default().with_seed(seed);
        let opened =
            without_gil(py, || Ok(Moved(Opened::open_in(&lab, &name, &[endpoint], options)?)))?;
        (format!("lab:{name}"), opened)
    } else {
        if endpoint.is_some() {
            return Err(Failure::argument("endpoint= is for labs; a name has it: lab:LAB/X").into());
        }
        let names: Vec<String> = match name.extract::<String>() {
            Ok(name) => vec![name],
            Err(_) => name
                .extract()
                .map_err(|_| Failure::argument("a name, a list of names, or a Lab is expected"))?,
        };
        let shown = names.join(", ");
        let engines = engine.unwrap_or_default();
        let opened = without_gil(py, || {
            let parsed = names.iter().map(|name| name.parse::<DeviceName>());
            let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
            let options = SessionOptions::default().with_engines(engines).with_seed(seed);
            Ok(Moved(Opened::open_all(&parsed, options)?))
        })?;
        (shown, opened)
    };
    let Moved(session) = session;
    let found: Vec<(String, String)> =
        session.cards().iter().map(|card| (card.name.clone(), card.function.to_string())).collect();
    let shared = Shared::new(name, session);
    let cards = found.into_iter().enumerate().map(|(index, (name, address))| {
        Py::new(py, Card { shared: Arc::clone(&shared), index, name, address })
    });
    let cards = cards.collect::<PyResult<_>>()?;
    Ok(Session { shared, cards })
}

/// A session that was just opened and that its thread has not used yet.
struct Moved(Opened);

#[allow(unsafe_code)]
// SAFETY: no future was spawned in it, and nothing else refers to its cells.
unsafe impl Send for Moved {}

#[pymethods]
impl Session {
    #[getter]
    fn cards(&self, py: Python<'_>) -> Vec<Py<Card>> {
        self.cards.iter().map(|card| card.clone_ref(py)).collect()
    }

    /// Returns a card by its name or its number.
    #[pyo3(signature = (which = None))]
    fn card(&self, py: Python<'_>, which: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Card>> {
        let found = match which {
            None => self.cards.first(),
            Some(which) => match which.extract::<usize>() {
                Ok(index) => self.cards.get(index),
                Err(_) => {
                    let name: String = which.extract()?;
                    self.cards.iter().find(|card| card.get().name == name)
                }
            },
        };
        let names: Vec<&str> = self.cards.iter().map(|card| card.get().name.as_str()).collect();
        let missing = || {
            let which = which.map_or_else(String::new, ToString::to_string);
            Failure::argument(format!("there is no card {which}; there are {}", names.join(", ")))
        };
        Ok(found.ok_or_else(missing)?.clone_ref(py))
    }

    /// Time of the cards' bus in seconds: simulated in a lab.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        Ok(self.shared.now()?.as_seconds())
    }

    /// The same in picoseconds.
    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        Ok(self.shared.now()?.0)
    }

    #[getter]
    fn is_lab(&self) -> bool {
        self.shared.is_lab
    }

    #[getter]
    fn closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Lets time pass: simulated in a lab.
    fn sleep(&self, py: Python<'_>, span: f64) -> PyResult<()> {
        let span = seconds("span", span)?;
        self.shared.call(py, |state| state.sleep(span))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py, false)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.shared.close(py, !raised.is_none())
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Session {}>", self.shared.name)
    }
}

/// The kind of a transfer, its address in the card and its deadline.
struct Job {
    kind: ChannelKind,
    address: Option<u64>,
    deadline: f64,
}

impl Card {
    fn key(&self, job: &Job) -> LineKey {
        (self.index, job.kind, job.address.is_some())
    }

    /// Posts a transfer with a part of registered memory.
    fn post(&self, py: Python<'_>, job: &Job, memory: Memory) -> PyResult<Transfer> {
        let deadline = seconds("deadline", job.deadline)?;
        let (part, key) = (memory.part.clone(), self.key(job));
        let bytes = part.end - part.start;
        let registered: Registered<AnyBus> = memory.registered.clone();
        let target = match job.address {
            Some(address) => Target::Card(registered, part, address),
            None => Target::Buffer(registered, part),
        };
        let ticket = self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            let deadline = device.bus().after(deadline);
            state.post(key, Posted::new(target, deadline))
        })?;
        Ok(Transfer::new(Arc::clone(&self.shared), key, ticket, bytes, memory))
    }
}

/// Returns the part of something with `bytes` bytes.
fn part_of(bytes: u64, start: u64, stop: Option<u64>) -> Result<Range<u64>, Failure> {
    let stop = stop.unwrap_or(bytes);
    if start < stop && stop <= bytes {
        return Ok(start..stop);
    }
    let problem = format!("bytes {start} to {stop} of {bytes} B: they have to be within it");
    Err(Failure::argument(format!("{problem}, and at least one")))
}

#[pymethods]
impl Card {
    /// Registers memory that this card reaches.
    #[pyo3(signature = (bytes, *, huge = true))]
    fn buffer(&self, py: Python<'_>, bytes: u64, huge: bool) -> PyResult<Buffer> {
        let pages = if huge { PageSize::Huge } else { PageSize::Small };
        let (memory, registered) = self.shared.call(py, |state| {
            let device = state.device(self.index)?;
            if bytes == 0 {
                return Err(Failure::argument("a buffer of 0 B is not possible"));
            }
            let memory: AnyMemory = device.bus().allocate(bytes, pages)?;
            let registered = state.run(device.register(memory.clone()))?;
            Ok((memory, registered))
        })?;
        Ok(Buffer::new(Arc::clone(&self.shared), self.index, &memory, registered)?)
    }

    /// Posts a transfer of data to the card: to its stream, or to an address of its memory.
    #[pyo3(signature = (data, address = None, *, start = 0, stop = None,
                        deadline = DEADLINE_SECONDS))]
    fn to_card(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        address: Option<u64>,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let job = Job { kind: ChannelKind::H2c, address, deadline };
        if let Ok(buffer) = data.cast::<Buffer>() {
            let buffer = buffer.get();
            let registered = buffer.registered(&self.shared, self.index)?;
            let part = part_of(registered.size_bytes(), start, stop)?;
            buffer.publish(&registered, &part)?;
            let memory = Memory { registered, part, sink: Sink::None, is_spare: false };
            return self.post(py, &job, memory);
        }
        let view = View::of(data)?;
        let part = part_of(view.bytes(), start, stop)?;
        let bytes = part.end - part.start;
        let registered = self.shared.spare(py, self.index, bytes)?;
        let write =
            |from: &[u8]| registered.write(0, &from[part.start as usize..part.end as usize]);
        view.with(py, write).map_err(Failure::from)?;
        let memory = Memory { registered, part: 0..bytes, sink: Sink::None, is_spare: true };
        self.post(py, &job, memory)
    }

    /// Posts a transfer of data from the card: from its stream, or from an address of its memory.
    #[expect(clippy::wrong_self_convention, reason = "the name in Python")]
    #[pyo3(signature = (target, address = None, *, start = 0, stop = None,
                        deadline = DEADLINE_SECONDS))]
    fn from_card(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        address: Option<u64>,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let job = Job { kind: ChannelKind::C2h, address, deadline };
        if let Ok(buffer) = target.cast::<Buffer>() {
            let registered = buffer.get().registered(&self.shared, self.index)?;
            let part = part_of(registered.size_bytes(), start, stop)?;
            let sink = Sink::Buffer(buffer.clone().unbind());
            return self.post(py, &job, Memory { registered, part, sink, is_spare: false });
        }
        let view = View::writable(target)?;
        if start != 0 || stop.is_some_and(|stop| stop != view.bytes()) {
            let problem = "start= and stop= are for a Buffer; take a part, memoryview(x)[a:b]";
            return Err(Failure::argument(problem).into());
        }
        let part = part_of(view.bytes(), 0, None)?;
        let registered = self.shared.spare(py, self.index, part.end)?;
        let memory = Memory { registered, part, sink: Sink::View(view), is_spare: true };
        self.post(py, &job, memory)
    }

    /// Chooses the data of the stream to host memory: the generator's, or those that come in.
    fn route(&self, py: Python<'_>, source: &str) -> PyResult<()> {
        let source = match source {
            "generator" => StreamSource::Generator,
            "h2c" => StreamSource::H2c,
            other => {
                let problem = format!("source {other:?}: it is 'generator' or 'h2c'");
                return Err(Failure::argument(problem).into());
            }
        };
        self.shared.call(py, |state| state.route(self.index, source))
    }

    /// Sets the seed of the generator's pattern.
    fn seed(&self, py: Python<'_>, seed: u32) -> PyResult<()> {
        self.shared.call(py, |state| state.seed(self.index, seed))
    }

    /// Resets the card; transfers in flight are lost.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.call(py, |state| state.reset(self.index))
    }

    /// Returns the engine's abilities.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.shared.call(py, |state| Ok(state.device(self.index)?.description()))?;
        let named = PyDict::new(py);
        named.set_item("h2c_channels", found.h2c_channels)?;
        named.set_item("c2h_channels", found.c2h_channels)?;
        named.set_item("peer_channels", found.peer_channels)?;
        named.set_item("receive_queues", found.lanes)?;
        named.set_item("vectors", found.vectors)?;
        named.set_item("tags", found.tags)?;
        named.set_item("table_entries", found.table_entries)?;
        named.set_item("card_memory", found.card_memory)?;
        named.set_item("card_copy", found.card_copy)?;
        named.set_item("max_write_bytes", found.max_write_bytes)?;
        named.set_item("max_read_bytes", found.max_read_bytes)?;
        named.set_item("clock_ps", found.clock.0)?;
        Ok(named)
    }

    /// Time of the card's bus in seconds.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        Ok(self.shared.now()?.as_seconds())
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Card {} at {}>", self.name, self.address)
    }
}
