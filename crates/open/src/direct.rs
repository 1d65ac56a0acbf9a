// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real network for the memory of real cards: both access the same pages.

use std::fmt;

use crosslane_host::{
    Bus, DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaListener,
    RdmaRegion, RemoteAccess, RemoteMemory,
};
use crosslane_libfabric::{Connection, Listener, Network, NetworkMemory, Region};
use crosslane_pcie::units::Picoseconds;
use crosslane_vfio::{VfioBus, VfioMemory};

/// A real network for the memory that a bus has allocated for its cards. The network registers the
/// same pages that the cards access: nothing is copied between the two, remote reads see the
/// current data, and remote writes are allowed.
///
/// Such memory is a nameless file. Each registration maps it separately, and thus keeps its pages
/// for as long as the network may use them, whether or not the bus still exists. The end of a
/// registration changes nothing for the cards.
#[derive(Clone)]
pub struct DirectRdma {
    network: Network,
    bus: VfioBus,
}

impl DirectRdma {
    /// Joins the memory of a bus to a network.
    #[must_use]
    pub fn new(network: Network, bus: &VfioBus) -> Self {
        Self { network, bus: bus.clone() }
    }
}

impl Rdma for DirectRdma {
    type Memory = VfioMemory;
    type Region = DirectRegion;
    type Connection = DirectConnection;
    type Listener = DirectListener;

    fn name(&self) -> String {
        format!("{}, in the card's own buffers", self.network.name())
    }

    fn is_zero_copy(&self) -> bool {
        self.network.is_zero_copy()
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<VfioMemory, RdmaError> {
        let memory = self.bus.allocate(bytes, pages);
        memory.map_err(|error| RdmaError::OutOfMemory { bytes, why: error.into() })
    }

    async fn register(
        &self,
        memory: &VfioMemory,
        access: RemoteAccess,
    ) -> Result<DirectRegion, RdmaError> {
        let same_pages = NetworkMemory::of_file(memory.pages().file(), memory.size_bytes())?;
        let region = self.network.register(&same_pages, access).await?;
        Ok(DirectRegion { region, memory: memory.clone() })
    }

    async fn listen(&self, address: &str) -> Result<DirectListener, RdmaError> {
        self.network.listen(address).await.map(DirectListener)
    }

    async fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> Result<DirectConnection, RdmaError> {
        self.network.connect(address, deadline).await.map(DirectConnection)
    }
}

impl fmt::Debug for DirectRdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectRdma({})", self.name())
    }
}

/// Memory that is registered with a [`DirectRdma`].
#[derive(Clone, Debug)]
pub struct DirectRegion {
    region: Region,
    memory: VfioMemory,
}

impl RdmaRegion for DirectRegion {
    type Memory = VfioMemory;

    fn memory(&self) -> &VfioMemory {
        &self.memory
    }

    fn remote(&self) -> RemoteMemory {
        self.region.remote()
    }
}

/// Accepts connections of a [`DirectRdma`].
pub struct DirectListener(Listener);

impl RdmaListener for DirectListener {
    type Connection = DirectConnection;

    fn address(&self) -> String {
        self.0.address()
    }

    async fn accept(&self) -> Result<DirectConnection, RdmaError> {
        self.0.accept().await.map(DirectConnection)
    }
}

/// A connection of a [`DirectRdma`].
#[derive(Clone)]
pub struct DirectConnection(Connection);

fn of_network(near: &NearEnd<DirectRegion>) -> NearEnd<Region> {
    NearEnd { region: near.region.region.clone(), offset_bytes: near.offset_bytes }
}

impl RdmaConnection for DirectConnection {
    type Region = DirectRegion;

    fn peer(&self) -> String {
        self.0.peer()
    }

    async fn send(&self, message: &[u8]) -> Result<(), RdmaError> {
        self.0.send(message).await
    }

    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        self.0.receive().await
    }

    async fn read(
        &self,
        near: &NearEnd<DirectRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.0.read(&of_network(near), far, bytes).await
    }

    async fn write(
        &self,
        near: &NearEnd<DirectRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        self.0.write(&of_network(near), far, bytes).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
