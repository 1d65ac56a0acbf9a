// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Engines on a fabric, and a host that drives them by plain register accesses.

#[path = "../../../../fabric/tests/integration/support/mod.rs"]
pub mod fabric_support;
pub mod hosts;
pub mod script;

pub use crosslane_device::EngineParameters;
use crosslane_device::{Engine, PUSH_BYTES, UNLIMITED_COMPLETIONS};
use crosslane_fabric::parameters::LinkParameters;
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Identity, PortType, registers};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds};
use crosslane_regs::engine::{
    self, ChannelError, ChannelState, StreamSource, channel, lane, user as user_regs,
};
use crosslane_regs::{ring_descriptor, table_descriptor};
pub use fabric_support::{Settings, ns, rate};
use fabric_support::{enumerate_host, root_parameters};

pub const HOST: HostId = HostId(0);
pub const BAR1_BYTES: u64 = 1 << 20;
/// Layout of the tests' host memory.
pub const RING: u64 = 0x10_0000;
pub const STATUS: u64 = 0x20_0000;
pub const DATA: u64 = 0x100_0000;
pub const STEP: u32 = 0x9e37_79b1;

/// Flags of a descriptor.
pub const INTERRUPT: u32 = ring_descriptor::control::INTERRUPT.mask();
pub const STATUS_WRITE: u32 = ring_descriptor::control::STATUS.mask();
pub const AWAIT_CREDIT: u32 = ring_descriptor::control::AWAIT_CREDIT.mask();

/// Parameters of this project's engine, with 8 bytes per 4 ns.
pub fn own() -> EngineParameters {
    EngineParameters {
        clock: ns(4),
        datapath_bytes: 8,
        header_on_datapath: true,
        idle_clocks_per_tlp: 0,
        descriptor_gap: Picoseconds::ZERO,
        tags: 64,
        max_write_bytes: 256,
        max_read_bytes: 1024,
        reading_descriptors: 64,
        completion_timeout: ns(50_000),
        register_latency: ns(20),
        request_latency_clocks: 0,
        write_latency_clocks: 0,
        fetch_latency_clocks: 0,
        stream_latency_clocks: 0,
        h2c_channels: 1,
        c2h_channels: 1,
        peer_channels: 1,
        lanes: 8,
        lane_fifo_bytes: 16384,
        staging_bytes: 65536,
        table_descriptors: 1024,
        fetch_batch: 16,
        completion_header_credits: UNLIMITED_COMPLETIONS,
        completion_data_credits: UNLIMITED_COMPLETIONS,
        packets: false,
        push: false,
        card_memory: None,
    }
}

pub fn settings() -> Settings {
    let mut settings = Settings::ideal(rate(2, 4), 256);
    settings.completer.read_latency = ns(400);
    settings.switch.latency = ns(100);
    settings.link.flight = ns(1);
    settings
}

/// Engines and their host.
pub struct Bench {
    pub fabric: Fabric,
    pub root: NodeId,
    pub nodes: Vec<NodeId>,
    pub bars: Vec<[u64; 2]>,
    pub interrupts: Vec<u32>,
}

/// Creates one engine on a root port, or several behind a switch.
pub fn bench(settings: &Settings, engines: &[EngineParameters]) -> Bench {
    let devices = engines.iter().map(|p| Box::new(Engine::new(*p)) as Box<dyn Device>);
    bench_with(settings, devices.collect(), engines.iter().any(|p| p.push))
}

pub fn bench_of(settings: &Settings, devices: Vec<Box<dyn Device>>) -> Bench {
    bench_with(settings, devices, false)
}

fn bench_with(settings: &Settings, devices: Vec<Box<dyn Device>>, has_push: bool) -> Bench {
    let mut builder = FabricBuilder::new(settings.seed);
    let (id, port) = (Identity::default(), settings.port.clone());
    let root = builder.root_complex("host", HOST, root_parameters(settings));
    let top = builder.root_port(root, "rp0", id, port.clone());
    let mut uppers = vec![top];
    if devices.len() > 1 {
        let switch = builder.switch("switch", settings.switch);
        let up = builder.switch_port(switch, "up", PortType::UpstreamPort, id, port.clone());
        let link = LinkParameters { rate: settings.uplink, ..settings.link };
        builder.link("uplink", top, up, link);
        uppers = (0..devices.len())
            .map(|at| {
                let kind = PortType::DownstreamPort;
                builder.switch_port(switch, &format!("down{at}"), kind, id, port.clone())
            })
            .collect();
    }
    let bar = |size_bytes| {
        Some(BarRequest { kind: BarKind::Memory32 { prefetchable: false }, size_bytes })
    };
    let kind = BarKind::Memory32 { prefetchable: true };
    let push = has_push.then_some(BarRequest { kind, size_bytes: PUSH_BYTES });
    let bars = [bar(u64::from(engine::BYTES)), bar(BAR1_BYTES), None, None, push, None];
    let mut nodes = Vec::new();
    for (at, (device, upper)) in devices.into_iter().zip(&uppers).enumerate() {
        let (name, msix) = (format!("ep{at}"), Some(Engine::msix_request()));
        let (node, lower) =
            builder.endpoint_with_device(&name, id, bars, msix, port.clone(), device);
        let link = LinkParameters { rate: settings.rate, ..settings.link };
        builder.link(&name, *upper, lower, link);
        nodes.push(node);
    }
    let mut fabric = builder.build().unwrap();
    enumerate_host(&mut fabric, settings, root);
    let bars = nodes.iter().map(|node| {
        let port = fabric.node(*node).ports[0];
        let config = &fabric.port(port).config;
        let bars = [0, 1].map(|number| config.bar(number).unwrap().base.0);
        let msix = config.find_capability(registers::CAPABILITY_MSIX).unwrap();
        let id = fabric.routing_id(port);
        fabric.config_write(HOST, id, msix, 1 << 31, 0xf);
        bars
    });
    let bars = bars.collect();
    Bench { fabric, root, nodes, bars, interrupts: Vec::new() }
}

/// Register file of an engine: number of the engine, offset of the registers.
#[derive(Clone, Copy, Debug)]
pub struct At(pub usize, pub u32);

pub fn h2c(engine: usize) -> At {
    At(engine, engine::H2C.at(0))
}

pub fn c2h(engine: usize) -> At {
    At(engine, engine::C2H.at(0))
}

pub fn peer(engine: usize) -> At {
    At(engine, engine::PEER.at(0))
}

pub fn lane_of(engine: usize, number: u32) -> At {
    At(engine, engine::LANES.at(number))
}

pub fn user(engine: usize) -> At {
    At(engine, engine::USER)
}

pub fn global(engine: usize) -> At {
    At(engine, engine::GLOBAL)
}

/// Returns a channel's control register, for a source of descriptors.
pub fn control(source: engine::DescriptorSource) -> u32 {
    use channel::control::*;
    RUN.put(1) | SOURCE.put(source.bits()) | INTERRUPT_ENABLE.put(1) | STATUS_ENABLE.put(1)
}

impl Bench {
    /// Takes the events that have come: keeps the data of interrupts, returns the others.
    fn collect(&mut self) -> Vec<HostEvent> {
        let mut events = Vec::new();
        self.fabric.take_host_events(&mut events);
        events.retain(|event| match event {
            HostEvent::Interrupt { data, .. } => {
                self.interrupts.push(*data);
                false
            }
            _ => true,
        });
        events
    }

    /// Stores a word and waits until the core may continue.
    pub fn write(&mut self, At(engine, base): At, offset: u32, value: u32) {
        let address = self.bars[engine][0] + u64::from(base + offset);
        self.store(address, &value.to_le_bytes());
    }

    pub fn store(&mut self, address: u64, bytes: &[u8]) {
        self.fabric.host_store(self.root, 0, BusAddress(address), bytes, 4, 1).unwrap();
        self.wait(|event| (*event == HostEvent::Stored { token: 1 }).then_some(()));
    }

    /// Waits until the core may continue behind a store with this token.
    pub fn wait_stored(&mut self, token: u64) {
        self.wait(|event| (*event == HostEvent::Stored { token }).then_some(()));
    }

    pub fn read(&mut self, At(engine, base): At, offset: u32) -> u32 {
        let address = self.bars[engine][0] + u64::from(base + offset);
        self.load(address).unwrap()
    }

    pub fn load(&mut self, address: u64) -> Result<u32, LoadError> {
        self.fabric.host_load(self.root, 0, BusAddress(address), 4, 2).unwrap();
        self.wait(|event| match event {
            HostEvent::Loaded { token: 2, result } => Some(result.clone().map(|v| v as u32)),
            _ => None,
        })
    }

    /// Loads a 64-bit value, low word first.
    pub fn read_wide(&mut self, at: At, offset: u32) -> u64 {
        let low = u64::from(self.read(at, offset));
        low | u64::from(self.read(at, offset + 4)) << 32
    }

    fn wait<T>(&mut self, mut is_it: impl FnMut(&HostEvent) -> Option<T>) -> T {
        loop {
            assert!(self.fabric.run_until_host_event(), "the fabric has run dry");
            if let Some(found) = self.collect().iter().find_map(&mut is_it) {
                return found;
            }
        }
    }

    /// Runs until nothing is left to do, or until `limit` has passed.
    pub fn run(&mut self, limit: Option<Picoseconds>) -> RunEnd {
        let limit = limit.map(|limit| self.fabric.now() + limit);
        let end = self.fabric.run(limit);
        self.collect();
        end
    }

    pub fn peek(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        assert!(self.fabric.peek(HOST, BusAddress(address), &mut out));
        out
    }

    pub fn peek_words(&mut self, address: u64, words: usize) -> Vec<u32> {
        let bytes = self.peek(address, words * 4);
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    pub fn poke(&mut self, address: u64, bytes: &[u8]) {
        assert!(self.fabric.poke(HOST, BusAddress(address), bytes));
    }

    /// Stores the pattern of a seed into host memory.
    pub fn poke_pattern(&mut self, address: u64, seed: u32, first: u64, bytes: u64) {
        self.poke(address, &pattern(seed, first, bytes));
    }

    /// Sets up a ring and a status block for a channel and starts it.
    pub fn start_ring(&mut self, at: At, entries: u32) {
        let place = ring_of(at);
        self.write(at, channel::RING_LOW, place as u32);
        self.write(at, channel::RING_ENTRIES, entries);
        self.start(at, engine::DescriptorSource::Ring);
    }

    /// Starts a channel with a ring and posts descriptors.
    pub fn post_ring(&mut self, at: At, entries: u32, posted: u32) {
        self.start_ring(at, entries);
        self.write(at, channel::DOORBELL, posted);
    }

    /// Starts a channel with its table and posts descriptors.
    pub fn post_table(&mut self, at: At, posted: u32) {
        self.start(at, engine::DescriptorSource::Table);
        self.write(at, channel::DOORBELL, posted);
    }

    pub fn restart(&mut self, at: At) {
        self.write(at, channel::CONTROL, channel::control::RESTART.mask());
    }

    pub fn start(&mut self, at: At, source: engine::DescriptorSource) {
        self.write(at, channel::STATUS_LOW, status_of(at) as u32);
        self.write(at, channel::CONTROL, control(source));
    }

    /// Writes an entry of a ring outside simulated time.
    pub fn put_ring(&mut self, at: At, number: u32, address: u64, bytes: u32, bits: u32) {
        let mut entry = [0; ring_descriptor::BYTES as usize];
        for (offset, word) in [
            (ring_descriptor::ADDRESS_LOW, address as u32),
            (ring_descriptor::ADDRESS_HIGH, (address >> 32) as u32),
            (ring_descriptor::LENGTH, bytes),
            (ring_descriptor::CONTROL, bits),
        ] {
            entry[offset as usize..offset as usize + 4].copy_from_slice(&word.to_le_bytes());
        }
        let place = ring_of(at) + u64::from(number) * u64::from(ring_descriptor::BYTES);
        self.poke(place, &entry);
    }

    /// Writes the first `count` entries of a ring: equal lengths, a step apart from an address on.
    pub fn put_rings(&mut self, at: At, count: u32, place: (u64, u64), bytes: u32, bits: u32) {
        for number in 0..count {
            self.put_ring(at, number, place.0 + u64::from(number) * place.1, bytes, bits);
        }
    }

    /// Stores an entry of a table.
    pub fn put_table(&mut self, at: At, number: u32, address: u64, bytes: u32, bits: u32) {
        let table = if at.1 == engine::H2C.at(0) { engine::H2C_TABLE } else { engine::C2H_TABLE };
        let entry = At(at.0, table.base + number * table_descriptor::BYTES);
        self.write(entry, table_descriptor::ADDRESS_LOW, address as u32);
        self.write(entry, table_descriptor::ADDRESS_HIGH, (address >> 32) as u32);
        self.write(entry, table_descriptor::LENGTH, bytes);
        self.write(entry, table_descriptor::CONTROL, bits);
    }

    /// Returns the words of a channel's status block.
    pub fn status_block(&mut self, at: At) -> Vec<u32> {
        self.peek_words(status_of(at), 8)
    }

    /// Returns state and error of a channel.
    pub fn state(&mut self, at: At) -> (ChannelState, ChannelError) {
        let word = self.read(at, channel::STATUS);
        (
            ChannelState::from_bits(channel::status::STATE.get(word)).unwrap(),
            ChannelError::from_bits(channel::status::ERROR.get(word)).unwrap(),
        )
    }

    /// Completed descriptors, and where in the next one a stopped channel is: bytes and address.
    pub fn progress(&mut self, at: At) -> (u32, u32, u64) {
        let completed = self.read(at, channel::COMPLETED);
        let stopped_at = self.read(at, channel::STOPPED_AT);
        (completed, stopped_at, self.read_wide(at, channel::ERROR_LOW))
    }

    /// Asserts that a channel has stopped with this error.
    #[track_caller]
    pub fn assert_stopped(&mut self, at: At, error: ChannelError) {
        assert_eq!(self.state(at), (ChannelState::Stopped, error));
    }

    /// Runs until a channel has stopped.
    pub fn wait_stopped(&mut self, at: At) {
        while self.state(at).0 != ChannelState::Stopped {}
    }

    /// Runs until a channel has completed this many descriptors.
    pub fn wait_completed(&mut self, at: At, count: u32) {
        while self.read(at, channel::COMPLETED) < count {}
    }

    /// Clocks from the start of a channel's first TLP to the end of its last.
    pub fn clocks(&mut self, at: At) -> u64 {
        self.read_wide(at, channel::LAST_LOW) - self.read_wide(at, channel::FIRST_LOW)
    }

    /// Bytes per second of a channel that has moved this many.
    pub fn rate(&mut self, at: At, bytes: u32) -> f64 {
        f64::from(bytes) / (self.clocks(at) as f64 * 4e-9)
    }

    /// Connects C2H and peer channels of an engine to sources, and one receive queue to them.
    pub fn route(&mut self, engine: usize, c2h: StreamSource, peer: StreamSource, lane: u32) {
        use user_regs::interconnect::{C2H_SOURCE, LANE, PEER_SOURCE};
        let word = C2H_SOURCE.put(c2h.bits()) | PEER_SOURCE.put(peer.bits()) | LANE.put(lane);
        self.write(user(engine), user_regs::INTERCONNECT, word);
    }

    /// Starts the check of what H2C reads, from the pattern's first word on.
    pub fn check_h2c(&mut self, seed: u32) {
        use user_regs::h2c_check::{ENABLE, RESTART};
        self.write(user(0), user_regs::H2C_CHECK_SEED, seed);
        self.write(user(0), user_regs::H2C_CHECK, ENABLE.mask() | RESTART.mask());
    }

    pub fn checker_errors(&mut self) -> u32 {
        self.read(user(0), user_regs::H2C_CHECK_ERRORS)
    }

    /// Sets where and how much the user circuit's commands of an engine write.
    pub fn set_command(&mut self, engine: usize, target: u64, bytes: u32) {
        self.write(user(engine), user_regs::COMMAND_LOW, target as u32);
        self.write(user(engine), user_regs::COMMAND_BYTES, bytes);
    }

    /// Begins a command of the user circuit.
    pub fn command(&mut self, engine: usize) {
        self.write(user(engine), user_regs::COMMAND, user_regs::command::START.mask());
    }

    /// Sets the command register of an engine's function.
    pub fn set_function(&mut self, engine: usize, bits: u32) {
        let id = self.fabric.routing_id(self.port_of(engine));
        self.fabric.config_write(HOST, id, registers::COMMAND, bits, 0b0011);
    }

    /// Enables a receive queue with additional control bits.
    pub fn enable_lane(&mut self, at: At, bits: u32) {
        let all = bits | lane::control::ENABLE.mask();
        self.write(at, lane::CONTROL, all | lane::control::RESTART.mask());
    }

    /// Asserts that nothing is left to do and no error was reported.
    pub fn assert_quiet(&mut self) {
        assert_eq!(self.run(None), RunEnd::Quiet);
        assert_eq!(self.fabric.errors(), &[]);
        assert_eq!(self.fabric.check_quiet(), Vec::<String>::new());
    }

    /// Returns the direction from or to an engine.
    pub fn direction(&self, engine: usize, heading: LinkDirection) -> DirectionId {
        let port = self.fabric.node(self.nodes[engine]).ports[0];
        DirectionId { link: self.fabric.port(port).link.unwrap(), heading }
    }

    pub fn port_of(&self, engine: usize) -> PortId {
        self.fabric.node(self.nodes[engine]).ports[0]
    }
}

/// Returns the ring of a channel; each channel of each engine has one.
pub fn ring_of(At(engine, base): At) -> u64 {
    RING + engine as u64 * 0x1000_0000 + u64::from(base - engine::H2C.at(0)) * 0x400
}

pub fn status_of(At(engine, base): At) -> u64 {
    STATUS + 0x20_0000 + engine as u64 * 0x1000 + u64::from(base - engine::H2C.at(0))
}

/// Returns bytes of the generator's pattern, computed word by word.
pub fn pattern(seed: u32, first: u64, bytes: u64) -> Vec<u8> {
    let words =
        (first..first + bytes / 4).map(|n| seed.wrapping_add((n as u32).wrapping_mul(STEP)));
    words.flat_map(u32::to_le_bytes).collect()
}

/// Returns bytes of the generator's pattern from any byte.
pub fn pattern_from(seed: u32, byte: u64, bytes: u64) -> Vec<u8> {
    let words = pattern(seed, byte / 4, (bytes + 8) & !3);
    words[(byte % 4) as usize..][..bytes as usize].to_vec()
}

impl Bench {
    /// Unmasks a vector, whose message carries its number as data.
    pub fn unmask(&mut self, engine: usize, vector: u32) {
        let entry = self.bars[engine][0] + u64::from(engine::MSIX_TABLE.base + vector * 16);
        let address = INTERRUPT_ADDRESSES.start as u32;
        for (at, word) in [address, 0, vector, 0].into_iter().enumerate() {
            self.store(entry + at as u64 * 4, &word.to_le_bytes());
        }
    }

    /// Runs until a watch with this token has seen a change.
    pub fn wait_change(&mut self, token: u64) {
        self.wait(|event| (*event == HostEvent::Changed { token }).then_some(()));
    }

    /// Runs until a time.
    pub fn wait_until(&mut self, time: Picoseconds) {
        self.fabric.host_timer(time, 3);
        self.wait(|event| (*event == HostEvent::Timer { token: 3 }).then_some(()));
    }

    /// Runs until an interrupt's handler begins.
    pub fn wait_interrupt(&mut self) {
        self.wait_interrupts(self.interrupts.len() + 1);
    }

    /// Runs until `count` interrupts have come since the start, or nothing is left to do.
    pub fn wait_interrupts(&mut self, count: usize) {
        while self.interrupts.len() < count {
            assert!(self.fabric.run_until_host_event(), "the fabric has run dry");
            self.collect();
        }
    }
}
