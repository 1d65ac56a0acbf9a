// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Structures in host memory shared by a program and its NIC, and the doorbells. All numbers are
//! little-endian.
//!
//! Each connection has a queue pair. Its memory holds, in this order, a ring of work requests
//! (written by the program, read by the NIC), a ring of completion entries (written by the NIC,
//! read by the program), and a ring of message slots. Counts of entries wrap at 2^32; an entry's
//! index is its count modulo the length of its ring.

use strum::{IntoStaticStr, VariantArray};

use crate::little_endian::{long, word};

/// Bytes of a work request.
pub const REQUEST_BYTES: u64 = 64;
/// Bytes of a completion entry.
pub const ENTRY_BYTES: u64 = 64;
/// Bytes of a message slot, and of the longest message.
pub const MESSAGE_BYTES: u64 = 4096;

/// Bytes of a work request's fields; a message may follow at once.
const FIELDS_BYTES: u64 = 40;
/// Longest message within its work request, which takes up to four places of the ring then.
pub const INLINE_BYTES: u64 = 4 * REQUEST_BYTES - FIELDS_BYTES;

/// Bytes of each queue pair's doorbells in BAR 0.
pub const DOORBELL_BYTES: u64 = 8;
/// Offset of the doorbell that counts the work requests posted since the start.
pub const SEND_DOORBELL: u64 = 0;
/// Offset of the doorbell that counts the messages taken since the start, which frees their slots.
pub const RECEIVE_DOORBELL: u64 = 4;

/// Lengths of the rings in a queue pair's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    /// Most work requests posted and not completed, a power of two.
    pub requests: u32,
    /// Completion entries, a power of two, enough for all that can exist at once.
    pub entries: u32,
    /// Most messages received and not taken, a power of two.
    pub messages: u32,
}

impl QueueLayout {
    /// Creates a layout for `requests` and `messages`, powers of two up to 65,536.
    pub const fn new(requests: u32, messages: u32) -> Self {
        // One more for the entry that ends the connection.
        Self { requests, entries: (requests + messages + 1).next_power_of_two(), messages }
    }

    /// Whether the lengths are valid.
    pub const fn is_valid(&self) -> bool {
        const fn power(count: u32) -> bool {
            count.is_power_of_two() && count <= 1 << 16
        }
        power(self.requests)
            && power(self.messages)
            && self.entries.is_power_of_two()
            && self.entries > self.requests + self.messages
            && self.entries <= 1 << 18
    }

    /// Returns the bytes of all rings.
    pub const fn bytes(&self) -> u64 {
        self.messages_offset() + self.messages as u64 * MESSAGE_BYTES
    }

    /// Returns the offset of the work request with a count.
    pub const fn request_offset(&self, count: u32) -> u64 {
        (count % self.requests) as u64 * REQUEST_BYTES
    }

    /// Returns the offset of the completion entry with a count.
    pub const fn entry_offset(&self, count: u32) -> u64 {
        self.requests as u64 * REQUEST_BYTES + (count % self.entries) as u64 * ENTRY_BYTES
    }

    /// Returns the first word of a completion entry when it is valid; before that, the word is one
    /// less.
    pub const fn entry_turn(&self, count: u32) -> u32 {
        (count / self.entries).wrapping_add(1)
    }

    /// Returns the offset of the message slot with a count.
    pub const fn message_offset(&self, count: u32) -> u64 {
        self.messages_offset() + (count % self.messages) as u64 * MESSAGE_BYTES
    }

    const fn messages_offset(&self) -> u64 {
        // Slots begin at a page boundary.
        let before = self.requests as u64 * REQUEST_BYTES + self.entries as u64 * ENTRY_BYTES;
        before.next_multiple_of(MESSAGE_BYTES)
    }
}

/// Operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write near memory into far memory.
    Write,
    /// Read far memory into near memory.
    Read,
    /// Send a message from near memory.
    Send,
    /// Send a message of at most [`INLINE_BYTES`] that follows the request's fields in the ring.
    SendInline,
}

impl Operation {
    /// Whether it sends a message.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::SendInline)
    }
}

/// Work request of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// Operation to execute.
    pub operation: Operation,
    /// Number chosen by the program and returned in the completion entry.
    pub id: u32,
    /// Address of the near memory's first byte.
    pub near_address: u64,
    /// Key of the near memory's registration.
    pub near_key: u32,
    /// Address of the far memory's first byte.
    pub far_address: u64,
    /// Key of the far memory's registration.
    pub far_key: u32,
    /// Length in bytes.
    pub bytes: u64,
}

impl WorkRequest {
    /// Encodes the request for the ring.
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES as usize] {
        let operation: u32 = match self.operation {
            Operation::Write => 1,
            Operation::Read => 2,
            Operation::Send => 3,
            Operation::SendInline => 4,
        };
        let mut bytes = [0; REQUEST_BYTES as usize];
        for (at, word) in [(0, operation), (4, self.id), (8, self.near_key), (12, self.far_key)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in [(16, self.near_address), (24, self.far_address), (32, self.bytes)] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Encodes the request with its message for consecutive places of the ring.
    pub fn with_message(&self, message: &[u8]) -> Vec<[u8; REQUEST_BYTES as usize]> {
        let mut bytes = self.to_bytes()[..FIELDS_BYTES as usize].to_vec();
        bytes.extend_from_slice(message);
        let places = bytes.chunks(REQUEST_BYTES as usize).map(|part| {
            let mut place = [0; REQUEST_BYTES as usize];
            place[..part.len()].copy_from_slice(part);
            place
        });
        places.collect()
    }

    /// Returns the places of the ring that it takes.
    pub const fn places(&self) -> u32 {
        match self.operation {
            Operation::SendInline => {
                self.bytes.saturating_add(FIELDS_BYTES).div_ceil(REQUEST_BYTES) as u32
            }
            Operation::Write | Operation::Read | Operation::Send => 1,
        }
    }

    /// Returns the message in the bytes of all its places; empty if it has none.
    pub(super) fn message<'a>(&self, places: &'a [u8]) -> &'a [u8] {
        match self.operation {
            Operation::SendInline => &places[FIELDS_BYTES as usize..][..self.bytes as usize],
            Operation::Write | Operation::Read | Operation::Send => &[],
        }
    }

    /// Decodes a request from the ring; `None` for an unknown operation, or a message within it
    /// that is too long.
    pub fn from_bytes(bytes: &[u8; REQUEST_BYTES as usize]) -> Option<Self> {
        let work = Self::fields(bytes)?;
        let is_too_long = work.operation == Operation::SendInline && work.bytes > INLINE_BYTES;
        (!is_too_long).then_some(work)
    }

    fn fields(bytes: &[u8; REQUEST_BYTES as usize]) -> Option<Self> {
        Some(Self {
            operation: match word(bytes, 0) {
                1 => Operation::Write,
                2 => Operation::Read,
                3 => Operation::Send,
                4 => Operation::SendInline,
                _ => return None,
            },
            id: word(bytes, 4),
            near_key: word(bytes, 8),
            far_key: word(bytes, 12),
            near_address: long(bytes, 16),
            far_address: long(bytes, 24),
            bytes: long(bytes, 32),
        })
    }
}

/// Outcome of a work request or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Status {
    /// The request succeeded.
    #[strum(to_string = "done")]
    Done,
    /// The near memory is not registered, or not over the whole length.
    #[strum(to_string = "the near memory is not registered so far")]
    NearMemory,
    /// The other end refused: the key is unknown or does not permit the operation.
    #[strum(to_string = "its key is not for this")]
    FarAccess,
    /// The other end refused: the range exceeds the memory of the key.
    #[strum(to_string = "it reaches beyond the memory that its key is for")]
    FarBounds,
    /// The other end could not read or write its memory.
    #[strum(to_string = "the other node could not reach its own memory")]
    FarMemory,
    /// A read of this host's memory failed.
    #[strum(to_string = "the host's memory could not be read")]
    HostMemory,
    /// The other end gave no sign of life within the time-out.
    #[strum(to_string = "there was no sign of the other node within the time-out")]
    TimedOut,
    /// The other end closed or lost the connection.
    #[strum(to_string = "it was closed at the other end")]
    ClosedThere,
    /// This end closed the connection.
    #[strum(to_string = "it was closed at this end")]
    ClosedHere,
    /// The NIC's link to its host went down.
    #[strum(to_string = "the adapter's link to its host went down")]
    LinkDown,
    /// The work request is invalid.
    #[strum(to_string = "a work request was none")]
    BadRequest,
    /// This end refused a request of the other end.
    #[strum(to_string = "a request of the other node had to be refused")]
    RefusedHere,
}

impl Status {
    /// Returns a description that can follow a subject in a sentence.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// Subject of a completion entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A work request has ended.
    Request {
        /// Number of the work request, from [`WorkRequest::id`].
        id: u32,
    },
    /// The next message has arrived.
    Message {
        /// Length of the message.
        bytes: u32,
    },
    /// The connection has ended. No more entries follow, and work requests without an entry have no
    /// outcome. The NIC no longer accesses memory for the connection, and its writes can be seen.
    Closed,
}

/// Completion entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Subject of the entry.
    pub kind: EntryKind,
    /// Outcome of the subject.
    pub status: Status,
}

impl Entry {
    /// Encodes the entry for the ring, with its turn.
    pub fn to_bytes(&self, turn: u32) -> [u8; ENTRY_BYTES as usize] {
        let (kind, number) = match self.kind {
            EntryKind::Request { id } => (1_u32, id),
            EntryKind::Message { bytes } => (2, bytes),
            EntryKind::Closed => (3, 0),
        };
        let mut bytes = [0; ENTRY_BYTES as usize];
        for (at, word) in [(0, turn), (4, kind), (8, self.status as u32), (12, number)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes an entry from the ring; `None` for bytes that no NIC writes.
    pub fn from_bytes(bytes: &[u8; ENTRY_BYTES as usize]) -> Option<Self> {
        let number = word(bytes, 12);
        let kind = match word(bytes, 4) {
            1 => EntryKind::Request { id: number },
            2 => EntryKind::Message { bytes: number },
            3 => EntryKind::Closed,
            _ => return None,
        };
        let status = *Status::VARIANTS.get(word(bytes, 8) as usize)?;
        Some(Self { kind, status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_requests_and_entries_come_back_as_they_were() {
        for operation in [Operation::Write, Operation::Read, Operation::Send] {
            let request = WorkRequest {
                operation,
                id: 7,
                near_address: 1 << 40,
                near_key: 3,
                far_address: (1 << 33) + 5,
                far_key: 9,
                bytes: 1 << 35,
            };
            assert_eq!(WorkRequest::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(WorkRequest::from_bytes(&[0; 64]), None);
        for &status in Status::VARIANTS {
            for kind in
                [EntryKind::Request { id: 5 }, EntryKind::Message { bytes: 9 }, EntryKind::Closed]
            {
                let entry = Entry { kind, status };
                let bytes = entry.to_bytes(0x0102_0304);
                assert_eq!(Entry::from_bytes(&bytes), Some(entry));
                assert_eq!(bytes[..4], [4, 3, 2, 1]);
            }
        }
        assert_eq!(Entry::from_bytes(&[0xff; 64]), None);
    }

    #[test]
    fn a_message_follows_its_request_in_the_ring() {
        let message: Vec<u8> = (0..=255).collect();
        for (bytes, places) in [(0, 1), (24, 1), (25, 2), (89, 3), (216, 4)] {
            let work = WorkRequest {
                operation: Operation::SendInline,
                id: 7,
                near_address: 0,
                near_key: 0,
                far_address: 0,
                far_key: 0,
                bytes,
            };
            let written = work.with_message(&message[..bytes as usize]);
            assert_eq!((written.len(), work.places()), (places, places as u32), "{bytes} B");
            assert_eq!(WorkRequest::from_bytes(&written[0]), Some(work));
            assert_eq!(work.message(&written.concat()), &message[..bytes as usize]);
            let long = WorkRequest { bytes: bytes + INLINE_BYTES + 1, ..work };
            assert_eq!(WorkRequest::from_bytes(&long.to_bytes()), None);
        }
    }

    #[test]
    fn rings_lie_one_behind_the_other() {
        let layout = QueueLayout::new(128, 16);
        assert!(layout.is_valid());
        assert_eq!((layout.entries, layout.entry_offset(0)), (256, 128 * 64));
        assert_eq!(layout.entry_turn(255), 1);
        assert_eq!(layout.entry_turn(256), 2);
        assert_eq!(layout.message_offset(0), (128 + 256) * 64);
        assert_eq!(layout.message_offset(17), layout.message_offset(1));
        assert_eq!(layout.bytes(), (128 + 256) * 64 + 16 * 4096);
        assert!(!QueueLayout { entries: 8, ..layout }.is_valid());
    }
}
