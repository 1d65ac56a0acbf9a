// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a card's streams, as Python code sends and receives them.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crosslane::driver::{Buffer as Registered, Packet as Sending};
use crosslane::host::{Bus, PageSize, lock};
use crosslane::pcie::units::Picoseconds;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyTuple};

use crate::error::Failure;
use crate::kept::leave;
use crate::posted::{ChannelKey, PacketsKey, Posted};
use crate::session::{Owner, Shared};
use crate::state::{Arrived, STRIDE_BYTES};
use crate::transfer::{Asked, Memory, Sink, Transfer, part_of, seconds};
use crate::view::View;

/// Most places of a receiver: those of the largest ring.
const MOST_PLACES: u64 = 65_536;

/// A packet that was received.
#[pyclass(frozen, get_all, module = "crosslane")]
pub struct Packet {
    /// Its bytes, or a view of them in the array that was given.
    data: Py<PyAny>,
    /// Number of its bytes.
    nbytes: usize,
    /// User bits of its last beat; 0 if it is not whole.
    user: u16,
    /// Whether it has its first and its last byte.
    whole: bool,
}

#[pymethods]
impl Packet {
    fn __len__(&self) -> usize {
        self.nbytes
    }

    fn __repr__(&self) -> String {
        let cut = if self.whole { "" } else { ", not whole" };
        format!("<crosslane.Packet of {} B, user {:#x}{cut}>", self.nbytes, self.user)
    }
}

/// The memory of packets to be sent, and the part of each.
fn gathered(
    data: &Bound<'_, PyAny>,
    lengths: Option<Vec<u64>>,
    session: &Arc<Shared>,
    card: usize,
) -> PyResult<(Memory, Vec<Range<u64>>)> {
    let (py, owner) = (data.py(), Owner::Card(card));
    if let Some(lengths) = lengths {
        let asked = Asked { object: data, start: 0, stop: None, owner };
        let memory =
            Memory::source(session, &asked, |bytes| session.spare_of_card(py, card, bytes))?;
        let (mut parts, mut at, all) = (Vec::new(), memory.part.start, memory.part.end);
        for (number, &bytes) in lengths.iter().enumerate() {
            let part = part_of(all, at, at.checked_add(bytes).or(Some(u64::MAX)));
            at = part.as_ref().map_or(at, |part| part.end);
            parts.push(part.map_err(|failure| of_packet(failure, number, lengths.len()))?);
        }
        return Ok((memory, parts));
    }
    // Its items would be packets of a byte each.
    if View::of(data).is_ok_and(|view| view.dimensions() < 2) {
        let problem = "packets are a sequence of objects with bytes, or one with lengths=";
        return Err(Failure::argument(problem).into());
    }
    let mut views: Vec<View> = Vec::new();
    for object in data.try_iter()? {
        views.push(View::of(&object?)?);
    }
    let (mut parts, mut end) = (Vec::new(), 0_u64);
    for (number, view) in views.iter().enumerate() {
        let part = part_of(view.bytes(), 0, None);
        let bytes = part.map_err(|failure| of_packet(failure, number, views.len()))?.end;
        let begin = end.next_multiple_of(STRIDE_BYTES);
        end = begin + bytes;
        parts.push(begin..end);
    }
    let registered = session.spare_of_card(py, card, end.max(1))?;
    for (view, part) in views.iter().zip(&parts) {
        view.with(py, |from| registered.write(part.start, from)).map_err(Failure::from)?;
    }
    let memory = Memory { registered, part: 0..end, sink: Sink::None, lent_by: Some(owner) };
    Ok((memory, parts))
}

fn of_packet(failure: Failure, number: usize, count: usize) -> Failure {
    match failure {
        Failure::Said { class, kind, message, details } => {
            let message = format!("packet {number} of {count}: {message}");
            Failure::Said { class, kind, message, details }
        }
        raised @ Failure::Raised(_) => raised,
    }
}

/// Reads the user bits of packets: those of all, or those of each.
fn users_of(users: Option<&Bound<'_, PyAny>>, count: usize) -> PyResult<Vec<u16>> {
    let Some(users) = users else { return Ok(vec![0; count]) };
    if let Ok(one) = users.extract::<u16>() {
        return Ok(vec![one; count]);
    }
    let each: Vec<u16> = users.extract().map_err(|_| {
        let problem = "users= is a number from 0 to 65535, or a sequence with one for each packet";
        Failure::argument(problem)
    })?;
    if each.len() != count {
        let problem = format!("users= has {} numbers, and {count} are needed", each.len());
        return Err(Failure::argument(problem).into());
    }
    Ok(each)
}

/// Sends packets from a card's H2C channel.
pub fn send(
    data: &Bound<'_, PyAny>,
    lengths: Option<Vec<u64>>,
    users: Option<&Bound<'_, PyAny>>,
    (session, key): (&Arc<Shared>, ChannelKey),
    deadline: f64,
) -> PyResult<Transfer> {
    let deadline = seconds("deadline", deadline)?;
    let (memory, parts) = gathered(data, lengths, session, key.card)?;
    let users = users_of(users, parts.len())?;
    let bytes = parts.iter().map(|part| part.end - part.start).sum();
    let packet = |(part, user): (Range<u64>, u16)| {
        Sending::new(Registered::clone(&memory.registered), part).with_user(user)
    };
    let packets: Vec<Sending> = parts.into_iter().zip(users).map(packet).collect();
    let posted = session.call(data.py(), |state| {
        let deadline = state.bus().after(deadline);
        state.send_packets((key, false), &packets, deadline)
    })?;
    Ok(Transfer::new(session, posted, bytes, Some(memory)))
}

/// Places in registered memory that packets of a card's stream are received into, and that are
/// posted again when their packets were taken. A context manager.
#[pyclass(frozen, module = "crosslane")]
pub struct PacketReceiver {
    session: Arc<Shared>,
    key: ChannelKey,
    number: u64,
    places: u64,
    place_bytes: u64,
}

impl PacketReceiver {
    /// Posts places for the packets of a channel.
    pub fn open(
        py: Python<'_>,
        session: &Arc<Shared>,
        key: ChannelKey,
        places: u64,
        place_bytes: u64,
    ) -> PyResult<Self> {
        if !(1..=MOST_PLACES).contains(&places) || place_bytes == 0 {
            let problem = format!("{places} places of {place_bytes} B");
            let possible = format!("1 to {MOST_PLACES} places of at least one byte are possible");
            return Err(Failure::argument(format!("{problem}: {possible}")).into());
        }
        let bytes = place_bytes.checked_next_multiple_of(STRIDE_BYTES);
        let bytes = bytes.and_then(|stride| stride.checked_mul(places));
        let bytes = bytes.ok_or_else(|| Failure::argument("more bytes than memory can have"))?;
        let number = session.call(py, |state| {
            state.check_packets(key)?;
            let device = state.device(key.card)?;
            let memory = state.run(device.buffer(bytes, PageSize::Huge))?;
            state.open_receiver(key, memory, place_bytes)
        })?;
        Ok(Self { session: Arc::clone(session), key, number, places, place_bytes })
    }

    const fn packets_key(&self, reception: u64) -> PacketsKey {
        PacketsKey { line: (self.key, false), receiver: self.number, reception }
    }
}

/// An array whose rows packets are received into.
struct Rows {
    view: View,
    /// All of its bytes, as Python code sees them.
    all: Py<PyAny>,
    count: usize,
    bytes: usize,
}

impl Rows {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let view = View::writable(object)?;
        let (count, bytes) = view.rows()?;
        // Before there is a packet that could be lost.
        let all = PyMemoryView::from(object).and_then(|all| all.call_method1("cast", ("B",)));
        let all = all.map_err(|error| Failure::argument(format!("into= has no bytes: {error}")))?;
        Ok(Self { view, all: all.unbind(), count, bytes })
    }

    /// Copies a packet into a row, and returns a view of it there.
    fn put(&self, py: Python<'_>, row: usize, from: &[u8]) -> PyResult<Py<PyAny>> {
        let part = row * self.bytes..row * self.bytes + from.len();
        self.view.with_mut(py, |into| {
            if let Some(into) = into.get_mut(part.clone()) {
                into.copy_from_slice(from);
            }
        });
        let slice = PySlice::new(py, part.start as isize, part.end as isize, 1);
        Ok(self.all.bind(py).get_item(slice)?.unbind())
    }
}

#[pymethods]
impl PacketReceiver {
    /// Waits for packets, and takes `most` at most: as bytes, or into the rows of an array of two
    /// dimensions or more, one in each. A packet that is longer than a row is an error, and waits
    /// for another call.
    #[pyo3(signature = (most = 64, *, into = None))]
    fn receive(
        &self,
        py: Python<'_>,
        most: usize,
        into: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reception> {
        if most == 0 {
            return Err(Failure::argument("most=0: at least one packet is waited for").into());
        }
        let rows = into.map(Rows::of).transpose()?;
        let reception = self.session.call(py, |state| Ok(state.next_number()))?;
        let most = rows.as_ref().map_or(most, |rows| most.min(rows.count));
        Ok(Reception {
            session: Arc::clone(&self.session),
            key: self.packets_key(reception),
            most,
            rows,
            outcome: Mutex::new(None),
        })
    }

    /// Number of its places.
    #[getter]
    const fn places(&self) -> u64 {
        self.places
    }

    /// Bytes of each place.
    #[getter]
    const fn place_bytes(&self) -> u64 {
        self.place_bytes
    }

    /// Stops the channel, and gives the places back. Packets that were not received are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.session.is_closed() {
            return Ok(());
        }
        let key = self.packets_key(0);
        self.session.call(py, |state| state.close_receiver(key))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.PacketReceiver, {} places of {} B>", self.places, self.place_bytes)
    }
}

/// A wait for packets. It can be awaited, and ends when there is one.
#[pyclass(frozen, module = "crosslane")]
pub struct Reception {
    session: Arc<Shared>,
    key: PacketsKey,
    most: usize,
    rows: Option<Rows>,
    outcome: Mutex<Option<Py<PyList>>>,
}

impl Reception {
    /// Takes what has arrived; `None` if somebody else was faster.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyList>>> {
        let room_bytes = self.rows.as_ref().map_or(u64::MAX, |rows| rows.bytes as u64);
        let arrived =
            self.session.call(py, |state| state.take_arrived(self.key, self.most, room_bytes))?;
        if arrived.is_empty() {
            return Ok(None);
        }
        let list = PyList::empty(py);
        for (row, Arrived { bytes, user, is_whole }) in arrived.into_iter().enumerate() {
            let data = match &self.rows {
                Some(rows) => rows.put(py, row, &bytes)?,
                None => PyBytes::new(py, &bytes).into_any().unbind(),
            };
            list.append(Packet { data, nbytes: bytes.len(), user, whole: is_whole })?;
        }
        let list = list.unbind();
        *lock(&self.outcome) = Some(list.clone_ref(py));
        Ok(Some(list))
    }

    fn known(&self, py: Python<'_>) -> Option<Py<PyList>> {
        lock(&self.outcome).as_ref().map(|list| list.clone_ref(py))
    }
}

#[pymethods]
impl Reception {
    /// Whether packets were received.
    #[getter]
    fn done(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    /// Waits for packets, at most `deadline` seconds of the card's clock; then `DeadlineError` is
    /// raised.
    #[pyo3(signature = (deadline = None))]
    fn wait(&self, py: Python<'_>, deadline: Option<f64>) -> PyResult<Py<PyList>> {
        if let Some(known) = self.known(py) {
            return Ok(known);
        }
        let limit = |value| -> PyResult<Picoseconds> {
            let span = Picoseconds::from(seconds("deadline", value)?);
            Ok(Picoseconds(self.session.now()?.0.saturating_add(span.0)))
        };
        let limit = deadline.map(limit).transpose()?;
        loop {
            let come = self.session.wait(py, Posted::Packets(self.key), limit)?;
            if come.is_none() {
                let waited = deadline.unwrap_or_default();
                return Err(Failure::deadline(format!("no packet has come in {waited} s")).into());
            }
            if let Some(packets) = self.take(py)? {
                return Ok(packets);
            }
        }
    }

    fn __await__(slf: Py<Self>) -> WaitingForPackets {
        WaitingForPackets { reception: slf, turns: AtomicU32::new(0) }
    }

    fn __repr__(&self) -> String {
        let state = if self.done() { "ended" } else { "under way" };
        format!("<crosslane.Reception, {state}>")
    }
}

/// A coroutine's wait for packets.
#[pyclass(frozen, module = "crosslane")]
pub struct WaitingForPackets {
    reception: Py<Reception>,
    /// Turns that it has had.
    turns: AtomicU32,
}

impl Drop for WaitingForPackets {
    fn drop(&mut self) {
        let reception = self.reception.get();
        reception.session.leave(Posted::Packets(reception.key));
    }
}

#[pymethods]
impl WaitingForPackets {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Looks whether packets have come; if not, the event loop goes on with others first.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let reception = self.reception.get();
        let packets = match reception.known(py) {
            Some(known) => Some(known),
            None => {
                let turn = self.turns.fetch_add(1, Ordering::Relaxed);
                match reception.session.step(py, Posted::Packets(reception.key), turn)? {
                    Some(_) => reception.take(py)?,
                    None => None,
                }
            }
        };
        match packets {
            Some(packets) => Err(PyStopIteration::new_err((packets,))),
            None => Ok(Some(py.None())),
        }
    }
}
