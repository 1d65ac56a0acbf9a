// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of the parts of a fabric: links, ports, switches, root complexes, memories, processors
//! and generic endpoints. Values come from a lab file; the only defaults in code mean "off" or
//! "unlimited".

mod declare;

use crosslane_pcie::config::{BarRequest, Capability, Identity};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::{Generation, LinkRate, MAX_PAYLOAD_BYTES};
use crosslane_pcie::units::Picoseconds;

pub use self::declare::{
    Absent, Name, Number, Parameter, ParameterError, ParameterKind, Parameters, Value, one_of,
    power_of_two, within,
};
use crate::flow_state::{MAX_LOADS_IN_FLIGHT, MAX_STORE_BYTES};
use crate::iommu::{IO_LARGE_PAGE_BYTES, IO_PAGE_BYTES, MAX_IO_WALKS, MAX_IOTLB_ENTRIES};
use crate::parameters;

/// Rule for sending a DLLP for several TLPs (Ack, UpdateFC): after `tlps` TLPs, or when the oldest
/// has waited for `within`, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// TLPs per DLLP, at least 1.
    pub tlps: u32,
    /// Longest wait of the oldest TLP; `None` takes the limit of the specification's table for the
    /// link's rate, width and Max_Payload_Size.
    pub within: Option<Picoseconds>,
}

impl Coalescing {
    /// Sends one DLLP per TLP, at once.
    pub const EVERY_TLP: Self = Self { tlps: 1, within: None };
}

/// One port: its receive buffer, replay buffer, and rules for Acks and credits.
#[derive(Clone, Debug, PartialEq)]
pub struct PortParameters {
    /// Capabilities in its configuration space.
    pub capability: Capability,
    /// Receive buffer, advertised as credits: posted, non-posted, completion. A pool of
    /// [`Credits::INFINITE`] never blocks.
    pub receive_credits: [Credits; 3],
    /// Wire bytes of TLPs that may wait for their Ack; `u32::MAX` for unlimited.
    pub replay_buffer_bytes: u32,
    /// Rule for Acks.
    pub ack: Coalescing,
    /// Rule for returning credits. They also return at once when less than one largest TLP is left.
    pub update_fc: Coalescing,
    /// Time from the last byte of a TLP on the wire to the logic behind the port. Switches include
    /// theirs in [`SwitchParameters::latency`].
    pub receive_latency: Picoseconds,
    /// Time from the logic behind the port to the first byte on the wire.
    pub transmit_latency: Picoseconds,
    /// Symbol times of the link that `receive_latency` takes more: stages that run at the clock of
    /// the lanes, which follows the generation that the link trained to.
    pub receive_symbols: u32,
    /// Symbol times of the link that `transmit_latency` takes more.
    pub transmit_symbols: u32,
}

impl PortParameters {
    /// Returns the time from the last byte of a TLP on a link of a generation to the logic.
    pub const fn receive_latency_at(&self, generation: Generation) -> Picoseconds {
        Picoseconds(self.receive_latency.0 + self.receive_symbols as u64 * generation.symbol_ps())
    }

    /// Returns the time from the logic to the first byte on a link of a generation.
    pub const fn transmit_latency_at(&self, generation: Generation) -> Picoseconds {
        Picoseconds(self.transmit_latency.0 + self.transmit_symbols as u64 * generation.symbol_ps())
    }
}

/// One link between two ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkParameters {
    /// Rate and width that the link trained to.
    pub rate: LinkRate,
    /// Time of flight from one end to the other.
    pub flight: Picoseconds,
    /// Probability that a bit arrives wrong, 0 for a clean link. LCRC or the DLLP's CRC finds every
    /// wrong bit.
    pub bit_error_rate: f64,
    /// Time that a retraining (REPLAY_NUM roll-over) stops both directions.
    pub retrain: Picoseconds,
    /// Whether SKP ordered sets are sent.
    pub skp: bool,
}

/// Time at which a switch passes a TLP on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Once its header has arrived, but late enough that a faster egress link does not run out of
    /// bytes.
    CutThrough,
    /// Once its last byte has arrived.
    StoreAndForward,
}

/// Constants of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchParameters {
    /// Time from the header's last byte in (cut-through) or the TLP's last byte in
    /// (store-and-forward) to the first byte out, without competing traffic.
    pub latency: Picoseconds,
    /// Cut-through or store-and-forward.
    pub forwarding: Forwarding,
    /// Limits of what passes from port to port; `None` if the links alone limit it.
    pub crossbar: Option<CrossbarParameters>,
}

parameters! {
    /// Limits of a switch's crossbar, which all TLPs from port to port pass.
    CrossbarParameters {
        /// Rate of all TLPs together, headers and payload.
        bytes_per_second: f64 [rate, "gb_per_s"],
        /// Least time from one TLP to the next, of all ports together.
        tlp_interval: Picoseconds [any; 0],
        /// Least time from one TLP that a port received to the next, whichever ports they leave by.
        port_tlp_interval: Picoseconds [any; 0],
    }
}

/// Cuts of read data into completions, within the rules of the read completion boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionCut {
    /// Each completion as long as possible.
    Longest,
    /// Cut at each address multiple of the completion size.
    Aligned,
}

impl Number for CompletionCut {
    const KIND: ParameterKind = ParameterKind::Choice(&["longest", "aligned"]);

    fn value(self) -> Value {
        Value::Whole(self as u64)
    }

    fn of(value: Value) -> Self {
        if value == Value::Whole(0) { Self::Longest } else { Self::Aligned }
    }
}

impl CompleterParameters {
    /// Longest completion of a read of `total` bytes, as far as Max_Payload_Size allows.
    pub const fn longest_completion(&self, total: u32) -> u32 {
        let is_short = self.short_read_bytes > 0 && total <= self.short_read_bytes;
        if is_short { self.short_completion_bytes } else { self.completion_bytes }
    }

    /// Whether the latency of reads is drawn at random.
    pub fn is_random(&self) -> bool {
        self.read_jitter.0 > 0 || self.read_tail_probability > 0.0
    }
}

parameters! {
    /// A completer of reads and writes: memory behind a root complex or inside an endpoint.
    CompleterParameters {
        /// Read completion boundary, bytes: 64 or 128 for a root complex, 128 for all others.
        read_completion_boundary_bytes: u32 [one of, &[64, 128]],
        /// Longest completion, bytes, at least the read completion boundary; never more than
        /// Max_Payload_Size.
        completion_bytes: u32 [power of two, 64, MAX_PAYLOAD_BYTES as u64],
        /// Cuts of data into completions: each as long as possible, or at each multiple of
        /// `completion_bytes`.
        completion_cut: CompletionCut [any],
        /// Longest read that is answered with completions of `short_completion_bytes`; left out,
        /// none is.
        short_read_bytes: u32 [or zero, 1, 4096],
        /// Longest completion of such a read, bytes, at least the read completion boundary.
        short_completion_bytes: u32 [or zero, power of two, 64, MAX_PAYLOAD_BYTES as u64],
        /// Share of the completions with a boundary inside them that are cut at each boundary.
        completion_single_share: f64 [share, 1.0],
        /// Reads in service at once; others wait and hold their credits.
        read_slots: u32 [or infinite, 1, 1 << 16],
        /// Time from a read's arrival at the memory to its first data.
        read_latency: Picoseconds [any],
        /// Width of a uniform part on top of it.
        read_jitter: Picoseconds [any; 0],
        /// Time that a rare read takes on top of it.
        read_tail: Picoseconds [any; 0],
        /// Share of the reads that are rare in that way.
        read_tail_probability: f64 [share, 1.0],
        /// Time from a write's arrival at the memory until its data can be seen.
        write_latency: Picoseconds [any],
        /// Rate of all reads together.
        read_bytes_per_second: f64 [rate, "read_gb_per_s"],
        /// Rate at which writes drain.
        write_bytes_per_second: f64 [rate, "write_gb_per_s"],
        /// Extra time of each write.
        write_overhead: Picoseconds [any; 0],
        /// Extra time of each memory line that a write covers in part.
        partial_line: Picoseconds [or zero, any],
        /// Length of a memory line, bytes; needed with `partial_line_ns`.
        line_bytes: u32 [or zero, power of two, 4, 4096],
    }
}

/// Transfers between root ports of one root complex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PeerToPeer {
    /// Refused with Unsupported Request.
    Forbidden,
    /// Passed on after `latency` at up to `bytes_per_second`.
    Allowed {
        /// Time from the last byte in to the earliest first byte out.
        latency: Picoseconds,
        /// Payload bytes per second; `f64::INFINITY` for unlimited.
        bytes_per_second: f64,
    },
}

impl PeerToPeer {
    /// Returns the latency; none where they are refused.
    pub(crate) fn latency(self) -> Picoseconds {
        match self {
            Self::Forbidden => Picoseconds::ZERO,
            Self::Allowed { latency, .. } => latency,
        }
    }
}

/// Reads of peers that a root complex cuts and joins again (`docs/hosts.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReadParameters {
    /// Length of the lines at which they are cut, bytes: a power of two from 64 to 4096.
    pub split_bytes: u32,
    /// Lines that each root port reads at once, 2 to [`MAX_PEER_READS`](crate::MAX_PEER_READS),
    /// from the request until the data have been passed on; further ones wait.
    pub at_once: u16,
}

parameters! {
    /// Costs of a processor, as time on one core.
    CpuParameters {
        /// Cores.
        cores: u16 [1, 1024],
        /// Time from one uncached store to the next, at any width.
        uncached_store: Picoseconds [any],
        /// Writes that may wait at the root port before a core stalls.
        store_queue: u32 [or infinite, 1, 1 << 16],
        /// Time of an uncached load beside its round trip.
        uncached_load: Picoseconds [any],
        /// Uncached loads of generic flows that a core has in flight at once: one where uncached
        /// memory is strongly ordered, as on x86. Programs of the lab wait for each of theirs.
        loads_in_flight: u16 [1, MAX_LOADS_IN_FLIGHT; 1],
        /// Time from an interrupt message at the root complex to the first instruction of its
        /// handler.
        interrupt: Picoseconds [any],
        /// Whether all interrupts go to one core, each after the handler of the one before it has
        /// begun.
        interrupts_in_turn: bool [any; 0],
        /// Time of a system call, in and out.
        system_call: Picoseconds [any],
        /// Period of a kernel that polls memory for a program; left out, it cannot poll.
        kernel_poll: Picoseconds [or none, any],
        /// Time from a change that a core waits for with `monitor` and `mwait` to its next
        /// instruction; left out, the core lacks them.
        monitor_wake: Picoseconds [or none, any],
        /// Time to pin a page of 4 KiB.
        pin_page: Picoseconds [any],
        /// Time of the first write to a page of 4 KiB.
        touch_page: Picoseconds [any; 0],
        /// Rate of a copy by one core.
        copy_bytes_per_second: f64 [rate, "copy_gb_per_s"],
        /// Widest store, bytes.
        widest_store_bytes: u32 [power of two, 8, MAX_STORE_BYTES as u64; MAX_STORE_BYTES],
        ;
        /// Combining buffers; `None` if stores to devices cannot use any.
        combining: CombiningParameters,
    }
}

parameters! {
    /// Combining buffers of each core, of 64 B.
    CombiningParameters {
        /// Buffers.
        buffers: u16 [1, 64],
        /// Time from one store into a buffer to the next.
        store: Picoseconds [any],
        /// Time of a fence beside emptying the buffers.
        fence: Picoseconds [any],
        /// Lines that a core has in flight at once by streaming loads (MOVNTDQA), which read whole
        /// lines of write-combined memory; 0: it has no such loads.
        streaming_loads: u16 [0, MAX_LOADS_IN_FLIGHT; 0],
    }
}

parameters! {
    /// An IOMMU, which translates the addresses of all requests that reach the root complex from
    /// below.
    IommuParameters {
        /// Pages in its IOTLB, of any size, of all functions together.
        iotlb_entries: u32 [1, MAX_IOTLB_ENTRIES as u64],
        /// Extra time of every request.
        hit: Picoseconds [any],
        /// Time of a table walk, where the page is not in the IOTLB.
        walk: Picoseconds [any],
        /// Walks at once; others wait.
        walks: u32 [1, MAX_IO_WALKS as u64],
        /// Largest page, bytes.
        largest_page_bytes: u64 [one of, &[IO_PAGE_BYTES, IO_LARGE_PAGE_BYTES]],
        /// Whether reads leave it in the order in which they came to their root port, so that one
        /// that walks holds up those behind it; false: they pass each other.
        reads_in_order: bool [any; 0],
        /// Time on a core for each page mapped or unmapped.
        map_page: Picoseconds [any; 0],
        /// Time on a core to invalidate unmapped pages.
        invalidate: Picoseconds [any; 0],
    }
}

parameters! {
    /// The last-level cache between a root complex and its memory, in lines of 64 B.
    CacheParameters {
        /// Size, bytes.
        bytes: u64 [1 << 12, 1 << 36],
        /// Ways of each set.
        ways: u16 [1, 64],
        /// Ways of each set in which writes of devices may allocate; all, if it has no more.
        device_ways: u16 [1, 64],
        /// Extra time of a read that finds a line missing, and of a write before which a line has
        /// to be read or written back.
        miss: Picoseconds [any],
        /// Rate of the memory behind it, of all lines read and written back together.
        memory_bytes_per_second: f64 [rate, "memory_gb_per_s"],
        /// Whether what programs on the host have written is in it, as far as there is room; false:
        /// it was pushed out before devices read it.
        warm: bool [any; 1],
    }
}

parameters! {
    /// The way from one socket of a host to another, the same for each pair.
    HopParameters {
        /// Time that a request or a completion takes from one socket to the other, beside all that
        /// it takes within one.
        latency: Picoseconds [any],
        /// Rate of all payload from one socket to the other; the way back has as much.
        bytes_per_second: f64 [rate, "gb_per_s"],
    }
}

/// Sockets of a host that has several. All are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketParameters {
    /// Number of sockets, 2 to [`MAX_SOCKETS`](crate::MAX_SOCKETS).
    pub count: u16,
    /// The way from each to each other one.
    pub hop: HopParameters,
    /// Transfers between root ports of different sockets. The latency is all of it, with the hop's.
    pub peer_to_peer: PeerToPeer,
}

/// A root complex with its memory and processor.
#[derive(Clone, Debug, PartialEq)]
pub struct RootComplexParameters {
    /// Host memory in bytes, from address 0 (with a hole for 32-bit BARs below 4 GiB); of several
    /// sockets, that of each, which is whole pages of 4 KiB.
    pub memory_bytes: u64,
    /// Constants of the memory, or of each socket's, as a completer.
    pub completer: CompleterParameters,
    /// Transfers between root ports, or between those of one socket; pairs may differ
    /// ([`Fabric::set_peers`](crate::Fabric::set_peers)).
    pub peer_to_peer: PeerToPeer,
    /// The last-level cache, or that of each socket; `None` if every request takes as long as its
    /// memory's constants say.
    pub cache: Option<CacheParameters>,
    /// Whether it cuts what it passes on to the Max_Payload_Size of the port that it leaves by
    /// (PCIe 6.x 1.3.1); if not, a receiver refuses what is longer than its own.
    pub cuts_peers: bool,
    /// How reads are cut that are passed on from one root port to another; `None` if they are
    /// passed on whole.
    pub peer_reads: Option<PeerReadParameters>,
    /// Translation of device addresses, by each socket; `None` if devices use memory addresses
    /// directly.
    pub iommu: Option<IommuParameters>,
    /// Constants of the processor, or of each socket's.
    pub cpu: CpuParameters,
    /// Sockets, if there are several.
    pub sockets: Option<SocketParameters>,
}

impl RootComplexParameters {
    /// Returns the number of sockets.
    pub fn socket_count(&self) -> u16 {
        self.sockets.map_or(1, |sockets| sockets.count)
    }
}

/// A generic endpoint: a requester that moves data by flows, and a completer with memory behind its
/// BARs.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointParameters {
    /// Identification in its configuration space.
    pub identity: Identity,
    /// BARs; all of them are memory with real bytes.
    pub bars: [Option<BarRequest>; 6],
    /// Constants of its memory.
    pub completer: CompleterParameters,
    /// Constants of its requester.
    pub requester: RequesterParameters,
}

parameters! {
    /// Engine of the generic requester. These constants are all that slows it; an ideal one has
    /// zeros.
    RequesterParameters {
        /// Tags: reads in flight.
        tags: u16 [1, 1024],
        /// Longest payload of a write that it can build, bytes.
        max_write_bytes: u32 [power of two, 4, MAX_PAYLOAD_BYTES as u64],
        /// Longest read that it can request, bytes.
        max_read_bytes: u32 [power of two, 4, MAX_PAYLOAD_BYTES as u64],
        /// Bytes per clock of its stream to the link core, headers and payload; left out, without
        /// limit. An engine needs it.
        datapath_bytes: u32 [or zero, 1, 1024],
        /// Period of that stream's clock; needed with `datapath_bytes`.
        clock: Picoseconds [or zero, any],
        /// Clocks of each TLP without data, beside header and payload; with `datapath_bytes` only.
        idle_clocks_per_tlp: u32 [cost, 0, 1 << 16; 0],
        /// Extra time of each TLP.
        tlp_gap: Picoseconds [any; 0],
        /// Extra time after each operation; of an engine, after each descriptor.
        operation_gap: Picoseconds [any; 0],
        /// Least time from the start of a write operation to the next, of all flows of the card.
        write_interval: Picoseconds [any; 0],
        /// Least time from the start of a read operation to the next, of all flows of the card.
        read_interval: Picoseconds [any; 0],
        /// Time from the post of a write operation to its first TLP.
        write_start: Picoseconds [any; 0],
        /// Time from the post of a read operation to its first TLP.
        read_start: Picoseconds [any; 0],
        /// Time from the last byte of a read until its completion is seen.
        read_finish: Picoseconds [any; 0],
        /// Rate of a copy inside the card, before a write and after a read.
        copy_bytes_per_second: f64 [rate, "copy_gb_per_s"],
        /// Rate at which it asks for data, of all its flows together: what a copy engine reads.
        read_bytes_per_second: f64 [rate, "read_gb_per_s"],
        /// Rate at which it sends data, of all its flows together: what a copy engine writes.
        write_bytes_per_second: f64 [rate, "write_gb_per_s"],
        /// Time after which an unanswered read fails.
        completion_timeout: Picoseconds [any],
    }
}
