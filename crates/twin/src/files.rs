// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files and folders of dumps, recognised by what is in them. A browser has neither.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crosslane_sysfs::{PciFunction, Tree};
use flate2::read::GzDecoder;

use crate::error::{DumpError, Result};
use crate::seen::{Inventory, Seen};
use crate::text::{known, text};

/// Most bytes of a listing or an XML file, and of all that is in a tar file.
const MOST_BYTES: u64 = 64 << 20;
/// Most members of a tar file.
const MOST_MEMBERS: usize = 1 << 20;
/// First bytes of a file compressed by gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// First bytes of other packed files, and what unpacks them.
const PACKED: [(&[u8], &str); 4] = [
    (b"BZh", "bunzip2"),
    (b"\xfd7zXZ", "unxz"),
    (b"\x28\xb5\x2f\xfd", "unzstd"),
    (b"PK\x03\x04", "unzip"),
];
/// Offset and text of the magic of a tar file (POSIX `ustar`).
const TAR: (usize, &[u8]) = (257, b"ustar");

impl DumpError {
    fn unreadable(path: &Path, error: std::io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), why: error.into() }
    }
}

impl Seen {
    /// Returns a function of the machine that this program runs on, or of a folder like its `/sys`.
    pub fn of(function: &PciFunction) -> Self {
        let link = function.link().filter(|_| function.express().is_none());
        Self {
            parent: function.parent,
            identity: Some((function.vendor, function.device)),
            subsystem: Some(function.subsystem),
            class: Some(function.class),
            revision: Some(function.revision),
            bars: function.bars.clone(),
            numa_node: function.numa_node,
            iommu_group: function.iommu_group.clone(),
            driver: function.driver.clone(),
            kind: Some(function.kind).filter(|_| function.kind_is_read),
            configuration: function.configuration.bytes().to_vec(),
            kernel_link: link,
            ..Self::default()
        }
    }
}

/// Reads a file or a folder.
pub(crate) fn read(path: &Path) -> Result<Inventory> {
    let unreadable = |error| DumpError::unreadable(path, error);
    if path.is_dir() {
        return folder(path, path);
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut first = [0; 512];
    let mut filled = 0;
    while let count @ 1.. = file.read(&mut first[filled..]).map_err(unreadable)? {
        filled += count;
    }
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let first = &first[..filled];
    if first.starts_with(&GZIP) {
        return archive(path, GzDecoder::new(file));
    }
    if let Some((_, program)) = PACKED.iter().find(|(magic, _)| first.starts_with(magic)) {
        let problem = format!("it is packed; unpack it with {program} first");
        return Err(DumpError::bad(path, 0, problem));
    }
    if first.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1)) {
        return archive(path, file);
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(DumpError::TooLarge { path: path.to_owned(), most_bytes: MOST_BYTES });
    }
    text(path, &bytes)
}

/// Reads the tree in a folder: `/`, `/sys`, `/sys/bus/pci`, `/sys/bus/pci/devices`, or a copy of
/// one of them. `path` names it in errors.
fn folder(path: &Path, found: &Path) -> Result<Inventory> {
    let Some(devices) = devices_below(found) else {
        return Err(DumpError::Unknown { path: path.to_owned() });
    };
    let tree =
        Tree::read_devices(&devices).map_err(|error| DumpError::bad(path, 0, error.to_string()))?;
    let file = path.display().to_string();
    let seen = |function| Seen { file: file.clone(), ..Seen::of(function) };
    let functions = tree.functions().map(|function| (function.address, seen(function)));
    known(path, Inventory { functions: functions.collect(), ..Inventory::default() })
}

/// Finds the folder with an entry for each function.
fn devices_below(folder: &Path) -> Option<PathBuf> {
    let below = ["", "devices", "bus/pci/devices", "sys/bus/pci/devices"];
    let holds_functions = |folder: &PathBuf| {
        let Ok(entries) = std::fs::read_dir(folder) else { return false };
        let mut names = entries.flatten().take(MOST_MEMBERS).map(|entry| entry.file_name());
        names.any(|name| name.to_str().is_some_and(|name| name.parse::<crate::Address>().is_ok()))
    };
    if let Some(found) = below.iter().map(|part| folder.join(part)).find(holds_functions) {
        return Some(found);
    }
    // An archive often has one folder with the machine's name.
    let mut inside = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    match (inside.next(), inside.next()) {
        (Some(only), None) if only.is_dir() => {
            below.iter().map(|part| only.join(part)).find(holds_functions)
        }
        _ => None,
    }
}

/// Reads a tar file, unpacked into a folder that is removed afterwards.
fn archive(path: &Path, contents: impl Read) -> Result<Inventory> {
    let unreadable = |error| DumpError::unreadable(path, error);
    let scratch = tempfile::tempdir().map_err(unreadable)?;
    let mut archive = tar::Archive::new(contents.take(MOST_BYTES + 1));
    let broken = |error: std::io::Error| DumpError::bad(path, 0, error.to_string());
    let mut left = MOST_BYTES;
    for member in archive.entries().map_err(broken)?.take(MOST_MEMBERS) {
        // Members behind a cut are missing; those before it are there.
        let Ok(mut member) = member else { break };
        left = left
            .checked_sub(member.header().entry_size().unwrap_or(0))
            .ok_or_else(|| DumpError::TooLarge { path: path.to_owned(), most_bytes: MOST_BYTES })?;
        if is_wanted(&member) {
            // Never outside of the folder, and odd members are left out.
            let _ = member.unpack_in(scratch.path());
        }
    }
    folder(path, scratch.path())
}

/// Whether a member of a tar file is a part of the PCI tree: a folder, a link, or an attribute that
/// is read.
fn is_wanted(member: &tar::Entry<'_, impl Read>) -> bool {
    use tar::EntryType;
    let Ok(path) = member.path() else { return false };
    let is_pci = path.components().any(|part| part.as_os_str().to_string_lossy().contains("pci"));
    let is_address = |part: &std::path::Component<'_>| {
        part.as_os_str().to_str().is_some_and(|part| part.parse::<crate::Address>().is_ok())
    };
    if !is_pci && !path.components().any(|part| is_address(&part)) {
        return false;
    }
    match member.header().entry_type() {
        EntryType::Directory | EntryType::Symlink => true,
        EntryType::Regular => {
            path.file_name().is_some_and(|name| Tree::ATTRIBUTES.iter().any(|it| name == *it))
        }
        _ => false,
    }
}
