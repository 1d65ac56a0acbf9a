// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of a direction of a link went.

use std::fmt;

use serde::Serialize;

use crate::iommu::IommuUse;

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
    /// Requests waited for their translation in the IOMMU behind the link.
    Translation,
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
    pub const ALL: [Self; 17] = [
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
        Self::Translation,
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
            Self::Translation => "translation",
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
    /// What the IOMMUs that the run met did in that time; empty in labs without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub iommus: Vec<IommuUse>,
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

/// What those who feed a direction waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feeding {
    /// Shares of the time in which data moved.
    pub losses: Vec<TimeUse>,
}

impl Feeding {
    /// Adds so much of a loss.
    pub fn add(&mut self, what: Use, share: f64) {
        match self.losses.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.share += share,
            None => self.losses.push(TimeUse { what, share }),
        }
    }
}

/// What a link was short of, which the next one waits for as well.
pub(crate) const OF_LINKS: [Use; 5] =
    [Use::NoCredit, Use::ReceiverBusy, Use::Translation, Use::ReplayBuffer, Use::Retraining];

/// Idle time of which a link itself knows no more than that its sender had nothing for it.
const OF_THE_SENDER: [Use; 3] = [Use::SenderPace, Use::NoTag, Use::NothingToSend];

/// The uses of a direction where idle time of the sender is put down to what those who feed it
/// waited for. If they waited longer than it was idle (what they had sent before was still on its
/// way), each wait counts in proportion; if not so long, what is left is `rest`.
pub(crate) fn refined(uses: &[TimeUse], feeding: &Feeding, rest: Use) -> Vec<TimeUse> {
    let share = |what: Use| -> f64 {
        uses.iter().filter(|entry| entry.what == what).map(|entry| entry.share).sum()
    };
    let idle: f64 = OF_THE_SENDER.into_iter().map(share).sum();
    let lost: f64 = feeding.losses.iter().map(|loss| loss.share).sum();
    let scale = if lost > idle { idle / lost } else { 1.0 };
    let refined = |what: Use| {
        let own = if OF_THE_SENDER.contains(&what) { 0.0 } else { share(what) };
        let losses = feeding.losses.iter().filter(|loss| loss.what == what);
        let left = if what == rest { (idle - lost * scale).max(0.0) } else { 0.0 };
        own + losses.map(|loss| loss.share * scale).sum::<f64>() + left
    };
    let entry = |what: Use| TimeUse { what, share: refined(what) };
    Use::ALL.into_iter().map(entry).filter(|entry| entry.share > 0.0).collect()
}

/// The busiest of some directions, by their uses: the first along the way of those that are idle
/// for as short a time as any, to within a thousandth of the time.
pub(crate) fn busiest(uses: &[Vec<TimeUse>]) -> Option<usize> {
    let idle = |uses: &Vec<TimeUse>| -> f64 {
        uses.iter().filter(|entry| entry.what.is_idle()).map(|entry| entry.share).sum()
    };
    let counted = || uses.iter().enumerate().filter(|(_, uses)| !uses.is_empty());
    let least = counted().map(|(_, uses)| idle(uses)).min_by(f64::total_cmp)?;
    counted().find(|(_, uses)| idle(uses) <= least + SAME_SHARE).map(|(index, _)| index)
}

/// Shares that differ by no more than this are the same.
const SAME_SHARE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(entries: &[(Use, f64)]) -> Vec<TimeUse> {
        entries.iter().map(|(what, share)| TimeUse { what: *what, share: *share }).collect()
    }

    fn rounded(entries: &[TimeUse]) -> Vec<(Use, f64)> {
        entries.iter().map(|entry| (entry.what, (entry.share * 1e6).round() / 1e6)).collect()
    }

    const LINK: [(Use, f64); 4] = [
        (Use::Payload, 0.7),
        (Use::SenderPace, 0.1),
        (Use::NoCredit, 0.05),
        (Use::NothingToSend, 0.15),
    ];

    #[test]
    fn what_an_engine_waited_for_takes_the_place_of_nothing_to_send() {
        let feeding = Feeding { losses: uses(&[(Use::Host, 0.15), (Use::Descriptor, 0.04)]) };
        let refined = refined(&uses(&LINK), &feeding, Use::SenderPace);
        assert_eq!(
            rounded(&refined),
            [
                (Use::Payload, 0.7),
                (Use::Descriptor, 0.04),
                (Use::Host, 0.15),
                (Use::SenderPace, 0.06),
                (Use::NoCredit, 0.05),
            ]
        );
    }

    #[test]
    fn waits_beyond_the_idle_time_count_in_proportion() {
        let feeding = Feeding { losses: uses(&[(Use::NoTag, 0.9), (Use::Descriptor, 0.1)]) };
        let refined = refined(&uses(&LINK), &feeding, Use::NothingToSend);
        assert_eq!(
            rounded(&refined),
            [
                (Use::Payload, 0.7),
                (Use::Descriptor, 0.025),
                (Use::NoTag, 0.225),
                (Use::NoCredit, 0.05)
            ]
        );
    }

    #[test]
    fn the_first_of_the_busiest_is_taken() {
        let of = |idle: f64| uses(&[(Use::Payload, 1.0 - idle), (Use::NoCredit, idle)]);
        assert_eq!(busiest(&[of(0.3), of(0.1004), of(0.1), Vec::new()]), Some(1));
        assert_eq!(busiest(&[Vec::new()]), None);
    }
}
