// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage of descriptors: a ring in host memory, or a table in the engine.

use std::sync::Arc;

use crosslane_host::ErrorKind::Busy;
use crosslane_host::{
    AnyMemory, Bus, BusError, DmaMemory, HostWork, PageSize, Segment, Stores, lock,
};
use crosslane_pcie::units::BusAddress;
use crosslane_regs::{ring_descriptor as ring, status_block, table_descriptor as table};

use super::options::Target;
use crate::buffer::{MAX_DESCRIPTOR_BYTES, Retired};
use crate::connection::Connection;
use crate::device::Device;
use crate::error::{DriverError, Result};

/// Width of the stores that fill the table: the rosta paper's driver writes register by register.
const TABLE_STORE_BYTES: u32 = 4;
/// Alignment of rings and status blocks in bytes (registers `ring_low`, `status_low`).
const ALIGNMENT_BYTES: u64 = 64;

/// Memory of a channel's ring or status block, pinned until this is dropped (the next task that can
/// wait unpins it).
pub(super) struct Pinned {
    memory: Option<AnyMemory>,
    pub address: BusAddress,
    retired: Retired,
}

impl Pinned {
    /// Allocates and pins memory that is contiguous on the bus.
    pub async fn new(device: &Device, place: &str, bytes: u64, pages: PageSize) -> Result<Self> {
        let shared = device.shared();
        let memory = shared.access.allocate(device.bus(), bytes, pages)?;
        let segments = shared.access.pin(device.bus(), &memory).await?;
        let retired = Arc::clone(&shared.retired);
        let mut pinned = Self { memory: Some(memory), address: BusAddress(0), retired };
        match segments.as_slice() {
            [Segment { address, .. }] if address.0.is_multiple_of(ALIGNMENT_BYTES) => {
                pinned.address = *address;
                Ok(pinned)
            }
            pieces => Err(DriverError::refused(
                place,
                Busy,
                format!(
                    "{bytes} B were needed in one piece, and came in {} pieces: ask for fewer \
                     descriptors or provide huge pages",
                    pieces.len()
                ),
            )),
        }
    }

    /// Returns the memory.
    ///
    /// # Panics
    /// After [`take`](Self::take).
    pub fn memory(&self) -> &AnyMemory {
        self.memory.as_ref().expect("memory is taken only when a channel ends")
    }

    /// Takes the memory; it is then no longer unpinned on drop.
    pub fn take(&mut self) -> Option<AnyMemory> {
        self.memory.take()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        lock(&self.retired).extend(self.memory.take());
    }
}

/// One descriptor, before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub address: BusAddress,
    /// Address in the card's memory; 0 for streams.
    pub card: u64,
    pub bytes: u32,
    pub interrupt: bool,
    pub status: bool,
    pub await_credit: bool,
    /// Whether the bus address is a card address too.
    pub to_card: bool,
    /// `tuser` of the packet that ends here, if one does.
    pub packet_end: Option<u16>,
}

pub(super) fn put(entry: &mut [u8], offset: u32, value: u32) {
    let offset = offset as usize;
    entry[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

impl Descriptor {
    fn in_ring(self, entry: &mut [u8]) {
        put(entry, ring::ADDRESS_LOW, self.address.0 as u32);
        put(entry, ring::ADDRESS_HIGH, (self.address.0 >> 32) as u32);
        put(entry, ring::CARD_LOW, self.card as u32);
        put(entry, ring::CARD_HIGH, (self.card >> 32) as u32);
        put(entry, ring::LENGTH, self.bytes);
        let control = ring::control::INTERRUPT.put(self.interrupt.into())
            | ring::control::STATUS.put(self.status.into())
            | ring::control::AWAIT_CREDIT.put(self.await_credit.into())
            | ring::control::TO_CARD.put(self.to_card.into())
            | ring::control::END_OF_PACKET.put(self.packet_end.is_some().into())
            | ring::control::USER.put(self.packet_end.unwrap_or(0).into());
        put(entry, ring::CONTROL, control);
    }

    fn in_table(self, entry: &mut [u8]) {
        put(entry, table::ADDRESS_LOW, self.address.0 as u32);
        put(entry, table::ADDRESS_HIGH, (self.address.0 >> 32) as u32);
        put(entry, table::LENGTH, self.bytes);
        let control = table::control::INTERRUPT.put(self.interrupt.into())
            | table::control::STATUS.put(self.status.into())
            | table::control::AWAIT_CREDIT.put(self.await_credit.into());
        put(entry, table::CONTROL, control);
    }
}

/// Storage of a channel's descriptors.
pub(super) enum Descriptors {
    /// Ring in host memory.
    Ring { memory: Pinned, entries: u32 },
    /// Table in the engine, at this offset of its registers.
    Table { base: u32, entries: u32 },
    /// No storage: the user circuit issues commands.
    CommandPort,
}

impl Descriptors {
    /// Most descriptors that may be in flight.
    pub const fn capacity(&self) -> u32 {
        match self {
            Self::Ring { entries, .. } | Self::Table { entries, .. } => *entries,
            Self::CommandPort => 0,
        }
    }

    /// Writes descriptors, numbered from `first`; they must fit.
    pub async fn write(
        &self,
        device: &Device,
        first: u64,
        descriptors: &[Descriptor],
    ) -> Result<()> {
        let Some(at) = first.checked_rem(self.capacity().into()) else { return Ok(()) };
        let (count, capacity) = (descriptors.len(), self.capacity() as usize);
        assert!(count <= capacity, "{count} descriptors are laid down, in a ring of {capacity}");
        let until_end = (u64::from(self.capacity()) - at) as usize;
        let (run, wrapped) = descriptors.split_at(until_end.min(descriptors.len()));
        self.write_run(device, at, run).await?;
        if wrapped.is_empty() { Ok(()) } else { self.write_run(device, 0, wrapped).await }
    }

    async fn write_run(&self, device: &Device, at: u64, run: &[Descriptor]) -> Result<()> {
        let bus_error = |error: BusError| device.shared().bus_error(error);
        let (end, capacity) = (at + run.len() as u64, self.capacity());
        assert!(end <= capacity.into(), "descriptors {at} to {end} lie beyond {capacity}");
        for Descriptor { address, bytes, .. } in run {
            let most = MAX_DESCRIPTOR_BYTES;
            let is_possible = *bytes > 0 && u64::from(*bytes) <= most;
            assert!(is_possible, "a descriptor of {bytes} B at {address}, of {most} B at most");
        }
        match self {
            Self::Ring { memory, .. } => {
                let mut bytes = vec![0; run.len() * ring::BYTES as usize];
                for (entry, descriptor) in bytes.chunks_mut(ring::BYTES as usize).zip(run) {
                    descriptor.in_ring(entry);
                }
                let offset_bytes = at * u64::from(ring::BYTES);
                memory.memory().write(offset_bytes, &bytes).map_err(bus_error)?;
                device.bus().work(HostWork::Copy(bytes.len() as u64)).await;
            }
            Self::Table { base, .. } => {
                let mut bytes = vec![0; run.len() * table::BYTES as usize];
                for (entry, descriptor) in bytes.chunks_mut(table::BYTES as usize).zip(run) {
                    descriptor.in_table(entry);
                }
                let at = device.shared().access.register(base + at as u32 * table::BYTES);
                let stored =
                    device.bus().store(at, &bytes, Stores::uncached(TABLE_STORE_BYTES)).await;
                stored.map_err(bus_error)?;
            }
            Self::CommandPort => {}
        }
        Ok(())
    }
}

/// Addresses and lengths of the descriptors of one transfer.
pub(super) fn pieces(target: &Target, connection: Option<&Connection>) -> Vec<(BusAddress, u32)> {
    match target {
        Target::Buffer(buffer, part) | Target::Card(buffer, part, _) => {
            buffer.registered().pieces(part.clone()).collect()
        }
        Target::CardToCard { to, bytes, .. } => {
            parts(*bytes).map(|(offset, length)| (BusAddress(to + offset), length)).collect()
        }
        Target::Peer(memory, part) | Target::PeerCard(memory, part, _) => parts(target.bytes())
            .map(|(offset, length)| (memory.address(part.start + offset), length))
            .collect(),
        Target::Bus(address, bytes) => parts(*bytes)
            .map(|(offset, length)| {
                // A receive queue takes all addresses of its aperture alike.
                let address = match connection {
                    Some(connection) => connection.address(),
                    None => address.offset(offset),
                };
                (address, length)
            })
            .collect(),
    }
}

/// Offsets and lengths of the descriptors for `bytes` contiguous bytes.
fn parts(bytes: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..bytes)
        .step_by(MAX_DESCRIPTOR_BYTES as usize)
        .map(move |offset| (offset, (bytes - offset).min(MAX_DESCRIPTOR_BYTES) as u32))
}

/// Content of a status block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub sequence: u32,
    /// Count of completed descriptors.
    pub completed: u32,
    /// Copy of the channel's status register.
    pub status: u32,
    /// Bytes moved of the first incomplete descriptor.
    pub stopped_at_bytes: u32,
    /// Address that an error concerns.
    pub error: BusAddress,
    /// Bytes that were handed to the link but have not reached the peer, if the peer can tell.
    pub missing_bytes: u32,
}

pub(super) struct StatusBlock {
    pub memory: Pinned,
}

impl StatusBlock {
    /// Offset that a waiting host watches, bytes from the start of the memory.
    pub const SEQUENCE: u64 = status_block::SEQUENCE as u64;

    pub async fn new(device: &Device, place: &str) -> Result<Self> {
        let bytes = u64::from(status_block::BYTES);
        Ok(Self { memory: Pinned::new(device, place, bytes, PageSize::Small).await? })
    }

    /// Reads the block. The engine writes it at once, but a host may see parts of two writes:
    /// counts only rise, and the last write of a channel that stops is read twice.
    pub fn read(&self) -> Result<Report, BusError> {
        let mut bytes = [0; status_block::BYTES as usize];
        self.memory.memory().read(0, &mut bytes)?;
        let word = |offset: u32| {
            let at = offset as usize;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let high = u64::from(word(status_block::ERROR_HIGH)) << 32;
        Ok(Report {
            sequence: word(status_block::SEQUENCE),
            completed: word(status_block::COMPLETED),
            status: word(status_block::STATUS),
            stopped_at_bytes: word(status_block::STOPPED_AT),
            error: BusAddress(high | u64::from(word(status_block::ERROR_LOW))),
            missing_bytes: 0,
        })
    }

    /// Resets the block to its state before the first write.
    pub fn clear(&self) -> Result<(), BusError> {
        self.memory.memory().write(0, &[0; status_block::BYTES as usize])
    }
}
