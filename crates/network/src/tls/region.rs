// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that other nodes may reach by its key.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crosslane_host::{ErrorKind, RdmaError, RdmaResult, Reason, RemoteAccess};

use super::frame::Status;
use crate::memory::Mapping;

/// A registration. What this node does itself with its memory needs no permission.
pub struct Registered {
    pub mapping: Arc<Mapping>,
    pub bytes: u64,
    pub key: u64,
    access: RemoteAccess,
    /// Held for reading while another node's bytes are copied; false from the end on.
    is_open: RwLock<bool>,
}

impl Registered {
    /// Lets another node's access at the memory, unless the registration has ended. The work must
    /// not wait: the end of the registration waits for it.
    pub fn with<T>(&self, work: impl FnOnce(&Mapping) -> T) -> Option<T> {
        let is_open = self.is_open.read().unwrap_or_else(PoisonError::into_inner);
        is_open.then(|| work(&self.mapping))
    }
}

/// The registrations of a network by their keys.
#[derive(Default)]
pub struct Regions(RwLock<HashMap<u64, Arc<Registered>>>);

impl Regions {
    /// Registers memory under a new key, which nobody can guess.
    ///
    /// # Errors
    /// No random numbers.
    pub fn add(
        &self,
        mapping: &Arc<Mapping>,
        bytes: u64,
        access: RemoteAccess,
    ) -> RdmaResult<Arc<Registered>> {
        let mut regions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let key = loop {
            let key = random(bytes)?;
            if key != 0 && !regions.contains_key(&key) {
                break key;
            }
        };
        let is_open = RwLock::new(true);
        let registered =
            Arc::new(Registered { mapping: mapping.clone(), bytes, key, access, is_open });
        regions.insert(key, registered.clone());
        Ok(registered)
    }

    /// Ends a registration: when this returns no other node reaches its memory.
    pub fn remove(&self, registered: &Registered) {
        let mut regions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        regions.remove(&registered.key);
        drop(regions);
        *registered.is_open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// The memory with a key, if another node may do this with these bytes of it.
    pub fn find(
        &self,
        key: u64,
        at: u64,
        bytes: u64,
        is_write: bool,
    ) -> Result<Arc<Registered>, Status> {
        let regions = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = regions.get(&key).filter(|found| found.access != RemoteAccess::NONE);
        let found = found.ok_or(Status::NoSuchKey)?;
        if !(if is_write { found.access.write } else { found.access.read }) {
            return Err(Status::NotAllowed);
        }
        if at.checked_add(bytes).is_none_or(|end| end > found.bytes) {
            return Err(Status::Beyond);
        }
        Ok(found.clone())
    }
}

/// A random number for the key of `bytes` of memory.
fn random(bytes: u64) -> RdmaResult<u64> {
    getrandom::u64().map_err(|error| RdmaError::Registration {
        bytes,
        why: Reason::new(ErrorKind::Failed, format!("no random numbers: {error}")),
    })
}
