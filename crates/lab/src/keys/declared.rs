// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All tables of lab files with their keys.

use std::sync::LazyLock;

use crosslane_device::network_processor::{LineCode, NetworkProcessorParameters};
use crosslane_device::nic::{NetworkParameters, NicParameters};
use crosslane_device::{CardMemoryParameters, EngineParameters, MemoryCardParameters};
use crosslane_fabric::parameters::{
    CacheParameters, CombiningParameters, CompleterParameters, CpuParameters, CrossbarParameters,
    HopParameters, IommuParameters, RequesterParameters,
};
use crosslane_fabric::{MAX_PEER_READS, MAX_SOCKETS, MAX_STORE_BYTES};
use crosslane_pcie::config::{MAX_MSIX_VECTORS, MINIMUM_BAR_BYTES};
use crosslane_pcie::link::MAX_PAYLOAD_BYTES;
use crosslane_torus_link::end::{MAX_CHANNEL_DATAGRAMS, MAX_RETRY_DATAGRAMS};
use crosslane_torus_link::routing::MAX_NODES as MAX_TORUS_NODES;

use super::Absent::{Is, Nothing};
use super::Kind::{
    Choice, Identity, Ids, List, Name, Named, Number, Numbers, OneOf, Overrule, OverruleParts,
    PartKind, Parts, Positive, PowerOfTwo, Rate, RateOrInfinite, Sentence, Share, Table, Time,
    Truth, Whole, WholeOrInfinite, Wish,
};
use super::{Absent, Key, KeyTable, keys_of, tables};
use crate::file::requester_key;

/// Most credits for headers and for data of a pool, with scaled flow control (PCIe 6.x 3.4.2).
const MOST_HEADERS: u64 = 127 << 4;
const MOST_DATA: u64 = 2047 << 4;
/// Bytes of a TLP beside its payload, in a replay buffer.
pub(crate) const TLP_OVERHEAD_BYTES: u64 = 24;
/// Smallest and largest Max_Payload_Size and Max_Read_Request_Size, bytes (PCIe 6.x 7.5.3.4).
const LEAST_PAYLOAD_BYTES: u64 = 128;
const MOST_PAYLOAD_BYTES: u64 = MAX_PAYLOAD_BYTES as u64;
/// Most TLPs covered by one Ack or UpdateFC: half of the 4096 sequence numbers (PCIe 6.x 3.6.2.1),
/// beyond which nothing could be sent.
const MOST_COALESCED: u64 = 2048;
/// Most symbol times of a port's latency: 262 us at generation 1, beyond any.
const MOST_LATENCY_SYMBOLS: u64 = 1 << 16;
/// Numbers of lanes of a link.
const WIDTHS: &[u64] = &[1, 2, 4, 8, 12, 16, 32];
/// No limit.
const UNLIMITED: Absent = Is(f64::INFINITY);
/// No cost, no clocks, or false.
const NONE: Absent = Is(0.0);

tables! {
    /// A lab file.
    pub ROOT "lab file" {
        /// The lab itself.
        lab: Table(&LAB);
        /// Parts: constants that instances share, by name.
        part: Parts;
        /// Variants: other constants for the same topology, by name. The lab `a` with its variant
        /// `b` is asked for as `a:b`.
        variant: Named(&VARIANT) => Nothing;
        /// Hosts, at least one.
        host: List(&HOST);
        /// Switches.
        switch: List(&SWITCH) => Nothing;
        /// Endpoints.
        endpoint: List(&ENDPOINT) => Nothing;
        /// Links.
        link: List(&LINK) => Nothing;
        /// Pairs of root ports with rules of their own for peers.
        peers: List(&PEERS) => Nothing;
        /// Network links between NICs.
        network: List(&NETWORK) => Nothing;
        /// Tori of network processors.
        torus: List(&TORUS) => Nothing;
        /// Published measurements to compare the lab with.
        measurements: List(&MEASUREMENTS) => Nothing;
    }

    /// The lab itself.
    pub(crate) LAB "lab" {
        /// Format of the file.
        format: Number => Is(1.0);
        /// Its name: letters, digits, `-` and `_`.
        name: Name;
        /// Description, one sentence.
        summary: Sentence;
        /// The publication that it reproduces.
        source: Sentence => Nothing;
    }

    /// A variant.
    pub(crate) VARIANT "variant" {
        /// Difference from the lab.
        summary: Sentence;
        /// Constants of parts in place of the lab's.
        part: OverruleParts;
    }

    /// Published measurements.
    pub(crate) MEASUREMENTS "measurements" {
        /// A CSV file, relative to the lab file and below its folder.
        file: Name;
    }

    /// A host, or several.
    pub(crate) HOST "host": PART_HOST {
        /// Its name, unique among all nodes; `host{0..3}` makes four.
        name: Name;
        /// A part of the kind `root-complex`.
        part: Name;
        /// Whether its root ports redirect peer-to-peer requests (ACS).
        acs: Wish => NONE;
        /// Place of its DMA buffers: requests to those above 4 GiB have a header of 4 DW, to others
        /// of 3.
        buffers: Choice(&["below-4-gib", "above-4-gib"]);
        /// Socket whose memory the DMA buffers of its programs lie in: its NUMA node.
        numa_node: Number => NONE;
        /// Max_Read_Request_Size set in its functions, bytes.
        max_read_request_bytes: PowerOfTwo(LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES) => Is(512.0);
        /// Largest Max_Payload_Size set in its functions, bytes; left out, what the path allows.
        max_payload_limit_bytes: PowerOfTwo(LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES) => Nothing;
    }

    /// A switch, or several.
    pub(crate) SWITCH "switch": PART_SWITCH {
        /// Its name, unique among all nodes; `switch{0..3}` makes four.
        name: Name;
        /// A part of the kind `switch`.
        part: Name;
        /// Whether its downstream ports redirect peer-to-peer requests (ACS).
        acs: Wish => NONE;
    }

    /// An endpoint, or several.
    pub(crate) ENDPOINT "endpoint": PART_ENDPOINT {
        /// Its name, unique among all nodes; `card{1..8}` makes eight.
        name: Name;
        /// A part of the kind `endpoint`.
        part: Name;
    }

    /// A link, or several: as many lower ends as upper ones, or a multiple that is shared evenly.
    pub(crate) LINK "link": PART_LINK {
        /// A host or a switch: the link makes a port there.
        upper: Name;
        /// The port's name; left out, `host0.port0`, `switch0.down0`, and so on.
        upper_port: Name => Nothing;
        /// Below a host: the socket of the root port that the link makes.
        socket: Number => NONE;
        /// A switch or an endpoint.
        lower: Name;
        /// A part of the kind `link`; left out, the constants are here.
        part: Name => Nothing;
        /// Below a host: largest Max_Payload_Size of this root port and all that is below it,
        /// bytes, whatever the rest of the host has; left out, one for all of the host.
        max_payload_limit_bytes: PowerOfTwo(LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES) => Nothing;
    }

    /// Transfers between two root ports of a host, either way, in place of the host's
    /// `peer_to_peer` or `hop.peer_to_peer`. Each way has the rate.
    pub(crate) PEERS "peers": PEERS_ACROSS {
        /// A switch or an endpoint: it stands for the root port above it.
        first: Name;
        /// One below another root port of the same host.
        second: Name;
    }

    /// A network link between two NICs, or several.
    pub(crate) NETWORK "network": PART_NETWORK {
        /// An endpoint that is a NIC.
        first: Name;
        /// Another.
        second: Name;
        /// A part of the kind `network`; left out, the constants are here.
        part: Name => Nothing;
    }

    /// A torus of network processors.
    pub(crate) TORUS "torus" {
        /// Endpoints that are network processors, in the order of their numbers: the first
        /// dimension counts fastest.
        nodes: Name;
        /// Nodes in each of one to four dimensions.
        sizes: Numbers(1, MAX_TORUS_NODES as u64 - 1);
        /// Whether the dimensions wrap; false makes a mesh.
        wrap: Wish => Is(1.0);
        /// A part of the kind `torus-link`: each cable.
        part: Name;
    }

    /// A part, before its kind is known.
    pub(crate) PART "part" {
        /// One of root-complex, switch, endpoint, link, network and torus-link.
        kind: PartKind;
    }

    /// A file of the library of parts.
    pub(crate) LIBRARY "library" {
        /// Parts by name.
        part: Parts;
    }

    /// A root complex of the library.
    pub(crate) LIBRARY_HOST "library-root-complex": PART_HOST {
        /// root-complex.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence;
        /// PCI IDs of its root ports; without them it stands for every other root complex.
        matches: Ids => Nothing;
        /// A part above in the file, whose constants it has beside its own.
        like: Name => Nothing;
    }

    /// A switch of the library.
    pub(crate) LIBRARY_SWITCH "library-switch": PART_SWITCH {
        /// switch.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence;
        /// PCI IDs of its ports; without them it stands for every other switch.
        matches: Ids => Nothing;
        /// A part above in the file, whose constants it has beside its own.
        like: Name => Nothing;
    }

    /// An endpoint of the library.
    pub(crate) LIBRARY_ENDPOINT "library-endpoint": PART_ENDPOINT {
        /// endpoint.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence;
        /// Its PCI IDs and classes; without them it stands for every other endpoint.
        matches: Ids => Nothing;
        /// A part above in the file, whose constants it has beside its own.
        like: Name => Nothing;
    }

    /// A part of the kind `root-complex`: root ports, memory and processor.
    pub(crate) PART_HOST "root-complex" {
        /// root-complex.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Vendor and device ID of each root port.
        identity: Identity;
        /// Host memory, bytes; of several sockets, that of each, in whole pages of 4 KiB.
        memory_bytes: Whole(1 << 20, 1 << 44);
        /// Sockets, all alike: each has root ports, memory, a cache and an IOMMU if the host has
        /// them, and the cores of `cpu`.
        sockets: Whole(1, MAX_SOCKETS as u64) => Is(1.0);
        /// The way from each socket to each other one; needed where there are several.
        hop: Table(&HOP) => Nothing;
        /// Each root port.
        port: Table(&PORT);
        /// Host memory as a completer of requests.
        memory: Table(&HOST_MEMORY);
        /// Transfers between root ports; of several sockets, between those of one.
        peer_to_peer: Table(&PEER_TO_PEER);
        /// The cache between the root complex and its memory; left out, every request takes the
        /// times of `memory`.
        cache: Table(&CACHE) => Nothing;
        /// Translation of the devices' addresses; left out, these are the memory's.
        iommu: Table(&IOMMU) => Nothing;
        /// The processor.
        cpu: Table(&CPU);
    }

    /// A part of the kind `switch`.
    pub(crate) PART_SWITCH "switch-part" {
        /// switch.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Vendor and device ID of each port.
        identity: Identity;
        /// Time from the header's last byte in (cut-through), or the TLP's last byte in
        /// (store-and-forward), to the first byte out, without competing traffic.
        latency_ns: Time;
        /// When a TLP is passed on: once its header has arrived, or all of it.
        forwarding: Choice(&["cut-through", "store-and-forward"]);
        /// Limits of what passes from port to port; left out, the links alone limit it.
        crossbar: Table(&CROSSBAR) => Nothing;
        /// Each port.
        port: Table(&SWITCH_PORT);
        /// Constants in which the upstream port differs.
        upstream_port: Overrule(&SWITCH_PORT) => Nothing;
    }

    /// A part of the kind `endpoint`: a generic one, or with one of the tables `engine`,
    /// `memory_card`, `nic` and `network_processor`.
    pub(crate) PART_ENDPOINT "endpoint-part" {
        /// endpoint.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Vendor and device ID.
        identity: Identity;
        /// Class code (PCI Code and ID Assignment).
        class_code: Whole(0, 0xff_ffff);
        /// Revision ID.
        revision: Whole(0, 0xff) => NONE;
        /// Subsystem vendor and device ID; left out, 0000:0000.
        subsystem: Identity => Nothing;
        /// Base address register 0.
        bar0: Table(&BAR) => Nothing;
        /// Base address register 1.
        bar1: Table(&BAR) => Nothing;
        /// Base address register 2.
        bar2: Table(&BAR) => Nothing;
        /// Base address register 3.
        bar3: Table(&BAR) => Nothing;
        /// Base address register 4.
        bar4: Table(&BAR) => Nothing;
        /// Base address register 5.
        bar5: Table(&BAR) => Nothing;
        /// Its port.
        port: Table(&PORT);
        /// The memory behind its BARs, as a completer of requests.
        memory: Table(&CARD_MEMORY_OF_BARS);
        /// The generator of its requests.
        requester: Table(&REQUESTER);
        /// The DMA engine of this project, or one like it (docs/engine.md). It needs `bar0` of
        /// 64 KiB for its registers, and `bar1` for its receive queues.
        engine: Table(&ENGINE) => Nothing;
        /// The memory on an engine's card, which H2C and C2H channel 0 reach.
        card_memory: Table(&CARD_MEMORY) => Nothing;
        /// A card whose memory the host stores into (docs/memory-card.md). It needs `bar0` for its
        /// registers, `bar2` for its FIFO and `bar4` for its banks.
        memory_card: Table(&MEMORY_CARD) => Nothing;
        /// An RDMA adapter (docs/nic.md). It needs `bar0` for its doorbells.
        nic: Table(&NIC) => Nothing;
        /// A network processor (docs/network-processor.md). It needs `bar0` for its registers,
        /// `bar2` for its windows of requests and `bar4` for its put window.
        network_processor: Table(&NETWORK_PROCESSOR) => Nothing;
        /// MSI-X of a core outside of the lab that takes its place
        /// (docs/tutorials/own-core.md). The devices above have theirs.
        msix: Table(&MSIX) => Nothing;
    }

    /// A part of the kind `link`.
    pub(crate) PART_LINK "link-part" {
        /// link.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Generation that it trained to.
        generation: Whole(1, 6);
        /// Lanes that it trained to.
        width: OneOf(WIDTHS);
        /// Time of flight from one end to the other.
        flight_ns: Time;
        /// Probability that a bit arrives wrong.
        bit_error_rate: Share(0.1) => NONE;
        /// Time that a retraining stops both directions; needed where bits arrive wrong.
        retrain_ns: Time => Nothing;
        /// Whether SKP ordered sets are sent; only an ideal link has none (PCIe 3.1 4.2.7.1).
        skp: Truth => Is(1.0);
    }

    /// A part of the kind `torus-link`: a cable between two network processors with its
    /// transceivers (docs/torus-link.md).
    pub(crate) CABLE "torus-link" {
        /// torus-link.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Lanes.
        lanes: OneOf(&[1, 4, 8]);
        /// Bit rate of each lane, including the line code: 2.5 or 5.
        lane_gbit_per_s: Positive(1000.0);
        /// Line code of the lanes.
        line_code: Choice(&LineCode::WORDS) => Is(0.0);
        /// Time of a frame's last symbol from the logic of one end to that of the other.
        latency_ns: Time;
        /// Probability that a bit arrives wrong. Beyond its limit hardly any datagram gets through.
        bit_error_rate: Share(0.01) => NONE;
        /// Time from both ends being enabled, or the lanes returning, until the first datagrams.
        bring_up_ns: Time;
        /// Datagrams of each channel's receive buffer.
        channel_datagrams: Whole(1, MAX_CHANNEL_DATAGRAMS as u64);
        /// Most datagrams in flight without acknowledgement.
        retry_datagrams: Whole(1, MAX_RETRY_DATAGRAMS as u64);
        /// Datagrams of each channel's transmit queue.
        queue_datagrams: Whole(1, 0xff);
        /// Most datagrams that one acknowledgement covers.
        acknowledge_datagrams: Whole(1, 0xff);
        /// Longest time that an acknowledgement or a count waits for others.
        acknowledge_within_ns: Time;
        /// Time without acknowledgement after which datagrams are repeated.
        retry_timeout_ns: Time;
        /// Time after which COUNT is repeated, and at most NACK: first after a quarter of it.
        refresh_ns: Time;
    }

    /// A port of a switch, whose latencies are counted in the switch.
    pub(crate) SWITCH_PORT "switch-port" {
        /// Highest generation.
        max_generation: Whole(1, 6);
        /// Most lanes.
        max_width: OneOf(WIDTHS);
        /// Max_Payload_Size Supported, bytes.
        max_payload_bytes: PowerOfTwo(LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES);
        /// Whether it can have 256 tags; without, it has 32 (PCIe 6.x 2.2.6.2).
        extended_tags: Truth => NONE;
        /// Whether it can have 768 tags, of 10 bits.
        ten_bit_tags: Truth => NONE;
        /// Whether it can have more, of 14 bits, in FLIT mode.
        fourteen_bit_tags: Truth => NONE;
        /// Whether it can redirect peer-to-peer requests.
        acs: Truth => NONE;
        /// Receive buffer for headers of posted requests.
        posted_headers: WholeOrInfinite(1, MOST_HEADERS);
        /// Receive buffer for their data, in credits of 16 B.
        posted_data: WholeOrInfinite(1, MOST_DATA);
        /// Receive buffer for headers of non-posted requests.
        nonposted_headers: WholeOrInfinite(1, MOST_HEADERS);
        /// Receive buffer for their data, in credits of 16 B.
        nonposted_data: WholeOrInfinite(1, MOST_DATA);
        /// Receive buffer for headers of completions; a root complex and an endpoint advertise
        /// infinite ones (PCIe 6.x 2.6.1).
        completion_headers: WholeOrInfinite(1, MOST_HEADERS);
        /// Receive buffer for their data, in credits of 16 B.
        completion_data: WholeOrInfinite(1, MOST_DATA);
        /// Wire bytes of TLPs that wait for their Ack; at least those of one TLP.
        replay_buffer_bytes: WholeOrInfinite(LEAST_PAYLOAD_BYTES + TLP_OVERHEAD_BYTES, 1 << 24);
        /// TLPs for each Ack; infinite: by time only.
        ack_tlps: WholeOrInfinite(1, MOST_COALESCED);
        /// Longest wait of a TLP for its Ack; left out, the limit of the specification's table.
        ack_within_ns: Time => Nothing;
        /// TLPs for each UpdateFC; infinite: by time only.
        update_fc_tlps: WholeOrInfinite(1, MOST_COALESCED);
        /// Longest wait of credits for their UpdateFC; left out, the limit of the specification's
        /// table.
        update_fc_within_ns: Time => Nothing;
    }

    /// Limits of a switch's crossbar.
    pub(crate) CROSSBAR "crossbar" {
        ..CrossbarParameters;
    }

    /// A port of a root complex or an endpoint.
    pub(crate) PORT "port": SWITCH_PORT {
        /// Time from the last byte of a TLP on the wire to the logic behind the port.
        receive_latency_ns: Time;
        /// Time from the logic behind the port to the first byte on the wire.
        transmit_latency_ns: Time;
        /// Symbol times of the link that reception takes more: 4 ns each at generation 1, 2 ns at
        /// 2, 1 ns at 3, and half as long with each later one.
        receive_latency_symbols: Whole(0, MOST_LATENCY_SYMBOLS) => NONE;
        /// Symbol times of the link that transmission takes more.
        transmit_latency_symbols: Whole(0, MOST_LATENCY_SYMBOLS) => NONE;
    }

    /// The memory of a host.
    pub(crate) HOST_MEMORY "host-memory": COMPLETER {
        /// Read completion boundary, bytes.
        read_completion_boundary_bytes: OneOf(&[64, 128]);
    }

    /// The memory behind an endpoint's BARs.
    pub(crate) CARD_MEMORY_OF_BARS "endpoint-memory": COMPLETER {
        /// Read completion boundary, bytes: that of all completers but a root complex (PCIe 6.x
        /// 2.3.1.1).
        read_completion_boundary_bytes: OneOf(&[128]) => Is(128.0);
    }

    /// Host memory, or the memory behind a BAR.
    pub(crate) COMPLETER "memory" {
        ..CompleterParameters, without is_boundary;
    }

    /// Transfers between the root ports of a host.
    pub(crate) PEER_TO_PEER "peer_to_peer": PEERS_ACROSS {
        /// Whether what is longer than Max_Payload_Size of the port that it leaves by is cut (PCIe
        /// 6.x 1.3.1), also between sockets; false: its receiver refuses it.
        cuts_payloads: Truth => NONE;
        /// Length of the lines at which a read of a peer is cut, also between sockets; its
        /// completions are joined again. Left out: it is passed on whole.
        peer_read_split_bytes: PowerOfTwo(64, 4096) => Nothing;
        /// Lines that each root port reads at once; needs `peer_read_split_bytes`.
        peer_reads: Whole(2, MAX_PEER_READS as u64) => Is(MAX_PEER_READS as f64);
    }

    /// Transfers between root ports of different sockets.
    pub(crate) PEERS_ACROSS "hop.peer_to_peer" {
        /// Whether they are passed on; false: refused with Unsupported Request.
        allowed: Truth;
        /// Time from the last byte in to the first byte out; needed where they are passed on.
        latency_ns: Time => Nothing;
        /// Rate of their payload.
        gb_per_s: RateOrInfinite => UNLIMITED;
    }

    /// A last-level cache.
    pub(crate) CACHE "cache" {
        ..CacheParameters;
    }

    /// The way from one socket of a host to another.
    pub(crate) HOP "hop" {
        ..HopParameters;
        /// Transfers between root ports of different sockets. `latency_ns` is all of it, with the
        /// hop's; their payload counts against the hop's rate too.
        peer_to_peer: Table(&PEERS_ACROSS);
    }

    /// An IOMMU.
    pub(crate) IOMMU "iommu" {
        ..IommuParameters;
    }

    /// A processor: times on one core.
    pub(crate) CPU "cpu" {
        ..CpuParameters;
        /// Combining buffers; left out, stores to devices are not combined.
        combining: Table(&COMBINING) => Nothing;
        /// Store routines of a C library, for programs of a paper that call it.
        routines: Table(&ROUTINES) => Nothing;
    }

    /// Combining buffers of each core, of 64 B.
    pub(crate) COMBINING "combining" {
        ..CombiningParameters;
    }

    /// A C library storing into a BAR: a loop of 32-bit stores, and a copy routine with its choices
    /// by length.
    pub(crate) ROUTINES "routines" {
        /// Time of a call of the loop, without its stores.
        burst_call_ns: Time;
        /// Time of a call of the copy routine, without its stores.
        copy_call_ns: Time;
        /// Width of the copy's stores up to `copy_narrow_until_bytes`, bytes; none is wider than
        /// `widest_store_bytes`.
        copy_narrow_bytes: PowerOfTwo(1, MAX_STORE_BYTES as u64);
        /// The longest copy with narrow stores, bytes.
        copy_narrow_until_bytes: Whole(0, 1 << 32);
        /// Width of the stores of a longer copy, bytes.
        copy_wide_bytes: PowerOfTwo(1, MAX_STORE_BYTES as u64);
        /// Bytes at the end of a longer copy that are stored twice.
        copy_tail_bytes: Whole(0, 1 << 32);
        /// The shortest copy that uses a string instruction, bytes.
        copy_string_from_bytes: Whole(0, 1 << 32);
    }

    /// A base address register. One of 64 bits takes the next register too.
    pub(crate) BAR "bar" {
        /// Kind of addresses that it decodes.
        decodes: Choice(
            &["memory32", "memory32-prefetchable", "memory64", "memory64-prefetchable"]
        );
        /// Its size, bytes; up to 2 GiB of one of 32 bits.
        size_bytes: PowerOfTwo(MINIMUM_BAR_BYTES, 1 << 40);
    }

    /// The MSI-X capability of a core outside of the lab, which has the table and the pending bits.
    pub(crate) MSIX "msix" {
        /// Entries of the table.
        vectors: Whole(1, MAX_MSIX_VECTORS as u64);
        /// Number of the BAR with the table.
        table_bar: Whole(0, 5);
        /// Offset of the table in its BAR, bytes, a multiple of 8.
        table_offset_bytes: Whole(0, u32::MAX as u64);
        /// Number of the BAR with the pending bits.
        pending_bar: Whole(0, 5);
        /// Offset of the pending bits in their BAR, bytes, a multiple of 8.
        pending_offset_bytes: Whole(0, u32::MAX as u64);
    }

    /// The generator of an endpoint's requests. These constants are all that slows it, and those of
    /// an engine, NIC or network processor that have the same names here are these.
    pub(crate) REQUESTER "requester" {
        ..RequesterParameters;
    }

    /// The memory on an engine's card, with an AXI4 bus and DRAM.
    pub(crate) CARD_MEMORY "card_memory" {
        ..CardMemoryParameters;
    }

    /// A DMA engine (docs/engine.md). Its clock, datapath, idle clocks, tags, sizes, time-out and
    /// the gap after a descriptor are those of the table `requester`.
    pub(crate) ENGINE "engine" {
        ..EngineParameters, without is_requested;
    }

    /// A memory card (docs/memory-card.md).
    pub(crate) MEMORY_CARD "memory_card" {
        ..MemoryCardParameters;
    }

    /// A NIC (docs/nic.md). Its tags, sizes and time-out are those of the table `requester`.
    pub(crate) NIC "nic" {
        ..NicParameters, without is_requested;
    }

    /// A network processor (docs/network-processor.md). Its tags, sizes and time-out are those of
    /// the table `requester`.
    pub(crate) NETWORK_PROCESSOR "network_processor" {
        ..NetworkProcessorParameters, without is_requested;
    }

    /// A part of the kind `network`: a link between two NICs, the same each way.
    pub(crate) PART_NETWORK "network-part" {
        /// network.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Rate of packets, without the line code.
        rate_gb_per_s: Rate;
        ..NetworkParameters, without is_rate;
    }
}

/// Whether the table `requester` has the parameter of a device with this key.
fn is_requested(key: &'static str) -> bool {
    requester_key(key).is_some()
}

/// Whether the memory of a host and that of an endpoint have different bounds of this key.
fn is_boundary(key: &'static str) -> bool {
    key == "read_completion_boundary_bytes"
}

/// Whether `rate_gb_per_s` stands for the parameter of a network with this key.
fn is_rate(key: &'static str) -> bool {
    key == "bits_per_second"
}
