// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interface of an endpoint's behaviour to the fabric: receiving and sending TLPs. The generic
//! endpoint, the behavioural models and the verilated gateware all implement it.

use std::any::Any;
use std::ops::Range;

use crosslane_pcie::config::ConfigSpace;
use crosslane_pcie::tlp::{Class, Header};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_random::Random;

use crate::counters::IdleReason;
use crate::errors::ErrorKind;
use crate::events::EventKind;
use crate::fabric::{Fabric, NodeState};
use crate::memory::{Backing, Memory};
use crate::packet::{NONE, Packet, PacketIndex};
use crate::topology::{NodeId, PortId};
use crate::trace::HeaderLine;

/// Time at which the receive buffer of a TLP becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// At once.
    Now,
    /// At this time.
    At(Picoseconds),
    /// When the device calls [`DevicePort::release`].
    Held,
}

/// Handle of a received TLP, valid during the call.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub(crate) index: PacketIndex,
    pub(crate) direction: u32,
}

/// Rate at which a device takes TLPs in, one beat per clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// Payload bytes of a beat. A TLP has at least one beat.
    pub beat_bytes: u32,
    /// Clock period, ps.
    pub clock_ps: u64,
}

impl Intake {
    /// Takes each TLP at once when it has arrived.
    pub(crate) const AT_ONCE: Self = Self { beat_bytes: u32::MAX, clock_ps: 0 };

    /// Time to take in a TLP, ps.
    pub(crate) fn time_ps(self, payload_bytes: u32) -> u64 {
        u64::from(payload_bytes.div_ceil(self.beat_bytes).max(1)) * self.clock_ps
    }
}

/// Kind of a channel of a DMA engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// Host to card: it reads from the host.
    #[default]
    H2c,
    /// Card to host: it writes to the host.
    C2h,
    /// Peer: it writes to a receive queue of another engine.
    Peer,
}

/// Time that a channel waited, by reason, between its first TLP and its last TLP or last read data.
/// An engine's registers count from their reset to their reading instead, and do not separate the
/// first two reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelWaits {
    /// Time from the first TLP until the last one is handed on, or the last data arrive.
    pub moving: Picoseconds,
    /// The host had posted nothing.
    pub nothing_posted: Picoseconds,
    /// Posted descriptors were not fetched yet.
    pub no_descriptor: Picoseconds,
    /// Gap after a descriptor.
    pub gap: Picoseconds,
    /// The stream had too little data for the next TLP.
    pub no_data: Picoseconds,
    /// All tags were taken, or the limit of descriptors with reads in flight was reached.
    pub no_tag: Picoseconds,
    /// The peer's credit window was used up.
    pub no_credit: Picoseconds,
}

/// An endpoint's behaviour. Calls come in the order of simulated time.
pub trait Device: Any + Send {
    /// Handles a TLP that has reached the logic of the device, clean and in order.
    fn receive(&mut self, tlp: Received, port: &mut DevicePort<'_>) -> Consumed;

    /// Rate of a device that takes TLPs one beat per clock. The port's receive latency ends with a
    /// TLP's last beat: [`receive`](Self::receive) comes early enough to take the first beat then,
    /// but not before the whole TLP has arrived.
    fn intake(&self) -> Option<Intake> {
        None
    }

    /// Called when a TLP of this device has taken the wire, which makes room in its queue, and when
    /// its configuration space has been written, which may permit more.
    fn transmit_ready(&mut self, port: &mut DevicePort<'_>);

    /// Called when a link between the device and its host has gone down, which on hardware resets
    /// the device (PCIe 6.x 6.6.1): TLPs that it had sent may be lost. If it is the device's own
    /// link, [`transmit_ready`](Self::transmit_ready) is called when it is up again.
    fn link_down(&mut self, _port: &mut DevicePort<'_>) {}

    /// Called at the time requested with [`DevicePort::timer`] or [`DevicePort::deadline`].
    fn timer(&mut self, token: u32, port: &mut DevicePort<'_>);

    /// Called after a write to the function's configuration space (and once at the start).
    fn configured(&mut self, _config: &ConfigSpace) {}

    /// Memory behind the BARs, if it can be read or written outside simulated time. It holds one
    /// BAR behind the other: see [`bar_offset_bytes`].
    fn memory(&mut self) -> Option<&mut Memory> {
        None
    }

    /// Range of a BAR that is plain memory, in whole pages of 4 KiB: loads and stores there only
    /// read and write [`memory`](Self::memory), in any order and width, and no register depends on
    /// them, so they need not arrive as requests.
    fn plain_memory(&self, _config: &ConfigSpace, _bar: usize) -> Option<Range<u64>> {
        None
    }

    /// Describes unfinished work of the device, a sentence each, for a fabric that is stuck.
    fn unfinished(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the waits of a DMA engine's first channel of a kind while data moved, since its
    /// counters were reset; `None` if there is no such channel, nothing has moved, or the device
    /// does not tell: its registers then have what there is.
    fn channel_waits(&self, _kind: ChannelKind) -> Option<ChannelWaits> {
        None
    }
}

/// Offset of a BAR's first byte in a device's memory, behind those of the BARs before it.
pub fn bar_offset_bytes(config: &ConfigSpace, bar: usize) -> u64 {
    (0..bar).filter_map(|before| config.bar(before)).map(|before| before.size_bytes).sum()
}

impl Fabric {
    /// Returns the waits of the first channel of a kind of an endpoint's device: see
    /// [`Device::channel_waits`].
    pub fn channel_waits(&self, node: NodeId, kind: ChannelKind) -> Option<ChannelWaits> {
        match self.node_states.get(node.0 as usize)? {
            NodeState::Endpoint(Some(device)) => device.channel_waits(kind),
            _ => None,
        }
    }

    /// The device behind an endpoint's port.
    fn device_of(&mut self, port: PortId) -> Option<&mut dyn Device> {
        let node = self.ports.get(port.0 as usize)?.node;
        match &mut self.node_states[node.0 as usize] {
            NodeState::Endpoint(Some(device)) => Some(&mut **device),
            _ => None,
        }
    }

    /// Range of a function's BAR that is plain memory: see [`Device::plain_memory`].
    pub fn plain_memory(&mut self, port: PortId, bar: usize) -> Option<Range<u64>> {
        let config = self.ports.get(port.0 as usize)?.config.clone();
        self.device_of(port)?.plain_memory(&config, bar)
    }

    /// Stores a part of a function's plain memory in `backing` from now on, as [`Memory::back`]
    /// does. Returns false if the part is not plain memory, or is backed already.
    pub fn back_memory(
        &mut self,
        port: PortId,
        bar: usize,
        part: Range<u64>,
        backing: Box<dyn Backing>,
    ) -> bool {
        let plain = self.plain_memory(port, bar);
        if plain.is_none_or(|plain| part.start < plain.start || plain.end < part.end) {
            return false;
        }
        let first = bar_offset_bytes(&self.ports[port.0 as usize].config, bar);
        let memory = self.device_of(port).and_then(Device::memory);
        memory.is_some_and(|memory| memory.back(first + part.start..first + part.end, backing))
    }
}

/// Access of a device to the fabric during a call.
pub struct DevicePort<'a> {
    pub(crate) fabric: &'a mut Fabric,
    pub(crate) node: u32,
    pub(crate) port: u32,
    pub(crate) direction: u32,
}

impl DevicePort<'_> {
    /// Simulated time in ps.
    pub fn now_ps(&self) -> u64 {
        self.fabric.events.now_ps()
    }

    /// The header of a received TLP.
    pub fn header(&self, tlp: Received) -> Header {
        self.fabric.packets.get(tlp.index).header
    }

    /// The payload of a received TLP, whole DW.
    pub fn payload(&self, tlp: Received) -> &[u8] {
        self.fabric.packets.payload(tlp.index)
    }

    /// Data credits that a received TLP holds.
    pub fn data_credits(&self, tlp: Received) -> u32 {
        self.fabric.packets.get(tlp.index).data_credits
    }

    /// Frees the receive buffer of a TLP returned as [`Consumed::Held`].
    pub fn release(&mut self, tlp: Received, header: &Header, data_credits: u32) {
        let now_ps = self.now_ps();
        self.fabric.let_go(tlp.direction, now_ps, header.class(), data_credits);
    }

    /// Longest payload in bytes that any port of the fabric supports: the bound for a device that
    /// deliberately exceeds its Max_Payload_Size to test where it is refused.
    pub fn largest_payload_bytes(&self) -> u32 {
        self.fabric.packets.largest_payload_bytes()
    }

    /// Configuration space of the function.
    pub fn config(&self) -> &ConfigSpace {
        &self.fabric.ports[self.port as usize].config
    }

    /// Bus, device and function number of the function.
    pub fn routing_id(&self) -> RoutingId {
        self.fabric.routing_id(crate::topology::PortId(self.port))
    }

    /// Whether the device's own link is up.
    pub fn is_link_up(&self) -> bool {
        self.direction != NONE && !self.fabric.directions[self.direction as usize].is_down
    }

    /// Whether the device may queue another TLP without waiting for [`Device::transmit_ready`]. The
    /// limit is the wire bytes for its transmit latency and two largest TLPs. Always false while
    /// the link is down.
    pub fn has_room(&self) -> bool {
        if self.direction == NONE {
            return false;
        }
        let state = &self.fabric.port_states[self.port as usize];
        let direction = &self.fabric.directions[self.direction as usize];
        direction.egress.bytes < state.queue_limit_bytes && !direction.is_down
    }

    /// Like [`has_room`](Self::has_room), for a TLP of this class: posted requests and completions
    /// need not wait for non-posted requests that lack credits (PCIe 6.x 2.4.1: they must be able
    /// to pass).
    pub fn has_room_for(&self, class: Class) -> bool {
        if self.direction == NONE || class == Class::NonPosted {
            return self.has_room();
        }
        let state = &self.fabric.port_states[self.port as usize];
        let direction = &self.fabric.directions[self.direction as usize];
        let mut bytes = direction.egress.bytes;
        if direction.lacks_nonposted_credits() {
            let nonposted = direction.egress.nonposted_bytes;
            assert!(nonposted <= bytes, "{nonposted} B of requests wait, of {bytes} B in all");
            bytes -= nonposted;
        }
        bytes < state.queue_limit_bytes && !direction.is_down
    }

    /// Queues a TLP behind the device's earlier ones. `fill` writes its payload, whole DW. It can
    /// take the wire after the port's transmit latency.
    pub fn send(&mut self, header: Header, fill: impl FnOnce(&mut [u8])) {
        self.send_for(header, 0, 0, 0, fill);
    }

    /// Like [`send`](Self::send), for a TLP whose first byte left the device at `begun_ps`: the
    /// port's transmit latency counts from then, so only the rest of it remains once the whole TLP
    /// is there.
    pub fn send_begun(&mut self, header: Header, begun_ps: u64, fill: impl FnOnce(&mut [u8])) {
        let latency_ps = self.fabric.port_states[self.port as usize].transmit_latency_ps;
        let mut packet = Packet::new(header, self.node);
        packet.ready_ps = self.now_ps().max(begun_ps + latency_ps);
        let index = self.fabric.inject(packet, fill);
        self.fabric.enqueue(self.direction, 0, index);
    }

    pub(crate) fn send_for(
        &mut self,
        header: Header,
        flow: u32,
        operation: u32,
        not_before_ps: u64,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let latency_ps = self.fabric.port_states[self.port as usize].transmit_latency_ps;
        let mut packet = Packet::new(header, self.node);
        packet.flow = flow;
        packet.operation = operation;
        packet.ready_ps = self.now_ps().max(not_before_ps) + latency_ps;
        let index = self.fabric.inject(packet, fill);
        self.fabric.enqueue(self.direction, 0, index);
    }

    /// Sets the idle reason of the wire while the device's queue is empty.
    pub fn set_idle_reason(&mut self, reason: IdleReason) {
        if self.direction != NONE {
            self.fabric.set_empty_reason(self.direction, reason);
        }
    }

    /// Schedules [`Device::timer`] at this time (ps) with this token.
    pub fn timer(&mut self, time_ps: u64, token: u32) {
        self.fabric.events.schedule(time_ps, EventKind::DeviceTimer, self.node, token);
    }

    /// Node of the device.
    pub const fn node(&self) -> NodeId {
        NodeId(self.node)
    }

    /// Like [`timer`](Self::timer), for another device that this one is joined with outside the
    /// fabric, such as by a network.
    pub fn timer_of(&mut self, node: NodeId, time_ps: u64, token: u32) {
        self.fabric.events.schedule(time_ps, EventKind::DeviceTimer, node.0, token);
    }

    /// Schedules [`Device::timer`] of a device for what a cable brings it, outside the fabric. It
    /// comes before all other events of its time, in the order of nodes and tokens, whenever it is
    /// scheduled.
    pub fn cable(&mut self, node: NodeId, time_ps: u64, token: u32) {
        self.fabric.events.schedule_cable(time_ps, node.0, token);
    }

    /// Returns another device as a `T`; `None` if it has another type or is this one.
    pub fn other<T: 'static>(&mut self, node: NodeId) -> Option<&mut T> {
        self.fabric.device_as(node)
    }

    /// Like [`timer`](Self::timer), but the simulation does not continue for it alone unless some
    /// flow has not ended: for time-outs.
    pub fn deadline(&mut self, time_ps: u64, token: u32) {
        self.fabric.events.schedule(time_ps, EventKind::Deadline, self.node, token);
    }

    /// Refuses a received request that the device does not support: records an error, and answers a
    /// non-posted request with Unsupported Request. That completion may leave ahead of others that
    /// the device has not sent yet.
    pub fn refuse(&mut self, tlp: Received) {
        let header = self.header(tlp);
        let (what, address) = (HeaderLine(&header).to_string(), header.address);
        let error = ErrorKind::Unrouted { what, address };
        self.fabric.report_request(self.port, error, header.class());
        self.fabric.answer_unsupported(self.port, tlp.direction, &header, 0);
    }

    /// Records an error that the device has detected. A refused request counts as posted; see
    /// [`refuse`](Self::refuse).
    pub fn report(&mut self, kind: ErrorKind) {
        self.fabric.report(self.port, kind);
    }

    /// Random number generator of the fabric.
    pub fn random(&mut self) -> &mut Random {
        &mut self.fabric.random
    }
}
