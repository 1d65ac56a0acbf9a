// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices behind endpoints, each in a table of the endpoint's part. Constants that a device shares
//! with the generic requester (clock, tags, sizes) come from the table `requester`, so that no
//! constant is written twice.

use std::borrow::Cow;
use std::convert::Infallible;

use crosslane_device::network_processor::{
    NetworkProcessor, NetworkProcessorParameters, PUT_BAR, REGISTER_BYTES, REQUEST_BAR,
    REQUEST_WINDOW_BYTES,
};
use crosslane_device::nic::NicParameters;
use crosslane_device::{
    CardMemoryParameters, Copying, EngineParameters, FIFO_BAR, MEMORY_BAR, MemoryCard,
    MemoryCardParameters, PUSH_BAR, PUSH_BYTES,
};
use crosslane_fabric::parameters::{
    Absent, EndpointParameters, Parameter, ParameterKind, Parameters, PortParameters,
    RequesterParameters, Value,
};

use super::table::Table;
use crate::error::Result;

/// Size of an engine's registers in BAR0, bytes (`docs/engine.md`).
const ENGINE_REGISTER_BYTES: u64 = 1 << 16;
/// Smallest aperture of a receive queue, bytes: a TLP never crosses a multiple of it.
const LEAST_LANE_WINDOW_BYTES: u64 = 4096;
/// Least size of a NIC's BAR 0, bytes: doorbells of 512 connections.
const DOORBELL_BYTES: u64 = 4096;

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

/// Returns the value of a device's parameter that the table `requester` has.
fn shared(requester: &RequesterParameters, parameter: &Parameter) -> Option<Value> {
    requester.value(requester_key(parameter.key)?)
}

/// Gives a device the constants that it shares with a requester, and brings those within their
/// bounds that depend on them.
pub(super) fn share<P: Parameters>(device: &mut P, requester: &RequesterParameters) {
    let Ok(()) = device.each(|parameter, _, value| {
        Ok::<_, Infallible>(shared(requester, parameter).unwrap_or(value))
    });
    device.fit();
}

/// Reads a parameter from the table that has its key.
pub(super) fn value(table: &Table<'_>, parameter: &Parameter) -> Result<Value> {
    let key = parameter.key;
    if parameter.absent == Absent::Nothing && !table.has(key) {
        return Ok(Value::Absent);
    }
    let number = match parameter.kind {
        ParameterKind::Time(..) => table.ns(key)?.0,
        ParameterKind::Rate => return table.rate(key).map(Value::Real),
        ParameterKind::Share(_) => return table.real(key).map(Value::Real),
        ParameterKind::Truth => table.truth(key)?.into(),
        ParameterKind::Choice(_) => table.chosen(key)? as u64,
        _ => table.whole(key)?,
    };
    Ok(Value::Whole(number))
}

/// Reads parameters, all from one table.
pub(super) fn all<P: Parameters>(table: &Table<'_>) -> Result<P> {
    P::of(|parameter| value(table, parameter))
}

/// Uses of an endpoint's BARs: the number of each, its least size and its use.
type Apertures = Vec<(usize, u64, Cow<'static, str>)>;

/// Reads a device from the table `key` of an endpoint's part, and checks that its BARs have room
/// for what it needs; `None` if the part has no such table. The device is `what`, and a part with
/// one of `others` cannot be one.
fn read<P: Parameters>(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    (key, what): (&str, &str),
    others: &[&str],
    apertures: impl FnOnce(&P) -> Apertures,
) -> Result<Option<P>> {
    let Some(table) = part.table(key)? else { return Ok(None) };
    if let Some(other) = others.iter().find(|other| part.has(other)) {
        return Err(part.bad(key, format!("a part has {other} or is {what}")));
    }
    let parameters = P::of(|parameter| match shared(&endpoint.requester, parameter) {
        Some(value) => Ok(value),
        None => value(&table, parameter),
    })?;
    if let Err(error) = parameters.check() {
        let (table, key) = match requester_key(error.key()) {
            Some(key) => (part.needed_table("requester")?, key),
            None => (table, error.key()),
        };
        return Err(table.bad(key, format!("{what}'s {error}")));
    }
    for (index, need, what) in apertures(&parameters) {
        let key = format!("bar{index}");
        let Some(bar) = endpoint.bars[index] else { return Err(part.missing(&key)) };
        let have = bar.size_bytes;
        if have < need {
            let bar = part.needed_table(&key)?;
            return Err(bar.bad("size_bytes", format!("{what} take {need} B, not {have} B")));
        }
    }
    Ok(Some(parameters))
}

/// Reads the engine of an endpoint's part; `None` if it has none.
pub(super) fn engine(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    port: &PortParameters,
) -> Result<Option<EngineParameters>> {
    let card_memory = card_memory(part)?;
    let Some(table) = part.table("engine")? else { return Ok(None) };
    // An engine must have a datapath; a generic requester need not.
    if endpoint.requester.datapath_bytes == 0 {
        return Err(part.needed_table("requester")?.missing("datapath_bytes"));
    }
    // A receive queue must have room for a whole TLP.
    let payload_bytes = u64::from(port.capability.max_payload_bytes);
    let bytes = table.whole("lane_fifo_bytes")?;
    if bytes < payload_bytes {
        let problem = format!("{bytes} B do not hold a payload of its port, {payload_bytes} B");
        return Err(table.bad("lane_fifo_bytes", problem));
    }
    let engine = read(part, endpoint, ("engine", "an engine"), &[], |p: &EngineParameters| {
        let lanes = u64::from(p.lanes);
        let windows = format!("the windows of {lanes} lanes");
        let mut apertures: Apertures = vec![
            (0, ENGINE_REGISTER_BYTES, "an engine's registers".into()),
            (1, lanes * LEAST_LANE_WINDOW_BYTES, windows.into()),
        ];
        if p.push {
            apertures.push((PUSH_BAR, PUSH_BYTES, "lines of pushed descriptors".into()));
        }
        apertures
    })?;
    let bar = endpoint.bars[PUSH_BAR].filter(|_| engine.is_some_and(|engine| engine.push));
    if bar.is_some_and(|bar| !bar.kind.is_prefetchable()) {
        let problem = "stores are combined in prefetchable memory only, and descriptors are pushed \
                       in lines";
        let bar = part.needed_table(&format!("bar{PUSH_BAR}"))?;
        return Err(bar.bad("decodes", problem.to_owned()));
    }
    Ok(engine.map(|engine| EngineParameters { card_memory, ..engine }))
}

/// Reads the memory of a part's card; `None` if it has none.
fn card_memory(part: &Table<'_>) -> Result<Option<CardMemoryParameters>> {
    let Some(table) = part.table("card_memory")? else { return Ok(None) };
    if !part.has("engine") {
        let problem = "nothing reaches it: the part has no table `engine`";
        return Err(part.bad("card_memory", problem.to_owned()));
    }
    let parameters: CardMemoryParameters = all(&table)?;
    if parameters.copying == Copying::InTurn && !table.has("turnaround_clocks") {
        return Err(table.missing("turnaround_clocks"));
    }
    if let Err(error) = parameters.check() {
        return Err(table.bad(error.key(), format!("a card memory's {error}")));
    }
    Ok(Some(parameters))
}

/// Reads the memory card of an endpoint's part; `None` if the part is something else.
pub(super) fn memory_card(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<MemoryCardParameters>> {
    let name = ("memory_card", "a memory card");
    read(part, endpoint, name, &["engine"], |p: &MemoryCardParameters| {
        vec![
            (0, MemoryCard::REGISTER_BYTES.into(), "a memory card's registers".into()),
            (FIFO_BAR, p.fifo_window_bytes.into(), "the window of its FIFO".into()),
            (MEMORY_BAR, p.memory_bytes(), "its banks".into()),
        ]
    })
}

/// Reads the NIC of an endpoint's part; `None` if the part is something else.
pub(super) fn nic(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NicParameters>> {
    read(part, endpoint, ("nic", "a NIC"), &["engine", "memory_card"], |_| {
        vec![(0, DOORBELL_BYTES, "a NIC's doorbells".into())]
    })
}

/// Reads the network processor of an endpoint's part; `None` if the part is something else.
pub(super) fn network_processor(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NetworkProcessorParameters>> {
    let name = ("network_processor", "a network processor");
    let others = ["engine", "memory_card", "nic"];
    read(part, endpoint, name, &others, |p: &NetworkProcessorParameters| {
        vec![
            (0, REGISTER_BYTES.into(), "a network processor's registers".into()),
            (REQUEST_BAR, REQUEST_WINDOW_BYTES, "its windows of requests".into()),
            (PUT_BAR, NetworkProcessor::put_window_bytes(p), "its put window".into()),
        ]
    })
}
