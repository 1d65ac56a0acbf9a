// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A PCI function that VFIO provides, by the kernel or by a server on a socket.
//!
//! Read first: [`Function`]; its terms are those of the kernel's `linux/vfio.h`.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crosslane_host::{ErrorKind, Reason, kinds};
use crosslane_pcie::config::BarKind;
use crosslane_pcie::units::RoutingId;
use rustix::io::Errno;
use thiserror::Error;

use crate::memory::{Mapped, Pages, SMALL_PAGE_BYTES};

/// Number of a domain: a set of functions that share their DMA mappings. Unique within a process:
/// made by [`DomainId::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(u64);

impl DomainId {
    /// Returns an unused number.
    pub fn next() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A PCI function that VFIO provides. Its calls are synchronous and block; those that another
/// process answers have a deadline. Several threads may call at once.
pub trait Function: Send + Sync {
    /// Bus, device and function number: from its address, or as its opener assigned it.
    fn id(&self) -> RoutingId;

    /// Human-readable name: `0000:01:00.0`, or the path of a socket.
    fn name(&self) -> &str;

    /// Reads `into.len()` bytes of its configuration space.
    ///
    /// # Errors
    /// A range beyond its end, or no answer.
    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<()>;

    /// Writes 1, 2 or 4 aligned bytes of its configuration space.
    ///
    /// # Errors
    /// Those of [`config_read`](Self::config_read).
    fn config_write(&self, offset: u16, from: &[u8]) -> Result<()>;

    /// A memory BAR, 0 to 5; `None` for a missing one, the upper half of another, or I/O ports.
    fn region(&self, bar: u8) -> Option<&Region>;

    /// Reads 1, 2, 4 or 8 aligned bytes of a BAR as one access, by a call: bytes that are mapped
    /// into this process are better read there.
    ///
    /// # Errors
    /// No such BAR, a range beyond its end, or no answer.
    fn read(&self, bar: u8, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Writes 1, 2, 4 or 8 aligned bytes of a BAR as one access. It has reached the kernel or the
    /// server when this returns; accesses arrive in the order of the calls.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn write(&self, bar: u8, offset: u64, from: &[u8]) -> Result<()>;

    /// Lets the functions of its domain reach `bytes` of `memory` from `offset` at I/O virtual
    /// addresses from `iova`. All three are multiples of 4 KiB, and of the page size for huge
    /// pages. The addresses must be unmapped.
    ///
    /// # Errors
    /// A refusal, or no answer.
    fn map_dma(&self, iova: u64, memory: &Arc<Pages>, offset: u64, bytes: u64) -> Result<()>;

    /// Lets the functions of its domain reach a part of a peer's BAR, for peer writes that pass the
    /// root complex. `mapped` is the part's mapping in this process.
    ///
    /// # Errors
    /// [`FunctionError::Unsupported`] for a function without such mappings; else those of
    /// [`map_dma`](Self::map_dma).
    fn map_peer(&self, iova: u64, mapped: &Mapped, offset: u64, bytes: u64) -> Result<()> {
        let _ = (iova, mapped, offset, bytes);
        let why = "its requests are not translated by this machine's IOMMU";
        Err(FunctionError::unsupported(self.name(), "a mapping of another function's BAR", why))
    }

    /// Ends a mapping of [`map_dma`](Self::map_dma) or [`map_peer`](Self::map_peer), given exactly
    /// its range. When this returns the functions no longer reach it.
    ///
    /// # Errors
    /// No such mapping, or no answer.
    fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<()>;

    /// The domain whose mappings it uses.
    fn domain(&self) -> DomainId;

    /// Whether an IOMMU of this machine translates its requests. Otherwise its server still
    /// translates addresses of memory, but not those of BARs.
    fn is_translated(&self) -> bool {
        false
    }

    /// The nearest NUMA node; `None` if none is known.
    fn numa_node(&self) -> Option<u32> {
        None
    }

    /// I/O virtual addresses that may be mapped, lowest first.
    fn usable_addresses(&self) -> &[RangeInclusive<u64>];

    /// Number of mappings that its domain can hold at once; `None` for no known limit.
    fn most_mappings(&self) -> Option<u32> {
        None
    }

    /// Number of interrupts that it can send: MSI-X vectors, else MSI's.
    fn vectors(&self) -> u16;

    /// Connects the first vectors to one eventfd each and enables them, in place of earlier ones;
    /// an empty list turns interrupts off.
    ///
    /// # Errors
    /// More eventfds than [`vectors`](Self::vectors), or a refusal.
    fn set_vectors(&self, eventfds: &[BorrowedFd<'_>]) -> Result<()>;

    /// Resets the function and restores its BARs, mappings and vectors.
    ///
    /// # Errors
    /// A refusal, or no answer.
    fn reset(&self) -> Result<()>;

    /// The reason that the function can no longer be used: it was removed, its server is gone, or
    /// the kernel wants it back. `None` while it can be used.
    fn lost(&self) -> Option<FunctionError> {
        None
    }

    /// A descriptor that becomes readable (poll's `POLLIN` or `POLLHUP`) once [`lost`](Self::lost)
    /// has an answer, to end waits for the function. Only the function reads from it.
    fn lost_event(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Checks an access of configuration space, which has `size` bytes.
pub(crate) fn check_config(
    function: &dyn Function,
    size: u64,
    offset: u16,
    bytes: usize,
) -> Result<()> {
    let region = || "the configuration space".to_owned();
    check_within(function, region, size, offset.into(), bytes as u64)
}

pub(crate) fn check_bar(function: &dyn Function, bar: u8, offset: u64, bytes: usize) -> Result<()> {
    let (region, bytes) = (|| format!("BAR{bar}"), bytes as u64);
    if !matches!(bytes, 1 | 2 | 4 | 8) || !offset.is_multiple_of(bytes) {
        let (function, region) = (function.name().to_owned(), region());
        return Err(FunctionError::Unaligned { function, region, offset, bytes });
    }
    let size = function.region(bar).map_or(0, |region| region.bytes);
    check_within(function, region, size, offset, bytes)
}

fn check_within(
    function: &dyn Function,
    region: impl Fn() -> String,
    size: u64,
    offset: u64,
    bytes: u64,
) -> Result<()> {
    if offset.checked_add(bytes).is_some_and(|end| end <= size) {
        return Ok(());
    }
    let (function, region) = (function.name().to_owned(), region());
    Err(FunctionError::BeyondRegion { function, region, offset, bytes, size })
}

/// A memory BAR of a function.
#[derive(Debug)]
pub struct Region {
    /// Size in bytes.
    pub bytes: u64,
    /// Prefetchable or not, and the width of its addresses.
    pub kind: BarKind,
    /// Parts of it that are mapped into this process, lowest offset first, without overlap.
    /// [`Function::read`] and [`Function::write`] reach the rest.
    pub parts: Vec<Part>,
    /// The reason that no part has a write-combined mapping; shown to people.
    pub not_combined: String,
}

impl Region {
    /// A BAR without any mapping.
    pub fn trapped(bytes: u64, kind: BarKind) -> Self {
        let not_combined = "the BAR is not mapped into the program".to_owned();
        Self { bytes, kind, parts: Vec::new(), not_combined }
    }

    /// Checks that the parts are whole pages, in order, without overlap and within the BAR.
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

    /// Returns the part that holds all of these bytes, and their offset in it.
    pub fn part(&self, offset: u64, bytes: u64) -> Option<(&Part, u64)> {
        let index = self.parts.partition_point(|part| part.offset <= offset).checked_sub(1)?;
        let part = &self.parts[index];
        let within = offset - part.offset;
        (within.checked_add(bytes)? <= part.uncached.bytes()).then_some((part, within))
    }
}

/// A part of a BAR that is mapped into this process.
#[derive(Debug)]
pub struct Part {
    /// Offset in the BAR, bytes.
    pub offset: u64,
    /// Uncached mapping of the part (of a server's memory: the plain one). If `combined` is set
    /// this one may combine too, so each access is fenced.
    pub uncached: Mapped,
    /// A second, write-combined mapping of the same bytes.
    pub combined: Option<Mapped>,
}

/// Outcome of an operation on a function.
pub(crate) type Result<T, E = FunctionError> = std::result::Result<T, E>;

/// Errors of a function.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// The function can no longer be used.
    #[error("{function} is gone: {why}")]
    Gone {
        /// Name of the function.
        function: String,
        /// The cause of the loss.
        #[source]
        why: Reason,
    },
    /// Another process did not answer in time.
    #[error("{function} did not answer {what} within {} ms", waited.as_millis())]
    Deadline {
        /// Name of the function.
        function: String,
        /// The request.
        what: String,
        /// Time that the function had to answer.
        waited: Duration,
    },
    /// The kernel or the server refused a request.
    #[error("{function} refused {what}: {}", errno_text(*errno))]
    Refused {
        /// Name of the function.
        function: String,
        /// The request.
        what: String,
        /// Error number of Linux.
        errno: i32,
    },
    /// An answer that makes no sense.
    #[error("{function} gave an invalid answer to {what}: {why}")]
    Malformed {
        /// Name of the function.
        function: String,
        /// The request.
        what: String,
        /// The fault in the answer.
        why: String,
    },
    /// A system call failed.
    #[error("{function}: {what} failed: {}{}{remedy}", errno_text(*errno),
        if remedy.is_empty() { "" } else { ". " })]
    System {
        /// Name of the function.
        function: String,
        /// The operation that failed.
        what: String,
        /// Error number of Linux.
        errno: i32,
        /// The remedy, with its command; empty if none is known.
        remedy: String,
    },
    /// Something that the function, or its kernel or server, does not offer.
    #[error("{function} has no {what}: {why}")]
    Unsupported {
        /// Name of the function.
        function: String,
        /// The missing feature.
        what: String,
        /// The reason.
        why: String,
    },
    /// An access beyond a BAR or the configuration space.
    #[error("{bytes} B at {offset:#x} of {region} of {function} are beyond its {size} B")]
    BeyondRegion {
        /// Name of the function.
        function: String,
        /// `BAR0`, or the configuration space.
        region: String,
        /// Offset of the access's first byte.
        offset: u64,
        /// Length of the access.
        bytes: u64,
        /// Size of the region; 0 if the function lacks it.
        size: u64,
    },
    /// An access whose length or alignment the bus does not support.
    #[error(
        "{bytes} B at {offset:#x} of {region} of {function}: it has to be 1, 2, 4 or 8 B, aligned"
    )]
    Unaligned {
        /// Name of the function.
        function: String,
        /// `BAR0`, or the configuration space.
        region: String,
        /// Offset of the access's first byte.
        offset: u64,
        /// Length of the access.
        bytes: u64,
    },
}

impl FunctionError {
    /// The error of a system call; `remedy` may be empty.
    pub(crate) fn system(
        function: &str,
        what: &str,
        errno: Errno,
        remedy: impl Into<String>,
    ) -> Self {
        let (function, what) = (function.to_owned(), what.to_owned());
        Self::System { function, what, errno: errno.raw_os_error(), remedy: remedy.into() }
    }

    /// The error of a missing feature.
    pub(crate) fn unsupported(
        function: &str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self::Unsupported { function: function.to_owned(), what: what.into(), why: why.into() }
    }

    /// The error of an answer that makes no sense.
    pub(crate) fn malformed(function: &str, what: &str, why: String) -> Self {
        Self::Malformed { function: function.to_owned(), what: what.to_owned(), why }
    }
}

/// Adds the failed operation and the function to the error of a system call.
pub(crate) trait Doing<T> {
    /// Makes an error that of the operation `what` for a function.
    fn doing(self, what: &str, function: &str) -> Result<T>;
}

impl<T> Doing<T> for Result<T, Errno> {
    fn doing(self, what: &str, function: &str) -> Result<T> {
        self.map_err(|errno| FunctionError::system(function, what, errno, ""))
    }
}

kinds!(FunctionError {
    Self::Gone { .. } => LinkDown,
    Self::Deadline { .. } => Timeout,
    Self::Refused { errno, .. } | Self::System { errno, .. } => ErrorKind::from_errno(*errno),
    Self::Malformed { .. } => Data,
    Self::Unsupported { .. } => Unsupported,
    Self::BeyondRegion { .. } | Self::Unaligned { .. } => InvalidArgument,
});

/// Duplicates a descriptor; the copy is none of standard input, output and error.
pub(crate) fn duplicate(descriptor: impl AsFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
}

/// Returns the text of a Linux error number.
fn errno_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}
