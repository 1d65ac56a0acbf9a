// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models made by Verilator, behind the C++ shim (`shim/card.cpp`). The crate's only unsafe code.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::CosimError;
use crate::model::Model;
use crate::pins::{Inputs, MemoryInputs, MemoryOutputs, NetworkInputs, NetworkOutputs, Outputs};

/// Functions of one model.
struct Functions<I, O> {
    name: &'static str,
    new: unsafe extern "C" fn() -> *mut c_void,
    delete: unsafe extern "C" fn(*mut c_void),
    clock: unsafe extern "C" fn(*mut c_void, *const I, *mut O),
    trace: unsafe extern "C" fn(*mut c_void, *const c_char) -> bool,
}

// The build writes `MODELS`, `MEMORY_MODELS` and `NETWORK_MODELS`, tables of each model's
// functions, and their declarations.
include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// Verilated circuit.
pub(crate) struct Verilated<I: 'static, O: 'static> {
    functions: &'static Functions<I, O>,
    handle: NonNull<c_void>,
}

// SAFETY: this value alone owns the handle, and each call borrows it mutably, so one thread uses a
// model at a time. A model keeps nothing of the thread that made it: it has its own context, and
// traces are written from the calling thread.
unsafe impl<I: 'static, O: 'static> Send for Verilated<I, O> {}

/// Returns the model of a card by its name if it is built.
pub(crate) fn card(name: &str) -> Option<Verilated<Inputs, Outputs>> {
    Verilated::new(&MODELS, name)
}

/// Returns the model of a card with memory by its name if it is built.
pub(crate) fn card_with_memory(name: &str) -> Option<Verilated<MemoryInputs, MemoryOutputs>> {
    Verilated::new(&MEMORY_MODELS, name)
}

/// Returns the model of a network processor by its name if it is built.
pub(crate) fn network(name: &str) -> Option<Verilated<NetworkInputs, NetworkOutputs>> {
    Verilated::new(&NETWORK_MODELS, name)
}

impl<I: 'static, O: 'static> Verilated<I, O> {
    fn new(models: &'static [Functions<I, O>], name: &str) -> Option<Self> {
        let functions = models.iter().find(|functions| functions.name == name)?;
        // SAFETY: the function takes nothing and returns a new model, which `drop` deletes.
        let handle = unsafe { (functions.new)() };
        NonNull::new(handle).map(|handle| Self { functions, handle })
    }
}

impl<I: 'static, O: 'static> Model<I, O> for Verilated<I, O> {
    fn clock(&mut self, inputs: &I, outputs: &mut O) {
        // SAFETY: the handle belongs to this model alone; both structures have the layout that the
        // shim expects and are borrowed exclusively for the length of the call.
        unsafe { (self.functions.clock)(self.handle.as_ptr(), inputs, outputs) }
    }

    fn trace_to(&mut self, file: &Path) -> Result<(), CosimError> {
        if !cfg!(feature = "trace") {
            return Err(CosimError::NoTrace);
        }
        let failed = || CosimError::TraceFile { file: file.to_owned() };
        let name = CString::new(file.as_os_str().as_bytes()).map_err(|_| failed())?;
        // SAFETY: the handle belongs to this model alone; the name ends with a zero and is valid
        // for the length of the call.
        let is_open = unsafe { (self.functions.trace)(self.handle.as_ptr(), name.as_ptr()) };
        is_open.then_some(()).ok_or_else(failed)
    }
}

impl<I: 'static, O: 'static> Drop for Verilated<I, O> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `new` of the same model and is not used again.
        unsafe { (self.functions.delete)(self.handle.as_ptr()) }
    }
}
