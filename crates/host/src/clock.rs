// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The time by which a program counts its deadlines.

use std::future::Future;

use crosslane_pcie::units::Picoseconds;

use crate::Bus;

/// The clock of deadlines and statistics: simulated time in the lab, the machine's elsewhere. It
/// may differ from the time of a [`Bus`], which is a clock too: in a free-running lab beside a real
/// network the bus has simulated time, and waits for the network use the machine's.
pub trait Clock: Clone {
    /// The current time. It never decreases.
    fn now(&self) -> Picoseconds;

    /// Waits until `time` without keeping a core busy, forever for [`Picoseconds::NEVER`].
    fn sleep_until(&self, time: Picoseconds) -> impl Future<Output = ()>;

    /// Processor time that this program (in the lab: its host) has used so far, summed over its
    /// cores; `None` if nothing counts it.
    fn processor_time(&self) -> Option<Picoseconds> {
        None
    }
}

impl<B: Bus> Clock for B {
    fn now(&self) -> Picoseconds {
        Bus::now(self)
    }

    async fn sleep_until(&self, time: Picoseconds) {
        Bus::sleep_until(self, time).await;
    }

    fn processor_time(&self) -> Option<Picoseconds> {
        Bus::processor_time(self)
    }
}
