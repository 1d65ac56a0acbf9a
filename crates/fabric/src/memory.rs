// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory with real bytes, allocated where it is touched.

/// Bytes of one piece of the table.
const CHUNK_BYTES: usize = 1 << 16;

/// Sparse memory; what was never written reads as zero.
#[derive(Default)]
pub struct Memory {
    chunks: Vec<Option<Box<[u8]>>>,
}

impl Memory {
    /// Empty memory. The size is up to who routes to it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies `bytes` to the place `offset_bytes` from its beginning.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset_bytes, bytes);
        while !rest.is_empty() {
            let (chunk, offset) = (at as usize / CHUNK_BYTES, at as usize % CHUNK_BYTES);
            let length = rest.len().min(CHUNK_BYTES - offset);
            if chunk >= self.chunks.len() {
                self.chunks.resize_with(chunk + 1, || None);
            }
            let piece =
                self.chunks[chunk].get_or_insert_with(|| vec![0; CHUNK_BYTES].into_boxed_slice());
            piece[offset..offset + length].copy_from_slice(&rest[..length]);
            rest = &rest[length..];
            at += length as u64;
        }
    }

    /// Copies from `offset_bytes` into `bytes`.
    pub fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let (mut at, mut rest) = (offset_bytes, bytes);
        while !rest.is_empty() {
            let (chunk, offset) = (at as usize / CHUNK_BYTES, at as usize % CHUNK_BYTES);
            let length = rest.len().min(CHUNK_BYTES - offset);
            let (piece, after) = rest.split_at_mut(length);
            match self.chunks.get(chunk).and_then(Option::as_ref) {
                Some(chunk) => piece.copy_from_slice(&chunk[offset..offset + length]),
                None => piece.fill(0),
            }
            rest = after;
            at += length as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_edge_of_a_chunk_and_the_rest_is_zero() {
        let mut memory = Memory::new();
        let address = 5 * CHUNK_BYTES as u64 - 3;
        memory.write(address, &[1, 2, 3, 4, 5, 6]);
        let mut back = [9; 8];
        memory.read(address - 1, &mut back);
        assert_eq!(back, [0, 1, 2, 3, 4, 5, 6, 0]);
    }
}
