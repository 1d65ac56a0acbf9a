// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two-sided communication between the nodes of a torus: a node sends into room that another node
//! has made, and both identify the message by link, channel and tag.
//!
//! Read first: [`Node`], [`Message`]. `docs/network-processor.md` describes the device below.
//!
//! | call | effect |
//! | --- | --- |
//! | [`tx_i`](Node::tx_i) | begins to send |
//! | [`rx_i`](Node::rx_i) | makes room |
//! | [`tx_i_strided`](Node::tx_i_strided) | begins to send blocks of memory at a stride |
//! | [`rx_i_strided`](Node::rx_i_strided) | makes room in blocks of memory at a stride |
//! | [`test`](Node::test) | whether a message has ended |
//! | [`finish`](Node::finish) | waits until a message has left its buffer, or is in it |
//! | [`put`](Node::put) | stores a short message into a link, with the processor |
//!
//! ```
//! use std::time::Duration;
//!
//! use crosslane_lab::{Simulation, open};
//! use crosslane_pcie::units::HostId;
//! use crosslane_torus::*;
//!
//! // Two nodes of the lab's sixteen.
//! let lab = open("torus")?.with_torus(&[2])?;
//! let simulation = Simulation::new(lab.build_engines(1)?);
//! let received = simulation.run("example", async {
//!     let mut nodes = Vec::new();
//!     for number in 0..2 {
//!         let (bus, name) = (simulation.bus(HostId(number)), format!("fpga{}", number + 1));
//!         let coordinates = Coordinates::of_node(number, &[2]);
//!         nodes.push(Node::open(bus, &name, coordinates, NodeOptions::default()).await?);
//!     }
//!     let deadline = nodes[0].deadline(Duration::from_secs(1));
//!     for node in &nodes {
//!         node.links_up(deadline).await?;
//!     }
//!     let (from, to) = (&nodes[0], &nodes[1]);
//!     let peer = |direction| Peer::Neighbour { direction, channel: 0 };
//!     // Room first: what is sent up arrives from below.
//!     let buffer = to.buffer(4096).await?;
//!     let from_below = peer(Direction::Down(0));
//!     let room = Message { peer: from_below, tag: 7, part: 0..4096, buffer, deadline };
//!     let receiving = to.rx_i(room.clone()).await?;
//!     let buffer = from.buffer(4096).await?;
//!     buffer.write(0, &[42; 4096])?;
//!     let data = Message { peer: peer(Direction::Up(0)), buffer, ..room.clone() };
//!     let sending = from.tx_i(data).await?;
//!     from.finish(&sending).await?;
//!     to.finish(&receiving).await?;
//!     let mut bytes = [0; 4096];
//!     room.buffer.read(0, &mut bytes)?;
//!     Ok::<_, Box<dyn std::error::Error>>(bytes)
//! })??;
//! assert_eq!(received, [42; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rules for all calls:
//!
//! * An invalid call is refused before anything is written, with a sentence that says why.
//! * Any number of messages may be in progress. Messages sent at the same time must differ in peer,
//!   channel or tag, and so must messages received at the same time.
//! * A message longer than a piece ([`NodeOptions::piece_bytes`], 1 MiB or less) is sent as several
//!   pieces in sequence. Both ends use the same pieces, and the room for such a message has exactly
//!   its length. Each call that waits advances all messages, so sends and receives may be waited
//!   for in any order.
//! * A message of a node that is no neighbour has its room before it is sent. What comes earlier
//!   waits in half of a receive buffer; beyond that it is dropped, and its room ends with
//!   [`NetworkFault::Dropped`]. With
//!   [`NodeOptions::hold_routed`] all of it waits, and may keep other messages from passing.
//! * Every message has a deadline. Its memory belongs to the device until it has ended; futures and
//!   handles may be dropped at any time.

#![forbid(unsafe_code)]

mod blocks;
mod coordinates;
mod error;
mod node;
mod operation;

pub use blocks::Blocks;
pub use coordinates::{Coordinates, Direction, Peer};
pub use crosslane_driver::network_processor::{
    Buffers, Ended, LinkCounters, LinkState, LinkStatus, Modes, NetworkError, NetworkFault,
    Requests, TorusDimension,
};
pub use error::TorusError;
pub use node::{Begun, Message, Node, NodeOptions, StridedMessage};
