// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a bus that devices can reach.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crosslane_host::{BusResult, DmaMemory, lock};

use crate::bus::Shared;
use crate::mappings::MemoryId;
use crate::memory::Pages;
use crate::stores::{StoreWidth, keep_order};

/// Pages that devices can reach. Clones are the same memory; the last one unmaps it from every
/// device before it is freed.
#[derive(Clone)]
pub struct VfioMemory(Arc<Inner>);

struct Inner {
    pages: Arc<Pages>,
    size_bytes: u64,
    id: MemoryId,
    bus: Weak<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(bus) = self.bus.upgrade() {
            lock(&bus.mappings).forget(self.id);
        }
    }
}

impl fmt::Debug for VfioMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VfioMemory({} B at {:#x})", self.0.size_bytes, self.0.pages.mapped().address())
    }
}

impl VfioMemory {
    pub(crate) fn new(pages: Pages, size_bytes: u64, bus: Weak<Shared>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner { pages: Arc::new(pages), size_bytes, id, bus }))
    }

    /// The pages that back the memory.
    pub fn pages(&self) -> &Arc<Pages> {
        &self.0.pages
    }

    pub(crate) fn id(&self) -> MemoryId {
        self.0.id
    }

    /// Whether it belongs to this bus.
    pub(crate) fn is_of(&self, bus: &Arc<Shared>) -> bool {
        std::ptr::eq(self.0.bus.as_ptr(), Arc::as_ptr(bus))
    }
}

impl DmaMemory for VfioMemory {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> BusResult<()> {
        self.check(offset_bytes, into.len())?;
        keep_order();
        self.0.pages.mapped().copy_out(offset_bytes, into);
        Ok(())
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> BusResult<()> {
        self.check(offset_bytes, from.len())?;
        self.0.pages.mapped().store(offset_bytes, from, StoreWidth::widest());
        Ok(())
    }
}
