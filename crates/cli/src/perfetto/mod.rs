// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Perfetto trace files: the messages that are needed, and what writes them.

mod messages;
mod writer;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crosslane_explain::direction_name;
use crosslane_fabric::DirectionId;
use crosslane_fabric::trace::{TraceRecord, TraceSink};
use crosslane_lab::RunningLab;

use crate::arguments::TraceUnit;
use crate::error::CommandError;
use crate::output_file::{Kind, OutputFile};
use writer::TraceWriter;

/// Does `run` with a trace of it; `running` is a lab like the one that runs, to name its links.
///
/// # Errors
/// Where the file cannot be written.
pub fn traced<T>(
    path: &Path,
    lab: &str,
    unit: TraceUnit,
    running: RunningLab,
    run: impl FnOnce(&SharedTrace) -> T,
) -> Result<T, CommandError> {
    let file_error = |source| CommandError::File { path: path.to_owned(), source };
    let (file, unfinished) = OutputFile::file(path, Kind::Trace)?.begin()?;
    let whole = file.try_clone().map_err(file_error)?;
    let label = Box::new(move |id| direction_name(&running.fabric, id));
    let lab = format!("lab {lab}");
    let trace = SharedTrace::new(file, &lab, unit.picoseconds(), label);
    let result = run(&trace);
    trace.finish().map_err(file_error)?;
    unfinished.finish(&whole)?;
    Ok(result)
}

/// A trace file that a fabric writes to and the command ends.
#[derive(Clone)]
pub struct SharedTrace(Arc<Mutex<TraceWriter<BufWriter<File>>>>);

impl SharedTrace {
    /// Begins the file; see [`TraceWriter::new`].
    fn new(
        file: File,
        lab: &str,
        unit_ps: u64,
        label: Box<dyn Fn(DirectionId) -> String + Send>,
    ) -> Self {
        let writer = TraceWriter::new(BufWriter::new(file), lab, unit_ps, label);
        Self(Arc::new(Mutex::new(writer)))
    }

    /// What a fabric writes to.
    #[must_use]
    pub fn sink(&self) -> Box<dyn TraceSink> {
        let writer = Arc::clone(&self.0);
        Box::new(move |record: &TraceRecord| {
            writer.lock().unwrap_or_else(PoisonError::into_inner).record(record);
        })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// What went wrong with the file, now or before.
    pub fn finish(&self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }
}
