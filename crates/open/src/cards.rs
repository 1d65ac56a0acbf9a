// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards by their names, wherever they are, and host code that runs on them.

use std::future::Future;

use crosslane_driver::{Device, DriverError};
use crosslane_lab::{EngineKind, LabBus, Simulation};
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::sysfs::ConfigurationWrites;
use crosslane_vfio::user::{self, REQUEST_DEADLINE};
use crosslane_vfio::{BusOptions, VfioBus, block_on};

use crate::device::{DeviceName, LabDevice, OpenError, OpenLab};
use crate::network::CardBus;

/// Cards that are no lab's, in use.
#[derive(Debug)]
pub struct OpenCards {
    /// The way to them.
    pub bus: VfioBus,
    /// Their functions, in the order of their names.
    pub functions: Vec<RoutingId>,
}

/// Opens cards of this machine, or of servers: all of one kind.
///
/// # Errors
/// Cards that cannot be used together, and what the kernel or a server refuses.
pub fn open_cards(names: &[DeviceName], options: BusOptions) -> Result<OpenCards, OpenError> {
    let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
    for name in names {
        match name {
            DeviceName::Vfio(address) => addresses.push(*address),
            DeviceName::VfioUser(path) => sockets.push(path.as_path()),
            DeviceName::Lab(_) => return Err(mixed(names)),
        }
    }
    let bus = match (addresses.is_empty(), sockets.is_empty()) {
        // Ports above the cards are somebody else's: their configuration is only looked at.
        (false, true) => VfioBus::open(&addresses, None, ConfigurationWrites::Forbidden, options)?,
        (true, false) => user::open_bus(&sockets, REQUEST_DEADLINE, options)?,
        _ => return Err(mixed(names)),
    };
    // They are as they were named.
    let functions = bus.own_functions().collect();
    Ok(OpenCards { bus, functions })
}

fn mixed(names: &[DeviceName]) -> OpenError {
    let kind = |name: &DeviceName| std::mem::discriminant(name);
    let first = names.first();
    let other = names.iter().find(|name| Some(kind(name)) != first.map(kind));
    let text = |name: Option<&DeviceName>| name.map_or_else(String::new, ToString::to_string);
    OpenError::Together {
        first: text(first),
        other: text(other.or(first)),
        why: "they are not on the same bus",
    }
}

/// Host code for cards, whatever their bus is.
pub trait CardProgram {
    /// What comes of it.
    type Output;

    /// Runs on cards that were opened, in the order in which they were named.
    fn run<B: CardBus>(self, cards: Vec<Device<B>>) -> impl Future<Output = Self::Output>;
}

/// Why a program could not be run on cards.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// They cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One of them is no engine, or does not answer.
    #[error("{card}: {source}")]
    Card {
        /// Its name.
        card: String,
        /// Why.
        source: Box<DriverError>,
    },
    /// Host code in a lab that can never end.
    #[error(transparent)]
    Stuck(#[from] Box<crosslane_lab::Stuck>),
}

/// How cards are opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Of a lab: what engines are.
    pub engines: EngineKind,
    /// Of a lab: everything random comes from it.
    pub seed: u64,
    /// Of all others.
    pub bus: BusOptions,
}

/// Cards that were found, with their names; they are not opened yet.
enum Found {
    InLab(Simulation, LabBus, Vec<(String, RoutingId)>),
    Real(VfioBus, Vec<(String, RoutingId)>),
}

/// Opens cards and runs a program on them: in a lab in simulated time, else on this thread.
///
/// # Errors
/// Cards that cannot be opened, together or at all.
pub fn run_on_cards<P: CardProgram>(
    names: &[DeviceName],
    options: OpenOptions,
    program: P,
) -> Result<P::Output, CardError> {
    match find(names, options)? {
        Found::InLab(simulation, bus, cards) => {
            let running = run_opened(bus, cards, program);
            simulation.run("program", running).map_err(Box::new)?
        }
        Found::Real(bus, cards) => block_on(run_opened(bus, cards, program)),
    }
}

/// Opens one card, of those that a name stands for the first, and runs a program on it that waits
/// for the real world too: a lab runs free beside it.
///
/// # Errors
/// A card that cannot be opened.
pub fn run_free_on_card<P: CardProgram>(
    name: &DeviceName,
    options: OpenOptions,
    program: P,
) -> Result<P::Output, CardError> {
    match find(std::slice::from_ref(name), options)? {
        Found::InLab(simulation, bus, mut cards) => {
            cards.truncate(1);
            simulation.run_free("program", run_opened(bus, cards, program))
        }
        Found::Real(bus, cards) => block_on(run_opened(bus, cards, program)),
    }
}

fn find(names: &[DeviceName], options: OpenOptions) -> Result<Found, OpenError> {
    let Some(DeviceName::Lab(first)) = names.first() else {
        let OpenCards { bus, functions } = open_cards(names, options.bus)?;
        let cards = names.iter().map(ToString::to_string).zip(functions).collect();
        return Ok(Found::Real(bus, cards));
    };
    let mut endpoints = Vec::new();
    for name in names {
        match name {
            DeviceName::Lab(card) if card.lab == first.lab => endpoints.push(&card.endpoint),
            _ => return Err(mixed(names)),
        }
    }
    // One lab that has them all; those that were asked for are taken from it.
    let all = LabDevice { lab: first.lab.clone(), endpoint: None };
    let whole = if names.len() == 1 { first } else { &all };
    let OpenLab { simulation, host, cards } = whole.open(options.engines, options.seed)?;
    let mut chosen = Vec::new();
    for endpoint in endpoints {
        let found = cards
            .iter()
            .filter(|card| endpoint.as_ref().is_none_or(|endpoint| *endpoint == card.name));
        let found: Vec<(String, RoutingId)> =
            found.map(|card| (card.name.clone(), card.function)).collect();
        if let (Some(endpoint), true) = (endpoint, found.is_empty()) {
            let why = "it is no engine of the same host".to_owned();
            let lab = first.lab.clone();
            return Err(OpenError::NoSuchCard { lab, endpoint: endpoint.clone(), why });
        }
        chosen.extend(found);
    }
    let bus = simulation.bus(host);
    Ok(Found::InLab(simulation, bus, chosen))
}

async fn run_opened<B: CardBus, P: CardProgram>(
    bus: B,
    cards: Vec<(String, RoutingId)>,
    program: P,
) -> Result<P::Output, CardError> {
    let mut devices = Vec::new();
    for (card, function) in cards {
        let device = Device::open(bus.clone(), function).await;
        let device = device.map_err(|error| CardError::Card { card, source: Box::new(error) })?;
        devices.push(device);
    }
    Ok(program.run(devices).await)
}
