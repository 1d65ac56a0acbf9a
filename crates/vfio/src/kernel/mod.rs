// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions of this machine through the kernel's VFIO: `/dev/vfio` with groups and a container, or
//! iommufd if the kernel has it.
//!
//! Read first: [`open`].

mod calls;
mod function;
mod places;
mod space;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use strum::Display;

use crate::function::{Doing, FunctionError, Result, duplicate};
use crate::sysfs::{Address, Machine};
use function::Opened;
use space::{Space, Translation};

pub use function::KernelFunction;

/// One of the kernel's two interfaces to VFIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display)]
pub enum Interface {
    /// `/dev/vfio/GROUP` and a container with the type 1 IOMMU: available in every kernel.
    #[strum(to_string = "group and container")]
    Group,
    /// `/dev/vfio/devices/vfioN` and `/dev/iommu`: available since Linux 6.6, if configured.
    #[strum(to_string = "iommufd")]
    Iommufd,
}

/// Opens functions of this machine, which must be bound to vfio-pci. They share one I/O address
/// space if their IOMMUs permit.
///
/// Without an `interface` this uses iommufd if `/dev/iommu` and the function's device of iommufd
/// can be opened, else groups; [`KernelFunction::interface`] tells which it was.
///
/// # Errors
/// The obstacle, with the command that removes it.
pub fn open(addresses: &[Address], interface: Option<Interface>) -> Result<Vec<KernelFunction>> {
    Opening::new(Machine::this()).open(addresses, interface)
}

/// Descriptors and address spaces that have been opened so far.
struct Opening {
    machine: Machine,
    groups: BTreeMap<String, (Arc<OwnedFd>, Arc<Space>)>,
    containers: Vec<Arc<Space>>,
    iommufd: Option<OwnedFd>,
    spaces: Vec<Arc<Space>>,
}

impl Opening {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            groups: BTreeMap::new(),
            containers: Vec::new(),
            iommufd: None,
            spaces: Vec::new(),
        }
    }

    fn open(
        &mut self,
        addresses: &[Address],
        interface: Option<Interface>,
    ) -> Result<Vec<KernelFunction>> {
        let mut opened = Vec::new();
        for address in addresses {
            self.machine.check_driver(address)?;
            opened.push(match interface.unwrap_or_else(|| self.choose(address)) {
                Interface::Group => self.open_in_group(address)?,
                Interface::Iommufd => self.open_with_iommufd(address)?,
            });
        }
        // Last, because the usable addresses depend on all functions of a space.
        let functions = opened.into_iter();
        functions.map(|opened| KernelFunction::new(opened, &self.machine)).collect()
    }

    fn open_file(&self, address: &Address, path: &Path) -> Result<OwnedFd> {
        let opened = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|errno| self.machine.cannot_open(address, path, errno))
    }

    fn choose(&self, address: &Address) -> Interface {
        let can_open = |path: &Path| {
            rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK)
                .is_ok()
        };
        let device = self.machine.device_path(address);
        match device.is_some_and(|path| can_open(&path)) && can_open(&self.machine.iommufd_path()) {
            true => Interface::Iommufd,
            false => Interface::Group,
        }
    }

    fn open_in_group(&mut self, address: &Address) -> Result<Opened> {
        let number = self.machine.group(address)?;
        let (group, space) = match self.groups.get(&number) {
            Some((group, space)) => (Arc::clone(group), Arc::clone(space)),
            None => {
                let (group, space) = self.open_group(address, &number)?;
                let group = Arc::new(group);
                self.groups.insert(number, (Arc::clone(&group), Arc::clone(&space)));
                (group, space)
            }
        };
        let name = address.to_string();
        let device = CString::new(name.as_str()).map_err(|_| Errno::INVAL);
        let device = device.and_then(|path| calls::group_device(group.as_fd(), &path));
        let (device, group) = (device.doing("opening in its group", &name)?, Some(group));
        Ok(Opened { address: *address, device, group, space, interface: Interface::Group })
    }

    /// Opens a group and puts it in a container, an existing one if possible.
    fn open_group(&mut self, address: &Address, number: &str) -> Result<(OwnedFd, Arc<Space>)> {
        let path = self.machine.group_path(number);
        let group = self.open_file(address, &path)?;
        let name = address.to_string();
        let viable = calls::group_is_viable(group.as_fd());
        if !viable.doing("asking for the state of the group", &name)? {
            return Err(self.machine.not_viable(address, number));
        }
        for space in &self.containers {
            // Refused if the IOMMUs differ.
            if let Translation::Container(container) = &space.translation
                && calls::set_container(group.as_fd(), container.as_fd()).is_ok()
            {
                return Ok((group, Arc::clone(space)));
            }
        }
        let container = self.open_file(address, &self.machine.container_path())?;
        let file = container.as_fd();
        let version = calls::api_version(file).doing("asking for VFIO's version", &name)?;
        if version != calls::API_VERSION {
            return Err(Errno::PROTONOSUPPORT).doing("using a VFIO of another version", &name);
        }
        if !calls::has_type1(file).doing("asking for the IOMMU's type", &name)? {
            let remedy = "`sudo modprobe vfio_iommu_type1` loads the module";
            return Err(FunctionError::system(&name, "using a type 1 IOMMU", Errno::NODEV, remedy));
        }
        calls::set_container(group.as_fd(), file)
            .doing("putting the group in a container", &name)?;
        calls::set_type1(file).map_err(|errno| {
            let remedy = match errno {
                Errno::PERM => {
                    "Its interrupts are not remapped, so it could send any: turn that on \
                                (in QEMU `-device intel-iommu,intremap=on`), or accept it with \
                                `echo 1 | sudo tee \
                                /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts`"
                }
                _ => "",
            };
            FunctionError::system(&name, "choosing the type 1 IOMMU", errno, remedy)
        })?;
        let space = Arc::new(Space::new(Translation::Container(container)));
        self.containers.push(Arc::clone(&space));
        Ok((group, space))
    }

    fn open_with_iommufd(&mut self, address: &Address) -> Result<Opened> {
        let name = address.to_string();
        let path = self.machine.device_path(address).ok_or_else(|| {
            let remedy = "The kernel gives it no device of its own: one before 6.6, or without \
                          CONFIG_VFIO_DEVICE_CDEV";
            FunctionError::system(&name, "opening by iommufd", Errno::NOENT, remedy)
        })?;
        let iommufd = match self.iommufd.take() {
            Some(iommufd) => iommufd,
            None => self.open_file(address, &self.machine.iommufd_path())?,
        };
        let device = self.open_file(address, &path)?;
        calls::bind_iommufd(device.as_fd(), iommufd.as_fd()).doing("binding to iommufd", &name)?;
        let attached = self.spaces.iter().find(|space| match &space.translation {
            // Refused if the IOMMUs differ.
            Translation::Iommufd(_, number) => calls::attach(device.as_fd(), *number).is_ok(),
            Translation::Container(_) => false,
        });
        let space = match attached {
            Some(space) => Arc::clone(space),
            None => {
                let number = calls::new_space(iommufd.as_fd())
                    .doing("making an I/O address space", &name)?;
                calls::attach(device.as_fd(), number)
                    .doing("attaching to an I/O address space", &name)?;
                let theirs = duplicate(&iommufd).doing("using iommufd once more", &name)?;
                let space = Arc::new(Space::new(Translation::Iommufd(theirs, number)));
                self.spaces.push(Arc::clone(&space));
                space
            }
        };
        self.iommufd = Some(iommufd);
        Ok(Opened { address: *address, device, group: None, space, interface: Interface::Iommufd })
    }
}
