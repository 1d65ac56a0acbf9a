// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers and messages that were posted, and what is known of their ends.

use std::collections::{BTreeMap, BTreeSet};

use crosslane::driver::network_processor::{Ended, InFlight, NetworkError, NetworkProcessor};
use crosslane::driver::{Channel, ChannelKind, Completed};
use crosslane::host::Bus;

use crate::error::Failure;
use crate::state::Receiver;

/// A channel of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelKey {
    /// Number of the card in its session.
    pub card: usize,
    /// Kind of the channel.
    pub kind: ChannelKind,
    /// Number of the channel among those of its kind.
    pub number: u8,
}

/// A channel, and whether it reaches the card's memory.
pub type LineKey = (ChannelKey, bool);

/// Something that was posted, and whose end is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// A transfer of a channel, by its ticket.
    Transfer(LineKey, u64),
    /// A message of a network processor, by its number in the session.
    Message(u64),
    /// A command of a card, by the card's number and its own in the session.
    Command(usize, u64),
    /// The next packets of a receiver.
    Packets(PacketsKey),
}

/// Packets that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketsKey {
    /// The channel.
    pub line: LineKey,
    /// Number of the receiver in the session.
    pub receiver: u64,
    /// Number of the wait in the session.
    pub reception: u64,
}

/// Outcome of something that was posted.
pub type Outcome = Result<Completed, Failure>;
/// Outcome of a wait, if there is one yet.
pub type Waited = Option<Outcome>;

/// An open channel.
pub struct Line {
    /// The channel.
    pub channel: Channel,
    /// Transfers without an outcome yet, each with what it stands on, a peer or a peer's memory.
    pub open: BTreeMap<u64, Option<u64>>,
    /// Transfers that coroutines wait for, whether or not they have ended.
    pub awaited: BTreeSet<u64>,
    /// Outcomes that were seen while another transfer was waited for.
    pub ended: BTreeMap<u64, Outcome>,
    /// First packets of batches, by their last ones, whose outcomes nobody will ask for.
    pub batches: BTreeMap<u64, u64>,
    /// Places for packets, if the channel receives them.
    pub receiver: Option<Receiver>,
}

impl Line {
    /// Takes a channel that was just opened.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            open: BTreeMap::new(),
            awaited: BTreeSet::new(),
            ended: BTreeMap::new(),
            batches: BTreeMap::new(),
            receiver: None,
        }
    }

    /// Returns the first of the transfers that coroutines wait for and that has not ended.
    pub fn first_awaited(&self) -> Option<u64> {
        self.awaited.iter().find(|ticket| self.open.contains_key(ticket)).copied()
    }

    /// Whether a coroutine has still to be told that its transfer has ended.
    pub fn has_news(&self) -> bool {
        self.ended.keys().any(|ticket| self.awaited.contains(ticket))
            || self.receiver.as_ref().is_some_and(Receiver::has_news)
    }

    /// Returns the outcome of a transfer if it has ended and was seen.
    pub fn take(&mut self, ticket: u64) -> Waited {
        let outcome = self.ended.remove(&ticket);
        if outcome.is_some() {
            self.awaited.remove(&ticket);
        }
        outcome
    }

    /// Notes that a transfer has ended.
    pub fn end(&mut self, ticket: u64) {
        self.open.remove(&ticket);
        self.awaited.remove(&ticket);
    }
}

/// A message of a network processor.
pub struct Message {
    /// The network processor.
    pub processor: NetworkProcessor,
    /// The message, until it has ended.
    pub in_flight: Option<InFlight>,
    /// Whether a coroutine waits for it.
    pub is_awaited: bool,
    /// Its outcome, if it was seen while something else was waited for.
    pub ended: Waited,
}

impl Message {
    /// Returns its outcome if it has ended, with its data in the buffer.
    pub async fn look(processor: &NetworkProcessor, message: &InFlight) -> Waited {
        match processor.poll(message) {
            Ok(None) => None,
            // The wait takes no time but that of a copy.
            Ok(Some(_)) | Err(_) => {
                let now = processor.bus().now();
                Some(outcome(processor.wait(message, now).await))
            }
        }
    }
}

/// Returns the outcome of a message.
pub fn outcome(ended: Result<Ended, NetworkError>) -> Outcome {
    let Ended { bytes, posted, ended } = ended?;
    Ok(Completed { bytes, posted, completed: ended })
}
