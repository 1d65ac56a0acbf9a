// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peers: receive queues of other cards, which cards write to, and memory of other cards, which
//! cards read.

use std::ops::Range;
use std::sync::Arc;

use crosslane::driver::{
    Check as Found, CompletionLevel, Peer as Connection, PeerMemory as Opened, PeerOptions,
    PingPong as Measured, ReceiveQueuePolicy, Transfer as Posting,
};
use crosslane::host::Bus;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::card::{Job, level_of};
use crate::error::Failure;
use crate::kept::{Kept, leave};
use crate::plan::Plan;
use crate::posted::ChannelKey;
use crate::session::Shared;
use crate::state::State;
use crate::transfer::{Transfer, seconds};

/// A connection from a card's peer channel to a receive queue of another card.
#[pyclass(frozen, module = "crosslane")]
pub struct Peer {
    connection: Kept<Connection>,
    /// Number that its transfers stand on.
    number: u64,
    /// The sender's channel.
    key: ChannelKey,
    #[pyo3(get)]
    plan: Plan,
    #[pyo3(get)]
    address: u64,
    #[pyo3(get)]
    receive_queue: u8,
    #[pyo3(get)]
    has_credits: bool,
}

/// Result of a checker, which compares data with the generator's pattern.
#[pyclass(frozen, get_all, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Number of wrong words of 4 B.
    errors: u32,
    /// Position of the first wrong word.
    first_word: Option<u32>,
}

impl From<Found> for Check {
    fn from(Found { errors, first_word }: Found) -> Self {
        Self { errors, first_word }
    }
}

#[pymethods]
impl Check {
    fn __repr__(&self) -> String {
        let first = self.first_word.map_or_else(|| "None".to_owned(), |word| word.to_string());
        format!("Check(errors={}, first_word={first})", self.errors)
    }
}

/// Round trips of a ping-pong, as measured by the sender's hardware timer.
#[pyclass(frozen, get_all, eq, module = "crosslane")]
#[derive(Clone, Debug, PartialEq)]
pub struct PingPong {
    /// Number of round trips.
    rounds: u32,
    /// Sum of their times, clocks of the engine.
    sum_clocks: u64,
    /// Shortest time, clocks.
    least_clocks: u32,
    /// Longest time, clocks.
    most_clocks: u32,
}

impl From<Measured> for PingPong {
    fn from(Measured { rounds, sum_clocks, least_clocks, most_clocks }: Measured) -> Self {
        Self { rounds, sum_clocks, least_clocks, most_clocks }
    }
}

#[pymethods]
impl PingPong {
    fn __repr__(&self) -> String {
        let Self { rounds, sum_clocks, least_clocks, most_clocks } = self;
        format!(
            "PingPong(rounds={rounds}, sum_clocks={sum_clocks}, least_clocks={least_clocks}, \
             most_clocks={most_clocks})"
        )
    }
}

impl Peer {
    /// Connects two cards of a session.
    pub fn connect(
        py: Python<'_>,
        session: &Arc<Shared>,
        key: ChannelKey,
        target: usize,
        credits: bool,
        policy: &str,
    ) -> PyResult<Self> {
        let policy = match policy {
            "stall" => ReceiveQueuePolicy::Stall,
            "drop" => ReceiveQueuePolicy::Drop,
            other => {
                let problem = format!("policy {other:?}: it is 'stall' or 'drop'");
                return Err(Failure::argument(problem).into());
            }
        };
        let options = PeerOptions::default().with_channel(key.number);
        let options = options.with_credits(credits).with_policy(policy);
        let (connection, number) = session.call(py, |state| {
            let (sender, target) = (state.device(key.card)?, state.device(target)?);
            let connection = state.run(sender.connect(&target, options))?;
            Ok((connection, state.next_number()))
        })?;
        Ok(Self {
            number,
            key,
            plan: connection.plan().into(),
            address: connection.address().0,
            receive_queue: connection.receive_queue(),
            has_credits: credits,
            connection: Kept::new(session, "the peer", connection),
        })
    }
}

#[pymethods]
impl Peer {
    /// Posts a transfer of bytes of the sender's stream. With credits it is complete when the peer
    /// has taken them, else when they were sent.
    #[pyo3(signature = (bytes, *, level = None, deadline = 10.0))]
    fn write(
        &self,
        py: Python<'_>,
        bytes: u64,
        level: Option<&str>,
        deadline: f64,
    ) -> PyResult<Transfer> {
        let span = seconds("deadline", deadline)?;
        let strongest = match self.has_credits {
            true => CompletionLevel::Acknowledged,
            false => CompletionLevel::Sent,
        };
        let level = level_of(level, strongest)?;
        let posted = self.connection.call(py, |state, connection| {
            let transfer = Posting::new(connection.target(bytes), state.bus().after(span));
            state.post((self.key, false), transfer.with_level(level), Some(self.number))
        })?;
        Ok(Transfer::new(self.connection.session(), posted, bytes, None))
    }

    /// Has the circuit behind the sender's engine write so many bytes of the sender's stream to the
    /// receive queue, at the command port.
    #[pyo3(signature = (bytes, *, deadline = 10.0))]
    fn command(&self, py: Python<'_>, bytes: u32, deadline: f64) -> PyResult<Transfer> {
        let span = seconds("deadline", deadline)?;
        let posted = self.connection.call(py, |state, _| {
            let until = state.bus().after(span);
            state.command(self.key, (self.address, bytes), until, self.number)
        })?;
        Ok(Transfer::new(self.connection.session(), posted, bytes.into(), None))
    }

    /// Makes round trips with the other card, at the command port.
    #[pyo3(signature = (bytes, rounds, *, deadline = 10.0))]
    fn ping_pong(
        &self,
        py: Python<'_>,
        bytes: u32,
        rounds: u16,
        deadline: f64,
    ) -> PyResult<PingPong> {
        let span = seconds("deadline", deadline)?;
        let made = self.connection.call(py, |state, _| {
            let until = state.bus().after(span);
            state.ping_pong(self.key, (self.address, bytes), rounds, until)
        })?;
        Ok(made.into())
    }

    /// Starts comparing what the receive queue takes with the generator's pattern of a seed.
    fn check(&self, py: Python<'_>, seed: u32) -> PyResult<()> {
        self.connection.call(py, |state, connection| state.run(connection.check(seed)))
    }

    /// Returns what the receive queue's checker has found so far.
    fn check_result(&self, py: Python<'_>) -> PyResult<Check> {
        let found = self.connection.call(py, |state, it| state.run(it.check_result()))?;
        Ok(found.into())
    }

    /// Returns the counters of the receive queue.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.connection.call(py, |state, it| state.run(it.counters()))?;
        let named = PyDict::new(py);
        named.set_item("received_bytes", found.received_bytes)?;
        named.set_item("drained_bytes", found.drained_bytes)?;
        named.set_item("fill_bytes", found.fill_bytes)?;
        named.set_item("overflow", found.overflow)?;
        named.set_item("first_clocks", found.first_clocks)?;
        named.set_item("last_clocks", found.last_clocks)?;
        Ok(named)
    }

    /// Gives the receive queue back once all data in flight have arrived.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let is_free = |state: &mut State, _: &Connection| match state.is_in_use(self.number)? {
            true => Err(Failure::busy("the peer: a transfer to it is in flight")),
            false => Ok(()),
        };
        self.connection.close(py, is_free, |state, it| state.run(it.close()))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    fn __repr__(&self) -> String {
        let closed = if self.connection.is_over() { ", closed" } else { "" };
        format!("<crosslane.Peer {}{closed}>", self.plan.ends())
    }
}

/// Memory behind a BAR of another card, which one card can read into its stream or its memory, and
/// write from there.
#[pyclass(frozen, module = "crosslane")]
pub struct PeerMemory {
    memory: Kept<Opened>,
    /// Number that its transfers stand on.
    number: u64,
    card: usize,
    #[pyo3(get)]
    plan: Plan,
    #[pyo3(get)]
    write_plan: Plan,
    size_bytes: u64,
}

impl PeerMemory {
    /// Opens memory of a function for a card.
    pub fn open(
        py: Python<'_>,
        session: &Arc<Shared>,
        card: usize,
        function: &str,
        of_card: Option<usize>,
        bar: u8,
    ) -> PyResult<Self> {
        let (memory, number) = session.call(py, |state| {
            of_card.map_or(Ok(()), |other| state.enable(other))?;
            let function = state.function(function)?.id;
            let device = state.device(card)?;
            let memory = state.run(device.peer_memory(function, bar))?;
            Ok((memory, state.next_number()))
        })?;
        let (plan, write_plan) = (memory.plan().into(), memory.write_plan().into());
        let size_bytes = memory.size_bytes();
        let memory = Kept::new(session, "the peer's memory", memory);
        Ok(Self { memory, number, card, plan, write_plan, size_bytes })
    }

    /// Posts the read of a part into the stream of its card, or to an address of the card's memory,
    /// or the write of a part from there.
    pub fn post(
        &self,
        py: Python<'_>,
        session: &Arc<Shared>,
        key: ChannelKey,
        part: Range<u64>,
        job: &Job,
    ) -> PyResult<Transfer> {
        if !Arc::ptr_eq(session, self.memory.session()) || key.card != self.card {
            return Err(Failure::argument("the memory was opened for another card").into());
        }
        let span = seconds("deadline", job.deadline)?;
        let bytes = part.end - part.start;
        let posted = self.memory.call(py, |state, memory| {
            let target = match job.address {
                Some(address) => memory.target_in_card(part, address),
                None => memory.target(part),
            };
            let transfer = Posting::new(target, state.bus().after(span)).with_level(job.level);
            let line = (key, job.address.is_some());
            state.post_by(line, transfer, Some(self.number), job.reported)
        })?;
        Ok(Transfer::new(session, posted, bytes, None))
    }
}

#[pymethods]
impl PeerMemory {
    fn __len__(&self) -> usize {
        self.size_bytes as usize
    }

    #[getter]
    pub const fn nbytes(&self) -> u64 {
        self.size_bytes
    }

    /// Gives the memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let is_free = |state: &mut State, _: &Opened| match state.is_in_use(self.number)? {
            true => Err(Failure::busy("the peer's memory: a transfer of it is in flight")),
            false => Ok(()),
        };
        self.memory.close(py, is_free, |state, memory| state.run(memory.close()))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    fn __repr__(&self) -> String {
        let closed = if self.memory.is_over() { ", closed" } else { "" };
        format!("<crosslane.PeerMemory of {} B{closed}>", self.size_bytes)
    }
}
