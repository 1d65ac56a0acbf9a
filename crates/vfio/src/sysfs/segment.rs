// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One domain of the tree for the trait `Topology`, with the configuration space of every function
//! in it, read and written through sysfs.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use crosslane_host::{ErrorKind, FunctionInfo, Reason, Topology, TopologyError};
use crosslane_pcie::units::RoutingId;

use super::{Address, PciFunction, Tree};
use crate::flat;

/// Permission to write configuration space. It is asked for explicitly, because a wrong value can
/// stop a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigurationWrites {
    /// No writes.
    Forbidden,
    /// Writes that the kernel permits this program.
    Allowed,
}

/// One domain of a machine, with unique bus numbers. The functions are those found when the tree
/// was read; configuration space is read at each access.
#[derive(Clone, Debug)]
pub struct Segment {
    tree: Tree,
    domain: u32,
    writes: ConfigurationWrites,
}

impl Segment {
    /// Takes the functions of one domain of a tree, with or without writes to configuration space.
    pub fn new(tree: &Tree, domain: u32, writes: ConfigurationWrites) -> Self {
        Self { tree: tree.clone(), domain, writes }
    }

    /// The tree that it is part of.
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    fn function(&self, id: RoutingId) -> Result<&PciFunction, TopologyError> {
        self.tree
            .function(Address { domain: self.domain, id })
            .map_err(|_| TopologyError::NoSuchFunction(id))
    }

    fn open(&self, id: RoutingId, writes: bool) -> Result<File, TopologyError> {
        let path = self.function(id)?.folder.join("config");
        OpenOptions::new().read(!writes).write(writes).open(&path).map_err(|error| {
            let help = match error.kind() {
                std::io::ErrorKind::PermissionDenied => ". Run the command as root (sudo)",
                _ => "",
            };
            let why = format!("{}: {error}{help}", path.display());
            let why = Reason::new(error.kind().into(), why);
            TopologyError::Refused { function: id, why }
        })
    }
}

impl Topology for Segment {
    /// Returns the domain's endpoints and ports of PCI Express. A function below another kind of
    /// bridge has the port above that bridge as its parent.
    fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
        let of_domain = self.tree.functions().filter(|it| it.address.domain == self.domain);
        let infos = of_domain.filter_map(|function| {
            let mut above = self.tree.above(function.address).into_iter();
            let port = above.find(|bridge| bridge.kind.port_type().is_some());
            Some(FunctionInfo { parent: port.map(|port| port.address.id), ..function.info()? })
        });
        Ok(infos.collect())
    }

    fn is_translated(&self, function: RoutingId) -> Result<bool, TopologyError> {
        Ok(self.function(function)?.is_translated())
    }

    fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
        TopologyError::check_offset(offset)?;
        let mut bytes = [0; 4];
        let file = self.open(function, false)?;
        file.read_exact_at(&mut bytes, offset.into()).map_err(|error| {
            let (kind, why) = match error.kind() {
                std::io::ErrorKind::UnexpectedEof if offset < 256 => (
                    ErrorKind::Denied,
                    format!(
                        "{offset:#x} cannot be read: beyond 64 bytes the kernel shows it to root \
                         only"
                    ),
                ),
                std::io::ErrorKind::UnexpectedEof => (
                    ErrorKind::Denied,
                    format!(
                        "{offset:#x} cannot be read: it has no extended space, or the kernel \
                         shows that to root only"
                    ),
                ),
                kind => (kind.into(), format!("{offset:#x} cannot be read: {error}")),
            };
            TopologyError::Refused { function, why: Reason::new(kind, why) }
        })?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn config_write(
        &self,
        function: RoutingId,
        offset: u16,
        value: u32,
        byte_enables: u8,
    ) -> Result<(), TopologyError> {
        TopologyError::check_offset(offset)?;
        if self.writes == ConfigurationWrites::Forbidden {
            self.function(function)?;
            let why = Reason::new(ErrorKind::Denied, "it was opened for reading only");
            return Err(TopologyError::Refused { function, why });
        }
        let file = self.open(function, true)?;
        let bytes = value.to_le_bytes();
        for access in flat::accesses(byte_enables) {
            let at = offset + access.start as u16;
            file.write_all_at(&bytes[access], at.into()).map_err(|error| {
                let why = format!("{at:#x} cannot be written: {error}");
                let why = Reason::new(error.kind().into(), why);
                TopologyError::Refused { function, why }
            })?;
        }
        Ok(())
    }
}
