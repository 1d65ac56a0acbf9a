// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab that runs step by step beside code outside of it, which takes the place of endpoints.
//!
//! Read first: [`RunningLab`]; `port.rs` has the TLPs of an endpoint, `host.rs` what its host does.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crosslane::experiment::{Choices, FlowArgument, Scenario, TrafficWork, at_once};
use crosslane::fabric::{FlowId, FlowReport, NodeId, NodeKind};
use crosslane::host::{Bus, PageSize, lock};
use crosslane::lab::{Lab as Loaded, LabMemory, RunError, Simulation, TIME_LIMIT};
use crosslane::pcie::units::{HostId, Picoseconds};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::without_gil;
use crate::error::Failure;
use crate::host::Host;
use crate::port::Port;
use crate::process;
use crate::session::Inside;

/// Simulated time between two looks for signals, such as that of Ctrl-C.
const SLICE: Picoseconds = Picoseconds::from_us(100);
/// Most operations of a flow, whose times are all kept.
const MOST_OPERATIONS: u64 = 10_000_000;

/// A simulation that one thread after the other uses.
struct Owned(Simulation);

// SAFETY: of its parts only the futures of tasks, and the connection of a part of a lab with other
// parts, are not `Send`. This lab has no other parts, and `State::spawn`, which alone adds tasks,
// takes futures that are `Send`. The mutex of `Live` lets one thread at a time use the cells.
unsafe impl Send for Owned {}

impl Deref for Owned {
    type Target = Simulation;

    fn deref(&self) -> &Simulation {
        &self.0
    }
}

/// Lets the tasks that are ready run first.
async fn turn() {
    let mut is_given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The lab and its simulation.
pub struct State {
    simulation: Owned,
    lab: Arc<Loaded>,
    seed: u64,
    /// Endpoints whose logic is outside.
    outside: Vec<String>,
    /// Memories of flows, which nothing else gets.
    windows: Vec<LabMemory>,
}

/// A running lab, shared by the objects that use it.
pub struct Live {
    name: String,
    process: u32,
    state: Mutex<Option<State>>,
}

impl Live {
    fn closed(&self) -> Failure {
        Failure::closed(format!("lab {}: it is closed", self.name))
    }

    /// Makes a call with the state, without the GIL. Other threads wait meanwhile.
    ///
    /// # Errors
    /// A lab that is closed, or that the process has that forked this one.
    pub fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut State) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        if self.process != process::id() {
            let problem = "it was attached by the process that forked this one; attach it here";
            return Err(Failure::closed(format!("lab {}: {problem}", self.name)).into());
        }
        let _inside = Inside::enter(&self.name)?;
        without_gil(py, || {
            let broken = "a call has failed in the middle; attach it anew";
            let broken = |_| Failure::closed(format!("lab {}: {broken}", self.name));
            let mut state = self.state.lock().map_err(broken)?;
            call(state.as_mut().ok_or_else(|| self.closed())?)
        })
    }

    /// Ends it. Returns what ports and flows have detected.
    fn close(&self, py: Python<'_>) -> PyResult<Option<Failure>> {
        let _inside = Inside::enter(&self.name)?;
        if self.process != process::id() {
            return Ok(None);
        }
        without_gil(py, || {
            let state = self.state.lock().ok().and_then(|mut state| state.take());
            Ok(state.and_then(|state| state.detected()))
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.process != process::id() {
            // It belongs to the process that forked this one.
            std::mem::forget(std::mem::replace(&mut self.state, Mutex::new(None)));
        }
    }
}

impl State {
    /// Returns the simulation.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Picoseconds {
        self.simulation.now()
    }

    /// Adds a task and lets it begin now.
    pub fn spawn(
        &self,
        name: &str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Failure> {
        drop(self.simulation.spawn(name, task));
        Ok(self.simulation.run("begin", turn())?)
    }

    /// Runs a future to its end.
    ///
    /// # Errors
    /// One that can never end.
    pub fn run<T>(&self, name: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
        Ok(self.simulation.run(name, future)?)
    }

    /// Runs the lab until a time: everything that happens up to then has happened.
    ///
    /// # Errors
    /// A time that has passed, or is beyond what a run simulates.
    pub fn advance(&self, until: Picoseconds) -> Result<(), Failure> {
        let now = self.now();
        if until < now {
            let problem = format!("cannot go back to {} ps: it is {} ps", until.0, now.0);
            return Err(Failure::argument(problem));
        }
        if until > TIME_LIMIT {
            let problem = format!("cannot go on to {} ps: a run ends at {TIME_LIMIT}", until.0);
            return Err(Failure::argument(problem));
        }
        let bus = self.simulation.bus(HostId(0));
        let mut at = now;
        loop {
            at = Picoseconds(at.0.saturating_add(SLICE.0)).min(until);
            self.run("step", async {
                bus.sleep_until(at).await;
                turn().await;
            })?;
            if at == until {
                return Ok(());
            }
            Python::attach(|py| py.check_signals())?;
        }
    }

    /// Runs the lab until a condition holds, at most until a time. Returns whether it does.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_until(
        &mut self,
        until: Picoseconds,
        mut holds: impl FnMut(&mut Self) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        // Before anything else, so that a bad time is refused in any case.
        self.advance(until.min(self.now()))?;
        loop {
            if holds(self)? {
                return Ok(true);
            }
            let now = self.now();
            if now >= until {
                return Ok(false);
            }
            let next = self.simulation.with_fabric(|fabric| fabric.next_event());
            // Events that are due now have to happen, too.
            self.advance(next.max(Picoseconds(now.0 + 1)).min(until))?;
        }
    }

    /// Returns the error that ports and flows have detected, if there is one.
    fn detected(&self) -> Option<Failure> {
        self.simulation.with_fabric(|fabric| {
            let first = fabric.errors().first()?;
            let (first, count) = (first.to_string(), fabric.error_count());
            Some(RunError::<Infallible>::Fabric { first, count }.into())
        })
    }

    /// Finds an endpoint by its name.
    ///
    /// # Errors
    /// No such endpoint.
    pub fn endpoint(&self, name: &str) -> Result<NodeId, Failure> {
        let found = self.simulation.find(name).filter(|node| {
            self.simulation.with_fabric(|fabric| fabric.node(*node).kind == NodeKind::Endpoint)
        });
        found.ok_or_else(|| {
            let known = self.lab.endpoints_with(|_| true).join(", ");
            Failure::argument(format!("the lab has no endpoint {name}; it has {known}"))
        })
    }

    /// Starts flows between the lab's own endpoints and memories. Flows to a host get memory that
    /// nothing else has.
    fn traffic(
        &mut self,
        flows: &[String],
        choices: Choices,
    ) -> Result<Vec<(String, FlowId)>, Failure> {
        let outside: Vec<&str> = self.outside.iter().map(String::as_str).collect();
        let built = self.lab.build_outside(self.seed, &outside)?;
        let mut wanted: Vec<FlowArgument> = Vec::new();
        for text in flows {
            let flow: FlowArgument = text.parse().map_err(Failure::argument)?;
            wanted.extend(flow.expanded(&built).into_iter().filter(|flow| {
                // A pattern leaves the endpoints out whose logic is outside.
                let is_meant = |end: &String| !self.outside.contains(end);
                is_meant(&flow.from) && is_meant(&flow.to) || flow.to_string() == *text
            }));
        }
        let runs = at_once(&wanted).map_err(Failure::argument)?;
        let [requests] = <[Vec<_>; 1]>::try_from(runs).map_err(|runs| {
            Failure::argument(match runs.is_empty() {
                true => "flows are missing, such as 'card1:host:write:4K'",
                false => "each flow has one size here",
            })
        })?;
        let names: Vec<String> = requests.iter().map(|request| request.label.clone()).collect();
        let work = TrafficWork { flows: requests, choices, shuffle: false };
        let planned = Scenario::new(Arc::clone(&self.lab), work).plan(&built)?;
        for (flow, name) in planned.iter().zip(&names) {
            let ends = [&flow.from, &built.fabric.node(flow.target_node).name];
            if let Some(end) = ends.into_iter().find(|end| self.outside.contains(end)) {
                let problem = "its logic is outside of the lab, and makes its own traffic";
                return Err(Failure::argument(format!(
                    "{name}: {end} cannot have flows: {problem}"
                )));
            }
            if flow.is_copied {
                return Err(Failure::argument(format!("{name}: there are no copies here")));
            }
            if flow.flow.operations > MOST_OPERATIONS {
                let most = format!("{MOST_OPERATIONS} operations are possible");
                return Err(Failure::argument(format!("{name}: at most {most}")));
            }
        }
        let mut started = Vec::new();
        for (mut planned, name) in planned.into_iter().zip(names) {
            let node = planned.target_node;
            let host = self.simulation.hosts().iter().find(|host| host.root_complex == node);
            if let Some(host) = host {
                let bus = self.simulation.bus(host.id);
                let memory = bus.allocate(planned.flow.window_bytes, PageSize::Huge)?;
                let [segment] = memory.segments()[..] else {
                    let problem = "no contiguous memory is left for it";
                    return Err(Failure::argument(format!("{name}: {problem}")));
                };
                planned.flow.target = segment.address;
                self.windows.push(memory);
            }
            planned.flow.start = self.now();
            let flow = planned.flow;
            let id = self.simulation.with_fabric(|fabric| fabric.start_flow(flow));
            started.push((name, id.map_err(Failure::argument)?));
        }
        Ok(started)
    }
}

/// A lab that runs beside code outside of it, which takes the place of some of its endpoints. Its
/// time moves only by `advance` and by calls that wait.
#[pyclass(frozen, module = "crosslane")]
pub struct RunningLab {
    live: Arc<Live>,
    ports: Vec<(String, Py<Port>)>,
}

/// Attaches code outside to endpoints of a lab: its logic takes their place.
pub fn attach(
    py: Python<'_>,
    lab: &Arc<Loaded>,
    endpoints: Vec<String>,
    seed: u64,
) -> PyResult<RunningLab> {
    if endpoints.is_empty() {
        let known = lab.endpoints_with(|_| true).join(", ");
        return Err(Failure::argument(format!("an endpoint is missing; there are {known}")).into());
    }
    for (number, name) in endpoints.iter().enumerate() {
        if endpoints[..number].contains(name) {
            return Err(Failure::busy(format!("{name} is attached twice")).into());
        }
    }
    let (state, nodes) = without_gil(py, || {
        let names: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        let built = lab.build_outside(seed, &names)?;
        let nodes: Vec<NodeId> = names.iter().filter_map(|name| built.find(name)).collect();
        let simulation = Owned(Simulation::new(built));
        let (lab, outside) = (Arc::clone(lab), endpoints.clone());
        Ok((State { simulation, lab, seed, outside, windows: Vec::new() }, nodes))
    })?;
    let name = lab.name().to_owned();
    let live = Arc::new(Live { name, process: process::id(), state: Mutex::new(Some(state)) });
    let ports = endpoints.into_iter().zip(nodes).map(|(name, node)| {
        let port = Py::new(py, Port::new(Arc::clone(&live), name.clone(), node))?;
        Ok((name, port))
    });
    let ports = ports.collect::<PyResult<_>>()?;
    Ok(RunningLab { live, ports })
}

#[pymethods]
impl RunningLab {
    /// Returns the port of an endpoint that is attached; of the only one by default.
    #[pyo3(signature = (endpoint = None))]
    fn port(&self, py: Python<'_>, endpoint: Option<&str>) -> PyResult<Py<Port>> {
        let found = match (endpoint, &self.ports[..]) {
            (None, [(_, only)]) => Some(only),
            (None, _) => None,
            (Some(name), ports) => ports.iter().find(|(of, _)| of == name).map(|(_, port)| port),
        };
        let missing = || {
            let all: Vec<&str> = self.ports.iter().map(|(name, _)| name.as_str()).collect();
            let wanted = endpoint
                .map_or("a name is needed".to_owned(), |name| format!("{name} is not attached"));
            Failure::argument(format!("{wanted}; attached are {}", all.join(", ")))
        };
        Ok(found.ok_or_else(missing)?.clone_ref(py))
    }

    /// Returns a host by its name; the only one by default.
    #[pyo3(signature = (name = None))]
    fn host(&self, py: Python<'_>, name: Option<String>) -> PyResult<Host> {
        let found = self.live.call(py, |state| {
            let hosts = state.simulation.hosts();
            let found = match &name {
                None if hosts.len() == 1 => hosts.first(),
                None => None,
                Some(name) => hosts.iter().find(|host| host.name == *name),
            };
            let all: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            let missing = || Failure::argument(format!("name a host: {}", all.join(", ")));
            let host = found.ok_or_else(missing)?;
            Ok((host.id, host.name.clone(), state.simulation.bus(host.id)))
        })?;
        let (id, name, bus) = found;
        Ok(Host::new(Arc::clone(&self.live), id, name, bus))
    }

    /// Runs the lab until a time: everything that happens up to then has happened.
    fn advance(&self, py: Python<'_>, until_ps: u64) -> PyResult<()> {
        self.live.call(py, |state| state.advance(Picoseconds(until_ps)))
    }

    /// Simulated time in picoseconds.
    #[getter]
    fn now_ps(&self, py: Python<'_>) -> PyResult<u64> {
        self.live.call(py, |state| Ok(state.now().0))
    }

    /// Starts flows between the lab's own endpoints and memories, as those of `Lab.run`. Flows to a
    /// host get memory that nothing else has.
    #[pyo3(signature = (*flows, operations = None, outstanding = None, window = None,
                        relaxed = false, random = false))]
    #[expect(clippy::too_many_arguments, reason = "options of flows, by name")]
    fn traffic(
        &self,
        py: Python<'_>,
        flows: Vec<String>,
        operations: Option<u64>,
        outstanding: Option<u32>,
        window: Option<u64>,
        relaxed: bool,
        random: bool,
    ) -> PyResult<Vec<Flow>> {
        let choices = Choices::default()
            .with_operations(operations)
            .with_outstanding(outstanding)
            .with_window_bytes(window)
            .with_relaxed(relaxed)
            .with_random(random);
        let started = self.live.call(py, |state| state.traffic(&flows, choices))?;
        let flow = |(name, id)| Flow { live: Arc::clone(&self.live), name, id };
        Ok(started.into_iter().map(flow).collect())
    }

    /// Errors that ports have detected so far, a sentence each.
    #[getter]
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.live.call(py, |state| {
            let errors = |fabric: &mut crosslane::fabric::Fabric| {
                fabric.errors().iter().map(ToString::to_string).collect()
            };
            Ok(state.simulation.with_fabric(errors))
        })
    }

    #[getter]
    fn closed(&self) -> bool {
        self.live.process != process::id() || lock(&self.live.state).is_none()
    }

    /// Ends it, and raises what ports have detected.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.live.close(py)? {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (raised, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let detected = self.live.close(py)?;
        match detected.filter(|_| raised.is_none()) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        let all: Vec<&str> = self.ports.iter().map(|(name, _)| name.as_str()).collect();
        format!("<crosslane.RunningLab {} with {} outside>", self.live.name, all.join(", "))
    }
}

/// A flow of a running lab.
#[pyclass(frozen, module = "crosslane")]
pub struct Flow {
    live: Arc<Live>,
    #[pyo3(get)]
    name: String,
    id: FlowId,
}

#[pymethods]
impl Flow {
    /// Returns its counts and times so far.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let id = self.id;
        let report: FlowReport = self
            .live
            .call(py, |state| Ok(state.simulation.with_fabric(|fabric| fabric.flow_report(id))))?;
        let counts: BTreeMap<&str, u64> = BTreeMap::from([
            ("operations", report.operations),
            ("bytes", report.bytes),
            ("tlps", report.tlps),
            ("failed", report.failed),
            ("first_post_ps", report.first_post.0),
            ("first_done_ps", report.first_done.0),
            ("last_done_ps", report.last_done.0),
        ]);
        let named = counts.into_pyobject(py)?;
        named.set_item("bytes_per_second", report.bytes_per_second())?;
        named.set_item("errors", report.errors)?;
        Ok(named)
    }

    fn __repr__(&self) -> String {
        format!("<crosslane.Flow {}>", self.name)
    }
}
