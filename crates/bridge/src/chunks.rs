// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cutting of a transfer into chunks: small ones first, so that the next stage starts early; small
//! ones last, so that it has little left when the stage before it is done.

use std::ops::Range;

/// Sizes of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    /// Size of the first chunk, and the least of the last ones, bytes.
    pub least_bytes: u64,
    /// Size of the largest chunk, bytes: a slot.
    pub most_bytes: u64,
}

/// Granularity of chunk ends, bytes of the transfer; shorter chunks are exempt.
const GRAIN_BYTES: u64 = 4096;

impl Chunking {
    /// Chunks of one size, as in the sbdt paper.
    pub const fn equal(bytes: u64) -> Self {
        Self { least_bytes: bytes, most_bytes: bytes }
    }
}

/// The chunks of a transfer, from its beginning.
#[derive(Clone, Debug)]
pub struct Chunks {
    chunking: Chunking,
    next: u64,
    end: u64,
    /// Size of the next chunk by the rising rule at the beginning, bytes.
    rising: u64,
}

impl Chunks {
    /// Cuts these bytes of a transfer into chunks.
    pub fn new(chunking: Chunking, bytes: Range<u64>) -> Self {
        let most_bytes = chunking.most_bytes.max(1);
        let least_bytes = chunking.least_bytes.clamp(1, most_bytes);
        let chunking = Chunking { least_bytes, most_bytes };
        Self { chunking, next: bytes.start, end: bytes.end, rising: least_bytes }
    }
}

impl Iterator for Chunks {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let left = self.end.saturating_sub(self.next);
        if left == 0 {
            return None;
        }
        let Chunking { least_bytes, most_bytes } = self.chunking;
        let falling = (left / 2).max(least_bytes);
        let mut bytes = self.rising.min(falling).min(most_bytes);
        if bytes > GRAIN_BYTES && bytes < left {
            bytes -= (self.next + bytes) % GRAIN_BYTES;
        }
        if left.saturating_sub(bytes) < least_bytes && left <= most_bytes {
            bytes = left;
        }
        self.rising = self.rising.saturating_mul(2).min(most_bytes);
        let start = self.next;
        self.next += bytes.min(left);
        Some(start..self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(least_bytes: u64, most_bytes: u64, bytes: Range<u64>) -> Vec<u64> {
        let chunks = Chunks::new(Chunking { least_bytes, most_bytes }, bytes.clone());
        let mut next = bytes.start;
        let sizes = chunks.map(|chunk| {
            assert_eq!(chunk.start, next, "no gap and no overlap");
            next = chunk.end;
            chunk.end - chunk.start
        });
        let sizes = sizes.collect();
        assert_eq!(next, bytes.end);
        sizes
    }

    #[test]
    fn the_first_and_the_last_are_small() {
        let kib = |sizes: Vec<u64>| sizes.iter().map(|size| size / 1024).collect::<Vec<_>>();
        assert_eq!(
            kib(sizes(16 << 10, 128 << 10, 0..1 << 20)),
            [16, 32, 64, 128, 128, 128, 128, 128, 128, 72, 36, 16, 20]
        );
        assert_eq!(kib(sizes(16 << 10, 8 << 20, 0..256 << 10)), [16, 32, 64, 72, 36, 16, 20]);
    }

    #[test]
    fn a_transfer_is_covered_whatever_its_sizes() {
        assert_eq!(sizes(0, 0, 0..3), [1, 1, 1]);
        assert_eq!(sizes(4096, 4096, 5..5), [] as [u64; 0]);
        for bytes in [1, 4095, 4096, 4097, 100_001] {
            sizes(1000, 10_000, 0..bytes);
            sizes(5000, 5000, 77..77 + bytes);
        }
        assert_eq!(sizes(8192, 8192, 0..20_000), [8192, 8192, 3616]);
    }
}
