// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory registered with a NIC.

use std::fmt;
use std::sync::Arc;

use crosslane_device::nic::{Access, Nic, Runs};
use crosslane_host::{AnyMemory, RdmaRegion, RemoteAccess, RemoteMemory};

use super::super::memory::LabMemory;
use super::super::shared::{Shared, State};
use super::Adapter;

/// Memory registered with a NIC. The registration ends with the last clone and the last operation
/// that uses it; that takes no simulated time.
#[derive(Clone)]
pub struct LabRegion {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    adapter: Adapter,
    key: u32,
    memory: LabMemory,
    /// The same memory, as host code has it.
    any: AnyMemory,
}

impl LabRegion {
    pub(super) fn register(
        shared: &Arc<Shared>,
        adapter: &Adapter,
        memory: &LabMemory,
        access: RemoteAccess,
    ) -> Self {
        let key = shared.lock().register(adapter, memory, access);
        let (shared, adapter, memory) = (shared.clone(), adapter.clone(), memory.clone());
        let any = AnyMemory::new(memory.clone());
        Self { inner: Arc::new(Inner { shared, adapter, key, memory, any }) }
    }

    /// The registered memory.
    pub(super) fn own(&self) -> &LabMemory {
        &self.inner.memory
    }

    pub(super) fn key(&self) -> u32 {
        self.inner.key
    }

    /// Whether it is registered with this NIC.
    pub(super) fn is_of(&self, adapter: &Adapter) -> bool {
        self.inner.adapter.node == adapter.node
    }
}

impl RdmaRegion for LabRegion {
    type Memory = AnyMemory;

    fn memory(&self) -> &AnyMemory {
        &self.inner.any
    }

    fn remote(&self) -> RemoteMemory {
        RemoteMemory {
            address: self.inner.memory.first_address(),
            key: self.inner.key.into(),
            bytes: self.inner.memory.size(),
        }
    }
}

impl fmt::Debug for LabRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabRegion({:?} of {})", self.inner.memory, self.inner.adapter.name)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.lock().deregister(&self.adapter, self.memory.id(), self.key);
    }
}

impl State {
    /// Pins memory for a NIC, once more for each registration, and gives it a key.
    pub(super) fn register(
        &mut self,
        adapter: &Adapter,
        memory: &LabMemory,
        access: RemoteAccess,
    ) -> u32 {
        let segments = self.pin(memory, adapter.function);
        self.networks.pinned_once_more(adapter, memory.id());
        let runs = Runs::new(segments.into_iter().map(|part| (part.address, part.bytes)));
        let access = Access { read: access.read, write: access.write };
        let address = memory.first_address();
        let key = self
            .fabric
            .command(adapter.node, |nic: &mut Nic, _| nic.register(address, access, runs));
        key.expect("an adapter is a NIC")
    }

    /// Ends a registration.
    pub(super) fn deregister(&mut self, adapter: &Adapter, memory: u64, key: u32) {
        self.fabric.command(adapter.node, |nic: &mut Nic, _| nic.deregister(key));
        if self.networks.pinned_once_less(adapter, memory) {
            self.unpin(adapter.host, memory, adapter.function);
        }
    }
}
