// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host code in simulated time: an executor that polls it, and [`LabBus`], its access to the lab.
//!
//! Tasks are polled one after the other, in the order in which they became ready. When none is
//! ready, the fabric runs until something happens for one of them. Nothing here depends on the
//! machine: the same lab, seed and host code give the same trace.
//!
//! ```
//! use crosslane_host::Bus;
//! use crosslane_lab::{Simulation, open};
//! use crosslane_pcie::units::{HostId, Picoseconds};
//!
//! let simulation = Simulation::new(open("minimal")?.build(1)?);
//! let bus = simulation.bus(HostId(0));
//! let time = simulation.run("sleeper", async {
//!     bus.sleep_until(Picoseconds::from_ns(700)).await;
//!     bus.now()
//! })?;
//! assert_eq!(time, Picoseconds::from_ns(700));
//! simulation.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bus;
mod free;
#[cfg(all(test, not(target_family = "wasm")))] // threads
mod free_tests;
mod interrupts;
mod memory;
mod pages;
mod parts;
mod rdma;
mod shared;
mod stuck;
mod task;
#[cfg(test)]
mod tests;
mod translation;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crosslane_cosim::Card;
use crosslane_device::Engine;
use crosslane_fabric::{Fabric, NodeId, PortId, RunEnd};
use crosslane_host::RdmaResult;
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};

use crate::lab::{RunningHost, RunningLab};
use parts::Joint;
use shared::{Progress, Shared};
use task::{Ready, TaskId, TaskWaker};

pub use bus::LabBus;
pub use memory::LabMemory;
pub use rdma::{LabConnection, LabListener, LabRdma, LabRegion};
pub use stuck::{Stuck, WhyStuck};
pub use task::Task;

/// Polls of tasks at one simulated time after which a run is given up: far more than waiting tasks
/// of a lab need, and a second or two of computing.
pub const MAX_POLLS_AT_ONE_TIME: u64 = 1 << 20;

/// Memory for devices that has been allocated and not freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryInUse {
    /// Bytes of its pages, including those freed while pinned.
    pub bytes: u64,
    /// The function of each pin.
    pub pinned_for: Vec<RoutingId>,
}

type BoxedTask = Pin<Box<dyn Future<Output = ()>>>;

struct Spawned {
    name: String,
    /// Taken while it is polled; the future of [`Simulation::run`] is never here.
    future: Option<BoxedTask>,
}

#[derive(Default)]
struct Tasks {
    last: TaskId,
    live: BTreeMap<TaskId, Spawned>,
}

/// A lab with host code running in it. Spawned tasks run only during [`run`](Self::run) and
/// [`finish`](Self::finish); time stands still in between.
pub struct Simulation {
    shared: Arc<Shared>,
    tasks: RefCell<Tasks>,
    ready: Arc<Ready>,
    time_limit: Cell<Option<Picoseconds>>,
    running: Cell<bool>,
    polls: Cell<(Picoseconds, u64)>,
    /// Connection of a part of a lab with the others.
    joint: RefCell<Option<Joint>>,
}

impl Simulation {
    /// Takes ownership of a lab.
    pub fn new(lab: RunningLab) -> Self {
        Self {
            shared: Arc::new(Shared::new(lab)),
            tasks: RefCell::default(),
            ready: Arc::default(),
            time_limit: Cell::new(None),
            running: Cell::new(false),
            polls: Cell::new((Picoseconds::ZERO, 0)),
            joint: RefCell::default(),
        }
    }

    /// Sets the time at which a run is given up, so that code that never ends is cut off; `None`,
    /// the default, is no limit.
    pub fn set_time_limit(&self, limit: Option<Picoseconds>) {
        self.time_limit.set(limit);
    }

    /// Returns the bus of a host, from its core 0.
    ///
    /// # Panics
    /// If the lab has no such host.
    pub fn bus(&self, host: HostId) -> LabBus {
        LabBus::new(self.shared.clone(), host)
    }

    /// Returns a host's access to a network through one of its NICs, driven by its core 0.
    ///
    /// # Errors
    /// [`RdmaError::Unusable`](crosslane_host::RdmaError::Unusable) if the host has no such NIC, or
    /// the NIC has no network link.
    ///
    /// # Panics
    /// If the lab has no such host.
    pub fn rdma(&self, host: HostId, nic: &str) -> RdmaResult<LabRdma> {
        LabRdma::new(self.bus(host), self.shared.clone(), nic)
    }

    /// Returns the hosts of the lab, in the order of their [`HostId`], as enumerated.
    pub fn hosts(&self) -> &[RunningHost] {
        &self.shared.hosts
    }

    /// Finds a node by name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.shared.names.get(name).copied()
    }

    /// Finds a port by name, such as `rha25.up`; an endpoint's port has the endpoint's name.
    pub fn find_port(&self, name: &str) -> Option<PortId> {
        crate::lab::find_port(&self.shared.lock().fabric, &self.shared.names, name)
    }

    /// Returns the memory that a host's programs hold now.
    ///
    /// # Panics
    /// If the lab has no such host.
    pub fn memory_in_use(&self, host: HostId) -> MemoryInUse {
        let state = self.shared.lock();
        let memory = &state.memories[usize::from(host.0)];
        let bytes = memory.pages.total_bytes() - memory.pages.free_bytes();
        MemoryInUse { bytes, pinned_for: memory.pins.functions() }
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Picoseconds {
        self.shared.lock().fabric.now()
    }

    /// Inspects or changes the fabric outside simulated time: counters, traces, errors, memory. The
    /// closure must not use the simulation or its buses.
    pub fn with_fabric<R>(&self, look: impl FnOnce(&mut Fabric) -> R) -> R {
        look(&mut self.shared.lock().fabric)
    }

    /// Reads the memory of a card with an engine outside simulated time. Returns false if there is
    /// no such memory.
    pub fn peek_card(&self, card: &str, address: u64, out: &mut [u8]) -> bool {
        let Some(node) = self.find(card) else { return false };
        let mut state = self.shared.lock();
        if let Some(engine) = state.fabric.device_as::<Engine>(node) {
            return engine.peek_memory(address, out);
        }
        let card = state.fabric.device_as::<Card>(node);
        card.is_some_and(|card| card.peek_memory(address, out))
    }

    /// Adds a task; its first poll comes after those of the tasks that are ready. It runs to its
    /// end even if the [`Task`] is dropped.
    pub fn spawn<F>(&self, name: &str, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (task, future) = Task::new(self.shared.clone(), name, future);
        self.add(name, Some(Box::pin(future)));
        task
    }

    /// Runs a future to its end, and the spawned tasks beside it. The future may borrow data that
    /// does not outlive the simulation.
    ///
    /// # Errors
    /// [`Stuck`] if it can never end, or reaches a limit; the future is dropped then.
    ///
    /// # Panics
    /// If a run of this simulation is in progress.
    pub fn run<F: Future>(&self, name: &str, future: F) -> Result<F::Output, Stuck> {
        let (mut future, mut output) = (pin!(future), None);
        self.run_until(name, &mut |context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                output = Some(value);
            }
            output.is_some()
        })?;
        Ok(output.expect("a run that did not fail has ended"))
    }

    /// Runs a program that says at each poll whether it has ended.
    fn run_until(&self, name: &str, poll: &mut PollEnds<'_>) -> Result<(), Stuck> {
        let run = RunGuard::start(self, name);
        loop {
            let Some(task) = self.ready.pop() else {
                self.advance()?;
                continue;
            };
            self.count_poll()?;
            if task.id != run.task.id {
                self.poll_task(&task);
            } else if run.poll(poll) {
                return Ok(());
            }
        }
    }

    /// Runs all spawned tasks to their end and the fabric until it is idle.
    ///
    /// # Errors
    /// [`Stuck`] if one of them, or the fabric, can never end, or reaches a limit.
    ///
    /// # Panics
    /// If a run of this simulation is in progress.
    pub fn finish(&self) -> Result<(), Stuck> {
        assert!(!self.running.get(), "a run of this simulation is going on");
        while !self.tasks.borrow().live.is_empty() {
            match self.ready.pop() {
                Some(task) => {
                    self.count_poll()?;
                    self.poll_task(&task);
                }
                None => self.advance()?,
            }
        }
        // Connections dropped by their programs end by themselves.
        while self.shared.lock().networks.is_closing() {
            self.advance()?;
        }
        let limit = self.time_limit.get();
        let mut state = self.shared.lock();
        if let Some(joint) = &mut *self.joint.borrow_mut() {
            return state.finish_part(limit, joint);
        }
        let end = state.fabric.run(limit);
        Stuck::unless_quiet(end, state.fabric.now())
    }

    fn add(&self, name: &str, future: Option<BoxedTask>) -> Arc<TaskWaker> {
        let mut tasks = self.tasks.borrow_mut();
        tasks.last = tasks.last.next();
        let id = tasks.last;
        tasks.live.insert(id, Spawned { name: name.to_owned(), future });
        self.ready.add(id)
    }

    /// Polls a spawned task. Neither the tasks nor the lab are borrowed meanwhile, so that it may
    /// spawn tasks and end others.
    fn poll_task(&self, task: &Arc<TaskWaker>) {
        let id = task.id;
        let mut tasks = self.tasks.borrow_mut();
        // An ended task, or the future of an ended run.
        let Some(spawned) = tasks.live.get_mut(&id) else { return };
        let Some(mut future) = spawned.future.take() else { return };
        drop(tasks);
        let waker = Waker::from(task.clone());
        self.shared.lock().begin_poll(id);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.shared.lock().end_poll();
        let mut tasks = self.tasks.borrow_mut();
        if polled.is_pending() {
            if let Some(spawned) = tasks.live.get_mut(&id) {
                spawned.future = Some(future);
            }
        } else {
            tasks.live.remove(&id);
            task.forget();
            drop(tasks);
            drop(future);
        }
    }

    /// Runs the fabric until something happens for host code.
    fn advance(&self) -> Result<(), Stuck> {
        let limit = self.time_limit.get();
        let (progress, wakers) = match &mut *self.joint.borrow_mut() {
            None => self.shared.lock().advance(limit),
            Some(joint) => self.shared.lock().advance_part(limit, joint),
        };
        for waker in wakers {
            waker.wake();
        }
        self.shared.bury();
        match progress {
            Progress::Happened => Ok(()),
            Progress::NothingLeft(time) => Err(self.stuck(time, WhyStuck::NothingLeft)),
            Progress::Limit(time) => Err(self.stuck(time, WhyStuck::TimeLimit)),
            Progress::Ended => Err(self.stuck(self.now(), WhyStuck::Ended)),
        }
    }

    fn count_poll(&self) -> Result<(), Stuck> {
        let (then, count) = self.polls.get();
        let now = self.now();
        let count = if now == then { count + 1 } else { 1 };
        self.polls.set((now, count));
        if count <= MAX_POLLS_AT_ONE_TIME {
            return Ok(());
        }
        self.polls.set((now, 0));
        Err(self.stuck(now, WhyStuck::NoProgress))
    }

    /// Lists what each task waits for, in the order in which they were started, then the unfinished
    /// work of the fabric.
    fn stuck(&self, time: Picoseconds, why: WhyStuck) -> Stuck {
        let tasks = self.tasks.borrow();
        let mut state = self.shared.lock();
        let mut waiting = Vec::new();
        for (id, task) in &tasks.live {
            waiting.push(format!("{}: {}", task.name, state.waits_of(Some(*id), &self.shared)));
        }
        if state.has_waits_of(None) {
            let waits = state.waits_of(None, &self.shared);
            waiting.push(format!("outside of the tasks: {waits}"));
        }
        if why == WhyStuck::NothingLeft {
            // The fabric has no event left; if it has open work, it lists it.
            let now = state.fabric.now();
            if let RunEnd::Stuck(lines) = state.fabric.run(Some(now)) {
                waiting.extend(lines);
            }
        }
        Stuck { time, why, waiting }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Objects held by operations, and abandoned ones, would keep the lab alive.
        let tasks = std::mem::take(&mut self.tasks.borrow_mut().live);
        drop(tasks);
        self.ready.close();
        let dead = self.shared.lock().networks.take_all();
        drop(dead);
        self.shared.bury();
        loop {
            let abandoned = std::mem::take(&mut self.shared.lock().abandoned);
            if abandoned.is_empty() {
                return;
            }
            drop(abandoned);
        }
    }
}

/// Polls a program; true once it has ended.
type PollEnds<'a> = dyn FnMut(&mut Context<'_>) -> bool + 'a;

/// Keeps the future of a run among the tasks, for as long as the run lasts.
struct RunGuard<'a> {
    simulation: &'a Simulation,
    task: Arc<TaskWaker>,
    waker: Waker,
}

impl<'a> RunGuard<'a> {
    fn start(simulation: &'a Simulation, name: &str) -> Self {
        let going_on = simulation.running.replace(true);
        assert!(!going_on, "a run of this simulation is going on already");
        let task = simulation.add(name, None);
        Self { simulation, waker: task.clone().into(), task }
    }

    /// Polls the future of the run at its turn.
    fn poll(&self, poll: &mut PollEnds<'_>) -> bool {
        self.simulation.shared.lock().begin_poll(self.task.id);
        let has_ended = poll(&mut Context::from_waker(&self.waker));
        self.simulation.shared.lock().end_poll();
        has_ended
    }
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.simulation.running.set(false);
        self.task.forget();
        self.simulation.tasks.borrow_mut().live.remove(&self.task.id);
    }
}
