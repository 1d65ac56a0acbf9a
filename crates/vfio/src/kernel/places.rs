// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths at which the kernel shows functions and the devices of VFIO. Errors name the missing
//! module, right or setting, and the command that helps.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::function::{FunctionError, Result};
use crosslane_sysfs::attribute::link_name;
use crosslane_sysfs::is_vfio_driver;

use crate::sysfs::{Address, Machine, VFIO_PCI};

impl Machine {
    fn device(&self, address: &Address) -> PathBuf {
        self.sys.join("bus/pci/devices").join(address.to_string())
    }

    /// Returns the function's NUMA node; `None` on a machine with only one.
    pub(super) fn numa_node(&self, address: &Address) -> Option<u32> {
        let node = fs::read_to_string(self.device(address).join("numa_node")).ok()?;
        node.trim().parse().ok()
    }

    /// Returns the path at which the kernel maps a BAR write-combined.
    pub(super) fn combined_resource(&self, address: &Address, bar: u8) -> PathBuf {
        self.device(address).join(format!("resource{bar}_wc"))
    }

    /// Checks that a function exists and is bound to VFIO.
    pub(super) fn check_driver(&self, address: &Address) -> Result<()> {
        let device = self.device(address);
        let name = address.to_string();
        if !device.exists() {
            let remedy = "`lspci -D` lists what there is; `echo 1 | sudo tee \
                          /sys/bus/pci/rescan` looks again";
            return Err(FunctionError::system(
                &name,
                "looking for the PCI function",
                Errno::NODEV,
                remedy,
            ));
        }
        let driver = link_name(&device.join("driver"));
        if driver.as_deref().is_some_and(is_vfio_driver) {
            return Ok(());
        }
        let load = match self.sys.join("bus/pci/drivers").join(VFIO_PCI).exists() {
            true => String::new(),
            false => format!("`sudo modprobe {VFIO_PCI}` loads the driver. "),
        };
        let now = driver.map_or_else(
            || "It has no driver".to_owned(),
            |driver| format!("Its driver is {driver}"),
        );
        let remedy =
            format!("{now}. {load}`sudo crosslane device bind {name}` gives it to {VFIO_PCI}");
        Err(FunctionError::system(&name, "opening by VFIO", Errno::NODEV, remedy))
    }

    /// Returns the number of the function's IOMMU group.
    pub(super) fn group(&self, address: &Address) -> Result<String> {
        link_name(&self.device(address).join("iommu_group")).ok_or_else(|| {
            let remedy = "No IOMMU translates its requests: turn the IOMMU on in the firmware \
                          (VT-d, AMD-Vi), and boot with `intel_iommu=on` on the kernel's command \
                          line where the processor is Intel's";
            FunctionError::system(
                &address.to_string(),
                "looking for the IOMMU group",
                Errno::NODEV,
                remedy,
            )
        })
    }

    pub(super) fn container_path(&self) -> PathBuf {
        self.dev.join("vfio/vfio")
    }

    pub(super) fn group_path(&self, group: &str) -> PathBuf {
        self.dev.join("vfio").join(group)
    }

    pub(super) fn iommufd_path(&self) -> PathBuf {
        self.dev.join("iommu")
    }

    /// Returns the path of the function's individual device, which kernels with iommufd have.
    pub(super) fn device_path(&self, address: &Address) -> Option<PathBuf> {
        let entries = fs::read_dir(self.device(address).join("vfio-dev")).ok()?;
        let name = entries.flatten().next()?.file_name();
        Some(self.dev.join("vfio/devices").join(name))
    }

    /// The error of a device file that cannot be opened, with a remedy.
    pub(super) fn cannot_open(
        &self,
        address: &Address,
        path: &Path,
        errno: Errno,
    ) -> FunctionError {
        let place = path.display();
        let without_iommu = path.file_name().is_some_and(|name| {
            self.dev.join("vfio").join(format!("noiommu-{}", name.to_string_lossy())).exists()
        });
        let has_own_device = self.device_path(address).is_some_and(|path| path.exists());
        let remedy = match errno {
            Errno::NOENT if has_own_device && path.parent() == Some(&self.dev.join("vfio")) => {
                "This kernel has no groups of VFIO (CONFIG_VFIO_GROUP): it is opened by iommufd"
                    .to_owned()
            }
            Errno::NOENT if without_iommu => {
                "VFIO runs without an IOMMU (noiommu) here: nothing would translate the device's \
                 requests or keep them off other memory, so that is not used. Turn the IOMMU on \
                 in the firmware"
                    .to_owned()
            }
            Errno::NOENT if path == self.container_path() => {
                "`sudo modprobe vfio_iommu_type1` loads the module".to_owned()
            }
            Errno::NOENT if path == self.iommufd_path() => {
                "`sudo modprobe iommufd` loads the module".to_owned()
            }
            Errno::NOENT => format!("`sudo modprobe {VFIO_PCI}` loads the module"),
            Errno::ACCESS | Errno::PERM => format!(
                "`sudo chown $USER {place}` grants it until the next boot; for ever: a udev rule \
                 `SUBSYSTEM==\"vfio\", GROUP=\"vfio\", MODE=\"0660\"` and `sudo usermod -aG vfio \
                 $USER`"
            ),
            Errno::BUSY => format!(
                "Another program has it, and only one can: `sudo fuser -v {place}` names it"
            ),
            _ => String::new(),
        };
        FunctionError::system(&address.to_string(), &format!("opening {place}"), errno, remedy)
    }

    /// The error of a group that cannot be used, with the functions that prevent it.
    pub(super) fn not_viable(&self, address: &Address, group: &str) -> FunctionError {
        let devices = self.sys.join("kernel/iommu_groups").join(group).join("devices");
        let entries = fs::read_dir(&devices).into_iter().flatten().flatten();
        let mut others: Vec<String> = entries
            .filter_map(|entry| {
                let driver = link_name(&entry.path().join("driver"))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // Bridges may keep the ports' driver.
                (!is_vfio_driver(&driver) && driver != "pcieport")
                    .then(|| format!("{name} ({driver})"))
            })
            .collect();
        others.sort_unstable();
        let remedy = format!(
            "Functions of IOMMU group {group} that other drivers hold: {}. `sudo crosslane device \
             bind ADDRESS` gives each to {VFIO_PCI}; all of a group go to one program",
            others.join(", ")
        );
        FunctionError::system(&address.to_string(), "using the IOMMU group", Errno::PERM, remedy)
    }
}
