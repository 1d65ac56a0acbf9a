// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of functions without a tree, from their configuration space.

use std::ops::Range;

use crosslane_host::{FunctionInfo, TopologyError};
use crosslane_pcie::config::{Bar, PortType, registers as reg};
use crosslane_pcie::units::BusAddress;

use crate::function::{Function, FunctionError, Result};

const BAR_REGISTER_BYTES: u16 = 4;

/// Reads a DW of a function's configuration space.
pub(crate) fn config_dw(function: &dyn Function, offset: u16) -> Result<u32> {
    let mut bytes = [0; 4];
    function.config_read(offset, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// Splits a write of a DW by its byte enables: 4 or 2 aligned bytes are one access, others are
/// written singly.
pub(crate) fn accesses(byte_enables: u8) -> Vec<Range<usize>> {
    let bytes = match byte_enables & 0xf {
        0b1111 => 4,
        0b0011 | 0b1100 => 2,
        _ => 1,
    };
    let all = (0..4).step_by(bytes).filter(|at| byte_enables >> at & 1 != 0);
    all.map(|at| at..at + bytes).collect()
}

/// Describes a function as an endpoint with nothing above it.
pub(crate) fn info(function: &dyn Function) -> Result<FunctionInfo> {
    let ids = config_dw(function, reg::VENDOR_DEVICE)?;
    let mut bars = Vec::new();
    for number in 0..6_u8 {
        let Some(region) = function.region(number) else { continue };
        let register = reg::BAR0 + BAR_REGISTER_BYTES * u16::from(number);
        let mut base = u64::from(config_dw(function, register)?);
        if region.kind.is_64_bit() && number < 5 {
            base |= u64::from(config_dw(function, register + BAR_REGISTER_BYTES)?) << 32;
        }
        bars.push(Bar {
            index: number.into(),
            base: BusAddress(base & !u64::from(reg::BAR_FLAGS)),
            size_bytes: region.bytes,
            kind: region.kind,
        });
    }
    Ok(FunctionInfo {
        id: function.id(),
        parent: None,
        name: function.name().to_owned(),
        port_type: PortType::Endpoint,
        vendor: ids as u16,
        device: (ids >> 16) as u16,
        bars,
    })
}

/// Like [`info`], with the error of a tree.
pub(crate) fn info_or_refusal(function: &dyn Function) -> Result<FunctionInfo, TopologyError> {
    info(function).map_err(|error| refusal(function, error))
}

/// Converts a function's error to a tree's.
pub(crate) fn refusal(function: &dyn Function, error: FunctionError) -> TopologyError {
    TopologyError::Refused { function: function.id(), why: error.into() }
}
