// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this machine that a network reads and writes: mapped by itself, never behind a slice.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_host::{BusError, DmaMemory, PageSize, RdmaError};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Of a huge page: the default size of x86-64 and, with pages of 4 KiB, of aarch64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes that are copied at once. Each is aligned to itself.
const WORD_BYTES: usize = size_of::<u64>();

/// Whole pages of this process.
///
/// The kernel, an adapter or another process may write them at any time, so that programs here
/// only ever copy words out and in: each an atomic access of 8 B that is aligned to 8 B. Clones of
/// the memory may be used from several threads: what is written while it is read comes torn at
/// words, as from any device.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    mapped_bytes: usize,
    pages: PageSize,
}

// SAFETY: nothing of it belongs to a thread; every access to what it maps is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed pages, at least one.
    pub fn new(bytes: u64, pages: PageSize) -> Result<Self, RdmaError> {
        let out_of_memory = |why: String| RdmaError::OutOfMemory { bytes, why };
        let wanted = usize::try_from(bytes).map_err(|error| out_of_memory(error.to_string()))?;
        let round = |page: usize| wanted.max(1).checked_next_multiple_of(page);
        let too_much = || out_of_memory("no address space has so much".into());
        if pages == PageSize::Huge {
            let mapped_bytes = round(HUGE_PAGE_BYTES).ok_or_else(too_much)?;
            if let Ok(start) = map(mapped_bytes, MapFlags::HUGETLB) {
                return Ok(Self { start, mapped_bytes, pages: PageSize::Huge });
            }
        }
        let mapped_bytes = round(rustix::param::page_size()).ok_or_else(too_much)?;
        let start = map(mapped_bytes, MapFlags::empty())
            .map_err(|error| out_of_memory(error.to_string()))?;
        Ok(Self { start, mapped_bytes, pages: PageSize::Small })
    }

    /// Its first byte, for the network.
    pub const fn start(&self) -> *mut c_void {
        self.start.as_ptr()
    }

    /// Gives its pages back to the kernel: they read as zeros from then on.
    #[cfg_attr(not(has_libfabric), expect(dead_code))]
    pub fn empty(&self) {
        // SAFETY: the pages are this mapping's own, private and anonymous. What they hold may
        // change at any time, also to zeros. That a kernel cannot do it for huge pages is no harm.
        let _ = unsafe { madvise(self.start(), self.mapped_bytes, Advice::LinuxDontNeed) };
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.mapped_bytes / WORD_BYTES, "word {number} is beyond the mapping");
        // SAFETY: the word is within the mapping, which lives as long as `self`; pages are
        // aligned; nothing here ever accesses it but by such words.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u64>().add(number)) }
    }

    /// Copies out; the caller has seen to it that it lies within.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let (head, skip) = (offset / WORD_BYTES, offset % WORD_BYTES);
        let (mut number, mut rest) = (head, into);
        if skip > 0 && !rest.is_empty() {
            let length = rest.len().min(WORD_BYTES - skip);
            let bytes = self.word(number).load(Ordering::Relaxed).to_ne_bytes();
            let (piece, after) = rest.split_at_mut(length);
            piece.copy_from_slice(&bytes[skip..skip + length]);
            (number, rest) = (number + 1, after);
        }
        let mut words = rest.chunks_exact_mut(WORD_BYTES);
        for piece in &mut words {
            piece.copy_from_slice(&self.word(number).load(Ordering::Relaxed).to_ne_bytes());
            number += 1;
        }
        let tail = words.into_remainder();
        if !tail.is_empty() {
            let bytes = self.word(number).load(Ordering::Relaxed).to_ne_bytes();
            tail.copy_from_slice(&bytes[..tail.len()]);
        }
    }

    /// Copies in; the caller has seen to it that it lies within. No other byte is written.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let (head, skip) = (offset / WORD_BYTES, offset % WORD_BYTES);
        let (mut number, mut rest) = (head, from);
        if skip > 0 && !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(WORD_BYTES - skip));
            self.merge(number, skip, piece);
            (number, rest) = (number + 1, after);
        }
        let (words, tail) = rest.as_chunks::<WORD_BYTES>();
        for word in words {
            self.word(number).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            number += 1;
        }
        if !tail.is_empty() {
            self.merge(number, 0, tail);
        }
    }

    /// Writes a part of a word, and leaves the rest as whoever else has written it.
    fn merge(&self, number: usize, skip: usize, piece: &[u8]) {
        let merged = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            bytes[skip..skip + piece.len()].copy_from_slice(piece);
            Some(u64::from_ne_bytes(bytes))
        };
        // It always has something to write, so it never fails.
        let _ = self.word(number).fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
    }
}

fn map(bytes: usize, more: MapFlags) -> rustix::io::Result<NonNull<c_void>> {
    let flags = MapFlags::PRIVATE | more;
    // SAFETY: a new mapping, where the kernel chooses, of nothing that anybody has.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    NonNull::new(start).ok_or(rustix::io::Errno::NOMEM)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new` with this length, and nobody has it any more: networks
        // keep what they may still reach.
        let unmapped = unsafe { munmap(self.start(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// Memory of this machine that a network may read and write. Clones are the same memory.
#[derive(Clone)]
pub struct NetworkMemory {
    mapping: Arc<Mapping>,
    size_bytes: u64,
}

impl NetworkMemory {
    /// Zeroed memory in pages of its own; in huge ones if they are asked for and there are any.
    ///
    /// # Errors
    /// [`RdmaError::OutOfMemory`].
    pub fn new(bytes: u64, pages: PageSize) -> Result<Self, RdmaError> {
        Ok(Self { mapping: Arc::new(Mapping::new(bytes, pages)?), size_bytes: bytes })
    }

    /// The pages that it got.
    #[must_use]
    pub fn pages(&self) -> PageSize {
        self.mapping.pages
    }

    #[cfg_attr(not(has_libfabric), expect(dead_code))]
    pub(crate) const fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn check(&self, offset_bytes: u64, bytes: usize) -> Result<usize, BusError> {
        let (bytes, size_bytes) = (bytes as u64, self.size_bytes);
        match offset_bytes.checked_add(bytes).is_some_and(|end| end <= size_bytes) {
            // Within a mapping, so it fits.
            true => Ok(offset_bytes as usize),
            false => Err(BusError::BeyondMemory { offset_bytes, bytes, size_bytes }),
        }
    }
}

impl DmaMemory for NetworkMemory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError> {
        self.mapping.read(self.check(offset_bytes, into.len())?, into);
        Ok(())
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError> {
        self.mapping.write(self.check(offset_bytes, from.len())?, from);
        Ok(())
    }
}

impl fmt::Debug for NetworkMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkMemory({} B, {:?} pages)", self.size_bytes, self.pages())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn beyond_its_end() {
        let memory = NetworkMemory::new(10, PageSize::Small).unwrap();
        assert_eq!(memory.size_bytes(), 10);
        assert!(memory.write(3, &[1; 7]).is_ok());
        for (offset_bytes, bytes) in [(4, 7), (11, 0), (u64::MAX, 2)] {
            let error = BusError::BeyondMemory { offset_bytes, bytes, size_bytes: 10 };
            assert_eq!(memory.write(offset_bytes, &vec![0; bytes as usize]), Err(error.clone()));
            assert_eq!(memory.read(offset_bytes, &mut vec![0; bytes as usize]), Err(error));
        }
        assert!(memory.read(10, &mut []).is_ok());
        let empty = NetworkMemory::new(0, PageSize::Huge).unwrap();
        assert!(empty.read(0, &mut []).is_ok() && empty.read(0, &mut [0]).is_err());
    }

    #[test]
    fn more_than_there_is() {
        for pages in [PageSize::Small, PageSize::Huge] {
            let error = NetworkMemory::new(u64::MAX - 1, pages).unwrap_err();
            assert!(matches!(error, RdmaError::OutOfMemory { bytes, .. } if bytes == u64::MAX - 1));
        }
    }

    proptest! {
        /// What is copied in at any place comes out, and nothing beside it changes.
        #[test]
        fn copies_at_any_place(
            writes in prop::collection::vec((0_usize..200, 0_usize..100, any::<u8>()), 1..20),
            from in 0_usize..300,
        ) {
            let memory = NetworkMemory::new(300, PageSize::Small).unwrap();
            let mut expected = [0_u8; 300];
            for (offset, length, seed) in writes {
                let bytes: Vec<u8> = (0..length).map(|at| seed.wrapping_add(at as u8)).collect();
                memory.write(offset as u64, &bytes).unwrap();
                expected[offset..offset + length].copy_from_slice(&bytes);
            }
            let mut read = vec![0; 300 - from];
            memory.read(from as u64, &mut read).unwrap();
            prop_assert_eq!(&read[..], &expected[from..]);
        }
    }
}
