// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of a direction of a link went.

use std::fmt;

use serde::Serialize;

/// What a direction of a link did in a part of the time. Idle time has its reason: what the link
/// itself counted, and where it had nothing to send what the engine counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Data.
    Payload,
    /// Framing, sequence numbers, headers and LCRC of TLPs, and TLPs without data.
    Header,
    /// TLPs sent again.
    Replay,
    /// Acks, Naks and UpdateFCs.
    Dllp,
    /// SKP ordered sets.
    Skp,
    /// The engine had no descriptor, or was in the gap after one.
    Descriptor,
    /// The engine had nothing to do: the host had not posted, or was not there to.
    Host,
    /// The user circuit's stream had no data.
    Stream,
    /// Idle clocks between TLPs, or a datapath that is slower than the link.
    SenderPace,
    /// All tags were in use: reads in flight, or their answers, were awaited.
    NoTag,
    /// Credits of the link's receiver were on their way back.
    NoCredit,
    /// The window of the peer's lane was used up.
    PeerCredit,
    /// The link's receiver was full.
    ReceiverBusy,
    /// The replay buffer was full.
    ReplayBuffer,
    /// The link was retraining or down.
    Retraining,
    /// Nothing was there to be sent, and nobody says why: the sender is no engine, or what feeds
    /// this link is slower than it.
    NothingToSend,
}

impl Use {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 16] = [
        Self::Payload,
        Self::Header,
        Self::Replay,
        Self::Dllp,
        Self::Skp,
        Self::Descriptor,
        Self::Host,
        Self::Stream,
        Self::SenderPace,
        Self::NoTag,
        Self::NoCredit,
        Self::PeerCredit,
        Self::ReceiverBusy,
        Self::ReplayBuffer,
        Self::Retraining,
        Self::NothingToSend,
    ];

    /// Whether the link sent nothing.
    #[must_use]
    pub const fn is_idle(self) -> bool {
        !matches!(self, Self::Payload | Self::Header | Self::Replay | Self::Dllp | Self::Skp)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Payload => "payload",
            Self::Header => "headers",
            Self::Replay => "replays",
            Self::Dllp => "DLLPs",
            Self::Skp => "SKP",
            Self::Descriptor => "no descriptor",
            Self::Host => "nothing posted",
            Self::Stream => "no data in the stream",
            Self::SenderPace => "sender's pace",
            Self::NoTag => "no tag",
            Self::NoCredit => "no credit",
            Self::PeerCredit => "no credit of the peer",
            Self::ReceiverBusy => "receiver busy",
            Self::ReplayBuffer => "replay buffer full",
            Self::Retraining => "retraining",
            Self::NothingToSend => "nothing to send",
        })
    }
}

/// A use and its share of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeUse {
    /// What.
    #[serde(rename = "use")]
    pub what: Use,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// Where the time of one direction of a link went, while data moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// `fpga1 -> rc47a.down0`.
    pub direction: String,
    /// `Gen2 x4`.
    pub link: String,
    /// How long it was counted, picoseconds.
    pub span_ps: u64,
    /// Uses that took time, in the order of [`Use::ALL`]. Their shares are one together, to
    /// within rounding.
    pub uses: Vec<TimeUse>,
}

impl Account {
    /// Share of the time that something took, 0 to 1.
    #[must_use]
    pub fn share(&self, what: Use) -> f64 {
        self.uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
    }

    /// Share of the time in which nothing was sent.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        self.uses.iter().filter(|entry| entry.what.is_idle()).map(|entry| entry.share).sum()
    }
}
