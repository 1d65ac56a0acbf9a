// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurement of one point of a sweep.

use std::fmt::Write as _;

use crosslane_driver::{DescriptorSource, Device, Notification};
use crosslane_host::setters;
use crosslane_pcie::link::LinkRate;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{Parameter, SweepRow};
use smart_default::SmartDefault;

use super::axes::{Descriptors, Point, TransferKind};
use crate::error::Result;
use crate::options::Options;
use crate::workload::{Measurement, NoObserver, Workload};

/// Bytes of a point whose number of transfers is not given.
const ENOUGH_BYTES: u64 = 4 << 20;
/// Most transfers of such a point.
const MOST_TRANSFERS: u64 = 4096;
/// Descriptors of a ring: places for what is posted.
const RING_ENTRIES: std::ops::RangeInclusive<u32> = 1024..=65_536;

/// Options that all points of a sweep share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct SweepOptions {
    /// Notification of completions.
    #[default(Notification::Poll)]
    pub notification: Notification,
    /// Transfers of each point [default: by size, about 4 MiB, 4 or twice those that are posted at
    /// least].
    pub iterations: Option<u64>,
    /// Random seed; it also makes the data.
    #[default(1)]
    pub seed: u64,
}

setters!(SweepOptions {
    with_notification(notification: Notification),
    with_iterations(iterations: Option<u64>),
    with_seed(seed: u64),
});

impl SweepOptions {
    fn iterations(&self, point: &Point) -> u64 {
        let posted = u64::from(point.posted());
        let least = if posted > 1 { 2 * posted } else { 4 };
        let by_size = (ENOUGH_BYTES / point.size_bytes.max(1)).min(MOST_TRANSFERS).max(least);
        // One after the other all take nearly the same time.
        let by_size = if posted == 1 { by_size.min(least) } else { by_size };
        self.iterations.unwrap_or(by_size)
    }

    /// Returns the transfers of a point.
    pub(super) fn workload(&self, point: &Point) -> Workload {
        let outstanding = point.posted();
        let descriptors = match point.descriptors.unwrap_or(Descriptors::Ring) {
            Descriptors::Table => DescriptorSource::Table,
            Descriptors::Ring => DescriptorSource::Ring {
                entries: (2 * outstanding)
                    .next_power_of_two()
                    .clamp(*RING_ENTRIES.start(), *RING_ENTRIES.end()),
            },
        };
        let workload = match point.kind.expect("a point without flows has a kind") {
            TransferKind::Write => Workload::Write,
            TransferKind::Read => Workload::Read,
            TransferKind::ToCard => Workload::ToCard,
            TransferKind::FromCard => Workload::FromCard,
        };
        workload(Options {
            size_bytes: point.size_bytes,
            iterations: self.iterations(point),
            outstanding,
            descriptors,
            notification: self.notification,
            seed: self.seed as u32,
            of_one: true,
            ..Options::default()
        })
    }
}

/// A measured point.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The point.
    pub point: Point,
    /// Rate of the card's link in the run; known in labs.
    pub link: Option<LinkRate>,
    /// Time of a transfer: the median if one is posted at a time, else the time of all divided by
    /// their number.
    pub transfer_s: f64,
    /// Rate of the transfers.
    pub bytes_per_second: f64,
    /// Words of 4 B that were not what was sent.
    pub wrong_words: u64,
    /// Time of all transfers; in a lab the simulated time at the end.
    pub elapsed: Picoseconds,
    /// Ports of the lab whose maxima the point's link has raised.
    pub raised_ports: Vec<String>,
}

impl SweepPoint {
    pub(super) fn of(
        point: &Point,
        link: Option<LinkRate>,
        workload: &Workload,
        measurement: Measurement,
    ) -> Self {
        let Measurement::Flows(together) = measurement else { unreachable!("no kind is that") };
        let flow = &together.flows[0];
        let transfer_s = workload.transfer_seconds(flow);
        let bytes_per_second =
            if transfer_s > 0.0 { point.size_bytes as f64 / transfer_s } else { 0.0 };
        Self {
            point: point.clone(),
            link,
            transfer_s,
            bytes_per_second,
            wrong_words: flow.data_errors.words,
            elapsed: flow.ended.since(flow.started),
            raised_ports: Vec::new(),
        }
    }

    /// Returns the names and values of its parameters, except for the size.
    pub fn parameters(&self) -> Vec<(String, Parameter)> {
        self.point.parameters(self.link)
    }

    /// Returns the point as plain data.
    pub fn row(&self) -> SweepRow {
        SweepRow {
            size_bytes: self.point.size_bytes,
            transfer_ns: self.transfer_s * 1e9,
            bytes_per_second: self.bytes_per_second,
            wrong_words: self.wrong_words,
            why_not_faster: None,
            not_explained: None,
            parameters: self.parameters().into_iter().collect(),
        }
    }
}

/// Formats points of one sweep as comma-separated values, which
/// [`Measurements`](crate::fit::Measurements) reads.
pub fn csv(points: &[SweepPoint]) -> String {
    let mut text = String::new();
    for (name, _) in points.first().map(SweepPoint::parameters).unwrap_or_default() {
        let _ = write!(text, "{name},");
    }
    text.push_str("bytes,us\n");
    for point in points {
        for (_, value) in point.parameters() {
            let _ = write!(text, "{value},");
        }
        let _ = writeln!(text, "{},{}", point.point.size_bytes, point.transfer_s * 1e6);
    }
    text
}

/// Measures a point with an opened device, as it is: of the point's parameters those of transfers
/// are used. Every byte is compared.
///
/// # Errors
/// Impossible transfers, or a failure of the run.
pub async fn measure_point(
    device: &Device,
    point: &Point,
    options: &SweepOptions,
) -> Result<SweepPoint> {
    let workload = options.workload(point);
    let measurement = workload.run(&[vec![device.clone()]], &NoObserver).await?;
    Ok(SweepPoint::of(point, None, &workload, measurement))
}
