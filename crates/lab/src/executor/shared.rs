// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State shared by the executor and all buses of a lab, and the waits of host code for its events.
//! The lock is never held while a task is polled or a waker woken.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crosslane_fabric::{Fabric, HostEvent, HostRun, LoadError, NodeId, RunEnd};
use crosslane_host::RegisterAddress;
use crosslane_pcie::units::{HostId, Picoseconds, RoutingId};

use super::interrupts::Interrupts;
use super::memory::Pins;
use super::pages::Pages;
use super::rdma::Networks;
use super::task::TaskId;
use super::translation::IoAddresses;
use crate::lab::{RunningHost, RunningLab};
use crate::wiring::Border;

/// Token of the time limit; tokens of waits are higher.
const LIMIT_TOKEN: u64 = 0;

/// Longer than every time-out of a device: the longest in the specification is 64 s (PCIe 6.x
/// 7.5.3.16).
const LONGEST_TIMEOUT: Picoseconds = Picoseconds::from_secs(100);

/// Waits without waiting in one poll of a task before the other tasks get their turn. Without this
/// limit a task that never has to wait would never yield.
const RESULTS_AT_ONCE: u32 = 16;

/// A lab with host code in it.
pub(super) struct Shared {
    pub hosts: Vec<RunningHost>,
    pub names: BTreeMap<String, NodeId>,
    state: Mutex<State>,
}

/// The event that a future waits for.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A load of a register.
    Load { host: usize, at: RegisterAddress },
    /// Stores to leave the core.
    Stores { host: usize, at: RegisterAddress, bytes: usize },
    /// A core's combining buffers to drain.
    Fence { host: usize, core: u16 },
    /// A point in time.
    Time(Picoseconds),
    /// Work of a core, or its turn.
    Work { host: usize, core: u16, until: Picoseconds },
    /// A word of memory.
    Memory { host: usize, address: u64, seen: u32 },
    /// Interrupts.
    Interrupt { host: usize, function: RoutingId, vector: u16 },
    /// Another task.
    Task(Arc<str>),
    /// An operation over a network.
    Rdma { host: usize, peer: Arc<str>, operation: &'static str, bytes: u64 },
    /// A message from another node.
    Message { host: usize, peer: Arc<str> },
    /// A connection to an address.
    Accept(Arc<str>),
    /// The end of a connection.
    Closing { host: usize, peer: Arc<str> },
}

impl What {
    /// Describes it; follows the words "waits for".
    pub fn sentence(&self, shared: &Shared) -> String {
        let name = |host: &usize| &shared.hosts[*host].name;
        match self {
            Self::Load { host, at } => format!("a load of {at} by {}", name(host)),
            Self::Stores { host, at, bytes } => {
                format!("stores of {bytes} B to {at} by {}", name(host))
            }
            Self::Fence { host, core } => {
                format!("a fence of core {core} of {}", name(host))
            }
            Self::Time(time) => format!("the time to be {time}"),
            Self::Work { host, core, until } => {
                format!("work of core {core} of {}, asked for until {until}", name(host))
            }
            Self::Memory { host, address, seen } => {
                format!("4 B at {address:#x} of {}'s memory to change from {seen}", name(host))
            }
            Self::Interrupt { host, function, vector } => {
                format!("interrupt {vector} of {function} at {}", name(host))
            }
            Self::Task(name) => format!("task {name} to end"),
            Self::Rdma { host, peer, operation, bytes } => {
                format!("a {operation} of {bytes} B by {} to end, with {peer}", name(host))
            }
            Self::Message { host, peer } => format!("a message from {peer} to {}", name(host)),
            Self::Accept(address) => format!("a connection to {address}"),
            Self::Closing { host, peer } => {
                format!("the connection of {} with {peer} to end", name(host))
            }
        }
    }
}

/// Outcome of a wait.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// The event or its deadline; the waiting code checks which.
    Happened,
    /// A load ended.
    Loaded(Result<u64, LoadError>),
}

/// A wait whose outcome has not been fetched.
struct Waiting {
    /// The task that polled it last.
    task: Option<TaskId>,
    what: What,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// The memory of one host's programs.
pub(super) struct HostMemory {
    pub pages: Pages,
    pub pins: Pins,
    pub io_addresses: IoAddresses,
    /// Functions for which all of it is mapped one to one.
    pub direct: Vec<RoutingId>,
}

pub(super) struct State {
    pub fabric: Fabric,
    /// Cut cables of a part of a lab, before it joins the others.
    pub border: Option<Border>,
    /// Memories by host.
    pub memories: Vec<HostMemory>,
    pub interrupts: Interrupts,
    pub networks: Networks,
    /// Identifiers in the fabric by host.
    pub hosts: Vec<HostId>,
    pub host_names: Vec<String>,
    waits: BTreeMap<u64, Waiting>,
    /// Words of memory that are watched: host, address, token.
    watched: BTreeSet<(usize, u64, u64)>,
    last_token: u64,
    events: Vec<HostEvent>,
    /// The task that is being polled.
    task: Option<TaskId>,
    results_at_once: u32,
    /// Time of the last event for host code.
    pub last_event: Picoseconds,
    /// Objects without an owner that devices may still use; they keep the lab alive.
    pub abandoned: Vec<Box<dyn Any + Send>>,
}

/// Outcome of running the fabric.
pub(super) enum Progress {
    Happened,
    /// No event is left; the time is that of the last one.
    NothingLeft(Picoseconds),
    Limit(Picoseconds),
    /// Another part of the lab has failed, or the run has to end.
    Ended,
}

/// The buffers of all sockets of a host, which lie one behind the other.
fn all_buffers(host: &RunningHost) -> Range<u64> {
    let starts = host.socket_buffers.iter().map(|range| range.start);
    let ends = host.socket_buffers.iter().map(|range| range.end);
    starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
}

impl Shared {
    pub fn new(lab: RunningLab) -> Self {
        let RunningLab { fabric, border, hosts, names } = lab;
        let memory = |host: &RunningHost| HostMemory {
            pages: Pages::new(host.buffers.clone()),
            pins: Pins::default(),
            io_addresses: IoAddresses::new(all_buffers(host)),
            direct: host.direct.clone(),
        };
        let state = State {
            fabric,
            border,
            memories: hosts.iter().map(memory).collect(),
            interrupts: Interrupts::default(),
            networks: Networks::default(),
            hosts: hosts.iter().map(|host| host.id).collect(),
            host_names: hosts.iter().map(|host| host.name.clone()).collect(),
            waits: BTreeMap::new(),
            watched: BTreeSet::new(),
            last_token: LIMIT_TOKEN,
            events: Vec::new(),
            task: None,
            results_at_once: 0,
            last_event: Picoseconds::ZERO,
            abandoned: Vec::new(),
        };
        Self { hosts, names, state: Mutex::new(state) }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // State left by a panic is still consistent: under the lock, no foreign code runs except
        // the closure of `with_fabric`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a wait that only [`happened`](Self::happened) ends.
    pub fn wait(self: &Arc<Self>, what: What) -> Wait {
        let token = self.lock().begin_wait(what);
        Wait::new(self.clone(), token)
    }

    /// Ends such a wait.
    pub fn happened(&self, token: u64) {
        let waker = self.lock().give(token, Outcome::Happened);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl State {
    pub fn begin_poll(&mut self, task: TaskId) {
        self.task = Some(task);
        self.results_at_once = 0;
    }

    pub fn end_poll(&mut self) {
        self.task = None;
    }

    /// Whether a task that need not wait has to let others run.
    pub fn turn_is_over(&mut self) -> bool {
        self.results_at_once += 1;
        let over = self.results_at_once >= RESULTS_AT_ONCE;
        if over {
            self.results_at_once = 0;
        }
        over
    }

    // --- Waits ---------------------------------------------------------------------------

    /// Returns an unused token.
    pub fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Whether a wait with this token still exists.
    pub fn is_waiting(&self, token: u64) -> bool {
        self.waits.contains_key(&token)
    }

    /// Starts a wait; its token is for the fabric.
    pub fn begin_wait(&mut self, what: What) -> u64 {
        let token = self.next_token();
        if let What::Memory { host, address, .. } = &what {
            self.watched.insert((*host, *address, token));
        }
        let waiting = Waiting { task: self.task, what, outcome: None, waker: None };
        self.waits.insert(token, waiting);
        token
    }

    /// Ends a wait and withdraws its request to the fabric. Returns its waker, to be dropped
    /// without the lock.
    pub fn end_wait(&mut self, token: u64) -> Option<Waker> {
        let waiting = self.waits.remove(&token)?;
        self.fabric.cancel_host_timer(token);
        match waiting.what {
            What::Memory { host, address, .. } => {
                self.watched.remove(&(host, address, token));
                self.fabric.cancel_host_watch(token);
            }
            What::Interrupt { host, function, vector } => {
                self.interrupts.wait_no_longer(host, function, vector, token);
            }
            _ => {}
        }
        waiting.waker
    }

    /// Returns the outcome if it has arrived, and the replaced waker of the previous poll, if any,
    /// to be dropped without the lock.
    pub fn poll_wait(&mut self, token: u64, waker: &Waker) -> (Poll<Outcome>, Option<Waker>) {
        let task = self.task;
        let Some(waiting) = self.waits.get_mut(&token) else { return (Poll::Pending, None) };
        if let Some(outcome) = waiting.outcome.take() {
            return (Poll::Ready(outcome), waiting.waker.take());
        }
        waiting.task = task;
        if waiting.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            return (Poll::Pending, None);
        }
        (Poll::Pending, waiting.waker.replace(waker.clone()))
    }

    /// Gives a wait its outcome, if it still exists; returns its waker, to be woken without the
    /// lock.
    pub fn give(&mut self, token: u64, outcome: Outcome) -> Option<Waker> {
        let waiting = self.waits.get_mut(&token)?;
        waiting.outcome.get_or_insert(outcome);
        waiting.waker.take()
    }

    /// Notes a write by host code: waits for a word there look again.
    pub fn memory_written(&mut self, host: usize, address: u64, bytes: u64) -> Vec<Waker> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        // A word that begins before the write may reach into it.
        let range = (host, address.saturating_sub(3), 0)..(host, address + bytes, 0);
        let tokens: Vec<u64> = self.watched.range(range).map(|(_, _, token)| *token).collect();
        tokens.into_iter().filter_map(|token| self.give(token, Outcome::Happened)).collect()
    }

    /// Counts the waits, for tests: none are left when all futures are gone.
    #[cfg(test)]
    pub fn wait_count(&self) -> usize {
        self.waits.len() + self.watched.len() + self.interrupts.wait_count()
    }

    pub fn has_waits_of(&self, task: Option<TaskId>) -> bool {
        self.waits.values().any(|waiting| waiting.task == task && waiting.outcome.is_none())
    }

    /// Describes a task's waits, half a sentence.
    pub fn waits_of(&self, task: Option<TaskId>, shared: &Shared) -> String {
        let of_task = self.waits.values().filter(|waiting| waiting.task == task);
        let open = of_task.filter(|waiting| waiting.outcome.is_none());
        let sentences: Vec<String> = open.map(|waiting| waiting.what.sentence(shared)).collect();
        match sentences.is_empty() {
            true => "waits for nothing of the lab".into(),
            false => format!("waits for {}", sentences.join(" or ")),
        }
    }

    // --- Time ----------------------------------------------------------------------------

    /// Runs the fabric until something happens for host code; returns the wakers of the waits for
    /// it, in order.
    pub fn advance(&mut self, limit: Option<Picoseconds>) -> (Progress, Vec<Waker>) {
        if let Some(limit) = limit {
            if self.fabric.now() >= limit {
                return (Progress::Limit(limit), Vec::new());
            }
            self.fabric.host_timer(limit, LIMIT_TOKEN);
        }
        let happened = self.fabric.run_until_host_event();
        let mut events = std::mem::take(&mut self.events);
        self.fabric.take_host_events(&mut events);
        self.fabric.cancel_host_timer(LIMIT_TOKEN);
        let at_limit = matches!(events.as_slice(), [HostEvent::Timer { token: LIMIT_TOKEN }]);
        let mut wakers = Vec::new();
        for event in events.drain(..) {
            self.dispatch(event, &mut wakers);
        }
        self.events = events;
        let now = self.fabric.now();
        let progress = if !happened {
            Progress::NothingLeft(self.last_event)
        } else if !at_limit {
            self.last_event = now;
            Progress::Happened
        } else if self.is_dead() {
            Progress::NothingLeft(self.last_event)
        } else {
            Progress::Limit(now)
        };
        (progress, wakers)
    }

    /// Takes what has happened for host code now; returns the wakers of the waits for it, in order.
    pub fn take_events(&mut self) -> Vec<Waker> {
        let mut events = std::mem::take(&mut self.events);
        self.fabric.take_host_events(&mut events);
        let mut wakers = Vec::new();
        for event in events.drain(..) {
            self.dispatch(event, &mut wakers);
        }
        self.events = events;
        self.last_event = self.fabric.now();
        wakers
    }

    /// Does the same without a limit, for at most `most_events` events of the fabric.
    pub fn advance_some(&mut self, most_events: u32) -> (HostRun, Vec<Waker>) {
        let went = self.fabric.run_some_for_host(most_events);
        let wakers = match went {
            HostRun::Happened => self.take_events(),
            HostRun::More | HostRun::NothingLeft => Vec::new(),
        };
        (went, wakers)
    }

    /// Whether nothing would happen for host code beyond the time limit either.
    fn is_dead(&mut self) -> bool {
        let now = self.fabric.now();
        if self.fabric.run(Some(now)) == RunEnd::Limit {
            return false;
        }
        self.fabric.host_timer(now + LONGEST_TIMEOUT, LIMIT_TOKEN);
        let mut events = Vec::new();
        self.fabric.run_until_host_event();
        self.fabric.take_host_events(&mut events);
        self.fabric.cancel_host_timer(LIMIT_TOKEN);
        matches!(events.as_slice(), [] | [HostEvent::Timer { token: LIMIT_TOKEN }])
    }

    fn dispatch(&mut self, event: HostEvent, wakers: &mut Vec<Waker>) {
        match event {
            HostEvent::Loaded { token, result } => {
                wakers.extend(self.give(token, Outcome::Loaded(result)));
            }
            HostEvent::Changed { token } if self.completed(token, wakers) => {}
            HostEvent::Stored { token }
            | HostEvent::Timer { token }
            | HostEvent::Changed { token } => {
                wakers.extend(self.give(token, Outcome::Happened));
            }
            HostEvent::Interrupt { root_complex, data } => {
                for token in self.interrupts.arrived(root_complex, data) {
                    wakers.extend(self.give(token, Outcome::Happened));
                }
            }
        }
    }
}

/// A future of the event requested from the fabric under one token. Dropping it withdraws the
/// request.
pub(super) struct Wait {
    shared: Arc<Shared>,
    token: u64,
}

impl Wait {
    pub const fn new(shared: Arc<Shared>, token: u64) -> Self {
        Self { shared, token }
    }

    pub const fn token(&self) -> u64 {
        self.token
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // A waker may run foreign code when dropped, so the old one is dropped without the lock.
        let (polled, old) = self.shared.lock().poll_wait(self.token, context.waker());
        drop(old);
        polled
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let waker = self.shared.lock().end_wait(self.token);
        drop(waker);
    }
}

/// Lets the other ready tasks run first.
#[derive(Default)]
pub(super) struct Turn {
    given: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
