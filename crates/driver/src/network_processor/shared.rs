// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all handles of a network processor share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crosslane_host::{Bus, BusError, DmaMemory, Mapping, PageSize, RegisterAddress, Segment};
use crosslane_pcie::units::{BusAddress, RoutingId};

use super::flights::Flights;
use super::links::TorusPlace;
use super::options::Modes;
use super::put::Puts;
use super::{NetworkSizes, REGISTER_BAR};
use crate::buffer::{Buffer, Retired};
use crate::error::DriverError;

/// Which function it is.
pub(super) struct Access {
    pub name: String,
    pub function: RoutingId,
}

impl Access {
    pub fn refused(&self, problem: String) -> DriverError {
        DriverError::Refused { place: self.name.clone(), problem }
    }

    pub fn failed(&self, source: BusError) -> DriverError {
        DriverError::Bus { device: self.name.clone(), source }
    }

    pub fn register(&self, offset: u32) -> RegisterAddress {
        let offset_bytes = offset.into();
        RegisterAddress { function: self.function, bar: REGISTER_BAR, offset_bytes }
    }
}

/// Memory that the device writes for the driver.
pub(super) struct Pinned<B: Bus> {
    pub memory: B::Memory,
    segments: Vec<Segment>,
    is_registered: AtomicBool,
}

impl<B: Bus> Pinned<B> {
    pub async fn new(bus: &B, access: &Access, bytes: u64) -> Result<Self, DriverError> {
        let memory = bus.allocate(bytes, PageSize::Small).map_err(|error| access.failed(error))?;
        let segments = bus.pin(access.function, &memory).await;
        let segments = segments.map_err(|error| access.failed(error))?;
        let placed: u64 = segments.iter().map(|segment| segment.bytes).sum();
        if placed < bytes {
            let problem = format!("the bus has named places for {placed} of {bytes} B");
            return Err(DriverError::Refused { place: access.name.clone(), problem });
        }
        Ok(Self { memory, segments, is_registered: AtomicBool::new(true) })
    }

    /// Where the device finds what is at `offset_bytes`, which is within it.
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

    /// So many bytes of it.
    pub fn read<const BYTES: usize>(&self, offset_bytes: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        self.memory.read(offset_bytes, &mut bytes).expect("it is within the driver's own memory");
        bytes
    }

    pub fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.memory.write(offset_bytes, bytes).expect("it is within the driver's own memory");
    }

    /// Fills it with zeros.
    pub fn clear(&self) {
        self.write(0, &vec![0; self.memory.size_bytes() as usize]);
    }

    /// Whether it was registered until now.
    pub fn take_registration(&self) -> bool {
        self.is_registered.swap(false, Ordering::AcqRel)
    }
}

/// What all handles of a network processor share.
pub(super) struct Shared<B: Bus> {
    bus: B,
    pub access: Access,
    pub sizes: NetworkSizes,
    pub modes: Modes,
    pub put_mapping: Mapping,
    /// Notification words, each in a line of its own.
    pub words: Pinned<B>,
    /// Counts of puts.
    pub counts: Pinned<B>,
    pub flights: Mutex<Flights<B>>,
    pub puts: Mutex<Puts>,
    /// Where the node is in its torus, if it is in one.
    pub place: Mutex<Option<TorusPlace>>,
    /// Memory of dropped buffers, to be unpinned.
    pub retired: Retired<B::Memory>,
    /// The driver's own buffers that messages are copied through, while nothing uses them.
    pub pool: Mutex<Vec<Buffer<B>>>,
}

impl<B: Bus> Shared<B> {
    pub fn new(
        bus: B,
        access: Access,
        sizes: NetworkSizes,
        modes: Modes,
        put_mapping: Mapping,
        words: Pinned<B>,
        counts: Pinned<B>,
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
            pool: Mutex::default(),
        }
    }
}

impl<B: Bus> Drop for Shared<B> {
    /// Memory that the device may still write is never given back.
    fn drop(&mut self) {
        if !self.words.is_registered.load(Ordering::Acquire) {
            return;
        }
        self.bus.abandon(self.words.memory.clone());
        self.bus.abandon(self.counts.memory.clone());
        let flights = self.flights.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if flights.under_way() > 0 {
            self.bus.abandon(std::mem::replace(flights, Flights::new([0, 0])));
        }
    }
}
