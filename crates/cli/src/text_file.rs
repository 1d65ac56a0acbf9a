// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text files that a command reads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::CommandError;

/// Reads a text file, and no more than one byte behind `most_bytes`.
///
/// # Errors
/// A file that cannot be read, or is not text.
pub fn read_text(path: &Path, most_bytes: usize) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(most_bytes as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| cannot_read(path, &error))?;
    String::from_utf8(bytes).map_err(|_| cannot_read(path, &"it is not a text file (UTF-8)"))
}

/// Makes the error of a file that cannot be read.
pub fn cannot_read(path: &Path, problem: &dyn std::fmt::Display) -> CommandError {
    CommandError::Failed(format!("{} cannot be read: {problem}", path.display()))
}
