// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab's topology as a block of a page.

use crosslane_results::DirectionLoad;
use crosslane_results::topology::Topology;

/// A topology to be drawn. With loads, links show these; names of ports and details of cards are
/// left out.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyFigure {
    /// Title, such as `8 FPGAs write to RAM`; may be empty.
    pub title: String,
    /// The trees.
    pub topology: Topology,
    /// Loads of its links; empty if none were counted.
    pub loads: Vec<DirectionLoad>,
}
