// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a real network reaches the memory that a bus gets for its cards.

use crosslane_host::{Bus, Rdma};
use crosslane_lab::{LabBus, LabMemory};
use crosslane_libfabric::Network;
use crosslane_vfio::VfioBus;

use crate::direct::DirectRdma;
use crate::staged::StagedRdma;

/// A bus whose cards can be joined to a real network.
pub trait CardBus: Bus + Send + Sync + 'static {
    /// The network for the bus's memory.
    type Rdma: Rdma<Memory = Self::Memory>;

    /// Joins it to a network.
    fn join(&self, network: Network) -> Self::Rdma;
}

impl CardBus for LabBus {
    type Rdma = StagedRdma<Network, LabMemory>;

    fn join(&self, network: Network) -> Self::Rdma {
        let bus = self.clone();
        let allocate = move |bytes, pages| bus.allocate(bytes, pages);
        StagedRdma::new(network, "the lab's memory is simulated", allocate)
    }
}

impl CardBus for VfioBus {
    type Rdma = DirectRdma;

    fn join(&self, network: Network) -> DirectRdma {
        DirectRdma::new(network, self)
    }
}
