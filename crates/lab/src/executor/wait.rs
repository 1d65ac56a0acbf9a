// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Futures of events in the lab, and descriptions of what they wait for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crosslane_fabric::LoadError;
use crosslane_host::RegisterAddress;
use crosslane_pcie::units::{Picoseconds, RoutingId};

use super::shared::Shared;

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
