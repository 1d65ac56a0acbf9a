// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One type for every bus, for programs that choose it at run time.

use std::future::Future;

use crosslane_host::{Bus, BusError, DmaMemory, PageSize, Topology, forward_bus, forward_topology};
use crosslane_lab::{LabBus, LabMemory};
use crosslane_network::NetworkMemory;
use crosslane_vfio::{VfioBus, VfioMemory};

/// The bus of a lab's host, or that of opened cards.
#[derive(Clone)]
pub enum AnyBus {
    /// A simulated host.
    Lab(LabBus),
    /// Functions opened through VFIO, of this machine or of a vfio-user server.
    Vfio(VfioBus),
}

/// Memory of an [`AnyBus`].
#[derive(Clone, Debug)]
pub enum AnyMemory {
    /// Memory of a simulated host.
    Lab(LabMemory),
    /// Pages of this machine that cards reach.
    Vfio(VfioMemory),
    /// Pages of this machine, or of a file, that no card reaches.
    Network(NetworkMemory),
}

/// Calls the bus of either kind.
macro_rules! on {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        match $self {
            AnyBus::Lab(bus) => bus.$method($($argument),*),
            AnyBus::Vfio(bus) => bus.$method($($argument),*),
        }
    };
}

/// Waits for a call to the bus of either kind.
macro_rules! wait {
    ($self:ident, $method:ident($($argument:ident),*)) => {
        async move {
            match $self {
                AnyBus::Lab(bus) => bus.$method($($argument),*).await,
                AnyBus::Vfio(bus) => bus.$method($($argument),*).await,
            }
        }
    };
}

/// Waits for a call to the bus of either kind with memory of the same kind.
macro_rules! with {
    ($self:ident, $method:ident($before:ident; $memory:ident $(, $argument:ident)*)) => {
        async move {
            match ($self, $memory) {
                (AnyBus::Lab(bus), AnyMemory::Lab($memory)) => {
                    bus.$method($before, $memory $(, $argument)*).await
                }
                (AnyBus::Vfio(bus), AnyMemory::Vfio($memory)) => {
                    bus.$method($before, $memory $(, $argument)*).await
                }
                _ => Err(BusError::Pinning { address: 0, what: "belongs to another bus" }),
            }
        }
    };
}

impl DmaMemory for AnyMemory {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Lab(memory) => memory.size_bytes(),
            Self::Vfio(memory) => memory.size_bytes(),
            Self::Network(memory) => memory.size_bytes(),
        }
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError> {
        match self {
            Self::Lab(memory) => memory.read(offset_bytes, into),
            Self::Vfio(memory) => memory.read(offset_bytes, into),
            Self::Network(memory) => memory.read(offset_bytes, into),
        }
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError> {
        match self {
            Self::Lab(memory) => memory.write(offset_bytes, from),
            Self::Vfio(memory) => memory.write(offset_bytes, from),
            Self::Network(memory) => memory.write(offset_bytes, from),
        }
    }
}

impl Topology for AnyBus {
    forward_topology!(self, on);
}

impl Bus for AnyBus {
    type Memory = AnyMemory;

    fn on_core(&self, core: u16) -> Self {
        match self {
            Self::Lab(bus) => Self::Lab(bus.on_core(core)),
            Self::Vfio(bus) => Self::Vfio(bus.on_core(core)),
        }
    }

    fn allocate(&self, bytes: u64, pages: PageSize) -> Result<AnyMemory, BusError> {
        match self {
            Self::Lab(bus) => bus.allocate(bytes, pages).map(AnyMemory::Lab),
            Self::Vfio(bus) => bus.allocate(bytes, pages).map(AnyMemory::Vfio),
        }
    }

    forward_bus!(self, on, wait, with(Self::Memory));
}
