// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An I/O address space of the kernel: a container with groups, or one of an iommufd.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::calls;
use crate::function::DomainId;

/// Addresses to use if the kernel does not tell: 39 bits, which every IOMMU translates, without the
/// interrupt addresses.
const UNSTATED_RANGES: [RangeInclusive<u64>; 2] = [0..=0xfedf_ffff, 0xfef0_0000..=(1 << 39) - 1];

/// The kernel object that translates.
#[derive(Debug)]
pub(super) enum Translation {
    /// `/dev/vfio/vfio` with the type 1 IOMMU.
    Container(OwnedFd),
    /// `/dev/iommu`, and the number of one of its address spaces.
    Iommufd(OwnedFd, u32),
}

/// An I/O address space, shared by the functions of a domain.
#[derive(Debug)]
pub(super) struct Space {
    pub translation: Translation,
    pub domain: DomainId,
}

impl Space {
    pub fn new(translation: Translation) -> Self {
        Self { translation, domain: DomainId::next() }
    }

    /// Returns the mappable addresses and the number of possible mappings, both of which depend on
    /// the attached functions.
    pub fn limits(&self) -> Result<(Vec<RangeInclusive<u64>>, Option<u32>), Errno> {
        match &self.translation {
            Translation::Container(container) => {
                let info = calls::iommu_info(container.as_fd())?;
                Ok((info.ranges.unwrap_or_else(|| UNSTATED_RANGES.to_vec()), info.mappings))
            }
            Translation::Iommufd(iommufd, space) => {
                Ok((calls::space_ranges(iommufd.as_fd(), *space)?, None))
            }
        }
    }

    pub fn map(&self, iova: u64, address: usize, bytes: u64) -> Result<(), Errno> {
        match &self.translation {
            Translation::Container(container) => {
                calls::map(container.as_fd(), iova, address, bytes)
            }
            Translation::Iommufd(iommufd, space) => {
                calls::map_space(iommufd.as_fd(), *space, iova, address, bytes)
            }
        }
    }

    /// Unmaps a range, and returns the number of bytes that were mapped there.
    pub fn unmap(&self, iova: u64, bytes: u64) -> Result<u64, Errno> {
        match &self.translation {
            Translation::Container(container) => calls::unmap(container.as_fd(), iova, bytes),
            Translation::Iommufd(iommufd, space) => {
                calls::unmap_space(iommufd.as_fd(), *space, iova, bytes)
            }
        }
    }
}
