// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real network for the memory of any bus.

use crosslane_host::{
    Bus, DmaMemory, ErrorKind, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError,
    RdmaListener, RdmaRegion, Reason, RemoteAccess, RemoteMemory,
};
use crosslane_lab::LabMemory;
use crosslane_libfabric::Network;
use crosslane_pcie::units::Picoseconds;

use crate::bus::{AnyBus, AnyMemory};
use crate::direct::{DirectConnection, DirectListener, DirectRdma, DirectRegion};
use crate::staged::{StagedConnection, StagedListener, StagedRdma, StagedRegion};

type LabNetwork = StagedRdma<Network, LabMemory>;

/// A network that reads and writes memory of an [`AnyBus`].
#[derive(Clone, Debug)]
pub enum AnyRdma {
    /// Data are copied to and from a lab's memory.
    Staged(LabNetwork),
    /// The network reaches the pages that cards use.
    Direct(DirectRdma),
}

/// Memory that is registered with an [`AnyRdma`].
#[derive(Clone)]
pub struct AnyRegion {
    memory: AnyMemory,
    region: EitherRegion,
}

#[derive(Clone)]
enum EitherRegion {
    Staged(StagedRegion<Network, LabMemory>),
    Direct(DirectRegion),
}

/// A connection of an [`AnyRdma`].
#[derive(Clone)]
pub enum AnyConnection {
    /// Over a copying network.
    Staged(StagedConnection<Network, LabMemory>),
    /// Over a network without copies.
    Direct(DirectConnection),
}

/// Accepts connections of an [`AnyRdma`].
pub enum AnyListener {
    /// Over a copying network.
    Staged(StagedListener<Network, LabMemory>),
    /// Over a network without copies.
    Direct(DirectListener),
}

/// Calls the implementation of either kind.
macro_rules! on {
    ($type:ident, $this:expr, $own:ident => $call:expr) => {
        match $this {
            $type::Staged($own) => $call,
            $type::Direct($own) => $call,
        }
    };
}

impl AnyRdma {
    /// Joins a bus to a network.
    #[must_use]
    pub fn new(network: Network, bus: &AnyBus) -> Self {
        match bus {
            AnyBus::Lab(bus) => {
                let bus = bus.clone();
                let allocate = move |bytes, pages| bus.allocate(bytes, pages);
                let why = "the lab's memory is simulated";
                Self::Staged(StagedRdma::new(network, why, allocate))
            }
            AnyBus::Vfio(bus) => Self::Direct(DirectRdma::new(network, bus)),
        }
    }
}

impl Rdma for AnyRdma {
    type Memory = AnyMemory;
    type Region = AnyRegion;
    type Connection = AnyConnection;
    type Listener = AnyListener;

    fn name(&self) -> String {
        on!(Self, self, network => network.name())
    }

    fn is_zero_copy(&self) -> bool {
        on!(Self, self, network => network.is_zero_copy())
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<AnyMemory, RdmaError> {
        match self {
            Self::Staged(network) => network.allocate(bytes, pages).map(AnyMemory::Lab),
            Self::Direct(network) => network.allocate(bytes, pages).map(AnyMemory::Vfio),
        }
    }

    async fn register(
        &self,
        memory: &AnyMemory,
        access: RemoteAccess,
    ) -> Result<AnyRegion, RdmaError> {
        let region = match (self, memory) {
            (Self::Staged(network), AnyMemory::Lab(memory)) => {
                EitherRegion::Staged(network.register(memory, access).await?)
            }
            (Self::Direct(network), AnyMemory::Vfio(memory)) => {
                EitherRegion::Direct(network.register(memory, access).await?)
            }
            _ => {
                return Err(other_bus(memory.size_bytes()));
            }
        };
        Ok(AnyRegion { memory: memory.clone(), region })
    }

    async fn listen(&self, address: &str) -> Result<AnyListener, RdmaError> {
        match self {
            Self::Staged(network) => network.listen(address).await.map(AnyListener::Staged),
            Self::Direct(network) => network.listen(address).await.map(AnyListener::Direct),
        }
    }

    async fn connect(
        &self,
        address: &str,
        deadline: Picoseconds,
    ) -> Result<AnyConnection, RdmaError> {
        match self {
            Self::Staged(network) => {
                network.connect(address, deadline).await.map(AnyConnection::Staged)
            }
            Self::Direct(network) => {
                network.connect(address, deadline).await.map(AnyConnection::Direct)
            }
        }
    }
}

impl RdmaRegion for AnyRegion {
    type Memory = AnyMemory;

    fn memory(&self) -> &AnyMemory {
        &self.memory
    }

    fn remote(&self) -> RemoteMemory {
        on!(EitherRegion, &self.region, region => region.remote())
    }

    fn publish(&self, offset_bytes: u64, bytes: u64) -> Result<(), RdmaError> {
        on!(EitherRegion, &self.region, region => region.publish(offset_bytes, bytes))
    }
}

impl RdmaListener for AnyListener {
    type Connection = AnyConnection;

    fn address(&self) -> String {
        on!(Self, self, listener => listener.address())
    }

    async fn accept(&self) -> Result<AnyConnection, RdmaError> {
        match self {
            Self::Staged(listener) => listener.accept().await.map(AnyConnection::Staged),
            Self::Direct(listener) => listener.accept().await.map(AnyConnection::Direct),
        }
    }
}

fn near<R: RdmaRegion + Clone>(near: &NearEnd<AnyRegion>, region: &R) -> NearEnd<R> {
    NearEnd { region: region.clone(), offset_bytes: near.offset_bytes }
}

/// Returns the error for near memory of another kind of bus.
fn foreign(near: &NearEnd<AnyRegion>) -> RdmaError {
    other_bus(near.region.memory.size_bytes())
}

fn other_bus(bytes: u64) -> RdmaError {
    let why = Reason::new(ErrorKind::InvalidArgument, "it belongs to another bus");
    RdmaError::Registration { bytes, why }
}

impl RdmaConnection for AnyConnection {
    type Region = AnyRegion;

    fn peer(&self) -> String {
        on!(Self, self, connection => connection.peer())
    }

    async fn send(&self, message: &[u8]) -> Result<(), RdmaError> {
        on!(Self, self, connection => connection.send(message).await)
    }

    async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        on!(Self, self, connection => connection.receive().await)
    }

    async fn read(
        &self,
        at: &NearEnd<AnyRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        match (self, &at.region.region) {
            (Self::Staged(connection), EitherRegion::Staged(region)) => {
                connection.read(&near(at, region), far, bytes).await
            }
            (Self::Direct(connection), EitherRegion::Direct(region)) => {
                connection.read(&near(at, region), far, bytes).await
            }
            _ => Err(foreign(at)),
        }
    }

    async fn write(
        &self,
        at: &NearEnd<AnyRegion>,
        far: FarEnd,
        bytes: u64,
    ) -> Result<(), RdmaError> {
        match (self, &at.region.region) {
            (Self::Staged(connection), EitherRegion::Staged(region)) => {
                connection.write(&near(at, region), far, bytes).await
            }
            (Self::Direct(connection), EitherRegion::Direct(region)) => {
                connection.write(&near(at, region), far, bytes).await
            }
            _ => Err(foreign(at)),
        }
    }

    async fn close(&self) {
        on!(Self, self, connection => connection.close().await);
    }
}
