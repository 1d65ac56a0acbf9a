// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of every link's activity, for <https://ui.perfetto.dev>.

mod messages;
mod writer;

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::{Arc, Mutex};

use crosslane_experiment::direction_name;
use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::{TraceRecord, TraceSink};
use crosslane_host::lock;
use crosslane_lab::RunningLab;

use writer::TraceWriter;

/// A trace file that a fabric writes to. Clones write to the same file.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<TraceWriter<BufWriter<File>>>>);

impl Trace {
    /// Begins a trace of a lab's runs in an empty file. A nanosecond of the file stands for
    /// `unit_ps` picoseconds. `lab` is an instance of the traced lab, which gives the links their
    /// names.
    pub fn new(file: File, name: &str, unit_ps: u64, lab: RunningLab) -> Self {
        let label = Box::new(move |id: DirectionId| direction_name(&lab.fabric, id));
        let writer = TraceWriter::new(BufWriter::new(file), name, unit_ps, label);
        Self(Arc::new(Mutex::new(writer)))
    }

    /// Returns a sink for [`Fabric::set_trace`](crosslane_fabric::Fabric::set_trace).
    pub fn sink(&self) -> Box<dyn TraceSink> {
        let writer = Arc::clone(&self.0);
        Box::new(move |record: &TraceRecord| {
            lock(&writer).record(record);
        })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error of writing it, now or before.
    pub fn finish(&self) -> io::Result<()> {
        lock(&self.0).finish()
    }
}
