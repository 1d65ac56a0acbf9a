// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long work.

use crosslane_pcie::units::Picoseconds;

use crate::error::ReproduceError;

/// Who wants to know how far it is.
pub trait Watch: Sync {
    /// One more scenario has been run, in so much simulated time.
    fn done(&self, scenario: &str, simulated: Picoseconds);

    /// Whether nothing more is to begin.
    fn is_over(&self) -> bool {
        false
    }
}

/// Whether a scenario may begin.
///
/// # Errors
/// [`ReproduceError::Interrupted`].
pub(crate) fn may_begin(watch: &dyn Watch) -> Result<(), ReproduceError> {
    if watch.is_over() { Err(ReproduceError::Interrupted) } else { Ok(()) }
}

/// Nobody does.
impl Watch for () {
    fn done(&self, _scenario: &str, _simulated: Picoseconds) {}
}
