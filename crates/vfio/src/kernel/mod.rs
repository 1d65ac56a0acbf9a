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
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::function::{FunctionError, Result};
use crate::sysfs::Address;
use function::Opened;
use places::Places;
use space::{Space, Translation};

pub use function::KernelFunction;

/// One of the kernel's two interfaces to VFIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// `/dev/vfio/GROUP` and a container with the type 1 IOMMU: available in every kernel.
    Group,
    /// `/dev/vfio/devices/vfioN` and `/dev/iommu`: available since Linux 6.6, if configured.
    Iommufd,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group and container",
            Self::Iommufd => "iommufd",
        })
    }
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
    Opening::new(Places::of_machine()).open(addresses, interface)
}

/// Descriptors and address spaces that have been opened so far.
struct Opening {
    places: Places,
    groups: BTreeMap<String, (Arc<OwnedFd>, Arc<Space>)>,
    containers: Vec<Arc<Space>>,
    iommufd: Option<OwnedFd>,
    spaces: Vec<Arc<Space>>,
}

fn open_file(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

impl Opening {
    fn new(places: Places) -> Self {
        Self {
            places,
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
            self.places.check_driver(address)?;
            opened.push(match interface.unwrap_or_else(|| self.choose(address)) {
                Interface::Group => self.open_in_group(address)?,
                Interface::Iommufd => self.open_with_iommufd(address)?,
            });
        }
        // Last, because the usable addresses depend on all functions of a space.
        let functions = opened.into_iter();
        functions.map(|opened| KernelFunction::new(opened, &self.places)).collect()
    }

    fn choose(&self, address: &Address) -> Interface {
        let can_open = |path: &Path| {
            rustix::fs::access(path, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK)
                .is_ok()
        };
        let device = self.places.device_path(address);
        match device.is_some_and(|path| can_open(&path)) && can_open(&self.places.iommufd_path()) {
            true => Interface::Iommufd,
            false => Interface::Group,
        }
    }

    fn open_in_group(&mut self, address: &Address) -> Result<Opened> {
        let number = self.places.group(address)?;
        let (group, space) = match self.groups.get(&number) {
            Some((group, space)) => (Arc::clone(group), Arc::clone(space)),
            None => {
                let (group, space) = self.open_group(address, &number)?;
                let (group, space) = (Arc::new(group), space);
                self.groups.insert(number, (Arc::clone(&group), Arc::clone(&space)));
                (group, space)
            }
        };
        let name = address.to_string();
        let failed = |errno| FunctionError::system(&name, "opening in its group", errno, "");
        let path = CString::new(name.as_str()).map_err(|_| failed(Errno::INVAL))?;
        let device = calls::group_device(group.as_fd(), &path).map_err(failed)?;
        let group = Some(group);
        Ok(Opened { address: *address, device, group, space, interface: Interface::Group })
    }

    /// Opens a group and puts it in a container, an existing one if possible.
    fn open_group(&mut self, address: &Address, number: &str) -> Result<(OwnedFd, Arc<Space>)> {
        let path = self.places.group_path(number);
        let group =
            open_file(&path).map_err(|errno| self.places.cannot_open(address, &path, errno))?;
        let name = address.to_string();
        let failed = |what: &str, errno| FunctionError::system(&name, what, errno, "");
        let viable = calls::group_is_viable(group.as_fd());
        if !viable.map_err(|errno| failed("asking for the state of the group", errno))? {
            return Err(self.places.not_viable(address, number));
        }
        for space in &self.containers {
            // Refused if the IOMMUs differ.
            if let Translation::Container(container) = &space.translation
                && calls::set_container(group.as_fd(), container.as_fd()).is_ok()
            {
                return Ok((group, Arc::clone(space)));
            }
        }
        let path = self.places.container_path();
        let container =
            open_file(&path).map_err(|errno| self.places.cannot_open(address, &path, errno))?;
        let file = container.as_fd();
        let version = calls::api_version(file);
        if version.map_err(|errno| failed("asking for VFIO's version", errno))?
            != calls::API_VERSION
        {
            return Err(failed("using a VFIO of another version", Errno::PROTONOSUPPORT));
        }
        if !calls::has_type1(file).map_err(|errno| failed("asking for the IOMMU's type", errno))? {
            let remedy = "`sudo modprobe vfio_iommu_type1` loads the module";
            return Err(FunctionError::system(&name, "using a type 1 IOMMU", Errno::NODEV, remedy));
        }
        calls::set_container(group.as_fd(), file)
            .map_err(|errno| failed("putting the group in a container", errno))?;
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
        let failed = |what: &str, errno| FunctionError::system(&name, what, errno, "");
        let iommufd_path = self.places.iommufd_path();
        let path = self.places.device_path(address).ok_or_else(|| {
            let remedy = "The kernel gives it no device of its own: one before 6.6, or without \
                          CONFIG_VFIO_DEVICE_CDEV";
            FunctionError::system(&name, "opening by iommufd", Errno::NOENT, remedy)
        })?;
        let cannot_open = |path: &Path, errno| self.places.cannot_open(address, path, errno);
        let iommufd = match self.iommufd.take() {
            Some(iommufd) => iommufd,
            None => open_file(&iommufd_path).map_err(|errno| cannot_open(&iommufd_path, errno))?,
        };
        let device = open_file(&path).map_err(|errno| cannot_open(&path, errno))?;
        calls::bind_iommufd(device.as_fd(), iommufd.as_fd())
            .map_err(|errno| failed("binding to iommufd", errno))?;
        let attached = self.spaces.iter().find(|space| match &space.translation {
            // Refused if the IOMMUs differ.
            Translation::Iommufd(_, number) => calls::attach(device.as_fd(), *number).is_ok(),
            Translation::Container(_) => false,
        });
        let space = match attached {
            Some(space) => Arc::clone(space),
            None => {
                let number = calls::new_space(iommufd.as_fd())
                    .map_err(|errno| failed("making an I/O address space", errno))?;
                calls::attach(device.as_fd(), number)
                    .map_err(|errno| failed("attaching to an I/O address space", errno))?;
                let theirs = iommufd.try_clone().map_err(|error| {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
                    failed("using iommufd once more", errno)
                })?;
                let space = Arc::new(Space::new(Translation::Iommufd(theirs, number)));
                self.spaces.push(Arc::clone(&space));
                space
            }
        };
        self.iommufd = Some(iommufd);
        Ok(Opened { address: *address, device, group: None, space, interface: Interface::Iommufd })
    }
}
