// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of Python objects: whatever has the buffer protocol, or DLPack.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Failure;

/// The contiguous bytes of a Python object, which keeps them while this lives.
#[derive(Debug)]
pub struct View(PyUntypedBuffer);

impl View {
    /// Takes the bytes of an object.
    ///
    /// # Errors
    /// An object without bytes, with gaps between them, or of a type whose bytes mean nothing to
    /// others.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = object.get_type().name()?.to_string();
        let buffer = match PyUntypedBuffer::get(object) {
            Ok(buffer) => buffer,
            Err(_) if object.hasattr("__dlpack__")? => {
                let memory = object.py().import("crosslane._memory")?;
                PyUntypedBuffer::get(&memory.getattr("of_dlpack")?.call1((object,))?)?
            }
            Err(error) => {
                let problem = format!("{name} has no bytes to transfer: {error}");
                return Err(Failure::argument(problem).into());
            }
        };
        let format = buffer.format().to_string_lossy().into_owned();
        if is_of_objects(&format) {
            let problem = format!("{name}: its items ({format}) are references, not data");
            return Err(Failure::argument(problem).into());
        }
        if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
            let problem = format!(
                "{name}: its bytes are not contiguous; copy it first (numpy.ascontiguousarray)"
            );
            return Err(Failure::argument(problem).into());
        }
        Ok(Self(buffer))
    }

    /// Takes the bytes of an object that is to be written.
    ///
    /// # Errors
    /// As [`of`](Self::of), and an object that is read only.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let view = Self::of(object)?;
        if view.0.readonly() {
            let name = object.get_type().name()?;
            let problem = format!("{name} is read only: data from a card cannot be put there");
            return Err(Failure::argument(problem).into());
        }
        Ok(view)
    }

    /// Returns the number of its bytes.
    pub fn bytes(&self) -> u64 {
        self.0.len_bytes() as u64
    }

    /// Returns the number of its dimensions.
    pub fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    /// Returns the number of its rows, those of its first dimension, and the bytes of each.
    ///
    /// # Errors
    /// An object without rows: of one dimension, with none of them, or in Fortran's order.
    pub fn rows(&self) -> PyResult<(usize, usize)> {
        let (dimensions, bytes) = (self.dimensions(), self.0.len_bytes());
        if dimensions < 2 || bytes == 0 || !self.0.is_c_contiguous() {
            let problem = "rows are those of an array of two dimensions, in C's order";
            return Err(Failure::argument(format!("{problem}; it has {dimensions}")).into());
        }
        let count = self.0.shape()[0];
        Ok((count, bytes / count))
    }

    /// Calls `look` with its bytes. The GIL keeps Python code from changing them.
    pub fn with<T>(&self, _py: Python<'_>, look: impl FnOnce(&[u8]) -> T) -> T {
        if self.0.len_bytes() == 0 {
            return look(&[]);
        }
        // SAFETY: the bytes are contiguous and belong to the object for as long as the buffer
        // lives; code that follows Python's rules changes them with the GIL only.
        look(unsafe {
            std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes())
        })
    }

    /// Calls `change` with its bytes, if it is [writable](Self::writable).
    pub fn with_mut<T>(&self, _py: Python<'_>, change: impl FnOnce(&mut [u8]) -> T) -> T {
        if self.0.len_bytes() == 0 || self.0.readonly() {
            return change(&mut []);
        }
        // SAFETY: as above, and the object has said that they may be written.
        change(unsafe {
            std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes())
        })
    }
}

/// The failure of a buffer of ours that is closed.
pub fn given_back() -> Failure {
    Failure::closed("the buffer has been given back")
}

/// Fills a view of a buffer of ours with the start and length of its bytes; `None`: it is closed.
///
/// # Safety
/// The view is Python's, or null; the bytes live as long as the object, which the view refers to.
pub unsafe fn fill(
    object: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    shown: Option<(*mut c_void, usize)>,
) -> PyResult<()> {
    let Some((start, bytes)) = shown else {
        if !view.is_null() {
            // SAFETY: Python has made the view, and expects this in a view that is refused.
            unsafe { (*view).obj = null_mut() };
        }
        return Err(given_back().into());
    };
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view"));
    }
    let bytes = bytes as ffi::Py_ssize_t;
    // SAFETY: as the caller promises.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start, bytes, 0, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(object.py())) }
}

/// Exports a buffer of ours by DLPack, with the options of its protocol.
pub fn to_dlpack(
    object: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    let memory = object.py().import("crosslane._memory")?;
    Ok(memory.getattr("to_dlpack")?.call((object,), options)?.unbind())
}

/// Whether a format of the module `struct` has references to objects, or pointers.
fn is_of_objects(format: &str) -> bool {
    // Names of fields are between colons.
    format.split(':').step_by(2).any(|types| types.contains(['O', 'P', '&']))
}
