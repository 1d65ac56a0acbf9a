// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network processor of an endpoint: the table `network_processor` of its part. Also the cables
//! between network processors, parts of the kind `torus-link`, and the tori they form.

use std::ops::Range;

use crosslane_device::ParameterError;
use crosslane_device::network_processor::{
    CableParameters, NetworkProcessor, NetworkProcessorParameters, PUT_BAR, REGISTER_BYTES,
    REQUEST_BAR, REQUEST_WINDOW_BYTES,
};
use crosslane_fabric::MAX_NODES;
use crosslane_fabric::parameters::EndpointParameters;
use crosslane_torus_link::end::EndParameters;
use crosslane_torus_link::routing::{MAX_NODES as MAX_TORUS_NODES, Torus};

use super::LabFile;
use super::instances::{Parts, expand, part_of};
use super::parts::PartKind;
use super::table::Table;
use crate::error::{LabError, Problem};

const KEYS: [&str; 10] = [
    "links",
    "get_slots",
    "credit_slots",
    "put_slots",
    "staging_bytes",
    "request_latency_ns",
    "request_interval_ns",
    "send_latency_ns",
    "receive_latency_ns",
    "register_latency_ns",
];

/// Keys of a cable's constants.
pub(super) const CABLE_KEYS: [&str; 14] = [
    "kind",
    "summary",
    "lanes",
    "lane_gbit_per_s",
    "latency_ns",
    "bit_error_rate",
    "bring_up_ns",
    "channel_datagrams",
    "retry_datagrams",
    "queue_datagrams",
    "acknowledge_datagrams",
    "acknowledge_within_ns",
    "retry_timeout_ns",
    "refresh_ns",
];

/// Highest bit error rate: beyond it hardly any datagram gets through.
const MOST_BIT_ERRORS: f64 = 0.01;

/// A torus of network processors.
#[derive(Clone, Debug)]
pub struct TorusInstance {
    /// Its nodes: names of endpoints, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Its dimensions, and which of them wrap around.
    pub torus: Torus,
    /// The constants of each cable.
    pub parameters: CableParameters,
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
}

/// Returns the lab file's key for a parameter of the model.
fn key_of(error: ParameterError) -> &'static str {
    let (ParameterError::OutOfRange { name, .. } | ParameterError::NoPowerOfTwo { name, .. }) =
        error;
    match name {
        "completion_timeout (ps)" => "completion_timeout_ns",
        "request_latency (ps)" => "request_latency_ns",
        "request_interval (ps)" => "request_interval_ns",
        "send_latency (ps)" => "send_latency_ns",
        "receive_latency (ps)" => "receive_latency_ns",
        "register_latency (ps)" => "register_latency_ns",
        "latency (ps)" => "latency_ns",
        "bring_up (ps)" => "bring_up_ns",
        "lane_bits_per_second" => "lane_gbit_per_s",
        _ => name,
    }
}

/// Reads the network processor of an endpoint's part; `None` if the part is something else. Its
/// tags, sizes and completion time-out come from the table `requester`.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NetworkProcessorParameters>, LabError> {
    let Some(table) = part.table("network_processor")? else { return Ok(None) };
    table.only(&KEYS)?;
    for other in ["engine", "memory_card", "nic"] {
        if part.has(other) {
            let problem = format!("a part has {other} or is a network processor");
            return Err(part.bad("network_processor", problem));
        }
    }
    let number = |key: &str, most: u64| table.whole(key, 0..=most);
    let parameters = NetworkProcessorParameters {
        tags: endpoint.requester.tags,
        max_write_bytes: endpoint.requester.max_write_bytes,
        max_read_bytes: endpoint.requester.max_read_bytes,
        completion_timeout: endpoint.requester.completion_timeout,
        links: number("links", u8::MAX.into())? as u8,
        get_slots: number("get_slots", u16::MAX.into())? as u16,
        credit_slots: number("credit_slots", u16::MAX.into())? as u16,
        put_slots: number("put_slots", u8::MAX.into())? as u8,
        staging_bytes: number("staging_bytes", u32::MAX.into())? as u32,
        request_latency: table.ns("request_latency_ns")?,
        request_interval: table.ns("request_interval_ns")?,
        send_latency: table.ns("send_latency_ns")?,
        receive_latency: table.ns("receive_latency_ns")?,
        register_latency: table.ns("register_latency_ns")?,
    };
    if let Err(error) = parameters.check() {
        let key = key_of(error);
        let requester = part.needed_table("requester")?;
        let table = if KEYS.contains(&key) { &table } else { &requester };
        return Err(table.bad(key, format!("a network processor's {error}")));
    }
    let put_bytes = NetworkProcessor::put_window_bytes(&parameters);
    for (index, key, need, what) in [
        (0, "bar0", REGISTER_BYTES.into(), "a network processor's registers"),
        (REQUEST_BAR, "bar2", REQUEST_WINDOW_BYTES, "its windows of requests"),
        (PUT_BAR, "bar4", put_bytes, "its put window"),
    ] {
        let Some(bar) = endpoint.bars[index] else { return Err(part.missing(key)) };
        let have = bar.size_bytes;
        if have < need {
            let bar = part.needed_table(key)?;
            return Err(bar.bad("size_bytes", format!("{what} take {need} B, not {have} B")));
        }
    }
    Ok(Some(parameters))
}

/// Reads a cable's constants.
pub(super) fn cable(table: &Table<'_>) -> Result<CableParameters, LabError> {
    let number = |key: &str, most: u64| table.whole(key, 0..=most);
    let rate = table.needed_number("lane_gbit_per_s", 1000.0)?;
    let parameters = CableParameters {
        lanes: number("lanes", u8::MAX.into())? as u8,
        lane_bits_per_second: (rate * 1e9).round() as u64,
        latency: table.ns("latency_ns")?,
        bit_error_rate: table.probability("bit_error_rate", MOST_BIT_ERRORS)?,
        bring_up: table.ns("bring_up_ns")?,
        end: EndParameters {
            channel_datagrams: number("channel_datagrams", u16::MAX.into())? as u16,
            retry_datagrams: number("retry_datagrams", u8::MAX.into())? as u8,
            queue_datagrams: number("queue_datagrams", u8::MAX.into())? as u8,
            acknowledge_datagrams: number("acknowledge_datagrams", u8::MAX.into())? as u8,
            acknowledge_within_ps: table.ns("acknowledge_within_ns")?.0,
            retry_timeout_ps: table.ns("retry_timeout_ns")?.0,
            refresh_ps: table.ns("refresh_ns")?.0,
        },
    };
    if let Err(error) = parameters.check() {
        return Err(table.bad(key_of(error), format!("a torus link's {error}")));
    }
    if let Err(error) = parameters.end.check() {
        return Err(table.bad("kind", format!("the ends of a torus link: {error}")));
    }
    Ok(parameters)
}

/// Reads one entry of the list `torus`.
pub(super) fn torus<'a>(
    table: &Table<'a>,
    parts: &Parts<'a>,
    lab: &mut LabFile,
) -> Result<(), LabError> {
    table.only(&["nodes", "sizes", "wrap", "part"])?;
    let parameters = cable(&part_of(table, parts, PartKind::TorusLink)?)?;
    let wraps = !table.has("wrap") || table.wish("wrap")?;
    let sizes = table.needed_wholes("sizes", 1..=u64::from(MAX_TORUS_NODES) - 1)?;
    let sizes: Vec<u16> = sizes.into_iter().map(|size| size as u16).collect();
    let torus = Torus::new(&sizes, wraps)
        .map_err(|error| table.bad("sizes", format!("there is no such torus: {error}")))?;
    let word = table.needed_word("nodes")?;
    let nodes: Vec<String> =
        expand(table, "nodes", &word)?.into_iter().map(|word| word.text).collect();
    if nodes.len() != torus.nodes() as usize {
        let problem = format!("{} names for a torus of {} nodes", nodes.len(), torus.nodes());
        return Err(table.bad("nodes", problem));
    }
    let count = lab.tori.iter().map(|torus| torus.nodes.len()).sum::<usize>() + nodes.len();
    if count > MAX_NODES {
        let what = "nodes of tori of a lab".into();
        return Err(table.error("nodes", Problem::TooMany { what, count, limit: MAX_NODES }));
    }
    let (path, span) = (table.path().to_owned(), word.span);
    lab.tori.push(TorusInstance { nodes, torus, parameters, path, span });
    Ok(())
}
