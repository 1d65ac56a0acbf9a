// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network for memory that it cannot access: data are copied through memory that it can.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crosslane_host::{
    BusError, DmaMemory, ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError,
    RdmaListener, RdmaRegion, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_pcie::units::Picoseconds;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::pool::{BUFFER_BYTES, Buffer, Pool};

/// Pieces of one read or write in flight at once; all operations share the buffers.
const PIECES_AT_ONCE: usize = 8;

/// Allocates memory of the kind that is registered.
type Allocate<M> = dyn Fn(u64, PageSize) -> Result<M, BusError> + Send + Sync;

/// A real network for memory that it cannot access, such as a lab's simulated memory. It makes a
/// lab's card available to other nodes.
///
/// Reads and writes are split into pieces of 512 KiB, up to 16 at once, which are copied through
/// buffers that are registered with the real network. Memory with remote read access has a real
/// copy: readers see the data as of the last [publication](RdmaRegion::publish). Remote write
/// access is refused.
///
/// A read or write whose future is dropped starts no further piece, and a dropped read copies
/// nothing more.
pub struct StagedRdma<R: Rdma, M: DmaMemory> {
    inner: Arc<Inner<R, M>>,
}

struct Inner<R: Rdma, M: DmaMemory> {
    network: R,
    why: &'static str,
    allocate: Box<Allocate<M>>,
    pool: Arc<Pool<R>>,
}

impl<R: Rdma, M: DmaMemory> Clone for StagedRdma<R, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<R: Rdma, M: DmaMemory> StagedRdma<R, M> {
    /// Joins memory that `allocate` gets to a network; `why` says in a few words why the network
    /// cannot access it directly.
    pub fn new(
        network: R,
        why: &'static str,
        allocate: impl Fn(u64, PageSize) -> Result<M, BusError> + Send + Sync + 'static,
    ) -> Self {
        let (allocate, pool) = (Box::new(allocate), Arc::new(Pool::new()));
        let inner = Inner { network, why, allocate, pool };
        Self { inner: Arc::new(inner) }
    }
}

/// Copies between two memories of this node; the caller has checked the bounds.
fn copy(from: &impl DmaMemory, at: u64, to: &impl DmaMemory, there: u64, bytes: u64) {
    /// Bytes that are copied at once, so that they stay in a near cache.
    const STEP: u64 = 32 << 10;
    let mut scratch = vec![0; STEP.min(bytes) as usize];
    for done in (0..bytes).step_by(STEP as usize) {
        let part = &mut scratch[..STEP.min(bytes - done) as usize];
        let copied = from.read(at + done, part).and_then(|()| to.write(there + done, part));
        copied.expect("both ends of a copy were checked");
    }
}

impl<R: Rdma, M: DmaMemory> Rdma for StagedRdma<R, M> {
    type Memory = M;
    type Region = StagedRegion<R, M>;
    type Connection = StagedConnection<R, M>;
    type Listener = StagedListener<R, M>;

    fn name(&self) -> String {
        format!("{}, copied: {}", self.inner.network.name(), self.inner.why)
    }

    fn is_zero_copy(&self) -> bool {
        false
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<M, RdmaError> {
        (self.inner.allocate)(bytes, pages)
            .map_err(|error| RdmaError::OutOfMemory { bytes, why: error.into() })
    }

    async fn register(
        &self,
        memory: &M,
        access: RemoteAccess,
    ) -> Result<StagedRegion<R, M>, RdmaError> {
        let bytes = memory.size_bytes();
        if access.write {
            let why = "others cannot write to memory that is copied";
            let why = Reason::new(ErrorKind::Unsupported, why);
            return Err(RdmaError::Registration { bytes, why });
        }
        let network = &self.inner.network;
        let real = match access.read {
            true => {
                let real = network.allocate(bytes, PageSize::Huge)?;
                Some(network.register(&real, access).await?)
            }
            false => None,
        };
        let inner = Arc::new(RegionInner { memory: memory.clone(), real });
        Ok(StagedRegion { inner })
    }

    async fn listen(&self, address: &str) -> Result<StagedListener<R, M>, RdmaError> {
        let listener = self.inner.network.listen(address).await?;
        Ok(StagedListener { listener, network: self.inner.clone() })
    }

    async fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> Result<StagedConnection<R, M>, RdmaError> {
        let connection = self.inner.network.connect(address, deadline).await?;
        Ok(StagedConnection::new(connection, self.inner.clone()))
    }
}

impl<R: Rdma, M: DmaMemory> fmt::Debug for StagedRdma<R, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagedRdma({})", self.name())
    }
}

/// Memory that is registered with a [`StagedRdma`].
pub struct StagedRegion<R: Rdma, M: DmaMemory> {
    inner: Arc<RegionInner<R, M>>,
}

struct RegionInner<R: Rdma, M: DmaMemory> {
    memory: M,
    /// Its copy, if it has remote read access.
    real: Option<R::Region>,
}

impl<R: Rdma, M: DmaMemory> Clone for StagedRegion<R, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<R: Rdma, M: DmaMemory> RdmaRegion for StagedRegion<R, M> {
    type Memory = M;

    fn memory(&self) -> &M {
        &self.inner.memory
    }

    fn remote(&self) -> RemoteMemory {
        match &self.inner.real {
            Some(real) => real.remote(),
            // This key is unknown everywhere, because nothing is registered.
            None => RemoteMemory { address: 0, key: 0, bytes: self.inner.memory.size_bytes() },
        }
    }

    fn publish(&self, offset_bytes: u64, bytes: u64) -> Result<(), RdmaError> {
        let RegionInner { memory, real } = &*self.inner;
        let size_bytes = memory.size_bytes();
        if offset_bytes.checked_add(bytes).is_none_or(|end| end > size_bytes) {
            return Err(RdmaError::BeyondMemory {
                what: "the near",
                offset_bytes,
                bytes,
                size_bytes,
            });
        }
        if let Some(real) = real {
            copy(memory, offset_bytes, real.memory(), offset_bytes, bytes);
        }
        Ok(())
    }
}

/// Accepts connections of a [`StagedRdma`].
pub struct StagedListener<R: Rdma, M: DmaMemory> {
    listener: R::Listener,
    network: Arc<Inner<R, M>>,
}

impl<R: Rdma, M: DmaMemory> RdmaListener for StagedListener<R, M> {
    type Connection = StagedConnection<R, M>;

    fn address(&self) -> String {
        self.listener.address()
    }

    async fn accept(&self) -> Result<StagedConnection<R, M>, RdmaError> {
        let connection = self.listener.accept().await?;
        Ok(StagedConnection::new(connection, self.network.clone()))
    }
}

/// A connection of a [`StagedRdma`].
pub struct StagedConnection<R: Rdma, M: DmaMemory> {
    connection: R::Connection,
    network: Arc<Inner<R, M>>,
    is_closed: Arc<AtomicBool>,
}

impl<R: Rdma, M: DmaMemory> Clone for StagedConnection<R, M> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            network: self.network.clone(),
            is_closed: self.is_closed.clone(),
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl<R: Rdma, M: DmaMemory> StagedConnection<R, M> {
    fn new(connection: R::Connection, network: Arc<Inner<R, M>>) -> Self {
        Self { connection, network, is_closed: Arc::default() }
    }

    async fn transfer(
        &self,
        direction: Direction,
        near: &NearEnd<StagedRegion<R, M>>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        near.check(far, bytes)?;
        let mut starts = (0..bytes).step_by(BUFFER_BYTES as usize);
        let mut pieces = FuturesUnordered::new();
        let mut result = Ok(());
        loop {
            // The next piece, until a piece fails.
            let next = if result.is_ok() { starts.next() } else { None };
            if let Some(start) = next {
                let piece = self.piece(direction, near, far, start, bytes);
                pieces.push(piece);
                if pieces.len() < PIECES_AT_ONCE {
                    continue;
                }
            }
            match pieces.next().await {
                Some(ended) => result = result.and(ended),
                None => return result,
            }
        }
    }

    /// Transfers the piece that begins at `start`.
    async fn piece(
        &self,
        direction: Direction,
        near: &NearEnd<StagedRegion<R, M>>,
        far: FarEnd,
        start: u64,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        let buffer: Buffer<R> = self.network.pool.take(&self.network.network).await?;
        let piece = BUFFER_BYTES.min(bytes - start);
        let (memory, at) = (&near.region.inner.memory, near.offset_bytes + start);
        let real = NearEnd { region: buffer.region().clone(), offset_bytes: 0 };
        let far = FarEnd { offset_bytes: far.offset_bytes + start, ..far };
        let result = match direction {
            Direction::Write => {
                copy(memory, at, real.region.memory(), 0, piece);
                self.connection.write(&real, far, piece).await
            }
            Direction::Read => self.connection.read(&real, far, piece).await,
        };
        if result.is_ok() && matches!(direction, Direction::Read) {
            if self.is_closed.load(Ordering::Acquire) {
                let peer = self.connection.peer();
                let why = "it was closed at this end".into();
                return Err(RdmaError::Lost { peer, why });
            }
            copy(real.region.memory(), 0, memory, at, piece);
        }
        if result.is_ok() {
            drop(real);
            buffer.give_back();
        }
        // After an error the network may still use the buffer.
        result
    }
}

impl<R: Rdma, M: DmaMemory> RdmaConnection for StagedConnection<R, M> {
    type Region = StagedRegion<R, M>;

    fn peer(&self) -> String {
        self.connection.peer()
    }

    async fn send(&self, message: &[u8]) -> Result<(), RdmaError> {
        self.connection.send(message).await
    }

    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        self.connection.receive().await
    }

    async fn read(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.transfer(Direction::Read, near, far, bytes).await
    }

    async fn write(
        &self,
        near: &NearEnd<Self::Region>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.transfer(Direction::Write, near, far, bytes).await
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.connection.close().await;
    }
}
