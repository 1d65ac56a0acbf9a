// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BARs with plain memory, kept in a file that the client maps.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crosslane_fabric::{Backing, Fabric, PortId};
use crosslane_pcie::config::{ConfigSpace, Msix};
use crosslane_vfio::user::protocol::Area;
use crosslane_vfio::{Mapped, SMALL_PAGE_BYTES, StoreWidth};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;

/// The file of a BAR, as long as the BAR; untouched parts take no memory.
#[derive(Debug)]
pub(crate) struct PlainBar {
    file: OwnedFd,
    bytes: u64,
    parts: Vec<Range<u64>>,
}

/// A BAR without a file, and the reason.
pub(crate) type NoFile = (usize, Errno);

/// A part of such a file, in place of a device's memory.
struct Shared(Mapped);

impl Backing for Shared {
    fn read(&self, offset_bytes: u64, bytes: &mut [u8]) {
        self.0.copy_out(offset_bytes, bytes);
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        self.0.store(offset_bytes, bytes, StoreWidth::B8);
    }
}

impl PlainBar {
    fn new(bytes: u64, parts: Vec<Range<u64>>) -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("crosslane-bar", flags)?;
        ftruncate(&file, bytes)?;
        // A client that shortened it would kill this program at its next access.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { file, bytes, parts })
    }

    /// Returns the file; the BAR begins at its offset 0.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the parts of the BAR in the file; empty if it is the whole BAR.
    pub fn areas(&self) -> Vec<Area> {
        let is_all = |part: &&Range<u64>| **part == (0..self.bytes);
        let parts = self.parts.iter().filter(|part| !is_all(part));
        parts.map(|part| Area { offset: part.start, bytes: part.end - part.start }).collect()
    }

    fn back(&self, fabric: &mut Fabric, port: PortId, bar: usize) -> Result<(), Errno> {
        for part in &self.parts {
            let mapped = Mapped::of(self.file(), part.start, part.end - part.start)?;
            if !fabric.back_memory(port, bar, part.clone(), Box::new(Shared(mapped))) {
                return Err(Errno::EXIST);
            }
        }
        Ok(())
    }
}

/// Moves the plain memory of a function's BARs into files, one for each such BAR; BARs for which
/// that fails stay as before.
pub(crate) fn share(
    fabric: &mut Fabric,
    port: PortId,
) -> ([Option<Arc<PlainBar>>; 6], Vec<NoFile>) {
    let mut bars: [_; 6] = Default::default();
    let mut without = Vec::new();
    for (number, place) in bars.iter_mut().enumerate() {
        let Some(plain) = fabric.plain_memory(port, number) else { continue };
        let config = &fabric.port(port).config;
        let Some(bar) = config.bar(number) else { continue };
        let parts = without_pages(plain, &msix_places(config, number));
        if parts.is_empty() {
            continue;
        }
        let made = PlainBar::new(bar.size_bytes, parts)
            .and_then(|plain| plain.back(fabric, port, number).map(|()| plain));
        match made {
            Ok(plain) => *place = Some(Arc::new(plain)),
            Err(errno) => without.push((number, errno)),
        }
    }
    (bars, without)
}

/// Returns the ranges of MSI-X's table and pending bits in a BAR: the server handles the table, the
/// device the rest.
fn msix_places(config: &ConfigSpace, bar: usize) -> Vec<Range<u64>> {
    let Some(Msix { request, .. }) = config.msix() else { return Vec::new() };
    let table = (request.table_bar, request.table_offset_bytes, request.table_bytes());
    let pending = (request.pending_bar, request.pending_offset_bytes, request.pending_bytes());
    let of_bar = [table, pending].into_iter().filter(|(number, ..)| usize::from(*number) == bar);
    of_bar
        .map(|(_, offset, bytes)| u64::from(offset)..u64::from(offset) + u64::from(bytes))
        .collect()
}

/// Returns the rest of a range, without the pages touched by others.
fn without_pages(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let page = SMALL_PAGE_BYTES;
    let mut left = vec![range];
    for other in others {
        let hole = other.start / page * page..other.end.next_multiple_of(page);
        let around = |part: Range<u64>| {
            [part.start..part.end.min(hole.start), part.start.max(hole.end)..part.end]
        };
        left = left.into_iter().flat_map(around).collect();
    }
    left.retain(|part| part.start < part.end);
    left
}

#[cfg(test)]
// A list with one range is meant here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    #[test]
    fn pages_of_others_are_left_out() {
        let without = |others: &[Range<u64>]| without_pages(0x4000..0x1_0000, others);
        assert_eq!(without(&[]), [0x4000..0x1_0000]);
        assert_eq!(without(&[0..0x4000, 0x1_0000..0x1_1000]), [0x4000..0x1_0000]);
        assert_eq!(without(&[0x5008..0x5010]), [0x4000..0x5000, 0x6000..0x1_0000]);
        assert_eq!(without(&[0x3ff8..0x4008, 0xfff8..0x1_0000]), [0x5000..0xf000]);
        assert_eq!(without(&[0x6000..0x7001, 0x4800..0x4801]), [0x5000..0x6000, 0x8000..0x1_0000]);
        assert!(without(&[0..0x2_0000]).is_empty() && without_pages(0..0, &[]).is_empty());
    }

    #[test]
    fn a_file_is_as_long_as_its_bar_and_takes_no_memory_until_it_is_touched() {
        let bytes = 1 << 37;
        let all = PlainBar::new(bytes, vec![0..bytes]).unwrap();
        assert!(all.areas().is_empty());
        let half = PlainBar::new(bytes, vec![0..bytes / 2]).unwrap();
        assert_eq!(half.areas(), [Area { offset: 0, bytes: bytes / 2 }]);
        let shared = Shared(Mapped::of(half.file(), 0, bytes / 2).unwrap());
        let stat = || fstat(half.file()).unwrap();
        assert_eq!((stat().st_size as u64, stat().st_blocks), (bytes, 0));
        shared.write(bytes / 2 - 5, &[1, 2, 3, 4, 5]);
        let mut back = [0; 3];
        shared.read(bytes / 2 - 4, &mut back);
        assert_eq!(back, [2, 3, 4]);
        // Blocks of `stat` have 512 B.
        assert!((1..=4096).contains(&stat().st_blocks), "{}", stat().st_blocks);
        assert_eq!(ftruncate(half.file(), 4096), Err(Errno::PERM));
    }
}
