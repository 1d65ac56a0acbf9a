// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network links between NICs; cables between network processors, parts of the kind `torus-link`,
//! and the tori they form.

use std::ops::Range;
use std::sync::Arc;

use crosslane_device::network_processor::{CableParameters, LineCode};
use crosslane_device::nic::NetworkParameters;
use crosslane_fabric::MAX_NODES;
use crosslane_fabric::parameters::{Parameters, Value};
use crosslane_torus_link::end::EndParameters;
use crosslane_torus_link::routing::Torus;

use super::LabFile;
use super::instances::{Parts, expand, part_of};
use super::model;
use super::parts::PartKind;
use super::table::Table;
use crate::error::Result;

/// A network link between two NICs.
#[derive(Clone, Debug)]
pub struct NetworkInstance {
    /// Name of the endpoint at one end.
    pub first: String,
    /// Name of the endpoint at the other end.
    pub second: String,
    /// Constants of the network link.
    pub parameters: NetworkParameters,
    pub(crate) path: String,
    pub(crate) first_span: Range<usize>,
    pub(crate) second_span: Range<usize>,
}

/// A part of a lab that is divided at the cables of its torus.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// Number of the part.
    pub part: u16,
    /// Part of each node of the torus.
    pub of_node: Arc<[u16]>,
}

impl Share {
    /// Whether a node of the torus is in this part.
    pub fn has(&self, node: usize) -> bool {
        self.of_node[node] == self.part
    }
}

/// A torus of network processors.
#[derive(Clone, Debug)]
pub struct TorusInstance {
    /// Nodes of the torus: names of endpoints, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Dimensions of the torus, and which of them wrap around.
    pub torus: Torus,
    /// The constants of each cable.
    pub parameters: CableParameters,
    /// The part of the lab that this is, if the lab is divided.
    pub(crate) share: Option<Share>,
    pub(crate) path: String,
    pub(crate) span: Range<usize>,
}

/// Reads a network link's constants from a part or from the link itself.
pub(super) fn network(table: &Table<'_>) -> Result<NetworkParameters> {
    let key = "rate_gb_per_s";
    let bytes_per_second = table.rate(key)?;
    let parameters = NetworkParameters::of(|parameter| match parameter.key {
        "bits_per_second" => Ok(Value::Whole((bytes_per_second * 8.0).round() as u64)),
        _ => model::value(table, parameter),
    })?;
    match parameters.check() {
        Ok(()) => Ok(parameters),
        Err(error) => {
            let key = if error.key() == "bits_per_second" { key } else { error.key() };
            Err(table.bad(key, format!("a network link's {error}")))
        }
    }
}

/// Reads one entry of the list `network`: one link, or a link for each pair of names.
pub(super) fn networks<'a>(table: &Table<'a>, parts: &Parts<'a>, lab: &mut LabFile) -> Result<()> {
    table.only_known()?;
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
    table.limit("first", "network links of a lab", count, MAX_NODES)?;
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

/// Reads a cable's constants, for cards without long datagrams.
pub(super) fn cable(table: &Table<'_>) -> Result<CableParameters> {
    let rate = table.real("lane_gbit_per_s")?;
    let parameters = CableParameters {
        lanes: table.whole("lanes")? as u8,
        lane_bits_per_second: (rate * 1e9).round() as u64,
        line_code: table.choice("line_code", &LineCode::ALL)?,
        latency: table.ns("latency_ns")?,
        bit_error_rate: table.real("bit_error_rate")?,
        bring_up: table.ns("bring_up_ns")?,
        long_datagrams: false,
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
    let mut parameters = cable(&part_of(table, parts, PartKind::TorusLink)?)?;
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
    let first = lab.endpoints.iter().find(|endpoint| Some(&endpoint.name) == nodes.first());
    let processor = first.and_then(|endpoint| endpoint.part.network_processor);
    parameters.long_datagrams = processor.is_some_and(|processor| processor.long_datagrams);
    let (path, span) = (table.path().to_owned(), word.span);
    lab.tori.push(TorusInstance { nodes, torus, parameters, share: None, path, span });
    Ok(())
}
