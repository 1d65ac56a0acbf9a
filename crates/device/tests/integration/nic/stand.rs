// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts, each with a NIC, joined by a network link, with programs that use plain accesses.

use crosslane_device::nic::layout::{Entry, EntryKind, Operation, QueueLayout, WorkRequest};
use crosslane_device::nic::{Access, NetworkParameters, Nic, NicParameters, PairNumber, Runs};
use crosslane_fabric::MMIO_HOLE;
use crosslane_pcie::config::{BarKind, BarRequest};
use crosslane_pcie::units::{BusAddress, Picoseconds};

use crate::support::fabric_support::{Settings, ns, rate};
use crate::support::hosts::Hosts;
pub use crate::support::hosts::bytes;

pub const READ: Access = Access { read: true, write: false };
pub const WRITE: Access = Access { read: false, write: true };
pub const BOTH: Access = Access { read: true, write: true };
pub const NONE: Access = Access { read: false, write: false };
/// Start of queue memory and of data in each host's memory.
const QUEUES: u64 = 0x10_0000;
pub const DATA: u64 = 0x400_0000;
const BAR_BYTES: u64 = 4096;

/// A NIC that is never the limit.
pub fn nic() -> NicParameters {
    NicParameters {
        tags: 64,
        max_write_bytes: 256,
        max_read_bytes: 512,
        completion_timeout: ns(50_000),
        outstanding_reads: 16,
        request_latency: ns(50),
        request_interval: ns(5),
        packet_latency: ns(100),
        send_buffer_bytes: 65_536,
        receive_buffer_bytes: 65_536,
        retry_timeout: ns(1_000_000),
        connect: Picoseconds::ZERO,
    }
}

/// 80 ps per byte.
pub fn network() -> NetworkParameters {
    NetworkParameters {
        bits_per_second: 100_000_000_000,
        mtu_bytes: 4096,
        header_bytes: 26,
        request_bytes: 16,
        acknowledgement_bytes: 4,
        latency: ns(300),
    }
}

pub fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(3, 16), 256);
    settings.completer.read_latency = ns(400);
    settings.completer.write_latency = ns(100);
    settings.port.receive_latency = ns(100);
    settings.port.transmit_latency = ns(100);
    settings.link.flight = ns(1);
    settings.memory_bytes = 1 << 30;
    settings
}

pub type Stand = Hosts<Nic>;

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub end: usize,
    pub number: PairNumber,
    layout: QueueLayout,
    memory: u64,
    pub posted: u32,
    seen: u32,
}

#[derive(Clone, Debug)]
pub struct Registered {
    pub end: usize,
    pub key: u32,
    pub address: u64,
    pub runs: Vec<(u64, u64)>,
}

impl Hosts<Nic> {
    pub fn new(parameters: NicParameters) -> Self {
        Self::of(&[settings(), settings()], [parameters; 2], network())
    }

    pub fn of(
        settings: &[Settings; 2],
        parameters: [NicParameters; 2],
        network: NetworkParameters,
    ) -> Self {
        let kind = BarKind::Memory32 { prefetchable: false };
        let bars = [Some(BarRequest { kind, size_bytes: BAR_BYTES }), None, None, None, None, None];
        let mut stand = Self::build(settings, QUEUES, bars, |end| Nic::new(parameters[end]));
        let ends = [stand.ends[0].node, stand.ends[1].node];
        assert!(Nic::join(&mut stand.fabric, ends, network));
        stand
    }

    /// Two ideal hosts, connected, with this many bytes registered at each.
    pub fn joined(bytes: u64, access: [Access; 2]) -> (Self, [Pair; 2], [Registered; 2]) {
        let mut stand = Self::new(nic());
        let pairs = stand.connect(4);
        let memory = [0, 1].map(|end| stand.register(end, DATA, bytes, access[end]));
        (stand, pairs, memory)
    }

    /// Registers one run of memory, with its bus address as network address.
    pub fn register(&mut self, end: usize, address: u64, bytes: u64, access: Access) -> Registered {
        self.register_runs(end, vec![(address, bytes)], access)
    }

    pub fn register_runs(
        &mut self,
        end: usize,
        runs: Vec<(u64, u64)>,
        access: Access,
    ) -> Registered {
        let address = runs[0].0;
        let parts = Runs::new(runs.iter().map(|(address, bytes)| (BusAddress(*address), *bytes)));
        let key = self.device(end).register(address, access, parts);
        Registered { end, key, address, runs }
    }

    /// Returns the bytes of registered memory.
    pub fn bytes(&mut self, memory: &Registered) -> Vec<u8> {
        let runs = memory.runs.clone();
        let all = runs.iter().map(|(at, bytes)| self.peek(memory.end, *at, *bytes as usize));
        all.collect::<Vec<_>>().concat()
    }

    pub fn fill(&mut self, memory: &Registered, bytes: &[u8]) {
        let mut rest = bytes;
        for (at, length) in memory.runs.clone() {
            let (piece, after) = rest.split_at(length as usize);
            self.poke(memory.end, at, piece);
            rest = after;
        }
    }

    /// Connects two queue pairs with `messages` slots at each end.
    pub fn connect(&mut self, messages: u32) -> [Pair; 2] {
        let layout = QueueLayout::new(64, messages);
        let pairs = [0, 1].map(|end: usize| {
            let memory = self.share(end, layout.bytes());
            let runs = Runs::new([(BusAddress(memory), layout.bytes())]);
            let number = self.device(end).create_pair(layout, runs).unwrap();
            Pair { end, number, layout, memory, posted: 0, seen: 0 }
        });
        let ends = pairs.map(|pair| (self.ends[pair.end].node, pair.number));
        Nic::connect(&mut self.fabric, ends).unwrap();
        pairs
    }

    /// Writes a work request into the ring and rings the doorbell.
    pub fn post(&mut self, pair: &mut Pair, work: WorkRequest) {
        self.put(pair, work);
        self.ring(pair);
    }

    /// Writes a work request into the ring.
    pub fn put(&mut self, pair: &mut Pair, work: WorkRequest) {
        self.put_with(pair, work, &[]);
    }

    /// Writes a work request with the message behind it into the ring.
    pub fn put_with(&mut self, pair: &mut Pair, work: WorkRequest, message: &[u8]) {
        for bytes in work.with_message(message) {
            let at = pair.memory + pair.layout.request_offset(pair.posted);
            self.poke(pair.end, at, &bytes);
            pair.posted = pair.posted.wrapping_add(1);
        }
    }

    /// Writes one byte of the next work request.
    pub fn scribble(&mut self, pair: &mut Pair, at: u8, byte: u8) {
        let place = pair.memory + pair.layout.request_offset(pair.posted);
        self.poke(pair.end, place + u64::from(at % 64), &[byte]);
        pair.posted = pair.posted.wrapping_add(1);
    }

    pub fn ring(&mut self, pair: &Pair) {
        self.doorbell(pair, 0, pair.posted);
    }

    pub fn doorbell(&mut self, pair: &Pair, offset: u64, word: u32) {
        let address = BusAddress(MMIO_HOLE.start + pair.number.doorbells() + offset);
        let root = self.ends[pair.end].root;
        self.fabric.host_store(root, 0, address, &word.to_le_bytes(), 4, 1).unwrap();
    }

    /// Returns the entries since the last call.
    pub fn entries(&mut self, pair: &mut Pair) -> Vec<Entry> {
        let mut entries = Vec::new();
        loop {
            let at = pair.memory + pair.layout.entry_offset(pair.seen);
            let bytes = self.peek(pair.end, at, 64);
            if bytes[..4] != pair.layout.entry_turn(pair.seen).to_le_bytes() {
                return entries;
            }
            pair.seen += 1;
            entries.push(Entry::from_bytes(bytes.first_chunk().unwrap()).unwrap());
        }
    }

    /// Returns a received message.
    pub fn message(&mut self, pair: &Pair, number: u32, bytes: u32) -> Vec<u8> {
        let at = pair.memory + pair.layout.message_offset(number);
        self.peek(pair.end, at, bytes as usize)
    }

    /// Runs until nothing is left to do and the last writes can be seen.
    pub fn run(&mut self) {
        self.run_and_see(20_000);
    }

    pub fn close(&mut self, pair: &Pair) {
        self.command(pair.end, |nic, port| nic.close(pair.number, port));
    }

    /// Runs, across time-outs, until there are entries.
    pub fn run_to_entries(&mut self, pair: &mut Pair) -> (Picoseconds, Vec<Entry>) {
        let at = pair.memory + pair.layout.entry_offset(pair.seen);
        loop {
            let entries = self.entries(pair);
            if !entries.is_empty() {
                return (self.fabric.now(), entries);
            }
            self.wait_change(pair.end, at);
        }
    }

    /// Asserts that nothing is left over and no error was reported.
    pub fn assert_quiet(&mut self) {
        self.run();
        assert_eq!(self.fabric.errors(), &[]);
        self.assert_at_rest();
        for end in 0..2 {
            assert_eq!(self.device(end).tags_in_use(), 0);
        }
    }
}

/// Creates a work request between two memories, at an offset in each.
pub fn work(
    operation: Operation,
    id: u32,
    near: (&Registered, u64),
    far: (&Registered, u64),
    bytes: u64,
) -> WorkRequest {
    WorkRequest {
        operation,
        id,
        near_address: near.0.address + near.1,
        near_key: near.0.key,
        far_address: far.0.address + far.1,
        far_key: far.0.key,
        bytes,
    }
}

pub fn message(id: u32, near: (&Registered, u64), bytes: u64) -> WorkRequest {
    WorkRequest { far_address: 0, far_key: 0, ..work(Operation::Send, id, near, near, bytes) }
}

/// Creates a work request for a message of so many bytes within it.
pub fn inline(id: u32, bytes: u64) -> WorkRequest {
    WorkRequest {
        operation: Operation::SendInline,
        id,
        near_address: 0,
        near_key: 0,
        far_address: 0,
        far_key: 0,
        bytes,
    }
}

pub fn done(id: u32) -> Entry {
    let status = crosslane_device::nic::layout::Status::Done;
    Entry { kind: EntryKind::Request { id }, status }
}
