// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks whose JSON is a list of rows: single accesses, sweeps of a lab's parameters, and
//! bridged transfers.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::run::{Better, Value};
use crate::number::whole_size;

/// What a benchmark of rows has measured.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsRun {
    /// What it is, in a few words: `bench overhead, lab:kc705:crosslane`.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// What all that is random came from.
    pub seed: u64,
    /// What was measured, in the order of the file.
    pub values: Vec<Value>,
}

/// `crosslane bench overhead --json`.
#[derive(Deserialize)]
struct OverheadDocument {
    device: String,
    seed: u64,
    version: String,
    rows: Vec<OverheadRow>,
}

#[derive(Deserialize)]
struct OverheadRow {
    what: String,
    bytes: Option<u64>,
    bus_ps: u64,
}

/// `crosslane bench sweep --json`.
#[derive(Deserialize)]
struct SweepDocument {
    lab: String,
    card: String,
    seed: u64,
    version: String,
    rows: Vec<SweepRow>,
}

#[derive(Deserialize)]
struct SweepRow {
    size_bytes: u64,
    transfer_ns: f64,
    bytes_per_second: f64,
    #[serde(default, rename = "wrong_words")]
    _wrong_words: u64,
    /// What was varied.
    #[serde(flatten)]
    parameters: BTreeMap<String, serde_json::Value>,
}

/// `crosslane bridge bench --json`.
#[derive(Deserialize)]
struct BridgeDocument {
    #[serde(rename = "where")]
    place: String,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    version: String,
    transfers: Vec<BridgeTransfer>,
}

#[derive(Deserialize)]
struct BridgeTransfer {
    path: String,
    mode: String,
    bytes: u64,
    clients: usize,
    seconds: Vec<f64>,
    bytes_per_second: f64,
}

/// Reads a benchmark of rows; none where it is none of them.
pub(super) fn read(document: &serde_json::Value) -> Option<Result<RowsRun, serde_json::Error>> {
    match document.get("bench").and_then(serde_json::Value::as_str) {
        Some("overhead") => Some(OverheadDocument::deserialize(document).map(overhead)),
        Some("sweep") => Some(SweepDocument::deserialize(document).map(sweep)),
        Some("bridge") => Some(BridgeDocument::deserialize(document).map(bridge)),
        _ => None,
    }
}

fn rate(bytes_per_second: f64) -> (&'static str, &'static str, f64, Better) {
    ("rate", "MB/s", bytes_per_second / 1e6, Better::Higher)
}

fn value(
    subject: &str,
    conditions: &str,
    (quantity, unit, value, better): (&str, &str, f64, Better),
) -> Value {
    Value {
        subject: subject.to_owned(),
        conditions: conditions.to_owned(),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        value,
        better,
    }
}

/// Times by the clock of the card's bus: those by the machine's clock are no property of the card.
fn overhead(document: OverheadDocument) -> RowsRun {
    let values = document.rows.iter().map(|row| {
        let conditions = row.bytes.map_or(String::new(), whole_size);
        value(&row.what, &conditions, ("time", "us", row.bus_ps as f64 / 1e6, Better::Lower))
    });
    let values = values.collect();
    let OverheadDocument { device, seed, version, .. } = document;
    RowsRun { name: format!("bench overhead, {device}"), version, seed, values }
}

fn sweep(document: SweepDocument) -> RowsRun {
    let mut values = Vec::new();
    for row in &document.rows {
        let words = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let parameters = row.parameters.iter();
        let parameters = parameters.map(|(name, value)| format!("{name} {}", words(value)));
        let subject = parameters.collect::<Vec<_>>().join(", ");
        let conditions = whole_size(row.size_bytes);
        values.push(value(&subject, &conditions, rate(row.bytes_per_second)));
        let time = ("time", "us", row.transfer_ns / 1e3, Better::Lower);
        values.push(value(&subject, &conditions, time));
    }
    let SweepDocument { lab, card, seed, version, .. } = document;
    RowsRun { name: format!("bench sweep, {card} of lab {lab}"), version, seed, values }
}

fn bridge(document: BridgeDocument) -> RowsRun {
    let mut values = Vec::new();
    for transfer in &document.transfers {
        let subject = format!("{}, {}", transfer.path, transfer.mode);
        let clients = match transfer.clients {
            1 => String::new(),
            clients => format!(", {clients} clients"),
        };
        let conditions = format!("{} B{clients}", transfer.bytes);
        values.push(value(&subject, &conditions, rate(transfer.bytes_per_second)));
        let mut times = transfer.seconds.clone();
        times.sort_by(f64::total_cmp);
        if let Some(seconds) = times.get(times.len() / 2) {
            let time = ("typical time", "ms", seconds * 1e3, Better::Lower);
            values.push(value(&subject, &conditions, time));
        }
    }
    let BridgeDocument { place, seed, version, .. } = document;
    RowsRun { name: format!("bridge bench, {place}"), version, seed, values }
}

#[cfg(test)]
mod tests {
    use super::super::run::{Run, RunError};

    fn values(text: &str) -> Vec<String> {
        let run = Run::parse(text).unwrap();
        let words = |value: super::Value| {
            let super::Value { subject, conditions, quantity, unit, value, .. } = value;
            format!("{}: {subject}; {conditions}; {quantity} {value} {unit}", run.name())
        };
        run.values().into_iter().map(words).collect()
    }

    #[test]
    fn rows_of_every_kind_become_values() {
        let overhead = r#"{"bench": "overhead", "device": "lab:kc705", "seed": 1, "version": "1",
            "rows": [{"what": "register read", "rounds": 2, "bytes": null, "bus_ps": 1500000,
                      "machine_ps": 7}]}"#;
        assert_eq!(values(overhead), ["bench overhead, lab:kc705: register read; ; time 1.5 us"]);
        let sweep = r#"{"bench": "sweep", "lab": "kc705", "card": "kc705", "seed": 1,
            "version": "1", "rows": [{"way": "to-card", "width": 4, "size_bytes": 1024,
            "transfer_ns": 2000.0, "bytes_per_second": 512e6, "wrong_words": 0}]}"#;
        let of_sweep = "bench sweep, kc705 of lab kc705: way to-card, width 4; 1 KiB;";
        assert_eq!(
            values(sweep),
            [format!("{of_sweep} rate 512 MB/s"), format!("{of_sweep} time 2 us")]
        );
        let bridge = r#"{"bench": "bridge", "where": "lab sbdt, simulated time", "seed": 1,
            "version": "1", "overlap": [], "transfers": [{"path": "put", "mode": "naive",
            "bytes": 8, "clients": 2, "seconds": [0.003, 0.001, 0.002],
            "bytes_per_second": 4e6, "wrong_words": 0}]}"#;
        let of_bridge = "bridge bench, lab sbdt, simulated time: put, naive; 8 B, 2 clients;";
        assert_eq!(
            values(bridge),
            [format!("{of_bridge} rate 4 MB/s"), format!("{of_bridge} typical time 2 ms")]
        );
    }

    #[test]
    fn a_benchmark_that_is_not_known_is_named() {
        let error = Run::parse(r#"{"bench": "dance", "lab": "minimal"}"#).unwrap_err();
        assert!(matches!(&error, RunError::Kind { bench } if bench == "dance"), "{error}");
        assert!(error.to_string().starts_with("cannot compare `bench dance`"), "{error}");
    }
}
