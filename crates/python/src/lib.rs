// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The native part of the Python package `crosslane`: labs and their runs, cards and transfers.
//!
//! Read first: `python/crosslane/__init__.py`, then `Lab` and `Session`. Every call into the other
//! crates is made without the GIL by `call`, which also makes panics exceptions.

mod bridge;
mod buffer;
mod call;
mod card;
mod error;
mod host;
mod kept;
mod lab;
mod memory_card;
mod network;
mod open;
mod packets;
mod peer;
mod plan;
mod port;
mod posted;
mod process;
mod run;
mod running;
mod session;
mod slots;
mod state;
mod transfer;
mod view;
mod window;

use crosslane::driver::fill_pattern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Formats the JSON of an outcome as the program prints it.
#[pyfunction]
fn text(outcome: &str) -> PyResult<String> {
    Ok(run::as_text(outcome)?)
}

/// Returns bytes of the generator's pattern, from a word of 4 B on.
#[pyfunction]
#[pyo3(signature = (bytes, seed, word = 0))]
fn pattern(py: Python<'_>, bytes: usize, seed: u32, word: u32) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, bytes, |into| {
        fill_pattern(into, seed, word);
        Ok(())
    })
}

/// The module `crosslane._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    process::watch()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(text, module)?)?;
    module.add_function(wrap_pyfunction!(pattern, module)?)?;
    module.add_function(wrap_pyfunction!(open::open, module)?)?;
    module.add_function(wrap_pyfunction!(bridge::bridge, module)?)?;
    module.add_class::<bridge::BridgeBuffer>()?;
    module.add_class::<bridge::BridgeClient>()?;
    module.add_class::<bridge::BridgeCompleted>()?;
    module.add_class::<bridge::BridgeReloaded>()?;
    module.add_class::<bridge::BridgeTransfer>()?;
    module.add_class::<bridge::RemoteCard>()?;
    module.add_class::<buffer::Buffer>()?;
    module.add_class::<card::Card>()?;
    module.add_class::<host::Host>()?;
    module.add_class::<host::HostMemory>()?;
    module.add_class::<host::Operation>()?;
    module.add_class::<lab::Lab>()?;
    module.add_class::<memory_card::MemoryCard>()?;
    module.add_class::<network::NetworkProcessor>()?;
    module.add_class::<open::Session>()?;
    module.add_class::<packets::Packet>()?;
    module.add_class::<packets::PacketReceiver>()?;
    module.add_class::<packets::Reception>()?;
    module.add_class::<peer::Check>()?;
    module.add_class::<peer::Peer>()?;
    module.add_class::<peer::PeerMemory>()?;
    module.add_class::<peer::PingPong>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<port::Port>()?;
    module.add_class::<port::Tlp>()?;
    module.add_class::<running::Flow>()?;
    module.add_class::<running::RunningLab>()?;
    module.add_class::<slots::SlotReceiver>()?;
    module.add_class::<slots::SlotSender>()?;
    module.add_class::<transfer::Completed>()?;
    module.add_class::<transfer::Transfer>()?;
    module.add_class::<window::Window>()?;
    Ok(())
}
