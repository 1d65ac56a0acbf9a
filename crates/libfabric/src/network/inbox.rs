// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues shared by programs and the state: received messages, and connections to accept.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crosslane_host::{RdmaError, RdmaResult, lock};

use super::message::WINDOW;

/// Received messages of one connection, and the reason once no more will come.
#[derive(Debug, Default)]
pub struct Inbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    messages: VecDeque<Vec<u8>>,
    waker: Option<Waker>,
    lost: Option<RdmaError>,
    /// Count of messages taken, and the last count told to the other end; both wrap.
    taken: u32,
    told: u32,
}

impl Inbox {
    /// Adds a message; false if there are more than allowed.
    pub fn push(&self, message: Vec<u8>) -> bool {
        let mut inner = lock(&self.inner);
        if inner.messages.len() >= WINDOW as usize {
            return false;
        }
        inner.messages.push_back(message);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Ends the inbox; the first reason counts.
    pub fn lose(&self, why: RdmaError) {
        let mut inner = lock(&self.inner);
        inner.lost.get_or_insert(why);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn lost(&self) -> Option<RdmaError> {
        lock(&self.inner).lost.clone()
    }

    /// Returns the count of messages taken, to be told to the other end.
    pub fn tell_taken(&self) -> u32 {
        let mut inner = lock(&self.inner);
        inner.told = inner.taken;
        inner.taken
    }

    /// Takes the next message; the flag says that it is time to tell the other end the count.
    pub fn poll(&self, context: &Context<'_>) -> Poll<RdmaResult<(Vec<u8>, bool)>> {
        let mut inner = lock(&self.inner);
        if let Some(message) = inner.messages.pop_front() {
            inner.taken = inner.taken.wrapping_add(1);
            let is_time = inner.taken.wrapping_sub(inner.told) >= WINDOW / 2;
            return Poll::Ready(Ok((message, is_time)));
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

/// An accepted connection that no program has taken yet.
#[derive(Debug)]
pub struct Accepted {
    pub id: u64,
    pub peer: String,
    pub inbox: std::sync::Arc<Inbox>,
}

/// Accepted connections of one listener that no program has taken yet.
#[derive(Debug, Default)]
pub struct Backlog {
    inner: Mutex<BacklogInner>,
}

#[derive(Debug, Default)]
struct BacklogInner {
    ready: VecDeque<Accepted>,
    waker: Option<Waker>,
    failed: Option<RdmaError>,
}

/// Most connections that wait for a program; later ones are turned away.
pub const MAX_BACKLOG: usize = 256;

impl Backlog {
    pub fn is_full(&self) -> bool {
        lock(&self.inner).ready.len() >= MAX_BACKLOG
    }

    fn wake(mut inner: MutexGuard<'_, BacklogInner>) {
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn push(&self, accepted: Accepted) {
        let mut inner = lock(&self.inner);
        inner.ready.push_back(accepted);
        Self::wake(inner);
    }

    pub fn fail(&self, why: RdmaError) {
        let mut inner = lock(&self.inner);
        inner.failed.get_or_insert(why);
        Self::wake(inner);
    }

    /// Takes all connections, as no program will.
    pub fn take_all(&self) -> VecDeque<Accepted> {
        std::mem::take(&mut lock(&self.inner).ready)
    }

    pub fn poll(&self, context: &Context<'_>) -> Poll<RdmaResult<Accepted>> {
        let mut inner = lock(&self.inner);
        if let Some(accepted) = inner.ready.pop_front() {
            return Poll::Ready(Ok(accepted));
        }
        if let Some(failed) = &inner.failed {
            return Poll::Ready(Err(failed.clone()));
        }
        let old = inner.waker.replace(context.waker().clone());
        drop(inner);
        drop(old);
        Poll::Pending
    }
}
