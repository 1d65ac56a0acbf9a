// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cards of a server: engines that move data between slots and a card, memory of this node that
//! stands for a card, and nothing at all.

use std::fmt;

use crosslane_driver::Device;
use crosslane_host::ErrorKind::{InvalidArgument, Unsupported};
use crosslane_host::{AnyMemory, Bus, DmaMemory, HostWork, Rdma, RdmaRegion, RemoteAccess};

use crate::card::Orders;
use crate::error::{At, BridgeError, Result};
use crate::messages::TransferRequest;
use crate::report::Path;
use crate::stage::Stage;

/// A card for a server.
pub enum Served {
    /// A card with a DMA engine.
    Engine(Device),
    /// Memory of this node. The network reads and writes it directly, without slots; a round trip
    /// is copied from slot to slot.
    Memory(AnyMemory),
    /// No memory: it takes data, of which nothing is kept, and gives zeros. What is left is the
    /// cost of the network and the bridge.
    Null,
}

impl From<Device> for Served {
    fn from(device: Device) -> Self {
        Self::Engine(device)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(device) => write!(f, "Engine({})", device.function().name),
            Self::Memory(memory) => write!(f, "Memory({} B)", memory.size_bytes()),
            Self::Null => f.write_str("Null"),
        }
    }
}

/// The far side of a card's slots.
pub(crate) enum Core<G> {
    /// The device, and the queue of its orders.
    Engine(Device, Orders),
    /// Memory that the network reaches.
    Memory(G),
    Null,
}

impl Served {
    /// Returns the reason for which this cannot be served, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Engine(device) if !device.description().card_memory => {
                Some(format!("{} has no memory that its engine reaches", device.function().name))
            }
            Self::Memory(memory) if memory.size_bytes() == 0 => {
                Some("a card with a memory of 0 B".to_owned())
            }
            Self::Engine(_) | Self::Memory(_) | Self::Null => None,
        }
    }

    /// Returns the engine.
    pub(crate) const fn device(&self) -> Option<&Device> {
        match self {
            Self::Engine(device) => Some(device),
            Self::Memory(_) | Self::Null => None,
        }
    }
}

impl<G: RdmaRegion<Memory = AnyMemory>> Core<G> {
    /// Registers memory that stands for a card with the network.
    pub async fn of_memory<R: Rdma<Memory = AnyMemory, Region = G>>(
        memory: &AnyMemory,
        rdma: &R,
    ) -> Result<Self> {
        let region = rdma.register(memory, RemoteAccess::NONE).await;
        Ok(Self::Memory(region.at(Stage::Registration)?))
    }

    /// Returns the memory that stands for the card.
    pub const fn memory(&self) -> Option<&G> {
        match self {
            Self::Memory(region) => Some(region),
            Self::Engine(..) | Self::Null => None,
        }
    }

    /// Returns the engine.
    pub const fn device(&self) -> Option<&Device> {
        match self {
            Self::Engine(device, _) => Some(device),
            Self::Memory(_) | Self::Null => None,
        }
    }

    /// Refuses a request that this card cannot carry out; engines see for themselves.
    pub fn check(&self, request: &TransferRequest) -> Result<()> {
        let TransferRequest { path, card, address, bytes, .. } = request;
        let refused = |kind, why| Err(BridgeError::new(Stage::Request, kind, why));
        match self {
            Self::Null if *path == Path::RoundTrip => refused(
                Unsupported,
                format!("{card} keeps nothing (null:), so that nothing comes back from it"),
            ),
            Self::Memory(region) if *path != Path::RoundTrip => {
                let have = region.memory().size_bytes();
                match address.checked_add(*bytes).is_some_and(|end| end <= have) {
                    true => Ok(()),
                    false => refused(
                        InvalidArgument,
                        format!("{card} has {have} B, not {bytes} B from {address:#x} on"),
                    ),
                }
            }
            _ => Ok(()),
        }
    }

    /// Has the host of an engine do work, which takes time in a lab.
    pub async fn work(&self, work: HostWork) {
        if let Self::Engine(device, _) = self {
            device.bus().work(work).await;
        }
    }
}
