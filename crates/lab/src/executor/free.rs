// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free-running labs: as fast as possible, beside events of the real world.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crosslane_fabric::HostRun;

use super::{PollEnds, RunGuard, Simulation};

/// Polls of tasks before the fabric's turn.
const POLLS_AT_ONCE: u32 = 256;
/// Events of the fabric before the tasks' turn: some ten microseconds of wall-clock time.
const EVENTS_AT_ONCE: u32 = 256;

impl Simulation {
    /// Runs a future to its end, and the spawned tasks beside it, with simulated time advancing as
    /// fast as this machine simulates it. Futures may also wait for other threads to wake them: for
    /// completions of a real network, or timers of the machine's clock. The thread sleeps while
    /// nothing is ready and nothing happens in the lab.
    ///
    /// Such a run is not deterministic. Simulated and wall-clock time are unrelated: while a task
    /// waits for another thread, all waits in the lab end at once, including deadlines in simulated
    /// time. So a deadline for an outside event has to use the machine's clock. Endless waits are
    /// not reported, and the time limit does not apply.
    ///
    /// # Panics
    /// If a run of this simulation is in progress.
    pub fn run_free<F: Future>(&self, name: &str, future: F) -> F::Output {
        let (mut future, mut output) = (pin!(future), None);
        self.run_free_until(name, &mut |context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                output = Some(value);
            }
            output.is_some()
        });
        output.expect("the run has ended")
    }

    fn run_free_until(&self, name: &str, poll: &mut PollEnds<'_>) {
        let run = RunGuard::start(self, name);
        loop {
            for _ in 0..POLLS_AT_ONCE {
                let Some(task) = self.ready.pop() else { break };
                if task.id != run.task.id {
                    self.poll_task(&task);
                    continue;
                }
                if run.poll(poll) {
                    return;
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
