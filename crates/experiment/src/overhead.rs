// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of single accesses and transfers, by the bus's clock and by another one: in a lab that
//! is simulated time beside the machine's, elsewhere both are the machine's.

use crosslane_driver::{
    ChannelKind, ChannelOptions, CompletionLevel, Device, Notification, StreamSource, Target,
    Transfer,
};
use crosslane_host::{AnyBus, Bus, Clock, PageSize, setters};
use crosslane_pcie::units::Picoseconds;
use crosslane_results::OverheadRow;
use smart_default::SmartDefault;

use crate::error::{ExperimentError, Result};
use crate::measured::DataErrors;
use crate::pattern::{WORD_BYTES, compare, fill};

/// Register reads of one reading of a card's time.
const READS_OF_TIME: u64 = 2;

/// Sizes and numbers of the accesses and transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, SmartDefault)]
#[non_exhaustive]
pub struct OverheadOptions {
    /// Register accesses, and small transfers.
    #[default(200)]
    pub rounds: u64,
    /// Bytes of a small transfer, a multiple of 4.
    #[default(64)]
    pub small_bytes: u64,
    /// Large transfers.
    #[default(8)]
    pub large_rounds: u64,
    /// Bytes of a large one, a multiple of 4.
    #[default(4 << 20)]
    pub large_bytes: u64,
    /// Seed of the data.
    #[default(1)]
    pub seed: u32,
    /// A transfer that takes longer than this has failed.
    #[default(Picoseconds::from_ms(10_000))]
    pub timeout: Picoseconds,
}

setters!(OverheadOptions {
    with_rounds(rounds: u64),
    with_small_bytes(small_bytes: u64),
    with_large_rounds(large_rounds: u64),
    with_large_bytes(large_bytes: u64),
    with_seed(seed: u32),
    with_timeout(timeout: impl Into<Picoseconds>),
});

/// Both clocks at one moment.
struct Stopwatch<'a, C: Clock> {
    bus: &'a AnyBus,
    clock: &'a C,
    begun: (Picoseconds, Picoseconds),
}

impl<'a, C: Clock> Stopwatch<'a, C> {
    fn start(bus: &'a AnyBus, clock: &'a C) -> Self {
        Self { bus, clock, begun: (Bus::now(bus), clock.now()) }
    }

    fn row(&self, what: &str, rounds: u64, bytes: Option<u64>) -> OverheadRow {
        let each = |now: Picoseconds, begun| now.since(begun).0 / rounds.max(1);
        OverheadRow {
            what: what.to_owned(),
            rounds,
            bytes,
            bus_ps: each(Bus::now(self.bus), self.begun.0),
            machine_ps: each(self.clock.now(), self.begun.1),
        }
    }
}

/// Measures register accesses, the time from a doorbell to its interrupt, and small and large
/// transfers one at a time. The data of one transfer of each kind are compared.
///
/// # Errors
/// A failure of the run, and [`ExperimentError::Refused`] where data are not what was sent.
pub async fn overhead<C: Clock>(
    device: &Device,
    clock: &C,
    options: &OverheadOptions,
) -> Result<Vec<OverheadRow>> {
    let (bus, rounds) = (device.bus(), options.rounds);
    let mut rows = Vec::new();
    let watch = Stopwatch::start(bus, clock);
    for _ in 0..rounds {
        device.time_clocks().await?;
    }
    rows.push(watch.row("register read", rounds * READS_OF_TIME, None));
    let watch = Stopwatch::start(bus, clock);
    for _ in 0..rounds {
        device.user().seed(options.seed).await?;
    }
    // Posted data have arrived when a read behind them is answered.
    device.time_clocks().await?;
    rows.push(watch.row("register write", rounds, None));
    let (small, large) =
        ((rounds, options.small_bytes), (options.large_rounds, options.large_bytes));
    let (poll, interrupt) = (Notification::Poll, Notification::InterruptOnly);
    let (write, read) = (ChannelKind::C2h, ChannelKind::H2c);
    for (what, kind, notification, (rounds, bytes)) in [
        ("small write, doorbell to interrupt", write, interrupt, small),
        ("small write, polled", write, poll, small),
        ("small read, polled", read, poll, small),
        ("large write, polled", write, poll, large),
        ("large read, polled", read, poll, large),
    ] {
        let run = Transfers { device, kind, notification, rounds, bytes, options };
        rows.push(run.made(what, clock).await?);
    }
    Ok(rows)
}

/// Transfers of one kind, one at a time.
struct Transfers<'a> {
    device: &'a Device,
    kind: ChannelKind,
    notification: Notification,
    rounds: u64,
    bytes: u64,
    options: &'a OverheadOptions,
}

impl Transfers<'_> {
    async fn made<C: Clock>(&self, what: &'static str, clock: &C) -> Result<OverheadRow> {
        let (device, seed, bytes) = (self.device, self.options.seed, self.bytes);
        let buffer = device.buffer(bytes, PageSize::Huge).await?;
        let options = ChannelOptions::default().with_notification(self.notification);
        let mut channel = device.channel(self.kind, 0, options).await?;
        let user = device.user();
        user.route(StreamSource::Generator, StreamSource::Generator).await?;
        let transfer = || Transfer {
            target: Target::Buffer(buffer.clone(), 0..bytes),
            level: CompletionLevel::Visible,
            deadline: Picoseconds(Bus::now(device.bus()).0.saturating_add(self.options.timeout.0)),
        };
        match self.kind {
            ChannelKind::H2c => fill(&buffer, 0, bytes, seed, 0)?,
            _ => user.seed(seed).await?,
        }
        let watch = Stopwatch::start(device.bus(), clock);
        for _ in 0..self.rounds {
            channel.transfer(transfer()).await?;
        }
        let row = watch.row(what, self.rounds, Some(bytes));
        if self.kind == ChannelKind::H2c {
            // Each was the same stretch of the pattern. One more is compared, behind the rest of
            // the last, which may still wait in the engine.
            channel.restart().await?;
            user.check_h2c(seed).await?;
            channel.transfer(transfer()).await?;
        }
        channel.close().await?;
        let mut errors = DataErrors::default();
        if self.kind == ChannelKind::H2c {
            let check = user.h2c_check_result().await?;
            errors.words = check.errors.into();
        } else {
            let first = (self.rounds - 1) * (bytes / WORD_BYTES);
            compare(&buffer, 0, bytes, seed, first, &mut errors)?;
        }
        if errors.words > 0 {
            let place = device.function().name.clone();
            let problem = format!("{what}: {} words of 4 B are not what was sent", errors.words);
            return Err(ExperimentError::refused(place, problem));
        }
        Ok(row)
    }
}
