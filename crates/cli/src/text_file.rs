// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text files that a command reads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::CommandError;

/// Problem of a file that has to be text and is not.
pub const NOT_TEXT: &str = "it is not a text file (UTF-8)";

/// Reads a text file, and no more than one byte behind `most_bytes`; `failed` makes the error.
///
/// # Errors
/// A file that cannot be read, or is not text.
pub fn read_text(
    path: &Path,
    most_bytes: usize,
    failed: fn(String) -> CommandError,
) -> Result<String, CommandError> {
    let failed =
        |problem: &dyn ToString| failed(format!("{}: {}", path.display(), problem.to_string()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(most_bytes as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|_| failed(&NOT_TEXT))
}
