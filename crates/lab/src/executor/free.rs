// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lab that runs free: as fast as it can, beside events of the real world.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crosslane_fabric::HostRun;

use super::{Run, Simulation};

/// Polls of tasks before the fabric has its turn.
const POLLS_AT_ONCE: u32 = 256;
/// Events of the fabric before tasks have theirs: some ten microseconds of this machine's time.
const EVENTS_AT_ONCE: u32 = 256;

impl Simulation {
    /// Runs a future to its end, and the spawned tasks beside it, with the lab's time going on as
    /// fast as this machine simulates it. Futures may also wait for what other threads wake them
    /// for: completions of a real network, timers of the machine's clock. While nothing is ready
    /// and nothing happens in the lab the thread sleeps.
    ///
    /// Such a run is not deterministic. The lab's time has nothing to do with the machine's: while
    /// a task waits for another thread, all that the lab is asked to wait for comes at once, also
    /// a deadline in the lab's time. So a deadline for what the world outside does has to be on
    /// the machine's clock. What waits for ever is not reported, and the time limit does not count.
    ///
    /// # Panics
    /// Where a run of this simulation is going on already.
    pub fn run_free<F: Future>(&self, name: &str, future: F) -> F::Output {
        let mut future = pin!(future);
        let run = Run::start(self, name);
        loop {
            for _ in 0..POLLS_AT_ONCE {
                let Some(id) = self.ready.pop() else { break };
                if id != run.id {
                    self.poll_task(id);
                    continue;
                }
                if let Poll::Ready(output) = run.poll(future.as_mut()) {
                    return output;
                }
            }
            let (went, wakers) = self.shared.lock().advance_some(EVENTS_AT_ONCE);
            for waker in wakers {
                waker.wake();
            }
            self.shared.bury();
            if went == HostRun::NothingLeft {
                self.ready.wait();
            }
        }
    }
}
