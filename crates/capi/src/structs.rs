// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Structures and texts that C passes: they begin with their size, which tells old programs from
//! new ones.

use std::ffi::{CStr, c_char};

use crate::error::{Failure, Result};

/// Largest structure that a caller may pass. A size beyond it was never set.
const MOST_BYTES: usize = 4096;

/// A structure of plain numbers and pointers that begins with its size as a `usize`.
///
/// # Safety
/// `repr(C)`, with a `usize` first; every pattern of bits is a value.
pub(crate) unsafe trait Versioned: Copy {
    /// Name in the header.
    const NAME: &'static str;
    /// Size of the structure in the oldest version of the library that has it.
    const FIRST_BYTES: usize;
}

/// Declares structures that begin with their size. Members that were added to one later begin with
/// the one that `until` names: programs of before do not have them.
macro_rules! sized {
    ($($name:ident $(until $added:ident)?),+) => {
        $(
            // SAFETY: `repr(C)`, numbers and raw pointers only, and the size comes first.
            unsafe impl $crate::structs::Versioned for $name {
                const NAME: &'static str = stringify!($name);
                const FIRST_BYTES: usize = {
                    let sizes = [size_of::<Self>() $(, std::mem::offset_of!(Self, $added))?];
                    sizes[sizes.len() - 1]
                };
            }
        )+
    };
}
pub(crate) use sized;

/// Reads and checks the size that a structure begins with.
///
/// # Safety
/// `from` is NULL, or the address of a structure that begins with its size.
unsafe fn size_of_caller<T: Versioned>(from: *const T) -> Result<usize> {
    let name = T::NAME;
    if from.is_null() {
        return Err(Failure::argument(format!("the {name} is NULL")));
    }
    // SAFETY: as the caller promises. It may be unaligned.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < T::FIRST_BYTES || size > MOST_BYTES {
        let own = size_of::<T>();
        let sentence = format!("the size of a {name} is given as {size} B, and it has {own} B");
        return Err(Failure::argument(sentence));
    }
    Ok(size)
}

/// Copies a structure of the caller's. Members that the caller does not know are 0; those that the
/// library does not know must be.
///
/// # Safety
/// `from` is NULL, or the address of as many readable bytes as the size says that it begins with.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Result<T> {
    // SAFETY: as the caller promises.
    let size = unsafe { size_of_caller(from)? };
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are readable there, and are within `value`.
    unsafe { value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
    for at in known..size {
        // SAFETY: within the size that the caller gives.
        if unsafe { from.cast::<u8>().add(at).read() } != 0 {
            let sentence = format!(
                "this version of the library does not know what is at byte {at} of the {}",
                T::NAME
            );
            return Err(Failure::argument(sentence).with_errno(libc::E2BIG));
        }
    }
    // SAFETY: all bytes are set, and every pattern is a value.
    Ok(unsafe { value.assume_init() })
}

/// Copies attributes of the caller's; NULL stands for the defaults.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn read_or_default<T: Versioned>(from: *const T) -> Result<T> {
    if from.is_null() {
        // SAFETY: every pattern of bits is a value.
        return Ok(unsafe { std::mem::zeroed() });
    }
    // SAFETY: as the caller promises.
    unsafe { read(from) }
}

/// An array of the caller's structures; each is as long as the first says.
pub(crate) struct Array<T> {
    first: *mut T,
    stride: usize,
    count: usize,
}

impl<T: Versioned> Array<T> {
    /// Looks at an array of the caller's.
    ///
    /// # Safety
    /// `first` is NULL, or the address of `count` structures of the size that the first begins
    /// with, readable, and writable for [`put`](Self::put), until this is dropped.
    pub unsafe fn new(first: *mut T, count: usize) -> Result<Self> {
        if count == 0 {
            return Ok(Self { first, stride: 0, count });
        }
        // SAFETY: as the caller promises.
        let stride = unsafe { size_of_caller(first)? };
        Ok(Self { first, stride, count })
    }

    pub const fn len(&self) -> usize {
        self.count
    }

    fn place(&self, index: usize) -> *mut T {
        assert!(index < self.count, "{index} of {}", self.count);
        self.first.wrapping_byte_add(index * self.stride)
    }

    /// Copies a structure out.
    pub fn get(&self, index: usize) -> Result<T> {
        let place = self.place(index);
        // SAFETY: within the array, which `new` was promised.
        let size = unsafe { size_of_caller(place)? };
        if size != self.stride {
            let (name, first) = (T::NAME, self.stride);
            let sentence = format!("the first {name} has {first} B, number {index} has {size} B");
            return Err(Failure::argument(sentence));
        }
        // SAFETY: as above; it is as long as the first.
        unsafe { read(place) }
    }

    /// Copies a structure in, as much of it as the caller knows, with the caller's size.
    pub fn put(&self, index: usize, value: T) {
        // SAFETY: within the array, which `new` was promised; it has `stride` bytes there.
        unsafe { copy_in(self.place(index), value, self.stride) };
    }
}

/// Copies a structure to the caller, as much of it as the caller knows.
///
/// # Safety
/// `into` is the address of `size` writable bytes.
unsafe fn copy_in<T: Versioned>(into: *mut T, value: T, size: usize) {
    let known = size.min(size_of::<T>());
    let from = (&raw const value).cast::<u8>();
    // SAFETY: `known` bytes are in both; the value is the callee's own.
    unsafe { into.cast::<u8>().copy_from_nonoverlapping(from, known) };
    // SAFETY: as above; the size comes first.
    unsafe { into.cast::<usize>().write_unaligned(size) };
}

/// Fills a structure of the caller's, which has set its size.
///
/// # Safety
/// `into` is NULL, or the address of as many writable bytes as the size says that it begins with.
pub(crate) unsafe fn write<T: Versioned>(into: *mut T, value: T) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let size = size_of_caller(into)?;
        copy_in(into, value, size);
    }
    Ok(())
}

/// Puts a value where the caller wants it.
///
/// # Safety
/// `into` is NULL, or the address of a writable value.
pub(crate) unsafe fn put<T>(into: *mut T, name: &str, value: T) -> Result<()> {
    if into.is_null() {
        return Err(Failure::argument(format!("there is no place for the {name}: it is NULL")));
    }
    // SAFETY: as the caller promises. It may be unaligned.
    unsafe { into.write_unaligned(value) };
    Ok(())
}

/// Checks that the caller has a place for a result, before there is one to lose.
pub(crate) fn check_place<T>(into: *mut T, name: &str) -> Result<()> {
    match into.is_null() {
        true => Err(Failure::argument(format!("there is no place for the {name}: it is NULL"))),
        false => Ok(()),
    }
}

/// Copies a text of the caller's.
///
/// # Safety
/// `text` is NULL, or the address of bytes that end with a NUL.
pub(crate) unsafe fn text(text: *const c_char, name: &str) -> Result<String> {
    if text.is_null() {
        return Err(Failure::argument(format!("the {name} is NULL")));
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| {
        Failure::argument(format!("the {name} is not UTF-8: {}", text.to_string_lossy()))
    })?;
    Ok(text.to_owned())
}

/// Lends bytes of the caller's for reading.
///
/// # Safety
/// `from` is NULL, or the address of `bytes` readable bytes that nothing changes during the call.
pub(crate) unsafe fn bytes<'a>(from: *const u8, bytes: usize, name: &str) -> Result<&'a [u8]> {
    if bytes == 0 {
        return Ok(&[]);
    }
    check_span(from, bytes, name)?;
    // SAFETY: as the caller promises, and checked to be a span of the address space.
    Ok(unsafe { std::slice::from_raw_parts(from, bytes) })
}

/// Lends bytes of the caller's for writing.
///
/// # Safety
/// `into` is NULL, or the address of `bytes` writable bytes that nothing else uses during the call.
/// They need not be initialised: the library only writes them.
pub(crate) unsafe fn bytes_mut<'a>(
    into: *mut u8,
    bytes: usize,
    name: &str,
) -> Result<&'a mut [u8]> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    check_span(into, bytes, name)?;
    // SAFETY: as the caller promises, and checked to be a span of the address space.
    Ok(unsafe { std::slice::from_raw_parts_mut(into, bytes) })
}

/// Checks that memory of the caller's is a span of the address space.
pub(crate) fn check_span(at: *const u8, bytes: usize, name: &str) -> Result<()> {
    if at.is_null() {
        return Err(Failure::argument(format!("the {name} is NULL, and has {bytes} B")));
    }
    let most = isize::MAX as usize;
    if bytes > most || at.addr().checked_add(bytes).is_none() {
        return Err(Failure::argument(format!("no memory has {bytes} B for the {name}")));
    }
    Ok(())
}
