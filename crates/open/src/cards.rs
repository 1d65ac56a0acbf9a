// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards of any kinds for one program, as a bridge's server has them: engines on several buses, and
//! memory that stands for cards.

use std::future::Future;

use crosslane_driver::Device;
use crosslane_host::{AnyMemory, PageSize};
use crosslane_network::{Network, NetworkMemory};
use crosslane_pcie::units::RoutingId;
use crosslane_vfio::block_on;

use crate::name::{DeviceName, OpenError};
use crate::network::AnyRdma;
use crate::session::{CardError, Session, SessionOptions};

/// A card that is open.
pub enum Opened {
    /// Its engine.
    Engine(Device),
    /// Memory that stands for it.
    Memory(AnyMemory),
    /// Nothing: it takes all data and gives zeros.
    Null,
}

/// The place of a card.
enum Entry {
    /// Session, and index of the card in it.
    Engine(usize, usize),
    Memory(AnyMemory),
    Null,
}

/// Cards of any kinds, in the order of their names: of one lab, of this machine, of vfio-user
/// servers, and memory that stands for cards. Each name stands for one card: the first of a lab
/// with several, unless it names the endpoint.
///
/// ```
/// use crosslane_open::{Cards, Opened, SessionOptions};
///
/// let names = ["lab:kc705:crosslane".parse()?, "mem:1M".parse()?];
/// let cards = Cards::open(&names, SessionOptions::default())?;
/// let opened = cards.run_free(async { (cards.card(0).await, cards.card(1).await) });
/// assert!(matches!(opened, (Ok(Opened::Engine(_)), Ok(Opened::Memory(_)))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cards {
    names: Vec<DeviceName>,
    entries: Vec<Entry>,
    sessions: Vec<Session>,
}

impl Cards {
    /// Opens the cards.
    ///
    /// # Errors
    /// No such card or memory, a card that is named twice, and cards of two labs, each of which
    /// would need this program's thread.
    pub fn open(names: &[DeviceName], options: SessionOptions) -> Result<Self, OpenError> {
        let mut sessions = Vec::new();
        let mut entries: Vec<Option<Entry>> = Vec::new();
        for name in names {
            entries.push(memory(name)?);
        }
        for kind in [
            |name: &DeviceName| matches!(name, DeviceName::Lab(_)),
            |name: &DeviceName| matches!(name, DeviceName::Vfio(_)),
            |name: &DeviceName| matches!(name, DeviceName::VfioUser(_)),
        ] {
            let of_kind = names.iter().enumerate().filter(|(_, name)| kind(name));
            let (places, own): (Vec<usize>, Vec<DeviceName>) =
                of_kind.map(|(place, name)| (place, name.clone())).unzip();
            if own.is_empty() {
                continue;
            }
            if let Some((first, other)) = two_labs(&own) {
                let why = "each lab is simulated by a program of its own";
                return Err(OpenError::Together { first, other, why });
            }
            let session = Session::open_all(&own, options)?;
            let firsts = firsts(&own, session.cards().len());
            let mut before: Vec<(RoutingId, &DeviceName)> = Vec::new();
            for ((place, card), name) in places.into_iter().zip(firsts).zip(&own) {
                let function = session.cards()[card].function;
                if let Some((_, first)) = before.iter().find(|(other, _)| *other == function) {
                    let (first, other) = (first.to_string(), name.to_string());
                    return Err(OpenError::Together { first, other, why: "they are one card" });
                }
                before.push((function, name));
                entries[place] = Some(Entry::Engine(sessions.len(), card));
            }
            sessions.push(session);
        }
        let entries = entries.into_iter().flatten().collect();
        Ok(Self { names: names.to_vec(), entries, sessions })
    }

    /// Returns the names of the cards.
    pub fn names(&self) -> &[DeviceName] {
        &self.names
    }

    /// Returns a card, by its index in [`names`](Self::names).
    ///
    /// # Errors
    /// An engine that this driver does not support, or that does not answer.
    ///
    /// # Panics
    /// If the index is beyond the last card.
    pub async fn card(&self, number: usize) -> Result<Opened, CardError> {
        match &self.entries[number] {
            Entry::Engine(session, card) => {
                let session = &self.sessions[*session];
                let wrapped = |source| CardError {
                    card: session.cards()[*card].name.clone(),
                    source: Box::new(source),
                };
                session.device(*card).await.map(Opened::Engine).map_err(wrapped)
            }
            Entry::Memory(memory) => Ok(Opened::Memory(memory.clone())),
            Entry::Null => Ok(Opened::Null),
        }
    }

    /// Joins the memory of the cards to a network. A lab's bus names it, as its memory is copied.
    pub fn rdma(&self, network: Network) -> AnyRdma {
        // Labs are opened first.
        AnyRdma::of(network, self.sessions.first().map(Session::bus))
    }

    /// Runs a program that also waits for the outside world; see [`Session::run_free`].
    pub fn run_free<F: Future>(&self, program: F) -> F::Output {
        let lab = self.sessions.iter().find(|session| session.simulation().is_some());
        match lab {
            Some(session) => session.run_free(program),
            None => block_on(program),
        }
    }
}

/// Opens the memory that a name stands for, if it stands for memory.
fn memory(name: &DeviceName) -> Result<Option<Entry>, OpenError> {
    let memory = match name {
        DeviceName::Memory(bytes) => NetworkMemory::new(*bytes, PageSize::Huge),
        DeviceName::File(path) => NetworkMemory::of_path(path),
        DeviceName::Null => return Ok(Some(Entry::Null)),
        DeviceName::Lab(_) | DeviceName::Vfio(_) | DeviceName::VfioUser(_) => return Ok(None),
    };
    let failed = |source| OpenError::Memory { name: name.to_string(), source };
    Ok(Some(Entry::Memory(AnyMemory::new(memory.map_err(failed)?))))
}

/// Returns two names that are of different labs.
fn two_labs(names: &[DeviceName]) -> Option<(String, String)> {
    let lab = |name: &DeviceName| match name {
        DeviceName::Lab(card) => Some(card.lab.clone()),
        _ => None,
    };
    let first = names.first()?;
    let other = names.iter().find(|name| lab(name) != lab(first))?;
    Some((first.to_string(), other.to_string()))
}

/// Returns the index of the first card of each name among the `count` cards of a session: a lab
/// without an endpoint has several.
fn firsts(names: &[DeviceName], count: usize) -> Vec<usize> {
    let is_whole =
        |name: &&DeviceName| matches!(name, DeviceName::Lab(card) if card.endpoint.is_none());
    let whole = names.iter().filter(is_whole).count();
    // Each of the others has one card; those that name a whole lab have equally many.
    let many = (count - (names.len() - whole)) / whole.max(1);
    let mut next = 0;
    let firsts = names.iter().map(|name| {
        let first = next;
        next += if is_whole(&name) { many } else { 1 };
        first
    });
    firsts.collect()
}
