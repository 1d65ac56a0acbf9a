// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work.

use crosslane_pcie::units::Picoseconds;

/// Who wants to know how far it is.
pub trait Watch: Sync {
    /// One more scenario has been run, in so much simulated time.
    fn done(&self, scenario: &str, simulated: Picoseconds);
}

/// Nobody does.
impl Watch for () {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {}
}
