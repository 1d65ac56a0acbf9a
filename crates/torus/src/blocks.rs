// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of memory that a message lies in.

use std::ops::Range;

/// Equal blocks of a buffer at a stride, in the order of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks {
    /// Offset of the first block in the buffer, bytes.
    pub begin_bytes: u64,
    /// Length of each block, bytes.
    pub block_bytes: u64,
    /// Distance from the begin of a block to that of the next, bytes; at least `block_bytes`.
    pub stride_bytes: u64,
    /// Number of blocks.
    pub count: u64,
}

/// One block.
impl From<Range<u64>> for Blocks {
    fn from(part: Range<u64>) -> Self {
        let bytes = part.end.saturating_sub(part.start);
        Self { begin_bytes: part.start, block_bytes: bytes, stride_bytes: bytes, count: 1 }
    }
}

impl Blocks {
    /// Returns the length of the message, bytes.
    pub const fn bytes(&self) -> u64 {
        self.block_bytes.saturating_mul(self.count)
    }

    /// Whether no memory lies between the blocks.
    const fn is_contiguous(&self) -> bool {
        self.count < 2 || self.stride_bytes == self.block_bytes
    }

    /// Returns the problem of the blocks, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { begin_bytes, block_bytes, stride_bytes, count } = *self;
        if count > 1 && stride_bytes < block_bytes {
            return Some(format!("blocks of {block_bytes} B overlap: each is {stride_bytes} B on"));
        }
        let last = count.saturating_sub(1).checked_mul(stride_bytes);
        let end = last.and_then(|last| last.checked_add(begin_bytes)?.checked_add(block_bytes));
        end.is_none().then(|| format!("{count} blocks {stride_bytes} B apart end beyond 2^64"))
    }

    /// Returns the memory of a piece of the message, given by its offsets in that.
    pub(crate) fn parts(&self, piece: Range<u64>) -> Vec<Range<u64>> {
        let Self { begin_bytes, block_bytes, stride_bytes, .. } = *self;
        if piece.is_empty() || self.is_contiguous() {
            let whole = begin_bytes + piece.start..begin_bytes + piece.end;
            return Vec::from([whole]);
        }
        let (mut parts, mut at) = (Vec::new(), piece.start);
        while at < piece.end {
            let (block, within) = (at / block_bytes, at % block_bytes);
            let bytes = (block_bytes - within).min(piece.end - at);
            let begin = begin_bytes + block * stride_bytes + within;
            parts.push(begin..begin + bytes);
            at += bytes;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn blocks(block_bytes: u64, stride_bytes: u64, count: u64) -> Blocks {
        Blocks { begin_bytes: 1000, block_bytes, stride_bytes, count }
    }

    #[test]
    fn pieces_of_a_message_lie_in_its_blocks() {
        let one = |blocks: Blocks, piece| {
            let parts = blocks.parts(piece);
            assert_eq!(parts.len(), 1);
            parts[0].clone()
        };
        let three = blocks(128, 512, 3);
        assert_eq!(three.bytes(), 384);
        assert_eq!(three.parts(0..384), [1000..1128, 1512..1640, 2024..2152]);
        // A piece may begin and end within blocks.
        assert_eq!(three.parts(100..200), [1100..1128, 1512..1584]);
        assert_eq!(one(three, 128..256), 1512..1640);
        assert_eq!(one(blocks(128, 128, 3), 100..300), 1100..1300);
        assert_eq!(one(Blocks::from(40..50), 0..10), 40..50);
        assert_eq!(one(Blocks::from(40..40), 0..0), 40..40);
    }

    #[test]
    fn blocks_that_cannot_be_are_refused_in_words() {
        for fine in [blocks(128, 512, 3), blocks(100, 100, 3), blocks(100, 7, 1)] {
            assert_eq!(fine.problem(), None);
        }
        let problem = |blocks: Blocks| blocks.problem().unwrap();
        assert_eq!(problem(blocks(128, 64, 2)), "blocks of 128 B overlap: each is 64 B on");
        assert!(problem(blocks(128, u64::MAX, 3)).ends_with("end beyond 2^64"));
    }
}
