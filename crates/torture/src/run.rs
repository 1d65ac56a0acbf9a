// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one seed, from its lab to the last look.

use std::rc::Rc;

use crosslane_cosim::Card;
use crosslane_device::Engine;
use crosslane_driver::{Device, DriverError};
use crosslane_fabric::{ErrorKind, ErrorRecord};
use crosslane_host::{Bus, PageSize};
use crosslane_lab::{Simulation, Task};
use crosslane_pcie::units::{HostId, Picoseconds};
use serde::{Deserialize, Serialize};

use crate::aimed::{AIMED_SEED, AIMED_SEEDS, aimed};
use crate::calm::calm;
use crate::campaign::{Count, SeedOutcome};
use crate::check::{Check, Violation, caught, check, ended};
use crate::fault::FaultCounts;
use crate::line::{Line, is_nowhere};
use crate::packets::has_packets;
use crate::scene::{Scene, Stream, World, stream};
use crate::setup::Setup;
use crate::trouble::trouble;
use crate::visitor::visit;
use crate::watched::Shared;
use crate::workload::{AtWork, set_up};

/// Results of a seed. Equal for equal runs, bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    /// Hash over every TLP on every link and its time.
    pub hash: u64,
    /// TLPs on links.
    pub tlps: u64,
    /// Requests translated by an IOMMU.
    pub translated: u64,
    /// Page-table walks for them.
    pub walks: u64,
    /// TLPs poisoned, lost or doubled by faults.
    pub spoilt: u64,
    /// Words compared.
    pub words: u64,
    /// Transfers posted.
    pub transfers: u64,
    /// Times that a channel was opened, closed, cancelled or restarted.
    pub restarts: u64,
    /// Faults made.
    pub faults: FaultCounts,
    /// Simulated time at its end.
    #[serde(with = "WholePicoseconds")]
    pub end: Picoseconds,
}

/// Simulated time as the number of its picoseconds.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Picoseconds")]
struct WholePicoseconds(u64);

impl SeedOutcome for Story {
    fn add(&mut self, other: &Self) {
        self.tlps += other.tlps;
        self.translated += other.translated;
        self.walks += other.walks;
        self.spoilt += other.spoilt;
        self.words += other.words;
        self.transfers += other.transfers;
        self.restarts += other.restarts;
        self.faults.add(&other.faults);
        // In whole microseconds, as it is counted.
        self.end.0 += other.end.0 / 1_000_000 * 1_000_000;
    }

    fn simulated(&self) -> Picoseconds {
        self.end
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            Count::new("tlps", "TLPs on wires", self.tlps),
            Count::new("translated", "requests that an IOMMU translated", self.translated),
            Count::new("walks", "walks of its table", self.walks),
            Count::new("spoilt", "TLPs poisoned, lost or doubled", self.spoilt),
            Count::new("words", "words looked at", self.words),
            Count::new("transfers", "transfers posted", self.transfers),
            Count::new("restarts", "channels opened, cancelled, restarted, closed", self.restarts),
            Count {
                shown: self.end.0 / 1_000_000_000,
                ..Count::new("simulated_us", "simulated time, ms", self.end.0 / 1_000_000)
            },
        ]
    }
}

/// Runs a seed.
///
/// # Errors
/// The finding of the first checker that fails.
pub fn run_seed(seed: u64, setup: &Setup) -> Result<Story, Violation> {
    caught(|| run(seed, setup))
}

fn run(seed: u64, setup: &Setup) -> Story {
    let mut rng = stream(seed, Stream::Work);
    let Scene { run, world, witness, ports } = Scene::new(seed, setup);
    let simulation = run.simulation();
    let world = Rc::new(world);
    let mut names: Vec<String> = world.engines.iter().map(|engine| engine.name.clone()).collect();
    rng.shuffle(&mut names);
    let count = if rng.u8(..3) == 0 { names.len().min(6) } else { names.len().min(2) };
    names.truncate(rng.usize(1..=count));
    let body = async {
        let packets = has_packets(seed).then(|| stream(seed, Stream::Packets));
        let memory = stream(seed, Stream::CardMemory).fork();
        let AtWork { devices, mut chains, pingers, packeteers, vaults } =
            set_up(&world, &names, &mut rng, packets, memory).await?;
        // Most seeds are short, so that many can be run; some are long.
        let rounds = if rng.u8(..8) == 0 { rng.u32(6..16) } else { rng.u32(1..5) };
        let mut tasks: Vec<(usize, Task<Line>)> = Vec::new();
        for (number, chain) in chains.iter_mut().enumerate() {
            for mut line in chain.lines.drain(..) {
                let task = simulation.spawn(&line.name(), async move {
                    line_of_work(&mut line, rounds).await;
                    line
                });
                tasks.push((number, task));
            }
        }
        let mut games = Vec::new();
        for mut pingers in pingers {
            games.push(simulation.spawn("ping-pong", async move {
                pingers.play(rounds).await;
                pingers
            }));
        }
        let mut exchanges = Vec::new();
        for mut packeteer in packeteers {
            exchanges.push(simulation.spawn("packets", async move {
                packeteer.play(rounds).await;
                packeteer
            }));
        }
        let mut moves = Vec::new();
        for mut vault in vaults {
            moves.push(simulation.spawn("card memory", async move {
                vault.play(rounds).await;
                vault
            }));
        }
        let mut visits = Vec::new();
        for _ in 0..[0, 0, 1, 3][rng.usize(..4)] {
            let visit = visit(Rc::clone(&world), devices.clone(), rng.fork());
            visits.push(simulation.spawn("a visitor", visit));
        }
        let aimed = (seed % AIMED_SEEDS == AIMED_SEED).then(|| {
            let (world, ports) = (Rc::clone(&world), ports.clone());
            let rng = stream(seed, Stream::Aimed);
            simulation.spawn("aimed faults", async move { aimed(&world, &ports, rng).await })
        });
        trouble(&world, &ports, &mut rng).await;
        for (number, task) in tasks {
            chains[number].lines.push(task.await);
        }
        world.rest();
        if let Some(aimed) = aimed {
            aimed.await;
        }
        for chain in &mut chains {
            calm(&world, chain).await;
        }
        let mut sums = (0, 0, 0);
        for game in games {
            let pingers = game.await;
            sums = (sums.0 + pingers.words, sums.1 + pingers.attempts, sums.2);
        }
        for exchange in exchanges {
            let packeteer = exchange.await;
            sums = (sums.0 + packeteer.words, sums.1 + packeteer.attempts, sums.2);
        }
        for task in moves {
            let vault = task.await;
            sums = (sums.0 + vault.words, sums.1 + vault.attempts, sums.2);
        }
        for visit in visits {
            visit.await;
        }
        for line in chains.iter().flat_map(|chain| &chain.lines) {
            sums = (sums.0 + line.words, sums.1 + line.upsets, sums.2 + line.transfers);
        }
        drop(chains);
        give_back(&world, &devices).await?;
        Ok::<_, DriverError>(sums)
    };
    let ((words, restarts, transfers), errors) = ended(run.run_to_errors("seed", body));
    let end = simulation.now();
    last_look(simulation, &world, &witness, errors);
    let witness = witness.lock().expect("nobody panics with it");
    check!(Check::Pins, witness.strays.is_empty(), "{}", witness.strays.join("; "));
    let (hash, tlps, faults) = (witness.hash, witness.tlps, world.counts());
    let iommu = simulation.with_fabric(|fabric| fabric.iommu_counters(HostId(0)));
    let iommu = iommu.unwrap_or_default();
    let (translated, walks) = (iommu.requests(), iommu.misses);
    let spoilt = simulation.with_fabric(|fabric| fabric.injected_count());
    Story { hash, tlps, translated, walks, spoilt, words, transfers, restarts, faults, end }
}

/// Runs a channel's rounds. The channel ends up running and idle.
async fn line_of_work(line: &mut Line, rounds: u32) {
    for _ in 0..rounds {
        if line.is_over() {
            break;
        }
        line.round().await;
    }
    if !line.is_over() && line.channel.is_none() {
        line.open().await;
    }
    line.settle().await;
    if line.is_over() {
        line.farewell().await;
    }
}

/// Has the devices release dropped objects, and waits until no tag is out of use.
async fn give_back(world: &World, devices: &[Device]) -> Result<(), DriverError> {
    let is_there = |name: &str| !world.is_gone(world.engine(name));
    for device in devices.iter().filter(|device| is_there(&device.function().name)) {
        // Pending releases happen when the next buffer is allocated.
        let buffer = device.buffer(4, PageSize::Small).await?;
        buffer.unregister().await?;
    }
    // A tag that has timed out stays out of use for one more time-out.
    let timeout = world.engines.iter().map(|engine| engine.timeout).max();
    let timeout = timeout.unwrap_or(Picoseconds::ZERO);
    world.bus.sleep_until(world.bus.now() + timeout + timeout + timeout).await;
    Ok(())
}

/// Checks the lab at the end, and the errors that its ports detected.
fn last_look(simulation: &Simulation, world: &World, witness: &Shared, errors: Vec<ErrorRecord>) {
    let memory = simulation.memory_in_use(HostId(0));
    let is_gone = |function| {
        let name = |engine: &&crate::scene::EngineOfLab| world.function(&engine.name) == function;
        let engine = world.engines.iter().find(name);
        engine.is_some_and(|engine| world.is_gone(world.engine(&engine.name)))
    };
    let pinned: Vec<_> = memory.pinned_for.iter().filter(|id| !is_gone(**id)).collect();
    check!(Check::Buffers, pinned.is_empty(), "memory stays pinned for {pinned:?}");
    // Memory that a removed device might still write is kept, pinned.
    let may_be_out = !memory.pinned_for.is_empty();
    check!(Check::Buffers, memory.bytes == 0 || may_be_out, "{} B are out", memory.bytes);
    for engine in &world.engines {
        if world.is_gone(world.engine(&engine.name)) {
            // A stopped channel keeps its reads until it is restarted.
            continue;
        }
        let node = simulation.find(&engine.name).expect("it is a node of the lab");
        let now = simulation.now();
        let tags = simulation.with_fabric(|fabric| match fabric.device_as::<Engine>(node) {
            Some(engine) => Some(engine.tags_in_use()),
            // Of the gateware only its pins are visible.
            None => fabric.device_as::<Card>(node).map(|card| card.reads_waiting(now)),
        });
        check!(Check::Tags, tags == Some(0), "{}: {tags:?} tags are in use", engine.name);
    }
    let left = simulation.with_fabric(|fabric| fabric.check_quiet());
    check!(Check::Credits, left.is_empty(), "{}", left.join("; "));
    let witness = witness.lock().expect("nobody panics with it");
    for error in errors {
        match error.kind {
            // See `Line::may_have_overtaken`.
            ErrorKind::Ordering { .. } if world.were_astray(error.time) => {}
            ErrorKind::Ordering { .. } => Check::Ordering.fail(error.to_string()),
            ErrorKind::WrongData { .. } => Check::Data.fail(error.to_string()),
            ErrorKind::PayloadTooLarge { .. } => Check::RightError.fail(error.to_string()),
            // No other fault sends a device to an unmapped address.
            ErrorKind::IommuFault { requester, address, .. }
                if !is_nowhere(address)
                    && !world.was_astray(address, error.time)
                    && !witness.has_given_up(requester, address) =>
            {
                Check::Pins.fail(error.to_string());
            }
            _ => {}
        }
    }
}
