// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host of a running lab at work: accesses of its processor, memory for devices, interrupts.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crosslane::host::{
    Bus, BusError, BusResult, DmaMemory, FunctionInfo, HostWork, Mapping, PageSize,
    RegisterAddress, Segment, Stores, Topology, lock,
};
use crosslane::lab::{LabBus, LabMemory};
use crosslane::pcie::units::{HostId, Picoseconds, RoutingId};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::Failure;
use crate::running::{Live, State};
use crate::view::View;

/// Longest load, store or memory, bytes: a bound on bad input.
const MOST_BYTES: u64 = 1 << 28;

/// Result of an operation that has ended.
#[derive(Clone)]
enum Value {
    Nothing,
    Bytes(Vec<u8>),
    Number(u64),
    Memory(LabMemory, Vec<Segment>),
}

/// State of an operation.
#[derive(Default)]
struct Progress {
    outcome: Option<BusResult<Value>>,
    ended: Picoseconds,
    waker: Option<Waker>,
}

/// Something that a host does in simulated time. It has begun when it is made.
#[pyclass(frozen, module = "crosslane")]
pub struct Operation {
    live: Arc<Live>,
    name: &'static str,
    begun: Picoseconds,
    progress: Arc<Mutex<Progress>>,
}

/// Waits for the end of an operation.
async fn ended(progress: &Mutex<Progress>) {
    poll_fn(|context| {
        let mut progress = lock(progress);
        if progress.outcome.is_some() {
            return Poll::Ready(());
        }
        progress.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

impl Operation {
    /// Begins an operation.
    fn begin<F>(
        py: Python<'_>,
        live: &Arc<Live>,
        bus: &LabBus,
        name: &'static str,
        operation: F,
    ) -> PyResult<Self>
    where
        F: Future<Output = BusResult<Value>> + Send + 'static,
    {
        let progress: Arc<Mutex<Progress>> = Arc::default();
        let (of_task, bus) = (Arc::clone(&progress), bus.clone());
        let begun = live.call(py, move |state| {
            let begun = state.now();
            state.spawn(name, async move {
                let outcome = operation.await;
                let waker = {
                    let mut progress = lock(&of_task);
                    progress.outcome = Some(outcome);
                    progress.ended = bus.now();
                    progress.waker.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            })?;
            Ok(begun)
        })?;
        Ok(Self { live: Arc::clone(live), name, begun, progress })
    }

    /// Returns the outcome as Python code sees it; `None` if there is none yet.
    fn outcome(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(outcome) = lock(&self.progress).outcome.clone() else { return Ok(None) };
        Ok(Some(match outcome.map_err(Failure::from)? {
            Value::Nothing => py.None(),
            Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Value::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
            Value::Memory(memory, segments) => {
                let live = Arc::clone(&self.live);
                Py::new(py, HostMemory { live, memory, segments })?.into_any()
            }
        }))
    }
}

#[pymethods]
impl Operation {
    /// Whether it has ended.
    #[getter]
    fn done(&self) -> bool {
        lock(&self.progress).outcome.is_some()
    }

    /// Simulated time at which it began, ps.
    #[getter]
    const fn begun_ps(&self) -> u64 {
        self.begun.0
    }

    /// Simulated time at which it ended, ps.
    #[getter]
    fn ended_ps(&self) -> Option<u64> {
        let progress = lock(&self.progress);
        progress.outcome.as_ref().map(|_| progress.ended.0)
    }

    /// Returns its result, or raises its error.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pending = || Failure::busy(format!("the {} has not ended; advance the lab", self.name));
        Ok(self.outcome(py)?.ok_or_else(pending)?)
    }

    /// Runs the lab until it has ended, at most until a time; then `DeadlineError`. For labs beside
    /// which no simulator runs.
    #[pyo3(signature = (until_ps = None))]
    fn wait(&self, py: Python<'_>, until_ps: Option<u64>) -> PyResult<Py<PyAny>> {
        let progress = &self.progress;
        let has_ended = self.live.call(py, |state| {
            let is_over = || lock(progress).outcome.is_some();
            match until_ps {
                Some(until) => {
                    state.advance_until(Picoseconds(until), |_| Ok::<_, Failure>(is_over()))
                }
                None => state.run("wait", ended(progress)).map(|()| true),
            }
        })?;
        if !has_ended {
            let until = until_ps.unwrap_or_default();
            return Err(Failure::deadline(format!(
                "the {} has not ended at {until} ps; it goes on",
                self.name
            ))
            .into());
        }
        self.result(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.done() { "ended" } else { "under way" };
        format!("<crosslane.Operation {}, {state}>", self.name)
    }
}

/// A host of a running lab: its processor's accesses, memory for devices, interrupts.
#[pyclass(frozen, module = "crosslane")]
pub struct Host {
    live: Arc<Live>,
    id: HostId,
    #[pyo3(get)]
    name: String,
    bus: LabBus,
}

/// Checks a length.
fn length(bytes: u64) -> Result<usize, Failure> {
    match bytes {
        1..=MOST_BYTES => Ok(bytes as usize),
        _ => Err(Failure::argument(format!("{bytes} B: 1 to {MOST_BYTES} B are possible"))),
    }
}

/// Returns the time that is `span_ps` from now.
fn deadline(bus: &LabBus, span_ps: u64) -> Picoseconds {
    Picoseconds(bus.now().0.saturating_add(span_ps))
}

impl Host {
    /// Makes a host.
    pub const fn new(live: Arc<Live>, id: HostId, name: String, bus: LabBus) -> Self {
        Self { live, id, name, bus }
    }

    /// Returns the number of an endpoint's function below this host.
    fn function(&self, state: &State, endpoint: &str) -> Result<RoutingId, Failure> {
        let node = state.endpoint(endpoint)?;
        state.simulation().with_fabric(|fabric| {
            let found = fabric.node(node);
            if found.host != self.id {
                let problem = format!("{endpoint} is not below {}", self.name);
                return Err(Failure::argument(problem));
            }
            Ok(fabric.routing_id(found.ports[0]))
        })
    }

    /// Begins an operation with an endpoint.
    fn begin<F>(
        &self,
        py: Python<'_>,
        endpoint: &str,
        name: &'static str,
        operation: impl FnOnce(LabBus, RoutingId) -> F,
    ) -> PyResult<Operation>
    where
        F: Future<Output = BusResult<Value>> + Send + 'static,
    {
        let function = self.live.call(py, |state| self.function(state, endpoint))?;
        let operation = operation(self.bus.clone(), function);
        Operation::begin(py, &self.live, &self.bus, name, operation)
    }
}

#[pymethods]
impl Host {
    /// Functions below it, as it has enumerated them: name, id, kind and placed BARs (number,
    /// address, bytes).
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let bus = self.bus.clone();
        let found: Vec<FunctionInfo> =
            self.live.call(py, |_| Ok(bus.functions().map_err(BusError::from)?))?;
        let named = |info: FunctionInfo| {
            let named = PyDict::new(py);
            named.set_item("name", info.name)?;
            named.set_item("id", info.id.0)?;
            named.set_item("address", info.id.to_string())?;
            named.set_item("kind", info.port_type.to_string())?;
            named.set_item("vendor", info.vendor)?;
            named.set_item("device", info.device)?;
            let bars: Vec<(usize, u64, u64)> =
                info.bars.iter().map(|bar| (bar.index, bar.base.0, bar.size_bytes)).collect();
            named.set_item("bars", bars)?;
            Ok(named)
        };
        found.into_iter().map(named).collect()
    }

    /// Reads a double word of an endpoint's configuration space, in no simulated time.
    fn config_read(&self, py: Python<'_>, endpoint: &str, offset: u16) -> PyResult<u32> {
        self.live.call(py, |state| {
            let function = self.function(state, endpoint)?;
            Ok(self.bus.config_read(function, offset).map_err(BusError::from)?)
        })
    }

    /// Writes the bytes of a double word of an endpoint's configuration space that are enabled.
    #[pyo3(signature = (endpoint, offset, value, byte_enables = 0xf))]
    fn config_write(
        &self,
        py: Python<'_>,
        endpoint: &str,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> PyResult<()> {
        self.live.call(py, |state| {
            let function = self.function(state, endpoint)?;
            let written = self.bus.config_write(function, offset, value, byte_enables);
            Ok(written.map_err(BusError::from)?)
        })
    }

    /// Stores bytes behind a BAR, `width` at a time. It ends when they have left the core.
    #[pyo3(signature = (endpoint, bar, offset, data, *, width = 4, combined = false))]
    #[expect(clippy::too_many_arguments, reason = "options of a store, by name")]
    fn store(
        &self,
        py: Python<'_>,
        endpoint: &str,
        bar: u8,
        offset: u64,
        data: &Bound<'_, PyAny>,
        width: u32,
        combined: bool,
    ) -> PyResult<Operation> {
        let view = View::of(data)?;
        length(view.bytes())?;
        let data = view.with(py, <[u8]>::to_vec);
        let stores = if combined { Stores::combined(width) } else { Stores::uncached(width) };
        self.begin(py, endpoint, "store", |bus, function| async move {
            let at = RegisterAddress { function, bar, offset_bytes: offset };
            bus.store(at, &data, stores).await?;
            Ok(Value::Nothing)
        })
    }

    /// Loads bytes from behind a BAR.
    fn load(
        &self,
        py: Python<'_>,
        endpoint: &str,
        bar: u8,
        offset: u64,
        nbytes: u64,
    ) -> PyResult<Operation> {
        let nbytes = length(nbytes)?;
        self.begin(py, endpoint, "load", move |bus, function| async move {
            let at = RegisterAddress { function, bar, offset_bytes: offset };
            let mut data = vec![0; nbytes];
            bus.load(at, &mut data, Mapping::Uncached).await?;
            Ok(Value::Bytes(data))
        })
    }

    /// Writes a register of 32 bits.
    fn write_register(
        &self,
        py: Python<'_>,
        endpoint: &str,
        bar: u8,
        offset: u64,
        value: u32,
    ) -> PyResult<Operation> {
        self.begin(py, endpoint, "register write", move |bus, function| async move {
            let at = RegisterAddress { function, bar, offset_bytes: offset };
            bus.write_register(at, value).await?;
            Ok(Value::Nothing)
        })
    }

    /// Reads a register of 32 bits.
    fn read_register(
        &self,
        py: Python<'_>,
        endpoint: &str,
        bar: u8,
        offset: u64,
    ) -> PyResult<Operation> {
        self.begin(py, endpoint, "register read", move |bus, function| async move {
            let at = RegisterAddress { function, bar, offset_bytes: offset };
            Ok(Value::Number(bus.read_register(at).await?.into()))
        })
    }

    /// Waits until all stores of the core have left it.
    fn fence(&self, py: Python<'_>) -> PyResult<Operation> {
        let bus = self.bus.clone();
        Operation::begin(py, &self.live, &self.bus, "fence", async move {
            bus.fence().await?;
            Ok(Value::Nothing)
        })
    }

    /// Lets time pass.
    fn sleep(&self, py: Python<'_>, span_ps: u64) -> PyResult<Operation> {
        let (bus, until) = (self.bus.clone(), deadline(&self.bus, span_ps));
        Operation::begin(py, &self.live, &self.bus, "sleep", async move {
            bus.sleep_until(until).await;
            Ok(Value::Nothing)
        })
    }

    /// Allocates memory and makes it reachable for an endpoint.
    #[pyo3(signature = (endpoint, nbytes, *, huge = true))]
    fn memory(
        &self,
        py: Python<'_>,
        endpoint: &str,
        nbytes: u64,
        huge: bool,
    ) -> PyResult<Operation> {
        length(nbytes)?;
        let pages = if huge { PageSize::Huge } else { PageSize::Small };
        self.begin(py, endpoint, "allocation", move |bus, function| async move {
            let memory = bus.allocate(nbytes, pages)?;
            let segments = bus.pin(function, &memory).await?;
            Ok(Value::Memory(memory, segments))
        })
    }

    /// Lets an endpoint send so many interrupts: its MSI-X table is written.
    #[pyo3(signature = (endpoint, vectors = 1))]
    fn enable_interrupts(
        &self,
        py: Python<'_>,
        endpoint: &str,
        vectors: u16,
    ) -> PyResult<Operation> {
        self.begin(py, endpoint, "setting of interrupts", move |bus, function| async move {
            bus.enable_interrupts(function, vectors).await?;
            Ok(Value::Nothing)
        })
    }

    /// Waits for an interrupt of a vector. Its result is the number since the last such wait.
    #[pyo3(signature = (endpoint, vector = 0, *, within_ps = 10_000_000_000))]
    fn wait_interrupt(
        &self,
        py: Python<'_>,
        endpoint: &str,
        vector: u16,
        within_ps: u64,
    ) -> PyResult<Operation> {
        let until = deadline(&self.bus, within_ps);
        self.begin(py, endpoint, "wait for an interrupt", move |bus, function| async move {
            Ok(Value::Number(bus.wait_interrupt(function, vector, until).await?))
        })
    }

    /// Polls a 32-bit word of a memory until it differs from `seen`. Its result is the new value.
    #[pyo3(signature = (memory, offset, seen = 0, *, within_ps = 10_000_000_000))]
    fn wait_memory(
        &self,
        py: Python<'_>,
        memory: &Bound<'_, HostMemory>,
        offset: u64,
        seen: u32,
        within_ps: u64,
    ) -> PyResult<Operation> {
        let (bus, memory) = (self.bus.clone(), memory.get().memory.clone());
        let until = deadline(&self.bus, within_ps);
        Operation::begin(py, &self.live, &self.bus, "wait for memory", async move {
            let value = bus.wait_memory(&memory, offset, seen, until).await?;
            Ok(Value::Number(value.into()))
        })
    }

    /// Spends time of its core on code that takes so long.
    fn work(&self, py: Python<'_>, span_ps: u64) -> PyResult<Operation> {
        let bus = self.bus.clone();
        let span = HostWork::Time(Picoseconds(span_ps));
        Operation::begin(py, &self.live, &self.bus, "work", async move {
            bus.work(span).await;
            Ok(Value::Nothing)
        })
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Host {}>", self.name)
    }
}

/// Memory of a host that an endpoint reaches.
#[pyclass(frozen, module = "crosslane")]
pub struct HostMemory {
    live: Arc<Live>,
    memory: LabMemory,
    segments: Vec<Segment>,
}

#[pymethods]
impl HostMemory {
    /// Address of its first byte, as the endpoint has to send it.
    #[getter]
    fn address(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.address.0)
    }

    /// Addresses and lengths of the runs that it consists of, in their order.
    #[getter]
    fn segments(&self) -> Vec<(u64, u64)> {
        self.segments.iter().map(|segment| (segment.address.0, segment.bytes)).collect()
    }

    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    /// Reads bytes, in no simulated time.
    #[pyo3(signature = (offset = 0, nbytes = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        nbytes: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let nbytes = nbytes.unwrap_or(self.memory.size_bytes().saturating_sub(offset));
        let mut data = vec![0; length(nbytes)?];
        let data = self.live.call(py, move |_| {
            self.memory.read(offset, &mut data)?;
            Ok(data)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    /// Writes bytes, in no simulated time.
    fn write(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = View::of(data)?.with(py, <[u8]>::to_vec);
        self.live.call(py, move |_| Ok(self.memory.write(offset, &data)?))
    }

    fn __len__(&self) -> usize {
        self.memory.size_bytes() as usize
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.HostMemory {} B at {:#x}>", self.nbytes(), self.address())
    }
}
