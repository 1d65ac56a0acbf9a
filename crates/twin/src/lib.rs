// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The twin of a machine: a lab made of its PCI tree, read from dumps that people paste and send,
//! or from the machine itself.
//!
//! Read first: [`read`], which takes dumps of one machine and returns its [`Tree`] with a list of
//! what they do not show; then [`export_machine`] and [`export`], which write a machine, or the way
//! to some of its cards, as a lab file. What no register says is from a [`Library`] of parts.
//! `docs/twins.md` says what a twin can tell and what it cannot.
//!
//! ```
//! let dump = "\
//! 00:01.0 PCI bridge [0604]: Intel Corporation [8086:6f02] (rev 01) (prog-if 00 [Normal decode])
//! \tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
//! \tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00
//! \t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0
//! \t\t\tExtTag- RBE+
//! \t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
//! \t\t\tRlxdOrd- ExtTag- PhantFunc- AuxPwr- NoSnoop-
//! \t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes
//! \t\tLnkCap:\tPort #1, Speed 8GT/s, Width x8, ASPM L1, Exit Latency L1 <16us
//! \t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+
//! \t\tLnkSta:\tSpeed 8GT/s, Width x8, TrErr- Train- SlotClk+ DLActive+ BWMgmt- ABWMgmt-
//! 01:00.0 Ethernet controller [0200]: Mellanox [15b3:1013]
//! \tRegion 0: Memory at 90000000 (64-bit, prefetchable) [size=32M]
//! \tCapabilities: [60] Express (v2) Endpoint, MSI 00
//! \t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
//! \t\t\tExtTag+ RBE+ FLReset+
//! \t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
//! \t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+
//! \t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
//! \t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM not supported
//! \t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+
//! \t\tLnkSta:\tSpeed 8GT/s (ok), Width x8 (downgraded)
//! ";
//! let machine = crosslane_twin::read_text("dump.txt".as_ref(), dump.as_bytes())?;
//! assert_eq!(machine.gaps, []);
//! let adapter = machine.tree.function("01:00.0".parse()?)?;
//! assert_eq!(adapter.link().unwrap().0.to_string(), "Gen3 x8");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod addresses;
mod assumptions;
mod error;
#[cfg(not(target_family = "wasm"))]
mod files;
mod gpu_matrix;
mod lab_file;
mod library;
mod lspci;
mod lspci_tree;
mod lstopo;
mod plan;
mod ports;
mod seen;
mod taken;
mod text;
mod xml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub use addresses::Addresses;
pub use crosslane_sysfs::{Address, PciFunction, Tree};
pub use error::{DumpError, Result};
pub use lab_file::{Exported, HOST, export, export_machine};
pub use library::{Library, Part, PartConstant, PartKind};
use seen::Inventory;
pub use taken::Taken;

/// A machine as dumps show it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its functions.
    pub tree: Tree,
    /// Names that dumps give to functions, by address.
    pub names: BTreeMap<Address, String>,
    /// Gaps of the dumps, by function, a phrase each.
    pub gaps: Vec<(Address, String)>,
    /// Gaps that are not those of one function, a sentence each.
    pub remarks: Vec<String>,
    /// Functions of which dumps show only where they are: links above them are assumed.
    pub placed: BTreeSet<Address>,
}

impl Machine {
    /// Whether dumps show the address of a function; otherwise it is made up.
    pub const fn is_shown(&self, address: Address) -> bool {
        !seen::MadeUp::is(address)
    }
}

/// Reads dumps of one machine; what one does not show may be in another. A dump is a listing of
/// `lspci -vvv` (better with `-nn` and by root; its bytes by `-xxxx` count more than its words), a
/// folder or tar file of `/sys/bus/pci`, or the XML of hwloc or NCCL. Less is in a tree of `lspci
/// -t`, hwloc's `lstopo-no-graphics` and a matrix of `nvidia-smi topo -m`: where devices
/// are. Links that no dump shows are then assumed.
///
/// # Errors
/// A file that cannot be read or is no dump, and dumps of different machines.
#[cfg(not(target_family = "wasm"))]
pub fn read(paths: &[PathBuf]) -> Result<Machine> {
    joined(paths.iter().map(|path| (&**path, files::read(path))))
}

/// Makes one machine of all dumps; `dumps` are their names and what was read.
fn joined<'a>(dumps: impl Iterator<Item = (&'a Path, Result<Inventory>)>) -> Result<Machine> {
    let mut all = Inventory::default();
    for (number, (path, dump)) in dumps.enumerate() {
        all.join(dump?, number).map_err(|problem| DumpError::OtherMachine {
            path: path.to_owned(),
            line: 0,
            problem,
        })?;
    }
    Ok(all.machine())
}

/// Reads a dump that is a text, or several in one text, as in a mail; `path` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: &Path, bytes: &[u8]) -> Result<Machine> {
    Ok(text::text(path, bytes)?.machine())
}

/// Reads dumps of one machine that are texts, each with the name that errors have for it.
///
/// # Errors
/// As [`read`].
pub fn read_texts(dumps: &[(PathBuf, String)]) -> Result<Machine> {
    joined(dumps.iter().map(|(path, dump)| (&**path, text::text(path, dump.as_bytes()))))
}
