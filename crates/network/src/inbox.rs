// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues from a network to programs: received messages, and connections to accept.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crosslane_host::{RdmaError, RdmaResult, lock};

/// Most messages sent but not yet taken by the program at the other end.
pub const WINDOW: u32 = 64;

/// Most connections that wait for a program; later ones are turned away.
pub const MAX_BACKLOG: usize = 256;

/// Received messages of one connection.
pub type Inbox = Queue<Vec<u8>>;

/// Items that a program takes or waits for, and the reason once no more will come.
#[derive(Debug)]
pub struct Queue<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    ready: VecDeque<T>,
    waker: Option<Waker>,
    lost: Option<RdmaError>,
    /// Count of items taken, and the last count told to the other end; both wrap.
    taken: u32,
    told: u32,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (ready, waker, lost) = (VecDeque::new(), None, None);
        Self(Mutex::new(Inner { ready, waker, lost, taken: 0, told: 0 }))
    }
}

impl<T> Queue<T> {
    /// Makes a change that the program may be waiting for.
    fn change(&self, change: impl FnOnce(&mut Inner<T>)) {
        let mut inner = lock(&self.0);
        change(&mut inner);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn push(&self, item: T) {
        self.change(|inner| inner.ready.push_back(item));
    }

    /// Ends the queue; the first reason counts.
    pub fn lose(&self, why: RdmaError) {
        self.change(|inner| {
            inner.lost.get_or_insert(why);
        });
    }

    pub fn lost(&self) -> Option<RdmaError> {
        lock(&self.0).lost.clone()
    }

    /// Items that no program has taken yet.
    pub fn length(&self) -> usize {
        lock(&self.0).ready.len()
    }

    /// Takes all items, as no program will.
    pub fn take_all(&self) -> VecDeque<T> {
        std::mem::take(&mut lock(&self.0).ready)
    }

    pub fn poll(&self, context: &Context<'_>) -> Poll<RdmaResult<T>> {
        let mut inner = lock(&self.0);
        if let Some(item) = inner.ready.pop_front() {
            inner.taken = inner.taken.wrapping_add(1);
            return Poll::Ready(Ok(item));
        }
        if let Some(lost) = &inner.lost {
            return Poll::Ready(Err(lost.clone()));
        }
        let old = inner.waker.replace(context.waker().clone());
        drop(inner);
        drop(old);
        Poll::Pending
    }
}

impl Inbox {
    /// Whether it has as many messages as were agreed on.
    pub fn is_full(&self) -> bool {
        lock(&self.0).ready.len() >= WINDOW as usize
    }

    /// Returns the count of messages taken, to be told to the other end.
    pub fn tell_taken(&self) -> u32 {
        let mut inner = lock(&self.0);
        inner.told = inner.taken;
        inner.taken
    }

    /// Whether it is time to tell the other end the count.
    pub fn is_time_to_tell(&self) -> bool {
        let inner = lock(&self.0);
        inner.taken.wrapping_sub(inner.told) >= WINDOW / 2
    }
}
