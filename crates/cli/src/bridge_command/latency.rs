// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge bench --latency`: how long transfers take, from the fastest to the slowest, as
//! a whole and by stage.

use std::collections::BTreeMap;

use crosslane::bridge::{Client, Path};
use crosslane::experiment::{BridgePlan, BridgedOptions, ExperimentError, bridged};
use crosslane::host::{Clock, Rdma};
use crosslane::lab::Progress;
use crosslane::pcie::units::Picoseconds;
use crosslane_report::Table;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::arguments::command_of;
use crate::output::shown;

/// Digits that a histogram keeps of each time.
const DIGITS: u8 = 3;

/// The times of one kind of transfers, or of one of its stages. All in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    path: &'static str,
    bytes: u64,
    /// `whole`, as the client has it; `messages`, what that is longer than the server's time from
    /// the request until all had arrived; or the stage, as the server has it.
    part: String,
    count: u64,
    min_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    #[serde(skip)]
    wrong_words: u64,
}

impl Latency {
    fn of(path: Path, bytes: u64, part: String, times: &Histogram<u64>, wrong_words: u64) -> Self {
        let us = |ps: u64| ps as f64 / 1e6;
        let at = |quantile| us(times.value_at_quantile(quantile));
        Self {
            path: command_of(path),
            bytes,
            part,
            count: times.len(),
            min_us: us(times.min()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(times.max()),
            wrong_words,
        }
    }

    /// Whether data came out wrong.
    pub const fn is_wrong(&self) -> bool {
        self.wrong_words > 0
    }
}

/// Makes a histogram of any times; it grows as it has to.
fn histogram(times: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(DIGITS).expect("a histogram can have three digits");
    for time in times {
        histogram.record(time).expect("it grows by itself, so no time is too long");
    }
    histogram
}

/// Makes all transfers of a plan, by one client, one after the other.
///
/// # Errors
/// As [`BridgePlan::measure`].
pub async fn measure<R: Rdma, C: Clock>(
    plan: &BridgePlan,
    client: &Client<R, C>,
    (card, address): (&str, u64),
    progress: &dyn Progress,
) -> Result<Vec<Latency>, ExperimentError> {
    let mut latencies = Vec::new();
    for kind in plan.kinds() {
        if progress.is_over() {
            break;
        }
        let (path, bytes, mode) = (kind.paths[0], kind.sizes[0], kind.modes[0]);
        let options = BridgedOptions::new(path, mode, card, bytes)
            .with_address(address)
            .with_iterations(plan.iterations)
            .with_seed(plan.seed)
            .with_timeout(plan.timeout);
        let measured = bridged(client, &options).await?;
        let wrong = measured.data_errors.words;
        let whole = histogram(measured.times.iter().map(|time| time.0));
        latencies.push(Latency::of(path, bytes, "whole".to_owned(), &whole, wrong));
        let both = measured.times.iter().zip(&measured.reports);
        let messages = both.map(|(time, report)| time.0.saturating_sub(report.elapsed_ps));
        latencies.push(Latency::of(path, bytes, "messages".to_owned(), &histogram(messages), 0));
        let mut stages: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for stage in measured.reports.iter().flat_map(|report| &report.stages) {
            stages.entry(stage.stage).or_default().push(stage.busy_ps);
        }
        for (stage, times) in stages {
            latencies.push(Latency::of(path, bytes, stage.to_string(), &histogram(times), 0));
        }
        let all = measured.times.iter().map(|time| time.0).sum();
        progress.done(&path.to_string(), Picoseconds(all));
    }
    Ok(latencies)
}

/// JSON of the command.
#[derive(Serialize)]
pub struct Latencies<'a> {
    /// Version of this document.
    pub schema: u32,
    /// The benchmark.
    pub bench: &'static str,
    /// Lab or network.
    pub place: &'a str,
    /// Random seed.
    pub seed: u64,
    /// A row for each kind of transfers, and for each of its stages.
    pub latencies: &'a [Latency],
}

/// Formats them for people.
pub fn text(latencies: &[Latency], place: &str) -> String {
    let head = "path | B: | part | n: | min us: | p50 us: | p90 us: | p99 us: | p99.9 us: | \
                max us:";
    let mut table = Table::headed(head);
    for it in latencies {
        let times = [it.min_us, it.p50_us, it.p90_us, it.p99_us, it.p999_us, it.max_us];
        let mut row =
            vec![it.path.to_owned(), it.bytes.to_string(), it.part.clone(), it.count.to_string()];
        row.extend(times.map(|us| format!("{us:.2}")));
        table.row(row);
    }
    format!("{}{place}\n", shown(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_all_times() {
        let times = histogram((1..=1000).map(|n| n * 1_000_000));
        let latency = Latency::of(Path::ToFpga, 64, "whole".to_owned(), &times, 0);
        assert_eq!((latency.path, latency.count), ("put", 1000));
        let is = |us: f64, expected: f64| assert!((us / expected - 1.0).abs() < 0.002, "{us}");
        is(latency.min_us, 1.0);
        is(latency.p50_us, 500.0);
        is(latency.p999_us, 999.0);
        is(latency.max_us, 1000.0);
    }
}
