// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network processor of an endpoint: the table `network_processor` of its part. Also the cables
//! between network processors, parts of the kind `torus-link`, and the tori they form.

use std::ops::Range;

use crosslane_device::network_processor::{
    CableParameters, NetworkProcessor, NetworkProcessorParameters, PUT_BAR, REGISTER_BYTES,
    REQUEST_BAR, REQUEST_WINDOW_BYTES,
};
use crosslane_fabric::MAX_NODES;
use crosslane_fabric::parameters::EndpointParameters;
use crosslane_torus_link::end::EndParameters;
use crosslane_torus_link::routing::Torus;

use super::LabFile;
use super::instances::{Parts, expand, part_of};
use super::model;
use super::parts::PartKind;
use super::table::Table;
use crate::error::Result;

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

/// Reads the network processor of an endpoint's part; `None` if the part is something else.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NetworkProcessorParameters>> {
    let name = ("network_processor", "a network processor");
    let others = ["engine", "memory_card", "nic"];
    let parameters: Option<NetworkProcessorParameters> =
        model::read(part, endpoint, name, &others)?;
    if let Some(parameters) = &parameters {
        let apertures = [
            (0, REGISTER_BYTES.into(), "a network processor's registers"),
            (REQUEST_BAR, REQUEST_WINDOW_BYTES, "its windows of requests"),
            (PUT_BAR, NetworkProcessor::put_window_bytes(parameters), "its put window"),
        ];
        model::check_bars(part, endpoint, &apertures)?;
    }
    Ok(parameters)
}

/// Reads a cable's constants.
pub(super) fn cable(table: &Table<'_>) -> Result<CableParameters> {
    let rate = table.real("lane_gbit_per_s")?;
    let parameters = CableParameters {
        lanes: table.whole("lanes")? as u8,
        lane_bits_per_second: (rate * 1e9).round() as u64,
        latency: table.ns("latency_ns")?,
        bit_error_rate: table.real("bit_error_rate")?,
        bring_up: table.ns("bring_up_ns")?,
        end: EndParameters {
            channel_datagrams: table.whole("channel_datagrams")? as u16,
            retry_datagrams: table.whole("retry_datagrams")? as u8,
            queue_datagrams: table.whole("queue_datagrams")? as u8,
            acknowledge_datagrams: table.whole("acknowledge_datagrams")? as u8,
            acknowledge_within_ps: table.ns("acknowledge_within_ns")?.0,
            retry_timeout_ps: table.ns("retry_timeout_ns")?.0,
            refresh_ps: table.ns("refresh_ns")?.0,
        },
    };
    if let Err(error) = parameters.check() {
        return Err(table.bad(error.key(), format!("a torus link's {error}")));
    }
    if let Err(error) = parameters.end.check() {
        return Err(table.bad("kind", format!("the ends of a torus link: {error}")));
    }
    Ok(parameters)
}

/// Reads one entry of the list `torus`.
pub(super) fn torus<'a>(table: &Table<'a>, parts: &Parts<'a>, lab: &mut LabFile) -> Result<()> {
    table.only_known()?;
    let parameters = cable(&part_of(table, parts, PartKind::TorusLink)?)?;
    let wraps = table.wish("wrap")?;
    let sizes = table.needed_wholes("sizes")?;
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
    table.limit("nodes", "nodes of tori of a lab", count, MAX_NODES)?;
    let (path, span) = (table.path().to_owned(), word.span);
    lab.tori.push(TorusInstance { nodes, torus, parameters, path, span });
    Ok(())
}
