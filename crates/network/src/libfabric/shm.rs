// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of this machine's endpoints in shared memory, and removal of those that died.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of the names of all endpoints of this program, followed by the number of the process and
/// a number of the endpoint.
const PREFIX: &str = "crosslane";
/// Folder of the provider's files.
pub const FOLDER: &str = "/dev/shm";

/// Returns a name that no other endpoint of this machine has.
pub fn endpoint_name() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{PREFIX}-{}-{number}", std::process::id())
}

/// Deletes the files left by killed processes. Failures do no harm: no endpoint will take those
/// names again.
pub fn remove_stale_files() {
    remove_stale(Path::new(FOLDER), |process| Path::new("/proc").join(process).exists());
}

fn remove_stale(folder: &Path, lives: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.split_once(PREFIX)) else { continue };
        let mut words = rest.1.split('-');
        let (Some(""), Some(process)) = (words.next(), words.next()) else { continue };
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && !lives(process) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_dead_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let keep =
            ["crosslane-12-1", "crosslane-x-1", "other-11-1", "crosslane", "crosslane2-11-1"];
        let dead = ["crosslane-11-1", "crosslane-11-20", "fi_crosslane-13-1_0"];
        for name in keep.iter().chain(&dead) {
            fs::write(folder.join(name), "").unwrap();
        }
        remove_stale(folder, |process| process == "12");
        let left = |name: &&&str| folder.join(name).exists();
        assert_eq!(keep.iter().filter(left).count(), keep.len());
        assert_eq!(dead.iter().filter(left).count(), 0);
    }
}
