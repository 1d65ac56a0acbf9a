// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network processors: gets and credits between host memory and the links of a torus.

use std::ops::Range;
use std::sync::Arc;

use crosslane::driver::Buffer as Registered;
use crosslane::driver::network_processor::{
    Buffers, Key, Message, Modes, NetworkProcessor as Opened, Requests, TorusDimension,
};
use crosslane::host::{Bus, Mapping, Topology, Waiting};
use crosslane::open::AnyBus;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::buffer::Buffer;
use crate::error::Failure;
use crate::kept::leave;
use crate::session::{Owner, Shared};
use crate::state::State;
use crate::transfer::{Asked, Memory, Transfer, seconds};

/// An open network processor.
#[pyclass(frozen, module = "crosslane")]
pub struct NetworkProcessor {
    session: Arc<Shared>,
    /// Number in the session.
    number: u64,
    #[pyo3(get)]
    name: String,
    /// Number of its links.
    #[pyo3(get)]
    links: u8,
}

/// Modes of a network processor, by their words.
pub struct Words<'a> {
    /// Memory of messages.
    pub buffers: &'a str,
    /// Means of writing requests.
    pub requests: &'a str,
    /// Means of waiting.
    pub waiting: &'a str,
}

impl Words<'_> {
    fn modes(&self, bus: &AnyBus, name: &str) -> Result<Modes, Failure> {
        let buffers = match self.buffers {
            "user" => Buffers::User,
            "copied" => Buffers::Copied,
            "mapped" => Buffers::Mapped,
            other => {
                let problem = format!("buffers {other:?}: they are 'user', 'copied' or 'mapped'");
                return Err(Failure::argument(problem));
            }
        };
        let requests = match self.requests {
            "fastest" => {
                let functions = bus.functions().map_err(crosslane::host::BusError::from)?;
                let function = functions.iter().find(|function| function.name == name);
                // Without the function the opening fails, and says so.
                function.map_or(Requests::SystemCall, |found| Requests::fastest(bus, found.id))
            }
            "system_call" => Requests::SystemCall,
            "uncached" => Requests::Stores(Mapping::Uncached),
            other => {
                let known = "they are 'fastest', 'system_call' or 'uncached'";
                return Err(Failure::argument(format!("requests {other:?}: {known}")));
            }
        };
        let waiting = match self.waiting {
            "polling" => Waiting::Polling,
            "kernel_polling" => Waiting::KernelPolling,
            "monitor" => Waiting::Monitor,
            other => {
                let known = "it is 'polling', 'kernel_polling' or 'monitor'";
                return Err(Failure::argument(format!("waiting {other:?}: {known}")));
            }
        };
        let modes = Modes::default().with_buffers(buffers).with_requests(requests);
        Ok(modes.with_waiting(waiting))
    }
}

/// A message that is asked for.
struct Wanted {
    key: Key,
    deadline: f64,
    is_get: bool,
}

/// Returns the key of a message: that of a link, or of a node of the torus.
fn key(link: Option<u8>, channel: u8, node: Option<u16>, tag: u8) -> Result<Key, Failure> {
    match (link, node) {
        (Some(link), None) => Ok(Key::Neighbour { link, channel, tag }),
        (None, Some(node)) => Ok(Key::Routed { node, tag }),
        _ => Err(Failure::argument("a message has either link= or node=")),
    }
}

impl NetworkProcessor {
    /// Opens the network processor of a function, in a lab of any host.
    pub fn open(
        py: Python<'_>,
        session: &Arc<Shared>,
        name: &str,
        words: &Words<'_>,
    ) -> PyResult<Self> {
        let (number, name, links) = session.call(py, |state| {
            let bus = state.bus_of(name);
            let modes = words.modes(&bus, name)?;
            let opened = state.run(Opened::init(bus, name, modes))?;
            let (name, links) = (opened.name().to_owned(), opened.sizes().links);
            Ok((state.add_processor(opened), name, links))
        })?;
        Ok(Self { session: Arc::clone(session), number, name, links })
    }

    const fn owner(&self) -> Owner {
        Owner::Network(self.number)
    }

    /// Makes a call with the network processor.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut State, Opened) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.session.call(py, |state| {
            let opened = state.processor(self.number)?;
            call(state, opened)
        })
    }

    /// Posts a message with its memory.
    fn post(&self, py: Python<'_>, asked: &Wanted, memory: Memory) -> PyResult<Transfer> {
        let span = seconds("deadline", asked.deadline)?;
        let (key, part): (Key, Range<u64>) = (asked.key, memory.part.clone());
        let bytes = part.end - part.start;
        let buffer: Registered = memory.registered.clone();
        let posted = self.call(py, |state, opened| {
            let deadline = opened.bus().after(span);
            let message = Message { key, buffer, part, deadline };
            let in_flight = match asked.is_get {
                true => state.run(opened.nget(message))?,
                false => state.run(opened.credit(message))?,
            };
            Ok(state.add_message(opened, in_flight))
        })?;
        Ok(Transfer::new(&self.session, posted, bytes, Some(memory)))
    }

    fn spare(&self, py: Python<'_>, bytes: u64) -> PyResult<Registered> {
        self.session.spare(py, self.owner(), bytes, |state, bytes| {
            let opened = state.processor(self.number)?;
            state.run(opened.buffer(bytes))
        })
    }
}

#[pymethods]
impl NetworkProcessor {
    /// Enables a link, which then trains. Both ends must be enabled.
    fn enable_link(&self, py: Python<'_>, link: u8) -> PyResult<()> {
        self.call(py, |state, opened| state.run(opened.enable_link(link)))
    }

    /// Waits until a link is up.
    #[pyo3(signature = (link, *, deadline = 10.0))]
    fn wait_link_up(&self, py: Python<'_>, link: u8, deadline: f64) -> PyResult<()> {
        let span = seconds("deadline", deadline)?;
        self.call(py, |state, opened| {
            let deadline = opened.bus().after(span);
            state.run(opened.wait_link_up(link, deadline))
        })
    }

    /// Sets the node's position in a torus: size, position and whether the ring is open, for each
    /// dimension.
    fn place_in_torus(&self, py: Python<'_>, dimensions: Vec<(u16, u16, bool)>) -> PyResult<()> {
        let dimensions: Vec<TorusDimension> = dimensions
            .into_iter()
            .map(|(size, position, is_open)| TorusDimension { size, position, is_open })
            .collect();
        self.call(py, |state, opened| state.run(opened.place_in_torus(&dimensions)))
    }

    /// Registers memory for messages.
    fn buffer(&self, py: Python<'_>, bytes: u64) -> PyResult<Buffer> {
        let registered = self.call(py, |state, opened| {
            if bytes == 0 {
                return Err(Failure::argument("a buffer of 0 B is not possible"));
            }
            state.run(opened.buffer(bytes))
        })?;
        let memory = registered.memory().clone();
        Ok(Buffer::new(&self.session, self.owner(), &memory, registered)?)
    }

    /// Posts a message along a link, or to a node of the torus. `deadline` is the longest wait for
    /// a place for its request.
    #[pyo3(signature = (data, *, link = None, channel = 0, node = None, tag = 0, start = 0,
                        stop = None, deadline = 10.0))]
    #[expect(clippy::too_many_arguments, reason = "parts of a message, by name")]
    fn nget(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        link: Option<u8>,
        channel: u8,
        node: Option<u16>,
        tag: u8,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let key = key(link, channel, node, tag)?;
        let asked = Wanted { key, deadline, is_get: true };
        let from = Asked { object: data, start, stop, owner: self.owner() };
        let lend = |bytes| self.spare(py, bytes);
        self.post(py, &asked, Memory::source(&self.session, &from, lend)?)
    }

    /// Makes room for a message: from a link, or from a node of the torus.
    #[pyo3(signature = (target, *, link = None, channel = 0, node = None, tag = 0, start = 0,
                        stop = None, deadline = 10.0))]
    #[expect(clippy::too_many_arguments, reason = "parts of a message, by name")]
    fn credit(
        &self,
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        link: Option<u8>,
        channel: u8,
        node: Option<u16>,
        tag: u8,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let key = key(link, channel, node, tag)?;
        let asked = Wanted { key, deadline, is_get: false };
        let into = Asked { object: target, start, stop, owner: self.owner() };
        let lend = |bytes| self.spare(py, bytes);
        self.post(py, &asked, Memory::sink(&self.session, &into, lend)?)
    }

    /// Returns the counters since its reset.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.call(py, |state, opened| state.run(opened.counters()))?;
        let named = PyDict::new(py);
        named.set_item("gets", found.gets)?;
        named.set_item("credits", found.credits)?;
        named.set_item("puts", found.puts)?;
        named.set_item("refused", found.refused)?;
        named.set_item("forwarded", found.forwarded)?;
        named.set_item("misrouted", found.misrouted)?;
        named.set_item("waiting", found.waiting)?;
        Ok(named)
    }

    /// Resets it, and closes it. Messages in flight end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.session.drop_spare(self.owner());
        self.session.call(py, |state| state.close_processor(self.number))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.NetworkProcessor {} of {} links>", self.name, self.links)
    }
}
