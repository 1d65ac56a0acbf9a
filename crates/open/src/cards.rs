// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards by their names, wherever they are, and host code that runs on them.

use std::future::Future;

use crosslane_driver::{Device, DriverError};
use crosslane_host::Bus;
use crosslane_lab::{EngineKind, LabBus};
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::sysfs::ConfigurationWrites;
use crosslane_vfio::user::{self, REQUEST_DEADLINE};
use crosslane_vfio::{BusOptions, VfioBus, block_on};

use crate::device::{DeviceName, OpenError, OpenLab};

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
    fn run<B: Bus + Send + Sync + 'static>(
        self,
        cards: Vec<Device<B>>,
    ) -> impl Future<Output = Self::Output>;
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

/// How the time of a lab goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabTime {
    /// With the events of the lab alone.
    Simulated,
    /// Beside the real world.
    Free,
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
    run(names, options, LabTime::Simulated, program)
}

/// The same for a program that waits for the real world too: a lab runs free beside it.
///
/// # Errors
/// As [`run_on_cards`].
pub fn run_free_on_cards<P: CardProgram>(
    names: &[DeviceName],
    options: OpenOptions,
    program: P,
) -> Result<P::Output, CardError> {
    run(names, options, LabTime::Free, program)
}

fn run<P: CardProgram>(
    names: &[DeviceName],
    options: OpenOptions,
    time: LabTime,
    program: P,
) -> Result<P::Output, CardError> {
    let Some(DeviceName::Lab(first)) = names.first() else {
        let OpenCards { bus, functions } = open_cards(names, options.bus)?;
        let cards = names.iter().map(ToString::to_string).zip(functions).collect();
        return block_on(run_opened(bus, cards, program));
    };
    let mut endpoints = Vec::new();
    for name in names {
        match name {
            DeviceName::Lab(card) if card.lab == first.lab => endpoints.push(&card.endpoint),
            _ => return Err(mixed(names).into()),
        }
    }
    // One lab that has them all; those that were asked for are taken from it.
    let all = crate::device::LabDevice { lab: first.lab.clone(), endpoint: None };
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
            return Err(OpenError::NoSuchCard { lab, endpoint: endpoint.clone(), why }.into());
        }
        chosen.extend(found);
    }
    let bus: LabBus = simulation.bus(host);
    let running = run_opened(bus, chosen, program);
    match time {
        LabTime::Simulated => simulation.run("program", running).map_err(Box::new)?,
        LabTime::Free => simulation.run_free("program", running),
    }
}

async fn run_opened<B: Bus + Send + Sync + 'static, P: CardProgram>(
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
