// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts: constants shared by instances of one kind, as parameters of the fabric.

use crosslane_device::MemoryCardParameters;
use crosslane_device::network_processor::NetworkProcessorParameters;
pub use crosslane_device::nic::NicParameters;
pub use crosslane_device::{CardMemoryParameters, Copying, EngineParameters};
use crosslane_fabric::parameters::{
    Coalescing, CompleterParameters, CpuParameters, EndpointParameters, Forwarding, LinkParameters,
    PeerReadParameters, PeerToPeer, PortParameters, RequesterParameters, RootComplexParameters,
    SocketParameters, SwitchParameters,
};
use crosslane_host::Routines;
use crosslane_pcie::config::{BarKind, BarRequest, Capability, ConfigSpace, Identity, MsixRequest};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::Picoseconds;
use strum::{IntoStaticStr, VariantArray};

use super::table::Table;
use super::{model, networks};
use crate::error::{LabError, Problem, Result};
use crate::keys::{self, KeyTable};

/// Class code of a PCI-to-PCI bridge (PCI Code and ID Assignment 1.5).
const BRIDGE_CLASS: u32 = 0x06_04_00;
/// Pages that memory of several sockets is whole ones of, bytes.
const SMALL_PAGE_BYTES: u64 = 4096;
/// Largest 32-bit BAR, bytes.
const MOST_32_BIT_BYTES: u64 = 1 << 31;
/// Most credits of the fields for headers and data of a pool, without scaled flow control (PCIe 6.x
/// 2.6.1).
const MOST_HEADER_CREDITS: u32 = 127;
const MOST_DATA_CREDITS: u32 = 2047;

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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
    /// Returns its word in a lab file.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns the words of all kinds.
    pub(crate) fn words() -> Vec<&'static str> {
        Self::VARIANTS.iter().map(|kind| kind.word()).collect()
    }

    /// Returns it with its article, for sentences.
    pub(crate) const fn described(self) -> &'static str {
        match self {
            Self::RootComplex => "a root complex",
            Self::Switch => "a switch",
            Self::Endpoint => "an endpoint",
            Self::Link => "a link",
            Self::Network => "a network link",
            Self::TorusLink => "a torus link",
        }
    }

    /// Returns the keys of such a part.
    pub(crate) const fn keys(self) -> &'static KeyTable {
        match self {
            Self::RootComplex => &keys::PART_HOST,
            Self::Switch => &keys::PART_SWITCH,
            Self::Endpoint => &keys::PART_ENDPOINT,
            Self::Link => &keys::PART_LINK,
            Self::Network => &keys::PART_NETWORK,
            Self::TorusLink => &keys::CABLE,
        }
    }

    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let word = table.needed_word("kind")?;
        let kind = Self::VARIANTS.iter().copied().find(|kind| kind.word() == word.text);
        kind.ok_or_else(|| {
            let words = Self::words().join(", ");
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
    /// Path of the constant that allows or forbids peer-to-peer between its root ports, of one
    /// socket and of different ones.
    pub peer_to_peer_keys: [String; 2],
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
    /// Constants of its DMA engine, if it has one. Those that it shares with the requester are
    /// changed by [`edit_requester`](Self::edit_requester), as are those of the other devices.
    pub engine: Option<EngineParameters>,
    /// Constants of the memory card, if it is one.
    pub memory_card: Option<MemoryCardParameters>,
    /// Constants of the NIC, if it is one.
    pub nic: Option<NicParameters>,
    /// Constants of the network processor, if it is one.
    pub network_processor: Option<NetworkProcessorParameters>,
    /// MSI-X of a core outside of the lab that takes its place.
    pub msix: Option<MsixRequest>,
    /// Constants of its port.
    pub port: PortParameters,
    /// Constants of its requester that a register holds.
    pub registers: RequesterRegisters,
}

/// Constants of a requester that are what a register of configuration space is set to (their source
/// is `sysfs:`), not what the requester can do at most: they change with the register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequesterRegisters {
    /// Whether its tags are those that Device Control allows.
    pub tags: bool,
    /// Whether its longest write is Max_Payload_Size.
    pub max_write_bytes: bool,
    /// Whether its longest read is Max_Read_Request_Size.
    pub max_read_bytes: bool,
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
    let known = |key: &str| table.bad(key, "no link has it".into());
    Ok(LinkRate {
        generation: Generation::from_number(table.whole(generation)? as u8)
            .ok_or_else(|| known(generation))?,
        width: Width::new(table.whole(width)? as u8).ok_or_else(|| known(width))?,
    })
}

fn coalescing(table: &Table<'_>, tlps: &str, within: &str) -> Result<Coalescing> {
    Ok(Coalescing { tlps: table.whole(tlps)? as u32, within: table.optional_ns(within)? })
}

fn credits(table: &Table<'_>, header: &str, data: &str) -> Result<Credits> {
    Ok(Credits { header: table.whole(header)? as u32, data: table.whole(data)? as u32 })
}

/// Reads a port; a switch's ports have no latencies, they are counted in the switch.
fn port(table: &Table<'_>, of_switch: bool) -> Result<PortParameters> {
    let latency = |key| if of_switch { Ok(Picoseconds::ZERO) } else { table.ns(key) };
    let symbols = |key| if of_switch { Ok(0) } else { table.whole(key) };
    let capability = Capability {
        max_rate: rate(table, "max_generation", "max_width")?,
        max_payload_bytes: table.whole("max_payload_bytes")? as u16,
        extended_tags: table.truth("extended_tags")?,
        ten_bit_tags: table.truth("ten_bit_tags")?,
        acs: table.truth("acs")?,
    };
    let parameters = PortParameters {
        capability,
        receive_credits: [
            credits(table, "posted_headers", "posted_data")?,
            credits(table, "nonposted_headers", "nonposted_data")?,
            credits(table, "completion_headers", "completion_data")?,
        ],
        replay_buffer_bytes: table.whole("replay_buffer_bytes")? as u32,
        ack: coalescing(table, "ack_tlps", "ack_within_ns")?,
        update_fc: coalescing(table, "update_fc_tlps", "update_fc_within_ns")?,
        receive_latency: latency("receive_latency_ns")?,
        transmit_latency: latency("transmit_latency_ns")?,
        receive_symbols: symbols("receive_latency_symbols")? as u32,
        transmit_symbols: symbols("transmit_latency_symbols")? as u32,
    };
    let tlp_bytes = u32::from(capability.max_payload_bytes) + keys::TLP_OVERHEAD_BYTES as u32;
    if parameters.replay_buffer_bytes < tlp_bytes {
        let bytes = parameters.replay_buffer_bytes;
        let problem = format!("{bytes} B do not hold one TLP, {tlp_bytes} B");
        return Err(table.bad("replay_buffer_bytes", problem));
    }
    check_data_credits(table, &parameters)?;
    check_credit_fields(table, &parameters)?;
    if table.truth("fourteen_bit_tags")? && !capability.max_rate.generation.is_flit() {
        let problem = "14-bit tags need FLIT mode, of ports of generation 6";
        return Err(table.bad("fourteen_bit_tags", problem.to_owned()));
    }
    Ok(parameters)
}

/// Checks that the fields of InitFC and UpdateFC hold the credits (PCIe 6.x 2.6.1). Ports of 16
/// GT/s and more have scaled flow control, which counts in steps of up to 16 (PCIe 6.x 3.4.2).
fn check_credit_fields(table: &Table<'_>, port: &PortParameters) -> Result<()> {
    const POOLS: [[&str; 2]; 3] = [
        ["posted_headers", "posted_data"],
        ["nonposted_headers", "nonposted_data"],
        ["completion_headers", "completion_data"],
    ];
    if port.capability.max_rate.generation >= Generation::Gen4 {
        return Ok(());
    }
    for (keys, credits) in POOLS.into_iter().zip(port.receive_credits) {
        let most = [MOST_HEADER_CREDITS, MOST_DATA_CREDITS];
        for ((key, have), most) in keys.into_iter().zip([credits.header, credits.data]).zip(most) {
            if have > most && have != u32::MAX {
                let problem = format!(
                    "{have} credits are more than the {most} that its field holds without scaled \
                     flow control, which ports of generation 4 and later have; \"infinite\" is \
                     possible"
                );
                return Err(table.bad(key, problem));
            }
        }
    }
    Ok(())
}

/// Checks that a requester's port has as many tags (PCIe 6.x 2.2.6.2).
fn check_tags(
    requester: &Table<'_>,
    port: &Table<'_>,
    tags: u16,
    capability: &Capability,
) -> Result<()> {
    let (most, key) = if port.truth("fourteen_bit_tags")? {
        return Ok(());
    } else if capability.ten_bit_tags {
        (768, "fourteen_bit_tags")
    } else if capability.extended_tags {
        (256, "ten_bit_tags")
    } else {
        (32, "extended_tags")
    };
    if tags <= most {
        return Ok(());
    }
    let (path, word) = (port.path_of(key), if port.has(key) { "is false" } else { "is left out" });
    let problem = format!("its port has tags for {most} reads, not {tags}: {path} {word}");
    Err(requester.bad("tags", problem))
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

fn completer(table: &Table<'_>) -> Result<CompleterParameters> {
    let mut completer: CompleterParameters = model::all(table)?;
    let CompleterParameters { read_completion_boundary_bytes: boundary, .. } = completer;
    if completer.completion_bytes < boundary {
        let problem =
            format!("{} B are below the boundary, {boundary} B", completer.completion_bytes);
        return Err(table.bad("completion_bytes", problem));
    }
    let (short, is_short) = (completer.short_completion_bytes, completer.short_read_bytes > 0);
    if is_short != (short > 0) {
        let lacking = if is_short { "short_completion_bytes" } else { "short_read_bytes" };
        return Err(table.missing(lacking));
    }
    if is_short && short < boundary {
        let problem = format!("{short} B are below the boundary, {boundary} B");
        return Err(table.bad("short_completion_bytes", problem));
    }
    if !table.has("line_bytes") {
        if table.has("partial_line_ns") {
            return Err(table.missing("line_bytes"));
        }
        // No cost depends on it.
        completer.line_bytes = 64;
    }
    Ok(completer)
}

pub(super) fn peer_to_peer(table: &Table<'_>) -> Result<PeerToPeer> {
    if !table.truth("allowed")? {
        return Ok(PeerToPeer::Forbidden);
    }
    let (latency, bytes_per_second) = (table.ns("latency_ns")?, table.rate("gb_per_s")?);
    Ok(PeerToPeer::Allowed { latency, bytes_per_second })
}

/// Reads how a host cuts reads of peers; `None` if it does not.
fn peer_reads(table: &Table<'_>) -> Result<Option<PeerReadParameters>> {
    let at_once = table.whole("peer_reads")? as u16;
    let Some(split_bytes) = table.optional_whole("peer_read_split_bytes")? else {
        return match table.has("peer_reads") {
            true => Err(table.missing("peer_read_split_bytes")),
            false => Ok(None),
        };
    };
    Ok(Some(PeerReadParameters { split_bytes: split_bytes as u32, at_once }))
}

/// Reads the sockets of a host; `None` if it has one.
fn sockets(table: &Table<'_>) -> Result<Option<SocketParameters>> {
    let count = table.whole("sockets")? as u16;
    if count == 1 {
        return match table.has("hop") {
            true => Err(table.bad("hop", "a host of one socket has no way between two".into())),
            false => Ok(None),
        };
    }
    let bytes = table.whole("memory_bytes")?;
    if !bytes.is_multiple_of(SMALL_PAGE_BYTES) {
        let problem = format!("{bytes} B of each socket are not whole pages of 4 KiB");
        return Err(table.bad("memory_bytes", problem));
    }
    let hop = table.needed_table("hop")?;
    let peer_to_peer = peer_to_peer(&hop.needed_table("peer_to_peer")?)?;
    Ok(Some(SocketParameters { count, hop: model::all(&hop)?, peer_to_peer }))
}

fn cpu(table: &Table<'_>) -> Result<CpuParameters> {
    let combining = table.table("combining")?.map(|table| model::all(&table)).transpose()?;
    let cpu = CpuParameters { combining, ..model::all(table)? };
    if cpu.kernel_poll == Some(Picoseconds::ZERO) {
        return Err(table.bad("kernel_poll_ns", "an interval of 0".to_owned()));
    }
    Ok(cpu)
}

/// Reads the store routines of a host's processor, whose widest store has `widest` bytes.
fn routines(cpu: &Table<'_>, widest: u32) -> Result<Option<Routines>> {
    let Some(table) = cpu.table("routines")? else { return Ok(None) };
    let width = |key: &str| match table.whole(key)? as u32 {
        bytes if bytes > widest => {
            Err(table.bad(key, format!("no store has more than {widest} B")))
        }
        bytes => Ok(bytes),
    };
    Ok(Some(Routines {
        burst_call: table.ns("burst_call_ns")?,
        copy_call: table.ns("copy_call_ns")?,
        copy_narrow_bytes: width("copy_narrow_bytes")?,
        copy_narrow_until_bytes: table.whole("copy_narrow_until_bytes")?,
        copy_wide_bytes: width("copy_wide_bytes")?,
        copy_tail_bytes: table.whole("copy_tail_bytes")?,
        copy_string_from_bytes: table.whole("copy_string_from_bytes")?,
    }))
}

fn requester(table: &Table<'_>) -> Result<RequesterParameters> {
    match table.has("datapath_bytes") {
        true if !table.has("clock_ns") => Err(table.missing("clock_ns")),
        false if table.has("clock_ns") || table.has("idle_clocks_per_tlp") => {
            Err(table.missing("datapath_bytes"))
        }
        _ => model::all(table),
    }
}

fn bars(table: &Table<'_>) -> Result<[Option<BarRequest>; 6]> {
    const KEYS: [&str; 6] = ["bar0", "bar1", "bar2", "bar3", "bar4", "bar5"];
    let kinds = [
        BarKind::Memory32 { prefetchable: false },
        BarKind::Memory32 { prefetchable: true },
        BarKind::Memory64 { prefetchable: false },
        BarKind::Memory64 { prefetchable: true },
    ];
    let mut bars = [None; 6];
    for (index, key) in KEYS.into_iter().enumerate() {
        let Some(bar) = table.table(key)? else { continue };
        let (kind, size_bytes) = (bar.choice("decodes", &kinds)?, bar.whole("size_bytes")?);
        if !kind.is_64_bit() && size_bytes > MOST_32_BIT_BYTES {
            let problem = format!("{size_bytes} B are beyond a 32-bit BAR, {MOST_32_BIT_BYTES} B");
            return Err(bar.bad("size_bytes", problem));
        }
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

/// Reads the MSI-X capability of a core that takes the endpoint's place; `None` if it has none.
fn msix(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    port: &PortParameters,
) -> Result<Option<MsixRequest>> {
    let Some(table) = part.table("msix")? else { return Ok(None) };
    let request = MsixRequest {
        vectors: table.whole("vectors")? as u16,
        table_bar: table.whole("table_bar")? as u8,
        table_offset_bytes: table.whole("table_offset_bytes")? as u32,
        pending_bar: table.whole("pending_bar")? as u8,
        pending_offset_bytes: table.whole("pending_offset_bytes")? as u32,
    };
    // Errors of the BARs themselves are those of the fabric.
    let config = ConfigSpace::endpoint(endpoint.identity, port.capability, endpoint.bars);
    match config.map(|config| config.with_msix(request)) {
        Ok(Err(error)) => Err(table.bad("table_offset_bytes", error.to_string())),
        _ => Ok(Some(request)),
    }
}

impl RootComplexPart {
    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let port = port(&table.needed_table("port")?, false)?;
        let memory = completer(&table.needed_table("memory")?)?;
        let cpu_table = table.needed_table("cpu")?;
        let cpu = cpu(&cpu_table)?;
        let peers = table.needed_table("peer_to_peer")?;
        let sockets = sockets(table)?;
        let hop_peers = table.table("hop")?.map(|hop| hop.needed_table("peer_to_peer"));
        let hop_peers = hop_peers.transpose()?.unwrap_or_else(|| peers.clone());
        Ok(Self {
            peer_to_peer_keys: [&peers, &hop_peers].map(|table| table.path_of("allowed")),
            routines: routines(&cpu_table, cpu.widest_store_bytes)?,
            identity: identity(table, BRIDGE_CLASS)?,
            parameters: RootComplexParameters {
                memory_bytes: table.whole("memory_bytes")?,
                completer: memory,
                peer_to_peer: peer_to_peer(&peers)?,
                cache: table.table("cache")?.map(|table| model::all(&table)).transpose()?,
                cuts_peers: peers.truth("cuts_payloads")?,
                peer_reads: peer_reads(&peers)?,
                iommu: table.table("iommu")?.map(|table| model::all(&table)).transpose()?,
                cpu,
                sockets,
            },
            port,
        })
    }
}

impl SwitchPart {
    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let forwarding = [Forwarding::CutThrough, Forwarding::StoreAndForward];
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
                crossbar: table.table("crossbar")?.map(|table| model::all(&table)).transpose()?,
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

    /// Changes the requester, and with it its constants in the devices, whose own are brought
    /// within the bounds that these set.
    pub fn edit_requester(&mut self, edit: impl FnOnce(&mut RequesterParameters)) {
        let requester = &mut self.parameters.requester;
        edit(requester);
        self.engine.iter_mut().for_each(|device| model::share(device, requester));
        self.nic.iter_mut().for_each(|device| model::share(device, requester));
        self.network_processor.iter_mut().for_each(|device| model::share(device, requester));
    }

    pub(super) fn read(table: &Table<'_>) -> Result<Self> {
        let (subsystem_vendor, subsystem) = id_pair(table, "subsystem")?.unwrap_or_default();
        let identity = Identity {
            revision: table.whole("revision")? as u8,
            subsystem_vendor,
            subsystem,
            ..identity(table, table.whole("class_code")? as u32)?
        };
        let requester_table = table.needed_table("requester")?;
        let parameters = EndpointParameters {
            identity,
            bars: bars(table)?,
            completer: completer(&table.needed_table("memory")?)?,
            requester: requester(&requester_table)?,
        };
        let registers = RequesterRegisters {
            tags: requester_table.is_register("tags"),
            max_write_bytes: requester_table.is_register("max_write_bytes"),
            max_read_bytes: requester_table.is_register("max_read_bytes"),
        };
        let port_table = table.needed_table("port")?;
        let port = port(&port_table, false)?;
        let engine = model::engine(table, &parameters, &port)?;
        let memory_card = model::memory_card(table, &parameters)?;
        let nic = model::nic(table, &parameters)?;
        let network_processor = model::network_processor(table, &parameters)?;
        // Behind the devices, which may have fewer.
        let tags = parameters.requester.tags;
        check_tags(&requester_table, &port_table, tags, &port.capability)?;
        let msix = msix(table, &parameters, &port)?;
        Ok(Self { parameters, engine, memory_card, nic, network_processor, msix, port, registers })
    }
}

/// Reads a link's constants from a part or from the link itself.
pub(super) fn link(table: &Table<'_>) -> Result<LinkParameters> {
    let bit_error_rate = table.real("bit_error_rate")?;
    let retrain = match bit_error_rate > 0.0 {
        true => table.ns("retrain_ns")?,
        false => table.optional_ns("retrain_ns")?.unwrap_or_default(),
    };
    Ok(LinkParameters {
        rate: rate(table, "generation", "width")?,
        flight: table.ns("flight_ns")?,
        bit_error_rate,
        retrain,
        skp: table.truth("skp")?,
    })
}

/// Reads a part to check it and to record its constants.
pub(super) fn check(kind: PartKind, table: &Table<'_>) -> Result<()> {
    table.only_known()?;
    table.word("summary")?;
    match kind {
        PartKind::RootComplex => RootComplexPart::read(table).map(drop),
        PartKind::Switch => SwitchPart::read(table).map(drop),
        PartKind::Endpoint => EndpointPart::read(table).map(drop),
        PartKind::Link => link(table).map(drop),
        PartKind::Network => networks::network(table).map(drop),
        PartKind::TorusLink => networks::cable(table).map(drop),
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
