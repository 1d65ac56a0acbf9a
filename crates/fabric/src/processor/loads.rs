// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads of cores in flight. A load is alone unless its core may have several: then loads of flows
//! go beside each other, and stores and all accesses of host code wait until none is left.

use crosslane_pcie::tlp::{CompletionStatus, Header};
use crosslane_pcie::units::{BusAddress, Tag};

use super::combining::LINE_BYTES;
use super::{Core, NO_TAG, Processor, UNSUPPORTED, host};
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::Fabric;
use crate::flow::{Flow, FlowKind};
use crate::host_access::{COMPLETION_TIMEOUT, HostEvent, LoadError, Region};
use crate::parameters::CpuParameters;
use crate::pattern;
use crate::root_complex::Arrival;
use crate::trace::HeaderLine;

/// Originator of a load.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoadOwner {
    /// A flow, with its operation and those of the bytes that are the operation's.
    Flow {
        flow: u32,
        operation: u64,
        address: u64,
        bytes: u32,
    },
    Host {
        token: u64,
    },
}

/// A load in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub tag: Tag,
    pub address: u64,
    pub bytes: u32,
    /// Root port that the load left by.
    pub port: u32,
    pub deadline_ps: u64,
    pub owner: LoadOwner,
    /// Whether its core does nothing beside it.
    pub is_alone: bool,
}

impl Load {
    /// Time at which the load left.
    const fn begun_ps(&self) -> u64 {
        self.deadline_ps - COMPLETION_TIMEOUT.0
    }

    /// Bytes that a completion brings for it, or the name of its error status.
    pub fn data<'a>(&self, payload: &'a [u8], header: &Header) -> Result<&'a [u8], &'static str> {
        match header.status {
            CompletionStatus::Successful => {}
            CompletionStatus::CompleterAbort => return Err("Completer Abort"),
            _ => return Err(UNSUPPORTED),
        }
        if header.poisoned {
            return Err("poisoned data");
        }
        let skip = (self.address & 3) as usize;
        payload.get(skip..skip + self.bytes as usize).ok_or("too few bytes")
    }
}

/// Loads of a flow that its core may have in flight: lines, if they are streaming loads.
pub(super) fn most_loads(cpu: &CpuParameters, flow: &Flow) -> usize {
    let most = match (flow.kind, flow.region) {
        (FlowKind::Read, Region::Uncached) => cpu.loads_in_flight,
        (FlowKind::Read, Region::WriteCombined) => {
            cpu.combining.map_or(1, |combining| combining.streaming_loads)
        }
        _ => 1,
    };
    usize::from(most)
}

/// The line of an address.
pub(super) const fn line_of(address: u64) -> u64 {
    address & !(LINE_BYTES - 1)
}

impl Core {
    /// Whether a load is in flight, or has come and takes the core's own time.
    pub fn is_loading(&self) -> bool {
        !self.loads.is_empty() || !self.returning.is_empty()
    }

    /// Whether it may begin an access beside its loads, if as many as `most` may be in flight.
    pub fn may_begin(&self, most: usize) -> bool {
        let loading = self.loads.len() + self.returning.len();
        loading == 0 || loading < most
    }

    /// Adds a load in flight.
    pub fn begin_load(&mut self, load: Load, fabric: &mut Fabric, node: u32, number: u32) {
        let is_alone = load.is_alone || self.loads.iter().any(|load| load.is_alone);
        assert!(
            !is_alone || !self.is_loading(),
            "core {number} makes {load:?} beside {:?}",
            self.loads
        );
        self.loads.push(load);
        self.check_timeouts(fabric, node, number);
    }

    /// Schedules the time-out check of the oldest load, unless one is.
    fn check_timeouts(&mut self, fabric: &mut Fabric, node: u32, number: u32) {
        if let Some(oldest) = self.loads.first()
            && self.timeout_event_ps == u64::MAX
        {
            self.timeout_event_ps = oldest.deadline_ps;
            fabric.events.schedule(oldest.deadline_ps, EventKind::LoadTimeout, node, number);
        }
    }

    /// Ends a load that is no longer in flight; it takes the core's time until `done_ps`.
    fn end_load(&mut self, load: &Load, done_ps: u64) {
        if load.is_alone {
            self.occupy(load.begun_ps(), done_ps);
            return;
        }
        // The time that several loads share counts once.
        let from_ps = load.begun_ps().max(self.loaded_ps);
        self.busy_ps = self.busy_ps.saturating_add(done_ps.saturating_sub(from_ps));
        self.loaded_ps = self.loaded_ps.max(done_ps);
        self.returning.push(done_ps);
    }
}

impl Processor {
    /// Takes the load with a tag out of those in flight, with the number of its core.
    fn take_load(&mut self, tag: Tag) -> Option<(usize, Load)> {
        self.cores.iter_mut().enumerate().find_map(|(number, core)| {
            let at = core.loads.iter().position(|load| load.tag == tag)?;
            Some((number, core.loads.remove(at)))
        })
    }

    /// Recycles the tag of a load that has ended, unless it is the core's own.
    fn give_tag_back(&mut self, number: usize, tag: Tag) {
        if tag == self.cores[number].flow_tag {
            return;
        }
        self.free_tags.push(tag.0);
        let of_cores = self.cores.iter().filter(|core| core.flow_tag.0 != NO_TAG).count();
        let of_loads = self
            .cores
            .iter()
            .flat_map(|core| core.loads.iter().filter(|load| load.tag != core.flow_tag));
        let (of_loads, free, late) = (of_loads.count(), self.free_tags.len(), self.late_tags.len());
        assert!(
            free + late + of_cores + of_loads == self.tags,
            "of {} tags {free} are free, {late} late, {of_cores} the cores', {of_loads} in use",
            self.tags
        );
    }

    /// Cancels the time-out check of this core if it would find no load. Returns whether it did.
    pub fn forget_timeout(&mut self, core: u32) -> bool {
        let core = &mut self.cores[core as usize];
        if core.loads.is_empty() {
            core.timeout_event_ps = u64::MAX;
        }
        core.loads.is_empty()
    }

    /// Completes a load. The core gets the data once everything before them is visible, at
    /// `seen_ps`: a completion does not pass a posted write (PCIe 6.x 2.4.1), so a driver that
    /// reads from a device knows that the device's earlier writes are in memory.
    pub fn take_completion(
        &mut self,
        fabric: &mut Fabric,
        at: &Arrival,
        header: &Header,
        seen_ps: u64,
    ) {
        let Some((number, load)) = self.take_load(header.tag) else {
            if let Some(late) = self.late_tags.iter().position(|tag| *tag == header.tag.0) {
                self.free_tags.push(self.late_tags.swap_remove(late));
            }
            let what = HeaderLine(header).to_string();
            fabric.report(at.port, ErrorKind::UnexpectedCompletion { what });
            fabric.drop_received(at.direction, at.index);
            return;
        };
        let has_data_ps = match header.attributes.relaxed_ordering {
            true => fabric.events.now_ps(),
            false => seen_ps,
        };
        let socket = fabric.port_states[at.port as usize].socket;
        let has_data_ps = has_data_ps + self.sockets.hop_ps(number as u32, socket);
        let done_ps = has_data_ps + self.cpu.uncached_load.0;
        self.cores[number].end_load(&load, done_ps);
        self.give_tag_back(number, load.tag);
        match load.owner {
            LoadOwner::Flow { .. } => finish_flow_load(fabric, at, header, &load, done_ps),
            LoadOwner::Host { token } => {
                let result = host::loaded(fabric.packets.payload(at.index), header, &load);
                fabric.host.put(done_ps, HostEvent::Loaded { token, result });
            }
        }
        fabric.drop_received(at.direction, at.index);
        fabric.events.schedule(done_ps, EventKind::Core, at.node, number as u32);
    }

    /// Ends the loads of a core that have timed out.
    pub fn load_timeout(&mut self, fabric: &mut Fabric, node: u32, number: u32) {
        let now_ps = fabric.events.now_ps();
        self.cores[number as usize].timeout_event_ps = u64::MAX;
        let core = &mut self.cores[number as usize];
        let late = core.loads.partition_point(|load| load.deadline_ps <= now_ps);
        let late: Vec<Load> = core.loads.drain(..late).collect();
        for load in late {
            self.cores[number as usize].end_load(&load, now_ps);
            self.time_out(fabric, (node, number), &load);
        }
        self.cores[number as usize].check_timeouts(fabric, node, number);
    }

    fn time_out(&mut self, fabric: &mut Fabric, (node, number): (u32, u32), load: &Load) {
        let now_ps = fabric.events.now_ps();
        self.late_tags.push(load.tag.0);
        let (timeout, tag) = (COMPLETION_TIMEOUT, load.tag.0);
        let error = ErrorKind::CompletionTimeout { tag, timeout };
        let why = error.to_string();
        fabric.report(load.port, error);
        match load.owner {
            LoadOwner::Flow { flow, operation, .. } => {
                let core = &mut self.cores[number as usize];
                if core.flow_tag == load.tag {
                    // Without a tag, loads fail until one is free.
                    core.flow_tag = Tag(self.free_tags.pop().unwrap_or(NO_TAG));
                }
                fabric.fail_operation(flow, operation, why);
            }
            LoadOwner::Host { token } => {
                let (address, bytes) = (BusAddress(load.address), load.bytes);
                let result = Err(LoadError::TimedOut { address, bytes, timeout });
                fabric.host.put(now_ps, HostEvent::Loaded { token, result });
            }
        }
        fabric.events.schedule(now_ps, EventKind::Core, node, number);
    }

    /// Fails the load with this tag because its link is down.
    pub fn refuse_load(&mut self, fabric: &mut Fabric, node: u32, tag: Tag) {
        let Some((number, load)) = self.take_load(tag) else { return };
        let done_ps = fabric.events.now_ps() + self.cpu.uncached_load.0;
        self.cores[number].end_load(&load, done_ps);
        let (address, bytes, status) = (BusAddress(load.address), load.bytes, UNSUPPORTED);
        match load.owner {
            LoadOwner::Flow { flow, operation, .. } => {
                let error = ErrorKind::ReadRefused { address, bytes, status };
                fabric.fail_operation(flow, operation, error.to_string());
            }
            LoadOwner::Host { token } => {
                let result = Err(LoadError::Refused { address, bytes, status });
                fabric.host.put(done_ps, HostEvent::Loaded { token, result });
            }
        }
        self.give_tag_back(number, tag);
        self.cores[number].go_on_at(done_ps, fabric, node, number as u32);
    }
}

/// Completes a load of a flow: checks the data and counts them from `done_ps` on.
fn finish_flow_load(fabric: &mut Fabric, at: &Arrival, header: &Header, load: &Load, done_ps: u64) {
    let LoadOwner::Flow { flow, operation, address, bytes } = load.owner else { return };
    match load.data(fabric.packets.payload(at.index), header) {
        Ok(data) => {
            let skip = (address - load.address) as usize;
            let data = &data[skip..skip + bytes as usize];
            let state = &fabric.flows[flow as usize];
            let (begin, bytes) = (state.address(operation), u64::from(bytes));
            let (offset, total) = (address - begin, state.flow.operation_bytes);
            assert!(offset + bytes <= total, "{bytes} B at {offset} of {total} B were loaded");
            if !pattern::matches(state.key(operation), offset, data) {
                let what = format!("flow {}, operation {operation}", state.flow.name);
                fabric.report(at.port, ErrorKind::WrongData { what: what.clone() });
                fabric.fail_operation(flow, operation, format!("{what}: wrong data"));
            }
            fabric.read_progress(flow, operation, bytes, done_ps);
        }
        Err(status) => {
            let (address, bytes) = (BusAddress(load.address), load.bytes);
            let error = ErrorKind::ReadRefused { address, bytes, status };
            fabric.fail_operation(flow, operation, error.to_string());
            fabric.report(at.port, error);
        }
    }
}
