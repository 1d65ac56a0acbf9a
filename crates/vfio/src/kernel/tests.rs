// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remedies for functions that cannot be opened, in trees that are written here. The tests end at
//! the first system call of VFIO, which a plain file in place of a device refuses.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir};

use super::*;

/// Folders like `/sys` and `/dev`.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempdir().unwrap());
        machine.folder("sys/bus/pci/devices");
        machine.folder("dev/vfio/devices");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn folder(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// A function with its driver and IOMMU group.
    fn function(&self, address: &str, driver: Option<&str>, group: Option<u32>) {
        let folder = self.folder(&format!("sys/bus/pci/devices/{address}"));
        if let Some(driver) = driver {
            let driver = self.folder(&format!("sys/bus/pci/drivers/{driver}"));
            symlink(driver, folder.join("driver")).unwrap();
        }
        if let Some(group) = group {
            let group = self.folder(&format!("sys/kernel/iommu_groups/{group}"));
            symlink(&group, folder.join("iommu_group")).unwrap();
            fs::create_dir_all(group.join("devices")).unwrap();
            symlink(&folder, group.join("devices").join(address)).unwrap();
        }
    }

    fn file(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::write(&path, "").unwrap();
        path
    }

    fn opening(&self) -> Opening {
        Opening::new(crate::sysfs::Machine::below(self.0.path()))
    }

    /// Returns the error text of opening a function.
    fn refusal(&self, interface: Option<Interface>) -> String {
        let addresses = ["0000:01:00.0".parse().unwrap()];
        self.opening().open(&addresses, interface).unwrap_err().to_string()
    }

    fn plain(&self, text: String) -> String {
        text.replace(&self.0.path().display().to_string(), "")
    }
}

#[test]
fn a_function_that_is_not_there_or_not_with_vfio() {
    let machine = Machine::new();
    assert!(machine.refusal(None).starts_with(
        "0000:01:00.0: looking for the PCI function failed: No such device (os error 19). `lspci"
    ));
    machine.function("0000:01:00.0", Some("nvme"), Some(3));
    assert_eq!(
        machine.refusal(None),
        "0000:01:00.0: opening by VFIO failed: No such device (os error 19). Its driver is nvme. \
         `sudo modprobe vfio-pci` loads the driver. `sudo crosslane device bind 0000:01:00.0` \
         gives it to vfio-pci"
    );
    machine.folder("sys/bus/pci/drivers/vfio-pci");
    fs::remove_file(machine.path("sys/bus/pci/devices/0000:01:00.0/driver")).unwrap();
    assert_eq!(
        machine.refusal(Some(Interface::Iommufd)),
        "0000:01:00.0: opening by VFIO failed: No such device (os error 19). It has no driver. \
         `sudo crosslane device bind 0000:01:00.0` gives it to vfio-pci"
    );
}

#[test]
fn no_iommu_no_module_and_no_right() {
    let machine = Machine::new();
    machine.function("0000:01:00.0", Some("vfio-pci"), None);
    let refusal = machine.refusal(None);
    assert!(refusal.contains("No IOMMU translates its requests"), "{refusal}");
    machine.function("0000:02:00.0", Some("mlx5_vfio_pci"), Some(12));
    let address: Address = "0000:02:00.0".parse().unwrap();
    let opened = machine.opening().open(&[address], None);
    assert_eq!(
        machine.plain(opened.unwrap_err().to_string()),
        "0000:02:00.0: opening /dev/vfio/12 failed: No such file or directory (os error 2). `sudo \
         modprobe vfio-pci` loads the module"
    );
    let without = machine.file("dev/vfio/noiommu-12");
    let opened = machine.opening().open(&[address], None).unwrap_err().to_string();
    assert!(opened.contains("VFIO runs without an IOMMU (noiommu) here"), "{opened}");
    fs::remove_file(without).unwrap();
    // The file exists but is not a group: the first call reports it.
    machine.file("dev/vfio/12");
    let opened = machine.opening().open(&[address], None);
    assert_eq!(
        opened.unwrap_err().to_string(),
        "0000:02:00.0: asking for the state of the group failed: Inappropriate ioctl for device \
         (os error 25)"
    );
    let places = machine.opening().machine;
    let cannot = |path: PathBuf, errno| {
        machine.plain(places.cannot_open(&address, &path, errno).to_string())
    };
    let container = cannot(places.container_path(), Errno::NOENT);
    assert!(container.ends_with("`sudo modprobe vfio_iommu_type1` loads the module"));
    let iommufd = cannot(places.iommufd_path(), Errno::NOENT);
    assert!(iommufd.ends_with("`sudo modprobe iommufd` loads the module"), "{iommufd}");
    let right = cannot(places.group_path("12"), Errno::ACCESS);
    assert!(right.contains("`sudo chown $USER /dev/vfio/12` grants it"), "{right}");
    let busy = cannot(places.group_path("12"), Errno::BUSY);
    assert!(busy.contains("`sudo fuser -v /dev/vfio/12` names it"), "{busy}");
}

#[test]
fn functions_that_make_a_group_unusable_are_named() {
    let machine = Machine::new();
    machine.function("0000:01:00.0", Some("vfio-pci"), Some(7));
    machine.function("0000:01:00.1", Some("snd_hda_intel"), Some(7));
    machine.function("0000:00:01.0", Some("pcieport"), Some(7));
    machine.function("0000:01:00.2", None, Some(7));
    let address = "0000:01:00.0".parse().unwrap();
    let refusal = machine.opening().machine.not_viable(&address, "7").to_string();
    assert!(
        refusal.contains("other drivers hold: 0000:01:00.1 (snd_hda_intel). `sudo"),
        "{refusal}"
    );
}

#[test]
fn iommufd_is_taken_where_both_of_its_files_can_be_opened() {
    let machine = Machine::new();
    machine.function("0000:01:00.0", Some("vfio-pci"), Some(7));
    let refusal = machine.refusal(Some(Interface::Iommufd));
    assert!(refusal.contains("The kernel gives it no device of its own"), "{refusal}");
    machine.folder("sys/bus/pci/devices/0000:01:00.0/vfio-dev/vfio4");
    let address = "0000:01:00.0".parse().unwrap();
    assert_eq!(machine.opening().choose(&address), Interface::Group);
    machine.file("dev/vfio/devices/vfio4");
    assert_eq!(machine.opening().choose(&address), Interface::Group);
    // A kernel may have only this interface.
    let refusal = machine.plain(machine.refusal(Some(Interface::Group)));
    assert!(refusal.contains("opening /dev/vfio/7 failed"), "{refusal}");
    assert!(refusal.contains("no groups of VFIO (CONFIG_VFIO_GROUP)"), "{refusal}");
    let refusal = machine.plain(machine.refusal(Some(Interface::Iommufd)));
    assert!(refusal.contains("opening /dev/iommu failed"), "{refusal}");
    machine.file("dev/iommu");
    assert_eq!(machine.opening().choose(&address), Interface::Iommufd);
    assert_eq!(
        machine.refusal(None),
        "0000:01:00.0: binding to iommufd failed: Inappropriate ioctl for device (os error 25)"
    );
}

#[test]
fn a_write_combined_resource_is_beside_the_function() {
    let machine = crate::sysfs::Machine::this();
    let address = "0001:af:00.1".parse().unwrap();
    let wanted = Path::new("/sys/bus/pci/devices/0001:af:00.1/resource2_wc");
    assert_eq!(machine.combined_resource(&address, 2), wanted);
}
