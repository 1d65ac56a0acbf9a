// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can hold a run at its rate.

use serde::Serialize;

/// Kinds of limits. Each is a constant of the lab, a setting of configuration space, or a choice of
/// the program that moves the data, and each can be lifted: the same run without it can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// A link at the width and generation that its ports have; lifted: twice the rate.
    Link,
    /// The same, where several flows share it.
    SharedLink,
    /// A link of fewer lanes than both its ports have; lifted: those.
    LinkWidth,
    /// A link of a lower generation than both its ports have; lifted: that.
    LinkGeneration,
    /// Bits that arrive wrong, and what is sent again for them.
    BitErrors,
    /// Acks and UpdateFCs on the way of the data; lifted: they take no time.
    Dllps,
    /// Credits of a port's receive buffer for posted TLPs.
    PostedCredits,
    /// The same for non-posted TLPs.
    NonPostedCredits,
    /// The same for completions.
    CompletionCredits,
    /// How late a port gives credits back.
    CreditReturn,
    /// A port's replay buffer, or how late its partner acknowledges.
    ReplayBuffer,
    /// Max_Payload_Size on the way; lifted: the most that all ports on it support.
    MaxPayload,
    /// Length of read requests; lifted: the most that the engine and the register allow.
    MaxReadRequest,
    /// Tags of the requester.
    Tags,
    /// Clocks between TLPs.
    IdleClocks,
    /// The requester's clock and width; lifted: twice as wide.
    Datapath,
    /// The gap after a descriptor.
    DescriptorGap,
    /// How descriptors get to the engine: batches that are fetched.
    DescriptorFetch,
    /// Descriptors of a reading channel that may be in flight at once.
    ReadingDescriptors,
    /// The FIFO of a lane, which is the window of its sender.
    PeerWindow,
    /// The FIFO between the channels of an engine.
    StreamFifo,
    /// What takes data out of a lane, or out of a channel's stream, at the receiver.
    SlowReader,
    /// Rate at which host memory, or memory behind a BAR, takes writes.
    MemoryWrite,
    /// What writes of parts of lines cost there.
    PartialLines,
    /// Rate at which it gives data.
    MemoryRead,
    /// How long it takes to answer.
    MemoryLatency,
    /// Reads that it serves at once.
    ReadSlots,
    /// How short it cuts completions.
    CompletionSize,
    /// What the root complex passes on between its ports.
    PeerToPeer,
    /// Requests that a switch sends to the root complex although their target is below it.
    AcsRedirect,
    /// Completions that wait behind posted writes; lifted: the relaxed ordering attribute.
    StrictOrdering,
    /// Transfers or operations that are posted at once.
    Outstanding,
    /// How completions are learnt: interrupts; lifted: polling.
    Notification,
    /// A system call for each transfer.
    SystemCall,
    /// Memory that is registered within each transfer.
    Registration,
    /// Time of the processor's own stores and loads.
    Processor,
    /// Time in a switch.
    SwitchLatency,
    /// Time in an endpoint's core between wire and engine.
    EndpointLatency,
}

/// A limit in a lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
