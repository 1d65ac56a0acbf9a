// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The content of a page.

use crosslane_results::DirectionLoad;
use crosslane_results::topology::Topology;

use crate::plot::Plot;
use crate::table::Table;

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Title of the report.
    pub title: String,
    /// Subject of the report, in a sentence or two.
    pub summary: String,
    /// Origin of the report as names and values: command, version, lab, seed. No date, so that the
    /// same run gives the same page.
    pub facts: Vec<(String, String)>,
    /// Sections of the report, in order.
    pub sections: Vec<Section>,
}

/// A section under its heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Blocks of the section, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// The most important sentence of the section, such as the bottleneck's name.
    Verdict(String),
    /// A plot.
    Plot(Plot),
    /// A table.
    Table(Table),
    /// Bars that divide the time of links.
    Bars(Bars),
    /// A tree with the load of every link.
    Topology(TopologyFigure),
}

/// Rows that each show how a whole is divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The quantity that is divided, such as `time of the busiest link`.
    pub title: String,
    /// The rows.
    pub bars: Vec<Bar>,
}

/// A whole and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the whole.
    pub name: String,
    /// Name and share of each part, 0 to 1; together one or a little less. A name has the same
    /// colour in all bars of a page.
    pub parts: Vec<(String, f64)>,
}

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
