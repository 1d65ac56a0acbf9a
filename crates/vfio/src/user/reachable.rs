// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that the server reaches by messages: only the ranges mapped for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crosslane_host::lock;
use rustix::io::Errno;

use super::protocol::{Command, DmaAccess, ProtocolError};
use crate::memory::{Mapped, Pages};
use crate::stores::StoreWidth;

/// A mapped part of a memory.
#[derive(Debug)]
struct Part {
    memory: Arc<Pages>,
    offset: u64,
    bytes: u64,
}

/// Mapped parts by their first I/O virtual address.
#[derive(Debug, Default)]
pub(super) struct Reachable(Mutex<BTreeMap<u64, Part>>);

impl Reachable {
    /// Lets the server reach a part of a memory.
    pub fn add(&self, address: u64, memory: &Arc<Pages>, offset: u64, bytes: u64) {
        let memory = Arc::clone(memory);
        lock(&self.0).insert(address, Part { memory, offset, bytes });
    }

    /// Removes the parts that begin within a range; the server cannot reach them once this returns.
    pub fn remove(&self, address: u64, bytes: u64) {
        let is_outside = |first: &u64| first.checked_sub(address).is_none_or(|by| by >= bytes);
        lock(&self.0).retain(|first, _| is_outside(first));
    }

    /// Carries out a command of the server, and returns the payload of the reply.
    ///
    /// # Errors
    /// `EINVAL` for a malformed command. `EFAULT` if part of the range is not mapped; no byte is
    /// then read or written. `ENOTSUP` for anything but reads and writes.
    pub fn answer(&self, command: u16, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let invalid = |_: ProtocolError| Errno::INVAL;
        let parts = lock(&self.0);
        match Command::from_repr(command) {
            Some(Command::DmaRead) => {
                let (access, _) = DmaAccess::decode(payload).map_err(invalid)?;
                let mut data = vec![0; access.bytes as usize];
                for (mapped, offset, part) in pieces(&parts, access)? {
                    mapped.copy_out(offset, &mut data[part]);
                }
                Ok(access.encode(&data))
            }
            Some(Command::DmaWrite) => {
                let (access, data) = DmaAccess::decode_with_data(payload).map_err(invalid)?;
                for (mapped, offset, part) in pieces(&parts, access)? {
                    mapped.store(offset, &data[part], StoreWidth::B8);
                }
                Ok(access.encode(&[]))
            }
            _ => Err(Errno::NOTSUP),
        }
    }
}

/// A mapping, an offset in it, and the bytes of an access that lie there.
type Piece<'a> = (&'a Mapped, u64, Range<usize>);

/// Splits an access by the mappings that it covers.
fn pieces(parts: &BTreeMap<u64, Part>, access: DmaAccess) -> Result<Vec<Piece<'_>>, Errno> {
    let (mut found, mut done) = (Vec::new(), 0);
    while done < access.bytes {
        let at = access.address.checked_add(done).ok_or(Errno::FAULT)?;
        let (first, part) = parts.range(..=at).next_back().ok_or(Errno::FAULT)?;
        let within = at - first;
        let left = part.bytes.checked_sub(within).filter(|left| *left > 0).ok_or(Errno::FAULT)?;
        let here = left.min(access.bytes - done);
        let offset = part.offset.checked_add(within).ok_or(Errno::FAULT)?;
        let mapped = part.memory.mapped();
        if offset.checked_add(here).is_none_or(|end| end > mapped.bytes()) {
            return Err(Errno::FAULT);
        }
        found.push((mapped, offset, done as usize..(done + here) as usize));
        done += here;
    }
    Ok(found)
}
