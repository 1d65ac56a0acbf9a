// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A FIFO of bytes of fixed size.

/// A ring of bytes.
pub(super) struct Fifo {
    bytes: Box<[u8]>,
    /// Place of the oldest byte.
    head: usize,
    length: usize,
}

impl Fifo {
    pub fn new(capacity_bytes: u32) -> Self {
        Self { bytes: vec![0; capacity_bytes as usize].into(), head: 0, length: 0 }
    }

    /// Bytes in it.
    pub fn length(&self) -> u32 {
        self.length as u32
    }

    /// Bytes that still fit.
    pub fn room(&self) -> u32 {
        (self.bytes.len() - self.length) as u32
    }

    /// Bytes that it holds at most.
    pub fn capacity(&self) -> u32 {
        self.bytes.len() as u32
    }

    pub fn clear(&mut self) {
        (self.head, self.length) = (0, 0);
    }

    /// Appends bytes; there is room for them.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room() as usize, "the FIFO has room for what is put into it");
        let at = (self.head + self.length) % self.bytes.len();
        let first = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.length += bytes.len();
    }

    /// Takes the oldest bytes out; so many are there.
    pub fn pop(&mut self, out: &mut [u8]) {
        assert!(out.len() <= self.length, "the FIFO holds what is taken out of it");
        let first = out.len().min(self.bytes.len() - self.head);
        let (one, two) = out.split_at_mut(first);
        one.copy_from_slice(&self.bytes[self.head..self.head + first]);
        two.copy_from_slice(&self.bytes[..two.len()]);
        self.head = (self.head + out.len()) % self.bytes.len();
        self.length -= out.len();
    }

    /// Takes everything out, in at most two pieces.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let first = self.length.min(self.bytes.len() - self.head);
        take(&self.bytes[self.head..self.head + first]);
        take(&self.bytes[..self.length - first]);
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_round_in_order() {
        let mut fifo = Fifo::new(16);
        let (mut next_in, mut next_out) = (0_u8, 0_u8);
        for length in [5, 11, 3, 16, 1, 7, 9, 16, 2] {
            let bytes: Vec<u8> = (0..length).map(|n| next_in.wrapping_add(n)).collect();
            next_in = next_in.wrapping_add(length);
            fifo.push(&bytes);
            let mut out = vec![0; usize::from(length)];
            if length % 2 == 0 {
                fifo.drain(|piece| {
                    for byte in piece {
                        assert_eq!(*byte, next_out);
                        next_out = next_out.wrapping_add(1);
                    }
                });
                continue;
            }
            fifo.pop(&mut out);
            assert_eq!(out, bytes);
            next_out = next_out.wrapping_add(length);
        }
        assert_eq!((fifo.length(), fifo.room(), next_in), (0, 16, next_out));
    }
}
