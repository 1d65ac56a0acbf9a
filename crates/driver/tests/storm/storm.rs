// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One storm: who talks to whom, what goes wrong meanwhile, and what must be right at the end.

use std::rc::Rc;

use crosslane_driver::{
    ChannelKind, CompletionLevel, Device, LanePolicy, PeerOptions, StreamSource, Target, Transfer,
};
use crosslane_fabric::{ErrorKind, LinkId};
use crosslane_host::{Bus, PageSize, Topology};
use crosslane_lab::{Simulation, Task};
use crosslane_pcie::config::registers as reg;
use crosslane_pcie::units::Picoseconds;
use fastrand::Rng;

use crate::line::{Far, Line};
use crate::scene::{Scene, World, us};
use crate::stream::{self, Word};
use crate::watched::WatchedBus;

/// Bytes of the transfer that every channel has to make after the storm.
const LAST_BYTES: u64 = 4096;

/// What a storm was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weather {
    pub hash: u64,
    pub tlps: u64,
    pub words: u64,
    pub upsets: u64,
    pub links_down: u64,
    pub faults: u64,
    pub end: Picoseconds,
}

/// Lines along which one stream goes, from its source to host memory; one alone is its own.
struct Chain {
    lines: Vec<Line>,
    /// Whether its last line is a C2H channel that others feed.
    is_fed: bool,
    /// Whether data may be dropped on the way by what was asked for.
    drops: bool,
}

pub fn run(seed: u64, is_loud: bool) -> Weather {
    let mut rng = Rng::with_seed(seed);
    let Scene { simulation, world, witness, mut engines, ports, description } =
        Scene::new(seed, &mut rng, is_loud);
    world.note(|| description);
    rng.shuffle(&mut engines);
    let world = Rc::new(world);
    let mut links_down = 0;
    let body = async {
        let (devices, mut chains) = set_up(&world, &engines, &mut rng).await;
        let rounds = rng.u32(2..12);
        let mut tasks: Vec<(usize, Task<Line>)> = Vec::new();
        for (number, chain) in chains.iter_mut().enumerate() {
            for mut line in chain.lines.drain(..) {
                let name = format!("{} {}", line.key.0, line.key.1);
                let task = simulation.spawn(&name, async move {
                    for _ in 0..rounds {
                        line.round().await;
                    }
                    if line.channel.is_none() {
                        line.open().await;
                    }
                    line.settle().await;
                    line
                });
                tasks.push((number, task));
            }
        }
        links_down = trouble(&simulation, &world, &ports, &engines, &mut rng).await;
        for (number, task) in tasks {
            chains[number].lines.push(task.await);
        }
        let mut sums = (0, 0);
        for chain in &mut chains {
            calm(&world, chain).await;
            for line in &mut chain.lines {
                sums = (sums.0 + line.words, sums.1 + line.upsets);
                line.close().await;
            }
            for line in &mut chain.lines {
                if let Some(peer) = line.far.as_mut().and_then(|far| far.peer.take()) {
                    peer.close().await.expect("nothing is in flight");
                }
            }
        }
        // What was given back is out of reach now; a last look at what still moves.
        for device in &devices {
            device.buffer(4, PageSize::Small).await.unwrap();
        }
        sums
    };
    let (words, upsets) = simulation.run("storm", body).unwrap();
    simulation.finish().unwrap();
    let end = simulation.now();
    simulation.with_fabric(|fabric| {
        assert_eq!(fabric.check_quiet(), Vec::<String>::new());
        for error in fabric.errors() {
            assert!(
                !matches!(error.kind, ErrorKind::Ordering { .. } | ErrorKind::WrongData { .. }),
                "{error}"
            );
        }
    });
    let witness = witness.lock().unwrap();
    assert_eq!(witness.strays, Vec::<String>::new());
    let (hash, tlps, faults) = (witness.hash, witness.tlps, world.faults.get());
    Weather { hash, tlps, words, upsets, links_down, faults, end }
}

/// Opens engines, and gives each something to do.
async fn set_up(
    world: &Rc<World>,
    engines: &[String],
    rng: &mut Rng,
) -> (Vec<Device<WatchedBus>>, Vec<Chain>) {
    let count = rng.usize(1..=engines.len().min(4));
    let mut devices = Vec::new();
    for name in &engines[..count] {
        let bus = world.bus.on_core(rng.u16(..));
        devices.push(Device::open_by_name(bus, name).await.unwrap());
    }
    let mut chains = Vec::new();
    let mut free = devices.as_slice();
    while let Some((device, others)) = free.split_first() {
        free = others;
        match (rng.u8(..3), others.split_first()) {
            (0, Some((receiver, others))) => {
                free = others;
                chains.extend(pair(world, device, receiver, rng).await);
            }
            (1, _) => chains.extend(loop_back(world, device, rng).await),
            _ => chains.extend(alone(world, device, rng).await),
        }
    }
    (devices, chains)
}

fn single(line: Line) -> Chain {
    Chain { lines: vec![line], is_fed: false, drops: false }
}

/// Further channels, each a stream of its own.
fn further(world: &Rc<World>, device: &Device<WatchedBus>, seed: u32, rng: &mut Rng) -> Vec<Chain> {
    let mut chains = Vec::new();
    let description = device.description();
    for (kind, have) in
        [(ChannelKind::H2c, description.h2c_channels), (ChannelKind::C2h, description.c2h_channels)]
    {
        if have > 1 && rng.bool() {
            chains.push(single(Line::new(world, device, (kind, 1), rng, seed)));
        }
    }
    chains
}

/// The generator into memory, memory into the checker, and perhaps writes to nowhere.
async fn alone(world: &Rc<World>, device: &Device<WatchedBus>, rng: &mut Rng) -> Vec<Chain> {
    let seed = rng.u32(..);
    device.user().seed(seed).await.unwrap();
    device.user().check_h2c(seed).await.unwrap();
    let mut chains = further(world, device, seed, rng);
    chains.push(single(Line::new(world, device, (ChannelKind::C2h, 0), rng, seed)));
    let mut read = Line::new(world, device, (ChannelKind::H2c, 0), rng, seed);
    read.checked = true;
    chains.push(single(read));
    if rng.bool() {
        chains.push(single(Line::new(world, device, (ChannelKind::Peer, 0), rng, seed)));
    }
    chains
}

/// Memory through the engine into memory.
async fn loop_back(world: &Rc<World>, device: &Device<WatchedBus>, rng: &mut Rng) -> Vec<Chain> {
    let seed = rng.u32(..);
    device.user().seed(seed).await.unwrap();
    device.user().route(StreamSource::H2c, StreamSource::Generator).await.unwrap();
    let mut chains = further(world, device, seed, rng);
    let mut read = Line::new(world, device, (ChannelKind::H2c, 0), rng, seed);
    let mut write = Line::new(world, device, (ChannelKind::C2h, 0), rng, seed);
    (read.depends, write.depends) = (true, true);
    chains.push(Chain { lines: vec![read, write], is_fed: true, drops: false });
    chains
}

/// One engine's generator, or what it reads, into another's memory.
async fn pair(
    world: &Rc<World>,
    sender: &Device<WatchedBus>,
    receiver: &Device<WatchedBus>,
    rng: &mut Rng,
) -> Vec<Chain> {
    let seed = rng.u32(..);
    sender.user().seed(seed).await.unwrap();
    receiver.user().seed(seed).await.unwrap();
    let mut chains = further(world, sender, seed, rng);
    chains.extend(further(world, receiver, seed, rng));
    let credits = rng.u8(..4) != 0;
    let policy = if credits && rng.bool() { LanePolicy::Stall } else { LanePolicy::Drop };
    let routed = rng.u8(..4) != 0;
    let options = PeerOptions { credits, policy, ..PeerOptions::default() };
    let mut write = Line::new(world, sender, (ChannelKind::Peer, 0), rng, seed);
    write.far = Some(Far { receiver: receiver.clone(), options, routed, peer: None });
    write.depends = true;
    // Before the receiver's memory takes what its own generator has.
    write.connect().await;
    let mut lines = Vec::new();
    if rng.bool() {
        sender.user().route(StreamSource::Generator, StreamSource::H2c).await.unwrap();
        let mut read = Line::new(world, sender, (ChannelKind::H2c, 0), rng, seed);
        read.depends = true;
        lines.push(read);
        chains.push(single(Line::new(world, sender, (ChannelKind::C2h, 0), rng, seed)));
    }
    lines.push(write);
    if routed {
        let mut memory = Line::new(world, receiver, (ChannelKind::C2h, 0), rng, seed);
        memory.depends = true;
        lines.push(memory);
    }
    chains.push(Chain { lines, is_fed: routed, drops: !credits });
    receiver.user().check_h2c(seed).await.unwrap();
    let mut read = Line::new(world, receiver, (ChannelKind::H2c, 0), rng, seed);
    read.checked = true;
    chains.push(single(read));
    chains
}

/// What goes wrong. Returns how often a link went down.
async fn trouble(
    simulation: &Simulation,
    world: &Rc<World>,
    ports: &[String],
    engines: &[String],
    rng: &mut Rng,
) -> u64 {
    let mut links_down = 0;
    for _ in 0..[0, 0, 1, 3, 6][rng.usize(..5)] {
        world.sleep(us(rng.u64(..2_000))).await;
        let span = us(rng.u64(1..1_500));
        match rng.u8(..4) {
            0 | 1 => {
                let port = &ports[rng.usize(..ports.len())];
                world.note(|| format!("the link below {port} goes down for {span}"));
                world.begin_loss();
                let until = world.bus.now() + span;
                let link = link_below(simulation, port);
                simulation.with_fabric(|fabric| fabric.take_link_down(link, Some(until)));
                world.bus.sleep_until(until + us(1)).await;
                world.end_loss();
                links_down += 1;
            }
            2 => {
                let name = &engines[rng.usize(..engines.len())];
                world.note(|| format!("{name} is no bus master for {span}"));
                world.faults.set(world.faults.get() + 1);
                set_bus_master(world, name, false);
                world.sleep(span).await;
                set_bus_master(world, name, true);
                world.note(|| format!("{name} is bus master again"));
            }
            _ => astray(world, span).await,
        }
    }
    links_down
}

fn link_below(simulation: &Simulation, port: &str) -> LinkId {
    let port = simulation.find_port(port).unwrap();
    simulation.with_fabric(|fabric| fabric.port(port).link.unwrap())
}

fn set_bus_master(world: &World, name: &str, on: bool) {
    let id = world.function(name);
    let command = world.bus.config_read(id, reg::COMMAND).unwrap();
    if command == u32::MAX {
        return;
    }
    let bit = reg::COMMAND_BUS_MASTER;
    let command = if on { command | bit } else { command & !bit };
    world.bus.config_write(id, reg::COMMAND, command, 0b0011).unwrap();
}

/// A switch believes for a while that host memory is behind one of its ports.
async fn astray(world: &World, span: Picoseconds) {
    let functions = world.bus.functions().unwrap();
    let Some(port) = functions.iter().find(|info| info.name == "rc47a.down1") else { return };
    let offset = reg::MEMORY_BASE_LIMIT;
    let before = world.bus.config_read(port.id, offset).unwrap();
    world.note(|| format!("requests of rc47a go astray for {span}"));
    world.begin_loss();
    world.bus.config_write(port.id, offset, 0x7ff0_0000, 0b1111).unwrap();
    world.sleep(span).await;
    world.bus.config_write(port.id, offset, before, 0b1111).unwrap();
    // What is on its way is lost yet.
    world.sleep(us(50)).await;
    world.end_loss();
}

/// After the storm every channel works: a last transfer along each chain, looked at.
async fn calm(world: &Rc<World>, chain: &mut Chain) {
    // What the engines have to say of the last fault is on its way.
    world.sleep(us(100)).await;
    for line in &mut chain.lines {
        line.settle().await;
    }
    if chain.is_fed || world.faults.get() > 0 {
        // A channel that was stopped while nothing was on its way learns that with its next
        // transfer only.
        // Nothing of the storm is left in FIFO and lane: the last line first, which takes them out.
        for line in chain.lines.iter_mut().rev() {
            line.channel().cancel().await.unwrap();
        }
        for line in &mut chain.lines {
            line.channel().cancel().await.unwrap();
        }
    }
    let mut tickets = Vec::new();
    let mut back = None;
    for line in chain.lines.iter_mut().rev() {
        let level = match line.key.0 {
            ChannelKind::Peer => CompletionLevel::Sent,
            _ => CompletionLevel::Visible,
        };
        let buffer = line.device.buffer(LAST_BYTES, PageSize::Small).await.unwrap();
        let fill = match line.key.0 {
            ChannelKind::H2c => stream::words(line.seed, line.position, LAST_BYTES),
            _ => stream::guard(line.seed, LAST_BYTES),
        };
        buffer.write(0, &fill).unwrap();
        let target = match (line.key.0, &line.far) {
            (ChannelKind::Peer, Some(far)) => {
                far.peer.as_ref().expect("it is connected").target(LAST_BYTES)
            }
            (ChannelKind::Peer, None) => {
                Target::Bus(crosslane_pcie::units::BusAddress(0xf000_0000), LAST_BYTES)
            }
            _ => Target::Buffer(buffer.clone(), 0..LAST_BYTES),
        };
        let deadline = world.bus.now() + us(500_000);
        let transfer = Transfer { target, level, deadline };
        if chain.drops && line.key.0 == ChannelKind::C2h {
            // It may get less than was sent.
            continue;
        }
        tickets.push(line.channel().post(&[transfer]).await.unwrap()[0]);
        if line.key.0 == ChannelKind::C2h {
            back = Some((buffer, line.seed));
        }
    }
    let drops = chain.drops;
    let posted = chain.lines.iter_mut().rev();
    let posted = posted.filter(|line| !drops || line.key.0 != ChannelKind::C2h);
    for (line, ticket) in posted.zip(tickets) {
        let completed = line.channel().wait(ticket).await;
        let name = format!("{} {}", line.device.function().name, line.key.0);
        assert_eq!(completed.map(|c| c.bytes).map_err(|e| e.to_string()), Ok(LAST_BYTES), "{name}");
        line.note_last(LAST_BYTES);
    }
    let Some((buffer, seed)) = back else { return };
    let mut bytes = vec![0; LAST_BYTES as usize];
    buffer.read(0, &mut bytes).unwrap();
    let words = stream::places(seed, &bytes);
    let Word::At(first) = words[0] else { panic!("nothing was written") };
    let expected: Vec<Word> = (first..first + words.len() as u32).map(Word::At).collect();
    assert_eq!(words, expected);
}
