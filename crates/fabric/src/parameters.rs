// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a fabric is built from: the constants of links, ports, switches, root complexes, memories,
//! processors and generic endpoints. Values come from a lab file; none has a default in code
//! but those that mean "off" or "without limit".

use crosslane_pcie::config::{BarRequest, Capability, Identity};
use crosslane_pcie::credits::Credits;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;

/// When a receiver sends a DLLP that sums up several TLPs (Ack, UpdateFC): after so many TLPs, or
/// when the oldest has waited so long, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// After this many TLPs, at least 1.
    pub tlps: u32,
    /// Longest wait of the oldest; `None` takes the limit of the specification's table for the
    /// link's rate, width and Max_Payload_Size.
    pub within: Option<Picoseconds>,
}

impl Coalescing {
    /// One DLLP for every TLP, at once.
    pub const EVERY_TLP: Self = Self { tlps: 1, within: None };
}

/// One port: its receive buffer, its replay buffer and its habits.
#[derive(Clone, Debug, PartialEq)]
pub struct PortParameters {
    /// What it is able to do, as its configuration space says.
    pub capability: Capability,
    /// Receive buffer, advertised as credits: posted, non-posted, completion. A pool of
    /// [`Credits::INFINITE`] never blocks.
    pub receive_credits: [Credits; 3],
    /// Wire bytes of TLPs that may wait for their Ack; `u32::MAX` for no limit.
    pub replay_buffer_bytes: u32,
    /// When it acknowledges.
    pub ack: Coalescing,
    /// When it returns credits. Also sent at once when less than one largest TLP is left.
    pub update_fc: Coalescing,
    /// From the last byte of a TLP on the wire to the logic behind the port. Switches count
    /// theirs in [`SwitchParameters::latency`].
    pub receive_latency: Picoseconds,
    /// From the logic behind the port to the first byte on the wire.
    pub transmit_latency: Picoseconds,
}

/// One link between two ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkParameters {
    /// Rate and width that it trained to.
    pub rate: LinkRate,
    /// Time of flight from one end to the other.
    pub flight: Picoseconds,
    /// Probability that a bit arrives wrong, 0 for a clean link. Every wrong bit is found by
    /// LCRC or the DLLP's CRC.
    pub bit_error_rate: f64,
    /// How long a retraining (REPLAY_NUM roll-over) stops both directions.
    pub retrain: Picoseconds,
    /// Whether SKP ordered sets are sent.
    pub skp: bool,
}

/// How a switch passes a TLP on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As soon as its header is there, but never so early that a faster egress link would run
    /// out of bytes.
    CutThrough,
    /// When its last byte is there.
    StoreAndForward,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchParameters {
    /// From the header's last byte in (cut-through) or the TLP's last byte in
    /// (store-and-forward) to the first byte out, when nothing competes.
    pub latency: Picoseconds,
    /// Cut-through or store-and-forward.
    pub forwarding: Forwarding,
}

/// A latency with a distribution: `base`, plus a uniform part up to `jitter`, plus `tail` with a
/// small probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The least.
    pub base: Picoseconds,
    /// Width of the uniform part.
    pub jitter: Picoseconds,
    /// Probability of the tail, 0 to 1.
    pub tail_probability: f64,
    /// What the tail adds.
    pub tail: Picoseconds,
}

impl Latency {
    /// Always the same.
    #[must_use]
    pub const fn fixed(base: Picoseconds) -> Self {
        Self { base, jitter: Picoseconds::ZERO, tail_probability: 0.0, tail: Picoseconds::ZERO }
    }
}

/// How a completer cuts the data of a read into completions, within the rules of the read
/// completion boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionCut {
    /// Each completion as long as it can be.
    Longest,
    /// A cut at each address multiple of the completion size.
    Aligned,
}

/// What answers reads: memory behind a root complex or inside an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompleterParameters {
    /// Read completion boundary, bytes: 64 or 128 for a root complex, 128 for all others.
    pub read_completion_boundary_bytes: u32,
    /// Longest completion it sends, bytes (never more than the port's Max_Payload_Size).
    pub completion_bytes: u32,
    /// Where it cuts.
    pub completion_cut: CompletionCut,
    /// Share, 0 to 1, of the completions with a read completion boundary inside them that go out
    /// cut at every one, evenly spread over them
    /// ([`SingleUnits`](crosslane_pcie::split::SingleUnits)).
    pub completion_single_share: f64,
    /// Reads in service at once; further ones wait and hold their credits.
    pub read_slots: u32,
    /// From a read at the memory to its first data.
    pub read_latency: Latency,
    /// From a write at the memory to the moment when its data can be seen.
    pub write_latency: Picoseconds,
    /// Bytes per second that reads get together; `f64::INFINITY` for no limit.
    pub read_bytes_per_second: f64,
    /// Bytes per second at which writes drain; `f64::INFINITY` for no limit.
    pub write_bytes_per_second: f64,
    /// Cost of each write TLP on top.
    pub write_overhead: Picoseconds,
    /// Cost of each memory line that a write covers only in part, on top (read, modify, write).
    pub partial_line: Picoseconds,
    /// Bytes of a memory line, a power of two.
    pub line_bytes: u32,
}

/// Transfers between root ports of one root complex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PeerToPeer {
    /// Refused with Unsupported Request.
    Forbidden,
    /// Passed on after this latency, at no more than this rate.
    Allowed {
        /// From the last byte in to the earliest first byte out.
        latency: Picoseconds,
        /// Payload bytes per second; `f64::INFINITY` for no limit.
        bytes_per_second: f64,
    },
}

/// Costs of a processor, in time on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuParameters {
    /// Number of cores, at least 1.
    pub cores: u16,
    /// From one uncached store to the next on one core, of any width.
    pub uncached_store: Picoseconds,
    /// Writes that may wait at the root port before a core stalls, or a buffer of combined writes
    /// stays taken.
    pub store_queue: u32,
    /// An uncached load beside its round trip.
    pub uncached_load: Picoseconds,
    /// From an interrupt message at the root complex to the first instruction of its handler.
    pub interrupt: Picoseconds,
    /// Whether an interrupt waits until the handler of the one before it has begun, and takes its
    /// time from then on: all go to one core.
    pub interrupts_in_turn: bool,
    /// One system call, in and out.
    pub system_call: Picoseconds,
    /// From one look of a kernel that polls memory to the next; `None` where it has no such way.
    pub kernel_poll: Option<Picoseconds>,
    /// From a change that a core has waited for by `monitor` and `mwait` to its next instruction;
    /// `None` where it has none.
    pub monitor_wake: Option<Picoseconds>,
    /// Pinning one 4 KiB page.
    pub pin_page: Picoseconds,
    /// Writing to one 4 KiB page for the first time.
    pub touch_page: Picoseconds,
    /// Copying, bytes per second on one core.
    pub copy_bytes_per_second: f64,
    /// The widest store that it has, bytes.
    pub widest_store_bytes: u32,
    /// Its write-combining buffers; `None` where it has none that stores to devices could use.
    pub combining: Option<CombiningParameters>,
}

/// The write-combining buffers of each core, of 64 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombiningParameters {
    /// How many, at least 1.
    pub buffers: u16,
    /// From one store into a buffer to the next.
    pub store: Picoseconds,
    /// A fence, beside the time until the buffers are empty.
    pub fence: Picoseconds,
}

/// An IOMMU: translates the addresses of all requests that reach the root complex from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IommuParameters {
    /// Pages that its IOTLB holds, of any size and of all functions together.
    pub iotlb_entries: u32,
    /// What each request takes more, also where its page is held.
    pub hit: Picoseconds,
    /// A walk of the table, for a page that is not held.
    pub walk: Picoseconds,
    /// Walks at once, at least 1; further ones wait.
    pub walks: u32,
    /// Its largest pages: [`IO_PAGE_BYTES`](crate::IO_PAGE_BYTES) or
    /// [`IO_LARGE_PAGE_BYTES`](crate::IO_LARGE_PAGE_BYTES).
    pub largest_page_bytes: u64,
    /// On a core: an entry of the table, for each page that is mapped or unmapped.
    pub map_page: Picoseconds,
    /// On a core: making the IOTLB forget what is unmapped.
    pub invalidate: Picoseconds,
}

/// A root complex with its memory and processor.
#[derive(Clone, Debug, PartialEq)]
pub struct RootComplexParameters {
    /// Host memory in bytes, from address 0 (with a hole for 32-bit windows below 4 GiB).
    pub memory_bytes: u64,
    /// How the memory answers.
    pub completer: CompleterParameters,
    /// Between root ports.
    pub peer_to_peer: PeerToPeer,
    /// Translation of what its devices ask for; `None` where addresses are those of the memory.
    pub iommu: Option<IommuParameters>,
    /// The processor.
    pub cpu: CpuParameters,
}

/// A generic endpoint: a requester that moves data by flows and a completer with memory behind
/// its BARs.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointParameters {
    /// What its configuration space says it is.
    pub identity: Identity,
    /// Its BARs; all of them are memory with real bytes.
    pub bars: [Option<BarRequest>; 6],
    /// Its memory.
    pub completer: CompleterParameters,
    /// Its requester.
    pub requester: RequesterParameters,
}

/// The generic requester's engine. Everything that can slow it is here, zero for an ideal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequesterParameters {
    /// Tags: reads in flight, 1 to 1024.
    pub tags: u16,
    /// Longest payload of a write that the engine can build, bytes, a power of two.
    pub max_write_bytes: u32,
    /// Longest read that the engine can ask for, bytes, a power of two.
    pub max_read_bytes: u32,
    /// Datapath: bytes per clock of its stream to the link core; 0 for one without limit.
    pub datapath_bytes: u32,
    /// One clock of that stream.
    pub clock: Picoseconds,
    /// Clocks a TLP that carry no data, on top of header and payload.
    pub idle_clocks_per_tlp: u32,
    /// Added to the time of each TLP on the datapath.
    pub tlp_gap: Picoseconds,
    /// Added after each operation.
    pub operation_gap: Picoseconds,
    /// Least time from the start of one write operation to the next.
    pub write_interval: Picoseconds,
    /// Least time from the start of one read operation to the next.
    pub read_interval: Picoseconds,
    /// From an operation's post to its first TLP, writes.
    pub write_start: Picoseconds,
    /// From an operation's post to its first TLP, reads.
    pub read_start: Picoseconds,
    /// From the last byte of a read at the engine to its completion being seen.
    pub read_finish: Picoseconds,
    /// Copy inside the device before a write and after a read, bytes per second, on top of the
    /// link's time; `f64::INFINITY` for none.
    pub copy_bytes_per_second: f64,
    /// A read that is not answered within this time has failed.
    pub completion_timeout: Picoseconds,
}
