// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration accesses to one host's functions.

use std::convert::Infallible;
use std::ops::RangeInclusive;

use crosslane_fabric::{Fabric, PortId};
use crosslane_pcie::config::{
    Bar, BarKind, PortType, find_capability, find_extended_capability, rate_of_code as rate,
    registers as reg, size_code, size_of_code,
};
use crosslane_pcie::units::{BusAddress, HostId, RoutingId};

use super::addresses::space_of;
use super::{EnumerationError, Function, Policy, REDIRECT, can_redirect};

pub(super) struct Access<'a> {
    pub fabric: &'a mut Fabric,
    pub host: HostId,
}

impl Access<'_> {
    fn read(&self, id: RoutingId, offset: u16) -> u32 {
        self.fabric.config_read(self.host, id, offset)
    }

    fn write(&mut self, id: RoutingId, offset: u16, value: u32) {
        self.fabric.config_write(self.host, id, offset, value, 0xf);
    }

    /// Writes the lower half of a double word and spares the upper, which has bits that a 1 clears.
    fn write_low_half(&mut self, id: RoutingId, offset: u16, value: u32) {
        self.fabric.config_write(self.host, id, offset, value, 0x3);
    }

    fn kept(
        &self,
        function: &Function,
        offset: u16,
        mask: u32,
        value: u32,
    ) -> Result<(), EnumerationError> {
        if self.read(function.routing_id, offset) & mask == value & mask {
            return Ok(());
        }
        Err(EnumerationError::NotKept { function: function.name.clone(), offset })
    }

    /// Probes the function at `id`: sizes its BARs but does not place them.
    pub fn probe(&mut self, id: RoutingId) -> Option<Function> {
        let ids = self.read(id, reg::VENDOR_DEVICE);
        if ids & 0xffff == 0xffff {
            return None;
        }
        let port = self.fabric.function_at(self.host, id)?;
        let express = self.capability(id, reg::CAPABILITY_PCI_EXPRESS)?;
        let port_type_bits = self.read(id, express) >> 20 & 0xf;
        let port_type = PortType::from_encoding(port_type_bits as u8)?;
        let capabilities = self.read(id, express + reg::DEVICE_CAPABILITIES);
        let bars = if port_type.is_bridge() { Vec::new() } else { self.size_bars(id) };
        let capabilities_2 = self.read(id, express + reg::DEVICE_CAPABILITIES_2);
        let link = self.read(id, express + reg::LINK_CONTROL) >> reg::LINK_STATUS_SPEED_SHIFT;
        let (node, name) = (self.fabric.port(port).node, self.fabric.port(port).name.clone());
        Some(Function {
            port,
            node,
            name,
            routing_id: id,
            parent: None,
            children: Vec::new(),
            port_type,
            vendor: ids as u16,
            device: (ids >> 16) as u16,
            class_code: self.read(id, reg::CLASS_REVISION) >> 8,
            express,
            bars,
            buses: None,
            memory_window: None,
            prefetchable_window: None,
            max_payload_supported_bytes: size_of_code(capabilities),
            extended_tags: capabilities & reg::DEVICE_CAPABILITIES_EXTENDED_TAG != 0,
            ten_bit_tags: capabilities_2 & reg::DEVICE_CAPABILITIES_2_TEN_BIT_TAGS
                == reg::DEVICE_CAPABILITIES_2_TEN_BIT_TAGS,
            max_payload_bytes: 128,
            max_read_request_bytes: 128,
            link: rate(link),
            redirects: false,
        })
    }

    /// Finds the offset of a capability.
    fn capability(&self, id: RoutingId, wanted: u8) -> Option<u16> {
        let Ok(found) = find_capability(wanted, |at| Ok::<_, Infallible>(self.read(id, at)));
        found
    }

    /// Finds the offset of an extended capability.
    fn extended_capability(&self, id: RoutingId, wanted: u16) -> Option<u16> {
        let read = |at| Ok::<_, Infallible>(self.read(id, at));
        let Ok(found) = find_extended_capability(wanted, read);
        found
    }

    /// Sizes the BARs: writes all ones and reads the size from the bits that stay 0 (PCIe 6.x
    /// 7.5.1.2.1).
    fn size_bars(&mut self, id: RoutingId) -> Vec<Bar> {
        let mut bars = Vec::new();
        let mut index = 0;
        while index < 6 {
            let offset = reg::BAR0 + 4 * index as u16;
            let mask = self.all_ones(id, offset);
            let kind = BarKind::of_register(mask);
            let is_64_bit = kind.is_some_and(BarKind::is_64_bit);
            let upper = if is_64_bit { self.all_ones(id, offset + 4) } else { 0 };
            let bits = u64::from(upper) << 32 | u64::from(mask & !reg::BAR_FLAGS);
            if let Some(kind) = kind.filter(|_| bits != 0) {
                let size_bytes = 1 << bits.trailing_zeros();
                bars.push(Bar { index, base: BusAddress(0), size_bytes, kind });
            }
            index += if is_64_bit { 2 } else { 1 };
        }
        bars
    }

    fn all_ones(&mut self, id: RoutingId, offset: u16) -> u32 {
        let before = self.read(id, offset);
        self.write(id, offset, u32::MAX);
        let mask = self.read(id, offset);
        self.write(id, offset, before);
        mask
    }

    pub fn set_buses(
        &mut self,
        bridge: &Function,
        primary: u8,
        secondary: u8,
        subordinate: u8,
    ) -> Result<(), EnumerationError> {
        let value = u32::from(primary) | u32::from(secondary) << 8 | u32::from(subordinate) << 16;
        self.write(bridge.routing_id, reg::PRIMARY_BUS, value);
        self.kept(bridge, reg::PRIMARY_BUS, 0x00ff_ffff, value)
    }

    /// Opens one of a bridge's two windows, or closes it if nothing is behind it.
    pub fn set_window(
        &mut self,
        bridge: &mut Function,
        space: usize,
        base: u64,
        size: u64,
    ) -> Result<(), EnumerationError> {
        let window = (size > 0).then(|| base..=base + (size - 1));
        // A window is closed when its base is above its limit.
        let (first, last) = window.clone().map_or((0xfff0_0000, 0), RangeInclusive::into_inner);
        let value = (first >> 16 & 0xfff0) as u32 | last as u32 & 0xfff0_0000;
        let offset = [reg::MEMORY_BASE_LIMIT, reg::PREFETCHABLE_BASE_LIMIT][space];
        self.write(bridge.routing_id, offset, value);
        self.kept(bridge, offset, 0xfff0_fff0, value)?;
        if space == 0 {
            bridge.memory_window = window;
            return Ok(());
        }
        self.write(bridge.routing_id, reg::PREFETCHABLE_BASE_UPPER, (first >> 32) as u32);
        self.write(bridge.routing_id, reg::PREFETCHABLE_LIMIT_UPPER, (last >> 32) as u32);
        bridge.prefetchable_window = window;
        Ok(())
    }

    /// Places the BARs of an endpoint in one of the two spaces.
    pub fn set_bars(
        &mut self,
        function: &mut Function,
        space: usize,
        base: u64,
        offsets: &[u64],
    ) -> Result<(), EnumerationError> {
        for (number, offset_bytes) in offsets.iter().enumerate() {
            let bar = function.bars[number];
            if space_of(bar.kind) != space {
                continue;
            }
            let address = base + offset_bytes;
            let register = reg::BAR0 + 4 * bar.index as u16;
            self.write(function.routing_id, register, address as u32);
            self.kept(function, register, !reg::BAR_FLAGS, address as u32)?;
            if bar.kind.is_64_bit() {
                let upper = (address >> 32) as u32;
                self.write(function.routing_id, register + 4, upper);
                self.kept(function, register + 4, u32::MAX, upper)?;
            }
            function.bars[number].base = BusAddress(address);
        }
        Ok(())
    }

    /// Sets payload and read sizes, tags and ordering, and enables the function.
    pub fn enable(
        &mut self,
        function: &mut Function,
        policy: &Policy,
        payload_bytes: u32,
    ) -> Result<(), EnumerationError> {
        let (id, offset) = (function.routing_id, function.express + reg::DEVICE_CONTROL);
        let read_bytes = policy.max_read_request_bytes;
        let sizes = size_code(payload_bytes) << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT
            | size_code(read_bytes) << reg::DEVICE_CONTROL_MAX_READ_SHIFT;
        let keep = self.read(id, offset) & 0xffff & !SIZE_FIELDS;
        let mut control = keep | sizes | reg::DEVICE_CONTROL_RELAXED_ORDERING;
        if function.extended_tags {
            control |= reg::DEVICE_CONTROL_EXTENDED_TAG;
        }
        self.write_low_half(id, offset, control);
        self.kept(function, offset, SIZE_FIELDS, control)?;
        (function.max_payload_bytes, function.max_read_request_bytes) = (payload_bytes, read_bytes);
        if function.ten_bit_tags {
            let offset = function.express + reg::DEVICE_CONTROL_2;
            let value = self.read(id, offset) & 0xffff | reg::DEVICE_CONTROL_2_TEN_BIT_TAG;
            self.write_low_half(id, offset, value);
            self.kept(function, offset, reg::DEVICE_CONTROL_2_TEN_BIT_TAG, value)?;
        }
        if function.port_type == PortType::Endpoint && policy.read_completion_boundary_bytes == 128
        {
            let offset = function.express + reg::LINK_CONTROL;
            let value = self.read(id, offset) | reg::LINK_CONTROL_READ_COMPLETION_BOUNDARY;
            self.write_low_half(id, offset, value);
        }
        if policy.redirecting.contains(&function.node) && can_redirect(function.port_type) {
            self.redirect(function)?;
        }
        let command = self.read(id, reg::COMMAND);
        let enable = reg::COMMAND_MEMORY_SPACE | reg::COMMAND_BUS_MASTER;
        self.write_low_half(id, reg::COMMAND, command | enable);
        self.kept(function, reg::COMMAND, enable, enable)
    }

    fn redirect(&mut self, function: &mut Function) -> Result<(), EnumerationError> {
        let acs = self.extended_capability(function.routing_id, reg::EXTENDED_CAPABILITY_ACS);
        let offset = acs.map_or(reg::EXTENDED_SPACE, |acs| acs + reg::ACS_CONTROL);
        let value = self.read(function.routing_id, offset) | REDIRECT;
        self.write(function.routing_id, offset, value);
        self.kept(function, offset, REDIRECT, REDIRECT)?;
        function.redirects = true;
        Ok(())
    }
}

/// The two size fields of Device Control.
const SIZE_FIELDS: u32 =
    7 << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT | 7 << reg::DEVICE_CONTROL_MAX_READ_SHIFT;

/// Sets Max_Payload_Size of some functions, as an administrator does with `setpci`. All functions
/// along a path must be set, or one of them rejects the packets as malformed.
///
/// # Errors
/// [`EnumerationError::PayloadNotSupported`] for the first that supports less; then none is set.
///
/// # Panics
/// If `bytes` is not a power of two from 128 to 4096.
pub fn set_max_payload(
    fabric: &mut Fabric,
    ports: &[PortId],
    bytes: u32,
) -> Result<(), EnumerationError> {
    assert!(
        bytes.is_power_of_two() && (128..=4096).contains(&bytes),
        "{bytes} bytes is not a payload size"
    );
    let mut found = Vec::new();
    for &port in ports {
        let host = fabric.node(fabric.port(port).node).host;
        let id = fabric.routing_id(port);
        let mut access = Access { fabric: &mut *fabric, host };
        let Some(function) = access.probe(id) else { continue };
        let supported = function.max_payload_supported_bytes;
        if bytes > supported {
            let function = function.name;
            return Err(EnumerationError::PayloadNotSupported { function, bytes, supported });
        }
        found.push((host, function));
    }
    for (host, function) in found {
        let mut access = Access { fabric: &mut *fabric, host };
        let offset = function.express + reg::DEVICE_CONTROL;
        let field = 7 << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        let value = access.read(function.routing_id, offset) & !field
            | size_code(bytes) << reg::DEVICE_CONTROL_MAX_PAYLOAD_SHIFT;
        access.write_low_half(function.routing_id, offset, value);
        access.kept(&function, offset, field, value)?;
    }
    Ok(())
}
