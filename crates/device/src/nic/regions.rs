// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory: what a key stands for, and where its bytes are on the bus.

use std::collections::BTreeMap;

use crosslane_pcie::units::BusAddress;

use super::layout::Status;

/// What other nodes may do with registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// They may read it.
    pub read: bool,
    /// They may write it.
    pub write: bool,
}

/// Memory as a NIC is told of it: runs of bus addresses that stand for one run of its own.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Offset of each run, its bus address, and its length.
    runs: Vec<(u64, BusAddress, u64)>,
    bytes: u64,
}

impl Runs {
    /// From the runs in order; empty ones are left out.
    #[must_use]
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

    /// Bytes of all runs.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the byte at an offset is on the bus, and how many follow it there; `None` beyond the
    /// end.
    pub(super) fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let after = self.runs.partition_point(|(begin, ..)| *begin <= offset);
        let (begin, address, bytes) = *self.runs.get(after.checked_sub(1)?)?;
        let within = offset - begin;
        (within < bytes).then_some((address.0 + within, bytes - within))
    }
}

/// A registration.
#[derive(Clone, Debug)]
struct Region {
    /// Address of its first byte, as the network counts.
    address: u64,
    access: Access,
    runs: Runs,
}

/// All registrations of a NIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions {
    by_key: BTreeMap<u32, Region>,
    last: u32,
}

/// How far one key lies from the next: odd, so that every number comes once before any comes again,
/// and large, so that a key that is off by a little is none.
const KEY_STEP: u32 = 0x9e37_79b1;

impl Regions {
    /// Registers memory; its key.
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

    /// Whether so many bytes from an address on may be used so.
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

    /// Where a byte is on the bus, and how many follow it there.
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
