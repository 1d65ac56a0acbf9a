// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of links while data move, read at an interval, so that the time in
//! which data moved can be cut out afterwards.

use std::cell::{Cell, RefCell};

use crosslane_fabric::DirectionId;
use crosslane_lab::{Progress, Simulation};
use crosslane_pcie::units::Picoseconds;

use crate::links::distinct;
use crate::samples::Samples;
use crate::together::Observer;

/// Samples of a run, about.
const SAMPLES: u64 = 2000;
/// Shortest interval: no transfer's first TLP comes sooner after its post.
const LEAST_INTERVAL: Picoseconds = Picoseconds::from_ns(250);

/// Reads the counters of directions at an interval.
pub struct Watch<'a> {
    simulation: &'a Simulation,
    /// Directions that count what has arrived.
    arriving: Vec<DirectionId>,
    interval: Picoseconds,
    samples: RefCell<Samples>,
    /// Every so many questions a sample is taken.
    stride: Cell<u64>,
    asked: Cell<u64>,
    progress: &'a dyn Progress,
    reported: Cell<(u64, Picoseconds)>,
}

impl<'a> Watch<'a> {
    /// Watches a run that is to move `bytes` along these paths.
    pub fn new<'p>(
        simulation: &'a Simulation,
        paths: impl Iterator<Item = &'p [DirectionId]> + Clone,
        last: impl Iterator<Item = &'p [DirectionId]>,
        bytes: u64,
        progress: &'a dyn Progress,
    ) -> Self {
        let used = paths.flatten().copied();
        let samples = simulation.with_fabric(|fabric| Samples::new(fabric, used));
        // A run at 1 GB/s takes 1000 ps for each byte.
        let interval = Picoseconds((bytes.saturating_mul(1000) / SAMPLES).max(LEAST_INTERVAL.0));
        Self {
            simulation,
            arriving: distinct(last.filter_map(|path| path.last().copied())),
            interval,
            samples: RefCell::new(samples),
            stride: Cell::new(1),
            asked: Cell::new(0),
            progress,
            reported: Cell::new((0, simulation.now())),
        }
    }

    /// Ends the samples with what is counted now.
    pub fn end(self) -> Samples {
        let mut samples = self.samples.into_inner();
        self.simulation.with_fabric(|fabric| samples.take(fabric));
        samples
    }
}

impl Observer for Watch<'_> {
    fn payload_bytes(&self) -> Option<u64> {
        let asked = self.asked.replace(self.asked.get() + 1);
        let (at, bytes) = self.simulation.with_fabric(|fabric| {
            let stride = self.stride.get();
            if asked.is_multiple_of(stride) && self.samples.borrow_mut().take(fabric) {
                self.stride.set(stride * 2);
            }
            let payload = |id: &DirectionId| fabric.counters(*id).payload_bytes;
            let bytes = self.arriving.iter().map(payload).sum();
            (fabric.now(), bytes)
        });
        let (before, then) = self.reported.replace((bytes, at));
        self.progress.moved(bytes.saturating_sub(before), at.since(then));
        Some(bytes)
    }

    fn interval(&self) -> Picoseconds {
        self.interval
    }
}
