// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checksum of a transfer, from the checksums of its chunks in any order.

use std::collections::BTreeMap;

use crc32fast::Hasher;

/// Checksums of a transfer's chunks.
pub(super) struct Sums {
    /// Of the bytes before `upto`, and from the transfer's first one.
    before: Hasher,
    upto: u64,
    /// End and checksum of each chunk beyond, by its first byte.
    chunks: BTreeMap<u64, (u64, Hasher)>,
}

impl Sums {
    /// Begins at a byte.
    pub fn from(first: u64) -> Self {
        Self { before: Hasher::new(), upto: first, chunks: BTreeMap::new() }
    }

    /// Adds a chunk.
    pub fn add(&mut self, bytes: std::ops::Range<u64>, sum: Hasher) {
        self.chunks.insert(bytes.start, (bytes.end, sum));
    }

    /// Returns the checksum of the bytes before this one, unless it lies within a chunk or before
    /// the last one that was asked for.
    pub fn upto(&mut self, end: u64) -> Option<u32> {
        while let Some(next) = self.chunks.first_entry().filter(|next| *next.key() == self.upto)
            && next.get().0 <= end
        {
            let (chunk_end, sum) = next.remove();
            self.before.combine(&sum);
            self.upto = chunk_end;
        }
        (self.upto == end).then(|| self.before.clone().finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_of_all_chunks_before_its_end() {
        let data: Vec<u8> = (0..100).collect();
        let mut sums = Sums::from(10);
        for chunk in [30..60, 10..30, 60..100] {
            let mut sum = Hasher::new();
            sum.update(&data[chunk.clone()]);
            sums.add(chunk.start as u64..chunk.end as u64, sum);
        }
        assert_eq!(sums.upto(10), Some(0));
        assert_eq!(sums.upto(59), None, "it lies within a chunk");
        assert_eq!(sums.upto(60), Some(crc32fast::hash(&data[10..60])));
        assert_eq!(sums.upto(30), None, "it has gone by");
        assert_eq!(sums.upto(101), None);
        assert_eq!(sums.upto(100), Some(crc32fast::hash(&data[10..])));
    }
}
