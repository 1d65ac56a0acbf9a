// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports of the tree as a driver sees them: through their configuration space.
//!
//! Read first: base specification 7.5.3 (the PCI Express capability) and 7.7.11 (Access Control
//! Services).

use crosslane_host::{FunctionInfo, Topology, TopologyError};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::link::{Generation, LinkRate, Width};
use crosslane_pcie::units::RoutingId;

/// Capabilities that a walk visits at most: a list has no more room than that.
const LIST_LIMIT: usize = 1024;
/// Largest code of the payload and read sizes; the two above are reserved.
const LARGEST_SIZE_CODE: u32 = 5;
/// Bytes of the smallest code.
pub(crate) const LEAST_PAYLOAD_BYTES: u32 = 128;
/// Bytes of the largest code.
pub(crate) const MOST_PAYLOAD_BYTES: u32 = 4096;
/// Byte enables of the lower half of a double word: in several registers the upper half has bits
/// that a 1 clears.
pub(crate) const LOW_HALF: u8 = 0b0011;
/// Byte enables of the upper half.
const HIGH_HALF: u8 = 0b1100;

/// Names of the bits of Device Status, lowest first (PCIe 6.x 7.5.3.5).
const DETECTED: [&str; 4] =
    ["correctable error", "non-fatal error", "fatal error", "unsupported request"];

const fn size_of_code(code: u32) -> u32 {
    let code = code & 7;
    LEAST_PAYLOAD_BYTES << if code > LARGEST_SIZE_CODE { LARGEST_SIZE_CODE } else { code }
}

/// One function's configuration space.
pub(crate) struct Port<'a, T: Topology> {
    topology: &'a T,
    id: RoutingId,
    express: u16,
}

impl<'a, T: Topology> Port<'a, T> {
    /// Finds its PCI Express capability.
    pub fn new(topology: &'a T, info: &FunctionInfo) -> Result<Self, TopologyError> {
        let id = info.id;
        let mut offset = topology.config_read(id, reg::CAPABILITIES_POINTER)? as u16 & 0xfc;
        for _ in 0..LIST_LIMIT {
            if offset == 0 {
                break;
            }
            let header = topology.config_read(id, offset)?;
            if header as u8 == reg::CAPABILITY_PCI_EXPRESS {
                return Ok(Self { topology, id, express: offset });
            }
            offset = (header >> 8) as u16 & 0xfc;
        }
        let why = "it has no PCI Express capability".to_owned();
        Err(TopologyError::Refused { function: id, why })
    }

    fn express(&self, offset: u16) -> Result<u32, TopologyError> {
        self.topology.config_read(self.id, self.express + offset)
    }

    /// Offset of an extended capability (PCIe 6.x 7.6.3).
    fn extended(&self, wanted: u16) -> Result<Option<u16>, TopologyError> {
        let mut offset = reg::EXTENDED_SPACE;
        for _ in 0..LIST_LIMIT {
            let header = self.topology.config_read(self.id, offset)?;
            if header == 0 || header == u32::MAX {
                return Ok(None);
            }
            if header as u16 == wanted {
                return Ok(Some(offset));
            }
            offset = (header >> 20) as u16 & 0xffc;
            if offset < reg::EXTENDED_SPACE {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Max_Payload_Size that it supports, bytes.
    pub fn max_payload_supported_bytes(&self) -> Result<u32, TopologyError> {
        Ok(size_of_code(self.express(reg::DEVICE_CAPABILITIES)?))
    }

    /// Max_Payload_Size that it is set to, bytes.
    pub fn max_payload_bytes(&self) -> Result<u32, TopologyError> {
        let control = self.express(reg::DEVICE_CONTROL)?;
        Ok(size_of_code(control >> reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT))
    }

    /// Sets Max_Payload_Size, and says whether it is kept.
    pub fn set_max_payload(&self, bytes: u32) -> Result<bool, TopologyError> {
        let field = 7 << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        let code = bytes.trailing_zeros() - LEAST_PAYLOAD_BYTES.trailing_zeros();
        let control = self.express(reg::DEVICE_CONTROL)? & !field
            | code << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        let offset = self.express + reg::DEVICE_CONTROL;
        self.topology.config_write(self.id, offset, control, LOW_HALF)?;
        Ok(self.max_payload_bytes()? == bytes)
    }

    /// Whether peer requests that enter here are sent up to the root complex.
    pub fn redirects(&self) -> Result<bool, TopologyError> {
        let Some(acs) = self.extended(reg::EXTENDED_CAPABILITY_ACS)? else { return Ok(false) };
        let control = self.topology.config_read(self.id, acs + reg::ACS_CONTROL)?;
        Ok(control & reg::ACS_CONTROL_REQUEST_REDIRECT != 0)
    }

    /// What its link has trained to, if the register has a rate.
    pub fn link(&self) -> Result<Option<LinkRate>, TopologyError> {
        let status = self.express(reg::LINK_CONTROL)?;
        let speed = status >> reg::LINK_STATUS_SPEED_SHIFT & reg::LINK_SPEED_MASK;
        let width = status >> reg::LINK_STATUS_WIDTH_SHIFT & 0x3f;
        let generation = Generation::from_number(speed as u8);
        Ok(generation
            .zip(Width::new(width as u8))
            .map(|(generation, width)| LinkRate { generation, width }))
    }

    /// Whether the link below it is down; ports that do not report that say no.
    pub fn link_is_down(&self) -> Result<bool, TopologyError> {
        let reports =
            self.express(reg::LINK_CAPABILITIES)? & reg::LINK_CAPABILITIES_ACTIVE_REPORTING != 0;
        Ok(reports && self.express(reg::LINK_CONTROL)? & reg::LINK_STATUS_ACTIVE == 0)
    }

    /// The error bits of Device Status, from bit 0 on.
    pub fn detected_errors(&self) -> Result<u32, TopologyError> {
        Ok((self.express(reg::DEVICE_CONTROL)? & reg::DEVICE_STATUS_ERRORS) >> 16)
    }

    /// Clears error bits of Device Status, so that they show what comes after.
    pub fn clear_errors(&self, bits: u32) -> Result<(), TopologyError> {
        let offset = self.express + reg::DEVICE_CONTROL;
        self.topology.config_write(self.id, offset, bits << 16, HIGH_HALF)
    }
}

/// `rc47a.down2: fatal error, unsupported request detected`.
pub(crate) fn detected_words(name: &str, bits: u32) -> String {
    let words: Vec<&str> =
        (0..).zip(DETECTED).filter(|(n, _)| bits >> n & 1 != 0).map(|(_, word)| word).collect();
    format!("{name}: {} detected", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detected_errors_are_named() {
        assert_eq!(detected_words("rc47a.down2", 0b100), "rc47a.down2: fatal error detected");
        assert_eq!(
            detected_words("fpga1", 0b1001),
            "fpga1: correctable error, unsupported request detected"
        );
    }
}
