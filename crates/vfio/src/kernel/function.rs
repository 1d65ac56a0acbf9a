// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A function that the kernel's VFIO provides.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crosslane_host::{ErrorKind, Reason, lock};
use crosslane_pcie::config::{BarKind, registers as reg};
use crosslane_pcie::units::RoutingId;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vfio_bindings::bindings::vfio;

use super::Interface;
use super::calls::{self, RegionInfo};
use super::space::{Space, Translation};
use crate::flat;
use crate::function::{
    Doing, DomainId, Function, FunctionError, Part, Region, Result, check_bar, check_config,
};
use crate::memory::{Mapped, Pages};
use crate::reactor;
use crate::stores::{StoreWidth, empty_combining_buffers, finish_combined_stores};
use crate::sysfs::{Address, Machine};

/// A function that the kernel's VFIO provides. Dropping it closes it; the kernel then resets it if
/// it can.
#[derive(Debug)]
pub struct KernelFunction {
    // Dropped in this order: mappings of the device, the device, its address space.
    regions: BTreeMap<u8, (Region, u64)>,
    config: RegionInfo,
    lost: Loss,
    device: OwnedFd,
    interface: Interface,
    /// Kept open while the function is in use.
    _group: Option<Arc<OwnedFd>>,
    space: Arc<Space>,
    usable: Vec<RangeInclusive<u64>>,
    most_mappings: Option<u32>,
    address: Address,
    name: String,
    /// Kind and number of its interrupts; `None` without MSI-X and MSI.
    interrupts: Option<(u32, u16)>,
    /// Whether interrupts are enabled.
    interrupts_on: Mutex<bool>,
    can_reset: bool,
    numa_node: Option<u32>,
}

/// Causes of a loss: eventfds that stay signalled, and one descriptor for both.
#[derive(Debug)]
struct Loss {
    wanted_back: OwnedFd,
    error: OwnedFd,
    either: OwnedFd,
}

impl Loss {
    fn new() -> Result<Self, Errno> {
        let (wanted_back, error) = (reactor::event()?, reactor::event()?);
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for event in [&wanted_back, &error] {
            epoll::add(&either, event, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { wanted_back, error, either })
    }
}

fn is_signalled(event: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(event, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Descriptors and address space of a function that has just been opened.
pub(super) struct Opened {
    pub address: Address,
    pub device: OwnedFd,
    pub group: Option<Arc<OwnedFd>>,
    pub space: Arc<Space>,
    pub interface: Interface,
}

impl KernelFunction {
    /// Asks the kernel what the function has, and maps its BARs.
    pub(super) fn new(opened: Opened, machine: &Machine) -> Result<Self> {
        let Opened { address, device, group, space, interface } = opened;
        let name = address.to_string();
        let file = device.as_fd();
        let info = |index| calls::region(file, index);
        let config = info(vfio::VFIO_PCI_CONFIG_REGION_INDEX)
            .doing("asking for the configuration space", &name)?;
        let mut interrupts = None;
        for kind in [vfio::VFIO_PCI_MSIX_IRQ_INDEX, vfio::VFIO_PCI_MSI_IRQ_INDEX] {
            let count = calls::interrupt_count(file, kind);
            let count = count.doing("asking for the interrupts", &name)?;
            if count > 0 && interrupts.is_none() {
                interrupts = Some((kind, u16::try_from(count).unwrap_or(u16::MAX)));
            }
        }
        let can_reset = calls::can_reset(file).doing("asking for the device", &name)?;
        let lost = Loss::new().doing("making eventfds", &name)?;
        let of_loss = [
            (vfio::VFIO_PCI_REQ_IRQ_INDEX, &lost.wanted_back),
            (vfio::VFIO_PCI_ERR_IRQ_INDEX, &lost.error),
        ];
        for (kind, event) in of_loss {
            // Only PCI Express functions report errors.
            if calls::interrupt_count(file, kind).is_ok_and(|count| count > 0) {
                calls::set_interrupts(file, kind, &[event.as_fd()])
                    .doing("asking to be told of its loss", &name)?;
            }
        }
        let (usable, most_mappings) =
            space.limits().doing("asking for the I/O virtual addresses", &name)?;
        let mut function = Self {
            regions: BTreeMap::new(),
            config,
            lost,
            device,
            interface,
            _group: group,
            space,
            usable,
            most_mappings,
            address,
            name: name.clone(),
            interrupts,
            interrupts_on: Mutex::new(false),
            can_reset,
            numa_node: machine.numa_node(&address),
        };
        function.map_bars(machine)?;
        Ok(function)
    }

    /// The kernel's interface through which it was opened.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    fn map_bars(&mut self, machine: &Machine) -> Result<()> {
        let mut number = 0;
        while number < 6_u8 {
            let register = flat::config_dw(self, reg::BAR0 + 4 * u16::from(number))?;
            let kind = BarKind::of_register(register);
            let info = calls::region(self.device.as_fd(), number.into())
                .map_err(|errno| self.system("asking for a BAR", errno))?;
            if let Some(kind) = kind.filter(|_| info.bytes > 0) {
                let resource = machine.combined_resource(&self.address, number);
                let region = self.map_bar(number, kind, &info, &resource)?;
                self.regions.insert(number, (region, info.file_offset));
            }
            number += if kind.is_some_and(BarKind::is_64_bit) { 2 } else { 1 };
        }
        Ok(())
    }

    /// Maps the mappable parts of a BAR: through sysfs if it can be combined, else through VFIO.
    fn map_bar(
        &self,
        number: u8,
        kind: BarKind,
        info: &RegionInfo,
        resource: &Path,
    ) -> Result<Region> {
        let mut region = Region::trapped(info.bytes, kind);
        if info.mappable.is_empty() {
            return Ok(region);
        }
        match map_combined(kind, info, resource) {
            Ok(part) => region.parts.push(part),
            Err(why) => {
                region.not_combined = why;
                for &(offset, bytes) in &info.mappable {
                    let place = info.file_offset + offset;
                    let uncached = Mapped::of(self.device.as_fd(), place, bytes)
                        .map_err(|errno| self.system(&format!("mapping BAR{number}"), errno))?;
                    region.parts.push(Part { offset, uncached, combined: None });
                }
            }
        }
        Ok(region)
    }

    /// Returns the part of a BAR that is mapped through sysfs, which then is the whole BAR.
    fn combined_part(&self, bar: u8) -> Option<&Part> {
        let parts = self.regions.get(&bar).map(|(region, _)| &region.parts);
        parts?.first().filter(|part| part.combined.is_some())
    }

    fn system(&self, what: &str, errno: Errno) -> FunctionError {
        let errno_of_removed = matches!(errno, Errno::NODEV | Errno::NXIO);
        if errno_of_removed && let Some(gone) = self.lost() {
            return gone;
        }
        FunctionError::system(&self.name, what, errno, "")
    }

    /// Returns where an access of a BAR is in the device's file.
    fn bar(&self, bar: u8, offset: u64, bytes: usize) -> Result<u64> {
        check_bar(self, bar, offset, bytes)?;
        Ok(self.regions.get(&bar).map_or(0, |(_, file_offset)| file_offset + offset))
    }

    fn config_place(&self, offset: u16, bytes: usize) -> Result<u64> {
        check_config(self, self.config.bytes, offset, bytes)?;
        Ok(self.config.file_offset + u64::from(offset))
    }

    fn pread(&self, what: &str, place: u64, into: &mut [u8]) -> Result<()> {
        let wanted = into.len();
        match rustix::io::pread(&self.device, into, place) {
            Ok(read) if read == wanted => Ok(()),
            Ok(_) => Err(self.system(what, Errno::IO)),
            Err(errno) => Err(self.system(what, errno)),
        }
    }

    fn pwrite(&self, what: &str, place: u64, from: &[u8]) -> Result<()> {
        match rustix::io::pwrite(&self.device, from, place) {
            Ok(written) if written == from.len() => Ok(()),
            Ok(_) => Err(self.system(what, Errno::IO)),
            Err(errno) => Err(self.system(what, errno)),
        }
    }

    fn map_error(&self, errno: Errno, bytes: u64) -> FunctionError {
        let what = format!("mapping {bytes} B for DMA");
        let remedy = match errno {
            Errno::NOMEM => format!(
                "A process may lock only so much memory (`ulimit -l`, kB): `sudo prlimit \
                 --memlock=unlimited --pid {}` raises it for this one, a line `@vfio - memlock \
                 unlimited` in /etc/security/limits.conf for a group",
                std::process::id()
            ),
            Errno::NOSPC => "The limit is the module's: `echo 1000000 | sudo tee \
                 /sys/module/vfio_iommu_type1/parameters/dma_entry_limit`, then open anew"
                .to_owned(),
            _ => String::new(),
        };
        FunctionError::system(&self.name, &what, errno, remedy)
    }
}

/// Maps a whole BAR write-combined.
///
/// The kernel gives all mappings of an address the kind of the first one, so uncached accesses use
/// this kind too, and the bus fences each of them. VFIO must not be asked to map or read the BAR:
/// it would claim the addresses, and a kernel with `CONFIG_IO_STRICT_DEVMEM` would then remove the
/// mapping. A BAR with the MSI-X table is left to VFIO, since the kernel itself writes there.
fn map_combined(kind: BarKind, info: &RegionInfo, resource: &Path) -> Result<Part, String> {
    if !kind.is_prefetchable() {
        return Err("it is not prefetchable, so its device may not bear merged writes".to_owned());
    }
    if info.has_msix_table || info.mappable != [(0, info.bytes)] {
        return Err("it holds the MSI-X table, which the kernel writes uncached".to_owned());
    }
    let place = resource.display();
    let opened = OpenOptions::new().read(true).write(true).open(resource);
    let file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("the kernel offers no {place} on this platform"),
        std::io::ErrorKind::PermissionDenied => {
            format!("{place} may not be opened: `sudo chown $USER {place}` grants it")
        }
        _ => format!("{place}: {error}"),
    })?;
    let map = || {
        Mapped::of(file.as_fd(), 0, info.bytes).map_err(|errno| match errno {
            Errno::INVAL => format!("{place} cannot be mapped: another program has claimed it"),
            _ => format!("{place} cannot be mapped: {errno}"),
        })
    };
    Ok(Part { offset: 0, combined: Some(map()?), uncached: map()? })
}

impl Function for KernelFunction {
    fn id(&self) -> RoutingId {
        self.address.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn config_read(&self, offset: u16, into: &mut [u8]) -> Result<()> {
        let place = self.config_place(offset, into.len())?;
        self.pread("reading the configuration space", place, into)
    }

    fn config_write(&self, offset: u16, from: &[u8]) -> Result<()> {
        let place = self.config_place(offset, from.len())?;
        self.pwrite("writing the configuration space", place, from)
    }

    fn region(&self, bar: u8) -> Option<&Region> {
        self.regions.get(&bar).map(|(region, _)| region)
    }

    fn read(&self, bar: u8, offset: u64, into: &mut [u8]) -> Result<()> {
        let place = self.bar(bar, offset, into.len())?;
        if let Some(part) = self.combined_part(bar) {
            finish_combined_stores();
            part.uncached.load(offset, into);
            return Ok(());
        }
        self.pread(&format!("reading BAR{bar} at {offset:#x}"), place, into)
    }

    fn write(&self, bar: u8, offset: u64, from: &[u8]) -> Result<()> {
        let place = self.bar(bar, offset, from.len())?;
        if let Some(part) = self.combined_part(bar) {
            part.uncached.store(offset, from, StoreWidth::B8);
            empty_combining_buffers();
            return Ok(());
        }
        self.pwrite(&format!("writing BAR{bar} at {offset:#x}"), place, from)
    }

    fn map_dma(&self, iova: u64, memory: &Arc<Pages>, offset: u64, bytes: u64) -> Result<()> {
        let address = memory.mapped().address() + offset as usize;
        self.space.map(iova, address, bytes).map_err(|errno| self.map_error(errno, bytes))
    }

    fn map_peer(&self, iova: u64, mapped: &Mapped, offset: u64, bytes: u64) -> Result<()> {
        let address = mapped.address() + offset as usize;
        self.space.map(iova, address, bytes).map_err(|errno| match self.space.translation {
            // iommufd pins pages, and a BAR has none.
            Translation::Iommufd(..) if errno == Errno::FAULT => {
                let what = "a mapping of another function's BAR";
                let why = "this kernel's iommufd maps memory only; the interface of groups and \
                           containers maps BARs";
                FunctionError::unsupported(&self.name, what, why)
            }
            _ => self.map_error(errno, bytes),
        })
    }

    fn unmap_dma(&self, iova: u64, bytes: u64) -> Result<()> {
        let what = format!("unmapping {bytes} B at {iova:#x}");
        match self.space.unmap(iova, bytes) {
            Ok(unmapped) if unmapped == bytes => Ok(()),
            Ok(unmapped) => {
                let why = format!("{unmapped} B were mapped there");
                Err(FunctionError::malformed(&self.name, &what, why))
            }
            Err(errno) => Err(self.system(&what, errno)),
        }
    }

    fn domain(&self) -> DomainId {
        self.space.domain
    }

    fn is_translated(&self) -> bool {
        true
    }

    fn numa_node(&self) -> Option<u32> {
        self.numa_node
    }

    fn usable_addresses(&self) -> &[RangeInclusive<u64>] {
        &self.usable
    }

    fn most_mappings(&self) -> Option<u32> {
        self.most_mappings
    }

    fn vectors(&self) -> u16 {
        self.interrupts.map_or(0, |(_, count)| count)
    }

    fn set_vectors(&self, eventfds: &[BorrowedFd<'_>]) -> Result<()> {
        let mut on = lock(&self.interrupts_on);
        let kind = match self.interrupts {
            Some((kind, count)) if eventfds.len() <= usize::from(count) => kind,
            _ if eventfds.is_empty() => return Ok(()),
            _ => {
                let what = format!("{} interrupt vectors", eventfds.len());
                let why = format!("it has {}", self.vectors());
                return Err(FunctionError::unsupported(&self.name, what, why));
            }
        };
        let what = format!("setting {} interrupt vectors", eventfds.len());
        let set = |eventfds: &[BorrowedFd<'_>]| {
            let set = calls::set_interrupts(self.device.as_fd(), kind, eventfds);
            set.map_err(|errno| self.system(&what, errno))
        };
        if *on {
            set(&[])?;
            *on = false;
        }
        if !eventfds.is_empty() {
            set(eventfds)?;
            *on = true;
        }
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        if !self.can_reset {
            let why = "the kernel knows no way to reset it without its neighbours";
            return Err(FunctionError::unsupported(&self.name, "reset of its own", why));
        }
        calls::reset(self.device.as_fd()).map_err(|errno| self.system("resetting", errno))
    }

    fn lost(&self) -> Option<FunctionError> {
        let why = if is_signalled(&self.lost.wanted_back) {
            "the kernel wants it back: it is being unbound or removed"
        } else if is_signalled(&self.lost.error) {
            "an error was reported that its link, or one above it, cannot correct (AER; see dmesg)"
        } else {
            return None;
        };
        let why = Reason::new(ErrorKind::LinkDown, why);
        Some(FunctionError::Gone { function: self.name.clone(), why })
    }

    fn lost_event(&self) -> Option<BorrowedFd<'_>> {
        Some(self.lost.either.as_fd())
    }
}
