// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Communication between the nodes of a torus, two-sided: what one node sends another one has
//! made room for, and both say which message it is, by link, channel and tag.
//!
//! Read first: [`Node`], [`Message`]; `docs/network-processor.md` says what the device below does,
//! [`Blocking`] is the same for programs that wait.
//!
//! | call | what it does |
//! | --- | --- |
//! | [`tx_i`](Node::tx_i) | begins to send |
//! | [`tx_f`](Node::tx_f) | waits until the buffer is the program's again |
//! | [`rx_i`](Node::rx_i) | makes room |
//! | [`rx_f`](Node::rx_f) | waits until the message is there |
//! | [`put`](Node::put) | stores a short message into a link, with the processor |
//!
//! What holds everywhere:
//!
//! * A call that cannot be is refused before anything is written, with a sentence that says why.
//! * Any number of messages may be under way. Two that are sent at the same time differ in
//!   their peer, channel or tag, and so do two that are received.
//! * A message longer than a piece ([`NodeOptions::piece_bytes`], 1 MiB or less) goes in pieces,
//!   one behind the other. Both ends have the same pieces, and the room for such a message is
//!   exactly as long as it is. Each call that waits brings all of them forward, so it does not
//!   matter in which order sends and receives are waited for.
//! * Every message has a deadline. Memory is the device's until its message has ended; futures and
//!   handles may be dropped at any time.

#![forbid(unsafe_code)]

mod blocking;
mod error;
mod node;
mod operation;
mod place;

pub use blocking::{Blocking, Run, Spin};
pub use crosslane_driver::network_processor::{
    Buffers, Ended, LinkCounters, LinkState, Modes, NetworkError, NetworkFault, Requests,
    TorusDimension,
};
pub use error::TorusError;
pub use node::{Message, Node, NodeOptions, Receiving, Sending};
pub use place::{Direction, Peer, Place};
