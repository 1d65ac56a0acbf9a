// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An outcome as a list of named values.

use crosslane_results::quantity::size_words;
use crosslane_results::{
    Bench, Better, Bridge, BridgeTransfer, Latencies, Operations, Outcome, Overhead, OverheadRow,
    Packets, Reproduction, Row, ScenarioResult, SingleFigure, Sweep,
};

/// Returns the values of an outcome, in the order of the file.
pub fn values(outcome: &Outcome) -> Vec<SingleFigure> {
    match outcome {
        Outcome::Bench(run) => {
            run.scenarios.iter().flat_map(|scenario| of_scenario(scenario, run)).collect()
        }
        Outcome::Overhead(run) => overhead(run),
        Outcome::Operations(run) => operations(run),
        Outcome::Packets(run) => packets(run),
        Outcome::Sweep(run) => sweep(run),
        Outcome::Bridge(run) => bridge(run),
        Outcome::Reproduction(run) => reproduction(run),
        _ => Vec::new(),
    }
}

/// Rate of a flow as the application sees it.
pub(super) const AT_APPLICATION: &str = "rate at the application";
/// Rate of a flow by the engines' timers.
pub(super) const BY_TIMERS: &str = "rate by timers";

/// A figure: its quantity, unit, value, and the direction in which it gets better.
type Figure<'a> = (&'a str, &'a str, f64, Option<Better>);

fn value(
    subject: &str,
    bytes: Option<u64>,
    (quantity, unit, value, better): Figure<'_>,
) -> SingleFigure {
    SingleFigure {
        subject: subject.to_owned(),
        conditions: bytes.map_or(String::new(), size_words),
        quantity: quantity.to_owned(),
        unit: unit.to_owned(),
        value,
        bytes,
        better,
    }
}

fn rate(quantity: &str, bytes_per_second: f64) -> Figure<'_> {
    (quantity, "MB/s", bytes_per_second / 1e6, Some(Better::Higher))
}

fn time(quantity: &str, us: f64) -> Figure<'_> {
    (quantity, "us", us, Some(Better::Lower))
}

/// Values by the timers of served cards are left out: they use another clock.
fn of_scenario(scenario: &ScenarioResult, run: &Bench) -> Vec<SingleFigure> {
    let mut values = Vec::new();
    for flow in &scenario.flows {
        let timer = flow.hardware.as_ref().filter(|_| !run.platform.is_served());
        let rates = [
            (AT_APPLICATION, flow.application_bytes_per_second),
            (BY_TIMERS, timer.map(|timer| timer.bytes_per_second)),
            ("rate", flow.bytes_per_second),
        ];
        let rates = rates.into_iter().filter_map(|(name, one)| Some(rate(name, one?)));
        let share = flow.share_of_ceiling;
        let share = share.map(|part| ("of the ceiling", "%", part * 1e2, Some(Better::Higher)));
        let exchange = flow.exchange().map(|it| time("an exchange", it.exchange_ns / 1e3));
        let figures = rates.chain(share).chain(flow.latency.iter().flat_map(times)).chain(exchange);
        values.extend(figures.map(|figure| value(&flow.name, Some(flow.bytes), figure)));
    }
    if let Some(latency) = &scenario.latency {
        let subject = format!("{}, one way", latency.name);
        let figures = times(&latency.one_way).into_iter();
        values.extend(figures.map(|figure| value(&subject, scenario.bytes, figure)));
    }
    values
}

fn times(statistics: &Latencies) -> [Figure<'static>; 3] {
    [
        ("typical time", statistics.typical_ps),
        ("p99 time", statistics.p99_ps),
        ("longest time", statistics.max_ps),
    ]
    .map(|(quantity, ps)| time(quantity, ps as f64 / 1e6))
}

fn reproduction(run: &Reproduction) -> Vec<SingleFigure> {
    let of_row = |row: &Row| {
        let better = match row.unit.as_str() {
            "MiB/s" | "MB/s" | "GB/s" | "Gbit/s" => Some(Better::Higher),
            "ns" | "us" | "ms" | "s" => Some(Better::Lower),
            _ => None,
        };
        let figure = ("simulated", row.unit.as_str(), row.simulated?, better);
        let conditions = row.conditions.clone();
        Some(SingleFigure { conditions, ..value(&row.quantity, None, figure) })
    };
    run.rows.iter().filter_map(of_row).collect()
}

/// Only times by the clock of the card's bus: those by the machine's clock say nothing of the card.
fn overhead(run: &Overhead) -> Vec<SingleFigure> {
    let time = |row: &OverheadRow| time("time", row.bus_ps as f64 / 1e6);
    run.rows.iter().map(|row| value(&row.what, row.bytes, time(row))).collect()
}

fn operations(run: &Operations) -> Vec<SingleFigure> {
    let values = run.rows.iter().flat_map(|row| {
        let data = row.data_ps.map(|ps| time("time to the data", ps as f64 / 1e6));
        let figures = data.into_iter().chain(times(&row.done));
        figures.map(|figure| value(&row.what, Some(row.bytes), figure))
    });
    let rates = run.rates.iter().map(|row| {
        let figure = ("operations", "1/s", row.per_second(), Some(Better::Higher));
        value(&row.what, Some(row.bytes), figure)
    });
    values.chain(rates).collect()
}

fn packets(run: &Packets) -> Vec<SingleFigure> {
    let values = run.rows.iter().flat_map(|row| {
        let packets = ("packets", "1/s", row.packets_per_second(), Some(Better::Higher));
        let figures = [packets, rate("rate", row.bytes_per_second())];
        figures.map(|figure| value("packets", Some(row.bytes), figure))
    });
    values.collect()
}

fn sweep(run: &Sweep) -> Vec<SingleFigure> {
    let values = run.rows.iter().flat_map(|row| {
        let parameters = row.parameters.iter();
        let parameters = parameters.map(|(name, value)| format!("{name} {value}"));
        let subject = parameters.collect::<Vec<_>>().join(", ");
        let figures = [rate("rate", row.bytes_per_second), time("time", row.transfer_ns / 1e3)];
        figures.map(|figure| value(&subject, Some(row.size_bytes), figure))
    });
    values.collect()
}

/// Returns the median of some times; `None` if there are none.
pub fn typical(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn bridge(run: &Bridge) -> Vec<SingleFigure> {
    let values = run.transfers.iter().flat_map(|transfer| {
        let subject = format!("{}, {}", transfer.path, transfer.mode);
        let typical = typical(&transfer.seconds);
        let time = typical.map(|time| ("typical time", "ms", time * 1e3, Some(Better::Lower)));
        let rate = rate("rate", transfer.bytes_per_second);
        let figures = std::iter::once(rate).chain(time);
        let of_clients = |figure| {
            let mut figure = value(&subject, Some(transfer.bytes), figure);
            figure.conditions += &clients_words(transfer);
            figure
        };
        figures.map(of_clients).collect::<Vec<_>>()
    });
    values.collect()
}

/// Formats the number of clients, if there are several: `, 2 clients`.
pub(super) fn clients_words(transfer: &BridgeTransfer) -> String {
    match transfer.clients {
        1 => String::new(),
        clients => format!(", {clients} clients"),
    }
}

#[cfg(test)]
mod tests {
    use crosslane_results::{Outcome, OutcomeError, SingleFigure};

    fn values(text: &str) -> Vec<String> {
        let run = Outcome::parse(text).unwrap();
        let words = |figure: SingleFigure| {
            let SingleFigure { subject, conditions, quantity, unit, value, .. } = figure;
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
    fn names_of_runs_have_the_variant_of_the_lab() {
        let name = |variant: &str, more: &str| {
            let head = r#""lab": "kc705", "seed": 1, "version": "1""#;
            Outcome::parse(&format!("{{{variant} {head}, {more}}}")).unwrap().name()
        };
        let sweep = r#""bench": "sweep", "card": "fpga", "rows": []"#;
        let (p2p, next) = (r#""bench": "p2p", "scenarios": []"#, r#""variant": "next","#);
        assert_eq!(name("", sweep), "bench sweep, fpga of lab kc705");
        assert_eq!(name(next, sweep), "bench sweep, fpga of lab kc705:next");
        assert_eq!(name("", p2p), "bench p2p, lab kc705");
        assert_eq!(name(next, p2p), "bench p2p, lab kc705:next");
    }

    #[test]
    fn a_benchmark_that_is_not_known_is_named() {
        let error = Outcome::parse(r#"{"bench": "dance", "lab": "minimal"}"#).unwrap_err();
        assert!(matches!(&error, OutcomeError::Kind { bench } if bench == "dance"), "{error}");
        assert!(error.to_string().starts_with("cannot compare `bench dance`"), "{error}");
    }
}
