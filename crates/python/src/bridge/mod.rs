// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The client of a bridge: data of this program to cards of another node and back, through a server
//! (`crosslane bridge serve`).
//!
//! Read first: [`bridge`], then `link.rs`, which has the connection.

mod buffer;
mod link;
mod transfer;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crosslane::bridge::messages::{MOST_ENDING_BYTES, PeerTarget};
use crosslane::bridge::{BridgeError, CardPlace, Identity, Key, MemoryPart, Mode, TransferOptions};
use crosslane::host::{DmaMemory, RdmaRegion};
use crosslane::network::{Region, SharedKey, Trust};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::without_gil;
use crate::error::Failure;
use crate::open::chosen;
use crate::transfer::{part_of, seconds};
use crate::view::View;
use link::{InUse, Link, Wanted, Way};

pub use buffer::BridgeBuffer;
pub use transfer::{BridgeCompleted, BridgeReloaded, BridgeTransfer};

/// A connection to a bridge's server. It makes one transfer after the other; use several for more.
/// A context manager.
#[pyclass(frozen, module = "crosslane")]
pub struct BridgeClient {
    link: Arc<Link>,
    cards: Vec<Py<RemoteCard>>,
}

/// A card of another node. Each transfer fails if it is not complete `deadline` seconds from now.
/// With a `checksum` the server sums up the data, and they are compared. A `naive` one makes the
/// stages one after the other, each with all data, for comparison. One that has failed goes on, on
/// a new connection, behind the `first` bytes, those of the error's `arrived_bytes`.
#[pyclass(frozen, module = "crosslane")]
pub struct RemoteCard {
    link: Arc<Link>,
    #[pyo3(get)]
    name: String,
}

/// Reads a key: hexadecimal digits, or the path of a file with them.
fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Key> {
    if let Ok(digits) = key.extract::<String>() {
        return Ok(digits.parse().map_err(|error: BridgeError| Failure::argument(error.why))?);
    }
    let path: PathBuf = key.extract().map_err(|_| {
        Failure::argument("key= is a text of hexadecimal digits, or the path of a file with them")
    })?;
    Ok(Key::read(&path).map_err(|error| Failure::argument(error.why))?)
}

/// Connects to a server of `crosslane bridge serve` in at most `deadline` seconds.
///
/// Without a `network`, the fastest that fits the address is taken, as the server does. `name` is
/// the client's in the server's policy, by default `anybody`; `key` is what both have, as
/// hexadecimal digits or the path of a file with them. In its place, over `tls`, are three files
/// (PEM): `tls_cert` has the client's certificate, `tls_key` its private key, `tls_ca` the
/// certificates of the authorities that it trusts; the name is then found by the certificate. On a
/// network that is trusted nothing is sealed over `tls`, and `tcp` may leave this machine.
#[pyfunction]
#[pyo3(signature = (server, *, network = None, name = None, key = None, tls_cert = None,
                    tls_key = None, tls_ca = None, trust_network = false,
                    deadline = 60.0))]
#[expect(clippy::too_many_arguments, reason = "options of a connection, by name")]
pub fn bridge(
    py: Python<'_>,
    server: &str,
    network: Option<&str>,
    name: Option<&str>,
    key: Option<&Bound<'_, PyAny>>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    tls_ca: Option<PathBuf>,
    trust_network: bool,
    deadline: f64,
) -> PyResult<BridgeClient> {
    let time = seconds("deadline", deadline)?;
    let key = key.map(key_of).transpose()?;
    let present = key.as_ref().map(|key| SharedKey(*key.bytes()));
    let files = [&tls_cert, &tls_key, &tls_ca].map(Option::as_deref);
    let trust = Trust::of_client(present, files, trust_network).map_err(Failure::argument)?;
    // A server finds a client with a certificate by that.
    let nameless = if trust.certificates.is_some() { "" } else { "anybody" };
    let identity = Identity { name: name.unwrap_or(nameless).to_owned(), key };
    let connect = || Link::connect(server, network, identity, &trust, time);
    let (link, names) = without_gil(py, connect)?;
    let cards = names.into_iter().map(|name| Py::new(py, RemoteCard { link: link.clone(), name }));
    let cards = cards.collect::<PyResult<_>>()?;
    Ok(BridgeClient { link, cards })
}

#[pymethods]
impl BridgeClient {
    #[getter]
    fn cards(&self, py: Python<'_>) -> Vec<Py<RemoteCard>> {
        self.cards.iter().map(|card| card.clone_ref(py)).collect()
    }

    /// Returns a card by its name or its number.
    #[pyo3(signature = (which = None))]
    fn card(&self, py: Python<'_>, which: Option<&Bound<'_, PyAny>>) -> PyResult<Py<RemoteCard>> {
        let names: Vec<&str> = self.cards.iter().map(|card| card.get().name.as_str()).collect();
        let server = &self.link.server;
        let missing =
            |which: &str, there: &str| format!("{server} has no card {which}; there are {there}");
        Ok(self.cards[chosen(&names, which, missing)?].clone_ref(py))
    }

    #[getter]
    fn server(&self) -> &str {
        &self.link.server
    }

    /// Name of the network.
    #[getter]
    fn network(&self) -> PyResult<String> {
        Ok(self.link.network()?)
    }

    #[getter]
    fn closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Describes the server and its cards.
    #[pyo3(signature = (deadline = 60.0))]
    fn survey<'py>(&self, py: Python<'py>, deadline: f64) -> PyResult<Bound<'py, PyDict>> {
        let time = seconds("deadline", deadline)?;
        let found = self.link.call(py, || self.link.survey(time))?;
        let cards = found.cards.into_iter().map(|card| {
            let named = PyDict::new(py);
            named.set_item("name", card.name)?;
            named.set_item("kind", card.kind.to_string())?;
            named.set_item("memory_bytes", card.memory_bytes)?;
            named.set_item("transfers", card.transfers)?;
            named.set_item("moved_bytes", card.moved_bytes)?;
            named.set_item("slots", card.slots)?;
            named.set_item("free_slots", card.free_slots)?;
            named.set_item("outage", card.outage)?;
            Ok(named)
        });
        let cards = cards.collect::<PyResult<Vec<_>>>()?;
        let named = PyDict::new(py);
        named.set_item("memory_bytes", found.memory_bytes)?;
        named.set_item("free_memory_bytes", found.free_memory_bytes)?;
        named.set_item("cards", cards)?;
        Ok(named)
    }

    /// Registers memory that the server reaches.
    fn buffer(&self, py: Python<'_>, bytes: u64) -> PyResult<BridgeBuffer> {
        BridgeBuffer::new(py, &self.link, bytes)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.link.close(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.link.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.link.is_closed() { ", closed" } else { "" };
        format!("<crosslane.BridgeClient of {}{state}>", self.link.server)
    }
}

/// Memory of this node for one end of a transfer.
struct Near {
    part: MemoryPart<Region>,
    lent: Option<Region>,
    in_use: Option<InUse>,
    /// Object that the data go to in the end.
    sink: Option<View>,
}

impl Near {
    /// A part of a buffer, if the object is one.
    fn of_buffer(
        link: &Arc<Link>,
        object: &Bound<'_, PyAny>,
        start: u64,
        stop: Option<u64>,
    ) -> Result<Option<Self>, Failure> {
        let Ok(buffer) = object.cast::<BridgeBuffer>() else { return Ok(None) };
        let (part, in_use) = buffer.get().part(link, start, stop)?;
        Ok(Some(Self { part, lent: None, in_use: Some(in_use), sink: None }))
    }

    /// Memory with a copy of data, or the buffer that they are in.
    fn source(
        link: &Arc<Link>,
        data: &Bound<'_, PyAny>,
        start: u64,
        stop: Option<u64>,
    ) -> PyResult<Self> {
        if let Some(near) = Self::of_buffer(link, data, start, stop)? {
            return Ok(near);
        }
        let view = View::of(data)?;
        let taken = part_of(view.bytes(), start, stop)?;
        let bytes = taken.end - taken.start;
        let region = link.memory(data.py(), bytes)?;
        let write =
            |from: &[u8]| region.memory().write(0, &from[taken.start as usize..taken.end as usize]);
        view.with(data.py(), write).map_err(Failure::from)?;
        let part = MemoryPart { region: region.clone(), range: 0..bytes };
        Ok(Self { part, lent: Some(region), in_use: None, sink: None })
    }

    /// Memory whose data go to an object, or a buffer.
    fn target(
        link: &Arc<Link>,
        target: &Bound<'_, PyAny>,
        start: u64,
        stop: Option<u64>,
    ) -> PyResult<Self> {
        if let Some(near) = Self::of_buffer(link, target, start, stop)? {
            return Ok(near);
        }
        let view = View::writable(target)?;
        if start != 0 || stop.is_some_and(|stop| stop != view.bytes()) {
            let problem = "start= and stop= are for a BridgeBuffer; take memoryview(x)[a:b]";
            return Err(Failure::argument(problem).into());
        }
        let part = part_of(view.bytes(), 0, None)?;
        let region = link.memory(target.py(), part.end)?;
        let part = MemoryPart { region: region.clone(), range: part };
        Ok(Self { part, lent: Some(region), in_use: None, sink: Some(view) })
    }

    fn bytes(&self) -> u64 {
        self.part.range.end - self.part.range.start
    }
}

/// Returns the ending of an image's file name that a server takes, or none.
fn ending_of(path: &Path) -> String {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let fits = ending.len() <= MOST_ENDING_BYTES
        && ending.bytes().all(|letter| letter.is_ascii_alphanumeric());
    if fits { ending.to_owned() } else { String::new() }
}

/// Returns the settings of a transfer.
fn options(checksum: bool, naive: bool, first: u64) -> TransferOptions {
    let mode = if naive { Mode::Naive } else { Mode::Pipelined };
    TransferOptions::default().with_checksum(checksum).with_mode(mode).with_first(first)
}

impl RemoteCard {
    /// Posts a transfer of `bytes` with memory of this node, if it has any, at an address.
    fn post(
        &self,
        near: Vec<Near>,
        way: Way,
        (address, bytes): (u64, u64),
        deadline: f64,
        options: TransferOptions,
    ) -> PyResult<BridgeTransfer> {
        let time = seconds("deadline", deadline)?;
        let first = options.first;
        if first > 0 && options.mode == Mode::Naive {
            return Err(Failure::argument("a naive transfer moves all data: first= is 0").into());
        }
        if first > 0 && first >= bytes {
            let problem = format!("a transfer of {bytes} B cannot go on from byte {first}");
            return Err(Failure::argument(problem).into());
        }
        let place = CardPlace { card: self.name.clone(), address };
        let (mut lent, mut in_use, mut sink) = (Vec::new(), Vec::new(), None);
        for near in near {
            lent.extend(near.lent);
            in_use.extend(near.in_use);
            sink = near.sink;
        }
        let wanted = Wanted { way, place, bytes, time, options, lent, in_use };
        let flight = self.link.post(wanted)?;
        Ok(BridgeTransfer::new(self.link.clone(), flight, (first, bytes), sink))
    }
}

#[pymethods]
impl RemoteCard {
    /// Posts a transfer of data to an address of the card's memory.
    #[pyo3(signature = (data, address, *, start = 0, stop = None, deadline = 60.0,
                        checksum = false, naive = false, first = 0))]
    #[expect(clippy::too_many_arguments, reason = "options of a transfer, by name")]
    fn to_card(
        &self,
        data: &Bound<'_, PyAny>,
        address: u64,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
        checksum: bool,
        naive: bool,
        first: u64,
    ) -> PyResult<BridgeTransfer> {
        let near = Near::source(&self.link, data, start, stop)?;
        let (way, bytes) = (Way::To(near.part.clone()), near.bytes());
        self.post(vec![near], way, (address, bytes), deadline, options(checksum, naive, first))
    }

    /// Posts a transfer from an address of the card's memory. The data are in `target` when the
    /// transfer was waited for.
    #[expect(clippy::wrong_self_convention, reason = "the name in Python")]
    #[pyo3(signature = (target, address, *, start = 0, stop = None, deadline = 60.0,
                        checksum = false, naive = false, first = 0))]
    #[expect(clippy::too_many_arguments, reason = "options of a transfer, by name")]
    fn from_card(
        &self,
        target: &Bound<'_, PyAny>,
        address: u64,
        start: u64,
        stop: Option<u64>,
        deadline: f64,
        checksum: bool,
        naive: bool,
        first: u64,
    ) -> PyResult<BridgeTransfer> {
        let near = Near::target(&self.link, target, start, stop)?;
        let (way, bytes) = (Way::From(near.part.clone()), near.bytes());
        self.post(vec![near], way, (address, bytes), deadline, options(checksum, naive, first))
    }

    /// Posts a transfer of data through the card's stream into another object of the same length.
    #[pyo3(signature = (data, target, *, deadline = 60.0, checksum = false,
                        naive = false, first = 0))]
    fn through_card(
        &self,
        data: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        deadline: f64,
        checksum: bool,
        naive: bool,
        first: u64,
    ) -> PyResult<BridgeTransfer> {
        let from = Near::source(&self.link, data, 0, None)?;
        let to = Near::target(&self.link, target, 0, None)?;
        let (bytes, back) = (from.bytes(), to.bytes());
        if back != bytes {
            let problem = format!("{bytes} B go through the card, into {back} B");
            return Err(Failure::argument(problem).into());
        }
        let way = Way::Through(from.part.clone(), to.part.clone());
        self.post(vec![from, to], way, (0, bytes), deadline, options(checksum, naive, first))
    }

    /// Posts a transfer of this card's memory into that of a card of another server, which this
    /// card's server reaches at the address that was given for it. The data do not come here.
    #[pyo3(signature = (far, address, far_address, bytes, *, deadline = 60.0,
                        first = 0))]
    fn copy_to(
        &self,
        far: &Bound<'_, Self>,
        address: u64,
        far_address: u64,
        bytes: u64,
        deadline: f64,
        first: u64,
    ) -> PyResult<BridgeTransfer> {
        let far = far.get();
        let (server, card) = (far.link.server.clone(), far.name.clone());
        let peer = PeerTarget { server, card, address: far_address };
        let options = options(false, false, first);
        self.post(Vec::new(), Way::Copy(peer), (address, bytes), deadline, options)
    }

    /// Has the server reload this card with an image, and serve it again.
    #[pyo3(signature = (image, *, ending = None, deadline = 600.0))]
    fn reload(
        &self,
        image: &Bound<'_, PyAny>,
        ending: Option<String>,
        deadline: f64,
    ) -> PyResult<BridgeTransfer> {
        let (near, of_path) = match image.hasattr("__fspath__")? {
            true => {
                let path: PathBuf = image.extract()?;
                let bytes = image.py().detach(|| fs::read(&path));
                let bytes =
                    bytes.map_err(|why| Failure::argument(format!("{}: {why}", path.display())))?;
                let bytes = PyBytes::new(image.py(), &bytes);
                (Near::source(&self.link, &bytes, 0, None)?, ending_of(&path))
            }
            false => (Near::source(&self.link, image, 0, None)?, String::new()),
        };
        let (bytes, ending) = (near.bytes(), ending.unwrap_or(of_path));
        let way = Way::Reload(near.part.clone(), ending);
        self.post(vec![near], way, (0, bytes), deadline, TransferOptions::default())
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.RemoteCard {} of {}>", self.name, self.link.server)
    }
}
