// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program's rights to a function, and the commands that grant the missing ones.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::binding::{VFIO_PCI, why_kept};
use super::{Machine, PciFunction};
use crosslane_sysfs::attribute::{number, text};

/// Locked memory that a transfer of this size needs, bytes; compared with the program's limit.
pub const ENOUGH_LOCKED_BYTES: u64 = 64 << 20;

/// Finding for a function that VFIO cannot have.
const NO_GROUP: &str = "it is in no IOMMU group";

/// Folder below `/dev` in which kernels with iommufd show functions.
const DEVICES: &str = "vfio/devices";

/// One right, and whether this program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The action that it permits.
    pub what: &'static str,
    /// Whether this program has it.
    pub granted: bool,
    /// The finding: the node, or the missing part.
    pub found: String,
    /// The command that grants it; empty if it is granted, or none is known.
    pub command: String,
}

/// Huge pages of one size that the machine has set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Size of each, bytes.
    pub page_bytes: u64,
    /// Number of pages.
    pub pages: u64,
    /// Number of free pages.
    pub free: u64,
}

fn may(path: &Path, access: Access) -> Result<(), String> {
    accessat(CWD, path, access, AtFlags::EACCESS)
        .map_err(|error| format!("{}: {}", path.display(), std::io::Error::from(error)))
}

fn right(what: &'static str, outcome: Result<String, (String, String)>) -> Right {
    match outcome {
        Ok(found) => Right { what, granted: true, found, command: String::new() },
        Err((found, command)) => Right { what, granted: false, found, command },
    }
}

/// Returns the program's limit of locked memory, bytes; `None` if it is unlimited or unknown.
fn locked_limit(machine: &Machine) -> Option<u64> {
    let limits = text(&machine.proc.join("self/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether the program may lock memory without limit (`CAP_IPC_LOCK`).
fn locks_freely(machine: &Machine) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = text(&machine.proc.join("self/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .is_some_and(|capabilities| capabilities >> CAP_IPC_LOCK & 1 != 0)
}

/// Returns the rights that driving a function needs, in the order of their use.
pub fn rights(machine: &Machine, function: &PciFunction) -> Vec<Right> {
    let both = Access::READ_OK | Access::WRITE_OK;
    let address = function.address;
    let readable = function.configuration.readable_bytes();
    let sudo = |words: String| format!("sudo {words}");
    let mut rights = vec![
        right(
            "see its capabilities",
            if readable > 64 {
                Ok(format!("{readable} B of configuration space"))
            } else {
                let found = format!("{readable} B of configuration space; root sees more");
                Err((found, sudo(format!("crosslane device info {address}"))))
            },
        ),
        right(
            "write configuration space",
            may(&function.folder.join("config"), Access::WRITE_OK)
                .map(|()| "payload sizes can be set".to_owned())
                .map_err(|why| (why, sudo(format!("crosslane device doctor {address}")))),
        ),
        right(
            "bind it to vfio-pci",
            match why_unavailable(function) {
                // Without a group the right to open it names the remedy.
                Some(why) => Err((why, String::new())),
                None => may(&function.folder.join("driver_override"), Access::WRITE_OK)
                    .map(|()| "its driver can be changed".to_owned())
                    .map_err(|why| (why, sudo(format!("crosslane device bind {address}")))),
            },
        ),
    ];
    rights.push(open_right(machine, function, both));
    rights.push(locking_right(machine));
    rights
}

/// Returns the reason that no program can have a function, bound or not: it stays with its driver,
/// or VFIO has no group for it. `None` if `bind` makes it available.
pub fn why_unavailable(function: &PciFunction) -> Option<String> {
    let no_group = || function.iommu_group.is_none().then(|| NO_GROUP.to_owned());
    why_kept(function).or_else(no_group)
}

/// The right to lock the memory that devices reach.
pub fn locking_right(machine: &Machine) -> Right {
    let limit = locked_limit(machine);
    right(
        "lock memory for DMA",
        match limit {
            _ if locks_freely(machine) => Ok("without limit (CAP_IPC_LOCK)".to_owned()),
            None => Ok("without limit".to_owned()),
            Some(bytes) if bytes >= ENOUGH_LOCKED_BYTES => Ok(format!("{bytes} B")),
            Some(bytes) => Err((
                format!("{bytes} B, and a transfer of 64 MiB needs {ENOUGH_LOCKED_BYTES} B"),
                "echo \"$USER - memlock unlimited\" | sudo tee /etc/security/limits.d/vfio.conf"
                    .to_owned(),
            )),
        },
    )
}

/// Whether the machine is a virtual one, as far as it tells.
fn is_virtual(machine: &Machine) -> bool {
    let flags = text(&machine.proc.join("cpuinfo")).unwrap_or_default();
    let mut flags = flags.lines().filter(|line| line.starts_with("flags"));
    let vendor = text(&machine.sys.join("class/dmi/id/sys_vendor")).unwrap_or_default();
    flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
        || machine.sys.join("hypervisor/type").exists()
        || vendor == "QEMU"
}

/// Explains how this machine gets an IOMMU.
pub fn iommu_help(machine: &Machine) -> String {
    match is_virtual(machine) {
        true => {
            "this is a virtual machine, whose hypervisor has to give it one: QEMU with -machine \
                 q35,kernel-irqchip=split -device intel-iommu,intremap=on, and intel_iommu=on on \
                 the guest kernel's command line"
                .to_owned()
        }
        false => {
            "in the firmware's setup (VT-d, AMD-Vi), and for Intel with intel_iommu=on on the \
                  kernel's command line"
                .to_owned()
        }
    }
}

/// The right to use VFIO: the kernel needs the driver that gives functions to programs.
pub fn vfio_right(machine: &Machine) -> Right {
    let driver = machine.sys.join("bus/pci/drivers").join(VFIO_PCI);
    right(
        "use VFIO",
        match driver.is_dir() {
            true => Ok(format!("the kernel has {VFIO_PCI}")),
            false => Err((
                format!("the kernel has not loaded {VFIO_PCI}"),
                format!("sudo modprobe {VFIO_PCI}"),
            )),
        },
    )
}

/// Number of the machine's IOMMU groups; 0 if no IOMMU is in use.
pub fn iommu_groups(machine: &Machine) -> usize {
    std::fs::read_dir(machine.sys.join("kernel/iommu_groups")).map_or(0, Iterator::count)
}

/// The right to open the function through VFIO.
fn open_right(machine: &Machine, function: &PciFunction, both: Access) -> Right {
    let address = function.address;
    let open = || {
        if function.iommu_group.is_none() {
            return Err((NO_GROUP.to_owned(), iommu_help(machine)));
        }
        if !function.is_bound_to_vfio() {
            let driver = function.driver.as_deref().unwrap_or("no driver");
            let found = format!("it has {driver}, not vfio-pci");
            let command = match why_kept(function) {
                Some(_) => String::new(),
                None => format!("sudo crosslane device bind {address}"),
            };
            return Err((found, command));
        }
        let nodes = machine.vfio_nodes(function);
        let (own, group): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| node.parent() == Some(&machine.dev.join(DEVICES)));
        // Either interface will do: the driver prefers iommufd.
        let own = own.first().filter(|own| own.exists());
        let by_iommufd = own.map(|own| [machine.dev.join("iommu"), own.clone()]);
        let by_group = group.first().map(|group| [machine.dev.join("vfio/vfio"), group.clone()]);
        let mut refused = None;
        for [common, node] in [by_iommufd, by_group].into_iter().flatten() {
            let missing = [&common, &node].into_iter().find_map(|path| {
                let why = may(path, both).err()?;
                Some((why, format!("sudo chown $USER {}", path.display())))
            });
            match missing {
                None => return Ok(node.display().to_string()),
                // An interface that exists but may not be used tells more than a missing one.
                Some(missing) if refused.is_none() || common.exists() => refused = Some(missing),
                Some(_) => {}
            }
        }
        let nothing = || ("the kernel shows no node of it".to_owned(), String::new());
        Err(refused.unwrap_or_else(nothing))
    };
    right("open it through VFIO", open())
}

/// Huge pages that the machine has set aside, smallest first.
pub fn huge_pages(machine: &Machine) -> Vec<HugePages> {
    let folder = machine.sys.join("kernel/mm/hugepages");
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().take(16).flatten() {
        let name = entry.file_name();
        let kib =
            name.to_str().and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB"));
        let Some(kib) = kib.and_then(|digits| digits.parse::<u64>().ok()) else { continue };
        let Some(page_bytes) = kib.checked_mul(1024) else { continue };
        let count = |file: &str| number(&entry.path().join(file)).unwrap_or(0);
        let (pages, free) = (count("nr_hugepages"), count("free_hugepages"));
        sizes.push(HugePages { page_bytes, pages, free });
    }
    sizes.sort_by_key(|size| size.page_bytes);
    sizes
}
