// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small fabrics for the tests: ideal parts with adjustable constants, and the minimal enumeration
//! that makes them work.
#![allow(dead_code)] // Each program of tests uses its own part of this.

pub mod log;

use crosslane_fabric::parameters::*;
use crosslane_fabric::*;
use crosslane_pcie::config::{BarKind, BarRequest, Capability, Identity, PortType, registers};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};

pub const GIB: u64 = 1 << 30;
pub const HOST: HostId = HostId(0);
/// Outside all memory and all BARs.
pub const NOWHERE: BusAddress = BusAddress(0xf000_0000);

pub fn ns(ns: u64) -> Picoseconds {
    Picoseconds::from_ns(ns)
}

pub fn rate(generation: u8, lanes: u8) -> LinkRate {
    LinkRate {
        generation: Generation::from_number(generation).unwrap(),
        width: Width::new(lanes).unwrap(),
    }
}

/// All constants that a test may change. The default is ideal: no latency, no limit.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    pub rate: LinkRate,
    /// Rate of the links from the root complex (and between switches).
    pub uplink: LinkRate,
    pub max_payload: u16,
    pub port: PortParameters,
    pub link: LinkParameters,
    pub switch: SwitchParameters,
    pub completer: CompleterParameters,
    pub memory_bytes: u64,
    pub requester: RequesterParameters,
    pub peer_to_peer: PeerToPeer,
    pub cache: Option<CacheParameters>,
    pub cuts_peers: bool,
    pub peer_reads: Option<PeerReadParameters>,
    pub iommu: Option<IommuParameters>,
    pub sockets: Option<SocketParameters>,
    pub cpu: CpuParameters,
    pub max_read_request: u32,
    pub bar_bytes: u64,
}

impl Settings {
    pub fn ideal(rate: LinkRate, max_payload: u16) -> Self {
        let completer = CompleterParameters {
            read_completion_boundary_bytes: 64,
            completion_bytes: u32::from(max_payload),
            completion_cut: CompletionCut::Longest,
            short_read_bytes: 0,
            short_completion_bytes: 0,
            completion_single_share: 0.0,
            read_slots: 4096,
            read_latency: Picoseconds::ZERO,
            read_jitter: Picoseconds::ZERO,
            read_tail: Picoseconds::ZERO,
            read_tail_probability: 0.0,
            write_latency: Picoseconds::ZERO,
            read_bytes_per_second: f64::INFINITY,
            write_bytes_per_second: f64::INFINITY,
            write_overhead: Picoseconds::ZERO,
            partial_line: Picoseconds::ZERO,
            line_bytes: 64,
        };
        let capability = Capability {
            max_payload_bytes: max_payload,
            max_rate: self::rate(6, 32),
            extended_tags: true,
            ten_bit_tags: true,
            acs: true,
        };
        Self {
            seed: 1,
            rate,
            uplink: rate,
            max_payload,
            port: PortParameters {
                capability,
                receive_credits: [Credits::INFINITE; 3],
                replay_buffer_bytes: u32::MAX,
                ack: Coalescing::EVERY_TLP,
                update_fc: Coalescing::EVERY_TLP,
                receive_latency: Picoseconds::ZERO,
                transmit_latency: Picoseconds::ZERO,
                receive_symbols: 0,
                transmit_symbols: 0,
            },
            link: LinkParameters {
                rate,
                flight: Picoseconds::ZERO,
                bit_error_rate: 0.0,
                retrain: ns(10_000),
                skp: false,
            },
            switch: SwitchParameters {
                latency: Picoseconds::ZERO,
                forwarding: Forwarding::CutThrough,
                crossbar: None,
            },
            completer,
            memory_bytes: GIB,
            requester: RequesterParameters {
                tags: 1024,
                max_write_bytes: 4096,
                max_read_bytes: 4096,
                datapath_bytes: 0,
                clock: Picoseconds::ZERO,
                idle_clocks_per_tlp: 0,
                tlp_gap: Picoseconds::ZERO,
                operation_gap: Picoseconds::ZERO,
                write_interval: Picoseconds::ZERO,
                read_interval: Picoseconds::ZERO,
                write_start: Picoseconds::ZERO,
                read_start: Picoseconds::ZERO,
                read_finish: Picoseconds::ZERO,
                copy_bytes_per_second: f64::INFINITY,
                read_bytes_per_second: f64::INFINITY,
                write_bytes_per_second: f64::INFINITY,
                completion_timeout: ns(10_000_000),
            },
            cuts_peers: false,
            peer_reads: None,
            peer_to_peer: PeerToPeer::Allowed {
                latency: Picoseconds::ZERO,
                bytes_per_second: f64::INFINITY,
            },
            cache: None,
            iommu: None,
            sockets: None,
            cpu: CpuParameters {
                cores: 2,
                uncached_store: ns(10),
                store_queue: 16,
                uncached_load: ns(20),
                loads_in_flight: 1,
                interrupt: ns(1000),
                interrupts_in_turn: false,
                system_call: ns(500),
                pin_page: ns(100),
                kernel_poll: None,
                monitor_wake: None,
                touch_page: ns(300),
                copy_bytes_per_second: 8e9,
                widest_store_bytes: 64,
                combining: None,
            },
            max_read_request: 512,
            bar_bytes: 16 << 20,
        }
    }
}

impl Settings {
    /// A realistic board with switches: latencies, SKP, links of Gen3 x8 and x16.
    pub fn board() -> Self {
        let mut settings = Self::ideal(rate(3, 8), 256);
        settings.uplink = rate(3, 16);
        settings.link.skp = true;
        settings.link.flight = ns(2);
        settings.switch.latency = ns(110);
        settings.port.transmit_latency = ns(100);
        settings.port.receive_latency = ns(100);
        settings.completer.read_latency = ns(400);
        settings.completer.write_latency = ns(50);
        settings.bar_bytes = 1 << 20;
        settings
    }
}

/// One BAR of 1 MiB below 4 GiB.
pub fn one_bar() -> [Option<BarRequest>; 6] {
    let bar = BarRequest { kind: BarKind::Memory32 { prefetchable: false }, size_bytes: 1 << 20 };
    [Some(bar), None, None, None, None, None]
}

/// A fabric and the names of its parts.
pub struct Stand {
    pub fabric: Fabric,
    pub root: NodeId,
    pub endpoints: Vec<NodeId>,
}

enum Below {
    Endpoint,
    Switch(Vec<Below>),
}

/// One endpoint on a root port.
pub fn direct(settings: &Settings) -> Stand {
    build(settings, &[Below::Endpoint])
}

/// A custom device on a root port.
pub fn direct_device(
    settings: &Settings,
    identity: Identity,
    bars: [Option<BarRequest>; 6],
    device: Box<dyn Device>,
) -> Stand {
    let mut builder = FabricBuilder::new(settings.seed);
    let parameters = root_parameters(settings);
    let root = builder.root_complex("host", HostId(0), parameters);
    let upper = builder.root_port(root, "rp0", identity, settings.port.clone());
    let port = settings.port.clone();
    let (node, lower) = builder.endpoint_with_device("ep0", identity, bars, None, port, device);
    builder.link("ep0", upper, lower, LinkParameters { rate: settings.rate, ..settings.link });
    let mut fabric = builder.build().unwrap();
    enumerate_host(&mut fabric, settings, root);
    Stand { fabric, root, endpoints: vec![node] }
}

pub fn root_parameters(settings: &Settings) -> RootComplexParameters {
    RootComplexParameters {
        memory_bytes: settings.memory_bytes,
        completer: settings.completer,
        peer_to_peer: settings.peer_to_peer,
        cache: settings.cache,
        cuts_peers: settings.cuts_peers,
        peer_reads: settings.peer_reads,
        iommu: settings.iommu,
        cpu: settings.cpu,
        sockets: settings.sockets,
    }
}

/// `count` endpoints behind one switch.
pub fn one_switch(settings: &Settings, count: usize) -> Stand {
    build(settings, &[Below::Switch((0..count).map(|_| Below::Endpoint).collect())])
}

/// Two boards, each a switch with `count` endpoints, behind one switch.
pub fn two_boards(settings: &Settings, count: usize) -> Stand {
    let board = || Below::Switch((0..count).map(|_| Below::Endpoint).collect());
    build(settings, &[Below::Switch(vec![board(), board()])])
}

/// `count` endpoints on separate root ports.
pub fn root_ports(settings: &Settings, count: usize) -> Stand {
    build(settings, &(0..count).map(|_| Below::Endpoint).collect::<Vec<_>>())
}

/// `hosts` hosts, each with `count` endpoints behind one switch.
pub fn many_hosts(settings: &Settings, hosts: u16, count: usize) -> Stand {
    let board = || Below::Switch((0..count).map(|_| Below::Endpoint).collect());
    build_hosts(settings, &(0..hosts).map(|_| vec![board()]).collect::<Vec<_>>())
}

/// A tree of 1 to 4 endpoints and up to two levels of switches, selected by number.
pub fn tree(settings: &Settings, shape: usize) -> Stand {
    let e = || Below::Endpoint;
    match shape % 5 {
        0 => build(settings, &[e()]),
        1 => build(settings, &[e(), Below::Switch(vec![e(), e()])]),
        2 => build(settings, &[Below::Switch(vec![e(), e(), e()])]),
        3 => build(settings, &[Below::Switch(vec![e(), Below::Switch(vec![e(), e(), e()])])]),
        _ => {
            let board = || Below::Switch(vec![e(), e()]);
            build(settings, &[Below::Switch(vec![board(), board()])])
        }
    }
}

fn build(settings: &Settings, below: &[Below]) -> Stand {
    build_hosts(settings, &[below])
}

fn build_hosts(settings: &Settings, hosts: &[impl AsRef<[Below]>]) -> Stand {
    let mut builder = FabricBuilder::new(settings.seed);
    let mut endpoints = Vec::new();
    let mut roots = Vec::new();
    for (number, below) in hosts.iter().enumerate() {
        let root = builder.root_complex("host", HostId(number as u16), root_parameters(settings));
        roots.push(root);
        for (at, child) in below.as_ref().iter().enumerate() {
            let (name, port) = (format!("rp{at}"), settings.port.clone());
            let port = builder.root_port(root, &name, Identity::default(), port);
            let sockets = settings.sockets.map_or(1, |sockets| sockets.count);
            builder.set_socket(port, at as u16 % sockets);
            add(&mut builder, settings, port, child, &mut endpoints);
        }
    }
    let mut fabric = builder.build().unwrap();
    for root in &roots {
        enumerate_host(&mut fabric, settings, *root);
    }
    Stand { fabric, root: roots[0], endpoints }
}

fn add(
    builder: &mut FabricBuilder,
    settings: &Settings,
    upper: PortId,
    below: &Below,
    endpoints: &mut Vec<NodeId>,
) {
    match below {
        Below::Endpoint => {
            let bar = BarRequest {
                kind: BarKind::Memory32 { prefetchable: false },
                size_bytes: settings.bar_bytes,
            };
            let name = format!("ep{}", endpoints.len());
            let parameters = EndpointParameters {
                identity: Identity::default(),
                bars: [Some(bar), None, None, None, None, None],
                completer: CompleterParameters {
                    read_completion_boundary_bytes: 128,
                    completion_bytes: settings.completer.completion_bytes.max(128),
                    ..settings.completer
                },
                requester: settings.requester,
            };
            let (node, port) = builder.endpoint(&name, parameters, settings.port.clone());
            let link = LinkParameters { rate: settings.rate, ..settings.link };
            builder.link(&name, upper, port, link);
            endpoints.push(node);
        }
        Below::Switch(children) => {
            let switch = builder.switch("switch", settings.switch);
            let port = |builder: &mut FabricBuilder, name: String, kind| {
                let (id, port) = (Identity::default(), settings.port.clone());
                builder.switch_port(switch, &name, kind, id, port)
            };
            let up = port(builder, format!("up{}", upper.0), PortType::UpstreamPort);
            let link = LinkParameters { rate: settings.uplink, ..settings.link };
            builder.link(&format!("uplink{}", upper.0), upper, up, link);
            for (at, child) in children.iter().enumerate() {
                let name = format!("down{}.{at}", upper.0);
                let down = port(builder, name, PortType::DownstreamPort);
                add(builder, settings, down, child, endpoints);
            }
        }
    }
}

/// Sets buses, bridge ranges, BARs, MPS and MRRS below a root complex, in the order of the ports.
pub fn enumerate_host(fabric: &mut Fabric, settings: &Settings, root: NodeId) {
    let (mut bus, mut address) = (0, MMIO_HOLE.start);
    for port in fabric.node(root).ports.clone() {
        enumerate(fabric, settings, port, 0, &mut bus, &mut address);
    }
}

fn enumerate(
    fabric: &mut Fabric,
    settings: &Settings,
    port: PortId,
    primary: u8,
    bus: &mut u8,
    address: &mut u64,
) {
    let id = fabric.routing_id(port);
    let host = fabric.node(fabric.port(port).node).host;
    let control = express(fabric, port) + registers::DEVICE_CONTROL;
    let mps = settings.max_payload.trailing_zeros() - 7;
    let mrrs = settings.max_read_request.trailing_zeros() - 7;
    let value = mps << 5 | mrrs << 12 | 1 << 8 | 1 << 4;
    fabric.config_write(host, id, control, value, 0b0011);
    fabric.config_write(host, id, registers::COMMAND, 0b110, 0b0011);
    if !fabric.port(port).config.port_type().is_bridge() {
        for number in 0..6_u8 {
            let Some(bar) = fabric.port(port).config.bar(number.into()) else { continue };
            let base = address.next_multiple_of(bar.size_bytes);
            let register = registers::BAR0 + 4 * u16::from(number);
            fabric.config_write(host, id, register, base as u32, 0xf);
            *address = base + bar.size_bytes;
        }
        return;
    }
    *bus += 1;
    let secondary = *bus;
    let buses = |last: u8| u32::from(last) << 16 | u32::from(secondary) << 8 | u32::from(primary);
    fabric.config_write(host, id, registers::PRIMARY_BUS, buses(0xff), 0xf);
    // Ranges of bridges are multiples of 1 MiB.
    *address = address.next_multiple_of(1 << 20);
    let first = *address;
    let children: Vec<PortId> = match fabric.port(port).config.port_type() {
        PortType::UpstreamPort => {
            let all = fabric.node(fabric.port(port).node).ports.clone();
            all.into_iter().filter(|other| *other != port).collect()
        }
        _ => fabric.port(port).link.map(|link| fabric.link(link).lower).into_iter().collect(),
    };
    for child in children {
        enumerate(fabric, settings, child, secondary, bus, address);
    }
    fabric.config_write(host, id, registers::PRIMARY_BUS, buses(*bus), 0xf);
    *address = address.next_multiple_of(1 << 20);
    let window = (first >> 16) as u32 & 0xfff0 | ((*address - 1) as u32 & 0xfff0_0000);
    fabric.config_write(host, id, registers::MEMORY_BASE_LIMIT, window, 0xf);
}

pub fn express(fabric: &Fabric, port: PortId) -> u16 {
    let config = &fabric.port(port).config;
    config.find_capability(registers::CAPABILITY_PCI_EXPRESS).unwrap()
}

/// Writes the Max_Payload_Size of one port, as `setpci` would.
pub fn set_max_payload(fabric: &mut Fabric, port: PortId, bytes: u32) {
    let offset = express(fabric, port) + registers::DEVICE_CONTROL;
    let id = fabric.routing_id(port);
    let old = fabric.config_read(HostId(0), id, offset) & 0xffff;
    let value = old & !(7 << 5) | (bytes.trailing_zeros() - 7) << 5;
    fabric.config_write(HostId(0), id, offset, value, 0b0011);
}

impl Stand {
    /// First address of an endpoint's BAR.
    pub fn bar(&self, endpoint: usize) -> BusAddress {
        let port = self.fabric.node(self.endpoints[endpoint]).ports[0];
        self.fabric.port(port).config.bar(0).unwrap().base
    }

    /// The port with this name.
    pub fn port(&self, name: &str) -> PortId {
        let at = self.fabric.ports().iter().position(|port| port.name == name);
        PortId(at.unwrap() as u32)
    }

    /// The link of the port with this name.
    pub fn link(&self, port: &str) -> LinkId {
        self.fabric.port(self.port(port)).link.unwrap()
    }

    /// Both directions of every link.
    pub fn directions(&self) -> Vec<DirectionId> {
        let links = (0..self.fabric.links().len() as u32).map(LinkId);
        let both = [LinkDirection::Down, LinkDirection::Up];
        links.flat_map(|link| both.map(|heading| DirectionId { link, heading })).collect()
    }

    /// The number of an endpoint's function.
    pub fn function(&self, endpoint: usize) -> RoutingId {
        self.fabric.routing_id(self.fabric.node(self.endpoints[endpoint]).ports[0])
    }

    /// Sets the command register of a port.
    pub fn set_command(&mut self, port: &str, bits: u32) {
        let id = self.fabric.routing_id(self.port(port));
        self.fabric.config_write(HOST, id, registers::COMMAND, bits, 0b0011);
    }

    /// Sets the Max_Payload_Size of a port.
    pub fn set_max_payload(&mut self, port: &str, bytes: u32) {
        let port = self.port(port);
        set_max_payload(&mut self.fabric, port, bytes);
    }

    /// Sets the ACS control bits of a port.
    pub fn set_acs(&mut self, port: &str, bits: u32) {
        let port = self.port(port);
        let config = &self.fabric.port(port).config;
        let acs = config.find_extended_capability(registers::EXTENDED_CAPABILITY_ACS).unwrap();
        let id = self.fabric.routing_id(port);
        self.fabric.config_write(HOST, id, acs + registers::ACS_CONTROL, bits, 0b1100);
    }

    /// Bytes at an address of the host.
    pub fn peek<const N: usize>(&mut self, address: BusAddress) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.fabric.peek(HOST, address, &mut bytes));
        bytes
    }

    /// A flow of one of the host's cores, for the test to adjust.
    pub fn core_flow(&self, core: u16, kind: FlowKind, target: BusAddress, bytes: u64) -> Flow {
        let source = FlowSource::Core { root_complex: self.root, core };
        Flow { source, ..self.flow(usize::from(core), kind, target, bytes) }
    }

    /// Writes and reads of host memory by every endpoint, and a flow to its neighbour, if any.
    pub fn everywhere(
        &self,
        operations: u64,
        [write, read]: [u64; 2],
        (kind, peer): (FlowKind, u64),
    ) -> Vec<Flow> {
        let count = self.endpoints.len();
        let mut flows = Vec::new();
        for from in 0..count {
            let base = (from as u64) << 22;
            flows.push(self.flow(from, FlowKind::Write, BusAddress(base), write));
            flows.push(self.flow(from, FlowKind::Read, BusAddress((1 << 26) + base), read));
            if count > 1 {
                flows.push(self.flow(from, kind, self.bar((from + 1) % count), peer));
            }
        }
        flows.into_iter().map(|flow| Flow { operations, ..flow }).collect()
    }

    /// Number of errors of a kind.
    pub fn count(&self, is_it: impl Fn(&ErrorKind) -> bool) -> usize {
        self.fabric.errors().iter().filter(|error| is_it(&error.kind)).count()
    }

    pub fn start(&mut self, flows: impl IntoIterator<Item = Flow>) -> Vec<FlowId> {
        flows.into_iter().map(|flow| self.fabric.start_flow(flow).unwrap()).collect()
    }

    pub fn reports(&mut self, ids: &[FlowId]) -> Vec<FlowReport> {
        ids.iter().map(|id| self.fabric.flow_report(*id)).collect()
    }

    /// Runs to any end; flows that wait for ever are abandoned, and then nothing is left over.
    pub fn run_to_any_end(&mut self, ids: &[FlowId]) {
        if let RunEnd::Stuck(_) = self.fabric.run(None) {
            ids.iter().for_each(|id| self.fabric.abandon_flow(*id));
            assert_eq!(self.fabric.run(None), RunEnd::Quiet);
        }
        assert_eq!(self.fabric.check_quiet(), Vec::<String>::new());
    }

    /// Runs to the next event of the host, and returns the last one that has come.
    pub fn next_event(&mut self) -> HostEvent {
        next_event(&mut self.fabric)
    }

    /// A flow from an endpoint, for the test to adjust.
    pub fn flow(&self, from: usize, kind: FlowKind, target: BusAddress, bytes: u64) -> Flow {
        Flow {
            name: format!("{from}"),
            source: FlowSource::Endpoint(self.endpoints[from]),
            kind,
            target,
            window_bytes: 1 << 20,
            operation_bytes: bytes,
            tlp_bytes: None,
            force: false,
            operations: 1000,
            outstanding: 16,
            region: Region::Uncached,
            relaxed_ordering: false,
            scattered: false,
            start: Picoseconds::ZERO,
        }
    }

    /// Runs these flows to their end; checks that everything is right and quiet.
    pub fn run(&mut self, flows: Vec<Flow>) -> Vec<FlowReport> {
        let ids = self.start(flows);
        let end = self.fabric.run(None);
        assert_eq!(self.fabric.errors(), &[], "{end:?}");
        assert_eq!(end, RunEnd::Quiet);
        let reports = self.reports(&ids);
        for report in &reports {
            assert_eq!((report.failed, &report.errors), (0, &Vec::new()));
        }
        assert_eq!(self.fabric.check_quiet(), Vec::<String>::new());
        reports
    }

    /// Runs one flow to its end; checks that everything is right and quiet.
    pub fn run_one(&mut self, flow: Flow) -> FlowReport {
        self.run(vec![flow]).remove(0)
    }

    /// The direction from an endpoint towards the root complex, or back.
    pub fn direction(&self, endpoint: usize, heading: LinkDirection) -> DirectionId {
        let port = self.fabric.node(self.endpoints[endpoint]).ports[0];
        DirectionId { link: self.fabric.port(port).link.unwrap(), heading }
    }
}

/// Changes of a flow.
pub trait Adjust {
    fn times(self, operations: u64) -> Self;
    fn at_once(self, outstanding: u32) -> Self;
}

impl Adjust for Flow {
    fn times(self, operations: u64) -> Self {
        Self { operations, ..self }
    }

    fn at_once(self, outstanding: u32) -> Self {
        Self { outstanding, ..self }
    }
}

/// Runs to the next event of the host, and returns the last one that has come.
pub fn next_event(fabric: &mut Fabric) -> HostEvent {
    assert!(fabric.run_until_host_event(), "nothing more happens");
    let mut events = Vec::new();
    fabric.take_host_events(&mut events);
    events.pop().unwrap()
}

/// All further events of the host, each with its time; then nothing is left over.
pub fn all_events(fabric: &mut Fabric) -> Vec<(Picoseconds, HostEvent)> {
    let (mut all, mut events) = (Vec::new(), Vec::new());
    while fabric.run_until_host_event() {
        fabric.take_host_events(&mut events);
        assert!(!events.is_empty());
        all.extend(events.drain(..).map(|event| (fabric.now(), event)));
    }
    assert_eq!(fabric.check_quiet(), Vec::<String>::new());
    all
}

pub fn stored(token: u64) -> HostEvent {
    HostEvent::Stored { token }
}

pub fn loaded(token: u64, value: u64) -> HostEvent {
    HostEvent::Loaded { token, result: Ok(value) }
}

/// A load of 4 B that has got no answer.
pub fn timed_out(token: u64, address: BusAddress) -> HostEvent {
    let error = LoadError::TimedOut { address, bytes: 4, timeout: COMPLETION_TIMEOUT };
    HostEvent::Loaded { token, result: Err(error) }
}

/// Time of a byte on a link of Gen2 x4. A TLP takes 20 B beside its payload, 24 B above 4 GiB.
const BYTE_PS: u64 = 500;
/// Time of the Ack that precedes an answer on that link.
pub const ACK: Picoseconds = Picoseconds(8 * BYTE_PS);

/// Time of these bytes on a link of Gen2 x4.
pub fn wire(bytes: u64) -> Picoseconds {
    Picoseconds(bytes * BYTE_PS)
}

/// Relative difference.
pub fn off(got: f64, expected: f64) -> f64 {
    (got - expected).abs() / expected
}

/// Asserts that a flow has run at this rate, but for a relative difference.
#[track_caller]
pub fn assert_steady(report: &FlowReport, expected: f64, most: f64, scene: impl std::fmt::Debug) {
    let error = off(report.steady_bytes_per_second().unwrap(), expected);
    assert!(error < most, "{scene:?}: {error}");
}

pub fn routing_id(bus: u8) -> RoutingId {
    RoutingId::new(bus, 0, 0)
}
