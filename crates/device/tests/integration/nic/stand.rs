// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two hosts, each with a NIC, joined by a network link, with programs that use plain accesses.

use crosslane_device::nic::layout::{Entry, EntryKind, Operation, QueueLayout, WorkRequest};
use crosslane_device::nic::{Access, NetworkParameters, Nic, NicParameters, PairNumber, Runs};
use crosslane_fabric::parameters::{LinkParameters, RootComplexParameters};
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity, registers};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};

use crate::support::fabric_support::{Settings, ns, rate};

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
    settings.completer.read_latency.base = ns(400);
    settings.completer.write_latency = ns(100);
    settings.port.receive_latency = ns(100);
    settings.port.transmit_latency = ns(100);
    settings.link.flight = ns(1);
    settings.memory_bytes = 1 << 30;
    settings
}

pub struct End {
    pub host: HostId,
    pub root: NodeId,
    pub nic: NodeId,
    bar: u64,
    next_queue: u64,
}

pub struct Stand {
    pub fabric: Fabric,
    pub ends: [End; 2],
}

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

impl Stand {
    pub fn new(parameters: NicParameters) -> Self {
        Self::of(&[settings(), settings()], [parameters; 2], network())
    }

    pub fn of(
        settings: &[Settings; 2],
        parameters: [NicParameters; 2],
        network: NetworkParameters,
    ) -> Self {
        let mut builder = FabricBuilder::new(settings[0].seed);
        let id = Identity::default();
        let mut parts = Vec::new();
        for (at, settings) in settings.iter().enumerate() {
            let root_complex = RootComplexParameters {
                memory_bytes: settings.memory_bytes,
                completer: settings.completer,
                peer_to_peer: settings.peer_to_peer,
                iommu: None,
                cpu: settings.cpu,
            };
            let host = HostId(at as u16);
            let root = builder.root_complex(&format!("host{at}"), host, root_complex);
            let top = builder.root_port(root, &format!("rp{at}"), id, settings.port.clone());
            let kind = BarKind::Memory32 { prefetchable: false };
            let bar = Some(BarRequest { kind, size_bytes: BAR_BYTES });
            let bars = [bar, None, None, None, None, None];
            let device = Box::new(Nic::new(parameters[at]));
            let name = format!("nic{at}");
            let port = settings.port.clone();
            let (nic, lower) = builder.endpoint_with_device(&name, id, bars, None, port, device);
            let link = LinkParameters { rate: settings.rate, ..settings.link };
            builder.link(&name, top, lower, link);
            parts.push((host, root, nic, top, lower));
        }
        let mut fabric = builder.build().unwrap();
        let bar = MMIO_HOLE.start;
        let ends = [0, 1].map(|at: usize| {
            let (host, root, nic, top, lower) = parts[at];
            for port in [top, lower] {
                let id = fabric.routing_id(port);
                let config = &fabric.port(port).config;
                let express = config.find_capability(registers::CAPABILITY_PCI_EXPRESS).unwrap();
                let control = express + registers::DEVICE_CONTROL;
                let mps = settings[at].max_payload.trailing_zeros() - 7;
                let mrrs = settings[at].max_read_request.trailing_zeros() - 7;
                let bits = mps << 5 | mrrs << 12 | 1 << 8 | 1 << 4;
                fabric.config_write(host, id, control, bits, 0b0011);
                fabric.config_write(host, id, registers::COMMAND, 0b110, 0b0011);
                if port == top {
                    let window = (bar >> 16) as u32 & 0xfff0 | (bar as u32 & 0xfff0_0000);
                    fabric.config_write(host, id, registers::PRIMARY_BUS, 0x01_01_00, 0xf);
                    fabric.config_write(host, id, registers::MEMORY_BASE_LIMIT, window, 0xf);
                } else {
                    fabric.config_write(host, id, registers::BAR0, bar as u32, 0xf);
                }
            }
            End { host, root, nic, bar, next_queue: QUEUES }
        });
        let nodes = [ends[0].nic, ends[1].nic];
        assert!(Nic::join(&mut fabric, nodes, network));
        Self { fabric, ends }
    }

    pub fn nic(&mut self, end: usize) -> &mut Nic {
        self.fabric.device_as(self.ends[end].nic).unwrap()
    }

    pub fn peek(&mut self, end: usize, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        assert!(self.fabric.peek(self.ends[end].host, BusAddress(address), &mut out));
        out
    }

    pub fn poke(&mut self, end: usize, address: u64, bytes: &[u8]) {
        assert!(self.fabric.poke(self.ends[end].host, BusAddress(address), bytes));
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
        let key = self.nic(end).register(address, access, parts);
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
            let memory = self.ends[end].next_queue;
            self.ends[end].next_queue += layout.bytes();
            self.poke(end, memory, &vec![0; layout.bytes() as usize]);
            let runs = Runs::new([(BusAddress(memory), layout.bytes())]);
            let number = self.nic(end).create_pair(layout, runs).unwrap();
            Pair { end, number, layout, memory, posted: 0, seen: 0 }
        });
        let ends = pairs.map(|pair| (self.ends[pair.end].nic, pair.number));
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
        let at = pair.memory + pair.layout.request_offset(pair.posted);
        self.poke(pair.end, at, &work.to_bytes());
        pair.posted = pair.posted.wrapping_add(1);
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
        let end = &self.ends[pair.end];
        let address = BusAddress(end.bar + pair.number.doorbells() + offset);
        let root = end.root;
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
        assert_eq!(self.fabric.run(None), RunEnd::Quiet);
        let seen = self.fabric.now() + ns(20_000);
        self.fabric.host_timer(seen, 8);
        while self.fabric.now() < seen {
            assert!(self.fabric.run_until_host_event());
            self.fabric.take_host_events(&mut Vec::new());
        }
    }

    pub fn run_for(&mut self, time: Picoseconds) {
        let limit = self.fabric.now() + time;
        self.fabric.run(Some(limit));
    }

    /// Runs, across time-outs, until there are entries.
    pub fn run_to_entries(&mut self, pair: &mut Pair) -> (Picoseconds, Vec<Entry>) {
        let at = pair.memory + pair.layout.entry_offset(pair.seen);
        let root = self.ends[pair.end].root;
        loop {
            let entries = self.entries(pair);
            if !entries.is_empty() {
                return (self.fabric.now(), entries);
            }
            self.fabric.host_watch(root, at..at + 4, 9);
            assert!(self.fabric.run_until_host_event(), "the fabric has run dry");
            self.fabric.take_host_events(&mut Vec::new());
        }
    }

    /// Asserts that nothing is left over and no error was reported.
    pub fn assert_quiet(&mut self) {
        self.run();
        assert_eq!(self.fabric.errors(), &[]);
        assert_eq!(self.fabric.check_quiet(), Vec::<String>::new());
        for end in 0..2 {
            assert_eq!(self.nic(end).tags_in_use(), 0);
            assert_eq!(Device::unfinished(self.nic(end)), Vec::<String>::new());
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

pub fn done(id: u32) -> Entry {
    let status = crosslane_device::nic::layout::Status::Done;
    Entry { kind: EntryKind::Request { id }, status }
}

/// Returns pseudo-random bytes, so that misplaced data are noticed.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = crosslane_random::Random::with_seed(seed);
    (0..count).map(|_| random.u8(..)).collect()
}
