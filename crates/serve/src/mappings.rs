// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client's mappings for its device: ranges of I/O virtual addresses, each backed by a part of a
//! file of the client's.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crosslane_fabric::OutsideMemory;
use crosslane_host::lock;
use crosslane_pcie::units::{BusAddress, RoutingId};
use crosslane_vfio::user::protocol::{DEFAULT_MAX_MAPPINGS, DmaMap, DmaUnmap};
use crosslane_vfio::{Mapped, StoreWidth};
use rangemap::RangeInclusiveMap;
use rustix::fs::{FileType, SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::io::{Errno, pread, pwrite};

use crate::caller::Caller;

/// Magic numbers of file systems (`linux/magic.h`): files of huge pages can only be mapped, and a
/// file of a program (FUSE) is answered by that program, if it likes to.
const HUGETLBFS: i64 = 0x9584_58f6;
const FUSE: i64 = 0x6573_5546;

/// Files and mapped memory that a client may hold in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most files, each of which takes a file descriptor or a mapping.
    pub files: usize,
    /// Most bytes of files that are mapped; others are read and written by system calls.
    pub mapped_bytes: u64,
}

impl Quota {
    /// All files and addresses of a process: Linux has 65,530 mappings by default
    /// (`vm.max_map_count`), and 47 bits of addresses.
    pub const PROCESS: Self = Self { files: 16_384, mapped_bytes: 1 << 46 };

    /// Returns an equal share of it for each of several devices, of which all together have no more
    /// files than descriptors.
    pub fn share(self, devices: usize, descriptors: usize) -> Self {
        let devices = devices.max(1);
        let files = (self.files.min(descriptors) / devices).max(1);
        Self { files, mapped_bytes: self.mapped_bytes / devices as u64 }
    }
}

/// Numbers of a client's files, which count themselves.
#[derive(Debug, Default)]
struct Held {
    files: AtomicUsize,
    mapped_bytes: AtomicU64,
}

#[derive(Debug)]
struct ClientFile {
    bytes: u64,
    access: FileAccess,
    held: Arc<Held>,
}

/// Way to the bytes of a file.
#[derive(Debug)]
enum FileAccess {
    /// The whole file as a mapping, if the client cannot shorten it: an access beyond the end of a
    /// mapped file would kill this program. The descriptor is closed.
    Mapped(Mapped),
    /// System calls.
    Calls(OwnedFd),
}

impl Drop for ClientFile {
    fn drop(&mut self) {
        self.held.files.fetch_sub(1, Ordering::Relaxed);
        if let FileAccess::Mapped(_) = self.access {
            self.held.mapped_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A file is only the same as itself.
impl PartialEq for ClientFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ClientFile {}

impl ClientFile {
    /// Keeps a file of a client whose quota has room for one more.
    fn new(
        file: OwnedFd,
        bytes: u64,
        may_map: bool,
        held: &Arc<Held>,
        quota: Quota,
    ) -> Result<Self, Errno> {
        let kind = fstatfs(&file)?.f_type;
        if kind == FUSE {
            return Err(Errno::PERM);
        }
        let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let mapped_bytes = held.mapped_bytes.load(Ordering::Relaxed);
        let has_room = mapped_bytes.checked_add(bytes).is_some_and(|all| all <= quota.mapped_bytes);
        let mapped = match is_sealed && may_map && has_room {
            true => Mapped::of(file.as_fd(), 0, bytes).ok(),
            false => None,
        };
        if mapped.is_none() && kind == HUGETLBFS {
            return Err(Errno::PERM);
        }
        held.files.fetch_add(1, Ordering::Relaxed);
        let access = match mapped {
            Some(mapped) => {
                held.mapped_bytes.fetch_add(bytes, Ordering::Relaxed);
                FileAccess::Mapped(mapped)
            }
            None => FileAccess::Calls(file),
        };
        Ok(Self { bytes, access, held: Arc::clone(held) })
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        match &self.access {
            FileAccess::Mapped(mapped) => {
                mapped.copy_out(offset, into);
                true
            }
            FileAccess::Calls(file) => pread(file, &mut *into, offset) == Ok(into.len()),
        }
    }

    fn write(&self, offset: u64, from: &[u8]) -> bool {
        match &self.access {
            FileAccess::Mapped(mapped) => {
                mapped.store(offset, from, StoreWidth::B8);
                true
            }
            FileAccess::Calls(file) => pwrite(file, from, offset) == Ok(from.len()),
        }
    }
}

/// The backing of a range of addresses, equal for ranges that continue in the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Behind {
    /// File, and the offset that address 0 would have in it, modulo 2^64; `None` for a range
    /// without a file, for which the client is asked.
    file: Option<(Arc<ClientFile>, u64)>,
    readable: bool,
    writable: bool,
}

/// Location of bytes for the device.
enum Backing<'a> {
    /// In a file, at this offset.
    File(&'a ClientFile, u64),
    /// At this address of the client, which is asked for them.
    Client(&'a Arc<Caller>, u64),
}

impl Backing<'_> {
    fn read(self, into: &mut [u8]) -> bool {
        match self {
            Self::File(file, offset) => file.read(offset, into),
            Self::Client(caller, address) => caller.read(address, into),
        }
    }

    fn write(self, from: &[u8]) -> bool {
        match self {
            Self::File(file, offset) => file.write(offset, from),
            Self::Client(caller, address) => caller.write(address, from),
        }
    }
}

/// All mappings of one client. Neighbours that continue in one file are merged, so that a guest
/// that maps each page separately costs no more than one that maps all at once.
#[derive(Debug)]
pub struct Mappings {
    ranges: RangeInclusiveMap<u64, Behind>,
    /// The files of the ranges, by device, inode and whether they may be mapped.
    files: BTreeMap<(u64, u64, bool), Weak<ClientFile>>,
    held: Arc<Held>,
    quota: Quota,
    /// The client, for ranges without a file.
    caller: Option<Arc<Caller>>,
}

impl Default for Mappings {
    fn default() -> Self {
        Self::new(Quota::PROCESS, None)
    }
}

impl Mappings {
    fn new(quota: Quota, caller: Option<Arc<Caller>>) -> Self {
        let (ranges, files) = (RangeInclusiveMap::new(), BTreeMap::new());
        Self { ranges, files, held: Arc::default(), quota, caller }
    }

    /// Maps a range.
    ///
    /// # Errors
    /// `EINVAL` if it is empty, reaches beyond 2^64 or beyond its file, or is not backed by a
    /// regular file; `EEXIST` if part of it is mapped; `ENOSPC` beyond the limit of ranges and
    /// `EMFILE` beyond that of files; `EPERM` for huge pages that the client may take away, and for
    /// files that a program answers (FUSE).
    pub fn map(&mut self, map: &DmaMap, file: Option<OwnedFd>) -> Result<(), Errno> {
        let range = range_of(map.address, map.bytes).ok_or(Errno::INVAL)?;
        if self.ranges.overlaps(&range) {
            return Err(Errno::EXIST);
        }
        if self.ranges.len() >= DEFAULT_MAX_MAPPINGS as usize {
            return Err(Errno::NOSPC);
        }
        let file = match file {
            Some(file) => Some((self.file(file, map)?, map.offset.wrapping_sub(map.address))),
            None => None,
        };
        let (readable, writable) = (map.readable, map.writable);
        self.ranges.insert(range, Behind { file, readable, writable });
        Ok(())
    }

    /// Returns the file of that descriptor, mapped only once.
    fn file(&mut self, file: OwnedFd, map: &DmaMap) -> Result<Arc<ClientFile>, Errno> {
        let stat = fstat(&file)?;
        let bytes = u64::try_from(stat.st_size).map_err(|_| Errno::INVAL)?;
        let end = map.offset.checked_add(map.bytes).ok_or(Errno::INVAL)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || end > bytes {
            return Err(Errno::INVAL);
        }
        let key = (stat.st_dev, stat.st_ino, !map.by_calls);
        if let Some(known) = self.files.get(&key).and_then(Weak::upgrade)
            && known.bytes >= end
        {
            return Ok(known);
        }
        if self.held.files.load(Ordering::Relaxed) >= self.quota.files {
            return Err(Errno::MFILE);
        }
        let file = ClientFile::new(file, bytes, !map.by_calls, &self.held, self.quota)?;
        let file = Arc::new(file);
        self.files.retain(|_, file| file.strong_count() > 0);
        self.files.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    /// Returns the number of files that are held, of the most.
    pub fn files(&self) -> (usize, usize) {
        (self.held.files.load(Ordering::Relaxed), self.quota.files)
    }

    /// Removes all mappings within a range. Parts outside of it stay mapped. There need not be any:
    /// QEMU's virtual IOMMU unmaps all addresses of a device, mapped or not, and expects no error.
    ///
    /// # Errors
    /// `EINVAL` if the range is empty or reaches beyond 2^64, if everything is meant and a range is
    /// given, and for a bitmap of pages that were written, which nothing records; `ENOSPC` if what
    /// stays mapped is more ranges than the limit.
    pub fn unmap(&mut self, unmap: &DmaUnmap) -> Result<(), Errno> {
        let is_ranged = unmap.address != 0 || unmap.bytes != 0;
        if unmap.dirty_pages || unmap.all && is_ranged {
            return Err(Errno::INVAL);
        }
        if unmap.all {
            self.ranges.clear();
            return Ok(());
        }
        let range = range_of(unmap.address, unmap.bytes).ok_or(Errno::INVAL)?;
        let splits =
            self.ranges.overlapping(&range).next().is_some_and(|(first, _)| {
                first.start() < range.start() && range.end() < first.end()
            });
        if splits && self.ranges.len() >= DEFAULT_MAX_MAPPINGS as usize {
            return Err(Errno::NOSPC);
        }
        self.ranges.remove(range);
        Ok(())
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Locates the byte at an address; returns its location and how many of `most` bytes follow
    /// there. `None` if it is not mapped for this access.
    fn at(&self, at: u64, most: usize, is_write: bool) -> Option<(Backing<'_>, usize)> {
        let (range, behind) = self.ranges.get_key_value(&at)?;
        let allowed = if is_write { behind.writable } else { behind.readable };
        if !allowed {
            return None;
        }
        let place = match &behind.file {
            Some((file, offset)) => Backing::File(file, offset.wrapping_add(at)),
            None => {
                let caller = self.caller.as_ref().filter(|caller| caller.answers())?;
                Backing::Client(caller, at)
            }
        };
        Some((place, (range.end() - at).saturating_add(1).min(most as u64) as usize))
    }

    /// Whether the device may read (or write) the whole range.
    pub fn covers(&self, address: u64, bytes: usize, is_write: bool) -> bool {
        let mut done = 0;
        while done < bytes {
            let at = address.checked_add(done as u64);
            match at.and_then(|at| self.at(at, bytes - done, is_write)) {
                Some((_, here)) => done += here,
                None => return false,
            }
        }
        true
    }
}

fn range_of(first: u64, bytes: u64) -> Option<RangeInclusive<u64>> {
    Some(first..=first.checked_add(bytes.checked_sub(1)?)?)
}

/// The mappings of one client: changed by the thread of its socket, used by the lab's. When a
/// change returns, the device no longer holds the previous mappings.
#[derive(Clone, Debug, Default)]
pub struct SharedMappings(Arc<Mutex<Mappings>>);

impl SharedMappings {
    /// Starts with nothing mapped; no client of the device may hold more than its quota.
    pub fn new(quota: Quota) -> Self {
        Self(Arc::new(Mutex::new(Mappings::new(quota, None))))
    }

    /// Locks the mappings.
    pub fn lock(&self) -> MutexGuard<'_, Mappings> {
        // No panic happens under the lock, and each change is atomic.
        lock(&self.0)
    }

    /// Starts with no mappings, for a new client.
    pub(crate) fn begin(&self, caller: Arc<Caller>) {
        self.replace(Some(caller));
    }

    /// Unmaps everything, and no longer asks the client.
    pub(crate) fn end(&self) {
        self.replace(None);
    }

    fn replace(&self, caller: Option<Arc<Caller>>) {
        let mut mappings = self.lock();
        *mappings = Mappings::new(mappings.quota, caller);
    }

    /// Visits a range piece by piece: pieces in files under the lock; pieces for which the client
    /// is asked without it, so that mappings may change meanwhile.
    fn pieces(
        &self,
        address: u64,
        bytes: usize,
        is_write: bool,
        mut access: impl FnMut(Backing<'_>, Range<usize>) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < bytes {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let mappings = self.lock();
            let found = mappings.at(at, bytes - done, is_write);
            let Some((place, here)) = found else { return false };
            let part = done..done + here;
            let is_done = match place {
                Backing::File(..) => access(place, part),
                Backing::Client(caller, _) => {
                    let caller = Arc::clone(caller);
                    drop(mappings);
                    access(Backing::Client(&caller, at), part)
                }
            };
            if !is_done {
                return false;
            }
            done += here;
        }
        true
    }

    /// Reads for the device; false if it may not.
    pub fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.pieces(address, into.len(), false, |place, part| place.read(&mut into[part]))
    }

    /// Writes for the device; false if it may not, perhaps after writing a part.
    pub fn write(&self, address: u64, from: &[u8]) -> bool {
        self.pieces(address, from.len(), true, |place, part| place.write(&from[part]))
    }
}

/// The memory of all clients with devices of one host, for the fabric.
pub(crate) struct ClientMemory(pub Vec<(RoutingId, SharedMappings)>);

impl ClientMemory {
    fn of(&self, requester: RoutingId) -> Option<&SharedMappings> {
        let mut all = self.0.iter();
        all.find(|(function, _)| *function == requester).map(|(_, mappings)| mappings)
    }
}

impl OutsideMemory for ClientMemory {
    fn covers(&mut self, from: RoutingId, address: BusAddress, bytes: u32, write: bool) -> bool {
        let mappings = self.of(from);
        mappings.is_some_and(|mappings| mappings.lock().covers(address.0, bytes as usize, write))
    }

    fn read(&mut self, from: RoutingId, address: BusAddress, into: &mut [u8]) -> bool {
        self.of(from).is_some_and(|mappings| mappings.read(address.0, into))
    }

    fn write(&mut self, from: RoutingId, address: BusAddress, bytes: &[u8]) -> bool {
        self.of(from).is_some_and(|mappings| mappings.write(address.0, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    const PAGE: u64 = 4096;

    fn file(pages: u64, is_sealed: bool) -> OwnedFd {
        let file = memfd_create("client", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, pages * PAGE).unwrap();
        if is_sealed {
            fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        }
        file
    }

    fn map(address: u64, bytes: u64, offset: u64) -> DmaMap {
        DmaMap { readable: true, writable: true, offset, address, bytes, ..DmaMap::default() }
    }

    fn unmap(address: u64, bytes: u64) -> DmaUnmap {
        DmaUnmap { address, bytes, ..DmaUnmap::default() }
    }

    /// Maps page by page, in an order that merges on both sides.
    #[test]
    fn neighbours_of_one_file_are_one_range() {
        for is_sealed in [true, false] {
            let file = file(4096, is_sealed);
            let shared = SharedMappings::default();
            for page in (0..4096).step_by(2).chain((1..4096).step_by(2)) {
                let of_page = map((1 << 40) + page * PAGE, PAGE, page * PAGE);
                shared.lock().map(&of_page, Some(file.try_clone().unwrap())).unwrap();
            }
            let count = |mappings: &Mappings| (mappings.len(), mappings.files.len());
            assert_eq!(count(&shared.lock()), (1, 1));
            let data: Vec<u8> = (0..3 * PAGE as usize).map(|at| (at % 253) as u8).collect();
            assert!(shared.write((1 << 40) + 12_345, &data));
            let (mut back, mut in_file) = (vec![0; data.len()], vec![0; data.len()]);
            assert!(shared.read((1 << 40) + 12_345, &mut back));
            assert_eq!(pread(&file, &mut in_file[..], 12_345), Ok(data.len()));
            assert!(back == data && in_file == data);
            // Cut a hole, then unmap everything in two calls.
            shared.lock().unmap(&unmap((1 << 40) + 7 * PAGE, 2 * PAGE)).unwrap();
            assert_eq!(shared.lock().len(), 2);
            let cases = [(6, 1, true), (6, 2, false), (8, 1, false), (9, 1, true), (0, 7, true)];
            for (page, pages, is_there) in cases {
                let address = (1 << 40) + page * PAGE;
                assert_eq!(shared.lock().covers(address, (pages * PAGE) as usize, true), is_there);
            }
            // Behind the hole the offset is right.
            assert!(shared.write((1 << 40) + 9 * PAGE + 5, &[0xa5]));
            assert_eq!(pread(&file, &mut back[..1], 9 * PAGE + 5), Ok(1));
            assert_eq!(back[0], 0xa5);
            shared.lock().unmap(&unmap(0, 1 << 63)).unwrap();
            shared.lock().unmap(&unmap(1 << 63, 1 << 63)).unwrap();
            assert!(shared.lock().is_empty());
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let shared = SharedMappings::default();
        let two = file(2, true);
        let clone = || Some(two.try_clone().unwrap());
        shared.lock().map(&map(0x1_0000, 2 * PAGE, 0), clone()).unwrap();
        for (address, bytes, offset, errno) in [
            (0x1_1000, PAGE, 0, Errno::EXIST),
            (0xf000, 16 * PAGE, 0, Errno::EXIST),
            (0x2_0000, 0, 0, Errno::INVAL),
            (0x2_0000, 3 * PAGE, 0, Errno::INVAL),
            (0x2_0000, PAGE, 2 * PAGE, Errno::INVAL),
            (0x2_0000, PAGE, u64::MAX - 100, Errno::INVAL),
            (u64::MAX - 100, PAGE, 0, Errno::INVAL),
        ] {
            let result = shared.lock().map(&map(address, bytes, offset), clone());
            assert_eq!(result, Err(errno), "{address:#x} {bytes} {offset}");
        }
        let (pipe, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let result = shared.lock().map(&map(0x2_0000, PAGE, 0), Some(pipe.into()));
        assert_eq!(result, Err(Errno::INVAL));
        assert_eq!(shared.lock().unmap(&unmap(5, 0)), Err(Errno::INVAL));
        assert_eq!(shared.lock().unmap(&unmap(u64::MAX, 2)), Err(Errno::INVAL));
        // The last page of all.
        shared.lock().map(&map(PAGE.wrapping_neg(), PAGE, 0), clone()).unwrap();
        let covers = |address, bytes, write| shared.lock().covers(address, bytes, write);
        assert!(covers(u64::MAX, 1, true) && !covers(u64::MAX, 2, true));
        // Ranges without a file or a client to ask, and ranges that are read-only.
        shared.lock().map(&map(0x3_0000, PAGE, 0), None).unwrap();
        assert!(!covers(0x3_0000, 1, false));
        let only_read = DmaMap { writable: false, ..map(0x4_0000, PAGE, 0) };
        shared.lock().map(&only_read, clone()).unwrap();
        assert!(covers(0x4_0000, 1, false) && !covers(0x4_0000, 1, true));
        shared.lock().unmap(&DmaUnmap { all: true, ..DmaUnmap::default() }).unwrap();
        assert!(shared.lock().is_empty());
        let all = DmaUnmap { all: true, ..unmap(0, PAGE) };
        assert_eq!(shared.lock().unmap(&all), Err(Errno::INVAL));
        let dirty = DmaUnmap { dirty_pages: true, ..unmap(0, PAGE) };
        assert_eq!(shared.lock().unmap(&dirty), Err(Errno::INVAL));
    }

    /// Files count until nothing of them is mapped; a file that grows is held twice meanwhile.
    #[test]
    fn files_beyond_the_quota_are_refused() {
        for (is_sealed, by_calls) in [(true, false), (false, false), (true, true)] {
            let shared = SharedMappings::new(Quota { files: 3, mapped_bytes: 1 << 40 });
            let map = |address, bytes, offset| DmaMap { by_calls, ..map(address, bytes, offset) };
            let files: Vec<OwnedFd> = (0..4).map(|_| file(1, is_sealed)).collect();
            let clone = |number: usize| Some(files[number].try_clone().unwrap());
            let place = |number: u64| number << 20;
            for number in 0..2 {
                let map = map(place(number), PAGE, 0);
                shared.lock().map(&map, clone(number as usize)).unwrap();
            }
            ftruncate(&files[1], 2 * PAGE).unwrap();
            shared.lock().map(&map(place(1) + PAGE, PAGE, PAGE), clone(1)).unwrap();
            assert_eq!(shared.lock().files(), (3, 3));
            let more = map(place(2), PAGE, 0);
            assert_eq!(shared.lock().map(&more, clone(2)), Err(Errno::MFILE));
            // The same file needs no other one.
            shared.lock().map(&map(place(3), PAGE, 0), clone(1)).unwrap();
            shared.lock().unmap(&unmap(place(0), PAGE)).unwrap();
            shared.lock().map(&more, clone(2)).unwrap();
            assert!(shared.write(place(1) + PAGE - 4, &[7; 8]));
            let mut back = [0; 8];
            assert!(shared.read(place(1) + PAGE - 4, &mut back));
            assert_eq!(back, [7; 8]);
            shared.end();
            assert_eq!(shared.lock().files(), (0, 3));
        }
    }

    /// A sparse file costs its owner nothing, and addresses of this process while it is mapped.
    #[test]
    fn files_beyond_the_addresses_are_not_mapped() {
        let quota = Quota { files: 9, mapped_bytes: 4 * PAGE };
        let shared = SharedMappings::new(quota);
        let sizes = [3, 2, 1 << 30];
        for (number, pages) in (0..).zip(sizes) {
            let map = map(number << 50, PAGE, (pages - 1) * PAGE);
            shared.lock().map(&map, Some(file(pages, true))).unwrap();
            assert!(shared.write(number << 50, &[5; 8]));
        }
        assert_eq!(shared.lock().held.mapped_bytes.load(Ordering::Relaxed), 3 * PAGE);
        assert_eq!(Quota::PROCESS.share(3, 900).files, 300);
        assert_eq!(Quota::PROCESS.share(4, 1 << 20).files, 4096);
    }

    /// Ranges that holes cut apart count as those that are mapped one by one.
    #[test]
    fn holes_beyond_the_limit_of_ranges_are_refused() {
        let shared = SharedMappings::default();
        shared.lock().map(&map(0, 1 << 40, 0), None).unwrap();
        let hole = |number: u64| unmap((2 * number + 1) * PAGE, PAGE);
        for number in 1..u64::from(DEFAULT_MAX_MAPPINGS) {
            shared.lock().unmap(&hole(number)).unwrap();
        }
        assert_eq!(shared.lock().len(), DEFAULT_MAX_MAPPINGS as usize);
        let result = shared.lock().unmap(&hole(u64::from(DEFAULT_MAX_MAPPINGS)));
        assert_eq!(result, Err(Errno::NOSPC));
        // A range may still become shorter, or go.
        shared.lock().unmap(&unmap(0, PAGE)).unwrap();
        shared.lock().unmap(&unmap(0, 8 * PAGE)).unwrap();
        assert!(shared.lock().len() < DEFAULT_MAX_MAPPINGS as usize);
    }

    /// If the client shortens its file under the device, accesses fail and the program survives.
    #[test]
    fn a_file_that_shrinks_is_no_crash() {
        let file = file(4, false);
        let shared = SharedMappings::default();
        shared.lock().map(&map(0, 4 * PAGE, 0), Some(file.try_clone().unwrap())).unwrap();
        ftruncate(&file, PAGE).unwrap();
        assert!(shared.write(0, &[1; 64]));
        assert!(!shared.read(2 * PAGE, &mut [0; 64]));
    }
}
