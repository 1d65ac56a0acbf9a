// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices behind endpoints: what their tables have in common. Constants that a device shares with
//! the generic requester (clock, tags, sizes) come from the table `requester`, so that no constant
//! is written twice.

use crosslane_device::kit::{Parameter, ParameterKind, Parameters};
use crosslane_fabric::parameters::{EndpointParameters, RequesterParameters};

use super::table::Table;
use crate::error::Result;

/// Returns the key under which the table `requester` has a parameter of a device, if it has it.
pub(crate) fn requester_key(key: &'static str) -> Option<&'static str> {
    match key {
        "tags"
        | "max_write_bytes"
        | "max_read_bytes"
        | "completion_timeout_ns"
        | "clock_ns"
        | "datapath_bytes"
        | "idle_clocks_per_tlp" => Some(key),
        "descriptor_gap_ns" => Some("operation_gap_ns"),
        _ => None,
    }
}

/// Returns the value of a parameter that the table `requester` has.
fn shared(requester: &RequesterParameters, key: &str) -> u64 {
    match key {
        "tags" => requester.tags.into(),
        "max_write_bytes" => requester.max_write_bytes.into(),
        "max_read_bytes" => requester.max_read_bytes.into(),
        "completion_timeout_ns" => requester.completion_timeout.0,
        "clock_ns" => requester.clock.0,
        "datapath_bytes" => requester.datapath_bytes.into(),
        "idle_clocks_per_tlp" => requester.idle_clocks_per_tlp.into(),
        "operation_gap_ns" => requester.operation_gap.0,
        _ => unreachable!("{key} is not shared"),
    }
}

pub(super) fn value(table: &Table<'_>, parameter: &Parameter) -> Result<u64> {
    let key = parameter.key;
    match parameter.kind {
        ParameterKind::Time => table.ns(key).map(|time| time.0),
        ParameterKind::Whole(..) | ParameterKind::PowerOfTwo(..) => table.whole(key),
        ParameterKind::Truth => table.truth(key).map(u64::from),
    }
}

/// Reads a device from the table `key` of an endpoint's part; `None` if the part has none. The
/// device is `what`, and a part with one of `others` cannot be one.
pub(super) fn read<P: Parameters>(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    (key, what): (&str, &str),
    others: &[&str],
) -> Result<Option<P>> {
    let Some(table) = part.table(key)? else { return Ok(None) };
    if let Some(other) = others.iter().find(|other| part.has(other)) {
        return Err(part.bad(key, format!("a part has {other} or is {what}")));
    }
    let parameters = P::of(|parameter| match requester_key(parameter.key) {
        Some(key) => Ok(shared(&endpoint.requester, key)),
        None => value(&table, parameter),
    })?;
    if let Err(error) = parameters.check() {
        let (table, key) = match requester_key(error.key()) {
            Some(key) => (part.needed_table("requester")?, key),
            None => (table, error.key()),
        };
        return Err(table.bad(key, format!("{what}'s {error}")));
    }
    Ok(Some(parameters))
}

/// Checks that the BARs with these numbers have room for so many bytes.
pub(super) fn check_bars(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    apertures: &[(usize, u64, &str)],
) -> Result<()> {
    for &(index, need, what) in apertures {
        let key = format!("bar{index}");
        let Some(bar) = endpoint.bars[index] else { return Err(part.missing(&key)) };
        let have = bar.size_bytes;
        if have < need {
            let bar = part.needed_table(&key)?;
            return Err(bar.bad("size_bytes", format!("{what} take {need} B, not {have} B")));
        }
    }
    Ok(())
}
