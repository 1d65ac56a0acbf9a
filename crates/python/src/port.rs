// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs of an endpoint whose logic is outside of the lab, as Python code takes and sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane::device::kit::Place;
use crosslane::device::outside::{Arrived, OutsideDevice, SendError, Which};
use crosslane::fabric::{DevicePort, NodeId};
use crosslane::pcie::tlp::layout;
use crosslane::pcie::tlp::{Class, CompletionStatus, Header, TlpKind};
use crosslane::pcie::units::{BusAddress, Picoseconds, RoutingId, Tag};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::Failure;
use crate::running::{Live, State};
use crate::view::View;

/// Bytes of the longest TLP: a header of 4 DW and a payload of 4096 B.
const MOST_TLP_BYTES: u64 = 16 + 4096;

/// A TLP: bytes in the layout of the specification, and the fields that they have.
#[pyclass(frozen, module = "crosslane")]
pub struct Tlp {
    header: Header,
    payload: Vec<u8>,
    arrived: Option<Arrival>,
}

/// Beside a TLP that has arrived.
#[derive(Clone, Copy)]
struct Arrival {
    /// Port at which it has arrived.
    port: u64,
    /// Its number there.
    number: u64,
    time: Picoseconds,
    /// BAR of a request, and the offset of its first byte there.
    place: Option<Place>,
}

/// Words of the kinds that endpoints take and send.
const fn kind_word(kind: TlpKind) -> &'static str {
    match kind {
        TlpKind::MemoryRead => "memory_read",
        TlpKind::MemoryWrite => "memory_write",
        TlpKind::Completion => "completion",
        TlpKind::CompletionData => "completion_data",
        TlpKind::ConfigurationRead => "configuration_read",
        TlpKind::ConfigurationWrite => "configuration_write",
        TlpKind::Message => "message",
    }
}

/// Reads the word for a class of TLPs.
fn class_of(word: &str) -> Result<Class, Failure> {
    match word {
        "posted" => Ok(Class::Posted),
        "nonposted" => Ok(Class::NonPosted),
        "completion" => Ok(Class::Completion),
        _ => {
            let known = "'posted', 'nonposted' or 'completion'";
            Err(Failure::argument(format!("class {word:?}: it is {known}")))
        }
    }
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<u8>), Failure> {
    let (header, payload) = layout::read(bytes).map_err(SendError::from)?;
    Ok((header, payload.to_vec()))
}

/// Returns the bytes of an object, at most those of a TLP.
fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let view = View::of(object)?;
    if view.bytes() > MOST_TLP_BYTES {
        let problem = format!("{} B are more than a TLP has, {MOST_TLP_BYTES} B", view.bytes());
        return Err(Failure::argument(problem).into());
    }
    Ok(view.with(object.py(), <[u8]>::to_vec))
}

impl Tlp {
    fn new(header: Header, payload: Vec<u8>) -> Self {
        Self { header, payload, arrived: None }
    }

    fn of_bytes(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (header, payload) = read(&bytes_of(object)?)?;
        Ok(Self::new(header, payload))
    }

    fn layout(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        layout::write(&self.header, &self.payload, &mut bytes);
        bytes
    }

    /// Whether it is a memory request.
    fn is_request(&self) -> bool {
        self.header.kind.is_routed_by_address()
    }
}

/// Checks that a request of some bytes at an address can be one TLP.
fn check_request(address: u64, bytes: u64) -> Result<u32, Failure> {
    if bytes == 0 || bytes > 4096 || address % 4096 + bytes > 4096 {
        let problem = "one TLP has 1 to 4096 B, which do not cross a boundary of 4 KiB";
        return Err(Failure::argument(format!("{bytes} B at {address:#x}: {problem}")));
    }
    Ok(bytes as u32)
}

#[pymethods]
impl Tlp {
    /// Reads a TLP from its bytes.
    #[new]
    fn parse(bytes: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of_bytes(bytes)
    }

    /// Makes a write of some bytes, within 4 KiB.
    #[staticmethod]
    #[pyo3(signature = (address, data, *, requester))]
    fn memory_write(address: u64, data: &Bound<'_, PyAny>, requester: u16) -> PyResult<Self> {
        let data = bytes_of(data)?;
        let bytes = check_request(address, data.len() as u64)?;
        let header = Header::memory_write(RoutingId(requester), BusAddress(address), bytes);
        let mut payload = vec![0; header.payload_bytes() as usize];
        let skip = (address & 3) as usize;
        payload[skip..skip + data.len()].copy_from_slice(&data);
        Ok(Self::new(header, payload))
    }

    /// Makes a read of some bytes, within 4 KiB.
    #[staticmethod]
    #[pyo3(signature = (address, nbytes, *, tag, requester))]
    fn memory_read(address: u64, nbytes: u64, tag: u16, requester: u16) -> PyResult<Self> {
        let bytes = check_request(address, nbytes)?;
        let header =
            Header::memory_read(RoutingId(requester), Tag(tag), BusAddress(address), bytes);
        Ok(Self::new(header, Vec::new()))
    }

    /// Makes the completion of this read with all of its data, or with those that `skip` bytes
    /// before them are behind.
    #[pyo3(signature = (data, *, completer, skip = 0))]
    fn completion(&self, data: &Bound<'_, PyAny>, completer: u16, skip: u32) -> PyResult<Self> {
        let (data, all) = (bytes_of(data)?, self.header.request_bytes());
        if self.header.kind != TlpKind::MemoryRead {
            return Err(Failure::argument("only reads are completed with data").into());
        }
        let bytes = data.len() as u32;
        if skip.checked_add(bytes).is_none_or(|end| end > all) {
            let problem = format!("{bytes} B behind {skip} B are more than the read's {all} B");
            return Err(Failure::argument(problem).into());
        }
        let at = self.header.address.offset(skip.into());
        let header =
            Header::completion_data(&self.header, RoutingId(completer), at, bytes, all - skip);
        let mut payload = vec![0; (header.payload_bytes() as usize).max(4)];
        let begin = (at.0 & 3) as usize;
        payload[begin..begin + data.len()].copy_from_slice(&data);
        let header = Header { length_dw: (payload.len() / 4) as u16, ..header };
        Ok(Self::new(header, payload))
    }

    /// The completion of this read with Unsupported Request, or Completer Abort.
    #[pyo3(signature = (*, completer, abort = false))]
    fn refusal(&self, completer: u16, abort: bool) -> PyResult<Self> {
        if self.header.kind != TlpKind::MemoryRead {
            return Err(Failure::argument("only reads are refused").into());
        }
        let status = match abort {
            true => CompletionStatus::CompleterAbort,
            false => CompletionStatus::UnsupportedRequest,
        };
        let header = Header::completion_error(&self.header, RoutingId(completer), status);
        Ok(Self::new(header, Vec::new()))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.layout())
    }

    /// Bytes of the header.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut bytes = Vec::new();
        layout::write(&self.header, &[], &mut bytes);
        PyBytes::new(py, &bytes)
    }

    /// Payload, whole double words.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.payload)
    }

    /// Bytes that a write's enables mark, or that a completion has for its read.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let skip = ((self.header.address.0 & 3) as usize).min(self.payload.len());
        let rest = self.payload.len() - skip;
        let bytes = match self.is_request() {
            true => (self.header.request_bytes() as usize).min(rest),
            false => usize::from(self.header.byte_count).min(rest),
        };
        PyBytes::new(py, &self.payload[skip..skip + bytes])
    }

    /// `memory_write`, `memory_read`, `completion` or `completion_data`.
    #[getter]
    const fn kind(&self) -> &'static str {
        kind_word(self.header.kind)
    }

    /// Fmt, three bits.
    #[getter]
    fn fmt(&self) -> u8 {
        self.layout()[0] >> 5
    }

    /// Type, five bits.
    #[getter]
    fn r#type(&self) -> u8 {
        self.layout()[0] & 0x1f
    }

    /// Address of a request's first byte; of a completion the low seven bits.
    #[getter]
    const fn address(&self) -> u64 {
        self.header.address.0
    }

    /// Bytes of a request from the first to the last that is enabled.
    #[getter]
    fn nbytes(&self) -> u32 {
        match self.is_request() {
            true => self.header.request_bytes(),
            false => self.header.payload_bytes(),
        }
    }

    /// Length in double words.
    #[getter]
    const fn length_dw(&self) -> u16 {
        self.header.length_dw
    }

    /// Byte enables of the first double word.
    #[getter]
    const fn first_be(&self) -> u8 {
        self.header.first_byte_enables
    }

    /// Byte enables of the last one.
    #[getter]
    const fn last_be(&self) -> u8 {
        self.header.last_byte_enables
    }

    /// Bus, device and function of the requester.
    #[getter]
    const fn requester(&self) -> u16 {
        self.header.requester.0
    }

    /// Bus, device and function of the completer.
    #[getter]
    const fn completer(&self) -> u16 {
        self.header.completer.0
    }

    #[getter]
    const fn tag(&self) -> u16 {
        self.header.tag.0
    }

    /// Completion status: 0 of a successful one.
    #[getter]
    const fn status(&self) -> u8 {
        self.header.status as u8
    }

    /// Bytes of the read that are left, with this completion.
    #[getter]
    const fn byte_count(&self) -> u16 {
        self.header.byte_count
    }

    #[getter]
    const fn poisoned(&self) -> bool {
        self.header.poisoned
    }

    #[getter]
    const fn relaxed_ordering(&self) -> bool {
        self.header.attributes.relaxed_ordering
    }

    #[getter]
    const fn no_snoop(&self) -> bool {
        self.header.attributes.no_snoop
    }

    #[getter]
    const fn id_based_ordering(&self) -> bool {
        self.header.attributes.id_based_ordering
    }

    /// Time at which it reached the endpoint's logic; `None` if it has not arrived anywhere.
    #[getter]
    fn time_ps(&self) -> Option<u64> {
        self.arrived.map(|arrival| arrival.time.0)
    }

    /// BAR that a request has hit.
    #[getter]
    fn bar(&self) -> Option<usize> {
        self.arrived.and_then(|arrival| arrival.place).map(|place| place.bar)
    }

    /// Offset of its first byte in that BAR.
    #[getter]
    fn offset(&self) -> Option<u64> {
        self.arrived.and_then(|arrival| arrival.place).map(|place| place.offset)
    }

    fn __repr__(&self) -> String {
        let line = crosslane::fabric::trace::HeaderLine(&self.header).to_string();
        match self.arrived {
            Some(arrival) => {
                format!("<crosslane.Tlp {line}, arrived at {} ps>", arrival.time.0)
            }
            None => format!("<crosslane.Tlp {line}>"),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::port(error.kind(), error)
    }
}

/// The place of an endpoint that code outside has taken.
#[pyclass(frozen, module = "crosslane")]
pub struct Port {
    live: Arc<Live>,
    #[pyo3(get)]
    name: String,
    node: NodeId,
    /// Number among all ports of the process.
    number: u64,
}

impl Port {
    /// Makes the port of an endpoint.
    pub fn new(live: Arc<Live>, name: String, node: NodeId) -> Self {
        static PORTS: AtomicU64 = AtomicU64::new(0);
        Self { live, name, node, number: PORTS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Makes a call with the endpoint's device.
    fn device<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut OutsideDevice, &mut DevicePort<'_>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.live.call(py, |state| self.device_in(state, call))
    }

    fn device_in<T>(
        &self,
        state: &State,
        call: impl FnOnce(&mut OutsideDevice, &mut DevicePort<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let made = state.simulation().with_fabric(|fabric| fabric.command(self.node, call));
        made.ok_or_else(|| Failure::argument(format!("{} is not attached", self.name)))?
    }
}

/// Reads the word for TLPs that are asked for.
fn which_of(word: &str) -> Result<Which, Failure> {
    match word {
        "any" => Ok(Which::Any),
        "requests" => Ok(Which::Requests),
        "completions" => Ok(Which::Completions),
        _ => {
            let known = "'any', 'requests' or 'completions'";
            Err(Failure::argument(format!("which={word:?}: it is {known}")))
        }
    }
}

#[pymethods]
impl Port {
    /// Takes the oldest TLP that has arrived and was not taken. Its receive buffer is freed, or
    /// with `hold` kept until `release`. A completion is not handed out ahead of a posted request
    /// that came before it.
    #[pyo3(signature = (which = "any", *, hold = false))]
    fn receive(&self, py: Python<'_>, which: &str, hold: bool) -> PyResult<Option<Tlp>> {
        let which = which_of(which)?;
        let taken = self.device(py, |device, port| {
            let taken = device.take(which);
            if let Some(arrived) = taken.as_ref().filter(|_| !hold) {
                device.release(arrived.number, port);
            }
            Ok(taken)
        })?;
        Ok(taken.map(|Arrived { number, time, header, payload, place }| {
            let arrived = Some(Arrival { port: self.number, number, time, place });
            Tlp { header, payload, arrived }
        }))
    }

    /// Frees the receive buffer of a TLP that was taken with `hold`.
    fn release(&self, py: Python<'_>, tlp: &Bound<'_, Tlp>) -> PyResult<()> {
        let here = tlp.get().arrived.filter(|arrival| arrival.port == self.number);
        self.device(py, |device, port| {
            match here.is_some_and(|arrival| device.release(arrival.number, port)) {
                true => Ok(()),
                false => Err(Failure::argument("the TLP holds no receive buffer of this port")),
            }
        })
    }

    /// Runs the lab until a TLP waits here, at most until a time. Returns whether one does.
    fn wait(&self, py: Python<'_>, until_ps: u64) -> PyResult<bool> {
        self.live.call(py, |state| {
            state.advance_until(Picoseconds(until_ps), |state| {
                self.device_in(state, |device, _| Ok(device.waiting() > 0))
            })
        })
    }

    /// Number of TLPs that wait to be taken.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        self.device(py, |device, _| Ok(device.waiting()))
    }

    /// Whether a TLP of a class can be sent now: without credits the queue fills.
    #[pyo3(signature = (class_ = "posted"))]
    fn room(&self, py: Python<'_>, class_: &str) -> PyResult<bool> {
        let class = class_of(class_)?;
        self.device(py, |_, port| Ok(OutsideDevice::has_room(class, port)))
    }

    /// Sends a TLP, whose last byte leaves the core now and whose first byte left it at `begun_ps`.
    /// `PortError` says why it cannot be; its kind is `busy` where `room` is false.
    #[pyo3(signature = (tlp, *, begun_ps = None))]
    fn send(&self, py: Python<'_>, tlp: &Bound<'_, PyAny>, begun_ps: Option<u64>) -> PyResult<()> {
        let (header, payload) = match tlp.cast::<Tlp>() {
            Ok(tlp) => (tlp.get().header, tlp.get().payload.clone()),
            Err(_) => read(&bytes_of(tlp)?)?,
        };
        self.device(py, |device, port| {
            Ok(device.send(header, &payload, begun_ps.map(Picoseconds), port)?)
        })
    }

    /// Bus, device and function of the endpoint.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<u16> {
        self.device(py, |_, port| Ok(port.routing_id().0))
    }

    /// Settings of the function, as the host has made them.
    #[getter]
    fn function<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (id, function, tags, config) = self.device(py, |device, port| {
            Ok((port.routing_id().0, *device.function(), device.tags(), port.config().clone()))
        })?;
        let named = PyDict::new(py);
        named.set_item("id", id)?;
        named.set_item("bus_master", function.is_bus_master)?;
        named.set_item("max_payload_bytes", function.max_payload_bytes)?;
        named.set_item("max_read_request_bytes", function.max_read_request_bytes)?;
        named.set_item("relaxed_ordering", function.relaxed_ordering)?;
        named.set_item("tags", tags)?;
        let msix = config.msix().map(|msix| msix.enabled && !msix.function_masked);
        named.set_item("msix_enabled", msix.unwrap_or(false))?;
        let bars: Vec<(u64, u64)> =
            function.bars.iter().map(|aperture| (aperture.base, aperture.bytes)).collect();
        named.set_item("bars", bars)?;
        Ok(named)
    }

    /// Reads a double word of the endpoint's configuration space.
    fn config_read(&self, py: Python<'_>, offset: u16) -> PyResult<u32> {
        if offset % 4 != 0 || offset >= 4096 {
            let problem = format!("offset {offset:#x}: it is a multiple of 4 below 0x1000");
            return Err(Failure::argument(problem).into());
        }
        self.device(py, |_, port| Ok(port.config().read(offset)))
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Port {}>", self.name)
    }
}
