// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The look of each series of a plot, and its label in the legend.

use maud::{Markup, html};

use super::marks;
use crate::palette::Palette;
use crate::plot::{Plot, SeriesKind};

/// Number of dash patterns, which ceilings take in turn.
const DASHES: usize = 4;

/// The look of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its classes: its kind, and its colour or dashes.
    pub class: String,
    /// Shape of its marks.
    pub shape: usize,
    /// Its label in the legend.
    pub label: String,
    kind: SeriesKind,
}

/// Returns the look of each series. Series of one name have one colour and one shape.
pub fn looks(plot: &Plot) -> Vec<Look> {
    let mut palette = Palette::default();
    let mut ceilings = 0;
    let looks = plot.series.iter().map(|series| {
        let (class, shape) = if series.kind == SeriesKind::Ceiling {
            ceilings += 1;
            (format!("ceiling d{}", (ceilings - 1) % DASHES), 0)
        } else {
            let word = match series.kind {
                // The class of rings.
                SeriesKind::Published | SeriesKind::Measured => "published",
                SeriesKind::Stacked => "stacked",
                SeriesKind::Ours | SeriesKind::Ceiling => "ours",
            };
            let (index, class) = palette.turn(&series.name);
            (format!("{word} {class}"), index)
        };
        let said = match series.kind {
            SeriesKind::Ours | SeriesKind::Stacked => "",
            SeriesKind::Published => "published",
            SeriesKind::Measured => "measured",
            SeriesKind::Ceiling => "ceiling",
        };
        let label = if series.name.to_lowercase().contains(said) {
            series.name.clone()
        } else {
            format!("{}, {said}", series.name)
        };
        Look { class, shape, label, kind: series.kind }
    });
    looks.collect()
}

impl Look {
    /// Draws its key for the legend.
    pub fn key(&self) -> Markup {
        let is_line = matches!(self.kind, SeriesKind::Ours | SeriesKind::Ceiling);
        let radius = if is_line { 3.8 } else { 4.8 };
        html! {
            svg.key width="34" height="14" viewBox="0 0 34 14" aria-hidden="true"
                focusable="false"
            {
                g class={ "series " (self.class) } {
                    @if is_line { path.stroke d="M1 7L33 7" {} }
                    @if self.kind == SeriesKind::Stacked {
                        rect.mark x="4" y="1" width="26" height="12" {}
                    } @else if self.kind != SeriesKind::Ceiling {
                        path.mark d=(marks::path((17.0, 7.0), self.shape, radius)) {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Scale, Series};

    #[test]
    fn ours_and_published_of_one_name_share_a_colour() {
        let axis = Axis { label: String::new(), unit: String::new(), scale: Scale::Linear };
        let series =
            |name: &str, kind| Series { name: name.into(), kind, points: vec![(0.0, 1.0)] };
        let plot = Plot {
            title: String::new(),
            x: axis.clone(),
            y: axis,
            series: vec![
                series("Gen2 x4", SeriesKind::Ceiling),
                series("write", SeriesKind::Ours),
                series("read", SeriesKind::Ours),
                series("write", SeriesKind::Published),
                series("ceiling of reads", SeriesKind::Ceiling),
                series("read", SeriesKind::Measured),
            ],
        };
        let looks = looks(&plot);
        let classes: Vec<&str> = looks.iter().map(|look| look.class.as_str()).collect();
        let rings = ["published c0", "ceiling d1", "published c1"];
        assert_eq!(classes, [&["ceiling d0", "ours c0", "ours c1"][..], &rings].concat());
        assert_eq!((looks[1].shape, looks[2].shape, looks[3].shape), (0, 1, 0));
        let labels: Vec<&str> = looks.iter().map(|look| look.label.as_str()).collect();
        assert_eq!(labels[..3], ["Gen2 x4, ceiling", "write", "read"]);
        assert_eq!(labels[3..], ["write, published", "ceiling of reads", "read, measured"]);
    }
}
