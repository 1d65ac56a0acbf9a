// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The combining buffers of a core. Stores into a write-combined region collect in lines of 64 B. A
//! line leaves when it is full, when another line needs its buffer, or when the core makes an
//! uncached access or a fence; it keeps its buffer until its last TLP is at the root port. A full
//! line leaves as one write, any other in writes of at most 8 B (Intel 64 and IA-32 manual, volume
//! 3, 12.3.1: an evicted buffer that is not full goes out in partial transactions of 8 B).

use std::collections::VecDeque;

/// Bytes of a line.
pub(super) const LINE_BYTES: u64 = 64;
/// Longest write of a line that is not full, bytes.
const PARTIAL_BYTES: u32 = 8;

/// One buffer in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Address of the first byte, a multiple of 64.
    address: u64,
    /// Bytes that hold data, one bit each, the first in bit 0.
    filled: u64,
    data: [u8; LINE_BYTES as usize],
}

impl Line {
    const fn new(address: u64) -> Self {
        Self { address, filled: 0, data: [0; LINE_BYTES as usize] }
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.filled |= run_mask(offset as u32, bytes.len() as u32);
    }

    const fn is_full(&self) -> bool {
        self.filled == u64::MAX
    }

    /// Returns offset and length of the line's first write at or behind `from`, which must exist:
    /// the whole of a full line, else the first contiguous bytes within 8.
    const fn write_from(&self, from: u32) -> (u32, u32) {
        if self.is_full() {
            return (0, LINE_BYTES as u32);
        }
        let offset = from + (self.filled >> from).trailing_zeros();
        let together = (self.filled >> offset).trailing_ones();
        let to_boundary = PARTIAL_BYTES - offset % PARTIAL_BYTES;
        (offset, if together < to_boundary { together } else { to_boundary })
    }
}

const fn run_mask(offset: u32, length: u32) -> u64 {
    (u64::MAX >> (u64::BITS - length)) << offset
}

/// A write that leaves a buffer for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BufferWrite {
    pub address: u64,
    /// Length in bytes.
    pub bytes: u32,
    data: [u8; LINE_BYTES as usize],
}

impl BufferWrite {
    pub fn data(&self) -> &[u8] {
        &self.data[..self.bytes as usize]
    }
}

/// All buffers of a core.
#[derive(Clone, Debug)]
pub(super) struct CombiningBuffers {
    /// Total number of buffers, collecting and leaving.
    buffers: usize,
    /// Lines that collect stores, the longest open first.
    open: Vec<Line>,
    /// Closed lines, the first to leave first.
    leaving: VecDeque<Line>,
}

impl CombiningBuffers {
    pub const fn new(buffers: u16) -> Self {
        Self { buffers: buffers as usize, open: Vec::new(), leaving: VecDeque::new() }
    }

    /// Whether any line is leaving.
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether a store to this address finds its line's buffer or a free one.
    pub fn takes(&self, address: u64) -> bool {
        self.find(address).is_some() || self.open.len() + self.leaving.len() < self.buffers
    }

    /// Number of lines that collect stores.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    fn find(&self, address: u64) -> Option<usize> {
        let first = address - address % LINE_BYTES;
        self.open.iter().position(|line| line.address == first)
    }

    /// Puts a store into its buffer. The store must stay within its line, and
    /// [`takes`](Self::takes) must allow it. Closes a line that is then full.
    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        let offset = (address % LINE_BYTES) as usize;
        let at = self.find(address).unwrap_or_else(|| {
            self.open.push(Line::new(address - offset as u64));
            self.open.len() - 1
        });
        let (open, leaving, buffers) = (self.open.len(), self.leaving.len(), self.buffers);
        assert!(
            open + leaving <= buffers,
            "{open} lines collect and {leaving} leave, in {buffers} buffers"
        );
        self.open[at].put(offset, bytes);
        if self.open[at].is_full() {
            self.close(at);
        }
    }

    /// Closes one of the open lines.
    pub fn close(&mut self, at: usize) {
        let line = self.open.remove(at);
        self.leaving.push_back(line);
    }

    /// Next write of the first closed line: its lowest bytes, or those from offset `from`, a
    /// multiple of 8, on if any are left there.
    pub fn next_write(&self, from: u32) -> Option<BufferWrite> {
        let line = self.leaving.front()?;
        let from = if line.filled >> from == 0 { 0 } else { from };
        let (offset, bytes) = line.write_from(from);
        let mut data = [0; LINE_BYTES as usize];
        let (from, length) = (offset as usize, bytes as usize);
        data[..length].copy_from_slice(&line.data[from..from + length]);
        Some(BufferWrite { address: line.address + u64::from(offset), bytes, data })
    }

    /// Removes a write that has left; after the last one, the line's buffer is free.
    pub fn has_left(&mut self, write: &BufferWrite) {
        let line = self.leaving.front_mut();
        let line = line.unwrap_or_else(|| panic!("{write:x?} has left, and no line is leaving"));
        let mask = run_mask((write.address - line.address) as u32, write.bytes);
        assert!(line.filled & mask == mask, "{write:x?} has left a line of {:#x}", line.filled);
        line.filled &= !mask;
        if line.filled == 0 {
            self.leaving.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address and length of every write that leaves.
    fn drained(buffers: &mut CombiningBuffers) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        while let Some(write) = buffers.next_write(0) {
            all.push((write.address, write.bytes));
            buffers.has_left(&write);
        }
        all
    }

    #[test]
    fn a_full_line_leaves_as_one_write_and_a_partial_one_in_eights() {
        let mut buffers = CombiningBuffers::new(2);
        for word in 0..16u8 {
            assert!(buffers.takes(0x1000 + u64::from(word) * 4));
            buffers.put(0x1000 + u64::from(word) * 4, &[word; 4]);
        }
        let write = buffers.next_write(0).unwrap();
        assert_eq!((write.address, write.bytes), (0x1000, 64));
        assert_eq!(write.data()[60..], [15; 4]);
        assert_eq!(drained(&mut buffers), [(0x1000, 64)]);
        assert!(buffers.open() == 0 && !buffers.is_leaving());
        // 4..20 and 62..64: cut at multiples of 8 and at gaps.
        buffers.put(0x2004, &[1; 16]);
        buffers.put(0x203e, &[2; 2]);
        assert_eq!(drained(&mut buffers), []);
        buffers.close(0);
        assert_eq!(drained(&mut buffers), [(0x2004, 4), (0x2008, 8), (0x2010, 4), (0x203e, 2)]);
    }

    #[test]
    fn pieces_may_leave_in_another_order() {
        let mut buffers = CombiningBuffers::new(1);
        buffers.put(0, &[1; 16]);
        buffers.put(32, &[2; 2]);
        buffers.close(0);
        for (from, expected) in [(16, (32, 2)), (48, (0, 8)), (0, (8, 8))] {
            let write = buffers.next_write(from).unwrap();
            assert_eq!((write.address, write.bytes), expected);
            buffers.has_left(&write);
        }
        assert_eq!(buffers.next_write(0), None);
    }

    #[test]
    fn what_is_stored_twice_leaves_once() {
        let mut buffers = CombiningBuffers::new(1);
        for value in 0..6 {
            buffers.put(0x40, &[value]);
        }
        buffers.close(0);
        let write = buffers.next_write(0).unwrap();
        assert_eq!((write.address, write.data()), (0x40, &[5][..]));
        buffers.has_left(&write);
        assert_eq!(buffers.next_write(0), None);
    }

    #[test]
    fn a_line_that_leaves_keeps_its_buffer() {
        let mut buffers = CombiningBuffers::new(2);
        buffers.put(0, &[1]);
        buffers.put(64, &[2]);
        assert!(buffers.takes(63) && buffers.takes(64) && !buffers.takes(128));
        buffers.close(0);
        // The line at 0 is leaving, so a new store to it needs another buffer.
        assert!(!buffers.takes(0) && buffers.takes(100));
        assert_eq!(drained(&mut buffers), [(0, 1)]);
        assert!(buffers.takes(0));
        assert_eq!(buffers.open(), 1);
    }
}
