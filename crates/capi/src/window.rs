// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows: a part of a BAR that the host stores into and loads from.

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use crosslane::driver::{Contents, Window, WindowOptions};
use crosslane::host::{ErrorKind, Mapping};

use crate::error::{Failure, Result, guard};
use crate::handle::{self, Handled};
use crate::session::{SessionObject, crosslane_session};
use crate::structs::{self, sized};

/// Every store is a write of its own, in order.
pub const CROSSLANE_UNCACHED: u32 = 0;
/// Stores are collected in lines of 64 B.
pub const CROSSLANE_WRITE_COMBINED: u32 = 1;

/// Each store or load may have an effect.
pub const CROSSLANE_CONTENTS_REGISTERS: u32 = 0;
/// A byte holds what was stored last.
pub const CROSSLANE_CONTENTS_MEMORY: u32 = 1;
/// A queue that takes writes in the order of their arrival.
pub const CROSSLANE_CONTENTS_FIFO: u32 = 2;

/// A window into a BAR.
pub struct crosslane_window {
    _private: (),
}

/// Attributes of a window. Members that are 0 have their defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct crosslane_window_attr {
    /// Size of this structure, in bytes.
    pub size: usize,
    /// First byte of the BAR.
    pub offset: u64,
    /// Length, in bytes; 0 for the rest of the BAR.
    pub bytes: u64,
    /// Bytes from the beginning of the window that a FIFO decodes.
    pub decoded_bytes: u64,
    /// Number of the BAR.
    pub bar: u32,
    /// CROSSLANE_UNCACHED or CROSSLANE_WRITE_COMBINED.
    pub mapping: u32,
    /// A CROSSLANE_CONTENTS_*.
    pub contents: u32,
    /// Must be 0.
    pub reserved: u32,
}

sized!(crosslane_window_attr);

/// Object behind a handle on a window.
pub(crate) struct WindowObject {
    pub session: Rc<SessionObject>,
    pub window: Window,
}

impl Handled for WindowObject {
    type Opaque = crosslane_window;
    const NAME: &'static str = "window";
}

fn options(attr: &crosslane_window_attr, bar_bytes: u64) -> Result<WindowOptions> {
    let mapping = match attr.mapping {
        CROSSLANE_UNCACHED => Mapping::Uncached,
        CROSSLANE_WRITE_COMBINED => Mapping::WriteCombined,
        mapping => return Err(Failure::argument(format!("there is no mapping {mapping}"))),
    };
    let contents = match attr.contents {
        CROSSLANE_CONTENTS_REGISTERS => Contents::Registers,
        CROSSLANE_CONTENTS_MEMORY => Contents::Memory,
        CROSSLANE_CONTENTS_FIFO => Contents::Fifo { decoded_bytes: attr.decoded_bytes },
        contents => return Err(Failure::argument(format!("there are no contents {contents}"))),
    };
    if attr.reserved != 0 {
        return Err(Failure::argument("reserved is not 0 in the crosslane_window_attr"));
    }
    let end = match attr.bytes {
        0 => bar_bytes,
        bytes => attr.offset.saturating_add(bytes),
    };
    // The window checks that it is a BAR's part; its number fits then.
    let bar = u8::try_from(attr.bar).unwrap_or(u8::MAX);
    let options = WindowOptions::new(bar, attr.offset..end);
    Ok(options.with_mapping(mapping).with_contents(contents))
}

/// Opens a window into a BAR. Its function must have been opened as a device, or have its memory
/// space enabled by other means.
///
/// @param function  Name of the function in the tree, such as a card's endpoint.
/// @param attr  What it shows.
/// @param window  Gets the window.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `function` is NULL or ends with a NUL; `attr` and `window` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_open(
    session: *const crosslane_session,
    function: *const c_char,
    attr: *const crosslane_window_attr,
    window: *mut *mut crosslane_window,
) -> c_int {
    guard("crosslane_window_open", || {
        structs::check_place(window, "window")?;
        let session = handle::get::<SessionObject>(session)?;
        // SAFETY: as the caller promises.
        let (attr, name) =
            unsafe { (structs::read(attr)?, structs::text(function, "name of the function")?) };
        let of = session.function(&name)?;
        let bar = of.bars.iter().find(|bar| bar.index as u64 == u64::from(attr.bar));
        let Some(bar_bytes) = bar.map(|bar| bar.size_bytes) else {
            let sentence = format!("{name} has no BAR{}", attr.bar);
            return Err(Failure::new(ErrorKind::NotFound, sentence));
        };
        let options = options(&attr, bar_bytes)?;
        let opened = Window::open(session.bus().clone(), of.id, options)?;
        let opened = handle::insert(WindowObject { session, window: opened })?;
        // SAFETY: checked above not to be NULL.
        unsafe { structs::put(window, "window", opened)? };
        Ok(0)
    })
}

/// Closes a window. What its core has combined is stored before.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_close(window: *mut crosslane_window) -> c_int {
    guard("crosslane_window_close", || {
        let object = handle::take::<WindowObject>(window)?;
        object.session.run(object.window.flush())?;
        Ok(0)
    })
}

/// Tells the size of a window.
///
/// @param bytes  Gets the size, in bytes.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `bytes` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_size(
    window: *const crosslane_window,
    bytes: *mut u64,
) -> c_int {
    guard("crosslane_window_size", || {
        let object = handle::get::<WindowObject>(window)?;
        // SAFETY: as the caller promises.
        unsafe { structs::put(bytes, "size", object.window.size_bytes())? };
        Ok(0)
    })
}

/// Stores bytes, lowest address first.
///
/// @param offset  First byte of the window.
/// @param from  `bytes` bytes.
/// @param width  Bytes of each store, 1 to 64; 0 for the widest of the processor. Shorter ones are
/// used at unaligned ends.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `from` has `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_write(
    window: *const crosslane_window,
    offset: u64,
    from: *const c_void,
    bytes: usize,
    width: u32,
) -> c_int {
    guard("crosslane_window_write", || {
        let object = handle::get::<WindowObject>(window)?;
        // SAFETY: as the caller promises.
        let from = unsafe { structs::bytes(from.cast(), bytes, "source")? };
        let stored = async {
            match width {
                0 => object.window.copy(offset, from).await,
                width => object.window.store(offset, from, width).await,
            }
        };
        object.session.run(stored)?;
        Ok(0)
    })
}

/// Pushes bytes into a FIFO: whole lines of 64 B if the window is write-combined.
///
/// @param from  `bytes` bytes.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `from` has `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_push(
    window: *const crosslane_window,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_window_push", || {
        let object = handle::get::<WindowObject>(window)?;
        // SAFETY: as the caller promises.
        let from = unsafe { structs::bytes(from.cast(), bytes, "source")? };
        object.session.run(object.window.push(from))?;
        Ok(0)
    })
}

/// Loads bytes, 8 B at a time.
///
/// @param offset  First byte of the window.
/// @param into  Gets `bytes` bytes.
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// `into` has `bytes` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_read(
    window: *const crosslane_window,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guard("crosslane_window_read", || {
        let object = handle::get::<WindowObject>(window)?;
        // SAFETY: as the caller promises.
        let into = unsafe { structs::bytes_mut(into.cast(), bytes, "target")? };
        object.session.run(object.window.read(offset, into))?;
        Ok(0)
    })
}

/// Waits until everything that was stored has left the core: a fence.
///
/// @return 0, or a negative number of errno.h.
///
/// # Safety
/// Any value is safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn crosslane_window_flush(window: *const crosslane_window) -> c_int {
    guard("crosslane_window_flush", || {
        let object = handle::get::<WindowObject>(window)?;
        object.session.run(object.window.flush())?;
        Ok(0)
    })
}
