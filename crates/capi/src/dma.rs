// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The local DMA call: between any memory of the program and the card's memory, with copies through
//! a ring of pinned buffers, which overlap the card's transfers.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use crosslane::bridge::local::{HostSink, HostSource, Job, LocalDma, LocalOptions};

use crate::device::{DeviceObject, crosslane_device};
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::structs::{self, sized};

/// From the program's memory to the card's.
pub const CROSSLANE_DMA_TO_CARD: u32 = 0;
/// From the card's memory to the program's.
pub const CROSSLANE_DMA_FROM_CARD: u32 = 1;
/// From the program's memory through the card's user circuit back to the program's.
pub const CROSSLANE_DMA_THROUGH_CARD: u32 = 2;
/// From the card's memory through its user circuit back to the card's.
pub const CROSSLANE_DMA_WITHIN_CARD: u32 = 3;

/// The local DMA of a device. It owns H2C channel 0 and C2H channel 0 while it is open.
pub struct crosslane_dma {
    _private: (),
}

/// How to make local DMA. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_dma_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Size of each buffer of a ring, in bytes; 0 for 1 MiB.
    pub buffer_bytes: u64,
    /// Buffers of each ring; 0 for 8.
    pub buffers: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// One transfer of local DMA. Of each end either the memory or the card's address counts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_dma_job {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// The program's memory that is read.
    pub from: *const c_void,
    /// The program's memory that is written.
    pub to: *mut c_void,
    /// First byte of the card's memory that is read.
    pub card_from: u64,
    /// First byte of the card's memory that is written.
    pub card_to: u64,
    /// Length, in bytes.
    pub bytes: u64,
    /// Time from now at which it fails, in ns; 0 for one second, CROSSLANE_FOREVER for none.
    pub timeout_ns: u64,
    /// A CROSSLANE_DMA_*.
    pub kind: u32,
    /// Must be 0.
    pub reserved: u32,
}

sized!(crosslane_dma_attr, crosslane_dma_job);

/// Object behind a handle on local DMA.
struct DmaObject {
    device: Rc<DeviceObject>,
    dma: RefCell<LocalDma>,
}

impl Handled for DmaObject {
    type Opaque = crosslane_dma;
    const NAME: &'static str = "dma";
}

/// Makes local DMA with a device. Channels and rings are set up when a transfer first needs them.
///
/// @param attr  How to make it; NULL for the defaults.
/// @param dma  Gets it.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `attr` and `dma` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_dma_open(
    device: *const crosslane_device,
    attr: *const crosslane_dma_attr,
    dma: *mut *mut crosslane_dma,
) -> c_int {
    guard("crosslane_dma_open", || {
        structs::check_place(dma, "dma")?;
        let device = handle::get::<DeviceObject>(device)?;
        // SAFETY: as the caller promises.
        let attr = unsafe { structs::read_or_default(attr)? };
        let mut options = LocalOptions::default();
        if attr.buffer_bytes > 0 {
            options = options.with_buffer_bytes(attr.buffer_bytes);
        }
        if attr.buffers > 0 {
            options = options.with_buffers(u16::try_from(attr.buffers).unwrap_or(u16::MAX));
        }
        let made = RefCell::new(LocalDma::new(&device.device, options)?);
        let made = handle::insert(DmaObject { device, dma: made })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(dma, "dma", made)? };
        Ok(0)
    })
}

/// Closes local DMA, and gives its channels back.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_dma_close(dma: *mut crosslane_dma) -> c_int {
    guard("crosslane_dma_close", || {
        let object = handle::take::<DmaObject>(dma)?;
        object.device.session.run(object.dma.into_inner().close())?;
        Ok(0)
    })
}

/// Returns the job of the caller's.
///
/// # Safety
/// The memory of the job is NULL or has its bytes, readable or writable, and apart from each other.
unsafe fn made<'a>(asked: &crosslane_dma_job) -> Result<Job<'a>> {
    let bytes = asked.bytes;
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    let from = || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { structs::bytes(asked.from.cast(), length, "source")? };
        Ok::<_, Failure>(HostSource::Copied(bytes))
    };
    let to = || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { structs::bytes_mut(asked.to.cast(), length, "target")? };
        Ok::<_, Failure>(HostSink::Copied(bytes))
    };
    let (card_from, card_to) = (asked.card_from, asked.card_to);
    Ok(match asked.kind {
        CROSSLANE_DMA_TO_CARD => Job::HostToCard { from: from()?, to: card_to },
        CROSSLANE_DMA_FROM_CARD => Job::CardToHost { from: card_from, to: to()? },
        CROSSLANE_DMA_THROUGH_CARD => {
            let apart = asked.from.addr().abs_diff(asked.to.addr());
            if apart < length {
                let sentence = "the source and the target of a transfer through the card overlap";
                return Err(Failure::argument(sentence));
            }
            Job::HostToHost { from: from()?, to: to()? }
        }
        CROSSLANE_DMA_WITHIN_CARD => Job::CardToCard { from: card_from, to: card_to, bytes },
        kind => return Err(Failure::argument(format!("there is no kind of local DMA {kind}"))),
    })
}

/// Makes a transfer, and waits until it has ended.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `job` is NULL or valid, and so is the memory that it names, which nothing else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_dma_transfer(
    dma: *const crosslane_dma,
    job: *const crosslane_dma_job,
) -> c_int {
    guard("crosslane_dma_transfer", || {
        let object = handle::get::<DmaObject>(dma)?;
        // SAFETY: as the caller promises.
        let (asked, job) = unsafe {
            let asked = structs::read(job)?;
            (asked, made(&asked)?)
        };
        let session = &object.device.session;
        let deadline = session.deadline(asked.timeout_ns);
        session.run(object.dma.borrow_mut().transfer(job, deadline))?;
        Ok(0)
    })
}
