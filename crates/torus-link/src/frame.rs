// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames of the torus link: datagrams and commands, and their bytes on the wire.
//!
//! Read first: `docs/torus-link.md`, *Frames*.

use std::sync::Arc;
use strum::FromRepr;
use thiserror::Error;

/// Number of channels of a link.
pub const CHANNELS: usize = 8;
/// Bytes of a datagram's payload.
pub const PAYLOAD_BYTES: usize = 128;
/// Bytes of a long datagram's payload.
pub const LONG_PAYLOAD_BYTES: usize = 256;
/// Bytes of a datagram beside its payload: header 4, CRC 4.
pub const DATAGRAM_OVERHEAD_BYTES: usize = 8;
/// Symbols of a datagram: header 4, payload 128, CRC 4.
pub const DATAGRAM_SYMBOLS: usize = PAYLOAD_BYTES + DATAGRAM_OVERHEAD_BYTES;
/// Symbols of a long datagram: header 4, payload 256, CRC 4.
pub const LONG_DATAGRAM_SYMBOLS: usize = LONG_PAYLOAD_BYTES + DATAGRAM_OVERHEAD_BYTES;
/// Symbols of a command: a word that begins with a control symbol, and CRC.
pub const COMMAND_SYMBOLS: usize = 8;
/// Byte of the control symbol K28.2, which begins a command.
pub const COMMAND_BYTE: u8 = 0x5c;
/// Modulus of the counts in commands.
pub const COUNT_MODULUS: u16 = 1024;
/// Number of tags of datagrams; a tag is below it.
pub const TAGS: u8 = 64;
/// Number of datagram indices; an index is below it.
pub const INDICES: u16 = 8192;

/// Payload of a datagram, shared rather than copied between retry buffer, wire and receiver:
/// [`PAYLOAD_BYTES`], or [`LONG_PAYLOAD_BYTES`] on a link with long datagrams.
pub type Payload = Arc<[u8]>;

/// Returns the bytes of a datagram's payload on a link with long datagrams or without.
pub const fn payload_bytes(is_long: bool) -> usize {
    if is_long { LONG_PAYLOAD_BYTES } else { PAYLOAD_BYTES }
}

/// One of the eight virtual channels of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(u8);

impl Channel {
    /// All channels in order.
    pub const ALL: [Self; CHANNELS] =
        [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

    /// Channel `number`, or `None` above 7.
    pub const fn new(number: u8) -> Option<Self> {
        if number < CHANNELS as u8 { Some(Self(number)) } else { None }
    }

    /// The channel in the lowest three bits of `bits`.
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & 7) as u8)
    }

    /// Number of the channel, 0 to 7.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Number of the channel as an array index, 0 to 7.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Role of a datagram in its message. The link carries it unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Not the last datagram.
    Middle = 0,
    /// The last datagram, with a full payload.
    Last = 1,
    /// The last datagram, with a shorter payload: its last byte gives the length.
    Short = 2,
    /// A routed datagram, whose payload begins with a routing word.
    Routed = 3,
}

impl Kind {
    const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Middle,
            1 => Self::Last,
            2 => Self::Short,
            _ => Self::Routed,
        }
    }
}

/// The header word of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Sequence number, modulo 256.
    pub sequence: u8,
    /// Virtual channel.
    pub channel: Channel,
    /// Role of the datagram in its message.
    pub kind: Kind,
    /// Tag of the message, below [`TAGS`].
    pub tag: u8,
    /// Index of the datagram in its message, below [`INDICES`].
    pub index: u16,
}

impl Header {
    /// Encodes the header word. Higher bits of tag and index are dropped.
    pub const fn word(&self) -> u32 {
        self.sequence as u32
            | (self.channel.0 as u32) << 8
            | (self.kind as u32) << 11
            | ((self.tag % TAGS) as u32) << 13
            | ((self.index % INDICES) as u32) << 19
    }

    /// Decodes a header word; every word is valid.
    pub const fn from_word(word: u32) -> Self {
        Self {
            sequence: word as u8,
            channel: Channel::from_bits(word >> 8),
            kind: Kind::from_bits(word >> 11),
            tag: (word >> 13) as u8 % TAGS,
            index: (word >> 19) as u16,
        }
    }
}

/// A header with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Sequence number, channel, and fields that the link carries unchanged.
    pub header: Header,
    /// Payload of 128 bytes, or 256 where datagrams are long.
    pub payload: Payload,
}

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr)]
#[repr(u8)]
pub enum Operation {
    /// ACK: every datagram before `sequence` has arrived.
    Acknowledge = 1,
    /// NACK: as ACK, and asks to send again from `sequence`.
    NotAcknowledge = 2,
    /// RESTART: the next datagram is `sequence`.
    Restart = 3,
    /// COUNT: as ACK, and asks for the freed count known at the other end.
    Count = 4,
    /// CONFIRM: as ACK; `freed` is the count of the other end as known here.
    Confirm = 5,
}

/// A command from one end to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// Operation of the command.
    pub operation: Operation,
    /// Next sequence number expected (RESTART: to be sent).
    pub sequence: u8,
    /// Channel whose count the command carries.
    pub channel: Channel,
    /// Datagrams that have left the receive buffer of `channel`, modulo [`COUNT_MODULUS`].
    pub freed: u16,
}

impl Command {
    /// Encodes the command's word, the control symbol's byte lowest.
    pub const fn word(&self) -> u32 {
        COMMAND_BYTE as u32
            | (self.operation as u32) << 8
            | (self.sequence as u32) << 11
            | (self.channel.0 as u32) << 19
            | ((self.freed % COUNT_MODULUS) as u32) << 22
    }

    /// Decodes the command's word.
    ///
    /// # Errors
    /// [`Damaged`] if the lowest byte is not K28.2 or the operation is unknown.
    pub const fn from_word(word: u32) -> Result<Self, Damaged> {
        if word as u8 != COMMAND_BYTE {
            return Err(Damaged::Begin);
        }
        let Some(operation) = Operation::from_repr((word >> 8) as u8 & 7) else {
            return Err(Damaged::Operation);
        };
        Ok(Self {
            operation,
            sequence: (word >> 11) as u8,
            channel: Channel::from_bits(word >> 19),
            freed: (word >> 22) as u16,
        })
    }
}

/// Reason why received symbols are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Damaged {
    /// A symbol is not in the code, or not at this disparity.
    #[error("it has an invalid symbol")]
    Symbol,
    /// A control symbol is inside a frame, or missing at its start.
    #[error("it has a misplaced control symbol")]
    Control,
    /// The first symbol does not begin a frame.
    #[error("it begins like no known frame")]
    Begin,
    /// The length is neither 8 nor 136 nor 264 symbols.
    #[error("it is longer than any frame")]
    Length,
    /// The CRC does not match.
    #[error("its CRC is wrong")]
    Crc,
    /// The operation of a command is unknown.
    #[error("its operation is unknown")]
    Operation,
}

/// The bytes of a frame, stored without allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameBytes {
    bytes: [u8; LONG_DATAGRAM_SYMBOLS],
    symbols: usize,
}

impl FrameBytes {
    /// All bytes in the order of the wire.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.symbols]
    }

    /// Whether the first byte is sent as a control symbol; all others are sent as data.
    pub fn begins_with_control(&self) -> bool {
        self.symbols == COMMAND_SYMBOLS
    }
}

/// A frame, sent between idle columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// 136 symbols, or 264.
    Datagram(Datagram),
    /// 8 symbols.
    Command(Command),
}

impl Frame {
    /// Length in symbols on the wire: 136 or 264, or 8.
    pub fn symbols(&self) -> usize {
        match self {
            Self::Datagram(datagram) => datagram.payload.len() + DATAGRAM_OVERHEAD_BYTES,
            Self::Command(_) => COMMAND_SYMBOLS,
        }
    }

    /// Encodes the frame with its CRC.
    ///
    /// # Panics
    /// If a payload is longer than [`LONG_PAYLOAD_BYTES`].
    pub fn encode(&self) -> FrameBytes {
        let mut bytes = [0; LONG_DATAGRAM_SYMBOLS];
        let symbols = self.symbols();
        match self {
            Self::Datagram(datagram) => {
                bytes[..4].copy_from_slice(&datagram.header.word().to_le_bytes());
                bytes[4..symbols - 4].copy_from_slice(&datagram.payload);
            }
            Self::Command(command) => bytes[..4].copy_from_slice(&command.word().to_le_bytes()),
        }
        let crc = crc32fast::hash(&bytes[..symbols - 4]);
        bytes[symbols - 4..symbols].copy_from_slice(&crc.to_le_bytes());
        FrameBytes { bytes, symbols }
    }

    /// Decodes `bytes`: 8 make a command, 136 a datagram, 264 a long one. The caller must check
    /// that a control symbol is in the first position of a command and nowhere else.
    ///
    /// # Errors
    /// [`Damaged`] if the bytes are not a valid frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        if ![COMMAND_SYMBOLS, DATAGRAM_SYMBOLS, LONG_DATAGRAM_SYMBOLS].contains(&bytes.len()) {
            return Err(Damaged::Length);
        }
        let (content, crc) = bytes.split_at(bytes.len() - 4);
        if crc32fast::hash(content).to_le_bytes() != crc {
            return Err(Damaged::Crc);
        }
        let word = u32::from_le_bytes([content[0], content[1], content[2], content[3]]);
        if content.len() == 4 {
            return Command::from_word(word).map(Self::Command);
        }
        let header = Header::from_word(word);
        Ok(Self::Datagram(Datagram { header, payload: Payload::from(&content[4..]) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_where_the_page_has_them() {
        let header =
            Header { sequence: 0xa5, channel: Channel(5), kind: Kind::Short, tag: 33, index: 4097 };
        assert_eq!(header.word(), 0xa5 | 5 << 8 | 2 << 11 | 33 << 13 | 4097 << 19);
        let operation = Operation::Restart;
        let command = Command { operation, sequence: 0x81, channel: Channel(6), freed: 0x3fe };
        assert_eq!(command.word(), 0x5c | 3 << 8 | 0x81 << 11 | 6 << 19 | 0x3fe << 22);
        let bytes = Frame::Command(command).encode();
        assert!(bytes.begins_with_control());
        assert_eq!(bytes.as_slice()[..4], command.word().to_le_bytes());
        assert_eq!(bytes.as_slice()[4..], bitwise_crc(&bytes.as_slice()[..4]).to_le_bytes());
    }

    /// CRC as defined on the page, bit by bit.
    fn bitwise_crc(bytes: &[u8]) -> u32 {
        let mut register = u32::MAX;
        for byte in bytes {
            register ^= u32::from(*byte);
            for _ in 0..8 {
                let out = register & 1;
                register = register >> 1 ^ if out == 1 { 0xedb8_8320 } else { 0 };
            }
        }
        !register
    }

    #[test]
    fn only_frames_are_decoded() {
        assert_eq!(Frame::decode(&[0; 7]), Err(Damaged::Length));
        assert_eq!(Frame::decode(&[0; 8]), Err(Damaged::Crc));
        for (byte, operation, wanted) in [
            (0x5c, 0, Damaged::Operation),
            (0x5c, 6, Damaged::Operation),
            (0x5c, 7, Damaged::Operation),
            (0x5d, 1, Damaged::Begin),
        ] {
            let word = [byte, operation, 0, 0];
            let bytes = [word, bitwise_crc(&word).to_le_bytes()].concat();
            assert_eq!(Frame::decode(&bytes), Err(wanted), "{byte:#x} {operation}");
        }
    }

    proptest! {
        #[test]
        fn datagrams_come_back(
            word: u32,
            payload: [u8; 32],
            is_long: bool,
            flip in 0..8 * LONG_DATAGRAM_SYMBOLS,
        ) {
            let bytes = payload_bytes(is_long);
            let payload = (0..bytes).map(|at| payload[at / 4 % 32] ^ at as u8).collect();
            let frame = Frame::Datagram(Datagram { header: Header::from_word(word), payload });
            let bytes = frame.encode();
            prop_assert!(!bytes.begins_with_control());
            prop_assert_eq!(&bytes.as_slice()[..4], &word.to_le_bytes());
            let (content, crc) = bytes.as_slice().split_at(frame.symbols() - 4);
            prop_assert_eq!(crc, &bitwise_crc(content).to_le_bytes());
            let flip = flip % (8 * frame.symbols());
            let mut wrong = bytes.as_slice().to_vec();
            prop_assert_eq!(Frame::decode(&wrong), Ok(frame));
            wrong[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(Frame::decode(&wrong), Err(Damaged::Crc));
        }

        #[test]
        fn commands_come_back(bits in 0_u32..1 << 24, flip in 0..64_usize) {
            let word = bits << 8 | 0x5c;
            if let Ok(command) = Command::from_word(word) {
                prop_assert_eq!(command.word(), word);
                let bytes = Frame::Command(command).encode();
                let mut wrong = bytes.as_slice().to_vec();
                prop_assert_eq!(Frame::decode(&wrong), Ok(Frame::Command(command)));
                wrong[flip / 8] ^= 1 << (flip % 8);
                prop_assert_eq!(Frame::decode(&wrong), Err(Damaged::Crc));
            } else {
                prop_assert!([0, 6, 7].contains(&(bits & 7)));
            }
        }
    }
}
