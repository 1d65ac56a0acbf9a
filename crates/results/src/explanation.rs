// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations: the bottleneck of a run, which is one of its limits, and the result of the same
//! run without it.

use serde::{Deserialize, Serialize};

use crate::bench::ScenarioResult;
use crate::bridge::BridgeTransfer;
use crate::links::{Account, Use};
use crate::rows::SweepRow;
use crate::what_if::Tuning;

/// Largest difference, as a fraction, at which a shortened run stands for the whole one.
pub const CLOSE: f64 = 0.03;

/// Direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A rate.
    Higher,
    /// A latency.
    Lower,
}

/// The figure of a run that its explanation tries to improve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Value of the figure: bytes per second of all flows together, or picoseconds one way.
    pub value: f64,
    /// Direction in which it gets better.
    pub better: Better,
}

impl Figure {
    /// Returns its difference from another, as a fraction of the other.
    pub fn off(self, other: Self) -> f64 {
        if other.value > 0.0 { self.value / other.value - 1.0 } else { 0.0 }
    }
}

/// Result of a run with limits lifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The bottleneck: one limit, or several that each limit the run, so that only lifting all of
    /// them changes anything.
    pub limits: Vec<Limit>,
    /// The figure without them (and without those of the steps before).
    pub value: f64,
    /// The improvement over the step before, as a fraction of its figure.
    pub gain: f64,
}

/// Result of lifting one limit alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The limit.
    pub limit: Limit,
    /// The figure without it.
    pub value: f64,
    /// The improvement, as a fraction.
    pub gain: f64,
}

/// Why a run was not faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The figure of the run that was explained.
    pub figure: Figure,
    /// The figure of the whole run as it was measured; `None` if unknown.
    pub measured: Option<Figure>,
    /// The shortening of the run, in words, if there was one. The figures of steps and trials are
    /// then those of equally short runs, comparable only with each other.
    pub shortened: Option<String>,
    /// Whether the search ran the model in place of the measured gateware.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_model: bool,
    /// The busiest direction on the path of the data; `None` for a latency.
    pub account: Option<Account>,
    /// The bottleneck, then the next one without it; empty if no limit that can be lifted gains.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The longest wait on that direction, if it is known by another name than the bottleneck's and
    /// yet disappears with it.
    pub consequence: Option<Consequence>,
    /// Every limit that was lifted alone, the best first.
    #[serde(default)]
    pub trials: Vec<Trial>,
}

impl Explanation {
    /// Returns the difference between the figures of the explained and the measured run, as a
    /// fraction of the latter, if it is more than [`CLOSE`]: the two may have different
    /// bottlenecks.
    pub fn unlike(&self) -> Option<f64> {
        self.measured.map(|measured| self.figure.off(measured)).filter(|off| off.abs() > CLOSE)
    }
}

/// A run that may be explained.
pub trait HasWhy {
    /// Returns its explanation, or the reason for which there is none; `None` if it was not asked
    /// for.
    fn why(&self) -> Option<Result<&Explanation, &str>>;
}

macro_rules! has_why {
    ($($run:ident.$explanation:ident),*) => {
        $(impl HasWhy for $run {
            fn why(&self) -> Option<Result<&Explanation, &str>> {
                let reason = || self.not_explained.as_deref().map(Err);
                self.$explanation.as_ref().map(Ok).or_else(reason)
            }
        })*
    };
}
has_why!(
    ScenarioResult.why_not_faster, SweepRow.why_not_faster, BridgeTransfer.explanation,
    Tuning.why_not_faster
);

/// A wait that disappears with the bottleneck, though it has another name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Consequence {
    /// The wait of the sender of the busiest direction.
    #[serde(rename = "use")]
    pub what: Use,
    /// Share of the wait in the time of the explained run, 0 to 1.
    pub share: f64,
    /// Share of the wait in the run without the bottleneck.
    pub share_without: f64,
}

listed! {
    /// Kinds of limits. Each is a constant of the lab, a setting of configuration space, or a
    /// choice of the program that moves the data, and each can be lifted: the same run can be made
    /// without it.
    ///
    /// The most specific come first. Of two equal gains, the first kind is named.
    pub enum LimitKind {
        /// A link of fewer lanes than both its ports have; lifted: all lanes.
        LinkWidth,
        /// A link of a lower generation than both its ports have; lifted: their generation.
        LinkGeneration,
        /// Bit errors and the replays that they cause; lifted: none.
        BitErrors,
        /// Requests that a switch redirects to the root complex although their target is below it;
        /// lifted: no redirection.
        AcsRedirect,
        /// Payloads that are shorter than all ports on the path support: because of
        /// Max_Payload_Size, of the requester's design, or of a request; lifted: the longest
        /// supported.
        MaxPayload,
        /// Read requests that are shorter than the requester's longest: because of
        /// Max_Read_Request_Size or of a request; lifted: its longest.
        MaxReadRequest,
        /// Completions that wait behind posted writes; lifted: the relaxed ordering attribute.
        StrictOrdering,
        /// Stores into uncached memory, each a separate write; lifted: write combining.
        UncachedStores,
        /// Stores that are narrower than the processor's widest, or the stores and the call of a
        /// library's routine; lifted: the widest.
        StoreWidth,
        /// Completion by interrupts; lifted: polling.
        Notification,
        /// A system call for each transfer; lifted: none.
        SystemCall,
        /// Registration of memory within each transfer; lifted: registration in advance.
        Registration,
        /// Misses of an IOMMU's IOTLB, and their page table walks; lifted: only hits.
        Iotlb,
        /// Transfers or operations in flight at once; lifted: many.
        Outstanding,
        /// Loads of a core in flight at once, where it may have several; lifted: many.
        LoadsInFlight,
        /// The gap after a descriptor, or between operations of a generic requester; lifted: none.
        DescriptorGap,
        /// Clocks or time between TLPs; lifted: none.
        IdleClocks,
        /// Batches in which an engine fetches descriptors; lifted: the largest.
        DescriptorFetch,
        /// Descriptors of a reading channel in flight at once; lifted: any number.
        ReadingDescriptors,
        /// Parts of a transfer that are made in turn: a burst of a card's memory is read whole and
        /// then written, the stages of a bridge follow each other; lifted: all at once.
        InTurn,
        /// Tags of the requester; lifted: all 8-bit tags.
        Tags,
        /// Delay with which a port returns credits; lifted: none.
        CreditReturn,
        /// Cost of writes of partial lines in a memory; lifted: none.
        PartialLines,
        /// The drain of a receive queue, or of writes into the memory behind a BAR or into that of
        /// a card, at the receiver; lifted: twice as wide (for a receive queue), or any rate.
        SlowReader,
        /// Rate at which host memory takes writes; lifted: any.
        MemoryWrite,
        /// Reads that a memory serves at once; lifted: any number.
        ReadSlots,
        /// Length at which a memory cuts completions; lifted: Max_Payload_Size.
        CompletionSize,
        /// Length of the pieces in which data are moved: bursts of a card's memory, chunks of a
        /// bridge; lifted: the longest.
        PieceLength,
        /// Rate at which a memory serves reads; lifted: any.
        MemoryRead,
        /// Rate and latency between ports of the root complex; lifted: any rate, no latency.
        PeerToPeer,
        /// Lines into which the root complex cuts reads of peers, and how many it reads at once;
        /// lifted: reads are passed on whole.
        PeerReads,
        /// Rate and latency from one socket of a host to another; lifted: any rate, no latency.
        SocketHop,
        /// Rate of all TLPs in a switch, or time from one to the next; lifted: none.
        Crossbar,
        /// Credits of a port's receive buffer for posted TLPs; lifted: infinite.
        PostedCredits,
        /// Credits of a port's receive buffer for non-posted TLPs; lifted: infinite.
        NonPostedCredits,
        /// Credits of a port's receive buffer for completions; lifted: infinite.
        CompletionCredits,
        /// A port's replay buffer, which is too small for its partner's late acknowledgements;
        /// lifted: infinite.
        ReplayBuffer,
        /// The FIFO of a receive queue, which is the credit window of its sender; lifted: 1 MiB.
        PeerWindow,
        /// The staging memory of a reading channel, which holds data until they are taken; lifted:
        /// 1 MiB.
        Staging,
        /// Time of the processor's own stores and loads; lifted: none.
        Processor,
        /// Acks and UpdateFCs in the direction of the data; lifted: they take no time.
        Dllps,
        /// The requester's clock and width; lifted: twice as wide.
        Datapath,
        /// The longest read that the requester can build; lifted: the longest allowed.
        ReadLength,
        /// Latency of a switch; lifted: none.
        SwitchLatency,
        /// Latency of an endpoint between link and engine; lifted: none.
        EndpointLatency,
        /// Latency of a memory until it answers, or until a write is visible, with the ports of its
        /// root complex; lifted: none.
        MemoryLatency,
        /// Time of flight; lifted: none.
        Flight,
        /// A link at its ports' full width and generation that several flows share; lifted: twice
        /// the rate.
        SharedLink,
        /// A link as above with a single flow.
        Link,
    }
}

impl LimitKind {
    /// Returns whether it is a time that every TLP takes on its path.
    pub const fn is_latency(self) -> bool {
        matches!(
            self,
            Self::SwitchLatency | Self::EndpointLatency | Self::MemoryLatency | Self::Flight
        )
    }

    /// Returns whether it is the rate of a link at its ports' full width and generation.
    pub const fn is_link(self) -> bool {
        matches!(self, Self::Link | Self::SharedLink)
    }
}

/// A limit in a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Kind of the limit.
    pub kind: LimitKind,
    /// Place of the limit: a node, port, link or flow.
    pub place: String,
    /// The limit in words, such as `16 tags of fpga1`: subject of a sentence.
    pub words: String,
    /// The changed value in the run without it, such as `256 tags`.
    pub lifted: String,
}
