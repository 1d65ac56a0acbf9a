// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--trace` of the commands that have it.

use std::path::Path;

use crosslane::lab::RunningLab;
use crosslane::trace::Trace;

use crate::arguments::TraceUnit;
use crate::error::CommandError;
use crate::output_file::{Kind, OutputFile};

/// Does `run` with a trace of it; `running` is a lab like the one that runs, to name its links.
///
/// # Errors
/// A file that cannot be written.
pub fn traced<T>(
    path: &Path,
    lab: &str,
    unit: TraceUnit,
    running: RunningLab,
    run: impl FnOnce(&Trace) -> T,
) -> Result<T, CommandError> {
    let file_error = |source| CommandError::File { path: path.to_owned(), source };
    let (file, unfinished) = OutputFile::file(path, Kind::Trace)?.begin()?;
    let whole = file.try_clone().map_err(file_error)?;
    let trace = Trace::new(file, &format!("lab {lab}"), unit.picoseconds(), running);
    let result = run(&trace);
    trace.finish().map_err(file_error)?;
    unfinished.finish(&whole)?;
    Ok(result)
}
