// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a flow could reach at most: the payload ceiling of the slowest link on the way of its
//! data, for the TLPs that it sends.
//!
//! Read first: [`crate::least_ceiling`].

use std::collections::BTreeMap;

use crate::{Carrier, DataTlps, LinkLoad, least_ceiling};
use crosslane_fabric::DirectionId;
use crosslane_fabric::Fabric;
use crosslane_fabric::LinkCounters;
use crosslane_pcie::units::Picoseconds;

/// A flow's ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowCeiling {
    /// Whether they are writes or completions.
    pub carrier: Carrier,
    /// The TLPs that it holds for.
    pub tlps: DataTlps,
    /// Whether `tlps` are those of regular cuts though the completer cut at random, and could not
    /// be counted: the ceiling is then near the true one, above or below it.
    pub is_estimate: bool,
    /// Bytes of data per second, no DLLPs taken off.
    pub bytes_per_second: f64,
    /// The same less the DLLPs that the run sent in that direction.
    pub less_dllps_bytes_per_second: f64,
    /// The direction that sets the latter.
    pub direction: DirectionId,
}

/// Counters of every direction that was looked at, over the whole run.
pub type Counters = BTreeMap<DirectionId, LinkCounters>;

/// The least ceiling along `route`, or `None` where the route is empty. `span` is how long the
/// counters counted.
#[must_use]
pub fn along(
    fabric: &Fabric,
    route: &[DirectionId],
    carrier: Carrier,
    tlps: DataTlps,
    counters: &Counters,
    span: Picoseconds,
) -> Option<FlowCeiling> {
    let loads = route.iter().map(|&direction| LinkLoad {
        link: direction,
        rate: fabric.link(direction.link).parameters.rate,
        dllp_bytes: counters.get(&direction).map_or(0, |counters| counters.dllp_bytes),
        span,
    });
    least_ceiling(loads, tlps).map(|ceiling| FlowCeiling {
        carrier,
        tlps,
        is_estimate: false,
        bytes_per_second: ceiling.bytes_per_second,
        less_dllps_bytes_per_second: ceiling.less_dllps_bytes_per_second,
        direction: ceiling.link,
    })
}
