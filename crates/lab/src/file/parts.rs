// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts: constants shared by instances of one kind, as parameters of the fabric.

use std::ops::RangeInclusive;

pub use crosslane_device::EngineParameters;
use crosslane_device::MemoryCardParameters;
use crosslane_device::network_processor::NetworkProcessorParameters;
use crosslane_device::nic::NicParameters;
use crosslane_fabric::MAX_STORE_BYTES;
use crosslane_fabric::parameters::{
    Coalescing, CombiningParameters, CompleterParameters, CompletionCut, CpuParameters,
    EndpointParameters, Forwarding, Latency, LinkParameters, PeerToPeer, PortParameters,
    RequesterParameters, RootComplexParameters, SwitchParameters,
};
use crosslane_host::Routines;
use crosslane_pcie::config::{BarKind, BarRequest, Capability, Identity, MINIMUM_BAR_BYTES};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::{Generation, LinkRate, MAX_PAYLOAD_BYTES, Width};
use crosslane_pcie::units::Picoseconds;

use super::table::Table;
use super::{engine, iommu, memory_card, network_processor, nic, routines};
use crate::error::{LabError, Problem, Result};

/// Most credits of a pool; beyond the 2047 x 16 of scaled flow control.
const MOST_CREDITS: u32 = 1 << 16;
/// Largest replay buffer, bytes.
const MOST_REPLAY_BYTES: u32 = 1 << 24;
/// Most TLPs covered by one Ack or UpdateFC: half of the 4096 sequence numbers (PCIe 6.x 3.6.2.1),
/// beyond which nothing could be sent.
const MOST_COALESCED: u32 = 2048;
/// Largest host memory, bytes: 16 TiB.
const MOST_MEMORY_BYTES: u64 = 1 << 44;
/// Smallest host memory, bytes: 1 MiB.
const LEAST_MEMORY_BYTES: u64 = 1 << 20;
/// Largest BAR, bytes: 1 TiB.
const MOST_BAR_BYTES: u64 = 1 << 40;
/// Highest bit error rate that the fabric's builder accepts.
const MOST_BIT_ERRORS: f64 = 0.1;
/// Class code of a PCI-to-PCI bridge (PCI Code and ID Assignment 1.5).
const BRIDGE_CLASS: u32 = 0x06_04_00;
/// Payload sizes for Max_Payload_Size, bytes (PCIe 6.x 7.5.3.4).
pub(super) const PAYLOADS: RangeInclusive<u64> = 128..=MAX_PAYLOAD_BYTES as u64;

const SWITCH_PORT_KEYS: [&str; 16] = [
    "max_generation", "max_width", "max_payload_bytes", "extended_tags", "acs", "posted_headers",
    "posted_data", "nonposted_headers", "nonposted_data", "completion_headers", "completion_data",
    "replay_buffer_bytes", "ack_tlps", "ack_within_ns", "update_fc_tlps", "update_fc_within_ns",
];
/// Additional keys of any other `port`.
const LATENCY_KEYS: [&str; 2] = ["receive_latency_ns", "transmit_latency_ns"];

const COMPLETER_KEYS: [&str; 15] = [
    "read_completion_boundary_bytes", "completion_bytes", "completion_cut",
    "completion_single_share", "read_slots", "read_latency_ns", "read_jitter_ns", "read_tail_ns",
    "read_tail_probability", "write_latency_ns", "read_gb_per_s", "write_gb_per_s",
    "write_overhead_ns", "partial_line_ns", "line_bytes",
];

const CPU_KEYS: [&str; 15] = [
    "cores", "uncached_store_ns", "store_queue", "uncached_load_ns", "interrupt_ns",
    "interrupts_in_turn", "system_call_ns", "kernel_poll_ns", "monitor_wake_ns", "pin_page_ns",
    "touch_page_ns", "copy_gb_per_s", "widest_store_bytes", "combining", "routines",
];

const REQUESTER_KEYS: [&str; 15] = [
    "tags", "max_write_bytes", "max_read_bytes", "datapath_bytes", "clock_ns",
    "idle_clocks_per_tlp", "tlp_gap_ns", "operation_gap_ns", "write_interval_ns",
    "read_interval_ns", "write_start_ns", "read_start_ns", "read_finish_ns", "copy_gb_per_s",
    "completion_timeout_ns",
];

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// A root complex with memory and processor.
    RootComplex,
    /// A switch.
    Switch,
    /// An endpoint.
    Endpoint,
    /// A link.
    Link,
    /// A network link between two NICs.
    Network,
    /// A cable between two network processors.
    TorusLink,
}

impl PartKind {
    /// Each kind, in order, with its word in a lab file and its description in a sentence.
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::RootComplex, "root-complex", "a root complex"),
        (Self::Switch, "switch", "a switch"),
        (Self::Endpoint, "endpoint", "an endpoint"),
        (Self::Link, "link", "a link"),
        (Self::Network, "network", "a network link"),
        (Self::TorusLink, "torus-link", "a torus link"),
    ];

    /// Returns its word in a lab file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns it with its article, for sentences.
    pub(crate) const fn described(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Returns the keys of such a part, including `kind` and `summary`.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::RootComplex => &[
                "kind", "summary", "identity", "memory_bytes", "port", "memory", "peer_to_peer",
                "iommu", "cpu",
            ],
            Self::Switch => &[
                "kind", "summary", "identity", "latency_ns", "forwarding", "port", "upstream_port",
            ],
            Self::Endpoint => &[
                "kind", "summary", "identity", "class_code", "revision", "subsystem", "bar0",
                "bar1", "bar2", "bar3", "bar4", "bar5", "port", "memory", "requester", "engine",
                "card_memory", "memory_card", "nic", "network_processor",
            ],
            Self::Link => &[
                "kind", "summary", "generation", "width", "flight_ns", "bit_error_rate",
                "retrain_ns", "skp",
            ],
            Self::Network => &nic::NETWORK_KEYS,
            Self::TorusLink => &network_processor::CABLE_KEYS,
        }
    }

    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let word = table.needed_word("kind")?;
        let kind = Self::ALL.into_iter().find(|(_, known, _)| *known == word.text);
        kind.map(|(kind, ..)| kind).ok_or_else(|| {
            let words = Self::ALL.map(|(_, known, _)| known).join(", ");
            table.bad("kind", format!("\"{}\" is not one of {words}", word.text))
        })
    }
}

/// Constants of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct RootComplexPart {
    /// Vendor, device and class of its root ports.
    pub identity: Identity,
    /// Constants of its root complex, memory and processor.
    pub parameters: RootComplexParameters,
    /// Constants of each root port.
    pub port: PortParameters,
    /// Store routines of its C library, if the lab has them.
    pub routines: Option<Routines>,
    /// Path of the constant that allows or forbids peer-to-peer between its root ports.
    pub peer_to_peer_key: String,
}

/// Constants of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchPart {
    /// Vendor, device and class of its ports.
    pub identity: Identity,
    /// Constants of its forwarding.
    pub parameters: SwitchParameters,
    /// Constants of its upstream port.
    pub upstream: PortParameters,
    /// Constants of each downstream port.
    pub downstream: PortParameters,
}

/// Constants of an endpoint: a DMA engine, memory card, NIC, network processor, or a generic one.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointPart {
    /// Constants of its identity, BARs, memory and requester.
    pub parameters: EndpointParameters,
    /// Constants of its DMA engine, if it has one.
    pub engine: Option<EngineParameters>,
    /// Constants of the memory card, if it is one.
    pub memory_card: Option<MemoryCardParameters>,
    /// Constants of the NIC, if it is one.
    pub nic: Option<NicParameters>,
    /// Constants of the network processor, if it is one.
    pub network_processor: Option<NetworkProcessorParameters>,
    /// Constants of its port.
    pub port: PortParameters,
}

fn half_words(text: &str) -> Option<(u16, u16)> {
    let (vendor, device) = text.split_once(':')?;
    let half = |text: &str| (text.len() == 4).then(|| u16::from_str_radix(text, 16).ok())?;
    Some((half(vendor)?, half(device)?))
}

/// Reads a constant such as "10ee:7028": two numbers of four hexadecimal digits.
fn id_pair(table: &Table<'_>, key: &str) -> Result<Option<(u16, u16)>> {
    let Some(text) = table.text(key)? else { return Ok(None) };
    let pair = half_words(&text).ok_or_else(|| {
        table.bad(
            key,
            format!("\"{text}\" is not two numbers of four hexadecimal digits, like \"10ee:7028\""),
        )
    })?;
    Ok(Some(pair))
}

fn identity(table: &Table<'_>, class_code: u32) -> Result<Identity> {
    let (vendor, device) = id_pair(table, "identity")?.ok_or_else(|| table.missing("identity"))?;
    if vendor == 0xffff {
        return Err(table.bad("identity", "vendor ffff means that nothing is there".into()));
    }
    Ok(Identity { vendor, device, class_code, ..Identity::default() })
}

fn rate(table: &Table<'_>, generation: &str, width: &str) -> Result<LinkRate> {
    let number = table.whole(generation, 1..=5)?;
    let lanes = table.whole(width, 1..=32)?;
    let no_width = || {
        let widths = Width::ALL.map(|width| width.lanes().to_string()).join(", ");
        table.bad(width, format!("{lanes} lanes are not a link's width; known are {widths}"))
    };
    Ok(LinkRate {
        generation: Generation::from_number(number as u8)
            .ok_or_else(|| table.bad(generation, format!("{number} is not a generation")))?,
        width: Width::new(lanes as u8).ok_or_else(no_width)?,
    })
}

fn coalescing(table: &Table<'_>, tlps: &str, within: &str) -> Result<Coalescing> {
    // Infinite means by time only.
    let tlps = table.count_or_infinite(tlps, 1..=MOST_COALESCED)?;
    Ok(Coalescing { tlps, within: table.optional_ns(within)? })
}

fn credits(table: &Table<'_>, header: &str, data: &str) -> Result<Credits> {
    let read = |key| table.count_or_infinite(key, 1..=MOST_CREDITS);
    Ok(Credits { header: read(header)?, data: read(data)? })
}

/// Reads a port; a switch's ports have no latencies, they are counted in the switch.
fn port(table: &Table<'_>, of_switch: bool) -> Result<PortParameters> {
    let mut keys = SWITCH_PORT_KEYS.to_vec();
    if !of_switch {
        keys.extend(LATENCY_KEYS);
    }
    table.only(&keys)?;
    let latency = |key| if of_switch { Ok(Picoseconds::ZERO) } else { table.ns(key) };
    let capability = Capability {
        max_rate: rate(table, "max_generation", "max_width")?,
        max_payload_bytes: table.power_of_two("max_payload_bytes", PAYLOADS)? as u16,
        extended_tags: table.truth("extended_tags")?.unwrap_or(false),
        acs: table.truth("acs")?.unwrap_or(false),
    };
    let parameters = PortParameters {
        capability,
        receive_credits: [
            credits(table, "posted_headers", "posted_data")?,
            credits(table, "nonposted_headers", "nonposted_data")?,
            credits(table, "completion_headers", "completion_data")?,
        ],
        replay_buffer_bytes: table.count_or_infinite(
            "replay_buffer_bytes",
            u32::from(capability.max_payload_bytes) + 24..=MOST_REPLAY_BYTES,
        )?,
        ack: coalescing(table, "ack_tlps", "ack_within_ns")?,
        update_fc: coalescing(table, "update_fc_tlps", "update_fc_within_ns")?,
        receive_latency: latency("receive_latency_ns")?,
        transmit_latency: latency("transmit_latency_ns")?,
    };
    check_data_credits(table, &parameters)?;
    Ok(parameters)
}

/// Checks that a receiver has room for one payload of the largest size (PCIe 6.x 2.6.1).
fn check_data_credits(table: &Table<'_>, port: &PortParameters) -> Result<()> {
    let payload_bytes = port.capability.max_payload_bytes;
    let need = Credits::minimum_posted(payload_bytes.into()).data;
    for (index, key) in [(0, "posted_data"), (2, "completion_data")] {
        let have = port.receive_credits[index].data;
        if have < need {
            let problem = format!(
                "{have} credits of 16 B cannot take one payload of {payload_bytes} B, which \
                 needs {need}"
            );
            return Err(table.bad(key, problem));
        }
    }
    Ok(())
}

fn completer(table: &Table<'_>, of_root_complex: bool) -> Result<CompleterParameters> {
    table.only(&COMPLETER_KEYS)?;
    let key = "read_completion_boundary_bytes";
    let boundary = match table.optional_whole(key, 0..=u64::from(u32::MAX))? {
        None if of_root_complex => return Err(table.missing(key)),
        // Every completer except a root complex uses 128 bytes (PCIe 6.x 2.3.1.1).
        None => 128,
        Some(64) if of_root_complex => 64,
        Some(128) => 128,
        Some(other) => {
            let allowed =
                if of_root_complex { "64 or 128 B" } else { "128 B for all but a root complex" };
            let problem = format!("a read completion boundary is {allowed}, not {other} B");
            return Err(table.bad(key, problem));
        }
    };
    let partial_line = table.optional_ns("partial_line_ns")?;
    let line_bytes = match partial_line.is_some() || table.has("line_bytes") {
        true => table.power_of_two("line_bytes", 4..=4096)? as u32,
        // No cost depends on it.
        false => 64,
    };
    let cuts = [("longest", CompletionCut::Longest), ("aligned", CompletionCut::Aligned)];
    Ok(CompleterParameters {
        read_completion_boundary_bytes: boundary,
        completion_bytes: table
            .power_of_two("completion_bytes", u64::from(boundary)..=*PAYLOADS.end())?
            as u32,
        completion_cut: table.choice("completion_cut", &cuts)?,
        completion_single_share: table.probability("completion_single_share", 1.0)?,
        read_slots: table.count_or_infinite("read_slots", 1..=1 << 16)?,
        read_latency: Latency {
            base: table.ns("read_latency_ns")?,
            jitter: table.ns_or_off("read_jitter_ns")?,
            tail_probability: table.probability("read_tail_probability", 1.0)?,
            tail: table.ns_or_off("read_tail_ns")?,
        },
        write_latency: table.ns("write_latency_ns")?,
        read_bytes_per_second: table.rate_or_unlimited("read_gb_per_s")?,
        write_bytes_per_second: table.rate_or_unlimited("write_gb_per_s")?,
        write_overhead: table.ns_or_off("write_overhead_ns")?,
        partial_line: partial_line.unwrap_or_default(),
        line_bytes,
    })
}

fn peer_to_peer(table: &Table<'_>) -> Result<PeerToPeer> {
    table.only(&["allowed", "latency_ns", "gb_per_s"])?;
    if !table.needed_truth("allowed")? {
        return Ok(PeerToPeer::Forbidden);
    }
    let latency = table.ns("latency_ns")?;
    Ok(PeerToPeer::Allowed { latency, bytes_per_second: table.rate_or_unlimited("gb_per_s")? })
}

fn cpu(table: &Table<'_>) -> Result<CpuParameters> {
    table.only(&CPU_KEYS)?;
    Ok(CpuParameters {
        cores: table.whole("cores", 1..=1024)? as u16,
        uncached_store: table.ns("uncached_store_ns")?,
        store_queue: table.count_or_infinite("store_queue", 1..=1 << 16)?,
        uncached_load: table.ns("uncached_load_ns")?,
        interrupt: table.ns("interrupt_ns")?,
        interrupts_in_turn: table.truth("interrupts_in_turn")?.unwrap_or(false),
        system_call: table.ns("system_call_ns")?,
        kernel_poll: kernel_poll(table)?,
        monitor_wake: table.optional_ns("monitor_wake_ns")?,
        pin_page: table.ns("pin_page_ns")?,
        touch_page: table.ns_or_off("touch_page_ns")?,
        copy_bytes_per_second: table.rate_or_unlimited("copy_gb_per_s")?,
        widest_store_bytes: match table.has("widest_store_bytes") {
            true => table.power_of_two("widest_store_bytes", 8..=64)? as u32,
            false => MAX_STORE_BYTES,
        },
        combining: table.table("combining")?.map(|table| combining(&table)).transpose()?,
    })
}

/// Reads the polling interval, which cannot be 0.
fn kernel_poll(table: &Table<'_>) -> Result<Option<Picoseconds>> {
    const KEY: &str = "kernel_poll_ns";
    match table.optional_ns(KEY)? {
        Some(Picoseconds::ZERO) => Err(table.bad(KEY, "an interval of 0".to_owned())),
        interval => Ok(interval),
    }
}

fn combining(table: &Table<'_>) -> Result<CombiningParameters> {
    table.only(&["buffers", "store_ns", "fence_ns"])?;
    Ok(CombiningParameters {
        buffers: table.whole("buffers", 1..=64)? as u16,
        store: table.ns("store_ns")?,
        fence: table.ns("fence_ns")?,
    })
}

fn requester(table: &Table<'_>) -> Result<RequesterParameters> {
    table.only(&REQUESTER_KEYS)?;
    let datapath = table.has("datapath_bytes");
    let (clock, idle_clocks) = match datapath {
        true => (table.ns("clock_ns")?, table.optional_whole("idle_clocks_per_tlp", 0..=1 << 16)?),
        false => {
            for key in ["clock_ns", "idle_clocks_per_tlp"] {
                if table.has(key) {
                    return Err(table.missing("datapath_bytes"));
                }
            }
            (Picoseconds::ZERO, None)
        }
    };
    let sizes = 4..=*PAYLOADS.end();
    Ok(RequesterParameters {
        tags: table.whole("tags", 1..=1024)? as u16,
        max_write_bytes: table.power_of_two("max_write_bytes", sizes.clone())? as u32,
        max_read_bytes: table.power_of_two("max_read_bytes", sizes)? as u32,
        datapath_bytes: table.optional_whole("datapath_bytes", 1..=1024)?.unwrap_or(0) as u32,
        clock,
        idle_clocks_per_tlp: idle_clocks.unwrap_or(0) as u32,
        tlp_gap: table.ns_or_off("tlp_gap_ns")?,
        operation_gap: table.ns_or_off("operation_gap_ns")?,
        write_interval: table.ns_or_off("write_interval_ns")?,
        read_interval: table.ns_or_off("read_interval_ns")?,
        write_start: table.ns_or_off("write_start_ns")?,
        read_start: table.ns_or_off("read_start_ns")?,
        read_finish: table.ns_or_off("read_finish_ns")?,
        copy_bytes_per_second: table.rate_or_unlimited("copy_gb_per_s")?,
        completion_timeout: table.ns("completion_timeout_ns")?,
    })
}

fn bars(table: &Table<'_>) -> Result<[Option<BarRequest>; 6]> {
    const KEYS: [&str; 6] = ["bar0", "bar1", "bar2", "bar3", "bar4", "bar5"];
    let kinds = [
        ("memory32", BarKind::Memory32 { prefetchable: false }),
        ("memory32-prefetchable", BarKind::Memory32 { prefetchable: true }),
        ("memory64", BarKind::Memory64 { prefetchable: false }),
        ("memory64-prefetchable", BarKind::Memory64 { prefetchable: true }),
    ];
    let mut bars = [None; 6];
    for (index, key) in KEYS.into_iter().enumerate() {
        let Some(bar) = table.table(key)? else { continue };
        bar.only(&["decodes", "size_bytes"])?;
        let kind = bar.choice("decodes", &kinds)?;
        let most = if kind.is_64_bit() { MOST_BAR_BYTES } else { 1 << 31 };
        let size_bytes = bar.power_of_two("size_bytes", MINIMUM_BAR_BYTES..=most)?;
        bars[index] = Some(BarRequest { kind, size_bytes });
    }
    for (index, bar) in bars.iter().enumerate() {
        let wide = bar.is_some_and(|bar| bar.kind.is_64_bit());
        if wide && (index == 5 || bars[index + 1].is_some()) {
            let problem = "a 64-bit BAR takes the register after it too, and that one is taken or \
                           does not exist";
            return Err(table.bad(KEYS[index], problem.into()));
        }
    }
    Ok(bars)
}

impl RootComplexPart {
    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let port = port(&table.needed_table("port")?, false)?;
        let memory = completer(&table.needed_table("memory")?, true)?;
        let cpu_table = table.needed_table("cpu")?;
        let cpu = cpu(&cpu_table)?;
        let peers = table.needed_table("peer_to_peer")?;
        Ok(Self {
            peer_to_peer_key: peers.path_of("allowed"),
            routines: routines::read(&cpu_table, cpu.widest_store_bytes)?,
            identity: identity(table, BRIDGE_CLASS)?,
            parameters: RootComplexParameters {
                memory_bytes: table
                    .whole("memory_bytes", LEAST_MEMORY_BYTES..=MOST_MEMORY_BYTES)?,
                completer: memory,
                peer_to_peer: peer_to_peer(&peers)?,
                iommu: iommu::read(table)?,
                cpu,
            },
            port,
        })
    }
}

impl SwitchPart {
    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let forwarding = [
            ("cut-through", Forwarding::CutThrough),
            ("store-and-forward", Forwarding::StoreAndForward),
        ];
        let downstream = table.needed_table("port")?;
        let upstream = match table.table("upstream_port")? {
            Some(upper) => downstream.under(&upper),
            None => downstream.clone(),
        };
        Ok(Self {
            identity: identity(table, BRIDGE_CLASS)?,
            parameters: SwitchParameters {
                latency: table.ns("latency_ns")?,
                forwarding: table.choice("forwarding", &forwarding)?,
            },
            downstream: port(&downstream, true)?,
            upstream: port(&upstream, true)?,
        })
    }
}

impl EndpointPart {
    /// Whether it is a device with its own table, not a generic endpoint.
    pub(crate) const fn is_device(&self) -> bool {
        self.engine.is_some()
            || self.memory_card.is_some()
            || self.nic.is_some()
            || self.network_processor.is_some()
    }

    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let (subsystem_vendor, subsystem) = id_pair(table, "subsystem")?.unwrap_or_default();
        let identity = Identity {
            revision: table.optional_whole("revision", 0..=0xff)?.unwrap_or(0) as u8,
            subsystem_vendor,
            subsystem,
            ..identity(table, table.whole("class_code", 0..=0xff_ffff)? as u32)?
        };
        let parameters = EndpointParameters {
            identity,
            bars: bars(table)?,
            completer: completer(&table.needed_table("memory")?, false)?,
            requester: requester(&table.needed_table("requester")?)?,
        };
        let port = port(&table.needed_table("port")?, false)?;
        let engine = engine::read(table, &parameters, &port)?;
        let memory_card = memory_card::read(table, &parameters)?;
        let nic = nic::read(table, &parameters)?;
        let network_processor = network_processor::read(table, &parameters)?;
        Ok(Self { parameters, engine, memory_card, nic, network_processor, port })
    }
}

/// Reads a link's constants from a part or from the link itself.
pub(super) fn link(table: &Table<'_>) -> Result<LinkParameters> {
    let bit_error_rate = table.probability("bit_error_rate", MOST_BIT_ERRORS)?;
    let retrain = match bit_error_rate > 0.0 {
        true => table.ns("retrain_ns")?,
        false => table.ns_or_off("retrain_ns")?,
    };
    Ok(LinkParameters {
        rate: rate(table, "generation", "width")?,
        flight: table.ns("flight_ns")?,
        bit_error_rate,
        retrain,
        // The specification demands them (PCIe 3.1 4.2.7.1); only an ideal link has none.
        skp: table.truth("skp")?.unwrap_or(true),
    })
}

/// Reads a part to check it and to record its constants.
pub(super) fn check(kind: PartKind, table: &Table<'_>) -> Result<()> {
    table.only(kind.keys())?;
    table.word("summary")?;
    match kind {
        PartKind::RootComplex => RootComplexPart::read(table).map(drop),
        PartKind::Switch => SwitchPart::read(table).map(drop),
        PartKind::Endpoint => EndpointPart::read(table).map(drop),
        PartKind::Link => link(table).map(drop),
        PartKind::Network => nic::network(table).map(drop),
        PartKind::TorusLink => network_processor::cable(table).map(drop),
    }
}

/// Returns the error for a part of the wrong kind.
pub(super) fn wrong_kind(
    table: &Table<'_>,
    key: &str,
    name: &str,
    found: PartKind,
    needed: PartKind,
) -> LabError {
    let problem = Problem::WrongKind {
        name: format!("part {name}"),
        found: found.described().into(),
        needed: needed.described(),
    };
    table.error(key, problem)
}
