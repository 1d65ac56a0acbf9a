// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the links did while data moved: their counters, read at an interval, so that the time in
//! which data moved can be cut out afterwards.

use std::cell::{Cell, RefCell};

use crosslane_bench::Observer;
use crosslane_fabric::{DirectionId, LinkCounters};
use crosslane_lab::Simulation;
use crosslane_pcie::units::Picoseconds;

use crate::progress::Progress;

/// Samples of a run, about.
const SAMPLES: u64 = 2000;
/// Most samples that are kept; of a run that takes longer than thought every second one goes.
const MAX_SAMPLES: usize = 16_000;
/// Shortest interval: no transfer's first TLP comes sooner after its post.
const LEAST_INTERVAL: Picoseconds = Picoseconds::from_ns(250);

/// Counters at one time.
struct Sample {
    at: Picoseconds,
    counters: Vec<LinkCounters>,
}

/// Reads the counters of some directions at an interval.
pub struct Watch<'a> {
    simulation: &'a Simulation,
    /// Directions that are read.
    pub directions: Vec<DirectionId>,
    /// Those of them that count what has arrived.
    arriving: Vec<usize>,
    interval: Picoseconds,
    samples: RefCell<Vec<Sample>>,
    /// Every so many questions a sample is kept.
    stride: Cell<u64>,
    asked: Cell<u64>,
    progress: &'a dyn Progress,
    reported: Cell<(u64, Picoseconds)>,
}

impl<'a> Watch<'a> {
    /// Of a run that is to move so many bytes; `arriving` are the last directions of the flows.
    pub fn new(
        simulation: &'a Simulation,
        directions: Vec<DirectionId>,
        arriving: &[DirectionId],
        bytes: u64,
        progress: &'a dyn Progress,
    ) -> Self {
        let arriving = directions
            .iter()
            .enumerate()
            .filter(|(_, direction)| arriving.contains(direction))
            .map(|(index, _)| index)
            .collect();
        // A run at 1 GB/s takes 1000 ps for each byte.
        let interval = Picoseconds((bytes.saturating_mul(1000) / SAMPLES).max(LEAST_INTERVAL.0));
        Self {
            simulation,
            directions,
            arriving,
            interval,
            samples: RefCell::default(),
            stride: Cell::new(1),
            asked: Cell::new(0),
            progress,
            reported: Cell::new((0, simulation.now())),
        }
    }

    fn read(&self) -> Sample {
        self.simulation.with_fabric(|fabric| Sample {
            at: fabric.now(),
            counters: self.directions.iter().map(|id| fabric.counters(*id)).collect(),
        })
    }

    /// Ends the samples with what is counted now.
    pub fn end(&self) {
        self.samples.borrow_mut().push(self.read());
    }

    /// What was counted between two times, and how long: between the first and the last sample
    /// within them, or, where these are not two, between those around them.
    pub fn between(
        &self,
        from: Picoseconds,
        to: Picoseconds,
    ) -> Option<(Vec<LinkCounters>, Picoseconds)> {
        let samples = self.samples.borrow();
        let first = samples.partition_point(|sample| sample.at.0 < from.0);
        let last = samples.partition_point(|sample| sample.at.0 <= to.0).checked_sub(1)?;
        let (first, last) = if first < last {
            (first, last)
        } else {
            (first.saturating_sub(1), (last + 1).min(samples.len() - 1))
        };
        let (first, last) = (samples.get(first)?, samples.get(last)?);
        let counted = last.counters.iter().zip(&first.counters);
        let counted = counted.map(|(last, first)| last.since(first)).collect();
        Some((counted, last.at.since(first.at)))
    }
}

impl Observer for Watch<'_> {
    fn payload_bytes(&self) -> Option<u64> {
        let sample = self.read();
        let bytes = self.arriving.iter().map(|index| sample.counters[*index].payload_bytes).sum();
        let (before, then) = self.reported.replace((bytes, sample.at));
        self.progress.done(bytes.saturating_sub(before), sample.at.since(then));
        let asked = self.asked.replace(self.asked.get() + 1);
        if asked.is_multiple_of(self.stride.get()) {
            let mut samples = self.samples.borrow_mut();
            if samples.len() == MAX_SAMPLES {
                let mut position = 0_usize;
                samples.retain(|_| {
                    position += 1;
                    position % 2 == 1
                });
                self.stride.set(self.stride.get() * 2);
            }
            samples.push(sample);
        }
        Some(bytes)
    }

    fn interval(&self) -> Picoseconds {
        self.interval
    }
}
