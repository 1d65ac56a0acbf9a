// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores and loads of host code, made by a core one at a time.

use crosslane_pcie::tlp::Header;
use crosslane_pcie::units::{BusAddress, Tag};

use super::loads::{Load, LoadOwner};
use super::{CorePlace, NO_TAG, Processor, UNSUPPORTED, WayOut, way_out};
use crate::errors::ErrorKind;
use crate::fabric::Fabric;
use crate::flow_state::MAX_STORE_BYTES;
use crate::host_access::{COMPLETION_TIMEOUT, HostAccess, HostEvent, LoadError, Region};
use crate::packet::Packet;
use crate::root_complex::OWN_ID;
use crate::routing::Routes;
use crate::trace::HeaderLine;

impl Processor {
    /// Makes the next access of host code. Returns false if none waits.
    pub(super) fn host_step(
        &mut self,
        fabric: &mut Fabric,
        place: CorePlace,
        routes: &Routes,
    ) -> bool {
        let Some(access) = self.cores[place.number as usize].host.first() else { return false };
        if access.empties_buffers() && !self.empty_buffers(fabric, place, routes) {
            return true;
        }
        match access {
            HostAccess::Load { address, bytes, token, .. } => {
                self.host_load(fabric, place, routes, (address, bytes, token));
            }
            HostAccess::Store { address, left, width_bytes, region, token } => {
                let bytes = store_bytes(address, left, width_bytes);
                match region {
                    Region::WriteCombined if bytes > 0 => {
                        self.host_combine(fabric, place, routes, (address, bytes));
                    }
                    _ => self.host_store(fabric, place, routes, (address, bytes)),
                }
                let core = &mut self.cores[place.number as usize];
                if core.stalled.is_none() && u64::from(bytes) == left {
                    core.host.finish_first();
                    fabric.host.put(core.free_ps, HostEvent::Stored { token });
                }
            }
            HostAccess::Fence { token } => {
                let fence_ps = self.cpu.combining.map_or(0, |combining| combining.fence.0);
                let core = &mut self.cores[place.number as usize];
                core.host.finish_first();
                core.turn = core.works.len() + 1;
                let now_ps = fabric.events.now_ps();
                core.occupy(now_ps, now_ps + fence_ps);
                fabric.host.put(core.free_ps, HostEvent::Stored { token });
                core.go_on_at(core.free_ps, fabric, place.node, place.number);
            }
        }
        true
    }

    /// Empties the combining buffers. Returns false if the root port lacks room for all writes,
    /// which stalls the core.
    fn empty_buffers(&mut self, fabric: &mut Fabric, place: CorePlace, routes: &Routes) -> bool {
        let core = &mut self.cores[place.number as usize];
        while core.combining.open() > 0 {
            let at = oldest_or_any(fabric, core.combining.open());
            core.combining.close(at);
        }
        self.drain(fabric, place, routes);
        let core = &mut self.cores[place.number as usize];
        core.stalled = core.draining;
        core.stalled.is_none()
    }

    /// Sends closed lines as far as the root port has room.
    pub(super) fn drain(&mut self, fabric: &mut Fabric, place: CorePlace, routes: &Routes) {
        let CorePlace { node, number } = place;
        loop {
            // In shuffle mode the pieces of a line leave in any order.
            let from = if fabric.shuffle { fabric.random.u32(..8) * 8 } else { 0 };
            let next = self.cores[number as usize].combining.next_write(from);
            let Some(write) = next else { return };
            let header = Header::memory_write(OWN_ID, BusAddress(write.address), write.bytes);
            let out = way_out(fabric, place, self.sockets, routes, &header);
            if let Some(out) = out.filter(|out| out.is_full(fabric, &self.cpu)) {
                self.cores[number as usize].draining = Some(out.direction);
                return;
            }
            self.cores[number as usize].combining.has_left(&write);
            post(fabric, node, out, header, write.data());
        }
    }

    /// Puts one store into the combining buffers, or stalls the core if no buffer is free.
    fn host_combine(
        &mut self,
        fabric: &mut Fabric,
        place: CorePlace,
        routes: &Routes,
        (address, bytes): (u64, u32),
    ) {
        let number = place.number as usize;
        let core = &mut self.cores[number];
        if !core.combining.takes(address) {
            if core.combining.open() > 0 && core.draining.is_none() {
                let at = oldest_or_any(fabric, core.combining.open());
                core.combining.close(at);
                self.drain(fabric, place, routes);
            }
            let core = &mut self.cores[number];
            if !core.combining.takes(address) {
                core.stalled = core.draining;
                return;
            }
        }
        let store_ps = self.cpu.combining.map_or(0, |combining| combining.store.0);
        let core = &mut self.cores[number];
        core.turn = core.works.len() + 1;
        let now_ps = fabric.events.now_ps();
        core.occupy(now_ps, now_ps + store_ps);
        core.go_on_at(core.free_ps, fabric, place.node, place.number);
        let mut data = [0; MAX_STORE_BYTES as usize];
        let data = &mut data[..bytes as usize];
        core.host.take_bytes(data);
        core.combining.put(address, data);
        if fabric.shuffle && core.combining.open() > 0 && fabric.random.u8(..) < EARLY {
            let at = oldest_or_any(fabric, core.combining.open());
            core.combining.close(at);
        }
        if core.draining.is_none() {
            self.drain(fabric, place, routes);
        }
    }

    fn host_load(
        &mut self,
        fabric: &mut Fabric,
        place: CorePlace,
        routes: &Routes,
        (address, bytes, token): (u64, u32, u64),
    ) {
        let CorePlace { node, number } = place;
        let now_ps = fabric.events.now_ps();
        let core = &mut self.cores[number as usize];
        core.host.finish_first();
        core.turn = core.works.len() + 1;
        let tag = self.free_tags.last().copied().unwrap_or(NO_TAG);
        let header = Header::memory_read(OWN_ID, Tag(tag), BusAddress(address), bytes);
        let out = way_out(fabric, place, self.sockets, routes, &header)
            .filter(|out| !out.is_down(fabric));
        let Some(out) = out.filter(|_| tag != NO_TAG) else {
            let address = BusAddress(address);
            let result = Err(if tag == NO_TAG {
                LoadError::NoTag { address, bytes }
            } else {
                LoadError::Refused { address, bytes, status: UNSUPPORTED }
            });
            core.occupy(now_ps, now_ps + self.cpu.uncached_load.0);
            fabric.host.put(core.free_ps, HostEvent::Loaded { token, result });
            core.go_on_at(core.free_ps, fabric, node, number);
            return;
        };
        self.free_tags.pop();
        let owner = LoadOwner::Host { token };
        let deadline_ps = now_ps + COMPLETION_TIMEOUT.0;
        let (tag, port) = (Tag(tag), out.port);
        let load = Load { tag, address, bytes, port, deadline_ps, owner, is_alone: true };
        core.begin_load(load, fabric, node, number);
        out.send(fabric, Packet::new(header, node), |_| {});
    }

    /// Makes one store of host code, or stalls the core if the store queue is full.
    fn host_store(
        &mut self,
        fabric: &mut Fabric,
        place: CorePlace,
        routes: &Routes,
        (address, bytes): (u64, u32),
    ) {
        let CorePlace { node, number } = place;
        let (now_ps, cpu) = (fabric.events.now_ps(), self.cpu);
        let core = &mut self.cores[number as usize];
        if bytes == 0 {
            core.go_on_at(now_ps, fabric, node, number);
            return;
        }
        let header = Header::memory_write(OWN_ID, BusAddress(address), bytes);
        let out = way_out(fabric, place, self.sockets, routes, &header);
        if let Some(out) = out.filter(|out| out.is_full(fabric, &cpu)) {
            core.stalled = Some(out.direction);
            return;
        }
        core.turn = core.works.len() + 1;
        core.occupy(now_ps, now_ps + cpu.uncached_store.0);
        core.go_on_at(core.free_ps, fabric, node, number);
        let mut data = [0; MAX_STORE_BYTES as usize];
        let data = &mut data[..bytes as usize];
        core.host.take_bytes(data);
        post(fabric, node, out, header, data);
    }
}

/// Number of stores in 256 that close a buffer early in shuffle mode.
const EARLY: u8 = 32;

/// Chooses the open line to close: the oldest, or any in shuffle mode.
fn oldest_or_any(fabric: &mut Fabric, open: usize) -> usize {
    if fabric.shuffle { fabric.random.usize(..open) } else { 0 }
}

/// Sends a write of a core; drops one that routes nowhere.
fn post(fabric: &mut Fabric, node: u32, out: Option<WayOut>, header: Header, data: &[u8]) {
    let Some(out) = out else {
        let what = HeaderLine(&header).to_string();
        let address = header.address;
        fabric.report_at_node(node, ErrorKind::Unrouted { what, address });
        return;
    };
    let skip = (header.address.0 & 3) as usize;
    out.send(fabric, Packet::new(header, node), |payload| {
        payload.fill(0);
        payload[skip..skip + data.len()].copy_from_slice(data);
    });
}

/// Length of the next store of a run: a power of two, naturally aligned, within width and run.
fn store_bytes(address: u64, left: u64, width_bytes: u32) -> u32 {
    if left == 0 {
        return 0;
    }
    let aligned = 1 << address.trailing_zeros().min(MAX_STORE_BYTES.ilog2());
    let fits = 1 << left.ilog2().min(MAX_STORE_BYTES.ilog2());
    width_bytes.min(aligned).min(fits)
}

/// Value of a load of host code.
pub(super) fn loaded(payload: &[u8], header: &Header, load: &Load) -> Result<u64, LoadError> {
    let (address, bytes) = (BusAddress(load.address), load.bytes);
    let data = load.data(payload, header);
    let data = data.map_err(|status| LoadError::Refused { address, bytes, status })?;
    let mut value = [0; 8];
    value[..data.len()].copy_from_slice(data);
    Ok(u64::from_le_bytes(value))
}
