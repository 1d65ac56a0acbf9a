// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks: a shape at each value, so that series can be told apart without colours.

use crate::number::pixels;

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
pub fn path((x, y): (f64, f64), shape: usize, radius: f64) -> String {
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
pub fn bar((left, top): (f64, f64), (right, bottom): (f64, f64)) -> String {
    let (width, height) = ((right - left).max(0.0), (bottom - top).max(0.0));
    let [half, width, height] = [width / 2.0, width, height].map(pixels);
    let (x, y) = (pixels(left + (right - left) / 2.0), pixels(top));
    format!("M{x} {y}h{half}v{height}h-{width}v-{height}z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_differ_and_begin_at_their_middle() {
        let shapes: std::collections::BTreeSet<String> =
            (0..SHAPES).map(|shape| path((10.0, 20.5), shape, 4.0)).collect();
        assert_eq!(shapes.len(), SHAPES);
        assert!(shapes.iter().all(|path| path.starts_with("M10 20.5m") && path.ends_with('z')));
    }
}
