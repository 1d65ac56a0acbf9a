// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of the network between NICs.

use super::layout::Status;
use super::parameters::NetworkParameters;

/// Contents of a packet. `message` in [`Packet`] is the number of a work request of the queue pair
/// that made it, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of a write: its offset in the far memory, and the extent of the whole write.
    Write {
        key: u32,
        address: u64,
        offset: u64,
        bytes: u64,
    },
    /// Whole message.
    Send,
    ReadRequest {
        key: u32,
        address: u64,
        bytes: u64,
    },
    /// Part of a read's data.
    ReadResponse {
        offset: u64,
        bytes: u64,
    },
    /// Completion of writes and messages up to `message`; `messages` is the total that may be sent.
    Acknowledge {
        messages: u32,
    },
    /// Refusal of the request.
    Refusal {
        status: Status,
    },
    /// End of the connection by the other end.
    Disconnect,
}

#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// Queue pair that receives it.
    pub to: u32,
    pub message: u64,
    pub kind: Kind,
    pub payload: Vec<u8>,
}

impl Packet {
    /// Whether it is the last packet of its message.
    pub fn is_last(&self) -> bool {
        match self.kind {
            Kind::Write { offset, bytes, .. } | Kind::ReadResponse { offset, bytes } => {
                offset + self.payload.len() as u64 == bytes
            }
            _ => true,
        }
    }

    /// Returns the bytes on the wire. Payloads are padded to words of 4 B.
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
