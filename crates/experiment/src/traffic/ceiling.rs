// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ceilings of generic flows: the payload ceiling of the slowest link on the path of a flow's
//! data, for the TLPs that it sends.
//!
//! Read first: [`crate::least_ceiling`].

use std::collections::BTreeMap;

use crosslane_fabric::{DirectionId, Fabric, LinkCounters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Ceiling;

use crate::ceiling::{Carrier, DataTlps, LinkLoad, least_ceiling};
use crate::links::direction_name;

/// Counters of every direction that was looked at, over the whole run.
pub type Counters = BTreeMap<DirectionId, LinkCounters>;

/// Returns the least ceiling along `route`, or `None` if the route is empty. The counters are those
/// of `span`.
#[must_use]
pub fn along(
    fabric: &Fabric,
    route: &[DirectionId],
    carrier: Carrier,
    tlps: DataTlps,
    counters: &Counters,
    span: Picoseconds,
) -> Option<Ceiling> {
    let loads = route.iter().map(|&direction| LinkLoad {
        link: direction,
        rate: fabric.link(direction.link).parameters.rate,
        dllp_bytes: counters.get(&direction).map_or(0, |counters| counters.dllp_bytes),
        span,
    });
    let ceiling = least_ceiling(loads, tlps)?;
    Some(ceiling.result(carrier, tlps, direction_name(fabric, ceiling.link)))
}
