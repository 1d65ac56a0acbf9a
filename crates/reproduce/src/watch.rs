// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work.

use crosslane_pcie::units::Picoseconds;

/// Receiver of progress.
pub trait Watch: Sync {
    /// Reports one more finished scenario and its simulated time.
    fn done(&self, scenario: &str, simulated: Picoseconds);

    /// Returns whether no more scenarios may begin.
    fn is_over(&self) -> bool {
        false
    }
}

/// Ignores progress.
impl Watch for () {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {}
}
