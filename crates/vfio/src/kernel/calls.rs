// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls of `linux/vfio.h` and `linux/iommufd.h`, one function each.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use iommufd_bindings::iommufd as ioas;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use vfio_bindings::bindings::vfio;

/// Letter in the numbers of all these calls.
const LETTER: u8 = vfio::VFIO_TYPE;

const fn vfio_call(number: u8) -> Opcode {
    opcode::none(LETTER, vfio::VFIO_BASE as u8 + number)
}

const GET_API_VERSION: Opcode = vfio_call(0);
const CHECK_EXTENSION: Opcode = vfio_call(1);
const SET_IOMMU: Opcode = vfio_call(2);
const GROUP_GET_STATUS: Opcode = vfio_call(3);
const GROUP_SET_CONTAINER: Opcode = vfio_call(4);
const GROUP_GET_DEVICE_FD: Opcode = vfio_call(6);
const DEVICE_GET_INFO: Opcode = vfio_call(7);
const DEVICE_GET_REGION_INFO: Opcode = vfio_call(8);
const DEVICE_GET_IRQ_INFO: Opcode = vfio_call(9);
const DEVICE_SET_IRQS: Opcode = vfio_call(10);
const DEVICE_RESET: Opcode = vfio_call(11);
const IOMMU_GET_INFO: Opcode = vfio_call(12);
const IOMMU_MAP_DMA: Opcode = vfio_call(13);
const IOMMU_UNMAP_DMA: Opcode = vfio_call(14);
const DEVICE_BIND_IOMMUFD: Opcode = vfio_call(18);
const DEVICE_ATTACH_IOMMUFD: Opcode = vfio_call(19);
const IOAS_ALLOC: Opcode = opcode::none(LETTER, ioas::IOMMUFD_CMD_IOAS_ALLOC as u8);
const IOAS_RANGES: Opcode = opcode::none(LETTER, ioas::IOMMUFD_CMD_IOAS_IOVA_RANGES as u8);
const IOAS_MAP: Opcode = opcode::none(LETTER, ioas::IOMMUFD_CMD_IOAS_MAP as u8);
const IOAS_UNMAP: Opcode = opcode::none(LETTER, ioas::IOMMUFD_CMD_IOAS_UNMAP as u8);

/// The version of VFIO that all kernels have.
pub(super) const API_VERSION: i32 = 0;
/// Room for the capabilities after a structure: kernels use a few hundred bytes.
const CAPABILITY_BYTES: usize = 4096;
/// Address ranges to ask for at first.
const RANGES_AT_FIRST: usize = 64;

/// A call whose argument points to some bytes, or is a number.
struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the argument is passed on unchanged, and the result is the call's own. The caller is
// responsible for the soundness of the call.
unsafe impl Ioctl for Call {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<IoctlOutput, Errno> {
        Ok(out)
    }
}

/// Makes a call whose argument is a number.
fn call_number(file: BorrowedFd<'_>, opcode: Opcode, number: usize) -> Result<i32, Errno> {
    let argument = ptr::without_provenance_mut(number);
    // SAFETY: the calls made here take a number and touch no memory of the program.
    unsafe { rustix::ioctl::ioctl(file, Call { opcode, argument }) }
}

/// Makes a call whose argument is a structure that holds its size.
///
/// # Safety
/// For this call the kernel accesses no more than the structure, and anything that the structure
/// points to is valid for the call.
unsafe fn call<T>(file: BorrowedFd<'_>, opcode: Opcode, value: &mut T) -> Result<i32, Errno> {
    let argument = ptr::from_mut(value).cast();
    // SAFETY: as the caller vouches.
    unsafe { rustix::ioctl::ioctl(file, Call { opcode, argument }) }
}

/// A structure with room for capabilities after it.
#[repr(C)]
struct WithCapabilities<T> {
    head: T,
    capabilities: [u8; CAPABILITY_BYTES],
}

impl<T: Default> WithCapabilities<T> {
    fn new() -> Self {
        Self { head: T::default(), capabilities: [0; CAPABILITY_BYTES] }
    }

    const fn bytes() -> u32 {
        size_of::<Self>() as u32
    }

    /// Finds a capability by its number in the list that begins at `offset` of the structure.
    /// Returns the bytes from its header to the end of the room.
    fn find(&self, offset: u32, id: u32) -> Option<&[u8]> {
        let head = size_of::<T>();
        let mut at = offset as usize;
        // Each header lies after the previous one: a list that goes back is invalid.
        while let Some(capability) = at.checked_sub(head).and_then(|at| self.capabilities.get(at..))
            && capability.len() >= size_of::<vfio::vfio_info_cap_header>()
        {
            if u32::from(u16::from_ne_bytes([capability[0], capability[1]])) == id {
                return Some(capability);
            }
            let next = word(capability, 4)? as usize;
            if next <= at {
                return None;
            }
            at = next;
        }
        None
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Returns the pairs of 64-bit numbers after a capability's header, their count and a reserved
/// word.
fn pairs(capability: &[u8]) -> Option<Vec<(u64, u64)>> {
    let count = word(capability, 8)? as usize;
    (0..count)
        .map(|index| {
            let at = index.checked_mul(16)?.checked_add(16)?;
            Some((long(capability, at)?, long(capability, at + 8)?))
        })
        .collect()
}

pub(super) fn api_version(container: BorrowedFd<'_>) -> Result<i32, Errno> {
    call_number(container, GET_API_VERSION, 0)
}

/// Whether the container supports the second version of the type 1 IOMMU.
pub(super) fn has_type1(container: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(call_number(container, CHECK_EXTENSION, vfio::VFIO_TYPE1v2_IOMMU as usize)? > 0)
}

pub(super) fn set_type1(container: BorrowedFd<'_>) -> Result<(), Errno> {
    call_number(container, SET_IOMMU, vfio::VFIO_TYPE1v2_IOMMU as usize).map(|_| ())
}

/// Whether all functions of a group are bound to VFIO or have no driver.
pub(super) fn group_is_viable(group: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut status = vfio::vfio_group_status { argsz: 8, flags: 0 };
    // SAFETY: the kernel fills in the flags of the structure.
    unsafe { call(group, GROUP_GET_STATUS, &mut status)? };
    Ok(status.flags & vfio::VFIO_GROUP_FLAGS_VIABLE != 0)
}

pub(super) fn set_container(group: BorrowedFd<'_>, container: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut file: RawFd = container.as_raw_fd();
    // SAFETY: the kernel reads one number.
    unsafe { call(group, GROUP_SET_CONTAINER, &mut file) }.map(|_| ())
}

/// Opens a function of a group.
pub(super) fn group_device(group: BorrowedFd<'_>, address: &CStr) -> Result<OwnedFd, Errno> {
    let argument = address.as_ptr().cast_mut().cast();
    // SAFETY: the kernel reads the name up to its end and returns a new descriptor.
    unsafe {
        let file = rustix::ioctl::ioctl(group, Call { opcode: GROUP_GET_DEVICE_FD, argument })?;
        Ok(OwnedFd::from_raw_fd(file))
    }
}

/// Whether the function can be reset.
pub(super) fn can_reset(device: BorrowedFd<'_>) -> Result<bool, Errno> {
    let argsz = size_of::<vfio::vfio_device_info>() as u32;
    let mut info = vfio::vfio_device_info { argsz, ..Default::default() };
    // SAFETY: the kernel fills in the structure up to the size that it says.
    unsafe { call(device, DEVICE_GET_INFO, &mut info)? };
    Ok(info.flags & vfio::VFIO_DEVICE_FLAGS_RESET != 0)
}

/// A region of a function as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegionInfo {
    pub bytes: u64,
    /// Offset in the function's descriptor.
    pub file_offset: u64,
    /// Mappable parts: offset and length.
    pub mappable: Vec<(u64, u64)>,
    /// Whether the MSI-X table lies in it.
    pub has_msix_table: bool,
}

pub(super) fn region(device: BorrowedFd<'_>, index: u32) -> Result<RegionInfo, Errno> {
    let mut info = WithCapabilities::<vfio::vfio_region_info>::new();
    (info.head.argsz, info.head.index) =
        (WithCapabilities::<vfio::vfio_region_info>::bytes(), index);
    // SAFETY: the kernel fills in the structure and capabilities up to the size that it says.
    unsafe { call(device, DEVICE_GET_REGION_INFO, &mut info)? };
    described(&info)
}

/// Converts the kernel's answer about a region.
fn described(info: &WithCapabilities<vfio::vfio_region_info>) -> Result<RegionInfo, Errno> {
    let head = &info.head;
    let mut mappable = Vec::new();
    if head.flags & vfio::VFIO_REGION_INFO_FLAG_MMAP != 0 && head.size > 0 {
        let sparse = (head.flags & vfio::VFIO_REGION_INFO_FLAG_CAPS != 0)
            .then(|| info.find(head.cap_offset, vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP));
        mappable = match sparse.flatten() {
            Some(areas) => pairs(areas).ok_or(Errno::OVERFLOW)?,
            None => vec![(0, head.size)],
        };
        mappable.retain(|(_, bytes)| *bytes > 0);
        mappable.sort_unstable();
        let end = |(offset, bytes): (u64, u64)| offset.checked_add(bytes);
        let is_within = mappable.iter().all(|&area| end(area).is_some_and(|end| end <= head.size));
        let is_apart =
            mappable.windows(2).all(|two| end(two[0]).is_some_and(|end| end <= two[1].0));
        if !is_within || !is_apart {
            return Err(Errno::OVERFLOW);
        }
    }
    let lists_msix = |id| info.find(head.cap_offset, id).is_some();
    let has_msix_table = head.flags & vfio::VFIO_REGION_INFO_FLAG_CAPS != 0
        && (lists_msix(vfio::VFIO_REGION_INFO_CAP_MSIX_MAPPABLE)
            || lists_msix(vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP));
    Ok(RegionInfo { bytes: head.size, file_offset: head.offset, mappable, has_msix_table })
}

/// Returns the number of interrupts of a kind that can signal eventfds.
pub(super) fn interrupt_count(device: BorrowedFd<'_>, kind: u32) -> Result<u32, Errno> {
    let argsz = size_of::<vfio::vfio_irq_info>() as u32;
    let mut info = vfio::vfio_irq_info { argsz, index: kind, ..Default::default() };
    // SAFETY: the kernel fills in the structure up to the size that it says.
    unsafe { call(device, DEVICE_GET_IRQ_INFO, &mut info)? };
    let by_eventfd = info.flags & vfio::VFIO_IRQ_INFO_EVENTFD != 0;
    Ok(if by_eventfd { info.count } else { 0 })
}

/// Connects the interrupts of a kind to eventfds; without eventfds turns the kind off.
pub(super) fn set_interrupts(
    device: BorrowedFd<'_>,
    kind: u32,
    eventfds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let data = match eventfds.is_empty() {
        true => vfio::VFIO_IRQ_SET_DATA_NONE,
        false => vfio::VFIO_IRQ_SET_DATA_EVENTFD,
    };
    let flags = data | vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
    // The structure's five words, and one for each descriptor.
    let words = 5 + eventfds.len();
    let mut set = vec![(words * size_of::<u32>()) as u32, flags, kind, 0, eventfds.len() as u32];
    set.extend(eventfds.iter().map(|event| event.as_raw_fd() as u32));
    let argument = set.as_mut_ptr().cast();
    // SAFETY: the kernel reads as many words as the first one says: all of them.
    unsafe { rustix::ioctl::ioctl(device, Call { opcode: DEVICE_SET_IRQS, argument }) }.map(|_| ())
}

pub(super) fn reset(device: BorrowedFd<'_>) -> Result<(), Errno> {
    call_number(device, DEVICE_RESET, 0).map(|_| ())
}

/// Limits of a container's IOMMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IommuInfo {
    /// Mappable addresses; `None` before Linux 5.4, which does not tell them.
    pub ranges: Option<Vec<RangeInclusive<u64>>>,
    /// Number of mappings that can still be made.
    pub mappings: Option<u32>,
}

pub(super) fn iommu_info(container: BorrowedFd<'_>) -> Result<IommuInfo, Errno> {
    let mut info = WithCapabilities::<vfio::vfio_iommu_type1_info>::new();
    info.head.argsz = WithCapabilities::<vfio::vfio_iommu_type1_info>::bytes();
    // SAFETY: the kernel fills in the structure and capabilities up to the size that it says.
    unsafe { call(container, IOMMU_GET_INFO, &mut info)? };
    let find = |id| {
        let there = info.head.flags & vfio::VFIO_IOMMU_INFO_CAPS != 0;
        there.then(|| info.find(info.head.cap_offset, id)).flatten()
    };
    let ranges = match find(vfio::VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
        Some(capability) => {
            let pairs = pairs(capability).ok_or(Errno::OVERFLOW)?;
            Some(pairs.into_iter().map(|(first, last)| first..=last).collect())
        }
        None => None,
    };
    let mappings =
        find(vfio::VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL).and_then(|capability| word(capability, 8));
    Ok(IommuInfo { ranges, mappings })
}

/// Maps memory of this process. It stays at `address` until it is unmapped; the kernel pins the
/// pages.
pub(super) fn map(
    container: BorrowedFd<'_>,
    iova: u64,
    address: usize,
    bytes: u64,
) -> Result<(), Errno> {
    let mut map = vfio::vfio_iommu_type1_dma_map {
        argsz: size_of::<vfio::vfio_iommu_type1_dma_map>() as u32,
        flags: vfio::VFIO_DMA_MAP_FLAG_READ | vfio::VFIO_DMA_MAP_FLAG_WRITE,
        vaddr: address as u64,
        iova,
        size: bytes,
    };
    // SAFETY: the kernel reads the structure. Devices will write to the pages, but no references to
    // them exist: they are accessed only through `Mapped`.
    unsafe { call(container, IOMMU_MAP_DMA, &mut map) }.map(|_| ())
}

/// Unmaps a range, and returns the number of bytes that were mapped there.
pub(super) fn unmap(container: BorrowedFd<'_>, iova: u64, bytes: u64) -> Result<u64, Errno> {
    let mut unmap = vfio::vfio_iommu_type1_dma_unmap {
        argsz: size_of::<vfio::vfio_iommu_type1_dma_unmap>() as u32,
        iova,
        size: bytes,
        ..Default::default()
    };
    // SAFETY: the kernel reads the structure and fills in the size.
    unsafe { call(container, IOMMU_UNMAP_DMA, &mut unmap)? };
    Ok(unmap.size)
}

/// Binds a function that was opened by `/dev/vfio/devices` to an iommufd.
pub(super) fn bind_iommufd(device: BorrowedFd<'_>, iommufd: BorrowedFd<'_>) -> Result<(), Errno> {
    let argsz = size_of::<vfio::vfio_device_bind_iommufd>() as u32;
    let iommufd = iommufd.as_raw_fd();
    let mut bind = vfio::vfio_device_bind_iommufd { argsz, iommufd, ..Default::default() };
    // SAFETY: the kernel reads the structure and fills in a number.
    unsafe { call(device, DEVICE_BIND_IOMMUFD, &mut bind) }.map(|_| ())
}

/// Attaches a function to an address space, which then translates its requests.
pub(super) fn attach(device: BorrowedFd<'_>, space: u32) -> Result<(), Errno> {
    let argsz = size_of::<vfio::vfio_device_attach_iommufd_pt>() as u32;
    let mut attach =
        vfio::vfio_device_attach_iommufd_pt { argsz, pt_id: space, ..Default::default() };
    // SAFETY: the kernel reads the structure and fills in a number.
    unsafe { call(device, DEVICE_ATTACH_IOMMUFD, &mut attach) }.map(|_| ())
}

/// Makes an address space, and returns its number.
pub(super) fn new_space(iommufd: BorrowedFd<'_>) -> Result<u32, Errno> {
    let size = size_of::<ioas::iommu_ioas_alloc>() as u32;
    let mut space = ioas::iommu_ioas_alloc { size, ..Default::default() };
    // SAFETY: the kernel reads the structure and fills in a number.
    unsafe { call(iommufd, IOAS_ALLOC, &mut space)? };
    Ok(space.out_ioas_id)
}

/// Returns the mappable addresses of an address space.
pub(super) fn space_ranges(
    iommufd: BorrowedFd<'_>,
    space: u32,
) -> Result<Vec<RangeInclusive<u64>>, Errno> {
    let mut room = RANGES_AT_FIRST;
    loop {
        let mut found = vec![ioas::iommu_iova_range::default(); room];
        let mut ranges = ioas::iommu_ioas_iova_ranges {
            size: size_of::<ioas::iommu_ioas_iova_ranges>() as u32,
            ioas_id: space,
            num_iovas: room as u32,
            allowed_iovas: found.as_mut_ptr().expose_provenance() as u64,
            ..Default::default()
        };
        // SAFETY: the kernel writes at most `num_iovas` ranges, for which `found` has room.
        let asked = unsafe { call(iommufd, IOAS_RANGES, &mut ranges) };
        let count = ranges.num_iovas as usize;
        match asked {
            // The kernel has set the count that is needed.
            Err(Errno::MSGSIZE) if count > room => room = count,
            Err(errno) => return Err(errno),
            Ok(_) => {
                found.truncate(count);
                return Ok(found.iter().map(|range| range.start..=range.last).collect());
            }
        }
    }
}

/// Like [`map`], into an address space.
pub(super) fn map_space(
    iommufd: BorrowedFd<'_>,
    space: u32,
    iova: u64,
    address: usize,
    bytes: u64,
) -> Result<(), Errno> {
    let mut map = ioas::iommu_ioas_map {
        size: size_of::<ioas::iommu_ioas_map>() as u32,
        flags: ioas::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_FIXED_IOVA
            | ioas::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_WRITEABLE
            | ioas::iommufd_ioas_map_flags_IOMMU_IOAS_MAP_READABLE,
        ioas_id: space,
        user_va: address as u64,
        length: bytes,
        iova,
        ..Default::default()
    };
    // SAFETY: as for `map`.
    unsafe { call(iommufd, IOAS_MAP, &mut map) }.map(|_| ())
}

/// Like [`unmap`], from an address space.
pub(super) fn unmap_space(
    iommufd: BorrowedFd<'_>,
    space: u32,
    iova: u64,
    bytes: u64,
) -> Result<u64, Errno> {
    let mut unmap = ioas::iommu_ioas_unmap {
        size: size_of::<ioas::iommu_ioas_unmap>() as u32,
        ioas_id: space,
        iova,
        length: bytes,
    };
    // SAFETY: the kernel reads the structure and fills in the length.
    unsafe { call(iommufd, IOAS_UNMAP, &mut unmap)? };
    Ok(unmap.length)
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
