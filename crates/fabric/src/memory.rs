// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory with real bytes, allocated on first write. Pages that hold a test pattern, or one word
//! over and over, are kept as two words, so that labs move gigabytes in little memory.

use std::ops::Range;

/// Length in bytes of a page.
const PAGE_BYTES: usize = 1 << 12;
/// Pages of one entry of the table.
const CHUNK_PAGES: usize = 16;
/// Length in bytes of one entry of the table.
const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_BYTES;
/// Length in bytes of a word of a progression.
const WORD_BYTES: usize = 4;

/// Contents of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Page {
    Bytes(Box<[u8; PAGE_BYTES]>),
    /// Little-endian words that increase by `step` from `first` on, modulo 2^32.
    Progression {
        first: u32,
        step: u32,
    },
}

impl Page {
    const ZERO: Self = Self::Progression { first: 0, step: 0 };

    /// Returns the progression that the bytes of a page are.
    fn progression(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let (first, step) = (word(0), word(1).wrapping_sub(word(0)));
        let at = |index: usize| first.wrapping_add(step.wrapping_mul(index as u32));
        // The last word tells most other pages apart.
        if word(words.len() - 1) != at(words.len() - 1) {
            return None;
        }
        let differs = |index: usize| word(index) ^ at(index);
        let any = (0..words.len()).fold(0, |any, index| any | differs(index));
        (any == 0).then_some(Self::Progression { first, step })
    }

    fn read(&self, offset: usize, out: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => out.copy_from_slice(&bytes[offset..offset + out.len()]),
            Self::Progression { first: 0, step: 0 } => out.fill(0),
            Self::Progression { first, step } => {
                let mut word = first.wrapping_add(step.wrapping_mul((offset / WORD_BYTES) as u32));
                let within = offset % WORD_BYTES;
                let head = if within == 0 { 0 } else { (WORD_BYTES - within).min(out.len()) };
                let (begun, whole) = out.split_at_mut(head);
                if head > 0 {
                    begun.copy_from_slice(&word.to_le_bytes()[within..within + head]);
                    word = word.wrapping_add(*step);
                }
                let (words, last) = whole.as_chunks_mut::<WORD_BYTES>();
                for out in words {
                    *out = word.to_le_bytes();
                    word = word.wrapping_add(*step);
                }
                last.copy_from_slice(&word.to_le_bytes()[..last.len()]);
            }
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.len() == PAGE_BYTES
            && let Some(progression) = Self::progression(bytes)
        {
            *self = progression;
            return;
        }
        let page = self.bytes();
        page[offset..offset + bytes.len()].copy_from_slice(bytes);
        // Most pages are written from the first byte to the last.
        if offset + bytes.len() == PAGE_BYTES
            && let Some(progression) = Self::progression(page)
        {
            *self = progression;
        }
    }

    fn zero(&mut self, part: Range<usize>) {
        if part.len() == PAGE_BYTES {
            *self = Self::ZERO;
        } else if *self != Self::ZERO {
            self.bytes()[part].fill(0);
        }
    }

    /// Returns its bytes, to be changed.
    fn bytes(&mut self) -> &mut [u8; PAGE_BYTES] {
        if let Self::Progression { .. } = self {
            let mut bytes = Box::new([0; PAGE_BYTES]);
            self.read(0, &mut bytes[..]);
            *self = Self::Bytes(bytes);
        }
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Progression { .. } => unreachable!("it was turned into bytes"),
        }
    }
}

/// Storage shared with others, who may load and store at any time: a mapped file.
pub trait Backing: Send + Sync {
    /// Copies from `offset_bytes` of the storage into `bytes`.
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]);

    /// Copies `bytes` to `offset_bytes` of the storage.
    fn write(&self, offset_bytes: u64, bytes: &[u8]);
}

/// A range stored in a backing.
struct Backed {
    range: Range<u64>,
    backing: Box<dyn Backing>,
}

/// Sparse memory; unwritten bytes read as zero.
#[derive(Default)]
pub struct Memory {
    chunks: Vec<Option<Box<[Page; CHUNK_PAGES]>>>,
    /// Ranges stored outside the chunks, lowest first.
    backed: Vec<Backed>,
}

impl Memory {
    /// Creates empty memory. Its size is left to the caller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a range in `backing` from now on, which must be all zeros and of the same length. The
    /// range's contents move there. Returns false without effect if part of the range is backed
    /// already.
    pub fn back(&mut self, range: Range<u64>, backing: Box<dyn Backing>) -> bool {
        let place = self.backed.partition_point(|backed| backed.range.end <= range.start);
        let next = self.backed.get(place);
        if range.is_empty() || next.is_some_and(|next| next.range.start < range.end) {
            return false;
        }
        let chunk_bytes = CHUNK_BYTES as u64;
        let touched = range.start / chunk_bytes..range.end.div_ceil(chunk_bytes);
        for number in touched.start..touched.end.min(self.chunks.len() as u64) {
            let Some(chunk) = &self.chunks[number as usize] else { continue };
            for (page, at) in chunk.iter().zip((number * chunk_bytes..).step_by(PAGE_BYTES)) {
                let (first, last) = (at.max(range.start), (at + PAGE_BYTES as u64).min(range.end));
                if first < last && *page != Page::ZERO {
                    let mut bytes = vec![0; (last - first) as usize];
                    page.read((first - at) as usize, &mut bytes);
                    if bytes.iter().any(|byte| *byte != 0) {
                        backing.write(first - range.start, &bytes);
                    }
                }
            }
            let is_within = range.start <= number * chunk_bytes;
            if is_within && (number + 1) * chunk_bytes <= range.end {
                self.chunks[number as usize] = None;
            }
        }
        self.backed.insert(place, Backed { range, backing });
        true
    }

    /// Returns the backing of the byte at `at`, if any, and the number of contiguous bytes from
    /// there, up to `most`.
    fn extent(&self, at: u64, most: usize) -> (Option<&Backed>, usize) {
        let place = self.backed.partition_point(|backed| backed.range.end <= at);
        let within = |end: u64| (end - at).min(most as u64) as usize;
        match self.backed.get(place) {
            Some(backed) if backed.range.start <= at => (Some(backed), within(backed.range.end)),
            Some(next) => (None, within(next.range.start)),
            None => (None, most),
        }
    }

    /// Writes `bytes` at `offset_bytes` from the start.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        if self.backed.is_empty() {
            return self.write_chunks(offset_bytes, bytes);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset_bytes + done as u64;
            let (backed, length) = self.extent(at, bytes.len() - done);
            let part = &bytes[done..done + length];
            match backed {
                Some(Backed { range, backing }) => backing.write(at - range.start, part),
                None => self.write_chunks(at, part),
            }
            done += length;
        }
    }

    /// Reads `bytes` from `offset_bytes` on.
    pub fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
        if self.backed.is_empty() {
            return self.read_chunks(offset_bytes, bytes);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset_bytes + done as u64;
            let (backed, length) = self.extent(at, bytes.len() - done);
            let part = &mut bytes[done..done + length];
            match backed {
                Some(Backed { range, backing }) => backing.read(at - range.start, part),
                None => self.read_chunks(at, part),
            }
            done += length;
        }
    }

    /// Zeroes `bytes` from `offset_bytes` on. Allocates nothing, and writes to a backing only where
    /// it is not zero.
    pub fn zero(&mut self, offset_bytes: u64, bytes: u64) {
        let (mut at, end) = (offset_bytes, offset_bytes + bytes);
        while at < end {
            let offset = at as usize % CHUNK_BYTES;
            let most = (end - at).min((CHUNK_BYTES - offset) as u64) as usize;
            let (backed, length) = self.extent(at, most);
            if let Some(Backed { range, backing }) = backed {
                let mut piece = vec![0; length];
                backing.read(at - range.start, &mut piece);
                if piece.iter().any(|byte| *byte != 0) {
                    backing.write(at - range.start, &vec![0; length]);
                }
            } else if let Some(slot) = self.chunks.get_mut(at as usize / CHUNK_BYTES) {
                if length == CHUNK_BYTES {
                    *slot = None;
                } else if let Some(pages) = slot {
                    for (page, part) in parts(offset, length) {
                        pages[page].zero(part);
                    }
                }
            }
            at += length as u64;
        }
    }

    fn write_chunks(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset_bytes as usize, bytes);
        while !rest.is_empty() {
            let (chunk, offset) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            if chunk >= self.chunks.len() {
                self.chunks.resize_with(chunk + 1, || None);
            }
            let pages = self.chunks[chunk]
                .get_or_insert_with(|| Box::new([const { Page::ZERO }; CHUNK_PAGES]));
            let length = rest.len().min(CHUNK_BYTES - offset);
            for (page, part) in parts(offset, length) {
                let (piece, after) = rest.split_at(part.len());
                pages[page].write(part.start, piece);
                rest = after;
            }
            at += length;
        }
    }

    fn read_chunks(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let (mut at, mut rest) = (offset_bytes as usize, bytes);
        while !rest.is_empty() {
            let (chunk, offset) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let length = rest.len().min(CHUNK_BYTES - offset);
            let (mut piece, after) = rest.split_at_mut(length);
            match self.chunks.get(chunk).and_then(Option::as_ref) {
                Some(pages) => {
                    for (page, part) in parts(offset, length) {
                        let (out, more) = piece.split_at_mut(part.len());
                        pages[page].read(part.start, out);
                        piece = more;
                    }
                }
                None => piece.fill(0),
            }
            rest = after;
            at += length;
        }
    }
}

/// Cuts a part of a chunk at the edges of pages: pages, and the part of each.
fn parts(offset: usize, length: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = offset + length;
    (offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let start = page * PAGE_BYTES;
        (page, offset.max(start) - start..end.min(start + PAGE_BYTES) - start)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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

    #[test]
    fn zeroing_frees_whole_chunks_and_takes_no_memory() {
        let chunk = CHUNK_BYTES as u64;
        let mut memory = Memory::new();
        memory.write(chunk - 2, &vec![7; CHUNK_BYTES + 4]);
        memory.zero(chunk - 1, 8 * chunk);
        let mut back = [9; 4];
        memory.read(chunk - 3, &mut back);
        assert_eq!(back, [0, 7, 0, 0]);
        assert!(memory.chunks[1].is_none() && memory.chunks.len() == 3);
        memory.read(2 * chunk, &mut back);
        assert_eq!(back, [0; 4]);
    }

    /// Returns the number of pages that are kept as bytes.
    fn in_bytes(memory: &Memory) -> usize {
        let pages = memory.chunks.iter().flatten().flat_map(|chunk| chunk.iter());
        pages.filter(|page| matches!(page, Page::Bytes(_))).count()
    }

    #[test]
    fn a_pattern_takes_no_bytes_and_reads_back() {
        let words = (0..3 * CHUNK_BYTES as u32 / 4).map(|n| n.wrapping_mul(0x9e37_79b1));
        let mut data: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let mut memory = Memory::new();
        // Whole, and in pieces, some of which cross the edge of a chunk.
        memory.write(0, &data[..CHUNK_BYTES]);
        for (at, piece) in (CHUNK_BYTES..).step_by(112).zip(data[CHUNK_BYTES..].chunks(112)) {
            memory.write(at as u64, piece);
        }
        assert_eq!(in_bytes(&memory), 0);
        for at in (0..data.len() - 24).step_by(1021) {
            for length in [1, 2, 3, 5, 8, 23] {
                let mut back = vec![0; length];
                memory.read(at as u64, &mut back);
                assert_eq!(back, data[at..at + length], "{length} B at {at}");
            }
        }
        // One other byte, then zeros in a part.
        let at = CHUNK_BYTES + 77;
        data[at] ^= 1;
        memory.write(at as u64, &data[at..=at]);
        memory.zero(2 * CHUNK_BYTES as u64 + 8, 16);
        data[2 * CHUNK_BYTES + 8..][..16].fill(0);
        assert_eq!(in_bytes(&memory), 2);
        let mut back = vec![0; data.len()];
        memory.read(0, &mut back);
        assert!(back == data);
    }

    /// Bytes with a count of writes.
    #[derive(Clone, Default)]
    struct Elsewhere(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Backing for Elsewhere {
        fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
            let at = offset_bytes as usize;
            bytes.copy_from_slice(&self.0.lock().unwrap().0[at..at + bytes.len()]);
        }

        fn write(&self, offset_bytes: u64, bytes: &[u8]) {
            let (at, mut all) = (offset_bytes as usize, self.0.lock().unwrap());
            all.0[at..at + bytes.len()].copy_from_slice(bytes);
            all.1 += 1;
        }
    }

    #[test]
    fn a_part_lies_elsewhere_and_what_was_there_goes_along() {
        const PAGE: u64 = PAGE_BYTES as u64;
        let chunk = CHUNK_BYTES as u64;
        let pattern: Vec<u8> = (0..4 * CHUNK_BYTES).map(|at| (at % 251) as u8).collect();
        let mut memory = Memory::new();
        // Four chunks, the second with one page only.
        memory.write(0, &pattern[..CHUNK_BYTES]);
        memory.write(chunk + PAGE, &pattern[..PAGE_BYTES]);
        memory.write(2 * chunk, &pattern[2 * CHUNK_BYTES..]);
        let mut before = vec![0; 4 * CHUNK_BYTES];
        memory.read(0, &mut before);
        let range = chunk - PAGE..3 * chunk + PAGE;
        let elsewhere = Elsewhere::default();
        elsewhere.0.lock().unwrap().0 = vec![0; (range.end - range.start) as usize];
        assert!(memory.back(range.clone(), Box::new(elsewhere.clone())));
        // A page before, one of the second chunk, the third chunk, a page behind.
        assert_eq!(elsewhere.0.lock().unwrap().1, 1 + 1 + CHUNK_BYTES / PAGE_BYTES + 1);
        assert!(memory.chunks[1].is_none() && memory.chunks[2].is_none());
        let mut after = vec![0; 4 * CHUNK_BYTES];
        memory.read(0, &mut after);
        assert!(before == after);
        let there = elsewhere.0.lock().unwrap().0.clone();
        assert!(there == before[range.start as usize..range.end as usize]);
        // Across both of its ends; loads return others' stores.
        for at in [range.start - 3, range.end - 3] {
            memory.write(at, &[1, 2, 3, 4, 5, 6]);
            let mut back = [9; 8];
            memory.read(at - 1, &mut back);
            assert_eq!(back[1..7], [1, 2, 3, 4, 5, 6]);
        }
        assert_eq!(elsewhere.0.lock().unwrap().0[..3], [4, 5, 6]);
        elsewhere.0.lock().unwrap().0[10] = 77;
        let mut back = [0];
        memory.read(range.start + 10, &mut back);
        assert_eq!(back, [77]);
        memory.zero(range.start - 4, 12);
        memory.read(range.start - 4, &mut after[..13]);
        assert_eq!((&after[..12], after[12]), (&[0; 12][..], elsewhere.0.lock().unwrap().0[8]));
        // Zeros are not written again.
        let count = elsewhere.0.lock().unwrap().1;
        memory.zero(range.start - 4, 12);
        assert_eq!(elsewhere.0.lock().unwrap().1, count);
        // No part can be backed twice.
        for again in [range.start - 1..range.start + 1, range.end - 1..range.end + 1, 5..5] {
            assert!(!memory.back(again, Box::new(Elsewhere::default())));
        }
        // Right behind it, and in memory never written.
        for first in [range.end, 1 << 40] {
            let next = Elsewhere(Arc::new(Mutex::new((vec![0; PAGE_BYTES], 0))));
            assert!(memory.back(first..first + PAGE, Box::new(next)));
        }
    }
}
