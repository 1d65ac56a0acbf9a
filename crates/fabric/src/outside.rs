// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory outside the simulation: the devices of a lab driven by another program read and
//! write that program's memory.

use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use crate::completer::Piece;
use crate::cpu::INTERRUPT_ADDRESSES;
use crate::errors::ErrorKind;
use crate::fabric::Fabric;
use crate::memory_fault::MemoryFault;
use crate::root_complex::{Arrival, RootComplex};

/// Memory of another program that replaces the memory behind a root complex. Requests of devices
/// take the time given by the root complex's constants, but a write is made on arrival: the other
/// program does not wait for simulated time, and no interrupt overtakes the write in either case.
///
/// Mappings may come and go while requests are under way.
pub trait OutsideMemory: Send {
    /// Whether the requester may read (or write) the whole range now. If not, the request goes to
    /// the peer that claims the address, or is an Unsupported Request without one.
    fn covers(
        &mut self,
        requester: RoutingId,
        address: BusAddress,
        bytes: u32,
        is_write: bool,
    ) -> bool;

    /// Reads memory. Returns false if that is not possible (any more): the read ends as an
    /// Unsupported Request.
    fn read(&mut self, requester: RoutingId, address: BusAddress, into: &mut [u8]) -> bool;

    /// Writes memory. Returns false if that is not possible: the write is dropped and recorded as
    /// an error.
    fn write(&mut self, requester: RoutingId, address: BusAddress, from: &[u8]) -> bool;
}

/// The outside memory of a root complex, and the data of the current completion.
pub(crate) struct Outside {
    memory: Box<dyn OutsideMemory>,
    pub data: Vec<u8>,
}

impl Outside {
    /// Whether a request goes to outside memory. Interrupt writes never do.
    pub fn covers(&mut self, header: &Header, is_write: bool) -> bool {
        if is_write && INTERRUPT_ADDRESSES.contains(&header.address.0) {
            return false;
        }
        // A read of no bytes (PCIe 6.x 2.2.5) has an address as well.
        let bytes = header.request_bytes().max(1);
        self.memory.covers(header.requester, header.address, bytes, is_write)
    }

    /// Reads the data of a completion; returns false if the mapping has gone.
    pub fn fetch(&mut self, piece: &Piece) -> bool {
        self.data.resize(piece.bytes as usize, 0);
        let address = BusAddress(piece.memory_address);
        self.data.is_empty() || self.memory.read(piece.header.requester, address, &mut self.data)
    }
}

impl RootComplex {
    /// Writes to outside memory.
    pub(crate) fn write_outside(&mut self, fabric: &mut Fabric, at: Arrival, header: &Header) {
        let now_ps = fabric.events.now_ps();
        let bytes = header.request_bytes();
        let times = self.completer.write(now_ps, header.address.0, bytes);
        let packet = fabric.packets.get(at.index);
        let (class, data) = (packet.class(), packet.data_credits);
        fabric.release(at.direction, times.drained_ps, class, data);
        let skip = (header.address.0 & 3) as usize;
        let payload = &fabric.packets.payload(at.index)[skip..skip + bytes as usize];
        let written = payload.is_empty()
            || self.outside.as_mut().is_some_and(|outside| {
                outside.memory.write(header.requester, header.address, payload)
            });
        if !written {
            let (requester, address) = (header.requester, header.address);
            fabric.report(at.port, ErrorKind::MappingGone { requester, address });
        } else if let Err(what) = fabric.written(at.index, bytes, times.visible_ps) {
            fabric.report(at.port, ErrorKind::WrongData { what });
        }
        fabric.packets.remove(at.index);
    }

    /// Reads the data of a completion from outside memory. Returns the fault that ends it if the
    /// mapping has gone since the read arrived.
    pub(crate) fn fetch_outside(
        &mut self,
        fabric: &mut Fabric,
        port: u32,
        piece: &Piece,
    ) -> Option<MemoryFault> {
        let outside = self.outside.as_mut()?;
        if outside.fetch(piece) {
            return None;
        }
        let (requester, address) = (piece.header.requester, BusAddress(piece.memory_address));
        let error = ErrorKind::MappingGone { requester, address };
        fabric.report_request(port, error, Class::NonPosted);
        Some(MemoryFault::UnsupportedRequest)
    }
}

impl Fabric {
    /// Replaces a host's memory, for its devices, by that of another program; `None` restores it.
    /// Interrupts still go to the host, and loads and stores of its cores still go to its devices.
    /// Returns false if the host does not exist.
    pub fn set_outside_memory(
        &mut self,
        host: HostId,
        memory: Option<Box<dyn OutsideMemory>>,
    ) -> bool {
        let Some(node) = self.root(host) else { return false };
        let outside = memory.map(|memory| Outside { memory, data: Vec::new() });
        self.with_root(node, |root, _| root.outside = outside).is_some()
    }
}
