// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as Linux shows it: folders of devices, their nodes, and processes.

use std::path::{Path, PathBuf};

use super::{PciFunction, Result, Tree};
use crosslane_sysfs::attribute::{shown, text};

/// Most processes that are searched for users of a device.
const MOST_PROCESSES: usize = 100_000;
/// Most open files of one process that are searched.
const MOST_FILES: usize = 100_000;

/// The folders `/sys`, `/dev` and `/proc` of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

/// A process that has a function open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Number of the process.
    pub process: u32,
    /// Name of its program.
    pub name: String,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.process, self.name)
    }
}

impl Machine {
    /// The machine that this program runs on.
    pub fn this() -> Self {
        Self::below(Path::new("/"))
    }

    /// A machine whose folders lie below `root`.
    pub fn below(root: &Path) -> Self {
        Self { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }

    /// Reads its present PCI tree.
    ///
    /// # Errors
    /// Those of [`Tree::read`].
    pub fn tree(&self) -> Result<Tree> {
        Tree::read(&self.sys)
    }

    /// Lists the NUMA nodes that have memory, lowest first; none if the kernel shows no nodes.
    pub fn memory_nodes(&self) -> Vec<u32> {
        let folder = self.nodes();
        let list = text(&folder.join("has_memory")).or_else(|| text(&folder.join("online")));
        numbers(&list.unwrap_or_default())
    }

    /// Returns the memory that a NUMA node can still give, bytes: what is free, and what the kernel
    /// holds of files.
    pub(crate) fn free_bytes_of(&self, node: u32) -> Option<u64> {
        let text = text(&self.nodes().join(format!("node{node}/meminfo")))?;
        let of = |line: &str| {
            let (name, value) = line.split_once(':')?;
            let counts = ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"];
            let is_free = counts.contains(&name.split_whitespace().next_back()?);
            let kib = value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
            is_free.then_some(kib << 10)
        };
        Some(text.lines().filter_map(of).sum())
    }

    fn nodes(&self) -> PathBuf {
        self.sys.join("devices/system/node")
    }

    /// The nodes through which a function bound to VFIO is opened: its group's, and its individual
    /// one in a kernel with iommufd.
    pub fn vfio_nodes(&self, function: &PciFunction) -> Vec<PathBuf> {
        let mut nodes = Vec::new();
        if let Some(group) = &function.iommu_group {
            nodes.push(self.dev.join("vfio").join(group.number.to_string()));
        }
        let own = std::fs::read_dir(function.folder.join("vfio-dev")).into_iter().flatten();
        for entry in own.take(8).flatten() {
            nodes.push(self.dev.join("vfio/devices").join(entry.file_name()));
        }
        nodes
    }

    /// Returns the processes that have a function's VFIO nodes open; without root, only the user's
    /// own.
    pub fn users(&self, function: &PciFunction) -> Vec<User> {
        let nodes = self.vfio_nodes(function);
        let mut users = Vec::new();
        for entry in std::fs::read_dir(&self.proc).into_iter().flatten().take(MOST_PROCESSES) {
            let Some(entry) = entry.ok() else { continue };
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let folder = entry.path();
            let files = std::fs::read_dir(folder.join("fd")).into_iter().flatten();
            let mut targets =
                files.take(MOST_FILES).flatten().map(|f| std::fs::read_link(f.path()));
            if targets.any(|target| target.is_ok_and(|target| nodes.contains(&target))) {
                let name = shown(&text(&folder.join("comm")).unwrap_or_default());
                users.push(User { process, name });
            }
        }
        users
    }
}

/// Most numbers of a list.
const MOST_NUMBERS: usize = 1024;

/// Reads a list as the kernel writes it: `0-3,8`.
fn numbers(list: &str) -> Vec<u32> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    });
    ranges.flatten().take(MOST_NUMBERS).collect()
}
