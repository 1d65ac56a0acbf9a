// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that all handles of a network processor share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crosslane_host::ErrorKind::Failed;
use crosslane_host::{AnyBus, AnyMemory, Bus, DmaMemory, Mapping, PageSize, Segment};
use crosslane_pcie::units::BusAddress;

use super::NetworkSizes;
use super::flights::Flights;
use super::links::TorusPlace;
use super::options::Modes;
use super::put::Puts;
use crate::access::Access;
use crate::buffer::Retired;
use crate::error::Result;

/// Memory that the device writes for the driver.
pub(super) struct Pinned {
    pub memory: AnyMemory,
    segments: Vec<Segment>,
    is_registered: AtomicBool,
}

impl Pinned {
    pub async fn new(bus: &AnyBus, access: &Access, bytes: u64) -> Result<Self> {
        let memory = access.allocate(bus, bytes, PageSize::Small)?;
        let segments = access.pin(bus, &memory).await?;
        let placed: u64 = segments.iter().map(|segment| segment.bytes).sum();
        if placed < bytes {
            let problem = format!("the bus has named places for {placed} of {bytes} B");
            return Err(access.refused(Failed, problem));
        }
        Ok(Self { memory, segments, is_registered: AtomicBool::new(true) })
    }

    /// Returns the bus address of `offset_bytes`, which must be within the memory.
    pub fn address(&self, offset_bytes: u64) -> BusAddress {
        let mut start = 0;
        for segment in &self.segments {
            if offset_bytes < start + segment.bytes {
                return segment.address.offset(offset_bytes - start);
            }
            start += segment.bytes;
        }
        unreachable!("{offset_bytes} is beyond the {start} B of the driver's own memory")
    }

    pub fn read<const BYTES: usize>(&self, offset_bytes: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        self.memory.read(offset_bytes, &mut bytes).expect("it is within the driver's own memory");
        bytes
    }

    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.memory.write(offset_bytes, bytes).expect("it is within the driver's own memory");
    }

    /// Fills the memory with zeros.
    pub fn clear(&self) {
        self.write(0, &vec![0; self.memory.size_bytes() as usize]);
    }

    /// Ends the registration, and returns whether the memory was registered.
    pub fn take_registration(&self) -> bool {
        self.is_registered.swap(false, Ordering::AcqRel)
    }
}

/// State that all handles of a network processor share.
pub(super) struct Shared {
    bus: AnyBus,
    pub access: Access,
    pub sizes: NetworkSizes,
    pub modes: Modes,
    pub put_mapping: Mapping,
    /// Notification words, one in each line.
    pub words: Pinned,
    /// Counts of puts that have left the aperture.
    pub counts: Pinned,
    pub flights: Mutex<Flights>,
    pub puts: Mutex<Puts>,
    /// Position of the node in its torus, if any.
    pub place: Mutex<Option<TorusPlace>>,
    /// Memory of dropped buffers, to be unpinned.
    pub retired: Retired,
}

impl Shared {
    pub fn new(
        bus: AnyBus,
        access: Access,
        sizes: NetworkSizes,
        modes: Modes,
        put_mapping: Mapping,
        words: Pinned,
        counts: Pinned,
    ) -> Self {
        Self {
            bus,
            access,
            sizes,
            modes,
            put_mapping,
            words,
            counts,
            flights: Mutex::new(Flights::new([sizes.get_slots, sizes.credit_slots])),
            puts: Mutex::new(Puts::new(sizes.links)),
            place: Mutex::new(None),
            retired: Retired::default(),
        }
    }
}

impl Drop for Shared {
    /// Abandons memory that the device may still write, which is never given back.
    fn drop(&mut self) {
        if !self.words.is_registered.load(Ordering::Acquire) {
            return;
        }
        self.bus.abandon(Box::new(self.words.memory.clone()));
        self.bus.abandon(Box::new(self.counts.memory.clone()));
        let flights = self.flights.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if flights.under_way() > 0 {
            self.bus.abandon(Box::new(std::mem::replace(flights, Flights::new([0, 0]))));
        }
    }
}
