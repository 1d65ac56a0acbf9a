// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that the server reaches by messages: what it was told of, nothing else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::protocol::{Command, DmaAccess, ProtocolError};
use crate::memory::{Mapped, Pages};
use crate::stores::StoreWidth;

/// A part of some memory.
#[derive(Debug)]
struct Part {
    memory: Arc<Pages>,
    offset: u64,
    bytes: u64,
}

/// All that is mapped, by its first I/O virtual address.
#[derive(Debug, Default)]
pub(super) struct Reachable(Mutex<BTreeMap<u64, Part>>);

impl Reachable {
    fn parts(&self) -> MutexGuard<'_, BTreeMap<u64, Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server may reach this from now on.
    pub fn add(&self, address: u64, memory: &Arc<Pages>, offset: u64, bytes: u64) {
        let memory = Arc::clone(memory);
        self.parts().insert(address, Part { memory, offset, bytes });
    }

    /// The server no longer reaches what begins within a range, once this returns.
    pub fn remove(&self, address: u64, bytes: u64) {
        let is_outside = |first: &u64| first.checked_sub(address).is_none_or(|by| by >= bytes);
        self.parts().retain(|first, _| is_outside(first));
    }

    /// Does what the server asks for; the payload of the reply.
    ///
    /// # Errors
    /// `EINVAL` for what makes no sense, `EFAULT` where not all of it is mapped; then nothing of
    /// it is done. `ENOTSUP` for anything but reads and writes.
    pub fn answer(&self, command: u16, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let invalid = |_: ProtocolError| Errno::INVAL;
        let parts = self.parts();
        match Command::from_number(command) {
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

/// Memory, where in it, and which bytes of an access these are.
type Piece<'a> = (&'a Mapped, u64, Range<usize>);

/// Where an access leads.
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
