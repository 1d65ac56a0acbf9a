// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one seed: brings its torus up, has all nodes talk at once while cables fail, and checks at
//! the end that nothing is left over.

use std::collections::BTreeSet;

use crosslane_cosim::NetworkCard as Gateware;
use crosslane_device::network_processor::{LineCode, NetworkProcessor as Model};
use crosslane_driver::DriverError;
use crosslane_driver::network_processor::{
    Buffers, Key, LinkState, Modes, NetworkProcessor, Requests, TorusDimension,
};
use crosslane_fabric::{DevicePort, ErrorRecord, NodeId};
use crosslane_host::{Bus, Mapping, Waiting};
use crosslane_lab::file::TorusInstance;
use crosslane_lab::{CheckedRun, EngineKind, Simulation, Task};
use crosslane_pcie::units::{HostId, Picoseconds};
use crosslane_random::Random;
use crosslane_torus_link::routing::Torus;

use super::TorusStory;
use super::lab::{lab, word_within};
use super::talk::{Heard, Manner, Talk};
use crate::check::{Check, check, ended};
use crate::lab_text::pick;
use crate::scene::{Stream, stream};
use crate::setup::Note;

/// Time limit of a seed, far longer than any takes.
const TIME_LIMIT: Picoseconds = Picoseconds::from_secs(2);
/// Time in which links must come up.
const UP_WITHIN: Picoseconds = Picoseconds::from_ms(10);
/// Remainder of the seeds, modulo 6, in which datagrams lie in two pages. This was added later: the
/// other seeds are as they were.
const ACROSS_PAGES: u64 = 5;
/// Remainder of the seeds, modulo 4, in which routed messages that come before their credits may be
/// dropped; added later, too.
const DROPS_ROUTED: u64 = 2;
/// Number of tags of a channel.
const TAGS: u64 = 64;
/// Channels for neighbours.
const CHANNELS: u8 = 6;

type Processor = NetworkProcessor;

/// A torus in operation.
struct World {
    torus: Torus,
    nodes: Vec<Processor>,
    /// Nodes of the processors in the fabric, and their kind.
    models: Vec<NodeId>,
    engines: EngineKind,
    /// Whether messages lie across the ends of pages.
    across_pages: bool,
    /// Whether routed messages that come before their credits may be dropped.
    drops_routed: bool,
    /// Time within which a message's end comes that is behind as many others as may be.
    word_within: Picoseconds,
}

pub(super) fn run(seed: u64, engines: EngineKind, note: Option<&Note>) -> TorusStory {
    let mut rng = stream(seed, Stream::Work);
    let mut ring_rng = stream(seed, Stream::Iommu);
    let lab = lab(seed, engines);
    let tell = |what: String| {
        if let Some(note) = note {
            note(&format!("seed {seed}: {what}"));
        }
    };
    let TorusInstance { nodes: names, torus, parameters: cable, .. } = &lab.file().tori[0];
    let torus = *torus;
    tell(format!("{:?} {cable:?}", torus.dimensions()));
    let run = CheckedRun::new(&lab, stream(seed, Stream::Fabric).u64(..));
    let run = run.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
    let run = run.with_limit(TIME_LIMIT);
    let simulation = run.simulation();
    simulation.with_fabric(|fabric| fabric.set_shuffle(rng.bool()));
    let body = async {
        let mut world = open(simulation, (torus, engines), names, &mut rng).await?;
        world.across_pages = seed % 6 == ACROSS_PAGES;
        world.drops_routed = seed % 4 == DROPS_ROUTED;
        world.word_within = word_within(cable);
        for node in &world.nodes {
            node.hold_routed(!world.drops_routed).await?;
        }
        let (talks, tasks) = begin(simulation, &world, &mut rng, &mut ring_rng);
        let cuts = trouble(simulation, &world, &mut rng, &tell).await;
        let mut story = TorusStory { nodes: world.nodes.len() as u64, cuts, ..Default::default() };
        for (manner, task) in tasks {
            let heard: Heard = task.await;
            story.messages += heard.messages;
            story.bytes += heard.bytes;
            story.cancels += heard.cancels;
            story.lost += heard.lost;
            story.hash = story.hash.rotate_left(7) ^ heard.hash;
            story.puts += heard.messages * u64::from(manner == Manner::Put);
            story.routed += heard.messages * u64::from(manner == Manner::Routed);
        }
        talks.iter().for_each(Talk::last_look);
        last_look(&world, &mut story).await?;
        for node in world.nodes {
            node.release().await?;
        }
        Ok::<_, DriverError>(story)
    };
    let (mut story, errors) = ended(run.run_to_errors("torus", body));
    story.end_ps = simulation.now().0;
    story.long = story.datagrams * u64::from(cable.long_datagrams);
    story.in_blocks = story.datagrams * u64::from(cable.line_code == LineCode::Blocks);
    nothing_left(simulation, names.len(), &errors);
    story
}

async fn open(
    simulation: &Simulation,
    (torus, engines): (Torus, EngineKind),
    names: &[String],
    rng: &mut Random,
) -> Result<World, DriverError> {
    let (mut nodes, mut models) = (Vec::new(), Vec::new());
    for (number, name) in (0_u16..).zip(names) {
        let modes = Modes::default()
            .with_buffers(pick(rng, &[Buffers::User, Buffers::Copied, Buffers::Mapped]))
            .with_requests(pick(
                rng,
                &[
                    Requests::SystemCall,
                    Requests::Stores(Mapping::Uncached),
                    Requests::Stores(Mapping::WriteCombined),
                ],
            ))
            .with_waiting(pick(rng, &[Waiting::Polling, Waiting::KernelPolling, Waiting::Monitor]));
        let node = NetworkProcessor::init(simulation.bus(HostId(number)), name, modes).await?;
        let position = torus.position(number);
        let dimensions: Vec<TorusDimension> = (torus.dimensions().iter().zip(position))
            .map(|(dimension, position)| TorusDimension {
                size: dimension.size,
                position,
                is_open: !dimension.wraps,
            })
            .collect();
        node.place_in_torus(&dimensions).await?;
        for link in links(&torus, number) {
            node.enable_link(link).await?;
        }
        nodes.push(node);
        models.push(simulation.find(name).expect("the lab has its nodes"));
    }
    for (number, node) in (0_u16..).zip(&nodes) {
        for link in links(&torus, number) {
            let deadline = Bus::now(node.bus()) + UP_WITHIN;
            let up = node.wait_link_up(link, deadline).await;
            up.unwrap_or_else(|error| Check::NoHang.fail(error.to_string()));
        }
    }
    Ok(World {
        torus,
        nodes,
        models,
        engines,
        across_pages: false,
        drops_routed: false,
        word_within: Picoseconds(0),
    })
}

/// Returns the links of a node that have a cable.
fn links(torus: &Torus, node: u16) -> Vec<u8> {
    let all = 0..2 * torus.dimensions().len() as u8;
    all.filter(|link| torus.neighbour(node, *link).is_some()).collect()
}

/// A conversation, and the nodes of its ends.
struct Line {
    talk: Talk,
    manner: Manner,
    from: u16,
    to: u16,
    /// Key of the message at each end.
    keys: [Key; 2],
    /// Cores of the tasks at its ends.
    cores: [u16; 2],
}

/// Makes all conversations.
fn lines(world: &World, rng: &mut Random, ring_rng: &mut Random) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut taken = BTreeSet::new();
    let count = rng.u64(2..24);
    for number in 0..count {
        let nodes = world.torus.nodes() as u16;
        let from = rng.u16(..nodes);
        let tag = (number % TAGS) as u8;
        let manner = pick(rng, &[Manner::Get, Manner::Get, Manner::Put, Manner::Routed]);
        let (to, keys) = match manner {
            Manner::Routed => {
                let to = rng.u16(..nodes);
                if to == from {
                    continue;
                }
                (to, [Key::Routed { node: to, tag }, Key::Routed { node: from, tag }])
            }
            Manner::Get | Manner::Put => {
                let link = pick(rng, &links(&world.torus, from));
                let Some((to, back)) = world.torus.neighbour(from, link) else { continue };
                let channel = rng.u8(..CHANNELS);
                // A channel of puts has a single sender: its slots are taken in order.
                if manner == Manner::Put && !taken.insert((from, link, channel)) {
                    continue;
                }
                let key = |link| Key::Neighbour { link, channel, tag };
                (to, [key(link), key(back)])
            }
        };
        let talk = Talk::new(number, manner, rng);
        let cores = [rng.u16(..4), rng.u16(..4)];
        lines.push(Line { talk, manner, from, to, keys, cores });
    }
    lines.extend(ring(world, ring_rng, count));
    if world.across_pages {
        lines.iter_mut().for_each(|line| line.talk.lie_across_pages());
    }
    lines.iter_mut().for_each(|line| line.talk.wait_for_word(world.word_within));
    if world.drops_routed {
        lines.iter_mut().for_each(|line| line.talk.may_lose_routed());
    }
    // If credits may have to wait for slots, a message without a credit must not block one that has
    // it.
    for (to, node) in (0..).zip(&world.nodes) {
        let to_it = || lines.iter().filter(|line| line.to == to);
        let places: u64 = to_it().map(|line| line.talk.places(node)).sum();
        if places > u64::from(node.sizes().credit_slots) {
            let to_it = lines.iter_mut().filter(|line| line.to == to);
            to_it.for_each(|line| line.talk.wait_for_credits());
        }
    }
    lines
}

/// Makes the conversations of a ring, for half of the tori with rings of four or more: all its
/// nodes send to the node half way round, at once and in one direction, so that datagrams passed on
/// compete with each node's own all the way round.
fn ring(world: &World, rng: &mut Random, first: u64) -> Vec<Line> {
    let torus = &world.torus;
    let dimensions = torus.dimensions().iter().enumerate();
    let long = dimensions.filter(|(_, dimension)| dimension.wraps && dimension.size >= 4);
    let long: Vec<(usize, u16)> =
        long.map(|(number, dimension)| (number, dimension.size)).collect();
    if long.is_empty() || rng.bool() {
        return Vec::new();
    }
    let (dimension, size) = long[rng.usize(..long.len())];
    let (up, down) = (size / 2, (size - 1) / 2);
    let hops = if down > 1 && rng.bool() { size - down } else { up };
    let ring = torus.position(rng.u16(..torus.nodes() as u16));
    let node = |at: u16| {
        let mut position = ring;
        position[dimension] = at % size;
        torus.node(&position).expect("the position is in the ring")
    };
    let line = |at: u16| {
        let (from, to) = (node(at), node(at + hops));
        let number = first + u64::from(at);
        let tag = (number % TAGS) as u8;
        let keys = [Key::Routed { node: to, tag }, Key::Routed { node: from, tag }];
        let talk = Talk::round_a_ring(number);
        Line { talk, manner: Manner::Routed, from, to, keys, cores: [0, 1] }
    };
    (0..size).map(line).collect()
}

/// Starts all conversations: a task for each end.
fn begin(
    simulation: &Simulation,
    world: &World,
    rng: &mut Random,
    ring_rng: &mut Random,
) -> (Vec<Talk>, Vec<(Manner, Task<Heard>)>) {
    let (mut talks, mut tasks) = (Vec::new(), Vec::new());
    for Line { talk, manner, from, to, keys, cores } in lines(world, rng, ring_rng) {
        let sender = world.nodes[usize::from(from)].on_core(cores[0]);
        let receiver = world.nodes[usize::from(to)].on_core(cores[1]);
        let number = talk.number;
        let sent = talk.clone().send(sender, keys[0]);
        tasks.push((Manner::Get, simulation.spawn(&format!("sender {number}"), sent)));
        let received = talk.clone().take(receiver, keys[1]);
        tasks.push((manner, simulation.spawn(&format!("receiver {number}"), received)));
        talks.push(talk);
    }
    (talks, tasks)
}

/// Something that is done to a cable.
#[derive(Clone, Copy)]
enum Order {
    Cut,
    Mend,
    /// Bits arrive wrong at this rate.
    Errors(f64),
}

/// A device with cables.
trait Cabled {
    fn order(&mut self, order: Order, link: u8, port: &mut DevicePort<'_>);
}

/// Implements it for a device with these methods.
macro_rules! cabled {
    ($device:ty) => {
        impl Cabled for $device {
            fn order(&mut self, order: Order, link: u8, port: &mut DevicePort<'_>) {
                match order {
                    Order::Cut => self.cut(link, port),
                    Order::Mend => self.mend(link, port),
                    Order::Errors(rate) => self.set_bit_error_rate(link, rate, port),
                }
            }
        }
    };
}
cabled!(Model);
cabled!(Gateware);

/// Cuts and mends cables, retrains links, changes bit error rates. At the end everything is
/// restored except for the bit error rates.
async fn trouble(
    simulation: &Simulation,
    world: &World,
    rng: &mut Random,
    tell: &impl Fn(String),
) -> u64 {
    let bus = simulation.bus(HostId(0));
    let mut cuts = 0;
    for _ in 0..[0, 2, rng.u32(1..12)][rng.usize(..3)] {
        Bus::sleep_until(&bus, Bus::now(&bus) + Picoseconds::from_ns(rng.u64(..20_000))).await;
        let node = rng.u16(..world.torus.nodes() as u16);
        let link = pick(rng, &links(&world.torus, node));
        let model = world.models[usize::from(node)];
        let change = |order: Order| {
            simulation.with_fabric(|fabric| match world.engines {
                EngineKind::Model => {
                    fabric.command(model, |it: &mut Model, port| it.order(order, link, port))
                }
                EngineKind::Rtl => {
                    fabric.command(model, |it: &mut Gateware, port| it.order(order, link, port))
                }
            });
        };
        match rng.u8(..4) {
            0 => {
                tell(format!("link {link} of node {node} is trained anew"));
                let trained = world.nodes[usize::from(node)].retrain_link(link).await;
                trained.unwrap_or_else(|error| Check::RightError.fail(error.to_string()));
                cuts += 1;
            }
            1 => {
                let rate = pick(rng, &[0.0, 1e-6, 1e-4]);
                tell(format!("bits of link {link} of node {node} are wrong at {rate}"));
                change(Order::Errors(rate));
            }
            _ => {
                tell(format!("link {link} of node {node} is cut"));
                change(Order::Cut);
                let pause = Picoseconds::from_ns(rng.u64(..8_000));
                Bus::sleep_until(&bus, Bus::now(&bus) + pause).await;
                change(Order::Mend);
                cuts += 1;
            }
        }
    }
    cuts
}

/// Checks the registers after all conversations.
async fn last_look(world: &World, story: &mut TorusStory) -> Result<(), DriverError> {
    // Acknowledgements and counts may still be in flight.
    let bus = world.nodes[0].bus().clone();
    Bus::sleep_until(&bus, Bus::now(&bus) + Picoseconds::from_ms(1)).await;
    for (number, node) in (0_u16..).zip(&world.nodes) {
        for link in links(&world.torus, number) {
            let state = node.link_state(link).await?;
            let name = node.name();
            check!(Check::NoHang, state == LinkState::Up, "{name} link {link} is {state:?}");
            let (far, far_link) = world.torus.neighbour(number, link).expect("it has a cable");
            let sent = node.link_counters(link).await?;
            let came = world.nodes[usize::from(far)].link_counters(far_link).await?;
            check!(
                Check::Whole,
                sent.sent == came.delivered,
                "{name} link {link} has sent {} datagrams, {} were delivered",
                sent.sent,
                came.delivered
            );
            story.datagrams += u64::from(came.delivered);
            story.repeated += u64::from(sent.repeated);
            story.damaged += u64::from(came.damaged);
        }
        let counters = node.counters().await?;
        let (name, waiting) = (node.name(), counters.waiting);
        // A message that its sender cancelled may have met no credit.
        check!(
            Check::Credits,
            waiting == 0 || story.cancels > 0,
            "{name}: {waiting} datagrams wait"
        );
        check!(Check::Registers, counters.misrouted == 0, "{name}: datagrams were misrouted");
        check!(Check::Registers, counters.refused == 0, "{name}: requests were refused");
    }
    Ok(())
}

fn nothing_left(simulation: &Simulation, nodes: usize, errors: &[ErrorRecord]) {
    for host in 0..nodes as u16 {
        let memory = simulation.memory_in_use(HostId(host));
        check!(Check::Buffers, memory.bytes == 0, "{} B of host {host} are out", memory.bytes);
        let pinned = &memory.pinned_for;
        check!(Check::Buffers, pinned.is_empty(), "memory of host {host} stays pinned");
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    check!(Check::RightError, errors.is_empty(), "{}", errors.join("; "));
    let left = simulation.with_fabric(|fabric| fabric.check_quiet());
    check!(Check::Credits, left.is_empty(), "{}", left.join("; "));
}
