// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An outcome as a list of named values.

use crosslane_results::quantity::size_words;
use crosslane_results::{Bench, Bridge, Detail, Latencies, Outcome, Overhead, Reproduction, Sweep};
use crosslane_results::{Row, Scenario};

/// Direction in which a value gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    Higher,
    /// A time.
    Lower,
    /// None: only the difference counts.
    Neither,
}

/// A named value of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The flow, or the measured access.
    pub subject: String,
    /// Bytes of a transfer, or the conditions.
    pub conditions: String,
    /// The figure: `rate`, `p99 time`, ….
    pub quantity: String,
    /// `MB/s`, `us`, `%`, or the unit of a row.
    pub unit: String,
    /// The value in that unit.
    pub value: f64,
    /// Direction in which it gets better.
    pub better: Better,
}

/// Returns the values of an outcome, in the order of the file.
#[must_use]
pub fn values(outcome: &Outcome) -> Vec<Value> {
    match outcome {
        Outcome::Bench(run) => {
            run.scenarios.iter().flat_map(|scenario| of_scenario(scenario, run)).collect()
        }
        Outcome::Overhead(run) => overhead(run),
        Outcome::Sweep(run) => sweep(run),
        Outcome::Bridge(run) => bridge(run),
        Outcome::Reproduction(run) => reproduction(run),
        _ => Vec::new(),
    }
}

/// Values by the timers of served cards are left out: they use another clock.
fn of_scenario(scenario: &Scenario, run: &Bench) -> Vec<Value> {
    let mut values = Vec::new();
    for flow in &scenario.flows {
        let timer = flow.hardware.as_ref().filter(|_| !run.platform.is_served());
        let rates = [
            ("rate at the application", flow.application_bytes_per_second),
            ("rate by timers", timer.map(|timer| timer.bytes_per_second)),
            ("rate", flow.bytes_per_second),
        ];
        let conditions = size_words(flow.bytes);
        let value = |quantity: &str, unit: &str, value: f64, better: Better| Value {
            subject: flow.name.clone(),
            conditions: conditions.clone(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            value,
            better,
        };
        for (quantity, rate) in rates {
            values.extend(rate.map(|rate| value(quantity, "MB/s", rate / 1e6, Better::Higher)));
        }
        let share = flow.share_of_ceiling;
        values.extend(share.map(|part| value("of the ceiling", "%", part * 1e2, Better::Higher)));
        for (quantity, us) in flow.latency.iter().flat_map(times) {
            values.push(value(quantity, "us", us, Better::Lower));
        }
        if let Detail::Exchange(exchange) = &flow.detail {
            values.push(value("an exchange", "us", exchange.exchange_ns / 1e3, Better::Lower));
        }
    }
    if let Some(latency) = &scenario.latency {
        for (quantity, us) in times(&latency.one_way) {
            values.push(Value {
                subject: format!("{}, one way", latency.name),
                conditions: scenario.bytes.map_or(String::new(), size_words),
                quantity: quantity.to_owned(),
                unit: "us".to_owned(),
                value: us,
                better: Better::Lower,
            });
        }
    }
    values
}

fn times(statistics: &Latencies) -> [(&'static str, f64); 3] {
    [
        ("typical time", statistics.typical_ps),
        ("p99 time", statistics.p99_ps),
        ("longest time", statistics.max_ps),
    ]
    .map(|(quantity, ps)| (quantity, ps as f64 / 1e6))
}

fn reproduction(run: &Reproduction) -> Vec<Value> {
    let value = |row: &Row| {
        let better = match row.unit.as_str() {
            "MiB/s" | "MB/s" | "GB/s" | "Gbit/s" => Better::Higher,
            "ns" | "us" | "ms" | "s" => Better::Lower,
            _ => Better::Neither,
        };
        Some(Value {
            subject: row.quantity.clone(),
            conditions: row.conditions.clone(),
            quantity: "simulated".to_owned(),
            unit: row.unit.clone(),
            value: row.simulated?,
            better,
        })
    };
    run.rows.iter().filter_map(value).collect()
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

/// Only times by the clock of the card's bus: those by the machine's clock say nothing of the card.
fn overhead(run: &Overhead) -> Vec<Value> {
    let values = run.rows.iter().map(|row| {
        let conditions = row.bytes.map_or(String::new(), size_words);
        value(&row.what, &conditions, ("time", "us", row.bus_ps as f64 / 1e6, Better::Lower))
    });
    values.collect()
}

fn sweep(run: &Sweep) -> Vec<Value> {
    let mut values = Vec::new();
    for row in &run.rows {
        let parameters = row.parameters.iter();
        let parameters = parameters.map(|(name, value)| format!("{name} {value}"));
        let subject = parameters.collect::<Vec<_>>().join(", ");
        let conditions = size_words(row.size_bytes);
        values.push(value(&subject, &conditions, rate(row.bytes_per_second)));
        let time = ("time", "us", row.transfer_ns / 1e3, Better::Lower);
        values.push(value(&subject, &conditions, time));
    }
    values
}

/// Returns the median of some times; `None` if there are none.
pub(super) fn typical(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn bridge(run: &Bridge) -> Vec<Value> {
    let mut values = Vec::new();
    for transfer in &run.transfers {
        let subject = format!("{}, {}", transfer.path, transfer.mode);
        let clients = match transfer.clients {
            1 => String::new(),
            clients => format!(", {clients} clients"),
        };
        let conditions = format!("{}{clients}", size_words(transfer.bytes));
        values.push(value(&subject, &conditions, rate(transfer.bytes_per_second)));
        if let Some(seconds) = typical(&transfer.seconds) {
            let time = ("typical time", "ms", seconds * 1e3, Better::Lower);
            values.push(value(&subject, &conditions, time));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use crosslane_results::{Outcome, OutcomeError};

    fn values(text: &str) -> Vec<String> {
        let run = Outcome::parse(text).unwrap();
        let words = |value: super::Value| {
            let super::Value { subject, conditions, quantity, unit, value, .. } = value;
            format!("{}: {subject}; {conditions}; {quantity} {value} {unit}", run.name())
        };
        super::values(&run).into_iter().map(words).collect()
    }

    #[test]
    fn rows_of_every_kind_become_values() {
        let overhead = r#"{"bench": "overhead", "device": "lab:kc705", "seed": 1, "version": "1",
            "rows": [{"what": "register read", "rounds": 2, "bytes": null, "bus_ps": 1500000,
                      "machine_ps": 7}]}"#;
        assert_eq!(values(overhead), ["bench overhead, lab:kc705: register read; ; time 1.5 us"]);
        let sweep = r#"{"bench": "sweep", "lab": "kc705", "card": "kc705", "seed": 1,
            "version": "1", "rows": [{"way": "to-card", "width": 4.0, "size_bytes": 1024,
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
        let error = Outcome::parse(r#"{"bench": "dance", "lab": "minimal"}"#).unwrap_err();
        assert!(matches!(&error, OutcomeError::Kind { bench } if bench == "dance"), "{error}");
        assert!(error.to_string().starts_with("cannot compare `bench dance`"), "{error}");
    }
}
