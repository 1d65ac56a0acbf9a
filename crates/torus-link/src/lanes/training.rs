// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Training sets, which both ends exchange while the link comes up.
//!
//! Read first: `docs/torus-link.md`, *Bring-up and loss*.

/// Columns of a training set.
pub const SET_COLUMNS: usize = 16;
/// Version of the protocol in `docs/torus-link.md`.
pub const VERSION: u8 = 1;
const COMMA_BYTE: u8 = 0xbc;

/// Contents of a training set, the same in all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingSet {
    /// Version of the protocol.
    pub version: u8,
    /// Lanes of the sender.
    pub lanes: u8,
    /// Size of each receive buffer of the sender, in datagrams.
    pub channel_datagrams: u16,
    /// Session of the sender, not 0.
    pub session: u16,
    /// Session of the receiver as seen by the sender; 0 if not seen yet.
    pub seen: u16,
    /// Stage of training, 1: aligning, 2: aligned.
    pub stage: u8,
    /// Whether the sender's datagrams carry 256 B.
    pub has_long_datagrams: bool,
    /// Whether each lane carries its own number, as every sent set does.
    pub is_in_order: bool,
}

impl TrainingSet {
    /// Encodes the bytes of one lane; the first is a comma.
    pub fn encode(&self, lane: u8) -> [u8; SET_COLUMNS] {
        let mut bytes = [0; SET_COLUMNS];
        bytes[..4].copy_from_slice(&[COMMA_BYTE, lane, self.version, self.lanes]);
        bytes[4..6].copy_from_slice(&self.channel_datagrams.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.session.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.seen.to_le_bytes());
        bytes[10] = self.stage;
        bytes[11] = u8::from(self.has_long_datagrams);
        let crc = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the set from all lanes, if every CRC fits and all lanes agree.
    pub fn decode(lanes: &mut [[u8; SET_COLUMNS]]) -> Option<Self> {
        let mut is_in_order = true;
        for (at, lane) in lanes.iter_mut().enumerate() {
            lane[0] = COMMA_BYTE;
            if crc32fast::hash(&lane[..12]).to_le_bytes() != lane[12..] {
                return None;
            }
            is_in_order &= usize::from(lane[1]) == at;
        }
        let first = lanes.first()?;
        if lanes.iter().any(|lane| lane[2..11] != first[2..11]) {
            return None;
        }
        let word = |at: usize| u16::from_le_bytes([first[at], first[at + 1]]);
        Some(Self {
            version: first[2],
            lanes: first[3],
            channel_datagrams: word(4),
            session: word(6),
            seen: word(8),
            stage: first[10],
            has_long_datagrams: first[11] & 1 != 0,
            is_in_order,
        })
    }
}
