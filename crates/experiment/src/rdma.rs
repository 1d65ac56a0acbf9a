// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RDMA reads and writes between two nodes, many in flight, as `ib_read_bw` and `ib_write_bw` of
//! perftest make them: any network, any clock. All data are compared, outside of what is timed.

use std::pin::pin;

use crosslane_host::{
    Clock, DmaMemory, FarEnd, NearEnd, PageSize, Rdma, RdmaConnection, RdmaError, RdmaRegion,
    RemoteAccess, RemoteMemory, setters,
};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::Latencies;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, rate};
use crate::pattern::{compare_memory, fill_memory};

/// Operations of small sizes have places that are so far apart, bytes: a cache line.
const LINE_BYTES: u64 = 64;
/// Memory of a run at each end, at most, unless one operation needs more: operations in flight
/// share places where they would take more.
const MOST_MEMORY_BYTES: u64 = 16 << 20;
/// Data of a run like perftest's, about.
const PERFTEST_BYTES: u64 = 32 << 20;
/// Operations of such a run, at most and at least.
const PERFTEST_ITERATIONS: [u64; 2] = [1000, 8];
/// Operations that perftest keeps in flight (`--tx-depth`).
const PERFTEST_IN_FLIGHT: u32 = 128;
/// Bytes of what the far end tells of its memory.
const OFFER_BYTES: usize = 24;

/// Direction of the timed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RdmaDirection {
    /// From the other node's memory into this one's.
    Read,
    /// From this node's memory into the other one's.
    Write,
}

impl RdmaDirection {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Returns the operation in words: `RDMA read`, `RDMA write`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Read => "RDMA read",
            Self::Write => "RDMA write",
        }
    }
}

/// Options of timed reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaOptions {
    /// Direction of the timed operations.
    pub direction: RdmaDirection,
    /// Bytes of each, at least 1.
    pub size_bytes: u64,
    /// Number of timed operations.
    pub iterations: u64,
    /// Number of operations that are kept in flight.
    pub in_flight: u32,
    /// Seed of the data.
    pub seed: u32,
    /// A run that takes longer has failed.
    pub timeout: Picoseconds,
}

setters!(RdmaOptions {
    with_size_bytes(size_bytes: u64),
    with_iterations(iterations: u64),
    with_in_flight(in_flight: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

impl RdmaOptions {
    /// Sizes that perftest runs through with `--all`: powers of two from 2 B to 8 MiB.
    pub fn perftest_sizes() -> impl Iterator<Item = u64> {
        (1..=23).map(|power| 1 << power)
    }

    /// Options as perftest has them, with fewer iterations of large sizes.
    pub fn like_perftest(direction: RdmaDirection, size_bytes: u64, seed: u32) -> Self {
        let [most, least] = PERFTEST_ITERATIONS;
        let iterations = (PERFTEST_BYTES / size_bytes.max(1)).clamp(least, most);
        let timeout = Picoseconds::from_ns(10_000_000_000);
        let in_flight = PERFTEST_IN_FLIGHT;
        Self { direction, size_bytes, iterations, in_flight, seed, timeout }
    }

    /// Distance of one place in memory from the next.
    const fn stride_bytes(&self) -> u64 {
        self.size_bytes.saturating_add(LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES
    }

    /// Places in memory.
    fn places(&self) -> u64 {
        let wanted = u64::from(self.in_flight).min(self.iterations);
        wanted.min(MOST_MEMORY_BYTES / self.stride_bytes().max(1)).max(1)
    }

    /// Memory that each end needs, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.places() * self.stride_bytes()
    }
}

/// Measurements of RDMA reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct RdmaMeasured {
    /// Options of the run.
    pub options: RdmaOptions,
    /// Time from the first operation that began to the last that ended.
    pub time: Picoseconds,
    /// Time of each operation from its beginning to its end, with all that were in flight before
    /// it.
    pub latencies: Latencies,
    /// Words that differ from the data sent.
    pub data_errors: DataErrors,
}

impl RdmaMeasured {
    /// Bytes per second of all.
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.options.iterations * self.options.size_bytes, self.time)
    }
}

/// Serves as the far end of [`rdma`]: gives memory of this size to the node at the other end and
/// waits until that is done with it.
///
/// # Errors
/// A refusal by the network.
pub async fn rdma_target<R: Rdma>(
    network: &R,
    connection: &R::Connection,
    bytes: u64,
) -> Result<()> {
    let memory = network.allocate(bytes, PageSize::Huge)?;
    let region = network.register(&memory, RemoteAccess::READ_WRITE).await?;
    let RemoteMemory { address, key, bytes } = region.remote();
    let offer = [address, key, bytes].map(u64::to_le_bytes).concat();
    connection.send(&offer).await?;
    connection.receive().await?;
    Ok(())
}

/// Makes reads or writes of memory that the other end gives with [`rdma_target`]; it needs
/// [`RdmaOptions::memory_bytes`]. One run for each such call.
///
/// # Errors
/// An invalid request, and a refusal by the network.
pub async fn rdma<R: Rdma, C: Clock>(
    network: &R,
    connection: &R::Connection,
    clock: &C,
    options: &RdmaOptions,
) -> Result<RdmaMeasured> {
    let place = || options.direction.words().to_owned();
    if options.size_bytes == 0 || options.iterations == 0 || options.in_flight == 0 {
        let problem = "size, iterations and operations in flight have to be above 0".to_owned();
        return Err(ExperimentError::refused(place(), problem));
    }
    let deadline = Picoseconds(clock.now().0.saturating_add(options.timeout.0));
    let run = pin!(run(network, connection, clock, options));
    match select(run, pin!(clock.sleep_until(deadline))).await {
        Either::Left((measured, _)) => measured,
        Either::Right(_) => Err(RdmaError::Deadline { what: place() }.into()),
    }
}

async fn run<R: Rdma, C: Clock>(
    network: &R,
    connection: &R::Connection,
    clock: &C,
    options: &RdmaOptions,
) -> Result<RdmaMeasured> {
    let offer = connection.receive().await?;
    let (far, bytes) = (offered(&offer, connection)?, options.memory_bytes());
    if far.bytes < bytes {
        let place = options.direction.words().to_owned();
        let problem = format!("the other end gives {} B, and {bytes} B are needed", far.bytes);
        return Err(ExperimentError::refused(place, problem));
    }
    let memory = network.allocate(bytes, PageSize::Huge)?;
    let region = network.register(&memory, RemoteAccess::NONE).await?;
    let whole = NearEnd { region: region.clone(), offset_bytes: 0 };
    let far_whole = FarEnd { memory: far, offset_bytes: 0 };
    // The source has the data, and the destination others.
    let (near_seed, far_seed) = match options.direction {
        RdmaDirection::Read => (!options.seed, options.seed),
        RdmaDirection::Write => (options.seed, !options.seed),
    };
    fill_memory(&memory, bytes, far_seed)?;
    connection.write(&whole, far_whole, bytes).await?;
    fill_memory(&memory, bytes, near_seed)?;

    let (time, latencies) = timed::<R, C>(connection, clock, options, &region, far).await?;

    if options.direction == RdmaDirection::Write {
        fill_memory(&memory, bytes, !options.seed)?;
        connection.read(&whole, far_whole, bytes).await?;
    }
    let data_errors = compare(&memory, options)?;
    connection.send(b"done").await?;
    let latencies = Latencies::of(latencies);
    Ok(RdmaMeasured { options: *options, time, latencies, data_errors })
}

/// Times all operations: together, and each.
async fn timed<R: Rdma, C: Clock>(
    connection: &R::Connection,
    clock: &C,
    options: &RdmaOptions,
    region: &R::Region,
    far: RemoteMemory,
) -> Result<(Picoseconds, Vec<u64>)> {
    let one = |number: u64| {
        let offset_bytes = number % options.places() * options.stride_bytes();
        let near = NearEnd { region: region.clone(), offset_bytes };
        let far = FarEnd { memory: far, offset_bytes };
        async move {
            let begun = clock.now();
            match options.direction {
                RdmaDirection::Read => connection.read(&near, far, options.size_bytes).await?,
                RdmaDirection::Write => connection.write(&near, far, options.size_bytes).await?,
            }
            Ok::<_, RdmaError>(clock.now().since(begun))
        }
    };
    let begun = clock.now();
    let at_once = u64::from(options.in_flight).min(options.iterations);
    let mut running: FuturesUnordered<_> = (0..at_once).map(one).collect();
    let mut next = at_once;
    let mut latencies = Vec::new();
    while let Some(latency) = running.next().await {
        latencies.push(latency?.0);
        if next < options.iterations {
            running.push(one(next));
            next += 1;
        }
    }
    Ok((clock.now().since(begun), latencies))
}

/// Returns the memory that the far end gives.
fn offered(message: &[u8], connection: &impl RdmaConnection) -> Result<RemoteMemory> {
    let number = |at: usize| message[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
    if message.len() != OFFER_BYTES {
        let problem = format!("{} B are no offer of memory", message.len());
        return Err(ExperimentError::refused(connection.peer(), problem));
    }
    Ok(RemoteMemory { address: number(0), key: number(8), bytes: number(16) })
}

/// Compares the bytes of each place with the source's.
fn compare(memory: &impl DmaMemory, options: &RdmaOptions) -> Result<DataErrors> {
    let mut errors = DataErrors::default();
    for place in 0..options.places() {
        let begin = place * options.stride_bytes();
        compare_memory(memory, begin, options.size_bytes, options.seed, &mut errors)?;
    }
    Ok(errors)
}
