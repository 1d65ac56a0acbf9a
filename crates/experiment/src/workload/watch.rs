// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of links while data move, read at an interval, so that the time in
//! which data moved can be cut out afterwards.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::Observer;
use crosslane_fabric::{DirectionId, LinkCounters};
use crosslane_lab::Simulation;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::IommuUse;

use crate::progress::Progress;
use crate::samples::Samples;

/// Samples of a run, about.
const SAMPLES: u64 = 2000;
/// Shortest interval: no transfer's first TLP comes sooner after its post.
const LEAST_INTERVAL: Picoseconds = Picoseconds::from_ns(250);

/// Reads the counters of directions at an interval.
pub struct Watch<'a> {
    simulation: &'a Simulation,
    /// Directions that are read.
    pub directions: Vec<DirectionId>,
    /// How many of them, the first ones, carry data.
    pub used: usize,
    /// Those of them that count what has arrived.
    arriving: Vec<DirectionId>,
    interval: Picoseconds,
    samples: RefCell<Samples>,
    /// Every so many questions a sample is taken.
    stride: Cell<u64>,
    asked: Cell<u64>,
    progress: &'a dyn Progress,
    reported: Cell<(u64, Picoseconds)>,
    is_over: Cell<bool>,
}

impl<'a> Watch<'a> {
    /// Watches a run that is to move `bytes` in `directions`; `arriving` are the last ones of
    /// the flows.
    pub fn new(
        simulation: &'a Simulation,
        directions: Vec<DirectionId>,
        arriving: Vec<DirectionId>,
        bytes: u64,
        progress: &'a dyn Progress,
    ) -> Self {
        let samples = simulation.with_fabric(|fabric| Samples::new(fabric, directions));
        // A run at 1 GB/s takes 1000 ps for each byte.
        let interval = Picoseconds((bytes.saturating_mul(1000) / SAMPLES).max(LEAST_INTERVAL.0));
        Self {
            simulation,
            directions: samples.directions.clone(),
            used: samples.used,
            arriving,
            interval,
            samples: RefCell::new(samples),
            stride: Cell::new(1),
            asked: Cell::new(0),
            progress,
            reported: Cell::new((0, simulation.now())),
            is_over: Cell::new(false),
        }
    }

    /// A run, unless it has to end before its time.
    pub async fn unless_over<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        let mut run = pin!(run);
        poll_fn(|context| match run.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            // The run itself asks for the counters, so that it is awake when that is found.
            Poll::Pending if self.is_over.get() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Ends the samples with what is counted now.
    pub fn end(&self) {
        self.simulation.with_fabric(|fabric| self.samples.borrow_mut().take(fabric));
    }

    /// As [`Samples::between`].
    pub fn between(
        &self,
        from: Picoseconds,
        to: Picoseconds,
    ) -> Option<(Vec<LinkCounters>, Picoseconds)> {
        self.samples.borrow().between(from, to)
    }

    /// As [`Samples::iommus_between`].
    pub fn iommus_between(&self, from: Picoseconds, to: Picoseconds) -> Vec<IommuUse> {
        let samples = self.samples.borrow();
        self.simulation.with_fabric(|fabric| samples.iommus_between(fabric, from, to))
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
        self.progress.done(bytes.saturating_sub(before), at.since(then));
        self.is_over.set(self.progress.is_over());
        Some(bytes)
    }

    fn interval(&self) -> Picoseconds {
        self.interval
    }
}
