// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several workloads at once, released together.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;

use crosslane_driver::Device;
use crosslane_host::Bus;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Together as Common;
use futures_util::future::{Either, join_all, select};

use crate::error::{ExperimentError, Result};
use crate::host_transfer::{Direction, HostTransfer};
use crate::measured::{Measured, rate};
use crate::peer_write::PeerWrite;
use crate::samples::thin;
use crate::workload::Workload;

/// One of several flows.
#[derive(Clone)]
pub struct Flow<B: Bus> {
    /// A write, a read or a peer write.
    pub workload: Workload,
    /// Its cards, in the order of the data's path.
    pub devices: Vec<Device<B>>,
    /// The core that its thread runs on.
    pub core: u16,
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

/// An observer that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn payload_bytes(&self) -> Option<u64> {
        None
    }
}

/// Measurement of several flows.
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
    pub fn hardware_sum(&self) -> f64 {
        self.flows.iter().map(Measured::hardware_bytes_per_second).sum()
    }

    /// The same as the applications see it.
    pub fn application_sum(&self) -> f64 {
        self.flows.iter().map(Measured::application_bytes_per_second).sum()
    }
}

/// Runs flows at once. All are set up first; then their threads are released at one time, in the
/// order in which they are given, and wait for nothing of each other.
///
/// # Errors
/// The first error of a flow; the others are run to their end first. A chain or a ping-pong.
///
/// # Panics
/// If a flow has fewer devices than its workload takes.
pub async fn together<B: Bus, O: Observer>(flows: &[Flow<B>], observer: &O) -> Result<Together> {
    let mut prepared = Vec::new();
    for flow in flows {
        prepared.push(Prepared::new(flow).await?);
    }
    let Some(bus) = flows.first().map(|flow| flow.devices[0].bus().clone()) else {
        return Ok(Together { flows: Vec::new(), common: None });
    };
    let mut samples = Samples::default();
    let runs = join_all(prepared.iter_mut().map(Prepared::run));
    let results = until(runs, samples.watch(bus, observer)).await;
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    let mut measured = Vec::new();
    for flow in prepared {
        measured.push(flow.finish().await?);
    }
    let common = samples.common(&measured);
    Ok(Together { flows: measured, common })
}

/// Does `work` and asks the observer at its interval until it is done.
pub async fn observed<B: Bus, O: Observer, F: Future>(bus: B, observer: &O, work: F) -> F::Output {
    until(work, Samples::default().watch(bus, observer)).await
}

/// Does `work` while `watch` runs, which ends only with it.
async fn until<F: Future>(work: F, watch: impl Future<Output = Infallible>) -> F::Output {
    match select(pin!(work), pin!(watch)).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}

/// A flow that is set up.
enum Prepared<B: Bus> {
    Host(Box<HostTransfer<B>>),
    Peer(Box<PeerWrite<B>>),
}

impl<B: Bus> Prepared<B> {
    async fn new(flow: &Flow<B>) -> Result<Self> {
        let first = flow.devices[0].on_core(flow.core);
        let host = async |direction, options| {
            let transfer = HostTransfer::prepare(&first, direction, options).await?;
            Ok::<_, ExperimentError>(Self::Host(Box::new(transfer)))
        };
        match &flow.workload {
            Workload::Write(options) => host(Direction::Write, options).await,
            Workload::Read(options) => host(Direction::Read, options).await,
            Workload::Peer(options) => {
                let transfer = PeerWrite::prepare(&first, &flow.devices[1], options).await?;
                Ok(Self::Peer(Box::new(transfer)))
            }
            Workload::Chain(_) | Workload::Latency(_) => Err(ExperimentError::Refused {
                place: first.function().name.clone(),
                problem: "chains and ping-pongs are no flows beside others".to_owned(),
            }),
        }
    }

    async fn run(&mut self) -> Result<()> {
        match self {
            Self::Host(transfer) => transfer.run().await,
            Self::Peer(transfer) => transfer.run().await,
        }
    }

    async fn finish(self) -> Result<Measured> {
        match self {
            Self::Host(transfer) => transfer.finish().await,
            Self::Peer(transfer) => transfer.finish().await,
        }
    }
}

/// Most samples that are kept: what a run of a second takes at one each microsecond. Of a longer
/// run every second one is dropped.
const MAX_SAMPLES: usize = 1 << 20;

/// Answers of an observer, each with its time.
#[derive(Debug, Default)]
struct Samples {
    taken: Vec<(Picoseconds, u64)>,
}

impl Samples {
    /// Asks the observer until it is dropped.
    async fn watch<B: Bus>(&mut self, bus: B, observer: &impl Observer) -> Infallible {
        let mut interval = observer.interval().0.max(1);
        while let Some(bytes) = observer.payload_bytes() {
            self.add(bus.now(), bytes, &mut interval);
            bus.sleep_until(Picoseconds(bus.now().0 + interval)).await;
        }
        pending().await
    }

    fn add(&mut self, now: Picoseconds, bytes: u64, interval: &mut u64) {
        if self.taken.len() == MAX_SAMPLES {
            thin(&mut self.taken);
            *interval *= 2;
        }
        self.taken.push((now, bytes));
    }

    /// Between the first and the last sample that lie in the time in which all were active.
    fn common(&self, flows: &[Measured]) -> Option<Common> {
        let active = |flow: &Measured| {
            flow.hardware.map_or((flow.started, flow.ended), |time| (time.first, time.last))
        };
        let begun = flows.iter().map(|flow| active(flow).0).max()?;
        let ended = flows.iter().map(|flow| active(flow).1).min()?;
        let within = || self.taken.iter().filter(|(at, _)| (begun.0..=ended.0).contains(&at.0));
        let (&(from, before), &(to, after)) = (within().next()?, within().next_back()?);
        (to > from).then(|| {
            let bytes = after.saturating_sub(before);
            let bytes_per_second = rate(bytes, to.since(from));
            Common { from_ps: from.0, to_ps: to.0, bytes, bytes_per_second }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_samples_are_thinned_out() {
        let mut samples = Samples::default();
        let mut interval = 1000;
        for at in 0..=MAX_SAMPLES as u64 {
            samples.add(Picoseconds(at), at, &mut interval);
        }
        assert_eq!((samples.taken.len(), interval), (MAX_SAMPLES / 2 + 1, 2000));
        assert_eq!(samples.taken[..2], [(Picoseconds(0), 0), (Picoseconds(2), 2)]);
    }
}
