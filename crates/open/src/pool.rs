// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded pool of registered buffers, through which data are copied.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crosslane_host::{PageSize, Rdma, RdmaError, RemoteAccess, lock};
use crosslane_network::{Network, Region};

/// Size of a buffer, bytes: so long that a piece costs little more than its copy.
pub const BUFFER_BYTES: u64 = 512 << 10;
/// Most buffers, and thus pieces in flight at once.
const BUFFERS: usize = 16;

/// Buffers of one network, allocated on demand.
pub struct Pool {
    pub network: Network,
    inner: Mutex<Inner>,
}

struct Inner {
    free: Vec<Region>,
    /// Number of buffers in use or free.
    made: usize,
    waiting: Vec<Waker>,
}

/// A buffer. It returns to the pool only by `give_back`: when it is merely
/// dropped, an unfinished operation may still use it.
pub struct Buffer {
    pool: Arc<Pool>,
    region: Option<Region>,
    is_idle: bool,
}

impl Pool {
    pub const fn new(network: Network) -> Self {
        let inner = Inner { free: Vec::new(), made: 0, waiting: Vec::new() };
        Self { network, inner: Mutex::new(inner) }
    }

    /// Waits for a buffer.
    pub async fn take(self: &Arc<Self>) -> Result<Buffer, RdmaError> {
        let region = poll_fn(|context| {
            let mut inner = lock(&self.inner);
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
        // The buffer is counted from here on, even if the rest fails or is dropped.
        let mut buffer = Buffer { pool: self.clone(), region, is_idle: false };
        if buffer.region.is_none() {
            let memory = self.network.allocate(BUFFER_BYTES, PageSize::Huge)?;
            buffer.region = Some(self.network.register(&memory, RemoteAccess::NONE).await?);
        }
        Ok(buffer)
    }

    fn put(&self, region: Option<Region>) {
        let mut inner = lock(&self.inner);
        match region {
            Some(region) => inner.free.push(region),
            None => inner.made -= 1,
        }
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        // Wakes all of them: the first may have stopped waiting.
        for waker in waiting {
            waker.wake();
        }
    }
}

impl Buffer {
    /// Returns its registration.
    pub fn region(&self) -> &Region {
        self.region.as_ref().expect("a buffer that was taken has one")
    }

    /// Returns the buffer to the pool; no operation may still use it.
    pub fn give_back(mut self) {
        self.is_idle = true;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let region = self.region.take();
        self.pool.put(region.filter(|_| self.is_idle));
    }
}
