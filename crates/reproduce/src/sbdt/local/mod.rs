// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA within the node that has the FPGA (section 2.1 of the paper): through rings of host buffers,
//! by sizes of transfers and of buffers (figure 4), on three paths (figure 5), and within the card;
//! and the same with this project's own engine.
//!
//! The paper's transfers have up to 1 GiB, those here up to 192 MiB. From the third turn of the
//! ring on, every turn takes as long as the one before it. The time of 1 GiB is therefore that of
//! 192 MiB plus 13 times the difference between 192 MiB and 128 MiB.

pub(super) mod figures;

use crosslane_bridge::local::{HostSink, HostSource, Job, LocalDma, LocalOptions, Moved};
use crosslane_driver::{Buffer, Device};
use crosslane_experiment::parallel;
use crosslane_experiment::{DataErrors, ExperimentError, pattern};
use crosslane_host::{PageSize, Reason};
use crosslane_lab::{Lab, Simulation};
use crosslane_pcie::units::Picoseconds;

use super::{CARD, Curve, HOST, host};
use crate::comparison::Row;
use crate::context::Context;
use crate::error::Result;
use crate::experiment::{Experiment, size_words};
use crate::study::Effort;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The size of the paper's figures, and of its buffers.
const WHOLE_BYTES: u64 = 1 << 30;
const WHOLE_BUFFER_BYTES: u64 = 8 * MIB;
/// Sizes of buffers of figure 4; its other sizes follow from them.
const BUFFERS: [u64; 5] = [16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, MIB];
/// Sizes of transfers.
const SIZES: [u64; 9] =
    [KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 32 * MIB];
/// The two sizes from which 1 GiB is extrapolated.
const LONG_SIZES: [u64; 2] = [128 * MIB, 192 * MIB];
/// The same for sweeps over the lab's constants: two turns of the ring, and three.
const QUICK_BUFFER_BYTES: u64 = 256 * KIB;
const QUICK_SIZES: [u64; 2] = [4 * MIB, 6 * MIB];
/// Sizes with this project's own engine, and its buffers.
const OWN_SIZES: [u64; 2] = [16 * MIB, 32 * MIB];
const OWN_BUFFER_BYTES: u64 = MIB;
/// Start of the card's second channel of memory.
const OTHER_CHANNEL: u64 = 4 << 30;

/// A path of figure 5, or within the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToCard,
    FromCard,
    Through,
    /// Between the card's two channels of memory.
    Within,
    /// Within one of these channels.
    WithinOne,
}

impl Way {
    /// The paths of figure 5.
    const DRAWN: [Self; 3] = [Self::ToCard, Self::FromCard, Self::Through];

    /// Returns the paper's name in the file of figures, and the conditions.
    const fn figure(self) -> (&'static str, &'static str) {
        const ALL: &str = "1 GB; 8 MB buffers";
        match self {
            Self::ToCard => ("dma_cpu_to_fpga", ALL),
            Self::FromCard => ("dma_fpga_to_cpu", ALL),
            Self::Through => ("dma_cpu_fpga_cpu", ALL),
            Self::Within | Self::WithinOne => ("dma_fpga_to_fpga_memory", "1 GB"),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::ToCard => "host to FPGA memory",
            Self::FromCard => "FPGA memory to host",
            Self::Through => "host through FPGA to host",
            Self::Within => "FPGA memory to FPGA memory",
            Self::WithinOne => "FPGA memory to FPGA memory, one channel",
        }
    }
}

/// Transfers of one run.
#[derive(Clone, Copy)]
struct Scenario<'a> {
    options: LocalOptions,
    ways: &'a [Way],
    sizes: &'a [u64],
    /// Whether the caller's memory is registered.
    is_registered: bool,
}

/// A measured point.
#[derive(Clone, Copy)]
struct Point {
    way: Way,
    bytes: u64,
    elapsed: Picoseconds,
}

/// Returns bytes per second.
fn rate(bytes: u64, elapsed: Picoseconds) -> f64 {
    bytes as f64 * 1e12 / elapsed.0.max(1) as f64
}

/// Returns the measured time of a path and a size, which the scenario contains.
fn elapsed(points: &[Point], way: Way, bytes: u64) -> Picoseconds {
    let is_it = |point: &&Point| point.way == way && point.bytes == bytes;
    points.iter().find(is_it).expect("the scenario has this point").elapsed
}

/// Extrapolates to `bytes`, in megabytes per second, from the times of two sizes: each further
/// difference between the two sizes takes as long as this one.
fn extrapolated(points: &[Point], way: Way, [less, more]: [u64; 2], bytes: u64) -> f64 {
    let [less_ps, more_ps] = [less, more].map(|size| elapsed(points, way, size).0 as f64);
    let further = (bytes - more) as f64 / (more - less) as f64;
    bytes as f64 * 1e6 / (more_ps + further * (more_ps - less_ps))
}

/// Words of 4 B in some bytes.
const fn words(bytes: u64) -> u64 {
    bytes / 4
}

/// Data that have come back to the caller.
#[derive(Debug, Default)]
struct Arrived {
    bytes: u64,
    errors: DataErrors,
}

/// The caller's memory: data that are made and compared as they are copied, or buffers that are
/// registered with the card.
struct Caller {
    seed: u32,
    arrived: Arrived,
    registered: Option<[Buffer; 2]>,
}

/// A run: its DMA, and the memory that data are moved from and to.
struct Run<'a> {
    simulation: &'a Simulation,
    scenario: Scenario<'a>,
    dma: LocalDma,
    caller: Caller,
}

impl<'a> Run<'a> {
    async fn new(
        context: &Context<'_>,
        simulation: &'a Simulation,
        scenario: Scenario<'a>,
    ) -> Result<Self, Reason> {
        let bus = simulation.bus(host(simulation, HOST)?.id);
        let device = &Device::open_by_name(bus, CARD).await?;
        let most = scenario.sizes.iter().copied().max().unwrap_or(0);
        let seed = context.seed as u32;
        let registered = match scenario.is_registered {
            true => {
                let source = device.buffer(most, PageSize::Huge).await?;
                pattern::fill(&source, 0, most, seed, 0)?;
                Some([source, device.buffer(most, PageSize::Huge).await?])
            }
            false => None,
        };
        let caller = Caller { seed, arrived: Arrived::default(), registered };
        Ok(Self { simulation, scenario, dma: LocalDma::new(device, scenario.options)?, caller })
    }

    /// Moves bytes over one path. If an earlier path of the scenario copied data within the card,
    /// the read from the card returns the copy.
    async fn move_bytes(&mut self, way: Way, bytes: u64) -> Result<Moved, Reason> {
        let Caller { seed, arrived, registered } = &mut self.caller;
        let seed = *seed;
        let make = |at, out: &mut [u8]| pattern::fill_slice(out, seed, words(at));
        let (from, to) = match registered {
            Some([source, sink]) => {
                (HostSource::Registered(source, 0..bytes), HostSink::Registered(sink, 0..bytes))
            }
            None => {
                *arrived = Arrived::default();
                let take = Box::new(|at, piece: &[u8]| {
                    arrived.bytes += piece.len() as u64;
                    pattern::compare_slice(piece, seed, words(at), &mut arrived.errors);
                });
                (HostSource::Made(bytes, &make), HostSink::Used(bytes, take))
            }
        };
        let is_copied = self.scenario.ways.contains(&Way::Within);
        let job = match way {
            Way::ToCard => Job::HostToCard { from, to: 0 },
            Way::FromCard => {
                Job::CardToHost { from: if is_copied { OTHER_CHANNEL } else { 0 }, to }
            }
            Way::Through => Job::HostToHost { from, to },
            Way::Within => Job::CardToCard { from: 0, to: OTHER_CHANNEL, bytes },
            Way::WithinOne => Job::CardToCard { from: 0, to: OTHER_CHANNEL / 2, bytes },
        };
        Ok(self.dma.transfer(job, Picoseconds::NEVER).await?)
    }

    /// Checks that the data of the last transfer arrived as they were sent.
    fn check(&mut self, bytes: u64) -> Result<(), Reason> {
        let Caller { seed, arrived, registered } = &mut self.caller;
        if let Some([_, sink]) = registered {
            *arrived = Arrived { bytes, errors: DataErrors::default() };
            pattern::compare(sink, 0, bytes, *seed, 0, &mut arrived.errors)?;
            // Data that are found there later have come there.
            pattern::fill(sink, 0, bytes, !*seed, 0)?;
        }
        match (arrived.bytes == bytes, arrived.errors.words) {
            (true, 0) => Ok(()),
            _ => Err(format!("data of {bytes} B are wrong").into()),
        }
    }

    /// Checks the data in the card's memory.
    fn check_card(&self, bytes: u64) -> Result<(), Reason> {
        let read = |at, piece: &mut [u8]| match self.simulation.peek_card(CARD, at, piece) {
            true => Ok(()),
            false => Err(ExperimentError::Refused {
                place: CARD.to_owned(),
                problem: "its memory cannot be read".to_owned(),
            }),
        };
        let mut errors = DataErrors::default();
        pattern::compare_with(bytes, self.caller.seed, 0, read, &mut errors)?;
        match errors.words {
            0 => Ok(()),
            words => Err(format!("{words} words of {bytes} B in the card are wrong").into()),
        }
    }

    async fn go(mut self) -> Result<Vec<Point>, Reason> {
        // Opening and pinning, which happen once, are not timed.
        for way in self.scenario.ways {
            self.move_bytes(*way, KIB).await?;
        }
        let last = self.scenario.sizes.last().copied().unwrap_or(0);
        let mut points = Vec::new();
        for bytes in self.scenario.sizes.iter().copied() {
            for way in self.scenario.ways.iter().copied() {
                // The channels have changed their direction.
                if self.scenario.ways.len() > 1 {
                    self.move_bytes(way, KIB).await?;
                }
                let elapsed = self.move_bytes(way, bytes).await?.elapsed;
                points.push(Point { way, bytes, elapsed });
                if matches!(way, Way::FromCard | Way::Through) {
                    self.check(bytes)?;
                }
            }
            // A scenario without reads is checked once, by looking at the card's data.
            if bytes == last && self.scenario.ways == [Way::ToCard] {
                self.check_card(bytes)?;
            }
        }
        self.dma.close().await?;
        for buffer in self.caller.registered.into_iter().flatten() {
            buffer.unregister().await?;
        }
        Ok(points)
    }
}

/// Runs a scenario in a lab.
fn run(context: &Context<'_>, lab: &Lab, name: &str, scenario: Scenario<'_>) -> Result<Vec<Point>> {
    context.run(name, lab, async |simulation| {
        Run::new(context, simulation, scenario).await?.go().await
    })
}

/// Returns the paper's call with buffers of a size.
const fn of_paper<'a>(buffer_bytes: u64, ways: &'a [Way], sizes: &'a [u64]) -> Scenario<'a> {
    let options = LocalOptions::of_paper(buffer_bytes);
    Scenario { options, ways, sizes, is_registered: false }
}

/// The paths with the longest buffers, divided into scenarios that run in parallel.
const LONG_WAYS: [&[Way]; 3] =
    [&[Way::ToCard, Way::Within, Way::FromCard], &[Way::Through], &[Way::WithinOne]];

/// Returns the points of the longest buffers, or of their substitute in a sweep.
fn long(context: &Context<'_>, buffer_bytes: u64, sizes: &[u64]) -> Result<Vec<Point>> {
    let lab = context.lab();
    let buffers = size_words(buffer_bytes);
    let measured: Result<Vec<Vec<Point>>> = parallel::try_map(&LONG_WAYS[..2], |ways| {
        let name = format!("local, buffers of {buffers}, {}", ways[0].words());
        run(context, lab, &name, of_paper(buffer_bytes, ways, sizes))
    });
    Ok(measured?.into_iter().flatten().collect())
}

/// Returns the compared rows.
fn rows_of(context: &Context<'_>, points: &[Point], sizes: [u64; 2]) -> Vec<Row> {
    let ways = Way::DRAWN.into_iter().chain([Way::Within]);
    ways.map(|way| {
        let (quantity, conditions) = way.figure();
        context.figures.compare(quantity, conditions, extrapolated(points, way, sizes, WHOLE_BYTES))
    })
    .collect()
}

pub(super) fn compared(context: &Context<'_>, effort: Effort) -> Result<Vec<Row>> {
    let (buffer_bytes, sizes) = match effort {
        Effort::Full => (WHOLE_BUFFER_BYTES, LONG_SIZES),
        Effort::Quick => (QUICK_BUFFER_BYTES, QUICK_SIZES),
    };
    Ok(rows_of(context, &long(context, buffer_bytes, &sizes)?, sizes))
}

/// Uses of this project's own engine.
const OWN: [Own; 3] = [
    ("the paper's procedure", LocalOptions::of_paper, false),
    ("polled, two cores copy", own, false),
    ("polled, registered memory", own, true),
];

/// Name, options for buffers of a size, and whether memory is registered.
type Own = (&'static str, fn(u64) -> LocalOptions, bool);

fn own(buffer_bytes: u64) -> LocalOptions {
    LocalOptions::default().with_buffer_bytes(buffer_bytes)
}

/// Number of scenarios of this module.
pub(super) const SCENARIOS: u64 = (BUFFERS.len() + LONG_WAYS.len() + OWN.len()) as u64;

/// The runs of all experiments here.
struct Measured {
    /// Runs of each size of buffers.
    buffers: Vec<(u64, Vec<Point>)>,
    /// Runs with the longest buffers, all paths.
    long: Vec<Point>,
    /// Runs with this project's own engine.
    own: Vec<Vec<Point>>,
}

fn measure(context: &Context<'_>) -> Result<Measured> {
    let (lab, own_lab) = (context.lab(), context.variant("crosslane")?);
    let long_sizes: Vec<u64> = SIZES.into_iter().chain(LONG_SIZES).collect();
    let long = [1, 0, 2].map(|number| {
        let ways = LONG_WAYS[number];
        let name = format!("local, buffers of 8 MiB, {}", ways[0].words());
        let sizes = if number == 2 { &LONG_SIZES } else { &long_sizes[..] };
        (lab, name, of_paper(WHOLE_BUFFER_BYTES, ways, sizes))
    });
    let own = OWN.map(|(name, options, is_registered)| {
        let ways = &[Way::ToCard, Way::Within, Way::FromCard, Way::Through];
        let options = options(OWN_BUFFER_BYTES);
        let scenario = Scenario { options, ways, sizes: &OWN_SIZES, is_registered };
        (&own_lab, format!("local, our engine, {name}"), scenario)
    });
    let buffers = BUFFERS.map(|bytes| {
        let name = format!("local, buffers of {}", size_words(bytes));
        (lab, name, of_paper(bytes, &[Way::ToCard], &SIZES))
    });
    // The longest first.
    let jobs: Vec<_> = long.into_iter().chain(own).chain(buffers).collect();
    let done: Result<Vec<Vec<Point>>> =
        parallel::try_map(&jobs, |(lab, name, scenario)| run(context, lab, name, *scenario));
    let mut done = done?.into_iter();
    Ok(Measured {
        long: done.by_ref().take(LONG_WAYS.len()).flatten().collect(),
        own: done.by_ref().take(OWN.len()).collect(),
        buffers: BUFFERS.into_iter().zip(done).collect(),
    })
}

/// Runs all experiments here; also returns the curves of figure 5.
pub(super) fn experiments(context: &Context<'_>) -> Result<(Vec<Experiment>, Vec<Curve>)> {
    let measured = measure(context)?;
    let curves = figures::curves(&measured);
    let experiments = vec![
        figures::by_buffers(&measured),
        figures::ways(context, &measured, &curves),
        figures::within(context, &measured),
        figures::with_own_engine(&measured),
    ];
    Ok((experiments, curves))
}
