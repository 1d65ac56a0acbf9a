// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All tables of lab files with their keys.

use std::sync::LazyLock;

use crosslane_device::nic::{NetworkParameters, NicParameters};
use crosslane_device::{
    EngineParameters, MemoryCardParameters, network_processor::NetworkProcessorParameters,
};
use crosslane_fabric::{
    IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES, MAX_IO_WALKS, MAX_IOTLB_ENTRIES, MAX_STORE_BYTES,
};
use crosslane_pcie::config::MINIMUM_BAR_BYTES;
use crosslane_pcie::link::MAX_PAYLOAD_BYTES;
use crosslane_torus_link::end::{MAX_CHANNEL_DATAGRAMS, MAX_RETRY_DATAGRAMS};
use crosslane_torus_link::routing::MAX_NODES as MAX_TORUS_NODES;

use super::Absent::{Is, Nothing};
use super::Kind::{
    Choice, Identity, List, Name, Named, Number, Numbers, OneOf, Overrule, OverruleParts, PartKind,
    Parts, Positive, PowerOfTwo, Rate, RateOrInfinite, Sentence, Share, Table, Time, Truth, Whole,
    WholeOrInfinite, Wish,
};
use super::{Absent, Key, KeyTable, device_table, keys_of, tables};

/// Most credits of a pool; beyond the 2047 x 16 of scaled flow control.
const MOST_CREDITS: u64 = 1 << 16;
/// Bytes of a TLP beside its payload, in a replay buffer.
pub(crate) const TLP_OVERHEAD_BYTES: u64 = 24;
/// Smallest and largest Max_Payload_Size and Max_Read_Request_Size, bytes (PCIe 6.x 7.5.3.4).
const LEAST_PAYLOAD_BYTES: u64 = 128;
const MOST_PAYLOAD_BYTES: u64 = MAX_PAYLOAD_BYTES as u64;
/// Most TLPs covered by one Ack or UpdateFC: half of the 4096 sequence numbers (PCIe 6.x 3.6.2.1),
/// beyond which nothing could be sent.
const MOST_COALESCED: u64 = 2048;
/// Numbers of lanes of a link.
const WIDTHS: &[u64] = &[1, 2, 4, 8, 12, 16, 32];
/// Read-ahead of this project's gateware.
const READ_AHEAD_BYTES: f64 = 8192.0;
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
        /// A switch or an endpoint.
        lower: Name;
        /// A part of the kind `link`; left out, the constants are here.
        part: Name => Nothing;
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

    /// A part of the kind `root-complex`: root ports, memory and processor.
    pub(crate) PART_HOST "root-complex" {
        /// root-complex.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Vendor and device ID of each root port.
        identity: Identity;
        /// Host memory, bytes.
        memory_bytes: Whole(1 << 20, 1 << 44);
        /// Each root port.
        port: Table(&PORT);
        /// Host memory as a completer of requests.
        memory: Table(&HOST_MEMORY);
        /// Transfers between root ports.
        peer_to_peer: Table(&PEER_TO_PEER);
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
    }

    /// A part of the kind `link`.
    pub(crate) PART_LINK "link-part" {
        /// link.
        kind: PartKind;
        /// Description of the part.
        summary: Sentence => Nothing;
        /// Generation that it trained to.
        generation: Whole(1, 5);
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
        /// Bit rate of each lane, including 8b/10b: 2.5 or 5.
        lane_gbit_per_s: Positive(1000.0);
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
        /// Time after which NACK and COUNT are repeated.
        refresh_ns: Time;
    }

    /// A port of a switch, whose latencies are counted in the switch.
    pub(crate) SWITCH_PORT "switch-port" {
        /// Highest generation.
        max_generation: Whole(1, 5);
        /// Most lanes.
        max_width: OneOf(WIDTHS);
        /// Max_Payload_Size Supported, bytes.
        max_payload_bytes: PowerOfTwo(LEAST_PAYLOAD_BYTES, MOST_PAYLOAD_BYTES);
        /// Whether it can have 256 tags.
        extended_tags: Truth => NONE;
        /// Whether it can redirect peer-to-peer requests.
        acs: Truth => NONE;
        /// Receive buffer for headers of posted requests.
        posted_headers: WholeOrInfinite(1, MOST_CREDITS);
        /// Receive buffer for their data, in credits of 16 B.
        posted_data: WholeOrInfinite(1, MOST_CREDITS);
        /// Receive buffer for headers of non-posted requests.
        nonposted_headers: WholeOrInfinite(1, MOST_CREDITS);
        /// Receive buffer for their data, in credits of 16 B.
        nonposted_data: WholeOrInfinite(1, MOST_CREDITS);
        /// Receive buffer for headers of completions; a root complex and an endpoint advertise
        /// infinite ones (PCIe 6.x 2.6.1).
        completion_headers: WholeOrInfinite(1, MOST_CREDITS);
        /// Receive buffer for their data, in credits of 16 B.
        completion_data: WholeOrInfinite(1, MOST_CREDITS);
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

    /// A port of a root complex or an endpoint.
    pub(crate) PORT "port": SWITCH_PORT {
        /// Time from the last byte of a TLP on the wire to the logic behind the port.
        receive_latency_ns: Time;
        /// Time from the logic behind the port to the first byte on the wire.
        transmit_latency_ns: Time;
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
        /// Longest completion, bytes, at least the read completion boundary; never more than
        /// Max_Payload_Size.
        completion_bytes: PowerOfTwo(64, MOST_PAYLOAD_BYTES);
        /// Cuts of data into completions: each as long as possible, or at each multiple of
        /// `completion_bytes`.
        completion_cut: Choice(&["longest", "aligned"]);
        /// Share of the completions with a boundary inside them that are cut at each boundary.
        completion_single_share: Share(1.0) => NONE;
        /// Reads in service at once; others wait and hold their credits.
        read_slots: WholeOrInfinite(1, 1 << 16);
        /// Time from a read's arrival at the memory to its first data.
        read_latency_ns: Time;
        /// Width of a uniform part on top of it.
        read_jitter_ns: Time => NONE;
        /// Time that a rare read takes on top of it.
        read_tail_ns: Time => NONE;
        /// Share of the reads that are rare in that way.
        read_tail_probability: Share(1.0) => NONE;
        /// Time from a write's arrival at the memory until its data can be seen.
        write_latency_ns: Time;
        /// Rate of all reads together.
        read_gb_per_s: RateOrInfinite => UNLIMITED;
        /// Rate at which writes drain.
        write_gb_per_s: RateOrInfinite => UNLIMITED;
        /// Extra time of each write.
        write_overhead_ns: Time => NONE;
        /// Extra time of each memory line that a write covers in part.
        partial_line_ns: Time => Nothing;
        /// Length of a memory line, bytes; needed with `partial_line_ns`.
        line_bytes: PowerOfTwo(4, 4096) => Nothing;
    }

    /// Transfers between the root ports of a host.
    pub(crate) PEER_TO_PEER "peer_to_peer" {
        /// Whether they are passed on; false: refused with Unsupported Request.
        allowed: Truth;
        /// Time from the last byte in to the first byte out; needed where they are passed on.
        latency_ns: Time => Nothing;
        /// Rate of their payload.
        gb_per_s: RateOrInfinite => UNLIMITED;
    }

    /// An IOMMU.
    pub(crate) IOMMU "iommu" {
        /// Pages in its IOTLB, of any size, of all functions together.
        iotlb_entries: Whole(1, MAX_IOTLB_ENTRIES as u64);
        /// Extra time of every request.
        hit_ns: Time;
        /// Time of a table walk, where the page is not in the IOTLB.
        walk_ns: Time;
        /// Walks at once; others wait.
        walks: Whole(1, MAX_IO_WALKS as u64);
        /// Largest page, bytes.
        largest_page_bytes: OneOf(&[IO_PAGE_BYTES, IO_LARGE_PAGE_BYTES]);
        /// Time on a core for each page mapped or unmapped.
        map_page_ns: Time => NONE;
        /// Time on a core to invalidate unmapped pages.
        invalidate_ns: Time => NONE;
    }

    /// A processor: times on one core.
    pub(crate) CPU "cpu" {
        /// Cores.
        cores: Whole(1, 1024);
        /// Time from one uncached store to the next, at any width.
        uncached_store_ns: Time;
        /// Writes that may wait at the root port before a core stalls.
        store_queue: WholeOrInfinite(1, 1 << 16);
        /// Time of an uncached load beside its round trip.
        uncached_load_ns: Time;
        /// Time from an interrupt message at the root complex to the first instruction of its
        /// handler.
        interrupt_ns: Time;
        /// Whether all interrupts go to one core, each after the handler of the one before it has
        /// begun.
        interrupts_in_turn: Truth => NONE;
        /// Time of a system call, in and out.
        system_call_ns: Time;
        /// Period of a kernel that polls memory for a program; left out, it cannot poll.
        kernel_poll_ns: Time => Nothing;
        /// Time from a change that a core waits for with `monitor` and `mwait` to its next
        /// instruction; left out, the core lacks them.
        monitor_wake_ns: Time => Nothing;
        /// Time to pin a page of 4 KiB.
        pin_page_ns: Time;
        /// Time of the first write to a page of 4 KiB.
        touch_page_ns: Time => NONE;
        /// Rate of a copy by one core.
        copy_gb_per_s: RateOrInfinite => UNLIMITED;
        /// Widest store, bytes.
        widest_store_bytes: PowerOfTwo(8, MAX_STORE_BYTES as u64) => Is(MAX_STORE_BYTES as f64);
        /// Combining buffers; left out, stores to devices are not combined.
        combining: Table(&COMBINING) => Nothing;
        /// Store routines of a C library, for programs of a paper that call it.
        routines: Table(&ROUTINES) => Nothing;
    }

    /// Combining buffers of each core, of 64 B.
    pub(crate) COMBINING "combining" {
        /// Buffers.
        buffers: Whole(1, 64);
        /// Time from one store into a buffer to the next.
        store_ns: Time;
        /// Time of a fence beside emptying the buffers.
        fence_ns: Time;
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

    /// The generator of an endpoint's requests. These constants are all that slows it, and those of
    /// an engine, NIC or network processor that have the same names here are these.
    pub(crate) REQUESTER "requester" {
        /// Tags: reads in flight.
        tags: Whole(1, 1024);
        /// Longest payload of a write that it can build, bytes.
        max_write_bytes: PowerOfTwo(4, MOST_PAYLOAD_BYTES);
        /// Longest read that it can request, bytes.
        max_read_bytes: PowerOfTwo(4, MOST_PAYLOAD_BYTES);
        /// Bytes per clock of its stream to the link core, headers and payload; left out, without
        /// limit. An engine needs it.
        datapath_bytes: Whole(1, 1024) => Nothing;
        /// Period of that stream's clock; needed with `datapath_bytes`.
        clock_ns: Time => Nothing;
        /// Clocks of each TLP without data, beside header and payload; with `datapath_bytes` only.
        idle_clocks_per_tlp: Whole(0, 1 << 16) => NONE;
        /// Extra time of each TLP.
        tlp_gap_ns: Time => NONE;
        /// Extra time after each operation; of an engine, after each descriptor.
        operation_gap_ns: Time => NONE;
        /// Least time from the start of a write operation to the next.
        write_interval_ns: Time => NONE;
        /// Least time from the start of a read operation to the next.
        read_interval_ns: Time => NONE;
        /// Time from the post of a write operation to its first TLP.
        write_start_ns: Time => NONE;
        /// Time from the post of a read operation to its first TLP.
        read_start_ns: Time => NONE;
        /// Time from the last byte of a read until its completion is seen.
        read_finish_ns: Time => NONE;
        /// Rate of a copy inside the card, before a write and after a read.
        copy_gb_per_s: RateOrInfinite => UNLIMITED;
        /// Time after which an unanswered read fails.
        completion_timeout_ns: Time;
    }

    /// The memory on an engine's card, with an AXI4 bus and DRAM.
    pub(crate) CARD_MEMORY "card_memory" {
        /// Size, bytes.
        memory_bytes: PowerOfTwo(4096, 1 << 40);
        /// Bytes of the AXI data bus.
        axi_bytes: PowerOfTwo(1, 128);
        /// AXI clock period, up to 1 us. Each clock carries a beat.
        axi_clock_ns: Time;
        /// Longest AXI burst in beats; a burst is never longer than 4 KiB.
        burst_beats: PowerOfTwo(1, 256);
        /// Most bytes that C2H reads ahead, at least a burst.
        read_ahead_bytes: PowerOfTwo(1, 1 << 20) => Is(READ_AHEAD_BYTES);
        /// Time from an AXI read to its first data, without the DRAM's transfers.
        read_latency_ns: Time;
        /// Time from the last beat of a write to its confirmation.
        write_latency_ns: Time;
        /// Whether transfers over PCI Express and to memory overlap, as in this project's engine,
        /// or a burst is read whole and then written.
        copying: Choice(&["overlapped", "in-turn"]);
        /// AXI clocks between reading and writing a burst; needed with `in-turn`.
        turnaround_clocks: Whole(0, 1024) => Nothing;
        /// DRAM channels: each has an equal part of the addresses, one behind the other.
        dram_channels: PowerOfTwo(1, 16) => Is(1.0);
        /// Bytes of one channel's data bus.
        dram_bus_bytes: PowerOfTwo(1, 128);
        /// Clock period, up to 1 us. Each clock makes two transfers.
        dram_clock_ns: Time;
        /// Transfers of a burst.
        dram_burst_transfers: PowerOfTwo(2, 64);
        /// Bytes of a row over the whole bus, at least a burst.
        dram_row_bytes: PowerOfTwo(1, 1 << 20);
        /// Time to change rows, up to 1 us and a quarter of the refresh interval.
        dram_row_change_ns: Time;
        /// Time from one refresh to the next, 100 ns to 1 s; 0: none.
        dram_refresh_interval_ns: Time => NONE;
        /// Time of a refresh, up to half of that.
        dram_refresh_ns: Time => NONE;
    }
}

device_table! {
    /// A DMA engine (docs/engine.md). Its clock, datapath, idle clocks, tags, sizes, time-out and
    /// the gap after a descriptor are those of the table `requester`.
    ENGINE "engine": EngineParameters
}
device_table! {
    /// A memory card (docs/memory-card.md).
    MEMORY_CARD "memory_card": MemoryCardParameters
}
device_table! {
    /// A NIC (docs/nic.md). Its tags, sizes and time-out are those of the table `requester`.
    NIC "nic": NicParameters
}
device_table! {
    /// A network processor (docs/network-processor.md). Its tags, sizes and time-out are those of
    /// the table `requester`.
    NETWORK_PROCESSOR "network_processor": NetworkProcessorParameters
}

/// A part of the kind `network`.
pub(crate) static PART_NETWORK: KeyTable = KeyTable {
    name: "network-part",
    words: "A part of the kind `network`: a link between two NICs, the same each way.",
    keys: || {
        static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
            let key = |name, kind, absent, words| Key { name, kind, absent, words };
            let rate = "Rate of packets, without the line code.";
            let mut keys = vec![
                key("kind", PartKind, Absent::Error, "network."),
                key("summary", Sentence, Nothing, "Description of the part."),
                key("rate_gb_per_s", Rate, Absent::Error, rate),
            ];
            let own = keys_of::<NetworkParameters>().into_iter();
            keys.extend(own.filter(|key| key.name != "bits_per_second"));
            keys
        });
        &KEYS
    },
    also: None,
};
