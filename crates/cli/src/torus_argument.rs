// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--device`, `--nodes`, `--open` and `--engine` of what runs on all nodes of a torus, in a lab or
//! between cards.

use clap::Args;
use crosslane::experiment::Tori;
use crosslane::lab::Lab;
use crosslane::open::Session;
use crosslane::torus::{Modes, Requests};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{Result, usage};

/// The nodes of a torus, beside the option `lab`.
#[derive(Args, Debug)]
pub struct TorusArguments {
    /// A node, in place of a lab: vfio:ADDRESS of this machine or vfio-user:SOCKET of a server, in
    /// the order of the torus; or lab:LAB.
    #[arg(long, value_name = "NAME", conflicts_with = "lab",
        value_parser = Known(completions::devices), hide_possible_values = true)]
    pub device: Vec<String>,
    /// Nodes of the torus: a number, a range of powers of two, or sizes as 4x4x2x2 [default: as the
    /// lab has it].
    #[arg(long, value_name = "NODES")]
    pub nodes: Option<Tori>,
    /// Of cards of --device: no cable leads from the last node of a row to its first.
    #[arg(long, requires = "device")]
    pub open: bool,
    #[command(flatten)]
    pub engines: EngineArguments,
}

impl TorusArguments {
    /// Returns the labs of a benchmark: this one, or one for each torus of `--nodes`.
    ///
    /// # Errors
    /// A lab without a torus, and sizes that it cannot have.
    pub fn labs(&self, lab: &Lab) -> Result<Vec<Lab>> {
        if self.open {
            return Err(usage("--open is for cards: the table `torus` of a lab says `wrap`"));
        }
        if lab.file().tori.len() != 1 {
            let name = lab.name();
            return Err(usage(format!("lab {name} does not have one torus (a list `torus`)")));
        }
        match &self.nodes {
            None => Ok(vec![lab.clone()]),
            Some(nodes) => {
                let tori = nodes.0.iter().map(|sizes| lab.with_torus(sizes));
                Ok(tori.collect::<Result<_, _>>()?)
            }
        }
    }

    /// Returns the sizes of the torus that so many cards make: those of `--nodes`, if there are
    /// any.
    ///
    /// # Errors
    /// Gateware, fewer than two cards, or sizes of another number of nodes.
    pub fn sizes_of_cards(&self, cards: usize) -> Result<Vec<u16>> {
        self.engines.not_of_cards()?;
        let nodes = |sizes: &[u16]| sizes.iter().map(|&size| usize::from(size)).product::<usize>();
        match self.nodes.as_ref().map(|nodes| &nodes.0[..]) {
            _ if cards < 2 => Err(usage("--device: a torus has two nodes at least")),
            None => Ok(Tori::even(cards as u32)),
            Some([sizes]) if nodes(sizes) == cards => Ok(sizes.clone()),
            Some(_) => Err(usage(format!(
                "--nodes: cards make one torus, and --device names {cards} of its nodes"
            ))),
        }
    }
}

/// Returns the cards of a session by name, each with the fastest requests.
pub fn nodes(session: &Session) -> Vec<(&str, Modes)> {
    let fastest = |function| Requests::fastest(session.bus(), function);
    let modes = |function| Modes::default().with_requests(fastest(function));
    let cards = session.cards().iter();
    cards.map(|card| (card.endpoint.as_str(), modes(card.function))).collect()
}
