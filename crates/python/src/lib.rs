// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The native part of the Python package `crosslane`: labs and their runs, cards and transfers.
//!
//! Read first: `python/crosslane/__init__.py`, then `Lab` and `Session`. Every call into the other
//! crates is made without the GIL by `call`, which also makes panics exceptions.

mod buffer;
mod call;
mod card;
mod error;
mod host;
mod lab;
mod port;
mod run;
mod running;
mod session;
mod transfer;
mod view;

use pyo3::prelude::*;

/// Formats the JSON of an outcome as the program prints it.
#[pyfunction]
fn text(outcome: &str) -> PyResult<String> {
    Ok(run::as_text(outcome)?)
}

/// The module `crosslane._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(text, module)?)?;
    module.add_function(wrap_pyfunction!(card::open, module)?)?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<card::Card>()?;
    module.add_class::<card::Session>()?;
    module.add_class::<host::Host>()?;
    module.add_class::<host::HostMemory>()?;
    module.add_class::<host::Operation>()?;
    module.add_class::<lab::Lab>()?;
    module.add_class::<port::Port>()?;
    module.add_class::<port::Tlp>()?;
    module.add_class::<running::Flow>()?;
    module.add_class::<running::RunningLab>()?;
    module.add_class::<transfer::Completed>()?;
    module.add_class::<transfer::Transfer>()?;
    Ok(())
}
