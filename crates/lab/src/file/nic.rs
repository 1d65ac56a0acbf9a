// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC of an endpoint: the table `nic` of its part. Also the network links between NICs.

use std::ops::Range;

use crosslane_device::kit::Parameters;
use crosslane_device::nic::{NetworkParameters, NicParameters};
use crosslane_fabric::MAX_NODES;
use crosslane_fabric::parameters::EndpointParameters;

use super::LabFile;
use super::instances::{Parts, expand, part_of};
use super::model;
use super::parts::PartKind;
use super::table::Table;
use crate::error::Result;

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

/// Reads the NIC of an endpoint's part; `None` if the part is something else.
pub(super) fn read(
    part: &Table<'_>,
    endpoint: &EndpointParameters,
) -> Result<Option<NicParameters>> {
    let parameters = model::read(part, endpoint, ("nic", "a NIC"), &["engine", "memory_card"])?;
    if parameters.is_some() {
        let apertures = [(0, DOORBELL_BYTES, "a NIC's doorbells")];
        model::check_bars(part, endpoint, &apertures)?;
    }
    Ok(parameters)
}

/// Reads a network link's constants from a part or from the link itself.
pub(super) fn network(table: &Table<'_>) -> Result<NetworkParameters> {
    let key = "rate_gb_per_s";
    let bytes_per_second = table.rate(key)?;
    let parameters = NetworkParameters::of(|parameter| match parameter.key {
        "bits_per_second" => Ok((bytes_per_second * 8.0).round() as u64),
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
