// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Columns of flows and ping-pongs, each defined once for text and pages.

use crosslane_results::quantity::{mebibytes, megabytes, microseconds, percent};
use crosslane_results::{Flow, Latencies, Latency};

use crate::table::Field;

pub const FLOW: Field<Flow> = ("flow", |flow| flow.name.clone());
pub const BYTES: Field<Flow> = ("bytes:", |flow| flow.bytes.to_string());
pub const ITERATIONS: Field<Flow> = ("iterations:", |flow| flow.iterations.to_string());
pub const IN_FLIGHT: Field<Flow> =
    ("in flight:", |flow| or_none(flow.in_flight, |n| n.to_string()));

/// Rate as the application sees it.
pub const APPLICATION: Field<Flow> =
    ("app MB/s:", |flow| or_none(flow.application_bytes_per_second, megabytes));
/// Rate by the engines' timers.
pub const RATE: Field<Flow> = ("MB/s:", |flow| or_none(flow.rate(), megabytes));
pub const BINARY_RATE: Field<Flow> = ("MiB/s:", |flow| or_none(flow.rate(), mebibytes));

/// Average payload of a TLP.
pub const PAYLOAD: Field<Flow> =
    ("TLP B:", |flow| or_none(flow.ceiling.as_ref(), |it| length_words(it.payload_bytes)));
pub const CEILING: Field<Flow> =
    ("ceiling MB/s:", |flow| or_none(flow.ceiling.as_ref(), |it| megabytes(it.bytes_per_second)));
pub const LESS_DLLPS: Field<Flow> = ("less DLLPs:", |flow| {
    or_none(flow.ceiling.as_ref(), |it| megabytes(it.less_dllps_bytes_per_second))
});
pub const SHARE: Field<Flow> = ("of it %:", |flow| or_none(flow.share_of_ceiling, percent));

/// Rate that the driver's plan expects.
pub const PLAN: Field<Flow> = ("plan MB/s:", |flow| megabytes(planned(flow)));
pub const SHARE_OF_PLAN: Field<Flow> = ("of it %:", |flow| {
    let plan = Some(planned(flow)).filter(|plan| *plan > 0.0);
    or_none(plan, |plan| percent(flow.rate().unwrap_or_default() / plan))
});

/// Ends of a ping-pong.
pub const ENDS: Field<Latency> = ("from, to", |one| one.name.clone());
pub const MESSAGE: Field<Latency> = ("bytes:", |one| one.bytes.to_string());
pub const ROUND_TRIPS: Field<Latency> = ("iterations:", |one| one.round_trips.to_string());

fn planned(flow: &Flow) -> f64 {
    flow.transfers().map_or(0.0, |it| it.plan.expected_bytes_per_second)
}

/// Formats a value; `-` if there is none.
pub fn or_none<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), words)
}

/// Formats an average length; whole if it is whole.
fn length_words(bytes: f64) -> String {
    if bytes.fract() == 0.0 { format!("{bytes:.0}") } else { format!("{bytes:.1}") }
}

/// A measurement that contains latencies.
pub trait Timed {
    /// Returns its latencies, if there are any.
    fn times(&self) -> Option<&Latencies>;
}

impl Timed for Flow {
    fn times(&self) -> Option<&Latencies> {
        self.latency.as_ref().filter(|_| self.iterations > 0)
    }
}

impl Timed for Latency {
    fn times(&self) -> Option<&Latencies> {
        Some(&self.one_way)
    }
}

fn us<R: Timed>(row: &R, time: fn(&Latencies) -> u64) -> String {
    or_none(row.times(), |times| microseconds(time(times)))
}

/// Returns the five columns of latencies.
pub fn times<R: Timed>() -> [Field<R>; 5] {
    [
        ("min us:", |row| us(row, |times| times.min_ps)),
        ("typical:", |row| us(row, |times| times.typical_ps)),
        ("average:", |row| us(row, |times| times.average_ps)),
        ("p99:", |row| us(row, |times| times.p99_ps)),
        ("max:", |row| us(row, |times| times.max_ps)),
    ]
}
