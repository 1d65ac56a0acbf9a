// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this machine that a network reads and writes: mapped separately, and never exposed as
//! a slice. It is private to this program, or a nameless file that others have mapped too.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::hint::black_box;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crosslane_host::{BusError, DmaMemory, ErrorKind, PageSize, RdmaError, RdmaResult, Reason};
use rustix::fs::{FileType, Mode, OFlags, SealFlags, fcntl_get_seals, fstat, open};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::damage::Watched;

/// Size of a huge page: the default size of x86-64 and, with pages of 4 KiB, of aarch64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Unit of copying in bytes. Each unit is naturally aligned.
const WORD_BYTES: usize = size_of::<u64>();

/// Fewer units are copied one by one.
#[cfg(target_arch = "x86_64")]
const LEAST_MOVED_WORDS: usize = 64;

/// Whole pages of this process, or of a file.
///
/// The kernel, an adapter or another process may write them at any time, so programs only ever copy
/// words in and out, each an atomic, aligned access of 8 B. Clones of the memory may be used from
/// several threads: data written during a read are torn at words, as from any device.
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    mapped_bytes: usize,
    pages: PageSize,
    /// Whether these are pages of a file, which others may have mapped too.
    is_of_file: bool,
    /// Of a file that may lose pages.
    watched: Option<Watched>,
}

// SAFETY: it has no thread affinity; every access to the mapped pages is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps zeroed pages, at least one.
    pub fn new(bytes: u64, pages: PageSize) -> RdmaResult<Self> {
        let out_of_memory =
            |why: String| RdmaError::OutOfMemory { bytes, why: Reason::new(ErrorKind::Busy, why) };
        let wanted = usize::try_from(bytes).map_err(|error| out_of_memory(error.to_string()))?;
        let round = |page: usize| wanted.max(1).checked_next_multiple_of(page);
        let too_much = || out_of_memory("no address space has so much".into());
        if pages == PageSize::Huge {
            let mapped_bytes = round(HUGE_PAGE_BYTES).ok_or_else(too_much)?;
            if let Ok(start) = map(mapped_bytes, MapFlags::HUGETLB) {
                let (pages, is_of_file, watched) = (PageSize::Huge, false, None);
                return Ok(Self { start, mapped_bytes, pages, is_of_file, watched });
            }
        }
        let mapped_bytes = round(rustix::param::page_size()).ok_or_else(too_much)?;
        let start = map(mapped_bytes, MapFlags::empty())
            .map_err(|error| out_of_memory(error.to_string()))?;
        if pages == PageSize::Huge && mapped_bytes >= HUGE_PAGE_BYTES {
            // SAFETY: the pages are private to this mapping, and keep their content. A kernel that
            // has no large pages to spare uses small ones, each with a fault when it is touched.
            let _ = unsafe { madvise(start.as_ptr(), mapped_bytes, Advice::LinuxHugepage) };
        }
        let (pages, is_of_file, watched) = (PageSize::Small, false, None);
        Ok(Self { start, mapped_bytes, pages, is_of_file, watched })
    }

    /// Maps all pages of a file that holds at least this many bytes and cannot be shortened.
    fn of_file(file: BorrowedFd<'_>, bytes: u64) -> Result<Self, String> {
        let words = |error: rustix::io::Errno| error.to_string();
        let seals = fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            // Access to pages that others have removed would raise a signal, not an error.
            return Err("its file could be made shorter while it is in use".into());
        }
        let status = fstat(file).map_err(words)?;
        let file_bytes = u64::try_from(status.st_size).unwrap_or_default();
        if file_bytes < bytes.max(1) {
            return Err(format!("its file has {file_bytes} B"));
        }
        // The rest of the last page is mapped too: the kernel maps whole pages.
        let mapped_bytes = usize::try_from(file_bytes).ok();
        let mapped_bytes = mapped_bytes
            .and_then(|bytes| bytes.checked_next_multiple_of(rustix::param::page_size()))
            .ok_or("no address space has so much")?;
        let is_huge = usize::try_from(status.st_blksize).is_ok_and(|page| page >= HUGE_PAGE_BYTES);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address chosen by the kernel; its pages stay for as long as
        // it does, as the file cannot be shortened.
        let start = unsafe {
            mmap(std::ptr::null_mut(), mapped_bytes, protection, flags, file, 0).map_err(words)?
        };
        let start = NonNull::new(start).ok_or("the kernel mapped it to nowhere")?;
        let pages = if is_huge { PageSize::Huge } else { PageSize::Small };
        Ok(Self { start, mapped_bytes, pages, is_of_file: true, watched: None })
    }

    /// Maps a file or a DAX device as a whole; its length is a multiple of a page. Pages that it
    /// loses are replaced by empty ones, and noted.
    fn of_path(path: &Path) -> Result<Self, (ErrorKind, String)> {
        let of_system = |error: rustix::io::Errno| {
            (std::io::Error::from(error).kind().into(), error.to_string())
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(path, flags, Mode::empty()).map_err(of_system)?;
        let page = rustix::param::page_size();
        let status = fstat(&file).map_err(of_system)?;
        let file_bytes = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => u64::try_from(status.st_size).unwrap_or_default(),
            FileType::CharacterDevice => dax_bytes(status.st_rdev)?,
            _ => return Err(invalid("it is neither a file nor a DAX device")),
        };
        if file_bytes == 0 || !file_bytes.is_multiple_of(page as u64) {
            let why = format!("it has {file_bytes} B: a card's memory is of pages of {page} B");
            return Err(invalid(why));
        }
        let mapped_bytes =
            usize::try_from(file_bytes).map_err(|_| invalid("no address space has so much"))?;
        let is_huge = usize::try_from(status.st_blksize).is_ok_and(|page| page >= HUGE_PAGE_BYTES);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel. Pages that it loses later are
        // replaced when they are accessed.
        let start = unsafe {
            mmap(std::ptr::null_mut(), mapped_bytes, protection, MapFlags::SHARED, &file, 0)
        };
        let start = NonNull::new(start.map_err(of_system)?);
        let start = start.ok_or_else(|| invalid("the kernel mapped it to nowhere"))?;
        let pages = if is_huge { PageSize::Huge } else { PageSize::Small };
        // Owned from here on, so that it is unmapped if it cannot be watched.
        let mut mapping = Self { start, mapped_bytes, pages, is_of_file: true, watched: None };
        let first = start.as_ptr() as usize;
        let watched = Watched::new(first..first + mapped_bytes, page);
        mapping.watched = Some(watched.map_err(|why| (ErrorKind::Busy, why))?);
        Ok(mapping)
    }

    /// Whether its file has lost pages that were accessed since.
    pub fn is_damaged(&self) -> bool {
        self.watched.as_ref().is_some_and(Watched::is_damaged)
    }

    /// Touches all pages of these bytes, within the mapping, so that those that a file has lost
    /// are replaced. False if this mapping loses none.
    pub fn mend(&self, offset: usize, bytes: usize) -> bool {
        let end = offset.saturating_add(bytes).min(self.mapped_bytes);
        if self.watched.is_none() || offset >= end {
            return false;
        }
        let page = rustix::param::page_size();
        for at in (offset / page * page..end).step_by(page) {
            // As a write that changes nothing: a hole of a full disk can be read. The compiler
            // leaves out accesses of other kinds whose outcome nobody uses.
            let word = self.word(at / WORD_BYTES);
            let _ = black_box(word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed));
        }
        true
    }

    /// Has the pages of these bytes ready to be written, all at once: one by one each costs a
    /// fault. Only of a file; other pages come in large ones, or have come with the mapping.
    pub fn prepare(&self, offset: usize, bytes: usize) {
        let page = rustix::param::page_size();
        let (start, end) = (offset / page * page, offset.saturating_add(bytes));
        let end = end.next_multiple_of(page).min(self.mapped_bytes);
        if self.watched.is_none() || end.saturating_sub(start) <= page {
            return;
        }
        let first = self.start.as_ptr().wrapping_byte_add(start);
        // SAFETY: within the mapping, and no content changes. Pages that the file has lost, and a
        // kernel before 5.14, which does not know this, make it fail: then each page is made when
        // it is accessed.
        let _ = unsafe { madvise(first, end - start, Advice::LinuxPopulateWrite) };
    }

    /// Returns the address of its first byte, for the network.
    pub const fn start(&self) -> *mut c_void {
        self.start.as_ptr()
    }

    /// Gives its pages back to the kernel; they read as zeros afterwards. Pages of a file stay, and
    /// are freed with the last process that has them.
    pub fn empty(&self) {
        if self.is_of_file {
            return;
        }
        // SAFETY: the pages are private to this mapping and anonymous. Their content may change at
        // any time, also to zeros. A kernel that cannot do this for huge pages does no harm.
        let _ = unsafe { madvise(self.start(), self.mapped_bytes, Advice::LinuxDontNeed) };
    }

    /// Returns the address of the first of these bytes, which are within the mapping, for the
    /// kernel.
    pub fn bytes_at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.mapped_bytes), "{bytes} B from {offset} on");
        self.start.as_ptr().cast::<u8>().wrapping_add(offset)
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.mapped_bytes / WORD_BYTES, "word {number} is beyond the mapping");
        // SAFETY: the word is within the mapping, which lives as long as `self`; pages are aligned;
        // all accesses here use such words.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u64>().add(number)) }
    }

    /// Returns these words, from a number on.
    fn words(&self, first: usize, count: usize) -> &[AtomicU64] {
        let end = first.checked_add(count);
        let is_within = end.is_some_and(|end| end <= self.mapped_bytes / WORD_BYTES);
        assert!(is_within, "{count} words from {first} on are beyond the mapping");
        // SAFETY: the words are within the mapping, which lives as long as `self`; pages are
        // aligned; all accesses here use such words, which may change at any time.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().cast::<AtomicU64>().add(first), count)
        }
    }

    /// Copies bytes out; the caller has checked the bounds.
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
        let (pieces, tail) = rest.as_chunks_mut::<WORD_BYTES>();
        let words = self.words(number, pieces.len());
        number += pieces.len();
        let load = |(piece, word): (&mut [u8; WORD_BYTES], &AtomicU64)| {
            *piece = word.load(Ordering::Relaxed).to_ne_bytes();
        };
        // SAFETY: both are of this many words; the slice is this function's alone, and the words
        // may change at any time.
        let are_moved =
            unsafe { move_words(words.as_ptr().cast(), pieces.as_mut_ptr().cast(), words.len()) };
        if !are_moved {
            pieces.iter_mut().zip(words).for_each(load);
        }
        if !tail.is_empty() {
            let bytes = self.word(number).load(Ordering::Relaxed).to_ne_bytes();
            tail.copy_from_slice(&bytes[..tail.len()]);
        }
    }

    /// Copies bytes in, and writes no other byte; the caller has checked the bounds.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let (head, skip) = (offset / WORD_BYTES, offset % WORD_BYTES);
        let (mut number, mut rest) = (head, from);
        if skip > 0 && !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(WORD_BYTES - skip));
            self.merge(number, skip, piece);
            (number, rest) = (number + 1, after);
        }
        let (pieces, tail) = rest.as_chunks::<WORD_BYTES>();
        let words = self.words(number, pieces.len());
        number += pieces.len();
        let store = |(piece, word): (&[u8; WORD_BYTES], &AtomicU64)| {
            word.store(u64::from_ne_bytes(*piece), Ordering::Relaxed);
        };
        let to = words.as_ptr().cast_mut().cast();
        // SAFETY: as for reading; atomics may be written through a shared reference.
        let are_moved = unsafe { move_words(pieces.as_ptr().cast(), to, words.len()) };
        if !are_moved {
            pieces.iter().zip(words).for_each(store);
        }
        if !tail.is_empty() {
            self.merge(number, 0, tail);
        }
    }

    /// Writes a part of a word and keeps the rest, even if another writer changes it meanwhile.
    fn merge(&self, number: usize, skip: usize, piece: &[u8]) {
        let merged = |old: u64| {
            let mut bytes = old.to_ne_bytes();
            bytes[skip..skip + piece.len()].copy_from_slice(piece);
            Some(u64::from_ne_bytes(bytes))
        };
        // Cannot fail, as `merged` always returns a value.
        let _ = self.word(number).fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
    }
}

fn invalid(why: impl Into<String>) -> (ErrorKind, String) {
    (ErrorKind::InvalidArgument, why.into())
}

/// Returns the size of a DAX device, which its status does not say.
fn dax_bytes(device: u64) -> Result<u64, (ErrorKind, String)> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let size = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size"));
    let size = size.ok().and_then(|text| text.trim().parse().ok());
    size.ok_or_else(|| invalid("it is a device, and not a DAX device"))
}

/// Moves words that others may write or read meanwhile, each as a whole, if there are many of them
/// and the processor has an instruction for that, which takes a fraction of the time of single
/// loads and stores. Returns whether it did.
///
/// # Safety
/// `count` words can be read from `from` and written to `to`, both of any alignment; one end is
/// memory that only atomic accesses and this function use, the other one is the caller's alone.
unsafe fn move_words(from: *const u64, to: *mut u64, count: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    if count >= LEAST_MOVED_WORDS {
        // SAFETY: by the caller. The direction flag is clear, as it is at every call; what the
        // instruction does to the memory is as invisible to the compiler as what a device does.
        unsafe {
            std::arch::asm!(
                "rep movsq",
                inout("rcx") count => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return true;
    }
    let _ = (from, to, count);
    false
}

fn map(bytes: usize, more: MapFlags) -> rustix::io::Result<NonNull<c_void>> {
    let flags = MapFlags::PRIVATE | more;
    // SAFETY: a new anonymous mapping at an address chosen by the kernel.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
    };
    NonNull::new(start).ok_or(rustix::io::Errno::NOMEM)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.watched = None;
        // SAFETY: it was mapped as a whole with this length and has no other owner: networks keep
        // mappings that they may still reach.
        let unmapped = unsafe { munmap(self.start(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// Memory of this machine that a network may read and write. Clones share the memory.
#[derive(Clone)]
pub struct NetworkMemory {
    mapping: Arc<Mapping>,
    size_bytes: u64,
}

impl NetworkMemory {
    /// Allocates zeroed memory in separate pages; huge ones if asked for and available.
    ///
    /// # Errors
    /// [`RdmaError::OutOfMemory`] if there is not enough memory.
    pub fn new(bytes: u64, pages: PageSize) -> RdmaResult<Self> {
        Ok(Self { mapping: Arc::new(Mapping::new(bytes, pages)?), size_bytes: bytes })
    }

    /// Maps the first bytes of a nameless file (a memfd), sharing its pages with all others that
    /// have mapped it, such as the buffers of a card. A write by one is seen by all. The mapping
    /// outlives the file descriptor and the others' mappings.
    ///
    /// # Errors
    /// [`RdmaError::Registration`] for a file that is too short, cannot be mapped, or could be
    /// shortened (it needs the seal `F_SEAL_SHRINK`).
    pub fn of_file(file: BorrowedFd<'_>, bytes: u64) -> RdmaResult<Self> {
        let mapping = Mapping::of_file(file, bytes).map_err(|why| RdmaError::Registration {
            bytes,
            why: Reason::new(ErrorKind::Failed, why),
        })?;
        Ok(Self { mapping: Arc::new(mapping), size_bytes: bytes })
    }

    /// Maps a file, or a DAX device, as a whole; others may use it at the same time. A file that is
    /// made shorter later, or whose disk is full, does no harm: what it has lost reads as zeros,
    /// and [`read`](DmaMemory::read) and [`write`](DmaMemory::write) fail from then on.
    ///
    /// # Errors
    /// [`RdmaError::Registration`] for a path that cannot be opened for reading and writing, is
    /// neither a file nor a DAX device, or has not a whole number of pages.
    pub fn of_path(path: &Path) -> RdmaResult<Self> {
        let mapping = Mapping::of_path(path).map_err(|(kind, why)| RdmaError::Registration {
            bytes: std::fs::metadata(path).map_or(0, |status| status.len()),
            why: Reason::new(kind, why),
        })?;
        let size_bytes = mapping.mapped_bytes as u64;
        Ok(Self { mapping: Arc::new(mapping), size_bytes })
    }

    /// Fails if pages are missing.
    fn check_pages(&self) -> Result<(), BusError> {
        match self.mapping.is_damaged() {
            false => Ok(()),
            true => Err(BusError::NoPages { size_bytes: self.size_bytes }),
        }
    }

    /// Returns the size of the pages allocated.
    pub fn pages(&self) -> PageSize {
        self.mapping.pages
    }

    pub(crate) const fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl DmaMemory for NetworkMemory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), BusError> {
        self.check(offset_bytes, into.len())?;
        // Within a mapping, so it fits `usize`.
        self.mapping.read(offset_bytes as usize, into);
        self.check_pages()
    }

    fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<(), BusError> {
        self.check(offset_bytes, from.len())?;
        self.mapping.write(offset_bytes as usize, from);
        self.check_pages()
    }
}

impl fmt::Debug for NetworkMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkMemory({} B, {:?} pages)", self.size_bytes, self.pages())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

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

    /// Makes a nameless file of this size.
    fn file(bytes: u64, seals: SealFlags) -> OwnedFd {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn pages_of_a_file_are_the_same_for_all_who_have_it() {
        let file = file(8192, SealFlags::SHRINK);
        let one = NetworkMemory::of_file(file.as_fd(), 5000).unwrap();
        let other = NetworkMemory::of_file(file.as_fd(), 8192).unwrap();
        drop(file);
        assert_eq!((one.size_bytes(), one.pages()), (5000, PageSize::Small));
        let mut seen = [0; 7];
        one.write(4993, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        other.read(4993, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        // The pages are shared: their content outlives each mapping.
        one.mapping().empty();
        drop(one);
        other.read(4993, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        assert!(other.read(8192, &mut [0]).is_err());
        // A file that ends within a page, and within a word.
        let short = NetworkMemory::of_file(self::file(4101, SealFlags::SHRINK).as_fd(), 4101);
        let short = short.unwrap();
        short.write(4097, &[1, 2, 3, 4]).unwrap();
        short.read(4096, &mut seen[..5]).unwrap();
        assert_eq!(seen[..5], [0, 1, 2, 3, 4]);
        assert!(short.read(4096, &mut seen[..6]).is_err());
    }

    #[test]
    fn files_that_others_could_shorten_and_files_that_are_too_short() {
        for (seals, bytes, why) in [
            (SealFlags::empty(), 4096, "its file could be made shorter while it is in use"),
            (SealFlags::GROW, 4096, "its file could be made shorter while it is in use"),
            (SealFlags::SHRINK, 4097, "its file has 4096 B"),
            (SealFlags::SHRINK, u64::MAX, "its file has 4096 B"),
        ] {
            let error = NetworkMemory::of_file(file(4096, seals).as_fd(), bytes).unwrap_err();
            let why = Reason::new(ErrorKind::Failed, why);
            assert_eq!(error, RdmaError::Registration { bytes, why });
        }
        let empty = NetworkMemory::of_file(file(0, SealFlags::SHRINK).as_fd(), 0);
        assert!(empty.is_err(), "nothing can be mapped of it");
        let device = std::fs::File::open("/dev/zero").unwrap();
        assert!(NetworkMemory::of_file(device.as_fd(), 1).is_err());
    }

    #[test]
    fn a_file_is_its_memory_until_it_is_made_shorter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 16).unwrap();
        let memory = NetworkMemory::of_path(&path).unwrap();
        assert_eq!(memory.size_bytes(), 1 << 16);
        memory.write(8190, &[1, 2, 3, 4]).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[8190..8194], [1, 2, 3, 4]);
        file.set_len(8192).unwrap();
        let mut seen = [9; 4];
        memory.read(8188, &mut seen).unwrap();
        assert_eq!(seen, [0, 0, 1, 2], "what is left can be used");
        let lost = Err(BusError::NoPages { size_bytes: 1 << 16 });
        assert_eq!(memory.read(8190, &mut seen), lost);
        assert_eq!(seen, [1, 2, 0, 0]);
        assert_eq!(memory.write(0, &[1]), lost, "from then on");
        // The others are not concerned.
        let other = NetworkMemory::of_path(&path).unwrap();
        other.read(8190, &mut seen[..2]).unwrap();
        assert_eq!(seen[..2], [1, 2]);
    }

    #[test]
    fn paths_that_are_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short");
        for (bytes, why) in [(0, "it has 0 B: "), (4097, "it has 4097 B: ")] {
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let error = NetworkMemory::of_path(&path).unwrap_err();
            let RdmaError::Registration { bytes: have, why: reason } = error else { panic!() };
            assert_eq!((have, reason.kind()), (bytes, ErrorKind::InvalidArgument));
            assert!(reason.to_string().starts_with(why), "{reason}");
        }
        for (path, kind, why) in [
            (folder.path().join("none"), ErrorKind::NotFound, "No such file or directory"),
            ("/dev/null".into(), ErrorKind::InvalidArgument, "it is a device, and not a DAX"),
            ("/proc/version".into(), ErrorKind::Denied, "Permission denied"),
        ] {
            let RdmaError::Registration { why: reason, .. } =
                NetworkMemory::of_path(&path).unwrap_err()
            else {
                panic!()
            };
            // Root may open everything for writing, but this file is empty for it.
            if rustix::process::geteuid().is_root() && kind == ErrorKind::Denied {
                continue;
            }
            assert_eq!(reason.kind(), kind, "{reason}");
            assert!(reason.to_string().starts_with(why), "{reason}");
        }
    }

    proptest! {
        /// Bytes copied in anywhere come out again, and no others change.
        #[test]
        fn copies_at_any_place(
            writes in prop::collection::vec((0_usize..2000, 0_usize..1000, any::<u8>()), 1..20),
            from in 0_usize..3000,
        ) {
            let memory = NetworkMemory::new(3000, PageSize::Small).unwrap();
            let mut expected = [0_u8; 3000];
            for (offset, length, seed) in writes {
                let bytes: Vec<u8> = (0..length).map(|at| seed.wrapping_add(at as u8)).collect();
                memory.write(offset as u64, &bytes).unwrap();
                expected[offset..offset + length].copy_from_slice(&bytes);
            }
            let mut read = vec![0; 3000 - from];
            memory.read(from as u64, &mut read).unwrap();
            prop_assert_eq!(&read[..], &expected[from..]);
        }
    }
}
