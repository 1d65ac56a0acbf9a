// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's clock, for deadlines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crosslane_host::{Clock, lock};
use crosslane_pcie::units::Picoseconds;
use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, counted from the creation of the first clone. One thread wakes
/// all sleepers; it ends with the last clone.
#[derive(Clone)]
pub struct MachineClock {
    start: Instant,
    timer: Arc<Timer>,
}

struct Timer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleepers {
    last: u64,
    /// Due time and id of each sleep, earliest on top. Includes sleeps that were dropped.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Wakers of the current sleepers.
    wakers: BTreeMap<u64, Waker>,
    has_thread: bool,
    ended: bool,
}

impl Shared {
    fn run(&self) {
        let mut sleepers = lock(&self.sleepers);
        while !sleepers.ended {
            let now = Instant::now();
            let mut wakers = Vec::new();
            while let Some(&Reverse((time, id))) = sleepers.due.peek() {
                if !sleepers.wakers.contains_key(&id) {
                    sleepers.due.pop();
                } else if time <= now {
                    sleepers.due.pop();
                    wakers.extend(sleepers.wakers.remove(&id));
                } else {
                    break;
                }
            }
            if !wakers.is_empty() {
                // A waker may do anything, even start another sleep.
                drop(sleepers);
                for waker in wakers {
                    waker.wake();
                }
                sleepers = lock(&self.sleepers);
                continue;
            }
            let next = sleepers.due.peek().map(|Reverse((time, _))| *time - now);
            sleepers = match next {
                Some(wait) => {
                    let waited = self.changed.wait_timeout(sleepers, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl MachineClock {
    /// Makes a clock that starts at 0 now.
    pub fn new() -> Self {
        Self { start: Instant::now(), timer: Arc::new(Timer { shared: Arc::default() }) }
    }

    /// Returns the time `time` from now.
    pub fn after(&self, time: Duration) -> Picoseconds {
        picoseconds(self.start.elapsed().saturating_add(time))
    }
}

impl Default for MachineClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Converts a duration to picoseconds; one too long to count is never.
fn picoseconds(time: Duration) -> Picoseconds {
    u64::try_from(time.as_nanos().saturating_mul(1000)).map_or(Picoseconds::NEVER, Picoseconds)
}

impl Clock for MachineClock {
    fn now(&self) -> Picoseconds {
        picoseconds(self.start.elapsed())
    }

    async fn sleep_until(&self, time: Picoseconds) {
        if time == Picoseconds::NEVER {
            return std::future::pending().await;
        }
        // Rounded up, so that the time has passed on waking.
        let due = self.start + Duration::from_nanos(time.0.div_ceil(1000));
        let mut sleep = Sleep { shared: &self.timer.shared, id: None };
        poll_fn(|context| match Instant::now() >= due {
            true => Poll::Ready(()),
            false => {
                sleep.begin(due, context.waker());
                Poll::Pending
            }
        })
        .await;
    }

    fn processor_time(&self) -> Option<Picoseconds> {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(used.tv_sec).ok()?;
        Some(picoseconds(Duration::new(seconds, u32::try_from(used.tv_nsec).ok()?)))
    }
}

impl std::fmt::Debug for MachineClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MachineClock({})", self.now())
    }
}

/// A sleep; dropping it cancels the waking.
struct Sleep<'a> {
    shared: &'a Arc<Shared>,
    id: Option<u64>,
}

impl Sleep<'_> {
    fn begin(&mut self, due: Instant, waker: &Waker) {
        let mut sleepers = lock(&self.shared.sleepers);
        if let Some(old) = self.id.and_then(|id| sleepers.wakers.get_mut(&id)) {
            old.clone_from(waker);
            return;
        }
        sleepers.last += 1;
        let id = sleepers.last;
        sleepers.due.push(Reverse((due, id)));
        sleepers.wakers.insert(id, waker.clone());
        self.id = Some(id);
        if !sleepers.has_thread {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("crosslane-clock".into());
            sleepers.has_thread = thread.spawn(move || shared.run()).is_ok();
            if !sleepers.has_thread {
                // No thread can be started: the sleeper must check again and again.
                sleepers.wakers.remove(&id);
                waker.wake_by_ref();
            }
        }
        drop(sleepers);
        self.shared.changed.notify_one();
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut sleepers = lock(&self.shared.sleepers);
            let waker = sleepers.wakers.remove(&id);
            // Dropped sleeps must not fill the heap.
            if sleepers.due.len() > 64 && sleepers.due.len() > 2 * sleepers.wakers.len() {
                let Sleepers { due, wakers, .. } = &mut *sleepers;
                due.retain(|Reverse((_, id))| wakers.contains_key(id));
            }
            drop(sleepers);
            drop(waker);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        lock(&self.shared.sleepers).ended = true;
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::Context;

    use futures_executor::block_on;
    use futures_util::future::{Either, join_all, select};

    use super::*;

    #[test]
    fn who_sleeps_wakes_when_the_time_has_come() {
        let clock = MachineClock::new();
        let times: Vec<u64> = (0..50).rev().collect();
        let sleeps = times.iter().map(|time| {
            let (clock, due) = (clock.clone(), clock.after(Duration::from_millis(*time)));
            async move {
                clock.sleep_until(due).await;
                assert!(clock.now() >= due);
            }
        });
        block_on(join_all(sleeps));
        // Past times, and never.
        block_on(clock.sleep_until(Picoseconds::ZERO));
        let never = Box::pin(clock.sleep_until(Picoseconds::NEVER));
        let soon = Box::pin(clock.sleep_until(clock.after(Duration::from_millis(1))));
        assert!(matches!(block_on(select(never, soon)), Either::Right(_)));
        assert_eq!(clock.after(Duration::MAX), Picoseconds::NEVER);
    }

    #[test]
    fn who_sleeps_no_longer_is_forgotten() {
        let clock = MachineClock::new();
        let due = clock.after(Duration::from_secs(3600));
        for _ in 0..10_000 {
            let mut sleep = Box::pin(clock.sleep_until(due));
            let mut context = Context::from_waker(Waker::noop());
            assert!(sleep.as_mut().poll(&mut context).is_pending());
            assert!(sleep.as_mut().poll(&mut context).is_pending());
        }
        let sleepers = lock(&clock.timer.shared.sleepers);
        assert!(sleepers.wakers.is_empty());
        assert!(sleepers.due.len() <= 65, "{} are left", sleepers.due.len());
    }

    #[test]
    fn the_processor_s_time_counts_what_was_done() {
        let clock = MachineClock::new();
        let before = clock.processor_time().unwrap();
        let mut sum = 0_u64;
        while clock.processor_time().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(clock.processor_time().unwrap() > before);
    }
}
