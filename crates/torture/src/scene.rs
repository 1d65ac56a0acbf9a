// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The running lab of a seed, and the state shared by its tasks.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use crosslane_driver::{ChannelKind, ChannelOptions, Device};
use crosslane_fabric::parameters::PeerToPeer;
use crosslane_fabric::{Fabric, LinkId, NodeId};
use crosslane_host::{Bus, Topology};
use crosslane_lab::{CheckedRun, EngineKind, Lab};
use crosslane_pcie::units::{BusAddress, HostId, Picoseconds, RoutingId};
use crosslane_random::Random;

use crate::check::{Check, check};
use crate::fault::{Diary, Engines, Fault};
use crate::lab_text::LabText;
use crate::packets::has_packets;
use crate::setup::{Note, Setup};
use crate::vault::has_card_memory;
use crate::watched::{Shared, WatchedBus, Witness};

/// Time limit of a seed, far longer than any takes.
const LIMIT: Picoseconds = Picoseconds::from_secs(120);
/// Time for which a fault may still affect requests to a device: an unanswered load takes 50 ms to
/// end.
const AFTERMATH: Picoseconds = Picoseconds::from_ms(200);

/// One seed in this many has an IOMMU in its lab: those that leave [`IOMMU_SEED`]. Its randomness
/// has a separate stream, so that every other lab is the same as before IOMMUs were added.
const IOMMU_SEEDS: u64 = 8;
/// See [`IOMMU_SEEDS`].
const IOMMU_SEED: u64 = 5;

/// One seed in this many has hosts of two sockets: those that leave [`SOCKET_SEED`]. The number has
/// no factor in common with [`IOMMU_SEEDS`], so that some have both. Random numbers are a stream of
/// their own here too.
const SOCKET_SEEDS: u64 = 19;
/// See [`SOCKET_SEEDS`]. No older seed that proves a mutation or once failed leaves it.
const SOCKET_SEED: u64 = 15;

/// One seed in this many pushes descriptors, where its lab is a generated one: those that leave
/// [`PUSH_SEED`]. No older seed that proves a mutation or once failed is among them. Random numbers
/// are a stream of their own here too.
const PUSH_SEEDS: u64 = 23;
/// See [`PUSH_SEEDS`].
const PUSH_SEED: u64 = 19;

/// Converts microseconds.
pub(crate) const fn us(us: u64) -> Picoseconds {
    Picoseconds::from_ns(us * 1_000)
}

/// An engine of the lab.
pub(crate) struct EngineOfLab {
    pub name: String,
    /// Completion time-out of the engine.
    pub timeout: Picoseconds,
    /// Time in which the data that an H2C channel holds have been compared. The model compares them
    /// as it is asked.
    pub compares_within: Picoseconds,
}

/// State shared by all tasks of a seed.
pub(crate) struct World {
    pub bus: WatchedBus,
    run: Weak<CheckedRun>,
    diary: RefCell<Diary>,
    /// Engines that are gone for good.
    gone: Cell<Engines>,
    /// Engines of the lab, by number.
    pub engines: Vec<EngineOfLab>,
    /// Whether lines, games or visitors are still at work.
    at_work: Cell<bool>,
    note: Option<Note>,
}

impl World {
    /// Whether any work that faults may meet has yet to end.
    pub fn is_at_work(&self) -> bool {
        self.at_work.get()
    }

    /// Notes that all work has ended, so that the faults end too.
    pub fn rest(&self) {
        self.at_work.set(false);
    }

    /// Writes a note, if the seed is replayed.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(note) = &self.note {
            note(&format!("{}: {}", self.bus.now(), line()));
        }
    }

    /// Notes the start of a fault at these engines. Returns its number for [`end`](Self::end).
    pub fn begin(&self, fault: Fault, engines: Engines) -> usize {
        self.diary.borrow_mut().begin(fault, engines, self.bus.now())
    }

    /// Notes the end of a fault.
    pub fn end(&self, number: usize) {
        let now = self.bus.now();
        self.diary.borrow_mut().end(number, now);
    }

    /// Counts a fault that affects only its own task.
    pub fn count(&self, fault: Fault) {
        self.diary.borrow_mut().counts.count(fault);
    }

    /// Returns the number of faults of each kind.
    pub fn counts(&self) -> crate::fault::FaultCounts {
        self.diary.borrow().counts
    }

    /// Whether one of these engines had a matching fault at or after `since`.
    pub fn has(&self, engines: Engines, since: Picoseconds, such: impl Fn(Fault) -> bool) -> bool {
        self.diary.borrow().has(engines, since, such)
    }

    /// Whether a write to this address reached the IOMMU at that time because it went astray: a
    /// switch did not know that the peer was below it.
    pub fn was_astray(&self, address: BusAddress, at: Picoseconds) -> bool {
        let functions = self.bus.functions().expect("a lab has its functions");
        let is_peer = functions.iter().any(|info| info.bars.iter().any(|b| b.contains(address)));
        is_peer && self.were_astray(at)
    }

    /// Whether requests went astray at that time.
    pub fn were_astray(&self, at: Picoseconds) -> bool {
        self.diary.borrow().had(Engines::MAX, at, |fault| fault == Fault::Astray)
    }

    /// Like [`has`](Self::has), for faults whose effects may last until now.
    pub fn has_lately(&self, engines: Engines, such: impl Fn(Fault) -> bool) -> bool {
        let since = Picoseconds(self.bus.now().0.saturating_sub(AFTERMATH.0));
        self.has(engines, since, such)
    }

    /// Removes engines for good.
    pub fn remove(&self, engines: Engines) {
        self.gone.set(self.gone.get() | engines);
    }

    /// Whether one of these engines is gone.
    pub fn is_gone(&self, engines: Engines) -> bool {
        self.gone.get() & engines != 0
    }

    /// Returns the engine with that name, as a set.
    pub fn engine(&self, name: &str) -> Engines {
        let number = self.engines.iter().position(|engine| engine.name == name);
        1 << number.expect("it is an engine of the lab")
    }

    /// Opens and closes the first channel of this kind, so that its device forgets dropped objects.
    pub async fn give_back(&self, device: &Device, kind: ChannelKind) {
        let own = self.engine(&device.function().name);
        loop {
            let closed = match device.channel(kind, 0, ChannelOptions::default()).await {
                Ok(channel) => channel.close().await,
                Err(error) => Err(error),
            };
            let Err(error) = closed else { return };
            if self.is_gone(own) {
                return;
            }
            let is_known = self.has_lately(own, Fault::cuts_off);
            check!(Check::RightError, is_known, "nothing was done to it, and yet: {error}");
            self.sleep(us(300)).await;
        }
    }

    /// Inspects or changes the fabric.
    pub fn fabric<R>(&self, look: impl FnOnce(&mut Fabric) -> R) -> R {
        self.run.upgrade().expect("tasks end before their lab").simulation().with_fabric(look)
    }

    /// Finds a node by name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.run.upgrade().and_then(|run| run.simulation().find(name))
    }

    /// Returns the engines whose path to the host uses this link.
    pub fn engines_below(&self, link: LinkId) -> Engines {
        self.fabric(|fabric| {
            let mut engines = 0;
            for (number, engine) in self.engines.iter().enumerate() {
                let is_it = |node: &crosslane_fabric::Node| node.name == engine.name;
                let at = fabric.nodes().iter().position(is_it).expect("every engine is a node");
                let mut above = link_above(fabric, NodeId(at as u32));
                while let Some(at) = above {
                    if at == link {
                        engines |= 1 << number;
                    }
                    let upper = fabric.link(at).upper;
                    above = link_above(fabric, fabric.port(upper).node);
                }
            }
            engines
        })
    }

    /// Whether the root complex forbids what passes from the root port above one engine to that
    /// above another.
    pub fn forbids_peers(&self, from: &str, to: &str) -> bool {
        self.fabric(|fabric| {
            let [from, to] = [from, to].map(|name| {
                let at = fabric.nodes().iter().position(|node| node.name == name);
                let mut node = NodeId(at.expect("every engine is a node") as u32);
                let mut port = None;
                while let Some(link) = link_above(fabric, node) {
                    let upper = fabric.link(link).upper;
                    (node, port) = (fabric.port(upper).node, Some(upper));
                }
                port.expect("every engine is below a root port")
            });
            fabric.peers(from, to) == Some(PeerToPeer::Forbidden)
        })
    }

    pub async fn sleep(&self, span: Picoseconds) {
        self.bus.sleep_until(self.bus.now() + span).await;
    }

    /// Returns the function with that name.
    pub fn function(&self, name: &str) -> RoutingId {
        let functions = self.bus.functions().expect("a lab has its functions");
        functions.iter().find(|info| info.name == name).expect("it is a function of the lab").id
    }

    /// Returns a future's output, or `None`, dropping it, if it takes longer than `span`.
    pub async fn within<T>(&self, span: Picoseconds, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut end = pin!(self.sleep(span));
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            end.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

/// Finds the link above a node.
fn link_above(fabric: &Fabric, node: NodeId) -> Option<LinkId> {
    let links = fabric.node(node).ports.iter().filter_map(|&port| {
        let link = fabric.port(port).link?;
        (fabric.link(link).lower == port).then_some(link)
    });
    links.into_iter().next()
}

/// A lab as built.
pub(crate) struct Scene {
    pub run: Rc<CheckedRun>,
    pub world: World,
    pub witness: Shared,
    /// Upper ports of the links that faults may take down.
    pub ports: Vec<String>,
}

/// Returns the lab of a seed, as text.
pub(crate) fn lab_text(seed: u64, setup: &Setup) -> LabText {
    match &setup.lab {
        Some(lab) => lab.clone(),
        None => {
            let mut lab = LabText::random(&mut stream(seed, Stream::Lab));
            if seed % IOMMU_SEEDS == IOMMU_SEED {
                lab.add_iommu(&mut stream(seed, Stream::Iommu));
            }
            if seed % SOCKET_SEEDS == SOCKET_SEED {
                lab.add_sockets(&mut stream(seed, Stream::Sockets));
            }
            if has_packets(seed) {
                lab.add_packets();
            }
            if seed % PUSH_SEEDS == PUSH_SEED {
                lab.add_push(&mut stream(seed, Stream::Push));
            }
            if has_card_memory(seed) {
                lab.add_card_memory(&mut stream(seed, Stream::CardMemory));
            }
            lab
        }
    }
}

/// Purpose of a seed's random numbers. Each has a separate stream, so that a lab written to a file
/// is treated like the seed's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Lab,
    Fabric,
    Work,
    /// IOMMUs of trees, rings of tori: added later, without changing the other streams.
    Iommu,
    Aimed,
    Sockets,
    Packets,
    Push,
    CardMemory,
    /// Line codes and datagrams of tori.
    Cables,
}

/// Returns a stream of random numbers of a seed.
pub(crate) fn stream(seed: u64, stream: Stream) -> Random {
    // Successive seeds start far apart.
    let number = match stream {
        // The four numbers from four times the seed belong to the streams above.
        Stream::Aimed => !seed,
        Stream::Sockets => (!seed).rotate_left(32),
        Stream::Packets => (!seed).rotate_left(16),
        Stream::Push => (!seed).rotate_left(48),
        Stream::CardMemory => (!seed).rotate_left(40),
        Stream::Cables => (!seed).rotate_left(24),
        _ => seed.wrapping_mul(4).wrapping_add(stream as u64),
    };
    Random::with_seed(number).fork()
}

fn engines_of(lab: &Lab, kind: EngineKind) -> Vec<EngineOfLab> {
    let endpoints = lab.file().endpoints.iter();
    let engines = endpoints.filter_map(|endpoint| {
        let engine = endpoint.part.engine?;
        let beats = u64::from(engine.staging_bytes / engine.datapath_bytes);
        let compares_within = match kind {
            EngineKind::Model => Picoseconds::ZERO,
            // The circuits on the way take some beats, too.
            EngineKind::Rtl => Picoseconds(2 * beats * engine.clock.0),
        };
        let (name, timeout) = (endpoint.name.clone(), engine.completion_timeout);
        Some(EngineOfLab { name, timeout, compares_within })
    });
    engines.collect()
}

impl Scene {
    /// Builds the lab of a seed.
    pub fn new(seed: u64, setup: &Setup) -> Self {
        let text = lab_text(seed, setup);
        let mut rng = stream(seed, Stream::Fabric);
        let lab = text.lab().unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
        let lab = lab.with_engines(setup.engines);
        let run = CheckedRun::new(&lab, rng.u64(..));
        let run = run.unwrap_or_else(|error| Check::Setup.fail(error.to_string()));
        let run = Rc::new(run.with_limit(LIMIT));
        let simulation = run.simulation();
        if rng.bool() {
            simulation.with_fabric(|fabric| fabric.set_shuffle(true));
        }
        let witness = Witness::watch(simulation, &lab);
        let bus = WatchedBus { bus: simulation.bus(HostId(0)), witness: witness.clone() };
        let functions = bus.functions().expect("a lab has its functions");
        // Engines of other hosts are ignored.
        let mut engines = engines_of(&lab, setup.engines);
        engines.retain(|engine| functions.iter().any(|info| info.name == engine.name));
        if engines.is_empty() {
            Check::Setup.fail("host0 of the lab has no endpoint with an engine".to_owned());
        }
        engines.truncate(Engines::BITS as usize);
        let ports = functions.iter().filter(|info| info.port_type.is_above_its_link());
        let linked = |name: &String| {
            let port = simulation.find_port(name);
            port.is_some_and(|port| simulation.with_fabric(|f| f.port(port).link.is_some()))
        };
        let ports = ports.map(|info| info.name.clone()).filter(linked).collect();
        let world = World {
            bus,
            run: Rc::downgrade(&run),
            diary: RefCell::default(),
            gone: Cell::new(0),
            engines,
            at_work: Cell::new(true),
            note: setup.note.clone(),
        };
        world.note(|| format!("seed {seed} in {}, {} ports", text.name, functions.len()));
        for link in simulation.with_fabric(|fabric| fabric.links().to_vec()) {
            if link.parameters.bit_error_rate > 0.0 {
                world.count(Fault::BitErrors);
            }
        }
        Self { run, world, witness, ports }
    }
}
