// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The models that Verilator has made, behind the shim in C++ (`shim/card.cpp`). The only place
//! that is not safe.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::CosimError;
use crate::model::Model;
use crate::pins::{Inputs, Outputs};

/// The functions of one model.
struct Functions {
    name: &'static str,
    new: unsafe extern "C" fn() -> *mut c_void,
    delete: unsafe extern "C" fn(*mut c_void),
    clock: unsafe extern "C" fn(*mut c_void, *const Inputs, *mut Outputs),
    trace: unsafe extern "C" fn(*mut c_void, *const c_char) -> bool,
}

// The build writes `MODELS`, the functions of each model, and their declarations.
include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// A verilated circuit.
pub(crate) struct Verilated {
    functions: &'static Functions,
    handle: NonNull<c_void>,
}

// SAFETY: the handle is owned by this value alone and each call has it mutably, so one thread uses
// a model at a time. A model keeps nothing of the thread it was made on: it has a context of its
// own, and its tracing writes from the thread that calls.
unsafe impl Send for Verilated {}

impl Verilated {
    /// The model of a configuration, if it is built.
    pub fn new(name: &str) -> Option<Self> {
        let functions = MODELS.iter().find(|functions| functions.name == name)?;
        // SAFETY: the function takes nothing and returns a model of its own, which `drop` deletes.
        let handle = unsafe { (functions.new)() };
        NonNull::new(handle).map(|handle| Self { functions, handle })
    }
}

impl Model for Verilated {
    fn clock(&mut self, inputs: &Inputs, outputs: &mut Outputs) {
        // SAFETY: the handle is of this model and nobody else has it; both structures have the
        // layout that the shim expects and are its own for the length of the call.
        unsafe { (self.functions.clock)(self.handle.as_ptr(), inputs, outputs) }
    }

    fn trace_to(&mut self, file: &Path) -> Result<(), CosimError> {
        if !cfg!(feature = "trace") {
            return Err(CosimError::NoTrace);
        }
        let failed = || CosimError::TraceFile { file: file.to_owned() };
        let name = CString::new(file.as_os_str().as_bytes()).map_err(|_| failed())?;
        // SAFETY: the handle is of this model and nobody else has it; the name ends with a zero
        // and is there for the length of the call.
        let is_open = unsafe { (self.functions.trace)(self.handle.as_ptr(), name.as_ptr()) };
        is_open.then_some(()).ok_or_else(failed)
    }
}

impl Drop for Verilated {
    fn drop(&mut self) {
        // SAFETY: the handle came from `new` of the same model and is not used any more.
        unsafe { (self.functions.delete)(self.handle.as_ptr()) }
    }
}
