// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers: memory that a card reaches, the library's or the program's.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::rc::Rc;

use crosslane::driver::Buffer;
use crosslane::host::{ErrorKind, PageSize};
use crosslane::open::VfioMemory;

use crate::device::{DeviceObject, crosslane_device};
use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::SessionObject;
use crate::structs::{self, sized};

/// Huge pages (2 MiB) if the system has any free, else small ones.
pub const CROSSLANE_PAGES_HUGE: u32 = 0;
/// Pages of 4 KiB.
pub const CROSSLANE_PAGES_SMALL: u32 = 1;

/// Memory that one device may reach.
pub struct crosslane_buffer {
    _private: (),
}

/// How to make a buffer. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_buffer_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// CROSSLANE_PAGES_HUGE or CROSSLANE_PAGES_SMALL.
    pub pages: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Description of a buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_buffer_info {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Number of pieces that are contiguous for the device.
    pub segments: u64,
    /// The program's own memory of a registered buffer, else NULL.
    pub memory: *mut c_void,
    /// 1 if each transfer copies between the program's memory and the library's, else 0.
    pub is_copied: u32,
    /// Must be ignored.
    pub reserved: u32,
}

sized!(crosslane_buffer_attr, crosslane_buffer_info);

/// Object behind a handle on a buffer.
pub(crate) struct BufferObject {
    session: Rc<SessionObject>,
    /// Keeps the device open.
    _owner: Rc<dyn Any>,
    pub buffer: Buffer,
    /// The program's memory, as long as the buffer; NULL if it is the library's alone.
    memory: *mut u8,
}

impl Handled for BufferObject {
    type Opaque = crosslane_buffer;
    const NAME: &'static str = "buffer";
}

impl BufferObject {
    /// Gives C a handle on a buffer of a device's.
    pub fn insert(
        session: &Rc<SessionObject>,
        owner: Rc<dyn Any>,
        buffer: Buffer,
        memory: *mut u8,
    ) -> Result<*mut crosslane_buffer> {
        let session = Rc::clone(session);
        handle::insert(Self { session, _owner: owner, buffer, memory })
    }

    /// Copies a part of the program's memory to where the device reads it.
    pub fn copy_in(&self, part: &Range<u64>) -> Result<()> {
        let Some(at) = self.own(part)? else { return Ok(()) };
        // SAFETY: the program has promised that its memory is there until the buffer is destroyed,
        // and that it does not change it while a transfer of it is posted. `own` has checked the
        // part.
        let from = unsafe { std::slice::from_raw_parts(at, (part.end - part.start) as usize) };
        Ok(self.buffer.write(part.start, from)?)
    }

    /// Copies what the device has written to the program's memory.
    pub fn copy_out(&self, part: &Range<u64>) -> Result<()> {
        let Some(at) = self.own(part)? else { return Ok(()) };
        // SAFETY: as in `copy_in`; the program does not use the part before its completion.
        let into = unsafe { std::slice::from_raw_parts_mut(at, (part.end - part.start) as usize) };
        Ok(self.buffer.read(part.start, into)?)
    }

    /// Whether it is the program's own memory.
    pub fn is_registered(&self) -> bool {
        !self.memory.is_null()
    }

    /// Returns the address of a part in the program's memory, if there is any.
    fn own(&self, part: &Range<u64>) -> Result<Option<*mut u8>> {
        if self.memory.is_null() {
            return Ok(None);
        }
        if part.start > part.end || part.end > self.buffer.size_bytes() {
            let (Range { start, end }, size) = (part, self.buffer.size_bytes());
            let sentence = format!("bytes {start} to {end} are not in a buffer of {size} B");
            return Err(Failure::argument(sentence));
        }
        Ok(Some(self.memory.wrapping_add(part.start as usize)))
    }
}

/// Makes a buffer, of the library's memory or beside the program's.
///
/// # Safety
/// See the two functions that call it.
unsafe fn create(
    device: *const crosslane_device,
    bytes: u64,
    attr: *const crosslane_buffer_attr,
    memory: *mut u8,
    buffer: *mut *mut crosslane_buffer,
) -> Result<c_int> {
    structs::check_place(buffer, "buffer")?;
    let device = handle::get::<DeviceObject>(device)?;
    // SAFETY: as the caller promises.
    let attr = unsafe { structs::read_or_default(attr)? };
    let pages = match attr.pages {
        CROSSLANE_PAGES_HUGE => PageSize::Huge,
        CROSSLANE_PAGES_SMALL => PageSize::Small,
        pages => return Err(Failure::argument(format!("there is no size of pages {pages}"))),
    };
    if attr.reserved != 0 {
        return Err(Failure::argument("reserved is not 0 in the crosslane_buffer_attr"));
    }
    let made = device.session.run(device.device.buffer(bytes, pages))?;
    let made = BufferObject::insert(&device.session.clone(), device, made, memory)?;
    // SAFETY: checked above not to be NULL.
    unsafe { structs::put(buffer, "buffer", made)? };
    Ok(0)
}

/// Makes a buffer of the library's memory, zeroed, pinned and registered for a device.
///
/// @param bytes  Its size.
/// @param attr  How to make it; NULL for the defaults.
/// @param buffer  Gets the buffer.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `attr` and `buffer` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_create(
    device: *const crosslane_device,
    bytes: u64,
    attr: *const crosslane_buffer_attr,
    buffer: *mut *mut crosslane_buffer,
) -> c_int {
    guard("crosslane_buffer_create", || {
        // SAFETY: as the caller promises.
        unsafe { create(device, bytes, attr, ptr::null_mut(), buffer) }
    })
}

/// Makes a buffer of the program's own memory, which stays the program's and must be there until
/// the buffer is destroyed. No bus can pin it yet: each transfer copies between it and the
/// library's memory, as the buffer's info says (is_copied). A part of it that a transfer writes
/// changes when the transfer's completion is polled; the program must not use that part between the
/// two.
///
/// @param memory  `bytes` bytes of the program's.
/// @param attr  How to make it; NULL for the defaults.
/// @param buffer  Gets the buffer.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `memory` has `bytes` readable and writable bytes until the buffer is destroyed; `attr` and
/// `buffer` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_register(
    device: *const crosslane_device,
    memory: *mut c_void,
    bytes: u64,
    attr: *const crosslane_buffer_attr,
    buffer: *mut *mut crosslane_buffer,
) -> c_int {
    guard("crosslane_buffer_register", || {
        let memory: *mut u8 = memory.cast();
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        structs::check_span(memory, length, "memory")?;
        // SAFETY: as the caller promises.
        unsafe { create(device, bytes, attr, memory, buffer) }
    })
}

/// Destroys a buffer; its memory is given back. That of a transfer which is posted, and whose
/// completion was not polled, cannot be destroyed.
///
/// @return 0; -EBUSY if it is in flight: it then stays.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_destroy(buffer: *mut crosslane_buffer) -> c_int {
    guard("crosslane_buffer_destroy", || {
        let object = handle::get::<BufferObject>(buffer)?;
        // Two holders: the table, and this call.
        if Rc::strong_count(&object) > 2 {
            return Err(in_flight(&object));
        }
        let ended = object.session.run(object.buffer.clone().unregister());
        drop(object);
        match ended {
            // A channel that failed still holds it.
            Err(failure) if failure.code() == -libc::EBUSY => Err(failure),
            ended => {
                handle::take::<BufferObject>(buffer)?;
                ended.map(|_| 0)
            }
        }
    })
}

fn in_flight(object: &Rc<BufferObject>) -> Failure {
    let count = Rc::strong_count(object) - 2;
    let (bytes, one) = (object.buffer.size_bytes(), if count == 1 { "is" } else { "are" });
    let sentence = format!(
        "cannot destroy a buffer of {bytes} B: {count} of its transfers {one} in flight, or not \
         polled"
    );
    Failure::new(ErrorKind::Busy, sentence)
}

/// Copies bytes into a buffer of the library's memory.
///
/// @param offset  First byte of the buffer.
/// @param from  `bytes` bytes.
/// @return 0, or a negative number of errno.h; -EBUSY if a transfer of these bytes is in flight.
///
/// # Safety
/// `from` has `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_write(
    buffer: *const crosslane_buffer,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_buffer_write", || {
        let object = handle::get::<BufferObject>(buffer)?;
        object.check_is_librarys()?;
        // SAFETY: as the caller promises.
        let from = unsafe { structs::bytes(from.cast(), bytes, "source")? };
        object.buffer.write(offset, from)?;
        Ok(0)
    })
}

/// Copies bytes out of a buffer of the library's memory.
///
/// @param offset  First byte of the buffer.
/// @param into  Gets `bytes` bytes.
/// @return 0, or a negative number of errno.h; -EBUSY if a transfer writes these bytes.
///
/// # Safety
/// `into` has `bytes` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_read(
    buffer: *const crosslane_buffer,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_buffer_read", || {
        let object = handle::get::<BufferObject>(buffer)?;
        object.check_is_librarys()?;
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), bytes, "target")? };
        object.buffer.read(offset, into)?;
        Ok(0)
    })
}

impl BufferObject {
    /// Registered memory is read and written by the program itself.
    fn check_is_librarys(&self) -> Result<()> {
        match self.is_registered() {
            false => Ok(()),
            true => Err(Failure::argument(
                "this buffer is the program's own memory, which it reads and writes itself",
            )),
        }
    }
}

/// Gives the address of a buffer's memory, to read and write it in place. Nothing is copied, and
/// nothing checks that no transfer of it is in flight. It is valid until the buffer is destroyed.
///
/// @param address  Gets the address.
/// @return 0; -EOPNOTSUPP in a lab, whose memory is simulated.
///
/// # Safety
/// `address` is NULL or valid. No reference to the memory exists in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_address(
    buffer: *const crosslane_buffer,
    address: *mut *mut c_void,
) -> c_int {
    guard("crosslane_buffer_address", || {
        let object = handle::get::<BufferObject>(buffer)?;
        let found = match (object.is_registered(), object.buffer.memory().downcast()) {
            (true, _) => object.memory.cast(),
            (false, Some::<&VfioMemory>(memory)) => {
                ptr::with_exposed_provenance_mut(memory.pages().mapped().address())
            }
            (false, None) => {
                let sentence = "a lab's memory is simulated, and has no address here; use \
                                crosslane_buffer_read and crosslane_buffer_write";
                return Err(Failure::new(ErrorKind::Unsupported, sentence));
            }
        };
        // SAFETY: as the caller promises.
        unsafe { structs::put(address, "address", found)? };
        Ok(0)
    })
}

/// Describes a buffer.
///
/// @param info  Gets the description; its size is set.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `info` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_buffer_describe(
    buffer: *const crosslane_buffer,
    info: *mut crosslane_buffer_info,
) -> c_int {
    guard("crosslane_buffer_describe", || {
        let object = handle::get::<BufferObject>(buffer)?;
        let described = crosslane_buffer_info {
            size: 0,
            bytes: object.buffer.size_bytes(),
            segments: object.buffer.segments().len() as u64,
            memory: object.memory.cast(),
            is_copied: object.is_registered().into(),
            reserved: 0,
        };
        // SAFETY: as the caller promises.
        unsafe { structs::write(info, described)? };
        Ok(0)
    })
}
