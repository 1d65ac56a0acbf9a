// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One's own measurements: a lab with known constants makes them, and the same lab with other
//! constants is validated and calibrated with them.

use std::sync::Arc;

use crosslane_lab::Lab;
use crosslane_reproduce::calibration::{FitRequest, calibrate, calibrated};
use crosslane_reproduce::measured::Measurements;
use crosslane_reproduce::study::Effort;
use crosslane_reproduce::validation::{numbers_of, validate_measured};
use crosslane_results::Calibration;

const LATENCY: &str = "part.host.memory.read_latency_ns";
const TAGS: &str = "part.card.requester.tags";
const TRUTH: [(&str, f64); 2] = [(LATENCY, 312.0), (TAGS, 11.0)];
/// Latencies of reads; rates that the tags limit, and one of them the link.
const ROWS: [&str; 8] = [
    "card0:host0:read,64,ns,", "card0:host0:read,512,ns,", "card0:host:read,64,MB/s,64",
    "card0:host:read,128,MB/s,64", "card0:host0:read,256,GB/s,64", "card0:host0:read,64,MB/s,4",
    "card0:host0:write,4K,GB/s,", "card0:host0:read,2K,us,",
];

fn minimal() -> Lab {
    Lab::load("minimal").unwrap()
}

/// Measurements of the lab with the true constants, each off by its noise, as a fraction.
fn measured(noise: [f64; ROWS.len()]) -> Measurements {
    let parse = |values: &[f64]| {
        let rows = ROWS.iter().zip(values).map(|(row, value)| {
            let (front, outstanding) = row.rsplit_once(',').unwrap();
            let (front, unit) = front.rsplit_once(',').unwrap();
            format!("{front},{value},{unit},{outstanding}\n")
        });
        let text = rows.collect::<String>();
        Measurements::parse("my.csv", &format!("flow,size,value,unit,outstanding\n{text}"))
    };
    let mut lab = minimal();
    for (path, value) in TRUTH {
        lab = lab.with_constant(path, value).unwrap();
    }
    let lab = Arc::new(lab);
    let rows = parse(&[1.0; ROWS.len()]).unwrap().rows;
    let values = rows.iter().zip(noise);
    let values =
        values.map(|(row, noise)| row.simulate(&lab, Effort::Full).unwrap() * (1.0 + noise));
    parse(&values.collect::<Vec<f64>>()).unwrap()
}

fn fitted(measurements: &Measurements, requests: &[&str]) -> Result<Calibration, String> {
    let requests: Vec<FitRequest> = requests.iter().map(|it| it.parse().unwrap()).collect();
    let rows = [1, 2, 3, 4, 5];
    let found = calibrate(("minimal", &minimal()), measurements, &requests, Some(&rows), &());
    found.map_err(|error| error.to_string())
}

#[test]
fn constants_of_another_lab_are_found_again() {
    let calibration = fitted(&measured([0.0; ROWS.len()]), &[LATENCY, TAGS]).unwrap();
    assert_eq!(calibration.fitted_rows, [1, 2, 3, 4, 5]);
    for (one, (path, truth)) in calibration.constants.iter().zip(TRUTH) {
        assert_eq!(one.constant, path);
        assert!((one.value / truth - 1.0).abs() < 1e-3, "{one:?}");
        assert!((one.low..=one.high).contains(&truth) && !one.is_at_bound, "{one:?}");
    }
    let before = calibration.constants.iter().map(|one| one.before);
    assert_eq!(before.collect::<Vec<_>>(), [200.0, 64.0]);
    for row in &calibration.rows {
        assert!(row.row.error.abs() < 1e-3, "{row:?}");
        assert_eq!(row.is_inside(), (row.row.row > 5).then_some(true));
    }
}

/// Two per cent of noise: the truth and the predictions lie in the intervals, which are as wide as
/// such noise makes them.
#[test]
fn noise_widens_the_intervals() {
    let noise = [0.02, -0.015, 0.01, -0.02, 0.018, -0.02, 0.012, 0.016];
    let calibration = fitted(&measured(noise), &[LATENCY, "part.card.requester.tags=4..40"]);
    let calibration = calibration.unwrap();
    for (one, (_, truth)) in calibration.constants.iter().zip(TRUTH) {
        let half = (one.high - one.low) / 2.0 / truth;
        assert!((0.02..0.3).contains(&half), "{one:?}");
        assert!((one.low..=one.high).contains(&truth), "{one:?}");
    }
    assert!((0.01..0.03).contains(&calibration.residual), "{}", calibration.residual);
    assert!(calibration.rows[5..].iter().all(|row| row.is_inside() == Some(true)));
    // The link limits the writes: only noise is expected of them.
    let reach = |at: usize| {
        let row = &calibration.rows[at];
        row.high.unwrap() / row.row.simulated - 1.0
    };
    assert!(reach(5) > reach(6) && reach(6) > 0.04, "{} {}", reach(5), reach(6));
}

#[test]
fn what_rows_do_not_tell_is_said() {
    let measurements = measured([0.0; ROWS.len()]);
    let refused = |requests: &[&str]| fitted(&measurements, requests).unwrap_err();
    let port = "part.host.port.receive_latency_ns";
    assert_eq!(
        refused(&[LATENCY, port]),
        format!(
            "rows 1-5 cannot tell {LATENCY} from {port}: a change of one is made good by the \
             others; fit other rows too, or fewer constants"
        )
    );
    assert_eq!(
        refused(&[LATENCY, "part.host.memory.write_latency_ns"]),
        "none of rows 1-5 depends on part.host.memory.write_latency_ns where it is 100 ns: fit \
         other rows, or leave it out"
    );
    for (requests, sentence) in [
        (&["part.host.memory.read_latency"][..], "did you mean part.host.memory.read_latency_ns?"),
        (&[LATENCY, LATENCY], "part.host.memory.read_latency_ns is to be fitted twice"),
        (&["part.card.requester.max_read_bytes"], "can only be one of certain numbers"),
        (&["part.card.requester.tags=8..4000"], "8..4000 reaches beyond 1..1024, which its key"),
        (&["part.card.requester.tags=8.2..8.4"], "no whole number is between 8.2 and 8.4"),
        (&["part.card.memory.write_latency_ns"], "is 0: say where to look for it, as part.card"),
    ] {
        let error = refused(requests);
        assert!(error.contains(sentence), "{error}");
    }
    let request: FitRequest = LATENCY.parse().unwrap();
    let on = |rows: &[usize]| {
        let requests = std::slice::from_ref(&request);
        calibrate(("minimal", &minimal()), &measurements, requests, Some(rows), &())
            .unwrap_err()
            .to_string()
    };
    let few = "1 constant cannot be fitted to 1 row: more rows than constants are needed";
    assert_eq!(on(&[2]), few);
    assert_eq!(on(&[2, 9]), "there is no row 9: my.csv has 8");
}

/// The range of a lab file's constant is where it is looked for; a fitted value has none.
#[test]
fn range_of_the_lab_bounds_the_search() {
    let old = "read_latency_ns = { value = 200, source";
    let text = minimal().file().text().to_owned();
    let ranged = text.replace(old, "read_latency_ns = { value = 200, low = 90, high = 250, source");
    assert_ne!(ranged, text);
    let lab = Lab::from_text("ranged.toml", &ranged).unwrap();
    let (measurements, request) = (measured([0.0; ROWS.len()]), LATENCY.parse().unwrap());
    let found = calibrate(("ranged", &lab), &measurements, &[request], Some(&[1, 2]), &()).unwrap();
    assert_eq!((found.constants[0].value, found.constants[0].is_at_bound), (250.0, true));
    let written = calibrated(&lab, &found, "crosslane calibrate").unwrap();
    assert!(written.contains("{ value = 250, source = \"fit: rows 1-2 of my.csv\" }"));
    Lab::from_text("written.toml", &written).unwrap();
}

/// The written lab keeps everything but the values and their sources, and its rows are fits.
#[test]
fn calibrated_lab_says_what_was_fitted() {
    let measurements = measured([0.0; ROWS.len()]);
    let calibration = fitted(&measurements, &[LATENCY]).unwrap();
    let value = calibration.constants[0].value;
    let text = calibrated(&minimal(), &calibration, "crosslane calibrate").unwrap();
    let old = minimal().file().text().to_owned();
    let (head, rest) = text.split_once('\n').unwrap();
    assert_eq!(head, "# Calibrated by `crosslane calibrate`.");
    let changed: Vec<_> = old.lines().zip(rest.lines()).filter(|(old, new)| old != new).collect();
    assert_eq!(old.lines().count(), rest.lines().count());
    let [(_, new)] = changed[..] else { panic!("{changed:?}") };
    let written = format!("{{ value = {value}, source = \"fit: rows 1-5 of my.csv\" }}");
    assert_eq!(new, format!("read_latency_ns = {written}"));
    let lab = Lab::from_text("fitted.toml", &text).unwrap();
    // Written again, it has one such line still.
    assert_eq!(calibrated(&lab, &calibration, "crosslane calibrate").unwrap(), text);

    let validated =
        validate_measured("fitted.toml", &lab, &measurements, &(), &()).unwrap().unwrap();
    assert_eq!((validated.rows, validated.compared.rows, validated.predicted.rows), (8, 8, 3));
    assert_eq!(validated.file.as_deref(), Some("my.csv"));
    assert_eq!(validated.changed + validated.fixed, numbers_of(&lab).len());
    let kinds: Vec<&str> = validated.measured.iter().map(|row| &*row.row.kind).collect();
    assert_eq!(kinds, ["fit", "fit", "fit", "fit", "fit", "predicted", "predicted", "predicted"]);
    // The tags were not fitted: what they limited is far off.
    assert!(validated.measured[2].row.error > 1.0, "{:?}", validated.measured[2]);
    assert!(validated.outside.iter().any(|label| label.starts_with("row 3 (card0:host:read:64")));
    // The latency of the memory is a third of that of a short read; writes fill the link.
    let (read, write) = (&validated.measured[0], &validated.measured[6]);
    assert_eq!(read.moved_by.as_deref(), Some(LATENCY));
    assert!((0.02..0.05).contains(&read.change.unwrap()), "{read:?}");
    assert_eq!((write.row.error, write.moved_by.as_deref(), write.change), (0.0, None, None));
}

/// An engine's transfers, by the driver, and what a lab cannot do, at its place in the file.
#[test]
fn engines_flows_are_measured_too() {
    let lab = Arc::new(minimal());
    let parse = |rows: &str| Measurements::parse("e.csv", &format!("flow,size,value,unit\n{rows}"));
    let text = "card0:host0:c2h,64K,1,GB/s\nhost:card0:h2c,64K,1,GB/s\ncard0:host:c2h,4K,1,us\n";
    let rows = parse(text).unwrap();
    rows.check(&lab).unwrap();
    let figures: Vec<f64> =
        rows.rows.iter().map(|row| row.simulate(&lab, Effort::Quick).unwrap()).collect();
    // Gen3 x4 carries 3.6 GB/s at 256 B.
    assert!(figures[..2].iter().all(|rate| (3.0..3.7).contains(rate)), "{figures:?}");
    assert!((1.0..10.0).contains(&figures[2]), "{figures:?}");
    for (row, sentence) in [
        ("card9:host0:read,64,1,", "the lab has no card9; it has host0, card0"),
        ("card0:card0:read,64,1,", "card0 cannot move data to itself over PCI Express"),
        ("host0:card0:c2h,64,1,", "host0 is no endpoint with a DMA engine of minimal"),
        ("card0:host1:c2h,64,1,", "card0 is in the tree of host0, not of host1"),
        ("card0:card0:p2p,64,1,", "card0 cannot move data to itself"),
    ] {
        let rows = parse(&format!("card0:host:read,64,1,\n{row}")).unwrap();
        let error = rows.check(&lab).unwrap_err().to_string();
        assert_eq!(error, format!("e.csv, line 3, column flow: {sentence}"));
    }
    let error = parse("card0:host:c2h,65,1,").unwrap().check(&lab).unwrap_err().to_string();
    let sentence = "65 B is not a multiple of 4 B, an engine's word";
    assert_eq!(error, format!("e.csv, line 2, column size: {sentence}"));
}
