// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements of real GPUs beside the lab that was fitted to one of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crosslane_lab::Lab;
use crosslane_reproduce::measured::{Measurements, Quantity};
use crosslane_reproduce::study::Effort;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/measured")
}

fn lab(variant: &str) -> Arc<Lab> {
    let file = folder().join("hopper.toml");
    Arc::new(Lab::load(&format!("{}{variant}", file.display())).unwrap())
}

fn measurements(file: &str) -> Measurements {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    Measurements::parse(file, &text).unwrap()
}

/// Errors of rows of a file, as fractions, of those that are chosen by flow, size, quantity and how
/// many are in flight, least first.
fn errors(
    lab: &Arc<Lab>,
    file: &str,
    chosen: impl Fn(&str, u64, Quantity, u32) -> bool,
) -> Vec<f64> {
    let measurements = measurements(file);
    let rows = measurements.rows.iter().filter(|row| {
        let in_flight = row.outstanding.unwrap();
        chosen(&row.flow.to_string(), row.bytes, row.unit.quantity, in_flight)
    });
    let mut errors: Vec<f64> = rows
        .map(|row| (row.simulate(lab, Effort::Quick).unwrap() / row.value - 1.0).abs())
        .collect();
    assert!(!errors.is_empty());
    errors.sort_by(f64::total_cmp);
    errors
}

/// The lab was fitted to an H200; an H100 in another machine is predicted (docs/measured-gpu.md).
#[test]
fn an_h100_is_as_the_lab_of_an_h200_says() {
    let (lab, file) = (lab(""), "h100-warps.csv");
    let writes = errors(&lab, file, |flow, _, _, _| flow.ends_with(":write"));
    assert_eq!(writes.len(), 8);
    assert!(writes[7] < 0.015, "{writes:?}");
    let long = errors(&lab, file, |flow, bytes, _, in_flight| {
        flow.ends_with(":read") && bytes >= 256 && in_flight == 2048
    });
    assert!(long[long.len() - 1] < 0.03, "{long:?}");
    let latencies =
        errors(&lab, file, |_, bytes, quantity, _| quantity == Quantity::Latency && bytes <= 128);
    assert!(latencies[latencies.len() / 2] < 0.015, "{latencies:?}");
}

#[test]
fn copy_engines_are_as_their_variant_says() {
    let chosen = |flow: &str, bytes, _, _| bytes <= 4 << 20 && !flow.ends_with(":both");
    let errors = errors(&lab(":copies"), "h100-copies.csv", chosen);
    assert_eq!(errors.len(), 8);
    assert!(errors[7] < 0.06, "{errors:?}");
}

/// The rate both ways at once is that of both payloads together, and no more than the link carries.
#[test]
fn a_flow_both_ways_counts_both() {
    let lab = lab("");
    let rate = |kind: &str| {
        let text = format!("flow,size,value,outstanding\ngpu0:host:{kind},128,1,2048\n");
        let row = Measurements::parse("both.csv", &text).unwrap().rows.remove(0);
        row.simulate(&lab, Effort::Quick).unwrap()
    };
    let (read, write, both) = (rate("read"), rate("write"), rate("both"));
    assert!(both > 1.4 * read.max(write) && both < read + write, "{read} {write} {both}");
    let text = "flow,size,value,unit\ngpu0:host:both,128,1,ns\n";
    let row = Measurements::parse("both.csv", text).unwrap().rows.remove(0);
    let error = row.simulate(&lab, Effort::Quick).unwrap_err().to_string();
    assert_eq!(
        error,
        "both.csv, line 2, column flow: a read and a write at once have a rate, and no latency of \
         their own"
    );
}
