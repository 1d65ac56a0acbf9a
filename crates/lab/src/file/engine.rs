// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DMA engine of an endpoint: the table `engine` of its part. Constants that the engine shares
//! with the generic requester (clock, tags, sizes) are read from the table `requester`, so that no
//! constant is written twice.

use std::ops::RangeInclusive;

use crosslane_device::EngineParameters;
use crosslane_fabric::parameters::{EndpointParameters, PortParameters, RequesterParameters};
use crosslane_pcie::units::Picoseconds;

use super::table::Table;
use super::{card_memory, model};
use crate::error::LabError;

const KEYS: [&str; 15] = [
    "header_on_datapath",
    "reading_descriptors",
    "register_latency_ns",
    "request_latency_clocks",
    "write_latency_clocks",
    "fetch_latency_clocks",
    "stream_latency_clocks",
    "h2c_channels",
    "c2h_channels",
    "peer_channels",
    "lanes",
    "lane_fifo_bytes",
    "staging_bytes",
    "table_descriptors",
    "fetch_batch",
];

/// Size of an engine's registers in BAR0, bytes (`docs/engine.md`).
const REGISTER_BYTES: u64 = 1 << 16;
/// Smallest aperture of a receive queue, bytes: a TLP never crosses a multiple of it.
const LEAST_LANE_WINDOW_BYTES: u64 = 4096;
/// Number of channels of each kind that fit the register map.
const CHANNELS: RangeInclusive<u64> = 1..=4;
/// Number of receive queues that fit the register map.
const LANES: RangeInclusive<u64> = 1..=16;
/// FIFO sizes, bytes: from the smallest payload to 16 MiB, more than any chip has.
const FIFO_BYTES: RangeInclusive<u64> = 128..=1 << 24;
/// Latencies, clocks: more than any engine takes.
const LATENCY_CLOCKS: RangeInclusive<u64> = 0..=1024;
/// Number of descriptors of a table: 16 B each, 16 KiB of BAR0.
const TABLE_DESCRIPTORS: RangeInclusive<u64> = 1..=1024;
/// Number of descriptors of one fetch: 32 B each, so that a read request of 4 KiB is enough.
const FETCH_BATCH: RangeInclusive<u64> = 1..=128;

/// Reads the engine of an endpoint's part; `None` if it has none.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
    port: &PortParameters,
) -> Result<Option<EngineParameters>, LabError> {
    let Some(table) = part.table("engine")? else {
        card_memory::read(part)?;
        return Ok(None);
    };
    table.only(&KEYS)?;
    let requester = part.needed_table("requester")?;
    let clock = clock(&requester, &endpoint.requester)?;
    let lanes = table.power_of_two("lanes", LANES)?;
    let apertures = [
        (0, REGISTER_BYTES, "an engine's registers"),
        (1, lanes * LEAST_LANE_WINDOW_BYTES, &*format!("the windows of {lanes} lanes")),
    ];
    model::check_bars(part, endpoint, &apertures)?;
    let lane_fifo_bytes = table.power_of_two("lane_fifo_bytes", FIFO_BYTES)? as u32;
    // A receive queue must have room for a whole TLP.
    let payload_bytes = u32::from(port.capability.max_payload_bytes);
    if lane_fifo_bytes < payload_bytes {
        let problem =
            format!("{lane_fifo_bytes} B do not hold a payload of its port, {payload_bytes} B");
        return Err(table.bad("lane_fifo_bytes", problem));
    }
    // The default is no latency.
    let latency = |key| -> Result<u32, LabError> {
        Ok(table.optional_whole(key, LATENCY_CLOCKS)?.unwrap_or(0) as u32)
    };
    let parameters = EngineParameters {
        clock,
        datapath_bytes: endpoint.requester.datapath_bytes,
        header_on_datapath: table.needed_truth("header_on_datapath")?,
        idle_clocks_per_tlp: endpoint.requester.idle_clocks_per_tlp,
        descriptor_gap: endpoint.requester.operation_gap,
        tags: endpoint.requester.tags,
        max_write_bytes: endpoint.requester.max_write_bytes,
        max_read_bytes: endpoint.requester.max_read_bytes,
        reading_descriptors: table.whole("reading_descriptors", 1..=u16::MAX.into())? as u16,
        completion_timeout: endpoint.requester.completion_timeout,
        register_latency: table.ns("register_latency_ns")?,
        request_latency_clocks: latency("request_latency_clocks")?,
        write_latency_clocks: latency("write_latency_clocks")?,
        fetch_latency_clocks: latency("fetch_latency_clocks")?,
        stream_latency_clocks: latency("stream_latency_clocks")?,
        h2c_channels: table.whole("h2c_channels", CHANNELS)? as u8,
        c2h_channels: table.whole("c2h_channels", CHANNELS)? as u8,
        peer_channels: table.whole("peer_channels", CHANNELS)? as u8,
        lanes: lanes as u8,
        lane_fifo_bytes,
        staging_bytes: table.power_of_two("staging_bytes", FIFO_BYTES)? as u32,
        table_descriptors: table.power_of_two("table_descriptors", TABLE_DESCRIPTORS)? as u16,
        fetch_batch: table.power_of_two("fetch_batch", FETCH_BATCH)? as u16,
        card_memory: card_memory::read(part)?,
    };
    check(&table, &requester, &parameters)?;
    Ok(Some(parameters))
}

/// Reports a parameter that the model rejects at its key.
fn check(
    engine: &Table<'_>,
    requester: &Table<'_>,
    parameters: &EngineParameters,
) -> Result<(), LabError> {
    let Err(error) = parameters.check() else { return Ok(()) };
    let key = match model::key_of(error) {
        key if key == "descriptor_gap_ns" => "operation_gap_ns".to_owned(),
        key => key,
    };
    let table = if KEYS.contains(&key.as_str()) { engine } else { requester };
    Err(table.bad(&key, format!("an engine's {error}")))
}

/// Returns the clock of an engine, which must have a datapath; a generic requester need not.
fn clock(table: &Table<'_>, requester: &RequesterParameters) -> Result<Picoseconds, LabError> {
    if requester.datapath_bytes == 0 {
        return Err(table.missing("datapath_bytes"));
    }
    Ok(requester.clock)
}
