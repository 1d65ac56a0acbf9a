// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observers of how far runs are.

use crosslane_pcie::units::Picoseconds;

/// Is told how far runs are, by the threads that make them. A run is the same whoever watches.
pub trait Progress: Sync {
    /// Whether anybody can see it.
    fn is_watched(&self) -> bool;

    /// So many bytes more have been moved, in so much more simulated time.
    fn done(&self, bytes: u64, simulated: Picoseconds);

    /// Whether runs have to end before their time, with [`ScenarioError::Interrupted`].
    ///
    /// [`ScenarioError::Interrupted`]: crate::ScenarioError::Interrupted
    fn is_over(&self) -> bool {
        false
    }
}

/// An observer that sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn is_watched(&self) -> bool {
        false
    }

    fn done(&self, _bytes: u64, _simulated: Picoseconds) {}
}
