// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Masks the errors of a port while the card below it is away, and restores their reporting.
//!
//! Read first: base specification 6.2.6 (which bits let an error be reported), 7.8.4 (Advanced
//! Error Reporting), 7.9.14 (Downstream Port Containment).

use crosslane_host::{Topology, TopologyError};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::RoutingId;

use super::{Kind, PciFunction};

/// Command: SERR# Enable (PCIe 6.x 7.5.1.1.3).
const COMMAND_SERR: u32 = 1 << 8;
/// Bridge Control, upper half of its double word: SERR# Enable (PCIe 6.x 7.5.1.3.13).
const BRIDGE_CONTROL_SERR: u32 = 1 << 17;
/// Uncorrectable Error Status and Mask, Correctable Error Status and Mask, Root Error Command and
/// Status, within Advanced Error Reporting (PCIe 6.x 7.8.4.2 to .10).
const UNCORRECTABLE_STATUS: u16 = 0x04;
const UNCORRECTABLE_MASK: u16 = 0x08;
const CORRECTABLE_STATUS: u16 = 0x10;
const CORRECTABLE_MASK: u16 = 0x14;
const ROOT_COMMAND: u16 = 0x2c;
/// Root Error Command: an interrupt for each severity.
const ROOT_COMMAND_INTERRUPTS: u32 = 0b111;
/// DPC Control, upper half of its double word: Trigger Enable (PCIe 6.x 7.9.14.3).
const CONTAINMENT_CONTROL: u16 = 0x04;
const CONTAINMENT_TRIGGER: u32 = 0b11 << 16;

/// Byte enables of halves of a DW: a 1 may clear bits of the other half.
const LOW: u8 = 0b0011;
const HIGH: u8 = 0b1100;
const BOTH: u8 = 0b1111;

/// Names of the bits of Uncorrectable Error Status that the loss of a card sets.
const UNCORRECTABLE: [(u32, &str); 6] = [
    (4, "data link protocol error"),
    (5, "surprise down"),
    (14, "completion timeout"),
    (16, "unexpected completion"),
    (18, "malformed TLP"),
    (20, "unsupported request"),
];

/// A register whose bits were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Changed {
    what: &'static str,
    offset: u16,
    enables: u8,
    bits: u32,
    before: u32,
}

/// A register that records errors, with its earlier value.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    offset: u16,
    enables: u8,
    bits: u32,
    before: u32,
}

/// The masked errors of a port. Dropping this restores them.
#[derive(Debug)]
pub(super) struct MaskedErrors<'a, T: Topology> {
    topology: &'a T,
    port: RoutingId,
    changed: Vec<Changed>,
    recorded: Vec<Recorded>,
}

impl<'a, T: Topology> MaskedErrors<'a, T> {
    /// Masks the errors of a port. If that fails midway, the changes are undone.
    pub fn new(topology: &'a T, port: &PciFunction) -> Result<Self, TopologyError> {
        let mut masked =
            Self { topology, port: port.address.id, changed: Vec::new(), recorded: Vec::new() };
        let space = &port.configuration;
        if let Some(express) = space.express() {
            let at = express.offset + reg::DEVICE_CONTROL;
            masked.record(at, HIGH, reg::DEVICE_STATUS_ERRORS)?;
            let bits = reg::DEVICE_CONTROL_ERROR_REPORTING;
            masked.clear("error reporting of Device Control", at, LOW, bits)?;
        }
        masked.clear("SERR of Command", reg::COMMAND, LOW, COMMAND_SERR)?;
        let bridge = reg::INTERRUPT_BRIDGE_CONTROL;
        masked.clear("SERR of Bridge Control", bridge, HIGH, BRIDGE_CONTROL_SERR)?;
        if let Some(offset) = space.error_reporting() {
            masked.record(offset + UNCORRECTABLE_STATUS, BOTH, u32::MAX)?;
            masked.record(offset + CORRECTABLE_STATUS, BOTH, u32::MAX)?;
            masked.set("Uncorrectable Error Mask", offset + UNCORRECTABLE_MASK, u32::MAX)?;
            masked.set("Correctable Error Mask", offset + CORRECTABLE_MASK, u32::MAX)?;
            if port.kind == Kind::RootPort {
                let bits = ROOT_COMMAND_INTERRUPTS;
                masked.clear("Root Error Command", offset + ROOT_COMMAND, BOTH, bits)?;
            }
        }
        if let Some(offset) = space.containment() {
            let at = offset + CONTAINMENT_CONTROL;
            masked.clear("trigger of DPC Control", at, HIGH, CONTAINMENT_TRIGGER)?;
        }
        Ok(masked)
    }

    fn record(&mut self, offset: u16, enables: u8, bits: u32) -> Result<(), TopologyError> {
        let before = self.topology.config_read(self.port, offset)?;
        self.recorded.push(Recorded { offset, enables, bits, before });
        Ok(())
    }

    fn clear(
        &mut self,
        what: &'static str,
        offset: u16,
        enables: u8,
        bits: u32,
    ) -> Result<(), TopologyError> {
        let before = self.topology.config_read(self.port, offset)?;
        // Listed before it is written: a write that fails midway is undone too.
        self.changed.push(Changed { what, offset, enables, bits, before });
        self.topology.config_write(self.port, offset, before & !bits, enables)
    }

    fn set(&mut self, what: &'static str, offset: u16, bits: u32) -> Result<(), TopologyError> {
        let before = self.topology.config_read(self.port, offset)?;
        self.changed.push(Changed { what, offset, enables: BOTH, bits, before });
        self.topology.config_write(self.port, offset, before | bits, BOTH)
    }

    /// Clears the errors recorded since they were masked, restores the registers, and returns the
    /// names of those errors.
    ///
    /// # Errors
    /// The registers that were not restored, one sentence each. All others are restored.
    pub fn restore(mut self) -> Result<Vec<String>, Vec<String>> {
        let logged = self.forget_recorded();
        let failed = self.put_back();
        if failed.is_empty() { Ok(logged) } else { Err(failed) }
    }

    /// Clears the records of new errors, and returns their names.
    fn forget_recorded(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        for (index, it) in self.recorded.iter().enumerate() {
            let Ok(now) = self.topology.config_read(self.port, it.offset) else { continue };
            let fresh = now & !it.before & it.bits;
            if fresh == 0 || now == u32::MAX {
                continue;
            }
            // A 1 clears a bit; if that fails only the record stays.
            let _ = self.topology.config_write(self.port, it.offset, fresh, it.enables);
            match index {
                1 => words.extend(named(fresh)),
                2 => words.push(format!("correctable errors {fresh:#x}")),
                _ => {}
            }
        }
        words
    }

    fn put_back(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        for it in std::mem::take(&mut self.changed).into_iter().rev() {
            let put = || {
                let now = self.topology.config_read(self.port, it.offset)?;
                let value = now & !it.bits | it.before & it.bits;
                self.topology.config_write(self.port, it.offset, value, it.enables)?;
                self.topology.config_read(self.port, it.offset)
            };
            match put() {
                Ok(now) if now & it.bits == it.before & it.bits => {}
                Ok(now) => failed.push(format!(
                    "{} of {} reads {now:#x}, not {:#x}",
                    it.what, self.port, it.before
                )),
                Err(error) => failed.push(format!("{} of {}: {error}", it.what, self.port)),
            }
        }
        failed
    }
}

impl<T: Topology> Drop for MaskedErrors<'_, T> {
    fn drop(&mut self) {
        // A drop cannot report the failures.
        let _ = self.put_back();
    }
}

fn named(bits: u32) -> Vec<String> {
    let known = UNCORRECTABLE.iter().fold(0, |mask, (bit, _)| mask | 1 << bit);
    let mut words: Vec<String> = UNCORRECTABLE
        .iter()
        .filter(|(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, word)| (*word).to_owned())
        .collect();
    if bits & !known != 0 {
        words.push(format!("uncorrectable errors {:#x}", bits & !known));
    }
    words
}
