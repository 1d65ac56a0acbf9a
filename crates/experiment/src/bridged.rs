// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers between a remote node's memory and a card's, through a bridge: any network, any
//! clock. All data are compared, outside of what is timed.

use crosslane_bridge::{CardPlace, Client, MemoryPart, Mode, Path, Report, TransferOptions};
use crosslane_host::{Clock, PageSize, Rdma, RdmaRegion, RemoteAccess, setters};
use crosslane_lab::Progress;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::{BridgeReport, BridgeStage, BridgeStep, BridgeTransfer, Overlap};
use futures_util::future::try_join_all;

use crate::error::{ExperimentError, Result};
use crate::measured::{DataErrors, median, rate};
use crate::pattern::{WORD_BYTES, compare_memory, compare_with, fill_memory};

/// Options of bridged transfers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BridgedOptions {
    /// Path of the data.
    pub path: Path,
    /// Pipelined or naive.
    pub mode: Mode,
    /// The card at the server.
    pub card: String,
    /// First byte in the card's memory.
    pub address: u64,
    /// Bytes of a transfer, a multiple of 4.
    pub size_bytes: u64,
    /// Transfers that are timed, one after the other.
    pub iterations: u64,
    /// Seed of the data.
    pub seed: u32,
    /// A transfer that takes longer has failed.
    pub timeout: Picoseconds,
}

impl BridgedOptions {
    /// Returns options of one transfer with the start of a card's memory, at most 10 s long.
    pub fn new(path: Path, mode: Mode, card: impl Into<String>, size_bytes: u64) -> Self {
        let (card, timeout) = (card.into(), Picoseconds::from_ms(10_000));
        Self { path, mode, card, address: 0, size_bytes, iterations: 1, seed: 1, timeout }
    }
}

setters!(BridgedOptions {
    with_address(address: u64),
    with_iterations(iterations: u64),
    with_seed(seed: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

/// Measurements of bridged transfers.
#[derive(Clone, Debug)]
pub struct BridgedMeasured {
    /// Bytes of each transfer.
    pub size_bytes: u64,
    /// Time of each transfer, as the client has it: from the request until it knows that all has
    /// arrived; of a naive transfer from before it gets and registers its memory.
    pub times: Vec<Picoseconds>,
    /// Time of registering the client's memory, for a naive transfer.
    pub registrations: Vec<Picoseconds>,
    /// The server's report on each.
    pub reports: Vec<Report>,
    /// Words that differ from the data sent.
    pub data_errors: DataErrors,
}

impl BridgedMeasured {
    /// Median time of a transfer.
    pub fn median(&self) -> Picoseconds {
        median(&self.times)
    }

    /// Bytes per second of a transfer of median time.
    pub fn bytes_per_second(&self) -> f64 {
        rate(self.size_bytes, self.median())
    }

    /// The server's report on the transfer of median time.
    pub fn report(&self) -> Option<&Report> {
        let median = self.median();
        let index = self.times.iter().position(|time| *time == median)?;
        self.reports.get(index)
    }
}

/// Reads card memory from an address on, in no time; false if it cannot be read.
pub type PeekCard<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// Makes bridged transfers.
///
/// # Errors
/// An invalid request, and a failure of the run.
pub async fn bridged<R: Rdma, C: Clock>(
    client: &Client<R, C>,
    options: &BridgedOptions,
) -> Result<BridgedMeasured> {
    bridged_checked_by(client, options, None).await
}

/// Does the same; data that are in the card are read by `peek` to be compared, or by a transfer
/// back.
///
/// # Errors
/// As [`bridged`], and card memory that cannot be read.
pub async fn bridged_checked_by<R: Rdma, C: Clock>(
    client: &Client<R, C>,
    options: &BridgedOptions,
    peek: Option<PeekCard<'_>>,
) -> Result<BridgedMeasured> {
    let size = options.size_bytes;
    let refused = |problem: &str| Err(ExperimentError::refused(options.path, problem));
    if size == 0 || !size.is_multiple_of(WORD_BYTES) {
        return refused("a transfer has to be a multiple of 4 B, and not of 0 B");
    }
    if matches!(options.path, Path::ToPeer | Path::WithinNode) {
        return refused("it has no end at the client");
    }
    let mut measured = BridgedMeasured {
        size_bytes: size,
        times: Vec::new(),
        registrations: Vec::new(),
        reports: Vec::new(),
        data_errors: DataErrors::default(),
    };
    let run = Run { client, options };
    if options.path == Path::FromFpga {
        let source = run.memory(size).await?;
        fill_memory(source.region.memory(), size, options.seed)?;
        run.client.put(&source, &run.place(), &run.transfer(Mode::Pipelined), |_| {}).await?;
    }
    let kept = match options.mode {
        Mode::Pipelined => Some(run.ends().await?),
        Mode::Naive => None,
    };
    for _ in 0..options.iterations.max(1) {
        let begun = client.clock().now();
        let ends = match &kept {
            Some(ends) => ends.clone(),
            None => run.ends().await?,
        };
        let registration = client.clock().now().since(begun);
        if let Some(source) = &ends.0 {
            fill_memory(source.region.memory(), size, options.seed)?;
        }
        if let Some(destination) = &ends.1 {
            // Data that are found there have come there.
            fill_memory(destination.region.memory(), size, !options.seed)?;
        }
        let outcome = run.go(&ends).await?;
        measured.registrations.push(registration);
        measured.times.push(registration + outcome.elapsed);
        measured.reports.push(outcome.report);
        if let Some(destination) = &ends.1 {
            let memory = destination.region.memory();
            compare_memory(memory, 0, size, options.seed, &mut measured.data_errors)?;
        }
    }
    if options.path == Path::ToFpga {
        let errors = &mut measured.data_errors;
        if let Some(peek) = peek {
            let read = |at, piece: &mut [u8]| match peek(options.address + at, piece) {
                true => Ok(()),
                false => Err(ExperimentError::refused(&options.card, "its memory is hidden")),
            };
            compare_with(size, options.seed, 0, read, errors)?;
        } else {
            let back = run.memory(size).await?;
            run.client.get(&run.place(), &back, &run.transfer(Mode::Pipelined), |_| {}).await?;
            compare_memory(back.region.memory(), 0, size, options.seed, errors)?;
        }
    }
    Ok(measured)
}

/// Memory that a transfer comes from and goes to, at the client.
type Ends<G> = (Option<MemoryPart<G>>, Option<MemoryPart<G>>);

struct Run<'a, R: Rdma, C> {
    client: &'a Client<R, C>,
    options: &'a BridgedOptions,
}

impl<R: Rdma, C: Clock> Run<'_, R, C> {
    async fn memory(&self, bytes: u64) -> Result<MemoryPart<R::Region>> {
        // A naive transfer's memory is what any program gets.
        let pages = match self.options.mode {
            Mode::Pipelined => PageSize::Huge,
            Mode::Naive => PageSize::Small,
        };
        let memory = self.client.rdma().allocate(bytes, pages)?;
        let region = self.client.register(&memory, RemoteAccess::READ_WRITE).await?;
        Ok(MemoryPart { region, range: 0..bytes })
    }

    async fn ends(&self) -> Result<Ends<R::Region>> {
        let size = self.options.size_bytes;
        let path = self.options.path;
        let source = match path {
            Path::ToFpga | Path::RoundTrip => Some(self.memory(size).await?),
            Path::FromFpga | Path::ToPeer | Path::WithinNode => None,
        };
        let destination = match path {
            Path::FromFpga | Path::RoundTrip => Some(self.memory(size).await?),
            Path::ToFpga | Path::ToPeer | Path::WithinNode => None,
        };
        Ok((source, destination))
    }

    fn place(&self) -> CardPlace {
        CardPlace { card: self.options.card.clone(), address: self.options.address }
    }

    fn transfer(&self, mode: Mode) -> TransferOptions {
        TransferOptions::default().with_mode(mode).with_time(self.options.timeout)
    }

    async fn go(&self, ends: &Ends<R::Region>) -> Result<crosslane_bridge::Outcome> {
        let transfer = self.transfer(self.options.mode);
        let place = self.place();
        let outcome = match ends {
            (Some(source), Some(destination)) => {
                let card = &self.options.card;
                self.client.round_trip(card, source, destination, &transfer, |_| {}).await?
            }
            (Some(source), None) => self.client.put(source, &place, &transfer, |_| {}).await?,
            (None, Some(destination)) => {
                self.client.get(&place, destination, &transfer, |_| {}).await?
            }
            (None, None) => {
                let problem = "it has no end at the client".to_owned();
                return Err(ExperimentError::refused(place.card, problem));
            }
        };
        Ok(outcome)
    }
}

/// Transfers to measure: every combination.
#[derive(Clone, Debug)]
pub struct BridgePlan {
    /// Paths of the data.
    pub paths: Vec<Path>,
    /// Pipelined, naive or both.
    pub modes: Vec<Mode>,
    /// Bytes of a transfer, shared by the clients.
    pub sizes: Vec<u64>,
    /// Transfers of each kind.
    pub iterations: u64,
    /// Seed of the data.
    pub seed: u32,
    /// Longest time of each transfer.
    pub timeout: Picoseconds,
}

impl BridgePlan {
    /// Returns a plan for each kind of transfers, in the order in which they are made.
    pub fn kinds(&self) -> Vec<Self> {
        let with = |path, size, mode| Self {
            paths: vec![path],
            sizes: vec![size],
            modes: vec![mode],
            ..self.clone()
        };
        let sizes = |path| self.sizes.iter().map(move |size| (path, *size));
        let transfers = self.paths.iter().flat_map(|path| sizes(*path));
        let kinds = transfers
            .flat_map(|(path, size)| self.modes.iter().map(move |mode| with(path, size, *mode)));
        kinds.collect()
    }

    /// Makes the transfers, all clients at once; each has its share of the card's memory from
    /// `address` on. Each kind is in `transfers` when it has been made: those before a failure, or
    /// before `progress` was over, stay there.
    ///
    /// # Errors
    /// Impossible transfers, and failures of the run.
    pub async fn measure<R: Rdma, C: Clock>(
        &self,
        clients: &[Client<R, C>],
        (card, address): (&str, u64),
        progress: &dyn Progress,
        transfers: &mut Vec<BridgeTransfer>,
    ) -> Result<()> {
        for kind in self.kinds() {
            if progress.is_over() {
                break;
            }
            let (path, size_bytes, mode) = (kind.paths[0], kind.sizes[0], kind.modes[0]);
            let size = size_bytes / clients.len() as u64;
            let options = |index: u64| {
                BridgedOptions::new(path, mode, card, size)
                    .with_address(address + index * size)
                    .with_iterations(self.iterations)
                    .with_seed(self.seed.wrapping_add(index as u32))
                    .with_timeout(self.timeout)
            };
            let runs = clients
                .iter()
                .zip(0..)
                .map(async |(client, index)| bridged(client, &options(index)).await);
            let measured = try_join_all(runs).await?;
            let transfer = transfer_of(path, mode, size_bytes, &measured);
            let times = measured[0].times.iter();
            progress.done(&transfer.path, Picoseconds(times.map(|time| time.0).sum()));
            transfers.push(transfer);
        }
        Ok(())
    }
}

/// Returns transfers of one kind by several clients: the times and the report are those of the
/// first client.
fn transfer_of(
    path: Path,
    mode: Mode,
    size_bytes: u64,
    measured: &[BridgedMeasured],
) -> BridgeTransfer {
    // Clients begin together and have the same to do: all is done when the slowest is.
    let slowest = measured.iter().map(BridgedMeasured::median).max().unwrap_or_default();
    let report = measured[0].report().expect("each transfer has a report");
    BridgeTransfer {
        path: path.to_string(),
        mode: mode.to_string(),
        bytes: size_bytes,
        clients: measured.len(),
        seconds: measured[0].times.iter().map(|time| time.as_seconds()).collect(),
        bytes_per_second: rate(size_bytes, slowest),
        wrong_words: measured.iter().map(|one| one.data_errors.words).sum(),
        report: Some(bridge_report(report)),
        why_not_faster: report.why_not_faster(),
        explanation: None,
        not_explained: None,
    }
}

/// Returns a server's report as plain data.
pub fn bridge_report(report: &Report) -> BridgeReport {
    let stages = report.stages.iter().map(|stage| BridgeStage {
        stage: format!("{:?}", stage.stage),
        words: stage.stage.to_string(),
        bytes: stage.bytes,
        operations: stage.operations,
        retries: stage.retries,
        busy_ps: stage.busy_ps,
        waiting_for_slot_ps: stage.waiting_for_slot_ps,
    });
    let steps = report.steps.iter();
    BridgeReport {
        path: format!("{:?}", report.path),
        mode: format!("{:?}", report.mode),
        bytes: report.bytes,
        elapsed_ps: report.elapsed_ps,
        start_ps: report.start_ps,
        slot_bytes: report.slot_bytes,
        chunks: report.chunks,
        is_zero_copy: report.is_zero_copy,
        stages: stages.collect(),
        steps: steps
            .map(|it| BridgeStep { what: it.what.to_string(), time_ps: it.time_ps })
            .collect(),
        processor_ps: report.processor_ps,
        checksum: report.checksum,
        card_bytes: report.card_bytes,
        fair_share_bytes: report.fair_share_bytes,
        route: report.route.clone(),
    }
}

/// Returns the gain of overlap, naive over pipelined, and its bound, for each pair of the same
/// transfer.
pub fn overlaps(transfers: &[BridgeTransfer]) -> Vec<Overlap> {
    let of = |mode: Mode| {
        let mode = mode.to_string();
        transfers.iter().filter(move |one| one.mode == mode)
    };
    let pairs = of(Mode::Naive).filter_map(|naive| {
        let mut pipelined = of(Mode::Pipelined);
        let pipelined =
            pipelined.find(|one| (&one.path, one.bytes) == (&naive.path, naive.bytes))?;
        let (naive_report, report) = (naive.report.as_ref()?, pipelined.report.as_ref()?);
        // Of the naive transfer each stage was alone while it worked.
        let alone: Vec<u64> = naive_report.stages.iter().map(|stage| stage.busy_ps).collect();
        let slowest = alone.iter().max().copied().filter(|slowest| *slowest > 0)?;
        let ratio = naive_report.elapsed_ps as f64 / report.elapsed_ps.max(1) as f64;
        let bound = alone.iter().sum::<u64>() as f64 / slowest as f64;
        Some(Overlap {
            path: naive.path.clone(),
            bytes: naive.bytes,
            naive_over_pipelined: ratio,
            bound,
            share: ratio / bound,
        })
    });
    pairs.collect()
}
