// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work.

use crosslane_pcie::units::Picoseconds;

/// Receiver of progress.
pub trait Watch: Sync {
    /// One more scenario has been run, in so much simulated time.
    fn done(&self, scenario: &str, simulated: Picoseconds);

    /// Whether nothing more is to begin.
    fn is_over(&self) -> bool {
        false
    }
}

/// Progress that nobody watches.
impl Watch for () {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {}
}
