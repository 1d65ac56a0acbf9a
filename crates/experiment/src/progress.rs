// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observers of the progress of runs.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crosslane_pcie::units::Picoseconds;

/// Receiver of the progress of runs, called by the threads that make them. A run is the same
/// whoever watches.
pub trait Progress: Sync {
    /// Returns whether anybody can see it.
    fn is_watched(&self) -> bool;

    /// Reports bytes that have been moved since the last call, and the simulated time of that.
    fn done(&self, bytes: u64, simulated: Picoseconds);

    /// Returns whether runs have to end before their time, with [`ExperimentError::Interrupted`].
    ///
    /// [`ExperimentError::Interrupted`]: crate::ExperimentError::Interrupted
    fn is_over(&self) -> bool {
        false
    }
}

/// Ignores progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn is_watched(&self) -> bool {
        false
    }

    fn done(&self, _bytes: u64, _simulated: Picoseconds) {}
}

/// Does work, unless it has to end before its time; that is asked whenever the work has got on.
pub async fn unless_over<T>(
    work: impl Future<Output = T>,
    is_over: impl Fn() -> bool,
) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if is_over() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
