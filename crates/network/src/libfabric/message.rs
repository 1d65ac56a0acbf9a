// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets on a connection besides the data of reads and writes: messages, counts of messages
//! taken, and questions about access to memory.
//!
//! A sender has at most [`WINDOW`] messages in flight that the other program has not taken, so each
//! has a receive buffer. The rest is bounded too: one count of messages for each half window, and
//! [`MAX_QUESTIONS`] questions with their answers.

use crosslane_host::MAX_RDMA_MESSAGE_BYTES;

use crate::inbox::WINDOW;

/// Most questions in flight.
pub const MAX_QUESTIONS: usize = 8;
/// Receive buffers, for the window, its counts, questions and answers.
pub const RECEIVES: u32 = WINDOW + 4 + 2 * MAX_QUESTIONS as u32;
/// Most outgoing messages in flight.
pub const SENDS: u32 = 32;
/// Bytes of a buffer for one message with its header.
pub const BUFFER_BYTES: u64 = (HEADER_BYTES + MAX_RDMA_MESSAGE_BYTES).next_multiple_of(64) as u64;

/// Length of a header: kind (1), unused (3), number of the message (4), count of messages that the
/// sender has taken (4).
const HEADER_BYTES: usize = 12;

/// Description of the memory with a key, for the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub address: u64,
    pub bytes: u64,
    pub read: bool,
    pub write: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message from program to program; numbered from 0.
    Data { number: u32, message: Vec<u8> },
    /// Only the count in the header.
    Taken,
    /// Asks which memory has this key.
    Question { id: u32, key: u64 },
    /// Answers with that memory; `None` if this program has registered none with the key.
    Answer { id: u32, grant: Option<Grant> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Count of messages that the sender's program has taken; wraps.
    pub taken: u32,
    pub body: Body,
}

impl Packet {
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number) = match &self.body {
            Body::Data { number, .. } => (1, *number),
            Body::Taken => (2, 0),
            Body::Question { id, .. } => (3, *id),
            Body::Answer { id, .. } => (4, *id),
        };
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(number.to_le_bytes());
        bytes.extend(self.taken.to_le_bytes());
        match &self.body {
            Body::Data { message, .. } => bytes.extend(message),
            Body::Taken => {}
            Body::Question { key, .. } => bytes.extend(key.to_le_bytes()),
            Body::Answer { grant, .. } => {
                if let Some(Grant { address, bytes: size, read, write }) = grant {
                    bytes.extend([u8::from(*read) | u8::from(*write) << 1]);
                    bytes.extend(address.to_le_bytes());
                    bytes.extend(size.to_le_bytes());
                }
            }
        }
        bytes
    }

    /// Decodes a packet; `None` if this program could not have sent it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| Some(u32::from_le_bytes(*header[at..].first_chunk()?));
        let (number, taken) = (word(4)?, word(8)?);
        if header[1..4] != [0; 3] {
            return None;
        }
        let long = |at: usize| Some(u64::from_le_bytes(*rest.get(at..)?.first_chunk()?));
        let body = match (header[0], rest.len()) {
            (1, ..=MAX_RDMA_MESSAGE_BYTES) => Body::Data { number, message: rest.to_vec() },
            (2, 0) => Body::Taken,
            (3, 8) => Body::Question { id: number, key: long(0)? },
            (4, 0) => Body::Answer { id: number, grant: None },
            (4, 17) if rest[0] < 4 => {
                let (read, write) = (rest[0] & 1 != 0, rest[0] & 2 != 0);
                let grant = Grant { address: long(1)?, bytes: long(9)?, read, write };
                Body::Answer { id: number, grant: Some(grant) }
            }
            _ => return None,
        };
        Some(Self { taken, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let grant = Grant { address: 7 << 40, bytes: u64::MAX, read: true, write: false };
        for body in [
            Body::Data { number: 70_000, message: vec![1; MAX_RDMA_MESSAGE_BYTES] },
            Body::Data { number: 0, message: vec![] },
            Body::Taken,
            Body::Question { id: 5, key: 1 << 63 },
            Body::Answer { id: 5, grant: None },
            Body::Answer { id: 6, grant: Some(grant) },
        ] {
            let packet = Packet { taken: 0x0102_0304, body };
            let bytes = packet.encode();
            assert!(bytes.len() as u64 <= BUFFER_BYTES);
            assert_eq!(Packet::decode(&bytes), Some(packet));
        }
    }

    #[test]
    fn what_nobody_sends() {
        let question = Packet { taken: 0, body: Body::Question { id: 0, key: 0 } }.encode();
        assert_eq!(Packet::decode(&question[..19]), None);
        assert_eq!(Packet::decode(&[0; 12]), None);
        assert_eq!(Packet::decode(&[2; 12]), None);
        assert_eq!(Packet::decode(&[]), None);
        let mut long = vec![1, 0, 0, 0];
        long.resize(HEADER_BYTES + MAX_RDMA_MESSAGE_BYTES + 1, 0);
        assert_eq!(Packet::decode(&long), None);
    }
}
