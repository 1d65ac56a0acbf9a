// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are secrets.

use std::fs::Metadata;
use std::path::Path;

/// Checks that nobody but its owner may read or change a file with a key.
///
/// # Errors
/// The sentence of a file that others may read or change, with the command that helps.
pub fn check_private(path: &Path, file: &Metadata) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.permissions().mode() & 0o777;
        // A device or pipe, such as /dev/stdin, is nobody's to keep.
        if file.is_file() && mode & 0o077 != 0 {
            let place = path.display();
            return Err(format!("others may read {place} (mode {mode:o}): chmod 600 {place}"));
        }
    }
    let _ = (path, file);
    Ok(())
}
