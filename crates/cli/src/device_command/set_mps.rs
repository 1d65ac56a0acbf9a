// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device set-mps`: Max_Payload_Size of every port on a path.

use crosslane::machine::{Address, PathError, set_max_payload};
use crosslane_report::text;

use super::arguments::SetMpsArguments;
use super::machine;
use crate::error::CommandError;
use crate::output;

/// Stands for the memory of the machine.
const HOST: &str = "host";

fn usage(error: impl std::fmt::Display) -> CommandError {
    CommandError::Usage(format!("--path: {error}"))
}

fn end(text: &str) -> Result<Option<Address>, CommandError> {
    match text {
        HOST => Ok(None),
        text => text.parse().map(Some).map_err(usage),
    }
}

/// `device set-mps`.
///
/// # Errors
/// Ends without a path, a size that a port does not support or keep, and a missing right.
pub fn run(arguments: &SetMpsArguments) -> Result<(), CommandError> {
    let [from, to] = &arguments.path[..] else { return Err(usage("it has two ends")) };
    let ends = [end(from)?, end(to)?];
    let bytes = arguments.bytes;
    let sizes = set_max_payload(&machine(&arguments.output.root), ends, bytes);
    let sizes = sizes.map_err(|error| match error {
        PathError::Function(error) => CommandError::Device(error),
        PathError::Plan(error) => CommandError::Way(error),
        PathError::NoFunction | PathError::Domains(..) => usage(error),
    })?;
    output::show(arguments.output.json, &sizes, |_| text::payload_sizes(&sizes, bytes))
}
