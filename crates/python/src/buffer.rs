// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory that Python code sees.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crosslane::driver::Buffer as Registered;
use crosslane::open::{AnyMemory, VfioMemory};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::Failure;
use crate::kept::{Kept, leave};
use crate::session::{Owner, Shared};
use crate::state::State;
use crate::view::{fill, to_dlpack};

/// Alignment of the bytes of a buffer: that of a page.
const ALIGNMENT: usize = 4096;

/// The bytes that Python code sees.
enum Bytes {
    /// The pages that the card reaches, and the memory that keeps them mapped.
    Pages { pages: NonNull<u8>, _memory: AnyMemory },
    /// A copy of a lab's simulated memory, brought up to date by transfers.
    Copy(NonNull<u8>, Layout),
}

// SAFETY: the bytes belong to the process, not to a thread, and are accessed with the GIL.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new(memory: &AnyMemory, bytes: u64) -> Result<Self, Failure> {
        let no_memory = || Failure::argument(format!("no memory: {bytes} B requested"));
        match memory.downcast::<VfioMemory>() {
            Some(own) => {
                let address = own.pages().mapped().address() as *mut u8;
                let pointer = NonNull::new(address).ok_or_else(no_memory)?;
                Ok(Self::Pages { pages: pointer, _memory: memory.clone() })
            }
            None => {
                let bytes = usize::try_from(bytes).map_err(|_| no_memory())?;
                let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT);
                let layout = layout.map_err(|_| no_memory())?;
                // SAFETY: the layout has a size.
                let pointer = NonNull::new(unsafe { alloc_zeroed(layout) });
                Ok(Self::Copy(pointer.ok_or_else(no_memory)?, layout))
            }
        }
    }

    const fn pointer(&self) -> *mut u8 {
        match self {
            Self::Pages { pages: pointer, .. } | Self::Copy(pointer, _) => pointer.as_ptr(),
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Self::Copy(pointer, layout) = self {
            // SAFETY: it was allocated with this layout, and nothing refers to it any more.
            unsafe { dealloc(pointer.as_ptr(), *layout) };
        }
    }
}

/// Memory that a card reaches. It has the buffer protocol: `memoryview(buffer)` and
/// `numpy.frombuffer(buffer)` see its bytes without a copy.
#[pyclass(frozen, module = "crosslane")]
pub struct Buffer {
    session: Arc<Shared>,
    owner: Owner,
    bytes: ManuallyDrop<Bytes>,
    size_bytes: u64,
    registered: Kept<Registered>,
    /// Views of Python code.
    views: AtomicUsize,
}

impl Buffer {
    /// Takes memory that is registered.
    pub fn new(
        session: &Arc<Shared>,
        owner: Owner,
        memory: &AnyMemory,
        registered: Registered,
    ) -> Result<Self, Failure> {
        let size_bytes = registered.size_bytes();
        let bytes = ManuallyDrop::new(Bytes::new(memory, size_bytes)?);
        let registered = Kept::new(session, "the buffer", registered);
        let (session, views) = (Arc::clone(session), AtomicUsize::new(0));
        Ok(Self { session, owner, bytes, size_bytes, registered, views })
    }

    /// Returns its registration for a transfer with a card.
    ///
    /// # Errors
    /// A buffer that was given back, of another card, or of another session.
    pub fn registered(&self, session: &Arc<Shared>, owner: Owner) -> Result<Registered, Failure> {
        if !Arc::ptr_eq(session, &self.session) || owner != self.owner {
            return Err(Failure::argument("the buffer is registered with another card"));
        }
        Ok(Registered::clone(&*self.registered.get()?))
    }

    /// Writes what Python code sees of a part to the memory that the card reads.
    pub fn publish(&self, to: &Registered, part: &Range<u64>) -> Result<(), Failure> {
        match (&*self.bytes, self.range(part)) {
            (Bytes::Copy(..), Some((start, bytes))) => {
                // SAFETY: within the bytes, which only this object and its views, with the GIL,
                // access.
                let from = unsafe { std::slice::from_raw_parts(start, bytes) };
                Ok(to.write(part.start, from)?)
            }
            _ => Ok(()),
        }
    }

    /// Shows Python code what the card has written to a part.
    pub fn fetch(&self, from: &Registered, part: &Range<u64>) -> Result<(), Failure> {
        match (&*self.bytes, self.range(part)) {
            (Bytes::Copy(..), Some((start, bytes))) => {
                // SAFETY: as above.
                let into = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
                Ok(from.read(part.start, into)?)
            }
            _ => Ok(()),
        }
    }

    /// Returns the first byte of a part and the number of its bytes.
    fn range(&self, part: &Range<u64>) -> Option<(*mut u8, usize)> {
        if part.start >= part.end || part.end > self.size_bytes {
            return None;
        }
        // SAFETY: within the bytes, as was compared.
        let start = unsafe { self.bytes.pointer().add(part.start as usize) };
        Some((start, (part.end - part.start) as usize))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.session.is_foreign() {
            return;
        }
        // SAFETY: it is dropped here only, and nothing uses it afterwards.
        unsafe { ManuallyDrop::drop(&mut self.bytes) };
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.size_bytes as usize
    }

    fn __repr__(&self) -> String {
        let closed = if self.registered.is_over() { ", given back" } else { "" };
        format!("<crosslane.Buffer of {} B{closed}>", self.size_bytes)
    }

    #[getter]
    const fn nbytes(&self) -> u64 {
        self.size_bytes
    }

    /// Gives the memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.registered.is_over() {
            return Ok(());
        }
        let views = self.views.load(Ordering::Acquire);
        if views > 0 {
            let problem = format!(
                "a buffer of {} B: it has {views} views, so it stays registered",
                self.size_bytes
            );
            return Err(Failure::busy(problem).into());
        }
        let unregister = |state: &mut State, registered: &Registered| {
            state.run(registered.clone().unregister()).map(|_| ())
        };
        self.registered.close(py, unregister, |_, _| Ok(()))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    #[pyo3(signature = (**options))]
    fn __dlpack__(
        slf: &Bound<'_, Self>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        to_dlpack(slf.as_any(), options)
    }

    /// Device of DLPack: the processor.
    const fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// Shows the bytes.
    ///
    /// # Safety
    /// Called by Python with a view to be filled.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let bytes = this.size_bytes as usize;
        let shown = (!this.registered.is_over()).then(|| (this.bytes.pointer().cast(), bytes));
        // SAFETY: the view is Python's, and the bytes live as long as the object.
        unsafe { fill(slf.as_any(), view, flags, shown)? };
        this.views.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Ends a view.
    ///
    /// # Safety
    /// Called by Python, once for each view.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, Ordering::AcqRel);
    }
}
