// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between processes that simulate a lab together, as bytes: what a part says at the end
//! of a window with the signals that it sends, and its end. What comes is checked like all bytes
//! from outside.

use std::collections::BTreeSet;

use crosslane_device::network_processor::{CableEnd, CableMessage, Signal, Wish};
use crosslane_host::kinds;
use crosslane_pcie::units::Picoseconds;
use crosslane_torus_link::frame::{Damaged, Frame};
use crosslane_torus_link::lanes::MAX_LANES;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::exchange::{PartState, Said};

/// Bytes from another process that make no sense.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// The bytes are not a message.
    #[error("a message that cannot be read: {0}")]
    Bytes(String),
    /// A frame is none.
    #[error("a frame for node {node}, link {link}: {source}")]
    Frame {
        /// The node that it is for.
        node: u16,
        /// The link that it is for.
        link: u8,
        /// Its fault.
        source: Damaged,
    },
    /// No cable leads there from another part.
    #[error("a signal for node {node}, link {link}, where no cut cable ends")]
    NoSuchEnd {
        /// The node that it is for.
        node: u16,
        /// The link that it is for.
        link: u8,
    },
    /// A signal arrives too early or too late, or an end wishes to train from a later time on.
    #[error("a signal of {arrives_ps} ps, outside of {from_ps} to {to_ps} ps")]
    Time {
        /// Time of its arrival, or of the wish, ps.
        arrives_ps: u64,
        /// The earliest possible, ps.
        from_ps: u64,
        /// The latest possible, ps.
        to_ps: u64,
    },
}

kinds!(Malformed {
    Self::Bytes(_) | Self::Frame { .. } | Self::NoSuchEnd { .. } | Self::Time { .. } => Data,
});

impl From<postcard::Error> for Malformed {
    fn from(error: postcard::Error) -> Self {
        Self::Bytes(error.to_string())
    }
}

/// Latest arrival of a signal: half of all time, so that nothing overflows behind it.
const LATEST_PS: u64 = u64::MAX / 2;

/// Faults of frames by their numbers in messages.
const FAULTS: [Damaged; 6] = [
    Damaged::Symbol,
    Damaged::Control,
    Damaged::Begin,
    Damaged::Length,
    Damaged::Crc,
    Damaged::Operation,
];
/// States by their numbers in messages.
const STATES: [PartState; 3] = [PartState::Running, PartState::Quiet, PartState::Stopped];

/// Begin of a message; the rest follows.
#[derive(Serialize, Deserialize)]
enum Opening {
    /// The end of a window. Signals follow.
    Turn { next_ps: u64, arrives_ps: u64, state: u8 },
    /// The part has ended. Its end follows.
    Ended,
}

#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    node: u16,
    link: u8,
    arrives_ps: u64,
    #[serde(borrow)]
    signal: SentSignal<'a>,
}

#[derive(Serialize, Deserialize)]
enum SentSignal<'a> {
    /// The bytes of a frame with its CRC.
    Frame(&'a [u8]),
    Damaged(u8),
    /// Time since which it is ready, session, and session of the other end.
    Training(Option<(u64, u32, Option<u32>)>),
    /// Of each lane.
    LaneErrors([u16; MAX_LANES]),
}

/// A message from another part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The end of a window, and the signals that were sent in it.
    Turn(Said, Vec<CableMessage>),
    /// The bytes of a part's end.
    Ended(Vec<u8>),
}

/// Ends of cut cables in a part, and the earliest time at which a signal can arrive there.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The ends.
    pub ends: BTreeSet<CableEnd>,
    /// The earliest time.
    pub from: Picoseconds,
}

fn number<T: PartialEq>(all: &[T], one: T) -> u8 {
    let at = all.iter().position(|other| *other == one);
    at.expect("all of them are in the list") as u8
}

fn put(bytes: Vec<u8>, value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, bytes).expect("a vector takes any bytes")
}

/// Writes the end of a window. Takes the signals.
pub fn turn(said: Said, messages: &mut Vec<CableMessage>) -> Vec<u8> {
    let (next_ps, arrives_ps) = (said.next.0, said.arrives.0);
    let opening = Opening::Turn { next_ps, arrives_ps, state: number(&STATES, said.state) };
    let mut bytes = put(Vec::new(), &opening);
    for CableMessage { to, arrives_ps, signal } in messages.drain(..) {
        let frame;
        let signal = match signal {
            Signal::Frame(Ok(sent)) => {
                frame = sent.encode();
                SentSignal::Frame(frame.as_slice())
            }
            Signal::Frame(Err(fault)) => SentSignal::Damaged(number(&FAULTS, fault)),
            Signal::LaneErrors(errors) => SentSignal::LaneErrors(errors),
            Signal::Training(wish) => SentSignal::Training(
                wish.map(|wish| (wish.since_ps, wish.session, wish.far_session)),
            ),
        };
        bytes = put(bytes, &Sent { node: to.node, link: to.link, arrives_ps, signal });
    }
    bytes
}

/// Writes the end of a part.
pub(crate) fn ended(end: &impl Serialize) -> Vec<u8> {
    put(put(Vec::new(), &Opening::Ended), end)
}

/// Reads the end of a part.
///
/// # Errors
/// Bytes that are none.
pub(crate) fn end<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    Ok(postcard::from_bytes(bytes)?)
}

/// Returns the bytes of a part's end from a message; none if its part runs on.
///
/// # Errors
/// Bytes that are no message.
pub(crate) fn read_end(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let (opening, rest) = postcard::take_from_bytes(bytes)?;
    Ok(matches!(opening, Opening::Ended).then_some(rest))
}

fn unknown(what: &str, number: u8) -> Malformed {
    Malformed::Bytes(format!("{what} {number} is unknown"))
}

/// Reads a message of another part.
///
/// # Errors
/// Bytes that are none, and signals that cannot come here now.
pub fn read(bytes: &[u8], expected: &Expected) -> Result<Message, Malformed> {
    let (opening, mut rest) = postcard::take_from_bytes(bytes)?;
    let (next, arrives, state) = match opening {
        Opening::Ended => return Ok(Message::Ended(rest.to_vec())),
        Opening::Turn { next_ps, arrives_ps, state } => (next_ps, arrives_ps, state),
    };
    let (next, arrives) = (Picoseconds(next), Picoseconds(arrives));
    let state = *STATES.get(usize::from(state)).ok_or_else(|| unknown("state", state))?;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let sent: Sent<'_>;
        (sent, rest) = postcard::take_from_bytes(rest)?;
        let Sent { node, link, arrives_ps, signal } = sent;
        let to = CableEnd { node, link };
        if !expected.ends.contains(&to) {
            return Err(Malformed::NoSuchEnd { node, link });
        }
        let (from_ps, to_ps) = (expected.from.0, LATEST_PS);
        if !(from_ps..=to_ps).contains(&arrives_ps) {
            return Err(Malformed::Time { arrives_ps, from_ps, to_ps });
        }
        let signal = match signal {
            SentSignal::Training(Some((since_ps, ..))) if since_ps > arrives_ps => {
                let (from_ps, to_ps) = (0, arrives_ps);
                return Err(Malformed::Time { arrives_ps: since_ps, from_ps, to_ps });
            }
            SentSignal::Frame(bytes) => {
                let frame = Frame::decode(bytes);
                let frame = frame.map_err(|source| Malformed::Frame { node, link, source })?;
                Signal::Frame(Ok(frame))
            }
            SentSignal::Damaged(fault) => {
                let known = FAULTS.get(usize::from(fault));
                Signal::Frame(Err(*known.ok_or_else(|| unknown("fault", fault))?))
            }
            SentSignal::LaneErrors(errors) => Signal::LaneErrors(errors),
            SentSignal::Training(wish) => {
                Signal::Training(wish.map(|(since_ps, session, far_session)| Wish {
                    since_ps,
                    session,
                    far_session,
                }))
            }
        };
        messages.push(CableMessage { to, arrives_ps, signal });
    }
    Ok(Message::Turn(Said { next, arrives, state }, messages))
}
