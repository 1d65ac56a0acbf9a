// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of sysfs: small, each with one value.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use crate::{Result, SysfsError};

/// Most bytes read from a file; the kernel's attributes are no longer than a page.
const MOST_BYTES: u64 = 4096;

/// Reads at most `MOST_BYTES` of a file; `None` if it is missing or unreadable.
pub fn bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads the text of an attribute without its last newline; `None` if it is missing.
pub fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(path)?).trim_end().to_owned())
}

/// Reads a number, decimal or with `0x`.
pub fn number(path: &Path) -> Option<u64> {
    parse(&text(path)?)
}

/// Parses a number, decimal or with `0x`.
pub fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the name of a link's target, by which sysfs names drivers and groups.
pub fn link_name(path: &Path) -> Option<String> {
    let target = std::fs::read_link(path).ok()?;
    Some(shown(&target.file_name()?.to_string_lossy()))
}

/// Makes text from outside printable by replacing control characters.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Writes a value to an existing file in one call.
pub fn write(path: &Path, value: &str, what: &str) -> Result<()> {
    let write = || OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes());
    write().map_err(|error: std::io::Error| SysfsError::Refused {
        what: what.to_owned(),
        path: path.to_owned(),
        remedy: match error.kind() {
            ErrorKind::PermissionDenied => "run the command as root (sudo)".to_owned(),
            _ => String::new(),
        },
        why: error.into(),
    })
}
