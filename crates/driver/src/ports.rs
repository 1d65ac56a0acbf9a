// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of the tree, seen through their configuration space.
//!
//! Read first: base specification 7.5.3 (the PCI Express capability) and 7.7.11 (Access Control
//! Services).

use crosslane_host::ErrorKind::Unsupported;
use crosslane_host::{FunctionInfo, Reason, Topology, TopologyError};
use crosslane_pcie::config::{self, registers as reg, size_of_code};
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::RoutingId;

use crate::error::PortErrors;

/// Payload size of the smallest code, bytes.
pub(crate) const LEAST_PAYLOAD_BYTES: u32 = 128;
/// Payload size of the largest code, bytes.
pub(crate) const MOST_PAYLOAD_BYTES: u32 = 4096;
/// Byte enables of the lower half of a double word. In several registers the upper half has bits
/// that writing a 1 clears.
pub(crate) const LOW_HALF: u8 = 0b0011;
/// Byte enables of the upper half of a double word.
const HIGH_HALF: u8 = 0b1100;

/// Names of the bits of Device Status, lowest first (PCIe 6.x 7.5.3.5).
const DETECTED: [&str; 4] =
    ["correctable error", "non-fatal error", "fatal error", "unsupported request"];

/// One function's configuration space.
pub(crate) struct Port<'a> {
    topology: &'a dyn Topology,
    id: RoutingId,
    express: u16,
}

impl<'a> Port<'a> {
    /// Finds the function's PCI Express capability.
    pub fn new(topology: &'a dyn Topology, info: &FunctionInfo) -> Result<Self, TopologyError> {
        let id = info.id;
        let read = |offset| topology.config_read(id, offset);
        if let Some(express) = config::find_capability(reg::CAPABILITY_PCI_EXPRESS, read)? {
            return Ok(Self { topology, id, express });
        }
        let why = Reason::new(Unsupported, "it has no PCI Express capability");
        Err(TopologyError::Refused { function: id, why })
    }

    fn express(&self, offset: u16) -> Result<u32, TopologyError> {
        self.topology.config_read(self.id, self.express + offset)
    }

    /// Reads the largest Max_Payload_Size supported, in bytes.
    pub fn max_payload_supported_bytes(&self) -> Result<u32, TopologyError> {
        Ok(size_of_code(self.express(reg::DEVICE_CAPABILITIES)?))
    }

    /// Reads the Max_Payload_Size in force, in bytes.
    pub fn max_payload_bytes(&self) -> Result<u32, TopologyError> {
        let control = self.express(reg::DEVICE_CONTROL)?;
        Ok(size_of_code(control >> reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT))
    }

    /// Sets Max_Payload_Size, and returns whether the port kept it.
    pub fn set_max_payload(&self, bytes: u32) -> Result<bool, TopologyError> {
        let field = 7 << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        let control = self.express(reg::DEVICE_CONTROL)? & !field
            | config::size_code(bytes) << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        let offset = self.express + reg::DEVICE_CONTROL;
        self.topology.config_write(self.id, offset, control, LOW_HALF)?;
        Ok(self.max_payload_bytes()? == bytes)
    }

    /// Returns whether peer requests that enter here are sent up to the root complex.
    pub fn redirects(&self) -> Result<bool, TopologyError> {
        let read = |offset| self.topology.config_read(self.id, offset);
        let found = config::find_extended_capability(reg::EXTENDED_CAPABILITY_ACS, read)?;
        let Some(acs) = found else { return Ok(false) };
        let control = self.topology.config_read(self.id, acs + reg::ACS_CONTROL)?;
        Ok(control & reg::ACS_CONTROL_REQUEST_REDIRECT != 0)
    }

    /// Reads the rate that the link has trained to, if the register holds one.
    pub fn link(&self) -> Result<Option<LinkRate>, TopologyError> {
        let status = self.express(reg::LINK_CONTROL)?;
        Ok(config::rate_of_code(status >> reg::LINK_STATUS_SPEED_SHIFT))
    }

    /// Returns whether the link below is down; false for a port that does not report it.
    pub fn link_is_down(&self) -> Result<bool, TopologyError> {
        let reports =
            self.express(reg::LINK_CAPABILITIES)? & reg::LINK_CAPABILITIES_ACTIVE_REPORTING != 0;
        let is_active = self.express(reg::LINK_CONTROL)? & reg::LINK_STATUS_ACTIVE != 0;
        Ok(reports && !is_active && !self.denies_a_card()?)
    }

    /// Returns whether the slot denies a card that answers: an emulated port (QEMU's, with ACPI
    /// hot-plug) that handles its slot by other means keeps its slot and link registers unchanged.
    fn denies_a_card(&self) -> Result<bool, TopologyError> {
        let has_slot = self.express(reg::EXPRESS_CAPABILITIES)? & reg::EXPRESS_SLOT != 0;
        if !has_slot || self.express(reg::SLOT_CONTROL)? & reg::SLOT_STATUS_PRESENT != 0 {
            return Ok(false);
        }
        let functions = self.topology.functions()?;
        let mut below = functions.iter().filter(|info| info.parent == Some(self.id));
        Ok(below.any(|info| {
            let link =
                Port::new(self.topology, info).and_then(|port| port.express(reg::LINK_CONTROL));
            link.is_ok_and(|status| status != u32::MAX)
        }))
    }

    /// Reads the error bits of Device Status, from bit 0 up.
    pub fn detected_errors(&self) -> Result<u32, TopologyError> {
        Ok((self.express(reg::DEVICE_CONTROL)? & reg::DEVICE_STATUS_ERRORS) >> 16)
    }

    /// Clears error bits of Device Status, so that they show later errors.
    pub fn clear_errors(&self, bits: u32) -> Result<(), TopologyError> {
        let offset = self.express + reg::DEVICE_CONTROL;
        self.topology.config_write(self.id, offset, bits << 16, HIGH_HALF)
    }
}

/// Names the errors of a port: `rc47a.down2: fatal error, unsupported request detected`.
pub(crate) fn detected_by(port: &str, bits: u32) -> PortErrors {
    let words: Vec<&str> =
        (0..).zip(DETECTED).filter(|(n, _)| bits >> n & 1 != 0).map(|(_, word)| word).collect();
    PortErrors { port: port.to_owned(), errors: words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detected_errors_are_named() {
        let fatal = detected_by("rc47a.down2", 0b100);
        assert_eq!(fatal.to_string(), "rc47a.down2: fatal error detected");
        assert_eq!(
            detected_by("fpga1", 0b1001).to_string(),
            "fpga1: correctable error, unsupported request detected"
        );
    }

    /// A root port and an endpoint below it, each with a capability at 0x40.
    struct Emulated {
        slot: u32,
        link: u32,
        below: u32,
    }

    const PORT: RoutingId = RoutingId::new(0, 8, 0);
    const CARD: RoutingId = RoutingId::new(1, 0, 0);

    impl Topology for Emulated {
        fn functions(&self) -> Result<Vec<FunctionInfo>, TopologyError> {
            let info = |id, parent, port_type| FunctionInfo {
                id,
                parent,
                name: "a".to_owned(),
                port_type,
                vendor: 1,
                device: 1,
                bars: Vec::new(),
            };
            let port = info(PORT, None, crosslane_pcie::config::PortType::RootPort);
            let card = info(CARD, Some(PORT), crosslane_pcie::config::PortType::Endpoint);
            Ok(vec![port, card])
        }

        fn config_read(&self, function: RoutingId, offset: u16) -> Result<u32, TopologyError> {
            let is_port = function == PORT;
            Ok(match (is_port, offset) {
                (_, reg::CAPABILITIES_POINTER) => 0x40,
                (_, 0x40) => u32::from(reg::CAPABILITY_PCI_EXPRESS) | self.slot,
                (true, 0x4c) => reg::LINK_CAPABILITIES_ACTIVE_REPORTING,
                (true, 0x50) => self.link,
                (true, 0x58) => 0,
                (false, 0x50) => self.below,
                _ => 0,
            })
        }

        fn config_write(&self, _: RoutingId, _: u16, _: u32, _: u8) -> Result<(), TopologyError> {
            unreachable!("nothing is written")
        }
    }

    #[test]
    fn a_link_is_down_unless_a_slot_denies_a_card_that_answers() {
        let gen2_x4 = 0x0042 << 16;
        let (active, gone) = (reg::LINK_STATUS_ACTIVE, u32::MAX);
        for (slot, link, below, is_down) in [
            (0, gen2_x4 | active, gen2_x4, false),
            (0, gen2_x4, gen2_x4, true),
            (reg::EXPRESS_SLOT, gen2_x4, gen2_x4, false),
            (reg::EXPRESS_SLOT, gen2_x4, gone, true),
        ] {
            let tree = Emulated { slot, link, below };
            let port = Port::new(&tree, &tree.functions().unwrap()[0]).unwrap();
            assert_eq!(port.link_is_down(), Ok(is_down), "{slot:#x} {link:#x} {below:#x}");
        }
    }
}
