// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes rendered: as text for a terminal ([`text`]), and as pages that open from disk with
//! nothing fetched. The content of a page is data ([`Page`]); this crate alone decides its look.
//!
//! Read first: [`Page`] and [`Page::to_html`], then [`Block`]; [`text()`](text::text) for text.
//!
//! ```
//! use crosslane_report::*;
//!
//! let axis = |label: &str, unit: &str, scale| Axis {
//!     label: label.into(),
//!     unit: unit.into(),
//!     scale,
//! };
//! // Series of one name share a colour: the paper's points lie on our line.
//! let series = |kind, points| Series { name: "write".into(), kind, points };
//! let plot = Plot {
//!     title: "Rate by size".into(),
//!     x: axis("Size", "B", Scale::Logarithmic),
//!     y: axis("Rate", "MB/s", Scale::Linear),
//!     series: vec![
//!         series(SeriesKind::Ours, vec![(64.0, 112.0), (4096.0, 1380.4)]),
//!         series(SeriesKind::Published, vec![(4096.0, 1372.0)]),
//!     // A single value is the ceiling of the whole plot.
//!         series(SeriesKind::Ceiling, vec![(64.0, 1725.2)]),
//!     ],
//! };
//! let page = Page {
//!     title: "Writes".into(),
//!     summary: "How fast an engine writes to host memory.".into(),
//!     facts: vec![("Seed".into(), "1".into())],
//!     sections: vec![Section { title: "Rates".into(), blocks: vec![Block::Plot(plot)] }],
//! };
//! let html = page.to_html();
//! assert!(html.contains("write\n4 KiB: 1380.4 MB/s"));
//! ```

#![forbid(unsafe_code)]

mod chart;
mod clean;
mod html;
pub mod number;
pub mod output;
mod page;
mod palette;
mod plot;
pub mod runs;
mod table;
pub mod text;
mod tree;

pub use html::{GENERATOR, page_style, plot_part};
pub use page::{Bar, Bars, Block, Page, Section, TopologyFigure};
pub use plot::{Axis, Plot, Scale, Series, SeriesKind};
pub use table::{Align, Cell, Column, Field, Table};
pub use tree::{loaded_svg, page_svg, topology_svg};
