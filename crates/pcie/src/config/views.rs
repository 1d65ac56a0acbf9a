// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decoded views of configuration space for the fabric, cheap enough to read after each write.

use super::registers::*;
use super::reset::{EXPRESS, rate_code};
use super::{
    Bar, BarKind, BarRequest, ConfigSpace, DetectedError, PortType, find_capability,
    find_extended_capability, rate_of_code, size_of_code,
};
use crate::link::LinkRate;
use crate::units::BusAddress;
use std::convert::Infallible;
use std::ops::RangeInclusive;

/// Low address bits within a MiB, the unit of a bridge's memory base and limit.
const WINDOW_GRANULE_MASK: u64 = 0xf_ffff;

impl ConfigSpace {
    /// Device/port type of the function.
    pub fn port_type(&self) -> PortType {
        self.port_type
    }

    /// Largest payload that the function may send or receive now, bytes: Max_Payload_Size of Device
    /// Control, limited to the largest supported (PCIe 6.x 7.5.3.4 forbids software to set more;
    /// the register keeps the written value).
    pub fn max_payload_bytes(&self) -> u32 {
        self.size_field(DEVICE_CONTROL, DEVICE_CONTROL_MAX_PAYLOAD_SHIFT)
            .min(self.max_payload_supported_bytes())
    }

    /// Largest payload that the function supports, bytes (PCIe 6.x 7.5.3.3).
    pub fn max_payload_supported_bytes(&self) -> u32 {
        self.size_field(DEVICE_CAPABILITIES, 0)
    }

    /// Largest read request that the function may send now, bytes (PCIe 6.x 7.5.3.4). The two
    /// reserved codes count as 4096.
    pub fn max_read_request_bytes(&self) -> u32 {
        self.size_field(DEVICE_CONTROL, DEVICE_CONTROL_MAX_READ_SHIFT)
    }

    /// Whether the function may set the relaxed ordering attribute.
    pub fn relaxed_ordering_enabled(&self) -> bool {
        self.express(DEVICE_CONTROL) & DEVICE_CONTROL_RELAXED_ORDERING != 0
    }

    /// Whether the function may use 8-bit tags rather than 5-bit ones.
    pub fn extended_tags_enabled(&self) -> bool {
        self.express(DEVICE_CONTROL) & DEVICE_CONTROL_EXTENDED_TAG != 0
    }

    /// Whether the function may use 10-bit tags.
    pub fn ten_bit_tags_enabled(&self) -> bool {
        self.express(DEVICE_CONTROL_2) & DEVICE_CONTROL_2_TEN_BIT_TAG != 0
    }

    /// Whether an endpoint may send memory requests, or a bridge forward them upstream.
    pub fn bus_master_enabled(&self) -> bool {
        self.read(COMMAND) & COMMAND_BUS_MASTER != 0
    }

    /// Whether an endpoint answers memory requests, or a bridge forwards them downstream.
    pub fn memory_enabled(&self) -> bool {
        self.read(COMMAND) & COMMAND_MEMORY_SPACE != 0
    }

    /// BAR `index` (0 to 5) with its base as programmed now, whether or not memory is enabled.
    /// `None` for an unused BAR and for the upper half of a 64-bit one.
    pub fn bar(&self, index: usize) -> Option<Bar> {
        let BarRequest { kind, size_bytes } = (*self.bar_requests.get(index)?)?;
        let offset = BAR0 + 4 * index as u16;
        let low = u64::from(self.read(offset) & !BAR_FLAGS);
        let high = match kind {
            BarKind::Memory32 { .. } => 0,
            BarKind::Memory64 { .. } => u64::from(self.read(offset + 4)) << 32,
        };
        Some(Bar { index, base: BusAddress(high | low), size_bytes, kind })
    }

    /// The range that each BAR asks for.
    pub fn bar_requests(&self) -> &[Option<BarRequest>; 6] {
        &self.bar_requests
    }

    /// Bus number right below a bridge; 0 for an endpoint.
    pub fn secondary_bus(&self) -> u8 {
        self.bus_number(1)
    }

    /// Highest bus number below a bridge; 0 for an endpoint.
    pub fn subordinate_bus(&self) -> u8 {
        self.bus_number(2)
    }

    /// First and last address that a bridge forwards downstream by its memory base and limit.
    /// `None` for an endpoint, or if the limit is below the base (PCIe 6.x 7.5.1.3.8). Does not
    /// check whether memory is enabled.
    pub fn memory_window(&self) -> Option<RangeInclusive<u64>> {
        self.window(MEMORY_BASE_LIMIT, 0, 0)
    }

    /// Like [`Self::memory_window`], for prefetchable memory with 64-bit addresses (PCIe 6.x
    /// 7.5.1.3.9).
    pub fn prefetchable_window(&self) -> Option<RangeInclusive<u64>> {
        let upper = |offset| u64::from(self.read(offset)) << 32;
        let (base, limit) = (upper(PREFETCHABLE_BASE_UPPER), upper(PREFETCHABLE_LIMIT_UPPER));
        self.window(PREFETCHABLE_BASE_LIMIT, base, limit)
    }

    /// Whether peer-to-peer requests that enter at this port go up to the root complex
    /// (PCIe 6.x 6.12.1.1, P2P Request Redirect).
    pub fn acs_request_redirect(&self) -> bool {
        self.acs_control() & ACS_CONTROL_REQUEST_REDIRECT != 0
    }

    /// Whether peer-to-peer completions without relaxed ordering that enter at this port go up
    /// to the root complex (PCIe 6.x 6.12.1.1, P2P Completion Redirect).
    pub fn acs_completion_redirect(&self) -> bool {
        self.acs_control() & ACS_CONTROL_COMPLETION_REDIRECT != 0
    }

    /// Records the rate and width that the link has trained to (PCIe 6.x 7.5.3.8), initially the
    /// highest of the port.
    pub fn set_link_status(&mut self, rate: LinkRate) {
        let active = if self.port_type.is_above_its_link() { LINK_STATUS_ACTIVE } else { 0 };
        let fields = 0x3ff << LINK_STATUS_SPEED_SHIFT;
        let register = self.register_mut(EXPRESS + LINK_CONTROL);
        register.value &= !fields;
        register.value |= rate_code(rate) << LINK_STATUS_SPEED_SHIFT | active;
    }

    /// Sets Data Link Layer Link Active of a port above its link; no effect on others.
    pub fn set_link_active(&mut self, active: bool) {
        if self.port_type.is_above_its_link() {
            let register = self.register_mut(EXPRESS + LINK_CONTROL);
            register.value &= !LINK_STATUS_ACTIVE;
            register.value |= if active { LINK_STATUS_ACTIVE } else { 0 };
        }
    }

    /// Rate and width that the link has trained to.
    pub fn link_status(&self) -> LinkRate {
        Self::rate(self.express(LINK_CONTROL) >> LINK_STATUS_SPEED_SHIFT)
    }

    /// Highest rate and width of the port.
    pub fn link_capability(&self) -> LinkRate {
        Self::rate(self.express(LINK_CAPABILITIES))
    }

    /// Sets the bit of `error` in Device Status; software clears it by writing 1.
    pub fn record_error(&mut self, error: DetectedError) {
        self.register_mut(EXPRESS + DEVICE_CONTROL).value |= 1 << (16 + error as u8);
    }

    /// Finds the capability with this ID in the list and returns its offset (PCIe 6.x 7.5.1.1.11).
    pub fn find_capability(&self, id: u8) -> Option<u16> {
        let Ok(found) = find_capability(id, |offset| Ok::<_, Infallible>(self.read(offset)));
        found
    }

    /// Finds the extended capability with this ID in the list and returns its offset (PCIe 6.x
    /// 7.6.3). 0 is not a valid ID.
    pub fn find_extended_capability(&self, id: u16) -> Option<u16> {
        let Ok(found) =
            find_extended_capability(id, |offset| Ok::<_, Infallible>(self.read(offset)));
        found
    }

    fn express(&self, offset: u16) -> u32 {
        self.read(EXPRESS + offset)
    }

    fn size_field(&self, offset: u16, shift: u32) -> u32 {
        size_of_code(self.express(offset) >> shift)
    }

    fn bus_number(&self, byte: usize) -> u8 {
        if self.port_type.is_bridge() { self.read(PRIMARY_BUS).to_le_bytes()[byte] } else { 0 }
    }

    fn window(
        &self,
        offset: u16,
        upper_base: u64,
        upper_limit: u64,
    ) -> Option<RangeInclusive<u64>> {
        if !self.port_type.is_bridge() {
            return None;
        }
        let register = u64::from(self.read(offset));
        let base = upper_base | (register & 0xfff0) << 16;
        let limit = upper_limit | (register & 0xfff0_0000) | WINDOW_GRANULE_MASK;
        (base <= limit).then_some(base..=limit)
    }

    fn acs_control(&self) -> u32 {
        self.find_extended_capability(EXTENDED_CAPABILITY_ACS)
            .map_or(0, |offset| self.read(offset + ACS_CONTROL))
    }

    fn rate(code: u32) -> LinkRate {
        rate_of_code(code).expect("the fields are read-only and written from a rate")
    }
}
