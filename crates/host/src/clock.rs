// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time as a program's deadlines count it.

use std::future::Future;

use crosslane_pcie::units::Picoseconds;

/// The clock of deadlines and statistics: simulated time in the lab, the machine's elsewhere. It
/// need not be the time of a [`Bus`](crate::Bus): the bus of a lab that runs free beside a real
/// network has simulated time, and what waits for the network has the machine's.
pub trait Clock: Clone {
    /// Time now. It never goes back.
    fn now(&self) -> Picoseconds;

    /// Waits until `time` without keeping a core busy; [`Picoseconds::NEVER`] never comes.
    fn sleep_until(&self, time: Picoseconds) -> impl Future<Output = ()>;

    /// Processor time that this program (in the lab: its host) has used so far, of all its cores
    /// together; none where nobody counts it.
    fn processor_time(&self) -> Option<Picoseconds> {
        None
    }
}
