// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranges of constants, and labs at their ends.

use crosslane_lab::Lab;

use crate::scenes::text;

const CHANGES: [(&str, &str); 4] = [
    ("read_latency_ns = { value = 200,", "read_latency_ns = { value = 200, low = 90, high = 250,"),
    ("\ntags = { value = 64,", "\ntags = { value = 64, low = 32, high = 64,"),
    (
        "write_latency_clocks = { value = 3,",
        "write_latency_clocks = { value = 3, low = 1, high = 9,",
    ),
    ("copy_gb_per_s = { value = 10,", "copy_gb_per_s = { value = 10, low = 2.5, high = 12,"),
];

fn ranged() -> Lab {
    let mut text = text("minimal").to_owned();
    for (from, to) in CHANGES {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    Lab::from_text("my.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn values(lab: &Lab) -> Vec<String> {
    let keys = CHANGES.map(|(_, to)| to.trim().split_once(" =").unwrap().0);
    let of_key = |key| {
        let mut constants = lab.constants();
        constants.find(|constant| constant.key == key).unwrap().shown_value()
    };
    keys.into_iter().map(of_key).collect()
}

#[test]
fn low_times_and_high_rates_are_fast() {
    let lab = ranged();
    assert_eq!(values(&lab), ["200 (90-250)", "64 (32-64)", "3 (1-9)", "10 (2.5-12)"]);
    let [slow, fast] = lab.extremes().unwrap().expect("it has ranges");
    assert_eq!(values(&slow), ["250", "32", "9", "2.5"]);
    assert_eq!(values(&fast), ["90", "64", "1", "12"]);
    let latency = |lab: &Lab| lab.file().hosts[0].part.parameters.completer.read_latency.0;
    assert_eq!([&slow, &lab, &fast].map(latency), [250_000, 200_000, 90_000]);
    assert!(fast.extremes().unwrap().is_none(), "a value at an end is known");
}

#[test]
fn a_replaced_value_has_no_range() {
    let lab = ranged().with_constant("part.host.memory.read_latency_ns", 400.0).unwrap();
    assert_eq!(values(&lab)[0], "400");
    let [slow, fast] = lab.extremes().unwrap().expect("others have ranges");
    assert_eq!([values(&slow)[0].as_str(), &values(&fast)[0]], ["400", "400"]);
    assert!(crosslane_lab::open("minimal").unwrap().extremes().unwrap().is_none());
    assert!(ranged().edited(|_| ()).unwrap().extremes().unwrap().is_none());
}

/// Two constants that fit each other may not do so at their ends.
#[test]
fn ends_that_contradict_each_other_are_named() {
    let text = text("minimal")
        .replacen(
            "completion_bytes = { value = 256,",
            "completion_bytes = { value = 256, low = 64, high = 512,",
            1,
        )
        .replacen("boundary_bytes = { value = 64,", "boundary_bytes = { value = 128,", 1);
    let lab = Lab::from_text("my.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let error = lab.extremes().unwrap_err().to_string();
    assert!(error.contains("64 B are below the boundary, 128 B"), "{error}");
}
