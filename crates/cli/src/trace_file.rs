// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--trace` of the commands that have it.

use crosslane::lab::RunningLab;
use crosslane::trace::Trace;
use crosslane_report::output::{Kind, OutputError};

use crate::arguments::TraceArguments;
use crate::error::CommandError;
use crate::report_file::output_of;

/// Calls `run` with the trace that is wanted; `running` is a lab like the one that runs, to name
/// its links.
///
/// # Errors
/// A file that cannot be written.
pub fn traced<T>(
    TraceArguments { trace, trace_unit }: &TraceArguments,
    lab: &str,
    running: RunningLab,
    run: impl FnOnce(Option<&Trace>) -> T,
) -> Result<T, CommandError> {
    let Some(path) = trace else { return Ok(run(None)) };
    let file_error = |source| OutputError::file(path, source);
    let (file, unfinished) = output_of(path, Kind::Trace)?.begin()?;
    let whole = file.try_clone().map_err(file_error)?;
    let trace = Trace::new(file, &format!("lab {lab}"), *trace_unit, running);
    let result = run(Some(&trace));
    trace.finish().map_err(file_error)?;
    unfinished.finish(&whole)?;
    Ok(result)
}
