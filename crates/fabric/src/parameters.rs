// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Constants of the parts of a fabric: links, ports, switches, root complexes, memories, processors
//! and generic endpoints. Values come from a lab file; the only defaults in code mean "off" or
//! "unlimited".

use crosslane_pcie::config::{BarRequest, Capability, Identity};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;

/// When a receiver sends a DLLP for several TLPs (Ack, UpdateFC): after `tlps` TLPs, or when the
/// oldest has waited for `within`, whichever comes first.
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
    /// When the port acknowledges.
    pub ack: Coalescing,
    /// When the port returns credits. They also return at once when less than one largest TLP is
    /// left.
    pub update_fc: Coalescing,
    /// Time from the last byte of a TLP on the wire to the logic behind the port. Switches include
    /// theirs in [`SwitchParameters::latency`].
    pub receive_latency: Picoseconds,
    /// Time from the logic behind the port to the first byte on the wire.
    pub transmit_latency: Picoseconds,
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

/// When a switch passes a TLP on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// Once its header has arrived, but late enough that a faster egress link does not run out of
    /// bytes.
    CutThrough,
    /// Once its last byte has arrived.
    StoreAndForward,
}

/// Constants of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchParameters {
    /// Time from the header's last byte in (cut-through) or the TLP's last byte in
    /// (store-and-forward) to the first byte out, without competing traffic.
    pub latency: Picoseconds,
    /// Cut-through or store-and-forward.
    pub forwarding: Forwarding,
}

/// A latency with a distribution: `base`, plus a uniform part up to `jitter`, plus `tail` with a
/// small probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Shortest latency.
    pub base: Picoseconds,
    /// Width of the uniform part added to `base`.
    pub jitter: Picoseconds,
    /// Probability of the tail, 0 to 1.
    pub tail_probability: f64,
    /// Latency that the tail adds.
    pub tail: Picoseconds,
}

impl Latency {
    /// A latency that is always `base`.
    pub const fn fixed(base: Picoseconds) -> Self {
        Self { base, jitter: Picoseconds::ZERO, tail_probability: 0.0, tail: Picoseconds::ZERO }
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

/// A completer of reads and writes: memory behind a root complex or inside an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompleterParameters {
    /// Read completion boundary, bytes: 64 or 128 for a root complex, 128 for all others.
    pub read_completion_boundary_bytes: u32,
    /// Longest completion, bytes (never more than the port's Max_Payload_Size).
    pub completion_bytes: u32,
    /// Positions of the cuts.
    pub completion_cut: CompletionCut,
    /// Share, 0 to 1, of the completions with a read completion boundary inside them that are cut
    /// at each boundary, spread evenly ([`SingleUnits`](crosslane_pcie::split::SingleUnits)).
    pub completion_single_share: f64,
    /// Reads in service at once; others wait and hold their credits.
    pub read_slots: u32,
    /// Time from the arrival of a read at the memory to its first data.
    pub read_latency: Latency,
    /// Time from the arrival of a write at the memory until its data are visible.
    pub write_latency: Picoseconds,
    /// Bytes per second for all reads together; `f64::INFINITY` for unlimited.
    pub read_bytes_per_second: f64,
    /// Bytes per second at which writes drain; `f64::INFINITY` for unlimited.
    pub write_bytes_per_second: f64,
    /// Extra time for each write TLP.
    pub write_overhead: Picoseconds,
    /// Extra time for each memory line that a write covers only in part (read, modify, write).
    pub partial_line: Picoseconds,
    /// Length of a memory line in bytes, a power of two.
    pub line_bytes: u32,
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

/// Costs of a processor, as time on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuParameters {
    /// Number of cores, at least 1.
    pub cores: u16,
    /// Time from one uncached store to the next on one core, at any width.
    pub uncached_store: Picoseconds,
    /// Writes that may wait at the root port before a core stalls or a combining buffer stays
    /// occupied.
    pub store_queue: u32,
    /// Time of an uncached load in addition to its round trip.
    pub uncached_load: Picoseconds,
    /// Time from an interrupt message at the root complex to the first instruction of its handler.
    pub interrupt: Picoseconds,
    /// Whether interrupts are handled in turn, all on one core: each waits until the handler of the
    /// previous one has begun, and takes its time from then.
    pub interrupts_in_turn: bool,
    /// Time of one system call, in and out.
    pub system_call: Picoseconds,
    /// Period of a kernel that polls memory; `None` if it cannot poll.
    pub kernel_poll: Option<Picoseconds>,
    /// Time from a change that a core waits for with `monitor` and `mwait` to its next instruction;
    /// `None` if the core lacks them.
    pub monitor_wake: Option<Picoseconds>,
    /// Time to pin one 4 KiB page.
    pub pin_page: Picoseconds,
    /// Time of the first write to one 4 KiB page.
    pub touch_page: Picoseconds,
    /// Bytes per second that one core copies.
    pub copy_bytes_per_second: f64,
    /// Widest store, bytes.
    pub widest_store_bytes: u32,
    /// Combining buffers; `None` if stores to devices cannot use any.
    pub combining: Option<CombiningParameters>,
}

/// Combining buffers of each core, of 64 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombiningParameters {
    /// Number of buffers, at least 1.
    pub buffers: u16,
    /// Time from one store into a buffer to the next.
    pub store: Picoseconds,
    /// Time of a fence in addition to emptying the buffers.
    pub fence: Picoseconds,
}

/// An IOMMU, which translates the addresses of all requests that reach the root complex from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IommuParameters {
    /// Pages in its IOTLB, of any size and all functions together.
    pub iotlb_entries: u32,
    /// Extra time of every request, even with a hit in the IOTLB.
    pub hit: Picoseconds,
    /// Time of a table walk after a miss.
    pub walk: Picoseconds,
    /// Walks at once, at least 1; others wait.
    pub walks: u32,
    /// Largest page: [`IO_PAGE_BYTES`](crate::IO_PAGE_BYTES) or
    /// [`IO_LARGE_PAGE_BYTES`](crate::IO_LARGE_PAGE_BYTES).
    pub largest_page_bytes: u64,
    /// Time on a core for the table entry of each page mapped or unmapped.
    pub map_page: Picoseconds,
    /// Time on a core to invalidate unmapped pages in the IOTLB.
    pub invalidate: Picoseconds,
}

/// A root complex with its memory and processor.
#[derive(Clone, Debug, PartialEq)]
pub struct RootComplexParameters {
    /// Host memory in bytes, from address 0 (with a hole for 32-bit BARs below 4 GiB).
    pub memory_bytes: u64,
    /// Constants of the memory as a completer.
    pub completer: CompleterParameters,
    /// Transfers between root ports.
    pub peer_to_peer: PeerToPeer,
    /// Translation of device addresses; `None` if devices use memory addresses directly.
    pub iommu: Option<IommuParameters>,
    /// Constants of the processor.
    pub cpu: CpuParameters,
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

/// Engine of the generic requester. These constants are all that slows it; an ideal one has zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequesterParameters {
    /// Tags: reads in flight, 1 to 1024.
    pub tags: u16,
    /// Longest write payload that the engine can build, bytes, a power of two.
    pub max_write_bytes: u32,
    /// Longest read that the engine can request, bytes, a power of two.
    pub max_read_bytes: u32,
    /// Datapath: bytes per clock of the stream to the link core; 0 for unlimited.
    pub datapath_bytes: u32,
    /// Period of that stream's clock.
    pub clock: Picoseconds,
    /// Clocks per TLP without data, in addition to header and payload.
    pub idle_clocks_per_tlp: u32,
    /// Extra time of each TLP on the datapath.
    pub tlp_gap: Picoseconds,
    /// Extra time after each operation.
    pub operation_gap: Picoseconds,
    /// Least time from the start of one write operation to the next.
    pub write_interval: Picoseconds,
    /// Least time from the start of one read operation to the next.
    pub read_interval: Picoseconds,
    /// Time from the post of a write operation to its first TLP.
    pub write_start: Picoseconds,
    /// Time from the post of a read operation to its first TLP.
    pub read_start: Picoseconds,
    /// Time from the last byte of a read at the engine until its completion is seen.
    pub read_finish: Picoseconds,
    /// Rate of a copy inside the device before a write and after a read, bytes per second, in
    /// addition to the link's time; `f64::INFINITY` for none.
    pub copy_bytes_per_second: f64,
    /// Time after which an unanswered read fails.
    pub completion_timeout: Picoseconds,
}
