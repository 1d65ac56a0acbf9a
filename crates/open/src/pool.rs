// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered buffers that data pass through, a bounded number of them.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crosslane_host::{PageSize, Rdma, RdmaError, RemoteAccess};

/// Size of a buffer, bytes: long enough that a piece costs little more than its copy.
pub const BUFFER_BYTES: u64 = 512 << 10;
/// Buffers, and so pieces on their way at once.
const BUFFERS: usize = 16;

/// Buffers of one network; made when they are needed.
pub struct Pool<R: Rdma> {
    inner: Mutex<Inner<R>>,
}

struct Inner<R: Rdma> {
    free: Vec<R::Region>,
    /// Those that are in use or free.
    made: usize,
    waiting: Vec<Waker>,
}

/// A buffer; it goes back when it is given back, not when it is dropped: whoever drops it may have
/// left an operation behind that still uses it.
pub struct Buffer<R: Rdma> {
    pool: Arc<Pool<R>>,
    region: Option<R::Region>,
    is_idle: bool,
}

impl<R: Rdma> Pool<R> {
    pub const fn new() -> Self {
        let inner = Inner { free: Vec::new(), made: 0, waiting: Vec::new() };
        Self { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<R>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a buffer.
    pub async fn take(self: &Arc<Self>, network: &R) -> Result<Buffer<R>, RdmaError> {
        let region = poll_fn(|context| {
            let mut inner = self.lock();
            if let Some(region) = inner.free.pop() {
                return Poll::Ready(Some(region));
            }
            if inner.made < BUFFERS {
                inner.made += 1;
                return Poll::Ready(None);
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
        // From here on it is counted: also if what follows is dropped or fails.
        let mut buffer = Buffer { pool: self.clone(), region, is_idle: false };
        if buffer.region.is_none() {
            let memory = network.allocate(BUFFER_BYTES, PageSize::Huge)?;
            buffer.region = Some(network.register(&memory, RemoteAccess::NONE).await?);
        }
        Ok(buffer)
    }

    fn put(&self, region: Option<R::Region>) {
        let mut inner = self.lock();
        match region {
            Some(region) => inner.free.push(region),
            None => inner.made -= 1,
        }
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        // All of them look again: one that waits no longer must not have been the only one told.
        for waker in waiting {
            waker.wake();
        }
    }
}

impl<R: Rdma> Buffer<R> {
    /// Its registration.
    pub fn region(&self) -> &R::Region {
        self.region.as_ref().expect("a buffer that was taken has one")
    }

    /// Nothing uses it any more.
    pub fn give_back(mut self) {
        self.is_idle = true;
    }
}

impl<R: Rdma> Drop for Buffer<R> {
    fn drop(&mut self) {
        let region = self.region.take();
        self.pool.put(region.filter(|_| self.is_idle));
    }
}
