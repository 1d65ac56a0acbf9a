// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of a run's rate or latency.

use serde::{Deserialize, Serialize};

/// Kinds of limits. Each is a constant of the lab, a setting of configuration space, or a choice of
/// the program that moves the data, and each can be lifted: the same run without it can be made.
///
/// The most specific come first. Where two gain the same, the one that comes first is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// A link of fewer lanes than both its ports have; lifted: those.
    LinkWidth,
    /// A link of a lower generation than both its ports have; lifted: that.
    LinkGeneration,
    /// Bits that arrive wrong, and what is sent again for them; lifted: none.
    BitErrors,
    /// Requests that a switch sends to the root complex although their target is below it;
    /// lifted: off.
    AcsRedirect,
    /// Payloads that are shorter than all ports on the way support: by Max_Payload_Size, by what
    /// the requester builds, or because it was asked for; lifted: the most that they support.
    MaxPayload,
    /// Read requests that are shorter than the requester could ask for: by Max_Read_Request_Size,
    /// or because it was asked for; lifted: the longest that it can.
    MaxReadRequest,
    /// Completions that wait behind posted writes; lifted: the relaxed ordering attribute.
    StrictOrdering,
    /// Stores into uncached memory, each of which is a write of its own; lifted: write combining.
    UncachedStores,
    /// Stores that are narrower than those that the processor has, or the stores and the call of a
    /// library's routine; lifted: the widest.
    StoreWidth,
    /// How completions are learnt: interrupts; lifted: polling.
    Notification,
    /// A system call for each transfer; lifted: none.
    SystemCall,
    /// Memory that is registered within each transfer; lifted: before.
    Registration,
    /// Pages that the IOTLB of an IOMMU does not hold, and the walks of its table for them; lifted:
    /// every page is held.
    Iotlb,
    /// Transfers or operations that are posted at once; lifted: many.
    Outstanding,
    /// The gap after a descriptor, or from one operation of a generic requester to its next;
    /// lifted: none.
    DescriptorGap,
    /// Clocks or time between TLPs; lifted: none.
    IdleClocks,
    /// How descriptors get to the engine: batches that are fetched; lifted: the largest.
    DescriptorFetch,
    /// Descriptors of a reading channel that may be in flight at once; lifted: any number.
    ReadingDescriptors,
    /// Tags of the requester; lifted: all of 8 bits.
    Tags,
    /// How late a port gives credits back; lifted: at once.
    CreditReturn,
    /// What writes of parts of lines cost a memory; lifted: nothing.
    PartialLines,
    /// What takes data out of a lane, or writes into the memory behind a BAR, at the receiver;
    /// lifted: twice as wide (a lane's engine), or any rate.
    SlowReader,
    /// Rate at which host memory takes writes; lifted: any.
    MemoryWrite,
    /// Reads that a memory serves at once; lifted: any number.
    ReadSlots,
    /// How short a memory cuts completions; lifted: Max_Payload_Size.
    CompletionSize,
    /// Rate at which a memory gives data; lifted: any.
    MemoryRead,
    /// What the root complex passes on between its ports; lifted: any rate, at once.
    PeerToPeer,
    /// Credits of a port's receive buffer for posted TLPs; lifted: infinite.
    PostedCredits,
    /// The same for non-posted TLPs.
    NonPostedCredits,
    /// The same for completions.
    CompletionCredits,
    /// A port's replay buffer, which is too small for how late its partner acknowledges; lifted:
    /// without end.
    ReplayBuffer,
    /// The FIFO of a lane, which is the window of its sender; lifted: 1 MiB.
    PeerWindow,
    /// The memory of a reading channel, where answers wait for who takes them; lifted: 1 MiB.
    Staging,
    /// Time of the processor's own stores and loads; lifted: none.
    Processor,
    /// Acks and UpdateFCs on the way of the data; lifted: they take no time.
    Dllps,
    /// The requester's clock and width; lifted: twice as wide.
    Datapath,
    /// The longest read that the requester can ask for; lifted: the longest that there is.
    ReadLength,
    /// Time in a switch; lifted: none.
    SwitchLatency,
    /// Time in an endpoint between wire and engine; lifted: none.
    EndpointLatency,
    /// How long a memory takes to answer, or to show what was written, with the time in the ports
    /// of its root complex; lifted: none.
    MemoryLatency,
    /// Time of flight; lifted: none.
    Flight,
    /// A link at the width and generation that its ports have, where several flows share it;
    /// lifted: twice the rate.
    SharedLink,
    /// The same, where one flow has it.
    Link,
}

impl LimitKind {
    /// All of them, the most specific first.
    pub const ALL: [Self; 43] = [
        Self::LinkWidth,
        Self::LinkGeneration,
        Self::BitErrors,
        Self::AcsRedirect,
        Self::MaxPayload,
        Self::MaxReadRequest,
        Self::StrictOrdering,
        Self::UncachedStores,
        Self::StoreWidth,
        Self::Notification,
        Self::SystemCall,
        Self::Registration,
        Self::Iotlb,
        Self::Outstanding,
        Self::DescriptorGap,
        Self::IdleClocks,
        Self::DescriptorFetch,
        Self::ReadingDescriptors,
        Self::Tags,
        Self::CreditReturn,
        Self::PartialLines,
        Self::SlowReader,
        Self::MemoryWrite,
        Self::ReadSlots,
        Self::CompletionSize,
        Self::MemoryRead,
        Self::PeerToPeer,
        Self::PostedCredits,
        Self::NonPostedCredits,
        Self::CompletionCredits,
        Self::ReplayBuffer,
        Self::PeerWindow,
        Self::Staging,
        Self::Processor,
        Self::Dllps,
        Self::Datapath,
        Self::ReadLength,
        Self::SwitchLatency,
        Self::EndpointLatency,
        Self::MemoryLatency,
        Self::Flight,
        Self::SharedLink,
        Self::Link,
    ];

    /// Whether it is a time that everything takes on its way.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(
            self,
            Self::SwitchLatency | Self::EndpointLatency | Self::MemoryLatency | Self::Flight
        )
    }

    /// Whether it is a link that does all that its ports can.
    #[must_use]
    pub const fn is_link(self) -> bool {
        matches!(self, Self::Link | Self::SharedLink)
    }
}

/// A limit in a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// What kind.
    pub kind: LimitKind,
    /// Where: a node, port, link or flow.
    pub place: String,
    /// The limit in words, such as `16 tags of fpga1`: subject of a sentence.
    pub words: String,
    /// What it was changed to for the run without it, such as `256 tags`.
    pub lifted: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_all() {
        let places = LimitKind::ALL.map(|kind| kind as usize);
        assert!(places.iter().enumerate().all(|(place, kind)| place == *kind), "{places:?}");
        // It is the last that there is.
        assert_eq!(LimitKind::ALL.last(), Some(&LimitKind::Link));
    }
}
