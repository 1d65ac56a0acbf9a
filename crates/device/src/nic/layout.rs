// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program and its NIC tell each other in host memory, and the doorbells. All numbers are
//! little-endian.
//!
//! Each connection has a queue pair. Its memory holds, one behind the other, a ring of work
//! requests that the program writes and the NIC reads, a ring of completion entries that the NIC
//! writes and the program reads, and a ring of slots for messages. Counts of entries go on for
//! ever, modulo 2^32; an entry's place is its count modulo the length of its ring.

use crate::little_endian::{long, word};

/// Bytes of a work request.
pub const REQUEST_BYTES: u64 = 64;
/// Bytes of a completion entry.
pub const ENTRY_BYTES: u64 = 64;
/// Bytes of a slot for a message, and the longest message.
pub const MESSAGE_BYTES: u64 = 4096;

/// Bytes of BAR 0 that each queue pair's doorbells take.
pub const DOORBELL_BYTES: u64 = 8;
/// Doorbell: how many work requests have been posted since the start.
pub const SEND_DOORBELL: u64 = 0;
/// Doorbell: how many messages have been taken since the start; their slots are free.
pub const RECEIVE_DOORBELL: u64 = 4;

/// Places of the rings of a queue pair in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    /// Work requests that may be posted and not completed, a power of two.
    pub requests: u32,
    /// Completion entries, a power of two: never fewer than there can be at once.
    pub entries: u32,
    /// Messages that may have come and not been taken, a power of two.
    pub messages: u32,
}

impl QueueLayout {
    /// For so many work requests and messages, powers of two up to 65,536.
    #[must_use]
    pub const fn new(requests: u32, messages: u32) -> Self {
        // Beside them the last entry of all.
        Self { requests, entries: (requests + messages + 1).next_power_of_two(), messages }
    }

    /// Whether it can be used.
    #[must_use]
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

    /// Bytes of all rings.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.messages_offset() + self.messages as u64 * MESSAGE_BYTES
    }

    /// Where a work request is.
    #[must_use]
    pub const fn request_offset(&self, count: u32) -> u64 {
        (count % self.requests) as u64 * REQUEST_BYTES
    }

    /// Where a completion entry is.
    #[must_use]
    pub const fn entry_offset(&self, count: u32) -> u64 {
        self.requests as u64 * REQUEST_BYTES + (count % self.entries) as u64 * ENTRY_BYTES
    }

    /// The first word of a completion entry once it is there; before, it is one less.
    #[must_use]
    pub const fn entry_turn(&self, count: u32) -> u32 {
        (count / self.entries).wrapping_add(1)
    }

    /// Where a message is.
    #[must_use]
    pub const fn message_offset(&self, count: u32) -> u64 {
        self.messages_offset() + (count % self.messages) as u64 * MESSAGE_BYTES
    }

    const fn messages_offset(&self) -> u64 {
        // Slots begin at a page.
        let before = self.requests as u64 * REQUEST_BYTES + self.entries as u64 * ENTRY_BYTES;
        before.next_multiple_of(MESSAGE_BYTES)
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write near memory into far memory.
    Write,
    /// Read far memory into near memory.
    Read,
    /// Send a message from near memory.
    Send,
}

/// A work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// What is to be done.
    pub operation: Operation,
    /// A number of the program's own, which its completion entry carries.
    pub id: u32,
    /// First byte of the near memory.
    pub near_address: u64,
    /// Its registration.
    pub near_key: u32,
    /// First byte of the far memory.
    pub far_address: u64,
    /// Its registration.
    pub far_key: u32,
    /// Bytes.
    pub bytes: u64,
}

impl WorkRequest {
    /// As it stands in the ring.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES as usize] {
        let operation: u32 = match self.operation {
            Operation::Write => 1,
            Operation::Read => 2,
            Operation::Send => 3,
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

    /// From the ring; `None` for an operation that there is not.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; REQUEST_BYTES as usize]) -> Option<Self> {
        Some(Self {
            operation: match word(bytes, 0) {
                1 => Operation::Write,
                2 => Operation::Read,
                3 => Operation::Send,
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

/// How a work request, or a connection, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Done,
    /// Near memory that is not registered, or not so far.
    NearMemory,
    /// The other end refused: a key that it has not given, or not for this.
    FarAccess,
    /// The other end refused: beyond the memory that the key is for.
    FarBounds,
    /// The other end could not read or write its memory.
    FarMemory,
    /// A read of this host's memory failed.
    HostMemory,
    /// No sign of the other end within the time-out.
    TimedOut,
    /// The other end has closed, or lost, the connection.
    ClosedThere,
    /// This end has closed it.
    ClosedHere,
    /// The NIC's own link to its host went down.
    LinkDown,
    /// A work request that is none.
    BadRequest,
    /// A request of the other end has been refused.
    RefusedHere,
}

impl Status {
    const ALL: [Self; 12] = [
        Self::Done,
        Self::NearMemory,
        Self::FarAccess,
        Self::FarBounds,
        Self::FarMemory,
        Self::HostMemory,
        Self::TimedOut,
        Self::ClosedThere,
        Self::ClosedHere,
        Self::LinkDown,
        Self::BadRequest,
        Self::RefusedHere,
    ];

    /// Half a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NearMemory => "the near memory is not registered so far",
            Self::FarAccess => "its key is not for this",
            Self::FarBounds => "it reaches beyond the memory that its key is for",
            Self::FarMemory => "the other node could not reach its own memory",
            Self::HostMemory => "the host's memory could not be read",
            Self::TimedOut => "there was no sign of the other node within the time-out",
            Self::ClosedThere => "it was closed at the other end",
            Self::ClosedHere => "it was closed at this end",
            Self::LinkDown => "the adapter's link to its host went down",
            Self::BadRequest => "a work request was none",
            Self::RefusedHere => "a request of the other node had to be refused",
        }
    }
}

/// What a completion entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A work request has ended.
    Request {
        /// Its number.
        id: u32,
    },
    /// A message has come: the next one.
    Message {
        /// Its length.
        bytes: u32,
    },
    /// The connection has ended: no more entries come, and work requests that have none never had
    /// an end. The NIC reads and writes no memory for it any more, and what it has written can be
    /// seen.
    Closed,
}

/// A completion entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is about.
    pub kind: EntryKind,
    /// How it ended.
    pub status: Status,
}

impl Entry {
    /// As it stands in the ring, with its turn.
    #[must_use]
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

    /// From the ring; `None` for what no NIC writes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; ENTRY_BYTES as usize]) -> Option<Self> {
        let number = word(bytes, 12);
        let kind = match word(bytes, 4) {
            1 => EntryKind::Request { id: number },
            2 => EntryKind::Message { bytes: number },
            3 => EntryKind::Closed,
            _ => return None,
        };
        let status = *Status::ALL.get(word(bytes, 8) as usize)?;
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
        for status in Status::ALL {
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
