// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests on their way through a root complex's IOMMU: they wait until they are translated, and
//! pass each other only as the ordering rules allow.

use crosslane_pcie::tlp::{Class, Header, TlpKind};
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use crate::counters::IdleReason;
use crate::cpu::INTERRUPT_ADDRESSES;
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::{Fabric, PortState};
use crate::iommu::{Iommu, IommuCounters, IommuError};
use crate::packet::NONE;
use crate::parameters::IommuParameters;
use crate::root_complex::{Arrival, RootComplex};
use crate::sockets::{place_and_socket, with_socket};

/// Requests waiting at one root port.
#[derive(Clone, Copy, Debug, Default)]
struct AtPort {
    /// Time at which the last read is translated, where reads keep their order.
    read_ps: u64,
    /// Number of such reads waiting.
    reads: u32,
    /// Time at which the last posted request is translated. Nothing behind it may go earlier (PCIe
    /// 6.x 2.4.1).
    posted_ps: u64,
    /// Number of posted requests waiting.
    posted: u32,
}

/// An IOMMU and the TLPs waiting for it, which keep their receive buffers.
pub(crate) struct Translation {
    parameters: IommuParameters,
    iommu: Iommu,
    waiting: Vec<Option<Arrival>>,
    free: Vec<u32>,
    /// Waiting requests by the number of the root port.
    ports: Vec<AtPort>,
}

/// Whether the IOMMU translates a TLP. Interrupt writes have a separate range.
fn is_translated(header: &Header) -> bool {
    matches!(header.kind, TlpKind::MemoryRead | TlpKind::MemoryWrite)
        && !INTERRUPT_ADDRESSES.contains(&header.address.0)
}

impl Translation {
    pub fn new(parameters: IommuParameters) -> Self {
        let iommu = Iommu::new(parameters);
        let (waiting, free, ports) = (Vec::new(), Vec::new(), Vec::new());
        Self { parameters, iommu, waiting, free, ports }
    }

    fn at_port(&mut self, local: u32) -> &mut AtPort {
        let local = local as usize;
        if local >= self.ports.len() {
            self.ports.resize(local + 1, AtPort::default());
        }
        &mut self.ports[local]
    }

    /// Time at which an arrived TLP may continue; `None` if at once.
    fn ready_ps(&mut self, now_ps: u64, local: u32, header: &Header) -> Option<u64> {
        let done_ps = match is_translated(header) {
            true => self.iommu.look_up(now_ps, header.requester, header.address),
            false => now_ps,
        };
        let reads_in_order = self.parameters.reads_in_order;
        let port = self.at_port(local);
        let ready_ps = done_ps.max(port.posted_ps);
        let waits = ready_ps > now_ps || port.posted > 0;
        match header.class() {
            Class::Posted => {
                port.posted_ps = ready_ps;
                port.posted += u32::from(waits);
                waits.then_some(ready_ps)
            }
            Class::NonPosted if reads_in_order => {
                let ready_ps = ready_ps.max(port.read_ps);
                let waits = waits || ready_ps > now_ps || port.reads > 0;
                port.read_ps = ready_ps;
                port.reads += u32::from(waits);
                waits.then_some(ready_ps)
            }
            Class::NonPosted | Class::Completion => waits.then_some(ready_ps),
        }
    }

    fn put(&mut self, at: Arrival) -> u32 {
        let place = self.free.pop().unwrap_or(self.waiting.len() as u32);
        if place as usize == self.waiting.len() {
            self.waiting.push(None);
        }
        let there = self.waiting[place as usize].replace(at);
        assert!(there.is_none(), "place {place} is given away twice");
        place
    }

    fn take(&mut self, place: u32) -> Arrival {
        let at = self.waiting.get_mut(place as usize).and_then(Option::take);
        let at = at.unwrap_or_else(|| panic!("nothing waits for its translation at {place}"));
        self.free.push(place);
        let (free, all) = (self.free.len(), self.waiting.len());
        assert!(free <= all, "{free} places are free, of {all}");
        at
    }
}

impl RootComplex {
    /// Accepts a TLP that has arrived at a root port. It goes through the IOMMU, if present, unless
    /// memory belongs to another program, which translates itself.
    pub(crate) fn arrive(&mut self, fabric: &mut Fabric, at: Arrival) {
        let header = fabric.packets.get(at.index).header;
        let PortState { local, socket, .. } = fabric.port_states[at.port as usize];
        let translation = self.translations.get_mut(usize::from(socket));
        let Some(translation) = translation.filter(|_| self.outside.is_none()) else {
            return self.receive(fabric, at, header.address);
        };
        match translation.ready_ps(fabric.events.now_ps(), local, &header) {
            Some(ready_ps) => {
                let place = translation.put(at);
                fabric.count_translating(at.port, header.class(), 1);
                let place = with_socket(place, socket);
                fabric.events.schedule(ready_ps, EventKind::Translated, at.node, place);
            }
            None => self.go_on(fabric, at),
        }
    }

    /// Continues with a TLP that has been translated.
    fn translated(&mut self, fabric: &mut Fabric, place: u32) {
        let (place, socket) = place_and_socket(place);
        let translation = &mut self.translations[usize::from(socket)];
        let at = translation.take(place);
        let class = fabric.packets.get(at.index).class();
        fabric.count_translating(at.port, class, -1);
        let reads_in_order = translation.parameters.reads_in_order;
        let local = fabric.port_states[at.port as usize].local;
        let port = translation.at_port(local);
        let counted = match class {
            Class::Posted => Some(&mut port.posted),
            Class::NonPosted if reads_in_order => Some(&mut port.reads),
            Class::NonPosted | Class::Completion => None,
        };
        if let Some(waiting) = counted {
            assert!(*waiting > 0, "one of {class:?} is translated, and none waits at port {local}");
            *waiting -= 1;
        }
        self.go_on(fabric, at);
    }

    fn go_on(&mut self, fabric: &mut Fabric, at: Arrival) {
        let header = fabric.packets.get(at.index).header;
        let socket = fabric.port_states[at.port as usize].socket;
        let translation = &mut self.translations[usize::from(socket)];
        let (requester, bytes) = (header.requester, header.request_bytes());
        let target = match is_translated(&header) {
            true => translation.iommu.translate(requester, header.address, bytes),
            false => Some(header.address),
        };
        if let Some(address) = target {
            return self.receive(fabric, at, address);
        }
        translation.iommu.counters.faults += 1;
        let host = fabric.nodes[at.node as usize].host;
        let function = fabric.function_at(host, requester);
        let function = function.map_or("nobody", |port| &fabric.port(port).name).to_owned();
        let access = if header.kind == TlpKind::MemoryRead { "read" } else { "write" };
        let address = header.address;
        let error = ErrorKind::IommuFault { function, requester, access, address, bytes };
        fabric.report_request(at.port, error, header.class());
        fabric.answer_unsupported(at.port, at.direction, &header, 0);
        fabric.drop_received(at.direction, at.index);
    }
}

impl Fabric {
    /// Counts TLPs of a class waiting at a root port, the reason for idle wires there.
    fn count_translating(&mut self, port: u32, class: Class, more: i32) {
        let state = &mut self.port_states[port as usize];
        let waiting = &mut state.translating[class.index()];
        let after = waiting.checked_add_signed(more);
        *waiting = after.unwrap_or_else(|| panic!("{waiting} of {class:?} wait, {more} more"));
        if class == Class::NonPosted && state.transmit != NONE {
            let waits = *waiting > 0;
            let transmit = state.transmit;
            let reason = if waits { IdleReason::Translation } else { IdleReason::NothingToSend };
            self.set_empty_reason(transmit, reason);
        }
    }

    pub(crate) fn root_translated(&mut self, node: u32, place: u32) {
        self.with_root(node, |root, fabric| root.translated(fabric, place));
    }

    /// Constants of a host's IOMMU, if present.
    pub fn iommu(&mut self, host: HostId) -> Option<IommuParameters> {
        self.with_translation(host, |translation| translation.parameters)
    }

    /// Counters of a host's IOMMU, if present; of several sockets, the sum of theirs.
    pub fn iommu_counters(&mut self, host: HostId) -> Option<IommuCounters> {
        let mut sum = None;
        self.with_translation(host, |translation| {
            let sum = sum.get_or_insert_with(IommuCounters::default);
            sum.add(&translation.iommu.counters);
        });
        sum
    }

    /// Calls `call` with the IOMMU of each socket, whose mappings are the same. Returns its first
    /// result; `None` without an IOMMU.
    fn with_translation<R>(
        &mut self,
        host: HostId,
        call: impl FnMut(&mut Translation) -> R,
    ) -> Option<R> {
        let node = self.root(host)?;
        self.with_root(node, |root, _| {
            let results: Vec<R> = root.translations.iter_mut().map(call).collect();
            results.into_iter().next()
        })?
    }

    /// Maps `bytes` of a function's addresses from `address` on to bus addresses from `target` on:
    /// memory of the host, or a peer's BAR. Takes no simulated time. Returns the number of pages.
    ///
    /// # Errors
    /// [`IommuError`] without an IOMMU, for a range other than whole pages of 4 KiB, or if any of
    /// the addresses is mapped.
    pub fn map_io(
        &mut self,
        host: HostId,
        function: RoutingId,
        address: BusAddress,
        target: BusAddress,
        bytes: u64,
    ) -> Result<u64, IommuError> {
        self.with_translation(host, |it| it.iommu.map(function, address, target, bytes))
            .unwrap_or(Err(IommuError::NoIommu(host)))
    }

    /// Translates an address of a function; `None` without an IOMMU or mapping.
    pub fn translate_io(
        &mut self,
        host: HostId,
        function: RoutingId,
        address: BusAddress,
    ) -> Option<BusAddress> {
        self.with_translation(host, |it| it.iommu.translate(function, address, 1))?
    }

    /// Ends the mapping of a function that begins at `address`; the IOTLB drops it at once. Returns
    /// the number of pages.
    ///
    /// # Errors
    /// [`IommuError`] without an IOMMU, or if no mapping begins there.
    pub fn unmap_io(
        &mut self,
        host: HostId,
        function: RoutingId,
        address: BusAddress,
    ) -> Result<u64, IommuError> {
        self.with_translation(host, |it| it.iommu.unmap(function, address))
            .unwrap_or(Err(IommuError::NoIommu(host)))
    }
}
