// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of the sample.

use crosslane_report::{Axis, Plot, Scale, Series, SeriesKind};

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale }
}

fn series(name: &str, kind: SeriesKind, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), kind, points }
}

/// Rates by size, with a paper's points and two ceilings.
pub fn rates() -> Plot {
    let sizes: Vec<f64> = (6..=22).map(|power| f64::from(1 << power)).collect();
    // A fixed cost for each block, then the link.
    let curve = |most: f64, cost_bytes: f64| {
        sizes.iter().map(|size| (*size, most * size / (size + cost_bytes))).collect::<Vec<_>>()
    };
    let published = |points: &[(f64, f64)], error: f64| {
        points.iter().step_by(2).map(|(x, y)| (*x, y * error)).collect::<Vec<_>>()
    };
    let (write, read) = (curve(1684.0, 900.0), curve(1502.0, 4200.0));
    Plot {
        title: "Throughput by size of a block".into(),
        x: axis("Size of a block", "B", Scale::Logarithmic),
        y: axis("Throughput", "MB/s", Scale::Linear),
        series: vec![
            series("write", SeriesKind::Published, published(&write, 0.985)),
            series("read", SeriesKind::Published, published(&read, 1.02)),
            series("write", SeriesKind::Ours, write),
            series("read", SeriesKind::Ours, read),
            series(
                "3 DW headers",
                SeriesKind::Ceiling,
                vec![(64.0, 1725.2), (4_194_304.0, 1725.2)],
            ),
            series("read completions", SeriesKind::Ceiling, vec![(64.0, 1590.0)]),
        ],
    }
}

/// Both axes logarithmic.
pub fn latencies() -> Plot {
    let points = |base: f64, slope: f64| {
        (6..=20).map(|power| f64::from(1 << power)).map(|x| (x, base + slope * x)).collect()
    };
    Plot {
        title: "Latency by size".into(),
        x: axis("Size", "B", Scale::Logarithmic),
        y: axis("Latency", "ns", Scale::Logarithmic),
        series: vec![
            series("to host memory", SeriesKind::Ours, points(706.0, 0.6)),
            series("to a peer on the same board", SeriesKind::Ours, points(540.0, 0.61)),
            series("to a peer on the other board", SeriesKind::Ours, points(910.0, 0.62)),
        ],
    }
}

/// Values by name.
pub fn cases() -> Plot {
    let names = ["1 FPGA", "2 FPGAs", "4 FPGAs", "8 FPGAs", "4 pairs, one board", "4 pairs, both"];
    let by_place = |values: &[f64]| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(place, value)| (place as f64, *value)).collect()
    };
    Plot {
        title: "Sum of the rates by case".into(),
        x: axis("Case", "", Scale::Categories(names.map(Into::into).to_vec())),
        y: axis("Sum of the rates", "MB/s", Scale::Linear),
        series: vec![
            series(
                "simulated",
                SeriesKind::Ours,
                by_place(&[1683.4, 3366.2, 6101.0, 6102.4, 6733.0, 3286.9]),
            ),
            series(
                "simulated",
                SeriesKind::Published,
                by_place(&[1662.0, 3310.0, 6080.0, 6090.0, 6650.0, 3195.0]),
            ),
            series(
                "wire",
                SeriesKind::Ceiling,
                by_place(&[1725.2, 3450.4, 6812.0, 6812.0, 6900.8, 3406.0]),
            ),
        ],
    }
}

/// Values that cannot be drawn beside values that can.
pub fn odd() -> Plot {
    Plot {
        title: "A value that is not finite, and one at 0 of a logarithmic axis".into(),
        x: axis("Size", "B", Scale::Logarithmic),
        y: axis("Rate", "MB/s", Scale::Linear),
        series: vec![series(
            "<script>alert(1)</script>",
            SeriesKind::Ours,
            vec![(0.0, 1.0), (4096.0, 1683.4), (8192.0, f64::NAN)],
        )],
    }
}

/// A plot without values.
pub fn empty() -> Plot {
    Plot {
        title: "A plot without values".into(),
        x: axis("", "", Scale::Linear),
        y: axis("", "", Scale::Linear),
        series: Vec::new(),
    }
}

/// Ten thousand values.
pub fn dense() -> Plot {
    let points = (0..10_000).map(f64::from).map(|x| (x, 40.0 + 12.0 * (x / 900.0).sin() + x % 7.0));
    let mut points: Vec<(f64, f64)> = points.collect();
    points[6200].1 = 118.0;
    Plot {
        title: "Bytes waiting, 10000 values".into(),
        x: axis("Time", "µs", Scale::Linear),
        y: axis("Waiting", "KiB", Scale::Linear),
        series: vec![series("receive buffer of fpga1", SeriesKind::Ours, points)],
    }
}
