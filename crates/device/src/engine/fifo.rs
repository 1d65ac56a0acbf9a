// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Byte FIFO of fixed size.

use std::collections::VecDeque;

/// Ring buffer of bytes with a latency.
pub(super) struct Fifo {
    /// Empty until the first byte comes.
    bytes: Vec<u8>,
    capacity: usize,
    /// Index of the oldest byte.
    head: usize,
    length: usize,
    /// Time that bytes take through the FIFO, ps.
    latency_ps: u64,
    /// Newest bytes, which may not be taken yet: earliest time and count of each push.
    fresh: VecDeque<(u64, usize)>,
}

impl Fifo {
    pub fn new(capacity_bytes: u32, latency_ps: u64) -> Self {
        Self {
            bytes: Vec::new(),
            capacity: capacity_bytes as usize,
            head: 0,
            length: 0,
            latency_ps,
            fresh: VecDeque::new(),
        }
    }

    /// Returns the number of bytes that may be taken now, and when there are more; `u64::MAX` if
    /// all may be taken now.
    pub fn ready(&self, now_ps: u64) -> (u32, u64) {
        let (mut fresh, mut next_ps) = (0, u64::MAX);
        for (from_ps, bytes) in self.fresh.iter().rev().take_while(|(from_ps, _)| *from_ps > now_ps)
        {
            (fresh, next_ps) = (fresh + bytes, *from_ps);
        }
        assert!(fresh <= self.length, "{fresh} B are fresh, of {} B", self.length);
        ((self.length - fresh) as u32, next_ps)
    }

    pub fn length(&self) -> u32 {
        self.length as u32
    }

    /// Returns the number of bytes that still fit.
    pub fn room(&self) -> u32 {
        (self.capacity - self.length) as u32
    }

    pub fn capacity(&self) -> u32 {
        self.capacity as u32
    }

    pub fn clear(&mut self) {
        (self.head, self.length) = (0, 0);
        self.fresh.clear();
    }

    /// Returns the index of a byte, given without wrapping around.
    const fn wrapped(&self, index: usize) -> usize {
        if index < self.capacity { index } else { index - self.capacity }
    }

    /// Appends bytes, which must fit.
    pub fn push(&mut self, bytes: &[u8], now_ps: u64) {
        let (count, room) = (bytes.len(), self.room());
        assert!(count <= room as usize, "{count} B are put into a FIFO with room for {room} B");
        if self.latency_ps > 0 {
            while self.fresh.front().is_some_and(|(from_ps, _)| *from_ps <= now_ps) {
                self.fresh.pop_front();
            }
            self.fresh.push_back((now_ps + self.latency_ps, bytes.len()));
        }
        self.bytes.resize(self.capacity, 0);
        let at = self.wrapped(self.head + self.length);
        let first = bytes.len().min(self.capacity - at);
        self.bytes[at..at + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.length += bytes.len();
    }

    /// Takes out the oldest bytes, which must be present.
    pub fn pop(&mut self, out: &mut [u8]) {
        let (count, length) = (out.len(), self.length);
        assert!(count <= length, "{count} B are taken out of a FIFO that holds {length} B");
        let first = out.len().min(self.capacity - self.head);
        let (one, two) = out.split_at_mut(first);
        one.copy_from_slice(&self.bytes[self.head..self.head + first]);
        two.copy_from_slice(&self.bytes[..two.len()]);
        self.head = self.wrapped(self.head + out.len());
        self.length -= out.len();
    }

    /// Takes out everything, in at most two pieces.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let first = self.length.min(self.capacity - self.head);
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
        let mut fifo = Fifo::new(16, 0);
        let (mut next_in, mut next_out) = (0_u8, 0_u8);
        for length in [5, 11, 3, 16, 1, 7, 9, 16, 2] {
            let bytes: Vec<u8> = (0..length).map(|n| next_in.wrapping_add(n)).collect();
            next_in = next_in.wrapping_add(length);
            fifo.push(&bytes, 0);
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

    #[test]
    fn bytes_take_their_time() {
        let mut fifo = Fifo::new(16, 100);
        fifo.push(&[1; 3], 10);
        fifo.push(&[2; 5], 60);
        assert_eq!(
            [10, 109, 110, 159, 160].map(|now_ps| fifo.ready(now_ps)),
            [(0, 110), (0, 110), (3, 160), (3, 160), (8, u64::MAX)]
        );
        fifo.pop(&mut [0; 3]);
        assert_eq!((fifo.ready(110), fifo.length()), ((0, 160), 5));
        fifo.push(&[3], 300);
        assert_eq!((fifo.ready(399), fifo.ready(400)), ((5, 400), (6, u64::MAX)));
    }
}
