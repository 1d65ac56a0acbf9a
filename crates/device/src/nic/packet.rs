// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of the network.

use super::layout::Status;
use super::parameters::NetworkParameters;

/// What a packet is. `message` is the number of a work request of the queue pair that made it: they
/// count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A part of a write: its place in far memory, and what the whole is.
    Write { key: u32, address: u64, offset: u64, bytes: u64 },
    /// A message, whole.
    Send,
    /// A read.
    ReadRequest { key: u32, address: u64, bytes: u64 },
    /// A part of a read's data.
    ReadResponse { offset: u64, bytes: u64 },
    /// Writes and messages up to `message` are done; so many messages may be sent in all.
    Acknowledge { messages: u32 },
    /// The request has been refused.
    Refusal { status: Status },
    /// The other end has gone.
    Disconnect,
}

/// A packet.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// Queue pair that it is for.
    pub to: u32,
    pub message: u64,
    pub kind: Kind,
    pub payload: Vec<u8>,
}

impl Packet {
    /// Whether it is the last of its message.
    pub fn is_last(&self) -> bool {
        match self.kind {
            Kind::Write { offset, bytes, .. } | Kind::ReadResponse { offset, bytes } => {
                offset + self.payload.len() as u64 == bytes
            }
            _ => true,
        }
    }

    /// Bytes on the wire: payloads are whole words of 4 B.
    pub fn wire_bytes(&self, network: &NetworkParameters) -> u32 {
        let more = match self.kind {
            Kind::Write { offset: 0, .. } | Kind::ReadRequest { .. } => network.request_bytes,
            Kind::ReadResponse { offset, .. } if offset == 0 || self.is_last() => {
                network.acknowledgement_bytes
            }
            Kind::Acknowledge { .. } | Kind::Refusal { .. } | Kind::Disconnect => {
                network.acknowledgement_bytes
            }
            _ => 0,
        };
        network.header_bytes + more + (self.payload.len() as u32).next_multiple_of(4)
    }
}
