// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows: a part of a BAR that the host stores into and loads from.

use std::sync::Arc;

use crosslane::driver::{
    Contents, SlotReceiver as Receiver, SlotSender as Sender, Window as Opened, WindowOptions,
};
use crosslane::host::Mapping;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error::Failure;
use crate::kept::{Kept, leave};
use crate::session::Shared;
use crate::slots::{SlotReceiver, SlotSender};
use crate::state::State;
use crate::view::View;

/// A part of a BAR that the host stores into and loads from. A context manager.
#[pyclass(frozen, module = "crosslane")]
pub struct Window {
    window: Kept<Opened>,
    size_bytes: u64,
    /// Name for people: `f1 BAR4`.
    place: String,
}

/// A part of a BAR.
pub struct Part {
    /// Number of the BAR.
    pub bar: u8,
    /// First byte.
    pub start: u64,
    /// The byte behind the last; `None` for the end of the BAR.
    pub stop: Option<u64>,
    /// Bytes from the beginning that a FIFO decodes.
    pub decoded_bytes: u64,
}

impl Window {
    /// Opens a window into a card, which is opened if it was not.
    pub fn open(
        py: Python<'_>,
        session: &Arc<Shared>,
        (card, function): (usize, &str),
        part: Part,
        mapping: &str,
        contents: &str,
    ) -> PyResult<Self> {
        let Part { bar, start, stop, decoded_bytes } = part;
        let mapping = match mapping {
            "uncached" => Mapping::Uncached,
            "write_combined" => Mapping::WriteCombined,
            other => {
                let problem = format!("mapping {other:?}: it is 'uncached' or 'write_combined'");
                return Err(Failure::argument(problem).into());
            }
        };
        let contents = match contents {
            "registers" => Contents::Registers,
            "memory" => Contents::Memory,
            "fifo" => Contents::Fifo { decoded_bytes },
            other => {
                let problem =
                    format!("contents {other:?}: they are 'registers', 'memory' or 'fifo'");
                return Err(Failure::argument(problem).into());
            }
        };
        let (window, place) = session.call(py, |state| {
            state.enable(card)?;
            let of = state.function(function)?;
            let place = format!("{} BAR{bar}", of.name);
            let found = of.bars.iter().find(|found| found.index == usize::from(bar));
            let missing = || Failure::argument(format!("{} has no BAR{bar}", of.name));
            let end = stop.unwrap_or(found.ok_or_else(missing)?.size_bytes);
            let options = WindowOptions::new(bar, start..end);
            let options = options.with_mapping(mapping).with_contents(contents);
            Ok((Opened::open(state.bus().clone(), of.id, options)?, place))
        })?;
        let size_bytes = window.size_bytes();
        Ok(Self { window: Kept::new(session, "the window", window), size_bytes, place })
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<(), Failure> {
        let (place, size) = (&self.place, self.size_bytes);
        match offset.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Failure::argument(format!(
                "{place}: {bytes} B at {offset:#x} reach beyond a window of {size} B"
            ))),
        }
    }
}

#[pymethods]
impl Window {
    fn __len__(&self) -> usize {
        self.size_bytes as usize
    }

    #[getter]
    const fn nbytes(&self) -> u64 {
        self.size_bytes
    }

    /// Stores bytes, lowest address first: by the widest stores of the processor, or by those of
    /// `width` bytes.
    #[pyo3(signature = (offset, data, *, width = None))]
    fn write(
        &self,
        py: Python<'_>,
        offset: u64,
        data: &Bound<'_, PyAny>,
        width: Option<u32>,
    ) -> PyResult<()> {
        let data = View::of(data)?.with(py, <[u8]>::to_vec);
        self.window.call(py, |state, window| match width {
            None => state.run(window.copy(offset, &data)),
            Some(width) => state.run(window.store(offset, &data, width)),
        })
    }

    /// Pushes bytes into a FIFO; write-combined in whole lines of 64 B.
    fn push(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = View::of(data)?.with(py, <[u8]>::to_vec);
        self.window.call(py, |state, window| state.run(window.push(&data)))
    }

    /// Loads bytes.
    fn read<'py>(&self, py: Python<'py>, offset: u64, bytes: u64) -> PyResult<Bound<'py, PyBytes>> {
        self.check(offset, bytes)?;
        let mut loaded = vec![0; bytes as usize];
        self.window.call(py, |state, window| state.run(window.read(offset, &mut loaded)))?;
        Ok(PyBytes::new(py, &loaded))
    }

    /// Loads bytes into an object.
    fn read_into(&self, py: Python<'_>, offset: u64, target: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = View::writable(target)?;
        self.check(offset, view.bytes())?;
        let mut loaded = vec![0; view.bytes() as usize];
        self.window.call(py, |state, window| state.run(window.read(offset, &mut loaded)))?;
        view.with_mut(py, |bytes| bytes.copy_from_slice(&loaded));
        Ok(())
    }

    /// Waits until everything that was stored has left the core: a fence.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.window.call(py, |state, window| state.run(window.flush()))
    }

    /// Makes the sending end of slots for messages, which fill the window.
    fn slot_sender(&self, py: Python<'_>) -> PyResult<SlotSender> {
        let sender =
            self.window.call(py, |state, window| state.run(Sender::new(window.clone())))?;
        Ok(SlotSender::new(self.window.session(), sender))
    }

    /// Makes the receiving end of slots, through an uncached window onto the same memory.
    fn slot_receiver(&self, py: Python<'_>) -> PyResult<SlotReceiver> {
        let receiver = self.window.call(py, |_, window| Ok(Receiver::new(window.clone())?))?;
        Ok(SlotReceiver::new(self.window.session(), receiver))
    }

    /// Closes it. What the core has combined is stored before.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let flush = |state: &mut State, window: Opened| state.run(window.flush());
        self.window.close(py, |_, _| Ok(()), flush)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(raised, self.close(py))
    }

    fn __repr__(&self) -> String {
        let closed = if self.window.is_over() { ", closed" } else { "" };
        format!("<crosslane.Window of {} B, {}{closed}>", self.size_bytes, self.place)
    }
}
