// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The look of each series of a plot: its label in the legend, its colour, and its marks, whose
//! shapes tell series apart without colours.

use maud::{Markup, html};

use crate::number::pixels;
use crate::palette::Palette;
use crate::plot::{Plot, SeriesKind};

/// Number of dash patterns, which ceilings take in turn.
const DASHES: usize = 4;

/// The look of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// CSS classes of the series: its kind, and its colour or dashes.
    pub class: String,
    /// Shape of its marks.
    pub shape: usize,
    /// Label of the series in the legend.
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
                        path.mark d=(mark_path((17.0, 7.0), self.shape, radius)) {}
                    }
                }
            }
        }
    }
}

/// Number of shapes, which series take in turn.
const SHAPES: usize = 8;

/// Returns the corners of a regular polygon or star of `points` radii, from `turn` of a circle.
fn corners(points: usize, radii: [f64; 2], turn: f64) -> Vec<(f64, f64)> {
    (0..points)
        .map(|index| {
            let angle = (index as f64 / points as f64 + turn) * std::f64::consts::TAU;
            let radius = radii[index % 2];
            (radius * angle.sin(), -radius * angle.cos())
        })
        .collect()
}

/// Returns the path of a mark. It begins with a move to its middle.
pub fn mark_path((x, y): (f64, f64), shape: usize, radius: f64) -> String {
    let mut path = format!("M{} {}", pixels(x), pixels(y));
    let r = radius;
    let polygon = match shape % SHAPES {
        0 => {
            let (left, across) = (pixels(-r), pixels(2.0 * r));
            let (r, back) = (pixels(r), pixels(-2.0 * r));
            path += &format!("m{left} 0a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 {back} 0z");
            return path;
        }
        1 => corners(4, [r * 1.25; 2], 0.125),
        2 => corners(3, [r * 1.3; 2], 0.0),
        3 => corners(4, [r * 1.3; 2], 0.0),
        4 => corners(3, [r * 1.3; 2], 0.5),
        5 => corners(10, [r * 1.45, r * 0.65], 0.0),
        6 => corners(6, [r * 1.15; 2], 0.0),
        _ => corners(8, [r * 1.5, r * 0.5], 0.125),
    };
    let (mut from_x, mut from_y) = (0.0, 0.0);
    for (index, (to_x, to_y)) in polygon.into_iter().enumerate() {
        let letter = if index == 0 { 'm' } else { 'l' };
        path += &format!("{letter}{} {}", pixels(to_x - from_x), pixels(to_y - from_y));
        (from_x, from_y) = (to_x, to_y);
    }
    path.push('z');
    path
}

/// Returns a bar between two corners as a path. Like a mark's path it begins with a move to the
/// bar's position, the middle of its upper edge.
pub fn bar_path((left, top): (f64, f64), (right, bottom): (f64, f64)) -> String {
    let (width, height) = ((right - left).max(0.0), (bottom - top).max(0.0));
    let [half, width, height] = [width / 2.0, width, height].map(pixels);
    let (x, y) = (pixels(left + (right - left) / 2.0), pixels(top));
    format!("M{x} {y}h{half}v{height}h-{width}v-{height}z")
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

    #[test]
    fn shapes_differ_and_begin_at_their_middle() {
        let shapes: std::collections::BTreeSet<String> =
            (0..SHAPES).map(|shape| mark_path((10.0, 20.5), shape, 4.0)).collect();
        assert_eq!(shapes.len(), SHAPES);
        assert!(shapes.iter().all(|path| path.starts_with("M10 20.5m") && path.ends_with('z')));
    }
}
