// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports: pages that open from disk with nothing fetched. What is on a page is data
//! ([`Page`]); how it looks is decided here and nowhere else.
//!
//! Read first: [`Page`] and [`Page::write`], then [`Block`].

#![forbid(unsafe_code)]

mod chart;
mod clean;
mod html;
mod number;
mod page;
mod palette;
mod plot;
pub mod runs;
mod table;
mod topology;
mod tree;
mod write;

pub use page::{Bar, Bars, Block, Page, Section};
pub use plot::{Axis, Plot, Scale, Series, SeriesKind};
pub use table::{Align, Cell, Column, Table};
pub use topology::{DirectionLoad, NodeKind, Topology, TopologyLink, TopologyNode};
pub use write::ReportError;
