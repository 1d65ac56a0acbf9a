// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real network for the memory of any bus: it reaches the pages of real cards, and copies of a
//! lab's simulated memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crosslane_host::{
    AnyBus, AnyMemory, Bus, DmaMemory, ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection,
    RdmaError, RdmaListener, RdmaRegion, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_lab::LabBus;
use crosslane_network::{Connection, Listener, Network, NetworkMemory, Region};
use crosslane_pcie::units::Picoseconds;
use crosslane_vfio::VfioMemory;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::pool::{BUFFER_BYTES, Pool};

/// Pieces of one read or write in flight at once; all operations share the buffers.
const PIECES_AT_ONCE: usize = 8;

/// A network that reads and writes memory of an [`AnyBus`].
///
/// Memory of real and served cards is a nameless file, and the network registers the same pages
/// that the cards access: nothing is copied between the two, remote reads see the current data, and
/// remote writes are allowed. Each registration maps the file separately, and thus keeps its pages
/// for as long as the network may use them, whether or not the bus still exists. The end of a
/// registration changes nothing for the cards.
///
/// A lab's memory is simulated. Reads and writes of it are split into pieces of 512 KiB, up to 16
/// at once, which are copied through buffers that are registered with the network. Memory with
/// remote read access has a copy: readers see the data as of the last
/// [publication](RdmaRegion::publish). Remote write access is refused. A read or write whose future
/// is dropped starts no further piece, and a dropped read copies nothing more.
///
/// Memory that only the network reaches is registered as it is.
#[derive(Clone)]
pub struct AnyRdma {
    /// The bus whose memory is allocated; without one that is the network's.
    bus: Option<AnyBus>,
    pool: Arc<Pool>,
}

/// Memory that is registered with an [`AnyRdma`].
#[derive(Clone, Debug)]
pub struct AnyRegion {
    memory: AnyMemory,
    /// The registration of the same pages, or of the copy of a lab's memory, if others may read it.
    real: Option<Region>,
    /// Whether the memory is simulated, and others read a copy.
    is_copy: bool,
}

/// Accepts connections of an [`AnyRdma`].
pub struct AnyListener {
    listener: Listener,
    pool: Arc<Pool>,
}

/// A connection of an [`AnyRdma`].
#[derive(Clone)]
pub struct AnyConnection {
    connection: Connection,
    pool: Arc<Pool>,
    is_closed: Arc<AtomicBool>,
}

impl AnyRdma {
    /// Joins a bus to a network.
    pub fn new(network: Network, bus: &AnyBus) -> Self {
        Self::of(network, Some(bus))
    }

    /// Joins a bus to a network, or no bus: memory that is allocated is then the network's. Memory
    /// of any bus can be registered with either.
    pub fn of(network: Network, bus: Option<&AnyBus>) -> Self {
        Self { bus: bus.cloned(), pool: Arc::new(Pool::new(network)) }
    }

    /// Whether the bus's memory is simulated.
    fn is_copied(&self) -> bool {
        self.bus.as_ref().is_some_and(|bus| bus.downcast::<LabBus>().is_some())
    }
}

impl fmt::Debug for AnyRdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyRdma({})", self.name())
    }
}

impl Rdma for AnyRdma {
    type Memory = AnyMemory;
    type Region = AnyRegion;
    type Connection = AnyConnection;
    type Listener = AnyListener;

    fn name(&self) -> String {
        let name = self.pool.network.name();
        match self.bus {
            Some(_) if self.is_copied() => format!("{name}, copied: the lab's memory is simulated"),
            Some(_) => format!("{name}, in the card's own buffers"),
            None => format!("{name}, in the memory itself"),
        }
    }

    fn is_zero_copy(&self) -> bool {
        !self.is_copied() && self.pool.network.is_zero_copy()
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<AnyMemory, RdmaError> {
        let Some(bus) = &self.bus else {
            return self.pool.network.allocate(bytes, pages).map(AnyMemory::new);
        };
        bus.allocate(bytes, pages)
            .map_err(|error| RdmaError::OutOfMemory { bytes, why: error.into() })
    }

    async fn register(
        &self,
        memory: &AnyMemory,
        access: RemoteAccess,
    ) -> Result<AnyRegion, RdmaError> {
        let bytes = memory.size_bytes();
        let network = &self.pool.network;
        let (own, is_copy) = match own_pages(memory)? {
            Some(own) => (Some(own), false),
            None if access.write => {
                let why = "others cannot write to memory that is copied";
                let why = Reason::new(ErrorKind::Unsupported, why);
                return Err(RdmaError::Registration { bytes, why });
            }
            None if access.read => (Some(network.allocate(bytes, PageSize::Huge)?), true),
            None => (None, true),
        };
        let real = match own {
            Some(pages) => Some(network.register(&pages, access).await?),
            None => None,
        };
        Ok(AnyRegion { memory: memory.clone(), real, is_copy })
    }

    async fn listen(&self, address: &str) -> Result<AnyListener, RdmaError> {
        let listener = self.pool.network.listen(address).await?;
        Ok(AnyListener { listener, pool: self.pool.clone() })
    }

    async fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> Result<AnyConnection, RdmaError> {
        let connection = self.pool.network.connect(address, deadline).await?;
        Ok(AnyConnection::new(connection, &self.pool))
    }
}

impl RdmaRegion for AnyRegion {
    type Memory = AnyMemory;

    fn memory(&self) -> &AnyMemory {
        &self.memory
    }

    fn remote(&self) -> RemoteMemory {
        match &self.real {
            Some(real) => real.remote(),
            // This key is unknown everywhere, because nothing is registered.
            None => RemoteMemory { address: 0, key: 0, bytes: self.memory.size_bytes() },
        }
    }

    fn publish(&self, offset_bytes: u64, bytes: u64) -> Result<(), RdmaError> {
        let size_bytes = self.memory.size_bytes();
        if offset_bytes.checked_add(bytes).is_none_or(|end| end > size_bytes) {
            let what = "the near";
            return Err(RdmaError::BeyondMemory { what, offset_bytes, bytes, size_bytes });
        }
        if let Some(real) = self.real.as_ref().filter(|_| self.is_copy) {
            copy(&self.memory, offset_bytes, real.memory(), offset_bytes, bytes);
        }
        Ok(())
    }
}

/// The pages of memory, for the network to register; none of simulated memory.
fn own_pages(memory: &AnyMemory) -> Result<Option<NetworkMemory>, RdmaError> {
    if let Some(own) = memory.downcast::<NetworkMemory>() {
        return Ok(Some(own.clone()));
    }
    let file = memory.downcast::<VfioMemory>().map(|own| own.pages().file());
    file.map(|file| NetworkMemory::of_file(file, memory.size_bytes())).transpose()
}

/// Copies between two memories of this node; the caller has checked the bounds.
fn copy(from: &impl DmaMemory, at: u64, to: &impl DmaMemory, there: u64, bytes: u64) {
    from.copy_into(at, to, there, bytes).expect("both ends of a copy were checked");
}

impl RdmaListener for AnyListener {
    type Connection = AnyConnection;

    fn address(&self) -> String {
        self.listener.address()
    }

    async fn accept(&self) -> Result<AnyConnection, RdmaError> {
        Ok(AnyConnection::new(self.listener.accept().await?, &self.pool))
    }
}

impl AnyConnection {
    fn new(connection: Connection, pool: &Arc<Pool>) -> Self {
        Self { connection, pool: pool.clone(), is_closed: Arc::default() }
    }

    /// Has the network move bytes between near memory and the far end.
    async fn exchange(
        &self,
        is_read: bool,
        near: &NearEnd<Region>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        match is_read {
            true => self.connection.read(near, far, bytes).await,
            false => self.connection.write(near, far, bytes).await,
        }
    }

    async fn transfer(
        &self,
        is_read: bool,
        near: &NearEnd<AnyRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        let NearEnd { region: AnyRegion { memory, real, is_copy }, offset_bytes } = near;
        if let Some(region) = real.as_ref().filter(|_| !is_copy) {
            let near = NearEnd { region: region.clone(), offset_bytes: *offset_bytes };
            return self.exchange(is_read, &near, far, bytes).await;
        }
        near.check(far, bytes)?;
        let mut starts = (0..bytes).step_by(BUFFER_BYTES as usize);
        let mut pieces = FuturesUnordered::new();
        let mut result = Ok(());
        loop {
            // The next piece, until a piece fails.
            let next = if result.is_ok() { starts.next() } else { None };
            if let Some(start) = next {
                let far = FarEnd { offset_bytes: far.offset_bytes + start, ..far };
                let piece = BUFFER_BYTES.min(bytes - start);
                pieces.push(self.piece(is_read, (memory, offset_bytes + start), far, piece));
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

    /// Moves a piece through a buffer of the pool.
    async fn piece(
        &self,
        is_read: bool,
        (memory, at): (&AnyMemory, u64),
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        let buffer = self.pool.take().await?;
        let real = NearEnd { region: buffer.region().clone(), offset_bytes: 0 };
        if !is_read {
            copy(memory, at, real.region.memory(), 0, bytes);
        }
        // After an error the network may still use the buffer.
        self.exchange(is_read, &real, far, bytes).await?;
        if is_read {
            if self.is_closed.load(Ordering::Acquire) {
                let why = "it was closed at this end".into();
                return Err(RdmaError::Lost { peer: self.peer(), why });
            }
            copy(real.region.memory(), 0, memory, at, bytes);
        }
        drop(real);
        buffer.give_back();
        Ok(())
    }
}

impl RdmaConnection for AnyConnection {
    type Region = AnyRegion;

    fn peer(&self) -> String {
        self.connection.peer()
    }

    fn proven_names(&self) -> Vec<String> {
        self.connection.proven_names()
    }

    async fn send(&self, message: &[u8]) -> Result<(), RdmaError> {
        self.connection.send(message).await
    }

    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        self.connection.receive().await
    }

    async fn read(
        &self,
        near: &NearEnd<AnyRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.transfer(true, near, far, bytes).await
    }

    async fn write(
        &self,
        near: &NearEnd<AnyRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.transfer(false, near, far, bytes).await
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.connection.close().await;
    }
}
