// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards opened by name, on any kind of bus, and programs that run on them.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;

use crosslane_driver::{Device, DriverError};
use crosslane_host::{AnyBus, Bus, BusError, Topology, kinds, setters};
use crosslane_lab::{CheckedRun, EngineKind, Lab, LabBus, RunError, Simulation, Stuck};
use crosslane_pcie::units::{Picoseconds, RoutingId};
use crosslane_vfio::sysfs::ConfigurationWrites;
use crosslane_vfio::user::{self, REQUEST_DEADLINE};
use crosslane_vfio::{BusOptions, Placement, VfioBus, block_on};

use crate::name::{DeviceName, LabDevice, OpenError};

/// Duration for which the link of a lab's card is down during a reset: longer than TLPs stay on it.
const LINK_DOWN: Picoseconds = Picoseconds::from_us(10);

/// Options for opening cards.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The engines of a lab: models, or the gateware.
    pub engines: EngineKind,
    /// Random seed of a lab.
    pub seed: u64,
    /// Options of the bus of real and served cards.
    pub bus: BusOptions,
    /// Also open endpoints of a lab that have no engine, such as memory cards and network
    /// processors, if they are named.
    pub any_endpoint: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        let (engines, bus) = (EngineKind::default(), BusOptions::default());
        Self { engines, seed: 1, bus, any_endpoint: false }
    }
}

setters!(SessionOptions {
    with_engines(engines: EngineKind),
    with_seed(seed: u64),
    with_bus(bus: BusOptions),
    with_any_endpoint(any_endpoint: bool),
});

/// A card of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Name of the card's endpoint in the lab, or the name by which the card was opened.
    pub name: String,
    /// Name of its function in the topology: the endpoint in the lab, or the slot.
    pub endpoint: String,
    /// Function of the card.
    pub function: RoutingId,
}

/// Cards of one host that are open, with the lab if they are simulated. Programs run on them by
/// [`block_on`](Self::block_on): in simulated time in a lab, else in real time on the calling
/// thread.
///
/// ```
/// use crosslane_open::Session;
///
/// let session = Session::open("lab:rosta:crosslane/fpga2")?;
/// let clocks = session.block_on(async {
///     let device = session.device(0).await?;
///     device.time_clocks().await
/// })??;
/// assert!(clocks > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    /// Run in the lab; `None` for real and served cards.
    run: Option<CheckedRun>,
    bus: AnyBus,
    cards: Vec<Card>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.cards.iter().map(|card| card.name.as_str()).collect();
        write!(f, "Session({})", names.join(", "))
    }
}

impl Session {
    /// Opens the cards of one name: `vfio:ADDRESS`, `vfio-user:SOCKET`, `lab:LAB/ENDPOINT`, or
    /// `lab:LAB` for every engine of the lab's first host that has one.
    ///
    /// # Errors
    /// See [`open_all`](Self::open_all).
    pub fn open(name: &str) -> Result<Self, OpenError> {
        Self::open_all(&[name.parse()?], SessionOptions::default())
    }

    /// Opens cards that share a host: all of one lab, all of this machine, or all of servers.
    ///
    /// # Errors
    /// No such lab, card or server, a refusal by the kernel, or cards that cannot be used together.
    pub fn open_all(names: &[DeviceName], options: SessionOptions) -> Result<Self, OpenError> {
        if let Some(DeviceName::Lab(first)) = names.first() {
            return Self::open_lab(names, first, options);
        }
        let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
        for name in names {
            match name {
                DeviceName::Vfio(address) => addresses.push(*address),
                DeviceName::VfioUser(path) => sockets.push(path.as_path()),
                DeviceName::Lab(_) => return Err(mixed(names)),
                DeviceName::Memory(_) | DeviceName::File(_) | DeviceName::Null => {
                    return Err(OpenError::NoEngine { name: name.to_string() });
                }
            }
        }
        let bus = match (addresses.is_empty(), sockets.is_empty()) {
            // The ports above the cards are not the program's.
            (false, true) => {
                VfioBus::open(&addresses, None, ConfigurationWrites::Forbidden, options.bus)?
            }
            (true, false) => user::open_bus(&sockets, REQUEST_DEADLINE, options.bus)?,
            _ => return Err(mixed(names)),
        };
        let all = bus.functions().unwrap_or_default();
        let cards = names.iter().zip(bus.own_functions()).map(|(name, function)| {
            let info = all.iter().find(|info| info.id == function);
            let endpoint = info.map_or_else(|| function.to_string(), |info| info.name.clone());
            Card { name: name.to_string(), endpoint, function }
        });
        Ok(Self { run: None, cards: cards.collect(), bus: AnyBus::new(bus) })
    }

    fn open_lab(
        names: &[DeviceName],
        first: &LabDevice,
        options: SessionOptions,
    ) -> Result<Self, OpenError> {
        let mut endpoints = Vec::new();
        for name in names {
            match name {
                DeviceName::Lab(card) if card.lab == first.lab => {
                    endpoints.push(card.endpoint.as_deref());
                }
                name if name.is_memory() => {
                    return Err(OpenError::NoEngine { name: name.to_string() });
                }
                _ => return Err(mixed(names)),
            }
        }
        let lab = Lab::load(&first.lab).map_err(Box::new)?.with_engines(options.engines);
        Self::open_in(&lab, &first.lab, &endpoints, options)
    }

    /// Opens cards of a lab that is at hand: those of the named endpoints, all on one host, or for
    /// `None` every engine of its first host that has one. `name` is the lab's in errors. Its
    /// engines are those that it was given; options of the bus and of engines do not matter.
    ///
    /// # Errors
    /// No such card, a lab that cannot be built, or cards of several hosts.
    pub fn open_in(
        lab: &Lab,
        name: &str,
        endpoints: &[Option<&str>],
        options: SessionOptions,
    ) -> Result<Self, OpenError> {
        let engines = engines(lab);
        let no_card = |endpoint: &str, why: String| OpenError::NoSuchCard {
            lab: name.to_owned(),
            endpoint: endpoint.to_owned(),
            why,
        };
        for endpoint in endpoints.iter().flatten() {
            let is_there = lab.file().endpoints.iter().any(|one| one.name == *endpoint);
            let is_wanted = is_there && options.any_endpoint;
            if !is_wanted && !engines.iter().any(|name| name == endpoint) {
                let why = match is_there {
                    true => "this endpoint has none".to_owned(),
                    false if engines.is_empty() => "it has none at all".to_owned(),
                    false => format!("it has {}", engines.join(", ")),
                };
                return Err(no_card(endpoint, why));
            }
        }
        let running = lab.build_engines(options.seed).map_err(Box::new)?;
        // Every enumerated endpoint is in the tree of one host. The cards are those of the first
        // host with any of the requested ones.
        let is_meant = |endpoint: Option<&str>, name: &String| {
            endpoint.map_or_else(|| engines.contains(name), |endpoint| endpoint == name)
        };
        let is_asked = |name: &String| endpoints.iter().any(|asked| is_meant(*asked, name));
        let known: Vec<String> = match options.any_endpoint {
            true => lab.file().endpoints.iter().map(|endpoint| endpoint.name.clone()).collect(),
            false => engines.clone(),
        };
        let mut hosts = running.hosts.iter().map(|host| {
            let cards = known.iter().filter(|name| is_asked(name)).filter_map(|name| {
                let function = host.tree.find(name)?.routing_id;
                Some(Card { name: name.clone(), endpoint: name.clone(), function })
            });
            (host.id, cards.collect::<Vec<Card>>())
        });
        let Some((host, found)) = hosts.find(|(_, cards)| !cards.is_empty()) else {
            return Err(OpenError::NoCard { lab: name.to_owned(), hint: hint(lab) });
        };
        let mut cards = Vec::new();
        for &endpoint in endpoints {
            let own = |card: &&Card| is_meant(endpoint, &card.name);
            let before = cards.len();
            cards.extend(found.iter().filter(own).cloned());
            if let (Some(endpoint), true) = (endpoint, cards.len() == before) {
                return Err(no_card(endpoint, "it is no engine of the same host".to_owned()));
            }
        }
        let run = CheckedRun::of(running);
        let bus = AnyBus::new(run.simulation().bus(host));
        Ok(Self { run: Some(run), bus, cards })
    }

    /// Returns the bus of the cards' host.
    pub const fn bus(&self) -> &AnyBus {
        &self.bus
    }

    /// Returns the place of buffers, if the cards are no lab's.
    pub fn placement(&self) -> Option<&Placement> {
        self.bus.downcast().map(VfioBus::placement)
    }

    /// Returns the cards, in the order in which they were named; at least one.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Returns the simulation, if the cards are a lab's.
    pub fn simulation(&self) -> Option<&Simulation> {
        self.run.as_ref().map(CheckedRun::simulation)
    }

    /// Opens the engine of a card, by its index in [`cards`](Self::cards).
    ///
    /// # Errors
    /// The card has no engine that this driver supports, or does not answer.
    ///
    /// # Panics
    /// If the index is beyond the last card.
    pub async fn device(&self, card: usize) -> Result<Device, DriverError> {
        Device::open(self.bus.clone(), self.cards[card].function).await
    }

    /// Opens the engines of all cards.
    ///
    /// # Errors
    /// Those of [`device`](Self::device), with the card's name.
    pub async fn devices(&self) -> Result<Vec<Device>, CardError> {
        let mut devices = Vec::new();
        for (number, card) in self.cards.iter().enumerate() {
            let device = self.device(number).await;
            let wrapped = |source| CardError { card: card.name.clone(), source: Box::new(source) };
            devices.push(device.map_err(wrapped)?);
        }
        Ok(devices)
    }

    /// Runs a program to its end on this thread.
    ///
    /// # Errors
    /// In a lab, a program that can never end, or reaches its time limit,
    /// [`TIME_LIMIT`](crosslane_lab::TIME_LIMIT).
    pub fn block_on<F: Future>(&self, program: F) -> Result<F::Output, Stuck> {
        match self.simulation() {
            Some(simulation) => simulation.run("program", program),
            None => Ok(block_on(program)),
        }
    }

    /// In a lab, runs what programs have left, such as TLPs, to its end. Programs that expect no
    /// error of a port end with it.
    ///
    /// # Errors
    /// In a lab, work that can never end, and errors that ports have detected in the session.
    pub fn finish(&self) -> Result<(), RunError<Infallible>> {
        self.run.as_ref().map_or(Ok(()), CheckedRun::finish)
    }

    /// Runs a program that also waits for the outside world, such as a network. A lab then runs as
    /// fast as possible beside it, without the time limit; see [`Simulation::run_free`].
    pub fn run_free<F: Future>(&self, program: F) -> F::Output {
        match self.simulation() {
            Some(simulation) => simulation.run_free("program", program),
            None => block_on(program),
        }
    }

    /// Resets a card: through the kernel or its server, or in a lab by a link-down of its link
    /// (PCIe 6.x 6.6.1).
    ///
    /// # Errors
    /// A card that cannot be reset.
    pub async fn reset(&self, function: RoutingId) -> Result<(), BusError> {
        if let Some(bus) = self.bus.downcast::<VfioBus>() {
            return bus.reset(function);
        }
        let (Some(bus), Some(simulation)) = (self.bus.downcast(), self.simulation()) else {
            unreachable!("a bus that is not the machine's is a lab's, which has its simulation");
        };
        retrain(simulation, bus, function).await;
        Ok(())
    }
}

/// Takes the link of a lab's card down and up again.
async fn retrain(simulation: &Simulation, bus: &LabBus, function: RoutingId) {
    let link = simulation.with_fabric(|fabric| {
        let port = fabric.function_at(bus.host(), function)?;
        let link = fabric.port(port).link?;
        fabric.take_link_down(link, None);
        Some(link)
    });
    let until = Picoseconds(Bus::now(bus).0.saturating_add(LINK_DOWN.0));
    Bus::sleep_until(bus, until).await;
    if let Some(link) = link {
        simulation.with_fabric(|fabric| fabric.bring_link_up(link));
    }
}

/// A card whose engine cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{card}: {source}")]
pub struct CardError {
    /// Name of the card.
    pub card: String,
    /// Error of its driver.
    pub source: Box<DriverError>,
}

kinds!(CardError {
    error => error.source.kind(),
});

/// Lists the endpoints that have engines.
fn engines(lab: &Lab) -> Vec<String> {
    let endpoints = lab.file().endpoints.iter().filter(|endpoint| endpoint.part.engine.is_some());
    endpoints.map(|endpoint| endpoint.name.clone()).collect()
}

/// Lists the variants of a lab without an engine.
fn hint(lab: &Lab) -> String {
    let names: Vec<&str> =
        lab.file().variants.iter().map(|variant| variant.name.as_str()).collect();
    match (lab.variant(), names.as_slice()) {
        (Some(_), _) | (None, []) => String::new(),
        (None, names) => format!("; it has variants: {}", names.join(", ")),
    }
}

/// Returns the error for cards on different buses, with the first two that differ.
fn mixed(names: &[DeviceName]) -> OpenError {
    let kind = |name: &DeviceName| std::mem::discriminant(name);
    let first = names.first();
    let other = names.iter().find(|name| Some(kind(name)) != first.map(kind));
    let text = |name: Option<&DeviceName>| name.map_or_else(String::new, ToString::to_string);
    OpenError::Together {
        first: text(first),
        other: text(other.or(names.get(1)).or(first)),
        why: "they are not on the same bus",
    }
}
