// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pipeline of a transfer: its stages, their statistics and pace, and what has arrived.
//!
//! Each way of moving data is made of the same parts. Chunks come from a stream, wait for a slot,
//! pass one [`stage`] after the other, and are handed on in order; the [`Pipeline`] of the transfer
//! is told of each operation. The server's stages run at once, its naive steps one after the
//! other; a local transfer has a stage for each copy, of one piece at a time, and a channel between
//! them.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;

use crosslane_host::{Clock, lock};
use crosslane_pcie::units::Picoseconds;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesOrdered, Stream, StreamExt};

use crate::error::Result;
use crate::report::{NaiveStep, Step};
use crate::stage::{Stage, StageStatistics};

/// The stages of one transfer at work, and the account of what has arrived.
pub(crate) struct Pipeline<C> {
    clock: C,
    /// Start of the transfer.
    pub begun: Picoseconds,
    /// Least time of each stage for a KiB.
    pace: Picoseconds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    meters: Vec<Meter>,
    arrived_bytes: u64,
    chunks: u64,
    first_operation: Option<Picoseconds>,
    steps: Vec<Step>,
}

/// A stage at work.
struct Meter {
    statistics: StageStatistics,
    /// Operations in flight, and since when there are any.
    in_flight: u64,
    since: Picoseconds,
    /// Time at which a paced stage is free again.
    free: Picoseconds,
}

impl<C: Clock> Pipeline<C> {
    /// Starts a transfer of which `arrived_bytes` bytes have arrived before.
    pub fn new(clock: C, pace: Picoseconds, arrived_bytes: u64) -> Self {
        let state = State { arrived_bytes, ..State::default() };
        Self { begun: clock.now(), clock, pace, state: Mutex::new(state) }
    }

    fn with<T>(&self, stage: Stage, use_it: impl FnOnce(&mut Meter) -> T) -> T {
        let meters = &mut lock(&self.state).meters;
        let index = meters.iter().position(|meter| meter.statistics.stage == stage);
        let index = index.unwrap_or_else(|| {
            meters.push(Meter::new(stage));
            meters.len() - 1
        });
        use_it(&mut meters[index])
    }

    /// Notes the start of an operation; returns the time.
    pub fn begin(&self, stage: Stage) -> Picoseconds {
        let now = self.clock.now();
        self.with(stage, |meter| {
            if meter.in_flight == 0 {
                meter.since = now;
            }
            meter.in_flight += 1;
        });
        lock(&self.state).first_operation.get_or_insert(now);
        now
    }

    /// Notes the end of an operation that moved `bytes` bytes.
    pub fn ended(&self, stage: Stage, bytes: u64) {
        let now = self.clock.now();
        self.with(stage, |meter| {
            let statistics = &mut meter.statistics;
            statistics.bytes += bytes;
            statistics.operations += 1;
            meter.in_flight = meter.in_flight.saturating_sub(1);
            if meter.in_flight == 0 {
                statistics.busy_ps += now.since(meter.since).0;
            }
        });
    }

    /// Notes the end of an operation that began at `begun`, once its pace allows it.
    pub async fn end(&self, stage: Stage, begun: Picoseconds, bytes: u64) {
        if self.pace > Picoseconds::ZERO {
            let takes_ps = u128::from(bytes) * u128::from(self.pace.0) / 1024;
            let takes_ps = u64::try_from(takes_ps).unwrap_or(u64::MAX);
            let free = self.with(stage, |meter| {
                meter.free = Picoseconds(begun.max(meter.free).0.saturating_add(takes_ps));
                meter.free
            });
            self.clock.sleep_until(free).await;
        }
        self.ended(stage, bytes);
    }

    /// Adds the time since `since` as waiting for a slot.
    pub fn waited(&self, stage: Stage, since: Picoseconds) {
        let waited_ps = self.clock.now().since(since).0;
        self.with(stage, |meter| meter.statistics.waiting_for_slot_ps += waited_ps);
    }

    /// Counts repeated operations.
    pub fn repeated(&self, stage: Stage, times: u64) {
        self.with(stage, |meter| meter.statistics.retries += times);
    }

    /// Returns the statistics of a stage so far; operations in flight count as busy.
    pub fn statistics(&self, stage: Stage) -> StageStatistics {
        let now = self.clock.now();
        self.with(stage, |meter| {
            let mut statistics = meter.statistics;
            if meter.in_flight > 0 {
                statistics.busy_ps += now.since(meter.since).0;
            }
            statistics
        })
    }

    /// Returns the stages that have been noted.
    pub fn stages(&self) -> Vec<Stage> {
        lock(&self.state).meters.iter().map(|meter| meter.statistics.stage).collect()
    }

    /// Returns the stage that was busy longest.
    pub fn busiest(&self) -> Option<StageStatistics> {
        let busy = self.stages().into_iter().map(|stage| self.statistics(stage));
        busy.filter(|stage| stage.busy_ps > 0).max_by_key(|stage| stage.busy_ps)
    }

    /// Notes that a chunk that ends at byte `upto` has arrived, as have all before it.
    pub fn has_arrived(&self, upto: u64) {
        let mut state = lock(&self.state);
        state.arrived_bytes = upto;
        state.chunks += 1;
    }

    /// Returns the bytes that have arrived, without a gap from the beginning.
    pub fn arrived_bytes(&self) -> u64 {
        lock(&self.state).arrived_bytes
    }

    /// Returns the number of chunks that have arrived.
    pub fn chunks(&self) -> u64 {
        lock(&self.state).chunks
    }

    /// Returns the time from the start of the transfer until now.
    pub fn elapsed(&self) -> Picoseconds {
        self.clock.now().since(self.begun)
    }

    /// Returns the time until the first operation began.
    pub fn until_first_operation(&self) -> Picoseconds {
        let first = lock(&self.state).first_operation;
        first.map_or(Picoseconds::ZERO, |first| first.since(self.begun))
    }

    /// Notes the end of a step, if the stages follow each other.
    pub fn took(&self, what: NaiveStep) {
        let elapsed_ps = self.elapsed().0;
        let steps = &mut lock(&self.state).steps;
        let before_ps: u64 = steps.iter().map(|step| step.time_ps).sum();
        steps.push(Step { what, time_ps: elapsed_ps - before_ps });
    }

    /// Returns the steps so far.
    pub fn steps(&self) -> Vec<Step> {
        lock(&self.state).steps.clone()
    }
}

impl Meter {
    const fn new(stage: Stage) -> Self {
        let (since, free) = (Picoseconds::ZERO, Picoseconds::ZERO);
        Self { statistics: StageStatistics::new(stage), in_flight: 0, since, free }
    }
}

enum Event<T, U> {
    Item(Option<T>),
    Ended(Option<(u64, Result<U>)>),
}

/// Processes items concurrently, up to `window_bytes` together but always at least one, and hands
/// results on in the order of the input.
///
/// # Errors
/// The first error; operations in flight are then dropped.
pub(crate) async fn stage<T, U, F>(
    window_bytes: u64,
    input: impl Stream<Item = T>,
    bytes_of: impl Fn(&T) -> u64,
    begin: impl Fn(T) -> F,
    mut hand_on: impl FnMut(U),
) -> Result<()>
where
    F: Future<Output = Result<U>>,
{
    let mut input = pin!(input.fuse());
    let mut under_way = FuturesOrdered::new();
    let (mut under_way_bytes, mut next) = (0, None);
    loop {
        if let Some(item) = next.take() {
            let bytes = bytes_of(&item);
            if under_way.is_empty() || under_way_bytes + bytes <= window_bytes {
                under_way_bytes += bytes;
                let work = begin(item);
                under_way.push_back(async move { (bytes, work.await) });
            } else {
                next = Some(item);
            }
        }
        let wants_item = next.is_none() && !input.is_done();
        let event = match (wants_item, under_way.is_empty()) {
            (false, true) => return Ok(()),
            (true, true) => Event::Item(input.next().await),
            (false, false) => Event::Ended(under_way.next().await),
            (true, false) => match select(under_way.next(), input.next()).await {
                Either::Left((ended, _)) => Event::Ended(ended),
                Either::Right((item, _)) => Event::Item(item),
            },
        };
        match event {
            Event::Item(item) => next = item,
            Event::Ended(Some((bytes, result))) => {
                under_way_bytes -= bytes;
                hand_on(result?);
            }
            Event::Ended(None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use crosslane_host::ErrorKind;
    use futures_util::FutureExt;
    use futures_util::stream;

    use super::*;
    use crate::error::BridgeError;
    use crate::files::pause;

    #[test]
    fn a_window_bounds_what_is_under_way_and_the_order_is_kept() {
        let (now, most, done) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let work = |item: u64| {
            let (now, most) = (&now, &most);
            async move {
                now.set(now.get() + item);
                most.set(most.get().max(now.get()));
                // Yield to the others before continuing; later items yield fewer times.
                for _ in 0..20 - item {
                    pause().await;
                }
                now.set(now.get() - item);
                Ok(item)
            }
        };
        let all = stage(
            10,
            stream::iter(1..=9),
            |item| *item,
            work,
            |item| {
                done.borrow_mut().push(item);
            },
        );
        let mut all = Box::pin(all);
        let mut polls = 0;
        while all.as_mut().now_or_never().is_none() {
            polls += 1;
            assert!(polls < 1000, "it ends");
        }
        assert_eq!(*done.borrow(), (1..=9).collect::<Vec<_>>());
        assert_eq!(most.get(), 10, "1 + 2 + 3 + 4");
    }

    #[test]
    fn an_item_larger_than_the_window_goes_alone_and_an_error_ends_all() {
        let done = RefCell::new(Vec::new());
        let work = |item: u64| async move {
            match item {
                70 => Err(BridgeError::new(crate::Stage::Dma, ErrorKind::Failed, "no")),
                item => Ok(item),
            }
        };
        let items = stream::iter([50, 60, 70, 80]);
        let all = stage(10, items, |item| *item, work, |item| done.borrow_mut().push(item));
        let result = all.now_or_never().expect("nothing waits");
        assert_eq!(result.expect_err("70 fails").why.to_string(), "no");
        assert_eq!(*done.borrow(), [50, 60]);
    }
}
