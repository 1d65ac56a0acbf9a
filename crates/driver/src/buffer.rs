// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytemuck::{AnyBitPattern, NoUninit};
use crosslane_host::ErrorKind::{Busy, InvalidArgument};
use crosslane_host::{AnyBus, AnyMemory, Bus, DmaMemory, ErrorKind, FunctionInfo, Segment, lock};
use crosslane_pcie::units::{BusAddress, RoutingId};

use crate::claims::Claims;
use crate::error::{DriverError, Result};

/// Most bytes of one descriptor. The register `stopped_at` and the credit counters have 32 bits and
/// are compared as signed numbers; this is half of the range that they can tell apart.
pub(crate) const MAX_DESCRIPTOR_BYTES: u64 = 1 << 30;

/// Memory to be unpinned later: unpinning takes time, and a drop cannot wait.
pub(crate) type Retired = Arc<Mutex<Vec<AnyMemory>>>;

/// Checks that the segments named by the bus cover exactly `bytes`.
pub(crate) fn check_placed(pieces: &[(BusAddress, u32)], bytes: u64) -> Result<(), String> {
    let placed: u64 = pieces.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
    if placed == bytes && pieces.iter().all(|&(_, bytes)| bytes > 0) {
        return Ok(());
    }
    let count = pieces.len();
    Err(format!("the bus has named {count} places for {placed} B where {bytes} B were pinned"))
}

/// Registered memory, shared by its buffers and claims.
pub(crate) struct Registered {
    bus: AnyBus,
    device: String,
    pub function: RoutingId,
    memory: AnyMemory,
    segments: Vec<Segment>,
    /// Offset in the memory at which each segment begins.
    starts: Vec<u64>,
    claims: Mutex<Claims>,
    is_registered: AtomicBool,
    retired: Retired,
}

impl Registered {
    fn refused(&self, kind: ErrorKind, problem: impl Into<String>) -> DriverError {
        DriverError::refused(format!("a buffer of {}", self.device), kind, problem)
    }

    fn check_within(&self, part: &Range<u64>) -> Result<()> {
        let size_bytes = self.memory.size_bytes();
        if part.start <= part.end && part.end <= size_bytes {
            return Ok(());
        }
        let (start, end) = (part.start, part.end);
        Err(self.refused(
            InvalidArgument,
            format!("bytes {start} to {end} are not in its {size_bytes} B"),
        ))
    }

    fn in_flight(&self, part: &Range<u64>, taken: &Range<u64>) -> DriverError {
        self.refused(
            Busy,
            format!(
                "bytes {} to {} are wanted while a transfer of bytes {} to {} is in flight",
                part.start, part.end, taken.start, taken.end
            ),
        )
    }

    /// The contiguous pieces of a part, each with its bus address.
    pub fn pieces(&self, part: Range<u64>) -> impl Iterator<Item = (BusAddress, u32)> {
        let mut at = part.start;
        let mut index = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        std::iter::from_fn(move || {
            if at >= part.end {
                return None;
            }
            let (segment, start) = (self.segments.get(index)?, self.starts[index]);
            let within = at - start;
            let bytes = (segment.bytes - within).min(part.end - at).min(MAX_DESCRIPTOR_BYTES);
            at += bytes;
            if at == start + segment.bytes {
                index += 1;
            }
            Some((segment.address.offset(within), bytes as u32))
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.is_registered.load(Ordering::Acquire) {
            lock(&self.retired).push(self.memory.clone());
        }
    }
}

/// A part of a buffer that belongs to the device until this is dropped.
pub(crate) struct Claim {
    registered: Arc<Registered>,
    part: Range<u64>,
    device_writes: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.registered.claims).give_back(&self.part, self.device_writes);
    }
}

/// Memory that one device may reach. Clones share the memory, which is given back when the last one
/// is dropped. While a transfer is in flight its part of the buffer belongs to the device:
/// [`read`](Self::read), [`write`](Self::write) and other transfers may not touch it, except that
/// transfers that only read may share it. For its buffer a transfer ends when its channel notices:
/// in `post`, `wait`, `poll`, `cancel` or `close`.
#[derive(Clone)]
pub struct Buffer {
    registered: Arc<Registered>,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size_bytes = self.size_bytes();
        write!(f, "Buffer({size_bytes} B of {})", self.registered.device)
    }
}

impl Buffer {
    pub(crate) fn new(
        bus: AnyBus,
        function: &FunctionInfo,
        memory: AnyMemory,
        segments: Vec<Segment>,
        retired: Retired,
    ) -> Self {
        let ends = segments.iter().scan(0, |offset, segment| {
            let start = *offset;
            *offset += segment.bytes;
            Some(start)
        });
        let starts = ends.collect();
        let registered = Registered {
            bus,
            device: function.name.clone(),
            function: function.id,
            memory,
            segments,
            starts,
            claims: Mutex::default(),
            is_registered: AtomicBool::new(true),
            retired,
        };
        Self { registered: Arc::new(registered) }
    }

    /// Returns its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.registered.memory.size_bytes()
    }

    /// Returns its memory, for programs of other languages that use it in place. What they read and
    /// write there is not checked against transfers in flight.
    pub fn memory(&self) -> &AnyMemory {
        &self.registered.memory
    }

    /// Returns its contiguous segments, with the addresses that the device uses.
    pub fn segments(&self) -> &[Segment] {
        &self.registered.segments
    }

    /// Copies bytes out of the buffer.
    ///
    /// # Errors
    /// A range beyond its end, or one in flight for writing by the device.
    pub fn read(&self, offset_bytes: u64, into: &mut [u8]) -> Result<()> {
        let part = offset_bytes..offset_bytes.saturating_add(into.len() as u64);
        self.registered.check_within(&part)?;
        let claims = lock(&self.registered.claims);
        if let Some(taken) = claims.written_in(&part) {
            return Err(self.registered.in_flight(&part, &taken));
        }
        self.registered.memory.read(offset_bytes, into).map_err(|source| self.bus_error(source))
    }

    /// Copies bytes into the buffer.
    ///
    /// # Errors
    /// A range beyond its end, or one in flight.
    pub fn write(&self, offset_bytes: u64, from: &[u8]) -> Result<()> {
        let part = offset_bytes..offset_bytes.saturating_add(from.len() as u64);
        self.registered.check_within(&part)?;
        let claims = lock(&self.registered.claims);
        if let Some(taken) = claims.any_in(&part) {
            return Err(self.registered.in_flight(&part, &taken));
        }
        self.registered.memory.write(offset_bytes, from).map_err(|source| self.bus_error(source))
    }

    /// Copies values into the buffer, from `offset_bytes` on, as they lie in the program's memory.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn copy_from_slice<T: NoUninit>(&self, offset_bytes: u64, values: &[T]) -> Result<()> {
        self.write(offset_bytes, bytemuck::cast_slice(values))
    }

    /// Copies a part of the buffer, given in bytes, out of it as values.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and a part that is not a whole number of values.
    pub fn to_vec<T: AnyBitPattern + NoUninit>(&self, part: Range<u64>) -> Result<Vec<T>> {
        self.registered.check_within(&part)?;
        let (bytes, each) = ((part.end - part.start) as usize, size_of::<T>());
        if !bytes.is_multiple_of(each) {
            let problem = format!("{bytes} B are not a whole number of values of {each} B");
            return Err(self.registered.refused(InvalidArgument, problem));
        }
        let mut values = vec![T::zeroed(); bytes.checked_div(each).unwrap_or_default()];
        self.read(part.start, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// Ends the registration and gives the memory back. Other clones can still be read and written,
    /// but no longer be used for transfers.
    ///
    /// # Errors
    /// A transfer is in flight: the registration then ends when the last clone is dropped.
    pub async fn unregister(self) -> Result<AnyMemory> {
        let registered = &self.registered;
        {
            let claims = lock(&registered.claims);
            if !claims.is_empty() {
                let problem = "a transfer is in flight, so it stays registered".to_owned();
                return Err(registered.refused(Busy, problem));
            }
            // Done under the lock: no transfer can claim a part since the check above.
            if !registered.is_registered.swap(false, Ordering::AcqRel) {
                return Err(registered.refused(InvalidArgument, "it is not registered any more"));
            }
        }
        // Memory without segments was never pinned.
        if !registered.segments.is_empty() {
            let unpinned = registered.bus.unpin(registered.function, &registered.memory).await;
            unpinned.map_err(|source| self.bus_error(source))?;
        }
        Ok(registered.memory.clone())
    }

    pub(crate) fn registered(&self) -> &Arc<Registered> {
        &self.registered
    }

    /// Gives a part to the device.
    pub(crate) fn claim(&self, part: Range<u64>, device_writes: bool) -> Result<Claim> {
        let registered = &self.registered;
        registered.check_within(&part)?;
        let mut claims = lock(&registered.claims);
        if !registered.is_registered.load(Ordering::Acquire) {
            return Err(registered.refused(InvalidArgument, "it is not registered any more"));
        }
        claims.take(&part, device_writes).map_err(|taken| registered.in_flight(&part, &taken))?;
        drop(claims);
        Ok(Claim { registered: Arc::clone(registered), part, device_writes })
    }

    fn bus_error(&self, source: crosslane_host::BusError) -> DriverError {
        DriverError::Bus { device: self.registered.device.clone(), source }
    }
}
