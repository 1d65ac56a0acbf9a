// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory: keys, and the bus addresses of their bytes.

use std::collections::BTreeMap;

use crosslane_pcie::units::BusAddress;

use super::layout::Status;

/// Access of other nodes to registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether they may read it.
    pub read: bool,
    /// Whether they may write it.
    pub write: bool,
}

/// Memory described to a NIC: runs of bus addresses that form one contiguous range.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Offset, bus address and length of each run.
    runs: Vec<(u64, BusAddress, u64)>,
    bytes: u64,
}

impl Runs {
    /// Creates the range from runs in order, leaving out empty ones.
    pub fn new(parts: impl IntoIterator<Item = (BusAddress, u64)>) -> Self {
        let mut all = Self::default();
        for (address, bytes) in parts {
            if bytes > 0 {
                all.runs.push((all.bytes, address, bytes));
                all.bytes += bytes;
            }
        }
        all
    }

    /// Returns the bytes of all runs.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bus address of the byte at an offset, and the contiguous bytes from there;
    /// `None` beyond the end.
    pub(super) fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let after = self.runs.partition_point(|(begin, ..)| *begin <= offset);
        let (begin, address, bytes) = *self.runs.get(after.checked_sub(1)?)?;
        let within = offset - begin;
        (within < bytes).then_some((address.0 + within, bytes - within))
    }
}

#[derive(Clone, Debug)]
struct Region {
    /// Network address of its first byte.
    address: u64,
    access: Access,
    runs: Runs,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    by_key: BTreeMap<u32, Region>,
    last: u32,
}

/// Difference of consecutive keys. It is odd, so all numbers come before any repeats, and large, so
/// that a slightly wrong key is not valid.
const KEY_STEP: u32 = 0x9e37_79b1;

impl Regions {
    /// Registers memory and returns its key.
    pub fn add(&mut self, address: u64, access: Access, runs: Runs) -> u32 {
        loop {
            self.last = self.last.wrapping_add(KEY_STEP);
            if self.last != 0 && !self.by_key.contains_key(&self.last) {
                break;
            }
        }
        self.by_key.insert(self.last, Region { address, access, runs });
        self.last
    }

    pub fn remove(&mut self, key: u32) -> bool {
        self.by_key.remove(&key).is_some()
    }

    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Checks that a range of bytes permits an access.
    pub fn check(
        &self,
        key: u32,
        address: u64,
        bytes: u64,
        allows: impl Fn(Access) -> bool,
    ) -> Result<(), Status> {
        let region = self.by_key.get(&key).filter(|region| allows(region.access));
        let region = region.ok_or(Status::FarAccess)?;
        let begins = address.checked_sub(region.address);
        let ends = begins.and_then(|offset| offset.checked_add(bytes));
        match ends.is_some_and(|end| end <= region.runs.bytes()) {
            true => Ok(()),
            false => Err(Status::FarBounds),
        }
    }

    /// Returns the bus address of a byte, and the contiguous bytes from there.
    pub fn locate(&self, key: u32, address: u64) -> Option<(u64, u64)> {
        let region = self.by_key.get(&key)?;
        region.runs.locate(address.checked_sub(region.address)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rights_and_places() {
        let mut regions = Regions::default();
        let parts = [(BusAddress(0x1000), 4096), (BusAddress(0), 0), (BusAddress(0x9000), 100)];
        let key = regions.add(1 << 40, Access { read: true, write: false }, Runs::new(parts));
        let check = |key, offset: u64, bytes| {
            regions.check(key, (1_u64 << 40).wrapping_add(offset), bytes, |access| access.read)
        };
        assert_eq!(check(key, 0, 4196), Ok(()));
        assert_eq!(check(key, 4196, 0), Ok(()));
        assert_eq!(check(key, 1, 4196), Err(Status::FarBounds));
        assert_eq!(check(key, 0, u64::MAX), Err(Status::FarBounds));
        assert_eq!(check(key, u64::MAX, 1), Err(Status::FarBounds));
        assert_eq!(check(key + 1, 0, 1), Err(Status::FarAccess));
        assert_eq!(regions.check(key, 1 << 40, 1, |access| access.write), Err(Status::FarAccess));
        assert_eq!(regions.locate(key, (1 << 40) + 4095), Some((0x1fff, 1)));
        assert_eq!(regions.locate(key, (1 << 40) + 4096), Some((0x9000, 100)));
        assert_eq!(regions.locate(key, (1 << 40) + 4196), None);
        assert!(regions.remove(key) && !regions.remove(key));
        assert_eq!(regions.count(), 0);
    }
}
