// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cards, which the host stores into through windows, and what has reached them.

use std::sync::Arc;

use crosslane::driver::MemoryCard as Opened;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::kept::Kept;
use crate::session::Shared;

/// A card that was opened as a memory card.
#[pyclass(frozen, module = "crosslane")]
pub struct MemoryCard {
    card: Kept<Opened>,
    #[pyo3(get)]
    fifo_window_bytes: u32,
}

impl MemoryCard {
    /// Checks that a card is a memory card, and enables its memory space.
    pub fn open(py: Python<'_>, session: &Arc<Shared>, card: usize) -> PyResult<Self> {
        let opened = session.call(py, |state| {
            let name = state.endpoint(card)?;
            let opened = state.run(Opened::open_by_name(state.bus().clone(), &name))?;
            state.set_enabled(card);
            Ok(opened)
        })?;
        let fifo_window_bytes = opened.fifo_window_bytes();
        Ok(Self { card: Kept::new(session, "the memory card", opened), fifo_window_bytes })
    }
}

#[pymethods]
impl MemoryCard {
    /// Counters of what has reached it, which begin anew: `beats`, written and read of each bank,
    /// `sizes`, bytes, writes and reads by length, and those of the FIFO.
    fn take_metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let taken = self.card.call(py, |state, card| state.run(card.take_metrics()))?;
        let named = PyDict::new(py);
        named.set_item("beats", taken.beats)?;
        named.set_item("sizes", taken.sizes)?;
        named.set_item("fifo_writes", taken.fifo_writes)?;
        named.set_item("fifo_bytes", taken.fifo_bytes)?;
        named.set_item("fifo_lost", taken.fifo_lost)?;
        Ok(named)
    }

    /// Takes all bytes out of the FIFO, oldest first.
    fn drain_fifo<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.card.call(py, |state, card| state.run(card.drain_fifo()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __repr__(&self) -> String {
        let closed = if self.card.is_over() { " (closed)" } else { "" };
        format!("<crosslane.MemoryCard{closed}>")
    }
}
