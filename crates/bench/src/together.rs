// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several workloads at once, released together.

use crosslane_driver::Device;
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;

use crate::error::BenchError;
use crate::measured::{Measured, rate};
use crate::options::Options;

/// What a flow does.
#[derive(Clone)]
pub enum Work<B: Bus> {
    /// [`write`](crate::write()).
    Write(Device<B>),
    /// [`read`](crate::read()).
    Read(Device<B>),
    /// [`peer_write`](crate::peer_write()).
    Peer {
        /// The sender.
        from: Device<B>,
        /// The receiver.
        to: Device<B>,
    },
}

/// One of several flows.
#[derive(Clone)]
pub struct Flow<B: Bus> {
    /// What it does.
    pub work: Work<B>,
    /// The core that its thread runs on.
    pub core: u16,
    /// How.
    pub options: Options,
}

/// Counts what crosses a channel that the flows share, while they run: in the lab, the payload
/// counters of links. It is asked every [`interval`](Self::interval), so that the bytes of any
/// span are known to within two intervals' ends, both of which are exact.
pub trait Observer {
    /// Payload bytes so far; none where nothing can be said.
    fn payload_bytes(&self) -> Option<u64>;

    /// Time between two questions.
    fn interval(&self) -> Picoseconds {
        Picoseconds::from_ns(1000)
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn payload_bytes(&self) -> Option<u64> {
        None
    }
}

/// The time in which all flows were active, and what the observer counted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// The last flow had begun.
    pub from: Picoseconds,
    /// The first flow had not ended.
    pub to: Picoseconds,
    /// Payload bytes of all flows in it.
    pub bytes: u64,
}

impl Common {
    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.bytes, self.to.since(self.from))
    }
}

/// What several flows have measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// Each flow, in the order in which they were given.
    pub flows: Vec<Measured>,
    /// While all were active; none where there was no such time, or no observer.
    pub common: Option<Common>,
}

impl Together {
    /// Sum of the flows' rates by the engines' timers, bytes per second. It exceeds what the
    /// shared channel carries where flows begin and end at different times.
    #[must_use]
    pub fn hardware_sum(&self) -> f64 {
        self.flows.iter().map(Measured::hardware_bytes_per_second).sum()
    }

    /// The same as the applications see it.
    #[must_use]
    pub fn application_sum(&self) -> f64 {
        self.flows.iter().map(Measured::application_bytes_per_second).sum()
    }
}

/// Runs flows at once. All are set up first; then their threads are released at one time, in the
/// order in which they are given, and wait for nothing of each other.
///
/// # Errors
/// What one of the flows runs into; the others are run to their end first.
pub async fn together<B: Bus, O: Observer>(
    flows: &[Flow<B>],
    observer: &O,
) -> Result<Together, BenchError> {
    let _ = (flows, observer);
    unimplemented!()
}
