// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A PCI function as VFIO shows it, whoever is behind it: the kernel, or a server on a socket.
//!
//! Read first: [`Function`]; its terms are those of the kernel's `linux/vfio.h`.

use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crosslane_pcie::config::BarKind;
use crosslane_pcie::units::RoutingId;
use thiserror::Error;

use crate::memory::{Mapped, Pages, SMALL_PAGE_BYTES};

/// Functions of one domain share what is mapped for DMA. Unique within a process: made by
/// [`DomainId::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(u64);

impl DomainId {
    /// One that nobody has yet.
    #[must_use]
    pub fn next() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A PCI function as VFIO shows it. Its calls are plain and block: where the answer comes from
/// another process each has a deadline. They may be made from several threads at once.
pub trait Function: Send + Sync {
    /// Bus, device and function number: of its address, or as whoever opened it gave it.
    fn id(&self) -> RoutingId;

    /// What people call it: `0000:01:00.0`, or the path of a socket.
    fn name(&self) -> &str;

    /// Reads so many bytes of its configuration space.
    ///
    /// # Errors
    /// Beyond its end, or no answer.
    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<(), FunctionError>;

    /// Writes so many bytes of its configuration space: 1, 2 or 4, aligned.
    ///
    /// # Errors
    /// As [`config_read`](Self::config_read).
    fn config_write(&self, offset: u16, from: &[u8]) -> Result<(), FunctionError>;

    /// A memory BAR, 0 to 5; none where there is none (the upper half of another, ports).
    fn region(&self, bar: u8) -> Option<&Region>;

    /// Reads 1, 2, 4 or 8 aligned bytes of a BAR as one access, by asking for it: what is mapped
    /// into this process is better read there.
    ///
    /// # Errors
    /// No such BAR, beyond its end, or no answer.
    fn read(&self, bar: u8, offset: u64, into: &mut [u8]) -> Result<(), FunctionError>;

    /// Writes 1, 2, 4 or 8 aligned bytes of a BAR as one access. It has arrived at whoever
    /// answers for the function when this returns; accesses arrive in the order of the calls.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn write(&self, bar: u8, offset: u64, from: &[u8]) -> Result<(), FunctionError>;

    /// Lets the functions of its domain reach `bytes` of `memory` from `offset` on at I/O virtual
    /// addresses from `iova` on. All three are multiples of 4 KiB, and of the pages' size where
    /// they are huge; nothing else is mapped there.
    ///
    /// # Errors
    /// Refused, or no answer.
    fn map_dma(
        &self,
        iova: u64,
        memory: &Arc<Pages>,
        offset: u64,
        bytes: u64,
    ) -> Result<(), FunctionError>;

    /// Lets the functions of its domain reach a part of a BAR of another one: for peer writes that
    /// go through the root complex. `mapped` is where the part lies in this process.
    ///
    /// # Errors
    /// [`FunctionError::Unsupported`] where that is not to be had; else as for
    /// [`map_dma`](Self::map_dma).
    fn map_peer(
        &self,
        iova: u64,
        mapped: &Mapped,
        offset: u64,
        bytes: u64,
    ) -> Result<(), FunctionError> {
        let _ = (iova, mapped, offset, bytes);
        Err(FunctionError::Unsupported {
            function: self.name().to_owned(),
            what: "a mapping of another function's BAR".to_owned(),
            why: "its requests are not translated by this machine's IOMMU".to_owned(),
        })
    }

    /// Ends what [`map_dma`](Self::map_dma) or [`map_peer`](Self::map_peer) did, with exactly
    /// their range. When this returns the functions no longer reach it.
    ///
    /// # Errors
    /// Nothing is mapped there, or no answer.
    fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<(), FunctionError>;

    /// Who shares its mappings.
    fn domain(&self) -> DomainId;

    /// Whether an IOMMU of this machine translates its requests. Without one the addresses of
    /// memory are translated all the same, by whoever serves it, and those of BARs are not.
    fn is_translated(&self) -> bool {
        false
    }

    /// The I/O virtual addresses that may be mapped, lowest first.
    fn usable_addresses(&self) -> &[RangeInclusive<u64>];

    /// How many mappings its domain can hold at once; none where nobody counts.
    fn most_mappings(&self) -> Option<u32> {
        None
    }

    /// How many interrupts it can send: MSI-X vectors, else MSI's.
    fn vectors(&self) -> u16;

    /// Has the first vectors signal one eventfd each and enables them, in place of what was set
    /// before; with an empty list turns them off.
    ///
    /// # Errors
    /// More than [`vectors`](Self::vectors), or refused.
    fn set_vectors(&self, eventfds: &[BorrowedFd<'_>]) -> Result<(), FunctionError>;

    /// Resets the function. BARs, mappings and vectors are as before when this returns.
    ///
    /// # Errors
    /// Refused, or no answer.
    fn reset(&self) -> Result<(), FunctionError>;

    /// Why the function can no longer be used, once that is so: it was removed, its server is
    /// gone, or the kernel wants it back.
    fn lost(&self) -> Option<FunctionError> {
        None
    }

    /// A descriptor that can be read (poll's `POLLIN` or `POLLHUP`) once [`lost`](Self::lost) has
    /// an answer: what waits for the function ends then. Nobody but the function reads from it.
    fn lost_event(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A memory BAR of a function.
#[derive(Debug)]
pub struct Region {
    /// Its size.
    pub bytes: u64,
    /// Whether it is prefetchable, and how wide its addresses are.
    pub kind: BarKind,
    /// What of it lies in this process, lowest offset first, apart from each other. All else is
    /// reached by [`Function::read`] and [`Function::write`].
    pub parts: Vec<Part>,
    /// Why no part has a write-combined mapping; shown to people.
    pub not_combined: String,
}

impl Region {
    /// One of which nothing is mapped.
    #[must_use]
    pub fn trapped(bytes: u64, kind: BarKind) -> Self {
        let not_combined = "the BAR is not mapped into the program".to_owned();
        Self { bytes, kind, parts: Vec::new(), not_combined }
    }

    /// Looks whether the parts are as they are meant to be: in whole pages, in order, apart from
    /// each other and within the BAR.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for part in &self.parts {
            let (offset, bytes) = (part.offset, part.uncached.bytes());
            let is_paged = [offset, bytes].iter().all(|it| it.is_multiple_of(SMALL_PAGE_BYTES));
            let part_end = offset.checked_add(bytes).filter(|&end| end <= self.bytes);
            match part_end {
                Some(part_end) if is_paged && offset >= end => end = part_end,
                _ => {
                    return Err(format!(
                        "a part of {bytes} B that is mapped at {offset:#x} of {} B, \
                         behind {end:#x}",
                        self.bytes
                    ));
                }
            }
            if part.combined.as_ref().is_some_and(|combined| combined.bytes() != bytes) {
                return Err(format!("two mappings of unlike size at {offset:#x}"));
            }
        }
        Ok(())
    }

    /// The part that has all of these bytes, and where in it they begin.
    #[must_use]
    pub fn part(&self, offset: u64, bytes: u64) -> Option<(&Part, u64)> {
        let index = self.parts.partition_point(|part| part.offset <= offset).checked_sub(1)?;
        let part = &self.parts[index];
        let within = offset - part.offset;
        (within.checked_add(bytes)? <= part.uncached.bytes()).then_some((part, within))
    }
}

/// A part of a BAR that lies in this process.
#[derive(Debug)]
pub struct Part {
    /// Where in the BAR it begins, bytes.
    pub offset: u64,
    /// Its uncached mapping (of a server's memory: the plain one). Where there is a combined one
    /// too this may combine as well, so that each access is fenced.
    pub uncached: Mapped,
    /// The same bytes once more, write-combined.
    pub combined: Option<Mapped>,
}

/// What a function refuses, or cannot do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// It can no longer be used.
    #[error("{function} is gone: {why}")]
    Gone {
        /// Its name.
        function: String,
        /// What happened to it.
        why: String,
    },
    /// Another process did not answer in time.
    #[error("{function} did not answer {what} within {} ms", waited.as_millis())]
    Deadline {
        /// Its name.
        function: String,
        /// What was asked of it.
        what: String,
        /// How long it had.
        waited: Duration,
    },
    /// Whoever answers for it said no.
    #[error("{function} refused {what}: {}", errno_text(*errno))]
    Refused {
        /// Its name.
        function: String,
        /// What was asked of it.
        what: String,
        /// The reason, as Linux numbers them.
        errno: i32,
    },
    /// An answer that makes no sense.
    #[error("{function} answered {what} with what cannot be: {why}")]
    Malformed {
        /// Its name.
        function: String,
        /// What was asked of it.
        what: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// A system call failed.
    #[error("{function}: {what} failed: {}{}{remedy}", errno_text(*errno),
        if remedy.is_empty() { "" } else { ". " })]
    System {
        /// The function's name.
        function: String,
        /// What was tried.
        what: String,
        /// The reason, as Linux numbers them.
        errno: i32,
        /// What would help, with the command; empty where nothing is known.
        remedy: String,
    },
    /// Something that it, or whoever shows it, does not have.
    #[error("{function} has no {what}: {why}")]
    Unsupported {
        /// Its name.
        function: String,
        /// What was asked for.
        what: String,
        /// Why it is not to be had.
        why: String,
    },
    /// An access that is not within a BAR or the configuration space.
    #[error("{bytes} B at {offset:#x} of {region} of {function} are beyond its {size} B")]
    BeyondRegion {
        /// The function's name.
        function: String,
        /// `BAR0`, or the configuration space.
        region: String,
        /// Where the access begins.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// Size of the region; 0 where there is none.
        size: u64,
    },
    /// An access that is no access of the bus.
    #[error("{bytes} B at {offset:#x} of {region} of {function}: 1, 2, 4 or 8 B, aligned, can be")]
    Unaligned {
        /// The function's name.
        function: String,
        /// `BAR0`, or the configuration space.
        region: String,
        /// Where the access begins.
        offset: u64,
        /// Its length.
        bytes: u64,
    },
}

/// The text of an error number of Linux.
fn errno_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
