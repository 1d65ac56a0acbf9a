// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that others write too: mapped parts of BARs, and pages that devices reach. It is never
//! lent as a slice: loads and stores are volatile and checked against its bounds.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use crosslane_host::PageSize;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fcntl_add_seals};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::StoreWidth;
use crate::numa::{Placement, node_of};

/// Bytes of a small page.
pub const SMALL_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// A shared, readable and writable mapping of a run of bytes of a file or a device. Dropping it
/// unmaps the bytes.
#[derive(Debug)]
pub struct Mapped {
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and every access is volatile.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `bytes` of a file from `offset`, both multiples of the file's page size.
    ///
    /// # Errors
    /// Errors of `mmap`; [`Errno::INVAL`] if `bytes` is 0.
    pub fn of(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<Self, Errno> {
        let length = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address of a new mapping, so no existing one is touched.
        let pointer = unsafe {
            rustix::mm::mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, file, offset)?
        };
        let pointer = NonNull::new(pointer.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { pointer, bytes: length })
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the address in this process, for system calls that take one.
    pub fn address(&self) -> usize {
        self.pointer.addr().get()
    }

    /// Returns the address of a run of bytes.
    ///
    /// # Panics
    /// If the run is not within the mapping: callers have checked.
    fn place(&self, offset: u64, bytes: usize) -> *mut u8 {
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes));
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} B at {offset:#x} are not within a mapping of {} B",
            self.bytes
        );
        // SAFETY: checked above to be within the mapping.
        unsafe { self.pointer.as_ptr().add(offset as usize) }
    }

    /// Loads 1, 2, 4 or 8 bytes as one access.
    ///
    /// # Panics
    /// If the length is not one of these, `offset` is not aligned to it, or the access ends beyond
    /// the mapping.
    pub fn load(&self, offset: u64, into: &mut [u8]) {
        let place = self.place(offset, into.len());
        assert!(offset.is_multiple_of(into.len() as u64), "an access is aligned to its length");
        // SAFETY: within the mapping, which is readable and begins at a page, so `offset` gives the
        // alignment.
        unsafe {
            match into.len() {
                1 => into[0] = place.read_volatile(),
                2 => into.copy_from_slice(&place.cast::<u16>().read_volatile().to_ne_bytes()),
                4 => into.copy_from_slice(&place.cast::<u32>().read_volatile().to_ne_bytes()),
                8 => into.copy_from_slice(&place.cast::<u64>().read_volatile().to_ne_bytes()),
                bytes => panic!("no access is of {bytes} B"),
            }
        }
    }

    /// Stores a run of bytes, lowest address first, as [`StoreWidth::store`] does.
    ///
    /// # Panics
    /// If the run is not within the mapping, or the processor does not have the width.
    pub fn store(&self, offset: u64, bytes: &[u8], width: StoreWidth) {
        let place = self.place(offset, bytes.len());
        // SAFETY: within the mapping, which is writable. Others may write there as well; both sides
        // store whole bytes, and this side holds no references to them.
        unsafe { width.store(place, bytes) };
    }

    /// Loads a run of bytes, eight at a time where they are aligned.
    ///
    /// # Panics
    /// If the run is not within the mapping.
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let place = self.place(offset, into.len());
        let mut done = 0;
        while done < into.len() {
            // SAFETY: `done` is within the run, which is within the mapping.
            let from = unsafe { place.add(done) };
            let left = &mut into[done..];
            if left.len() >= 8 && from.addr().is_multiple_of(8) {
                // SAFETY: eight bytes are left there, aligned.
                let value = unsafe { from.cast::<u64>().read_volatile() };
                left[..8].copy_from_slice(&value.to_ne_bytes());
                done += 8;
            } else {
                // SAFETY: one byte is left there.
                left[0] = unsafe { from.read_volatile() };
                done += 1;
            }
        }
    }

    /// Returns a word that others may change.
    ///
    /// # Panics
    /// If the word is not within the mapping, or `offset` is not a multiple of 4.
    pub fn word(&self, offset: u64) -> &AtomicU32 {
        let place = self.place(offset, 4);
        assert!(offset.is_multiple_of(4), "a word begins at a multiple of 4");
        // SAFETY: four aligned bytes of the mapping, which lives as long as `self`.
        unsafe { AtomicU32::from_ptr(place.cast()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and nothing refers to it any more. Unmapping the
        // whole of a mapping cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

/// Zeroed pages of memory that devices can reach: an unnamed file (`memfd`), which can also be
/// passed to another process. All pages are allocated from the start.
#[derive(Debug)]
pub struct Pages {
    file: OwnedFd,
    mapped: Mapped,
    page_bytes: u64,
}

impl Pages {
    /// Allocates at least `bytes`, in whole pages: huge ones if asked for and available, else small
    /// ones.
    ///
    /// # Errors
    /// Errors of the kernel, mostly [`Errno::NOMEM`].
    pub fn allocate(bytes: u64, pages: PageSize) -> Result<Self, Errno> {
        Self::allocate_at(bytes, pages, &Placement::any("none was asked for"))
    }

    /// Allocates like [`allocate`](Self::allocate) at a place.
    ///
    /// # Errors
    /// Errors of the kernel, mostly [`Errno::NOMEM`].
    pub fn allocate_at(bytes: u64, pages: PageSize, at: &Placement) -> Result<Self, Errno> {
        if pages == PageSize::Huge
            && let Ok(pages) = Self::of_size(bytes, HUGE_PAGE_BYTES, at)
        {
            return Ok(pages);
        }
        Self::of_size(bytes, SMALL_PAGE_BYTES, at)
    }

    fn of_size(bytes: u64, page_bytes: u64, at: &Placement) -> Result<Self, Errno> {
        let bytes = bytes.max(1).checked_next_multiple_of(page_bytes).ok_or(Errno::NOMEM)?;
        let huge = match page_bytes {
            HUGE_PAGE_BYTES => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            _ => MemfdFlags::empty(),
        };
        // The kernel would kill a program rather than refuse it small pages.
        if page_bytes == SMALL_PAGE_BYTES && bytes > at.available_bytes() {
            return Err(Errno::NOMEM);
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let file = rustix::fs::memfd_create("crosslane", flags)?;
        // Allocates all of it now: a page missing later would be a signal, not an error.
        let there = at.enter()?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        drop(there);
        // A process that receives the file can rely on its size.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapped = Mapped::of(file.as_fd(), 0, bytes)?;
        at.keep(&mapped)?;
        Ok(Self { file, mapped, page_bytes })
    }

    /// The file, to pass to another process; the pages begin at its offset 0.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the mapping of the pages in this process.
    pub const fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Returns the size of the pages in bytes, a multiple of [`page_bytes`](Self::page_bytes).
    pub const fn bytes(&self) -> u64 {
        self.mapped.bytes()
    }

    /// Returns the NUMA node of the first page; `None` if the kernel does not say.
    pub fn node(&self) -> Option<u32> {
        node_of(&self.mapped, 0)
    }

    /// Bytes of one page.
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }
}

/// Returns the memory that the machine can still give: `MemAvailable`, else its free memory.
pub(crate) fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    available.map_or_else(
        || {
            let info = rustix::system::sysinfo();
            info.freeram.saturating_mul(info.mem_unit.into())
        },
        |kib| kib << 10,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_and_the_same_through_their_file() {
        let pages = Pages::allocate(5000, PageSize::Small).unwrap();
        assert_eq!((pages.bytes(), pages.page_bytes()), (8192, 4096));
        let mut bytes = [0xa5; 8192];
        pages.mapped().copy_out(0, &mut bytes);
        assert_eq!(bytes, [0; 8192]);
        // A second mapping of the file sees stores through the first, and the reverse.
        let other = Mapped::of(pages.file(), 4096, 4096).unwrap();
        pages.mapped().store(4099, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], StoreWidth::widest());
        let mut seen = [0; 14];
        other.copy_out(2, &mut seen);
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0]);
        other.store(8, &7_u32.to_ne_bytes(), StoreWidth::B8);
        assert_eq!(pages.mapped().word(4104).load(std::sync::atomic::Ordering::Relaxed), 7);
        let mut word = [0; 8];
        pages.mapped().load(4104, &mut word);
        assert_eq!(
            u64::from_ne_bytes(word),
            7 | u64::from(u32::from_ne_bytes([10, 0, 0, 0])) << 32
        );
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        assert!(Pages::allocate(u64::MAX, PageSize::Huge).is_err());
        assert!(Pages::allocate(1 << 62, PageSize::Small).is_err());
    }

    #[test]
    #[should_panic(expected = "4 B at 0xffd are not within a mapping of 4096 B")]
    fn nothing_is_loaded_beyond_the_end() {
        let pages = Pages::allocate(1, PageSize::Small).unwrap();
        let mut bytes = [0; 4];
        pages.mapped().copy_out(4093, &mut bytes);
    }
}
