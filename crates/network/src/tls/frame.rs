// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames on a stream: a header of 32 B, and behind it as many bytes as it says.
//!
//! All numbers are little endian: kind (1 B), flags (1), unused (2), bytes behind the header (4),
//! id (8), key (8), address (8).

use crosslane_host::MAX_RDMA_MESSAGE_BYTES;

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 32;
/// Most bytes behind the header of a frame with data: between frames of a long write or answer
/// others find their place.
pub const MAX_DATA_BYTES: u32 = 256 << 10;
/// Most bytes of one read or write on the wire; longer ones are made of several.
pub const MAX_OPERATION_BYTES: u64 = 1 << 30;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First frame of each stream, by the side that connects: `id` and `key` are the connection's
    /// number, `address` is the stream's (lower 32 bits) and the count of streams (upper ones).
    Join,
    /// The answer: all streams have come.
    Joined,
    /// A message from program to program.
    Message,
    /// Count `id` of messages that the program has taken; wraps at 32 bits.
    Taken,
    /// Data for the memory with this key, at this address.
    Write,
    /// Asks for `id`'s data: as many bytes as `bytes` says, none of which follow.
    Read,
    /// Data of the read `id`, at offset `address` of it.
    Data,
    /// The end of write or read `id`; `address` is a [`Status`].
    Done,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Join,
        Self::Joined,
        Self::Message,
        Self::Taken,
        Self::Write,
        Self::Read,
        Self::Data,
        Self::Done,
    ];

    const fn most_bytes(self) -> u32 {
        match self {
            Self::Message => MAX_RDMA_MESSAGE_BYTES as u32,
            Self::Write | Self::Data => MAX_DATA_BYTES,
            Self::Read => MAX_OPERATION_BYTES as u32,
            Self::Join | Self::Joined | Self::Taken | Self::Done => 0,
        }
    }
}

/// How a read or write ended at the node whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Moved,
    NoSuchKey,
    NotAllowed,
    Beyond,
}

impl Status {
    const ALL: [Self; 4] = [Self::Moved, Self::NoSuchKey, Self::NotAllowed, Self::Beyond];
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Of a write: whether this is the first, and the last frame of it.
    pub is_first: bool,
    pub is_last: bool,
    pub bytes: u32,
    pub id: u64,
    pub key: u64,
    pub address: u64,
}

impl Header {
    pub const fn new(kind: Kind) -> Self {
        Self { kind, is_first: false, is_last: false, bytes: 0, id: 0, key: 0, address: 0 }
    }

    /// A read's or write's end.
    pub const fn done(id: u64, status: Status) -> Self {
        Self { id, address: status as u64, ..Self::new(Kind::Done) }
    }

    /// Its status, of a [`Kind::Done`].
    pub fn status(&self) -> Result<Status, String> {
        let known = Status::ALL.into_iter().find(|status| *status as u64 == self.address);
        known.ok_or_else(|| format!("an end of unknown kind {}", self.address))
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut to = [0; HEADER_BYTES];
        to[0] = self.kind as u8;
        to[1] = u8::from(self.is_first) | u8::from(self.is_last) << 1;
        to[4..8].copy_from_slice(&self.bytes.to_le_bytes());
        for (at, word) in [(8, self.id), (16, self.key), (24, self.address)] {
            to[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        to
    }

    /// Reads a header that has come from outside.
    ///
    /// # Errors
    /// A kind or flags that do not exist, and a length that this kind cannot have.
    pub fn decode(from: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        let kind = Kind::ALL.get(usize::from(from[0]));
        let kind = *kind.ok_or_else(|| format!("a frame of unknown kind {}", from[0]))?;
        if from[1] > 3 || from[2..4] != [0, 0] {
            return Err(format!("a frame ({kind:?}) with unknown flags"));
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&from[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let bytes = u32::from_le_bytes([from[4], from[5], from[6], from[7]]);
        if bytes > kind.most_bytes() {
            let most = kind.most_bytes();
            return Err(format!("a frame ({kind:?}) of {bytes} B, of which it can have {most}"));
        }
        let (is_first, is_last) = (from[1] & 1 != 0, from[1] & 2 != 0);
        Ok(Self { kind, is_first, is_last, bytes, id: word(8), key: word(16), address: word(24) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any 32 bytes are refused, or are a header that is written as it was read.
        #[test]
        fn a_header_is_written_as_it_was_read(
            kind in 0_u8..10,
            flags in 0_u8..5,
            rest in any::<[u8; HEADER_BYTES]>(),
            bytes in 0_u32..600_000,
        ) {
            let mut wire = rest;
            wire[..4].copy_from_slice(&[kind, flags, 0, 0]);
            wire[4..8].copy_from_slice(&bytes.to_le_bytes());
            match Header::decode(&wire) {
                Ok(header) => {
                    prop_assert!(header.bytes <= header.kind.most_bytes());
                    prop_assert_eq!(header.encode(), wire);
                }
                Err(why) => prop_assert!(kind > 7 || flags > 3 || why.contains("of which")),
            }
        }
    }

    #[test]
    fn the_end_of_an_operation_says_how_it_was() {
        for status in Status::ALL {
            let header = Header::decode(&Header::done(7, status).encode()).unwrap();
            assert_eq!((header.kind, header.id, header.status()), (Kind::Done, 7, Ok(status)));
        }
        let header = Header { address: 4, ..Header::new(Kind::Done) };
        assert_eq!(header.status(), Err("an end of unknown kind 4".into()));
    }
}
