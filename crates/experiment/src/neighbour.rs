// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times that a short message takes from one node's program to its neighbour's memory, by a get of
//! the network processor or by a put of the processor.

use crosslane_host::{Bus, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_torus::{Direction, Message, Node, Peer};
use strum::Display;

use crate::error::Result;
use crate::measured::median;
use crate::pattern::pattern_bytes;

/// Channel of the messages.
const CHANNEL: u8 = 0;
/// Tags of a channel.
const TAGS: u32 = 64;

/// Side that fetches or stores the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display)]
#[strum(serialize_all = "lowercase")]
pub enum SendWay {
    /// The network processor fetches them from host memory.
    Get,
    /// The processor stores them into the network processor.
    Put,
}

impl SendWay {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Put, Self::Get];
}

/// Size, number and method of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneWayOptions {
    /// Bytes of a message, a multiple of 4.
    pub bytes: u64,
    /// Messages, each when the one before is there.
    pub rounds: u32,
    /// Method of sending the messages.
    pub way: SendWay,
    /// Seed of the data.
    pub seed: u32,
    /// A message that takes longer than this has failed.
    pub timeout: Picoseconds,
}

impl OneWayOptions {
    /// Returns options of 16 messages, at most 1 ms each.
    pub const fn new(bytes: u64, way: SendWay) -> Self {
        Self { bytes, rounds: 16, way, seed: 1, timeout: Picoseconds::from_ms(1) }
    }
}

setters!(OneWayOptions {
    with_rounds(rounds: u32),
    with_seed(seed: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

/// Measurements of one-way messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneWay {
    /// Time of each message, from before its first store until the program at the other end sees
    /// it.
    pub times: Vec<Picoseconds>,
    /// Messages that were not what was sent.
    pub wrong: u32,
}

impl OneWay {
    /// Returns the median time of a message.
    pub fn typical(&self) -> Picoseconds {
        median(&self.times)
    }
}

/// Sends messages from a node to its neighbour; room for each is there before it is sent. Both
/// nodes must have one clock, as those of a lab have.
///
/// # Errors
/// A message that fails.
pub async fn one_way(
    from: &Node,
    to: &Node,
    direction: Direction,
    options: &OneWayOptions,
) -> Result<OneWay> {
    let OneWayOptions { bytes, rounds, way, seed, timeout } = *options;
    let (sent, received) = (from.buffer(bytes).await?, to.buffer(bytes).await?);
    let bus = from.processor().bus();
    let mut found = OneWay { times: Vec::new(), wrong: 0 };
    for round in 0..rounds {
        let data = pattern_bytes(seed ^ round, bytes);
        sent.write(0, &data)?;
        let deadline = bus.now() + timeout;
        let tag = (round % TAGS) as u8;
        let message = |direction, buffer| Message {
            peer: Peer::Neighbour { direction, channel: CHANNEL },
            tag,
            buffer,
            part: 0..bytes,
            deadline,
        };
        let room = to.rx_i(message(direction.opposite(), received.clone())).await?;
        // The credit is on its way; a message before it would wait for it.
        bus.sleep_until(bus.now() + Picoseconds::from_ns(2_000)).await;
        let begun = bus.now();
        let sending = match way {
            SendWay::Put => {
                let peer = Peer::Neighbour { direction, channel: CHANNEL };
                from.put(peer, tag, &data, deadline).await?;
                None
            }
            SendWay::Get => Some(from.tx_i(message(direction, sent.clone())).await?),
        };
        let ended = to.finish(&room).await?;
        found.times.push(ended.ended.since(begun));
        if let Some(sending) = sending {
            from.finish(&sending).await?;
        }
        let mut come = vec![0; bytes as usize];
        received.read(0, &mut come)?;
        found.wrong += u32::from(come != data);
    }
    Ok(found)
}
