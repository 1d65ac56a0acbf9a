// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration space after reset: values and writable bits.

use super::registers::*;
use super::{Capability, ConfigSpace, Identity, PortType, Register, size_code};
use crate::link::LinkRate;

/// Offset of the PCI Express capability. Any offset after the header would do.
pub(super) const EXPRESS: u16 = 0x40;
/// Offset of the MSI-X capability if present: behind PCI Express, which takes 0x3c bytes.
pub(super) const MSIX: u16 = 0x80;

/// Max_Read_Request_Size after reset: code 2, 512 bytes (PCIe 6.x 7.5.3.4).
const MAX_READ_RESET_CODE: u32 = 2;

/// Returns the code of a rate: speed in bits 3:0 and width in bits 9:4, as Link Capabilities and
/// Link Status hold them.
pub(super) const fn rate_code(rate: LinkRate) -> u32 {
    rate.generation.number() as u32 | (rate.width.lanes() as u32) << LINK_CAPABILITIES_WIDTH_SHIFT
}

impl ConfigSpace {
    pub(super) fn register_mut(&mut self, offset: u16) -> &mut Register {
        &mut self.registers[usize::from(offset / 4)]
    }

    fn set(&mut self, offset: u16, value: u32, writable: u32, cleared_by_one: u32) {
        *self.register_mut(offset) = Register { value, writable, cleared_by_one };
    }

    /// Sets the registers common to both headers (PCIe 6.x 7.5.1.1).
    fn reset_header(&mut self, identity: Identity, header_type: u32) {
        let ids = u32::from(identity.vendor) | u32::from(identity.device) << 16;
        self.set(VENDOR_DEVICE, ids, 0, 0);
        // No function here has I/O space, so its enable stays 0.
        let command = COMMAND_MEMORY_SPACE | COMMAND_BUS_MASTER | COMMAND_OTHER;
        self.set(COMMAND, STATUS_CAPABILITIES_LIST, command, STATUS_ERRORS);
        let class = u32::from(identity.revision) | identity.class_code << 8;
        self.set(CLASS_REVISION, class, 0, 0);
        // Cache Line Size is writable and has no effect (PCIe 6.x 7.5.1.1.7).
        self.set(HEADER_TYPE, header_type << 16, 0xff, 0);
        self.set(CAPABILITIES_POINTER, u32::from(EXPRESS), 0, 0);
        // Interrupt Line is for software's use; Interrupt Pin 0: no INTx.
        self.set(INTERRUPT_BRIDGE_CONTROL, 0, 0xff, 0);
    }

    pub(super) fn reset_endpoint_header(&mut self, identity: Identity) {
        self.reset_header(identity, 0);
        let subsystem = u32::from(identity.subsystem_vendor) | u32::from(identity.subsystem) << 16;
        self.set(SUBSYSTEM, subsystem, 0, 0);
        for index in 0..self.bar_requests.len() {
            let Some(bar) = self.bar_requests[index] else { continue };
            // Software learns the size from the address bits below it, which are read-only 0.
            let address_bits = !(bar.size_bytes - 1);
            let mut flags = 0;
            if bar.kind.is_prefetchable() {
                flags |= BAR_PREFETCHABLE;
            }
            let offset = BAR0 + 4 * index as u16;
            if bar.kind.is_64_bit() {
                flags |= BAR_64_BIT;
                self.set(offset + 4, 0, (address_bits >> 32) as u32, 0);
            }
            self.set(offset, flags, address_bits as u32, 0);
        }
    }

    /// Sets the type 1 header (PCIe 6.x 7.5.1.3), without BARs and I/O range. The specification
    /// leaves base and limit undefined after reset; here every range begins closed, base above
    /// limit.
    pub(super) fn reset_bridge_header(&mut self, identity: Identity) {
        self.reset_header(identity, 1);
        self.set(PRIMARY_BUS, 0, 0x00ff_ffff, 0);
        self.set(SECONDARY_STATUS, 0, 0, STATUS_ERRORS);
        let closed = 0x0000_fff0;
        self.set(MEMORY_BASE_LIMIT, closed, 0xfff0_fff0, 0);
        self.set(PREFETCHABLE_BASE_LIMIT, closed | WINDOW_64_BIT, 0xfff0_fff0, 0);
        self.set(PREFETCHABLE_BASE_UPPER, 0, u32::MAX, 0);
        self.set(PREFETCHABLE_LIMIT_UPPER, 0, u32::MAX, 0);
        // Bridge Control: Parity Error Response, SERR# Enable, Secondary Bus Reset.
        let control = 1 << 16 | 1 << 17 | BRIDGE_CONTROL_SECONDARY_RESET;
        self.set(INTERRUPT_BRIDGE_CONTROL, 0, 0xff | control, 0);
    }

    /// Sets the PCI Express capability, version 2 (PCIe 6.x 7.5.3), the first in the list.
    pub(super) fn reset_express_capability(&mut self, capability: Capability) {
        let port_type = self.port_type;
        let express = 2 | u32::from(port_type.encoding()) << 4;
        self.set(EXPRESS, u32::from(CAPABILITY_PCI_EXPRESS) | express << 16, 0, 0);

        let mut device =
            size_code(capability.max_payload_bytes.into()) | DEVICE_CAPABILITIES_ROLE_BASED_ERRORS;
        let mut control = DEVICE_CONTROL_ERROR_REPORTING
            | DEVICE_CONTROL_RELAXED_ORDERING
            | 7 << DEVICE_CONTROL_MAX_PAYLOAD_SHIFT
            | DEVICE_CONTROL_NO_SNOOP
            | 7 << DEVICE_CONTROL_MAX_READ_SHIFT;
        if capability.extended_tags {
            device |= DEVICE_CAPABILITIES_EXTENDED_TAG;
            control |= DEVICE_CONTROL_EXTENDED_TAG;
        }
        self.set(EXPRESS + DEVICE_CAPABILITIES, device, 0, 0);
        let control_reset = DEVICE_CONTROL_RELAXED_ORDERING
            | DEVICE_CONTROL_NO_SNOOP
            | MAX_READ_RESET_CODE << DEVICE_CONTROL_MAX_READ_SHIFT;
        self.set(EXPRESS + DEVICE_CONTROL, control_reset, control, DEVICE_STATUS_ERRORS);

        self.reset_link_registers(capability.max_rate);

        if port_type == PortType::RootPort {
            // Root Control: error and PME enables, and visibility of configuration retries.
            self.set(EXPRESS + ROOT_CONTROL, 1 << 16, 0x1f, 0);
        }
        if matches!(port_type, PortType::Endpoint | PortType::RootPort) {
            // Requesters time out: ranges A to D, and the time-out may be disabled.
            let mut capabilities = 0x1f;
            let ordering = DEVICE_CONTROL_2_IDO_REQUESTS | DEVICE_CONTROL_2_IDO_COMPLETIONS;
            let mut control = DEVICE_CONTROL_2_COMPLETION_TIMEOUT | ordering;
            if capability.ten_bit_tags {
                capabilities |= DEVICE_CAPABILITIES_2_TEN_BIT_TAGS;
                control |= DEVICE_CONTROL_2_TEN_BIT_TAG;
            }
            self.set(EXPRESS + DEVICE_CAPABILITIES_2, capabilities, 0, 0);
            self.set(EXPRESS + DEVICE_CONTROL_2, 0, control, 0);
        }
    }

    fn reset_link_registers(&mut self, max_rate: LinkRate) {
        let above = self.port_type.is_above_its_link();
        let mut link = rate_code(max_rate) | LINK_CAPABILITIES_ASPM_OPTIONALITY;
        // ASPM control, Common Clock Configuration and Extended Synch: kept, without effect.
        let mut control = 0b11 | 1 << 6 | 1 << 7;
        let mut cleared_by_one = 0;
        if above {
            link |= LINK_CAPABILITIES_ACTIVE_REPORTING | LINK_CAPABILITIES_BANDWIDTH_NOTIFICATION;
            control |= LINK_CONTROL_DISABLE;
            cleared_by_one = LINK_STATUS_BANDWIDTH;
        }
        if self.port_type == PortType::Endpoint {
            // Set by software to the boundary of the root port (PCIe 6.x 7.5.3.7).
            control |= LINK_CONTROL_READ_COMPLETION_BOUNDARY;
        }
        self.set(EXPRESS + LINK_CAPABILITIES, link, 0, 0);
        self.set(EXPRESS + LINK_CONTROL, 0, control, cleared_by_one);
        self.set_link_status(max_rate);
        // Supported Link Speeds Vector: bit 1 for 2.5 GT/s, and so on up to the fastest.
        let speeds = (1 << (max_rate.generation.number() + 1)) - 2;
        self.set(EXPRESS + LINK_CAPABILITIES_2, speeds, 0, 0);
        let target = u32::from(max_rate.generation.number());
        self.set(EXPRESS + LINK_CONTROL_2, target, LINK_SPEED_MASK, 0);
    }

    /// Sets Access Control Services (PCIe 6.x 7.7.11), version 1, the only extended capability.
    pub(super) fn reset_acs_capability(&mut self) {
        self.set(EXTENDED_SPACE, u32::from(EXTENDED_CAPABILITY_ACS) | 1 << 16, 0, 0);
        let offset = EXTENDED_SPACE + ACS_CONTROL;
        self.set(offset, ACS_IMPLEMENTED, ACS_IMPLEMENTED << 16, 0);
    }
}
