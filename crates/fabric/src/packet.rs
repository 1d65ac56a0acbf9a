// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs in the fabric: one record and one run of payload bytes each, in a slab. A TLP keeps its
//! slot from requester to completer; nothing is copied from hop to hop.

use crosslane_pcie::credits::{Credits, DATA_CREDIT_BYTES};
use crosslane_pcie::link::TLP_FRAMING_BYTES;
use crosslane_pcie::tlp::{Class, Header};

/// Index of no packet and of no direction.
pub(crate) const NONE: u32 = u32::MAX;
/// Marks as the ingress of a packet the lines that it has in a root complex (`peer_reads`).
pub(crate) const JOINED: u32 = 1 << 31;

/// Index of a packet's slot.
pub(crate) type PacketIndex = u32;

/// A TLP and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub header: Header,
    /// Earliest time at which the next transmitter may begin to send the TLP.
    pub ready_ps: u64,
    /// Time at which the last byte reaches the port where the TLP is.
    pub tail_ps: u64,
    /// Sequence number at the source node, for the ordering checker.
    pub source_sequence: u64,
    /// Node that sent the TLP first.
    pub source: u32,
    /// Direction whose receive buffer holds the TLP; `NONE` in its source node.
    pub ingress: u32,
    /// Number of its flow, plus one; 0 for none.
    pub flow: u32,
    /// Number of its operation in that flow.
    pub operation: u32,
    /// Bytes on the wire; 0 in a free slot.
    pub wire_bytes: u32,
    /// Data credits that the TLP takes.
    pub data_credits: u32,
    /// Data credits that it holds of the buffer of `ingress`: more if it was cut since.
    pub held_data: u32,
    payload_bytes: u32,
    class: Class,
    /// The TLP behind this one in a queue, and its position in the order in which TLPs came to the
    /// queues of its direction.
    pub next: PacketIndex,
    pub order: u64,
}

/// Part of the receive buffer of direction `ingress` that a TLP holds: its class and data credits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub ingress: u32,
    pub class: Class,
    pub data: u32,
}

impl Packet {
    /// The receive buffer that holds the TLP, if `ingress` is a direction.
    #[inline]
    pub fn buffer(&self) -> Buffer {
        Buffer { ingress: self.ingress, class: self.class, data: self.held_data }
    }

    #[inline]
    pub fn new(header: Header, source: u32) -> Self {
        let payload_bytes = header.payload_bytes();
        let data_credits = payload_bytes.div_ceil(DATA_CREDIT_BYTES);
        Self {
            header,
            ready_ps: 0,
            tail_ps: 0,
            source_sequence: 0,
            source,
            ingress: NONE,
            flow: 0,
            operation: 0,
            wire_bytes: TLP_FRAMING_BYTES + header.header_dw() * 4 + payload_bytes,
            data_credits,
            held_data: data_credits,
            payload_bytes,
            class: header.class(),
            next: NONE,
            order: 0,
        }
    }

    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Payload length, whole DW.
    #[inline]
    pub fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }
}

/// All packets of a fabric.
pub(crate) struct Packets {
    records: Vec<Packet>,
    bytes: Vec<u8>,
    /// Payload bytes that each slot has room for.
    stride: usize,
    free: Vec<PacketIndex>,
}

impl Packets {
    pub fn new(largest_payload_bytes: u32) -> Self {
        let stride = largest_payload_bytes as usize;
        Self { records: Vec::new(), bytes: Vec::new(), stride, free: Vec::new() }
    }

    /// Largest payload of a slot in bytes.
    pub fn largest_payload_bytes(&self) -> u32 {
        self.stride as u32
    }

    /// Number of packets in use.
    pub fn live(&self) -> usize {
        self.records.len() - self.free.len()
    }

    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketIndex {
        let payload_bytes = packet.payload_bytes as usize;
        assert_of!(
            payload_bytes <= self.stride,
            [payload_bytes],
            "{payload_bytes} B in a slot of {} B",
            self.stride
        );
        assert!(packet.wire_bytes > 0, "a TLP without length: {:?}", packet.header);
        if let Some(index) = self.free.pop() {
            let there = &mut self.records[index as usize];
            assert_of!(
                there.wire_bytes == 0,
                [index],
                "slot {index} is given away twice: {:?}",
                there.header
            );
            *there = packet;
            return index;
        }
        let index = self.records.len() as PacketIndex;
        self.records.push(packet);
        self.bytes.resize(self.records.len() * self.stride, 0);
        index
    }

    /// Copies a packet with its payload.
    pub fn duplicate(&mut self, index: PacketIndex) -> PacketIndex {
        let packet = *self.get_mut(index);
        let copy = self.insert(packet);
        let from = index as usize * self.stride;
        let length = packet.payload_bytes as usize;
        self.bytes.copy_within(from..from + length, copy as usize * self.stride);
        copy
    }

    /// Leaves of a packet the part that this header describes, whose payload begins `from` bytes
    /// behind that of the whole.
    pub fn shorten(&mut self, index: PacketIndex, from: usize, header: Header) {
        let length = header.payload_bytes() as usize;
        self.payload_mut(index).copy_within(from..from + length, 0);
        let packet = self.get_mut(index);
        packet.header = header;
        packet.payload_bytes = header.payload_bytes();
        packet.wire_bytes = header.wire_bytes();
        packet.data_credits = Credits::of(&header).data;
    }

    #[inline]
    pub fn remove(&mut self, index: PacketIndex) {
        self.get_mut(index).wire_bytes = 0;
        self.free.push(index);
    }

    #[inline]
    pub fn get(&self, index: PacketIndex) -> &Packet {
        &self.records[index as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, index: PacketIndex) -> &mut Packet {
        let packet = &mut self.records[index as usize];
        if packet.wire_bytes == 0 {
            not_there(index, packet);
        }
        packet
    }

    /// Payload of a packet, whole DW.
    #[inline]
    pub fn payload(&self, index: PacketIndex) -> &[u8] {
        let from = index as usize * self.stride;
        let packet = &self.records[index as usize];
        if packet.wire_bytes == 0 {
            not_there(index, packet);
        }
        let length = packet.payload_bytes as usize;
        &self.bytes[from..from + length]
    }

    #[inline]
    pub fn payload_mut(&mut self, index: PacketIndex) -> &mut [u8] {
        let from = index as usize * self.stride;
        let length = self.get_mut(index).payload_bytes as usize;
        &mut self.bytes[from..from + length]
    }
}

/// Panics because a removed TLP is used. Changing, copying, removing and reading payloads check for
/// this; reading one record is too hot to be checked.
#[cold]
#[inline(never)]
fn not_there(index: PacketIndex, last: &Packet) -> ! {
    panic!("slot {index} has no TLP; the last was {:?}", last.header);
}
