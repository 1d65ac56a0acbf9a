// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory of a bridge's client that Python code sees: pages that both have mapped.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crosslane::bridge::MemoryPart;
use crosslane::host::lock;
use crosslane::network::{NetworkMemory, Region};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::link::{InUse, Link};

use crate::error::Failure;
use crate::transfer::part_of;
use crate::view::{fill, given_back, to_dlpack};

/// Pages of a nameless file, mapped for Python code.
struct Pages {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the pages belong to the process, not to a thread, and are accessed with the GIL.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Makes zeroed pages, and the same for the network.
    fn new(bytes: u64) -> Result<(Self, NetworkMemory), Failure> {
        let no_memory =
            |why: String| Failure::argument(format!("no memory: {bytes} B requested: {why}"));
        let size = usize::try_from(bytes).map_err(|error| no_memory(error.to_string()))?;
        let words = |error: rustix::io::Errno| no_memory(error.to_string());
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memfd_create("crosslane-bridge", flags).map_err(words)?;
        ftruncate(&file, bytes).map_err(words)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).map_err(words)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; its pages stay for as long
        // as it does, as the file cannot be shortened.
        let start = unsafe { mmap(null_mut(), size, protection, MapFlags::SHARED, &file, 0) };
        let start = NonNull::new(start.map_err(words)?);
        let start = start.ok_or_else(|| no_memory("the kernel mapped it to nowhere".into()))?;
        let pages = Self { start, bytes: size };
        Ok((pages, NetworkMemory::of_file(file.as_fd(), bytes)?))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was mapped as a whole with this length, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

/// Memory that a bridge's server reads and writes. It has the buffer protocol: `memoryview(buffer)`
/// and `numpy.frombuffer(buffer)` see its bytes without a copy.
#[pyclass(frozen, module = "crosslane")]
pub struct BridgeBuffer {
    link: Arc<Link>,
    pages: Pages,
    /// Its registration; none once it was given back.
    region: Arc<Mutex<Option<Region>>>,
    in_use: InUse,
    /// Views of Python code.
    views: AtomicUsize,
}

impl Drop for BridgeBuffer {
    fn drop(&mut self) {
        if self.link.is_foreign() {
            std::mem::forget(Arc::clone(&self.region));
        }
    }
}

impl BridgeBuffer {
    /// Makes a buffer.
    ///
    /// # Errors
    /// No bytes or too many, memory that cannot be registered, and a closed connection.
    pub fn new(py: Python<'_>, link: &Arc<Link>, bytes: u64) -> PyResult<Self> {
        if bytes == 0 {
            return Err(Failure::argument("a buffer of 0 B is not possible").into());
        }
        let (pages, region) = link.call(py, || {
            let (pages, memory) = Pages::new(bytes)?;
            Ok((pages, link.register(&memory)?))
        })?;
        let region = Arc::new(Mutex::new(Some(region)));
        let (link, views) = (Arc::clone(link), AtomicUsize::new(0));
        Ok(Self { link, pages, region, in_use: InUse::default(), views })
    }

    /// Returns a part for a transfer, with what says that it is in use.
    ///
    /// # Errors
    /// Bytes that are not within it, a buffer of another connection or that was given back.
    pub fn part(
        &self,
        link: &Arc<Link>,
        start: u64,
        stop: Option<u64>,
    ) -> Result<(MemoryPart<Region>, InUse), Failure> {
        if !Arc::ptr_eq(link, &self.link) {
            return Err(Failure::argument("the buffer is that of another connection"));
        }
        self.link.check()?;
        let range: Range<u64> = part_of(self.nbytes() as u64, start, stop)?;
        let region = lock(&self.region).clone().ok_or_else(given_back)?;
        Ok((MemoryPart { region, range }, InUse::clone(&self.in_use)))
    }

    fn is_over(&self) -> bool {
        self.link.is_foreign() || lock(&self.region).is_none()
    }
}

#[pymethods]
impl BridgeBuffer {
    const fn __len__(&self) -> usize {
        self.pages.bytes
    }

    fn __repr__(&self) -> String {
        let closed = if self.is_over() { ", given back" } else { "" };
        format!("<crosslane.BridgeBuffer of {} B{closed}>", self.pages.bytes)
    }

    #[getter]
    const fn nbytes(&self) -> usize {
        self.pages.bytes
    }

    /// Gives the memory back.
    fn close(&self) -> PyResult<()> {
        self.link.check()?;
        let busy = |why: String| {
            let problem =
                format!("a buffer of {} B: it {why}, so it stays registered", self.nbytes());
            Err(Failure::busy(problem).into())
        };
        match self.views.load(Ordering::Acquire) {
            0 => {}
            1 => return busy("has a view".into()),
            views => return busy(format!("has {views} views")),
        }
        if Arc::strong_count(&self.in_use) > 1 {
            return busy("is in flight".into());
        }
        *lock(&self.region) = None;
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close()
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
        let bytes = (this.pages.start.as_ptr(), this.pages.bytes);
        let shown = (!this.is_over()).then_some(bytes);
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
