// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC of an endpoint: the table `nic` of its part. Also the network links between NICs.

use std::ops::Range;

use crosslane_device::ParameterError;
use crosslane_device::nic::{NetworkParameters, NicParameters};
use crosslane_fabric::MAX_NODES;
use crosslane_fabric::parameters::EndpointParameters;

use super::LabFile;
use super::instances::{Parts, expand, only, part_of};
use super::parts::PartKind;
use super::table::Table;
use crate::error::{LabError, Problem};

const KEYS: [&str; 8] = [
    "outstanding_reads",
    "request_latency_ns",
    "request_interval_ns",
    "packet_latency_ns",
    "send_buffer_bytes",
    "receive_buffer_bytes",
    "retry_timeout_ns",
    "connect_ns",
];

/// Keys of a network link's constants.
pub(super) const NETWORK_KEYS: [&str; 8] = [
    "kind",
    "summary",
    "rate_gb_per_s",
    "mtu_bytes",
    "header_bytes",
    "request_bytes",
    "acknowledgement_bytes",
    "latency_ns",
];

/// Least size of a NIC's BAR 0, bytes: doorbells of 512 connections.
const DOORBELL_BYTES: u64 = 4096;

/// A network link between two NICs.
#[derive(Clone, Debug)]
pub struct NetworkInstance {
    /// Name of the endpoint at one end.
    pub first: String,
    /// Name of the endpoint at the other end.
    pub second: String,
    /// Its constants.
    pub parameters: NetworkParameters,
    pub(crate) path: String,
    pub(crate) first_span: Range<usize>,
    pub(crate) second_span: Range<usize>,
}

/// Returns the lab file's key for a parameter of the model.
fn key_of(error: ParameterError) -> &'static str {
    let (ParameterError::OutOfRange { name, .. } | ParameterError::NoPowerOfTwo { name, .. }) =
        error;
    match name {
        "completion_timeout (ps)" => "completion_timeout_ns",
        "request_latency (ps)" => "request_latency_ns",
        "request_interval (ps)" => "request_interval_ns",
        "packet_latency (ps)" => "packet_latency_ns",
        "retry_timeout (ps)" => "retry_timeout_ns",
        "connect (ps)" => "connect_ns",
        "latency (ps)" => "latency_ns",
        "bits_per_second" => "rate_gb_per_s",
        _ => name,
    }
}

/// Reads the NIC of an endpoint's part; `None` if the part is something else. Its tags, sizes and
/// completion time-out come from the table `requester`.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NicParameters>, LabError> {
    let Some(table) = part.table("nic")? else { return Ok(None) };
    table.only(&KEYS)?;
    for other in ["engine", "memory_card"] {
        if part.has(other) {
            return Err(part.bad("nic", format!("a part has {other} or is a NIC")));
        }
    }
    let bytes = |key| Ok(table.whole(key, 0..=u32::MAX.into())? as u32);
    let parameters = NicParameters {
        tags: endpoint.requester.tags,
        max_write_bytes: endpoint.requester.max_write_bytes,
        max_read_bytes: endpoint.requester.max_read_bytes,
        completion_timeout: endpoint.requester.completion_timeout,
        outstanding_reads: table.whole("outstanding_reads", 0..=u16::MAX.into())? as u16,
        request_latency: table.ns("request_latency_ns")?,
        request_interval: table.ns("request_interval_ns")?,
        packet_latency: table.ns("packet_latency_ns")?,
        send_buffer_bytes: bytes("send_buffer_bytes")?,
        receive_buffer_bytes: bytes("receive_buffer_bytes")?,
        retry_timeout: table.ns("retry_timeout_ns")?,
        connect: table.ns("connect_ns")?,
    };
    if let Err(error) = parameters.check() {
        let key = key_of(error);
        let requester = part.needed_table("requester")?;
        let table = if KEYS.contains(&key) { &table } else { &requester };
        return Err(table.bad(key, format!("a NIC's {error}")));
    }
    let Some(bar) = endpoint.bars[0] else { return Err(part.missing("bar0")) };
    let have = bar.size_bytes;
    if have < DOORBELL_BYTES {
        let problem = format!("a NIC's doorbells take {DOORBELL_BYTES} B, not {have} B");
        return Err(part.needed_table("bar0")?.bad("size_bytes", problem));
    }
    Ok(Some(parameters))
}

/// Reads a network link's constants from a part or from the link itself.
pub(super) fn network(table: &Table<'_>) -> Result<NetworkParameters, LabError> {
    let key = "rate_gb_per_s";
    if !table.has(key) {
        return Err(table.missing(key));
    }
    let bytes_per_second = table.rate_or_unlimited(key)?;
    if bytes_per_second.is_infinite() {
        return Err(table.bad(key, "a network link has a rate".into()));
    }
    let bytes = |key| Ok(table.whole(key, 0..=u32::MAX.into())? as u32);
    let parameters = NetworkParameters {
        bits_per_second: (bytes_per_second * 8.0).round() as u64,
        mtu_bytes: bytes("mtu_bytes")?,
        header_bytes: bytes("header_bytes")?,
        request_bytes: bytes("request_bytes")?,
        acknowledgement_bytes: bytes("acknowledgement_bytes")?,
        latency: table.ns("latency_ns")?,
    };
    match parameters.check() {
        Ok(()) => Ok(parameters),
        Err(error) => Err(table.bad(key_of(error), format!("a network link's {error}"))),
    }
}

/// Reads one entry of the list `network`: one link, or a link for each pair of names.
pub(super) fn networks<'a>(
    table: &Table<'a>,
    parts: &Parts<'a>,
    lab: &mut LabFile,
) -> Result<(), LabError> {
    only(table, &["first", "second", "part"], PartKind::Network)?;
    let with_part = match table.has("part") {
        true => part_of(table, parts, PartKind::Network)?,
        false => table.clone(),
    };
    let parameters = network(&with_part)?;
    let (first, second) = (table.needed_word("first")?, table.needed_word("second")?);
    let (firsts, seconds) = (expand(table, "first", &first)?, expand(table, "second", &second)?);
    if firsts.len() != seconds.len() {
        let problem = format!("{} ends for {} other ends", seconds.len(), firsts.len());
        return Err(table.bad("second", problem));
    }
    let count = lab.networks.len() + firsts.len();
    if count > MAX_NODES {
        let what = "network links of a lab".into();
        return Err(table.error("first", Problem::TooMany { what, count, limit: MAX_NODES }));
    }
    for (first, second) in firsts.into_iter().zip(seconds) {
        lab.networks.push(NetworkInstance {
            first: first.text,
            second: second.text,
            parameters,
            path: table.path().to_owned(),
            first_span: first.span,
            second_span: second.span,
        });
    }
    Ok(())
}
