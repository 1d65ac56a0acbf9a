// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of flows, looked up by their names on the command line.

use crosslane::experiment::FlowEnds;
use crosslane::fabric::NodeKind;
use crosslane::lab::{Lab, RunningLab};
use crosslane::open::DeviceName;

use crate::error::CommandError;

/// Name of the host of a lab that has only one, and of cards.
const ONLY_HOST: &str = "host";

/// Ends of a workload's flows, as the user names them.
pub enum Ends<'a> {
    /// Host memory and cards.
    WithHost {
        /// The options that name the host and the card.
        options: (&'a str, &'a str),
        /// The host.
        host: Option<&'a str>,
        /// The first card.
        card: Option<&'a str>,
        /// Number of flows.
        flows: u16,
    },
    /// Two cards.
    Pairs {
        /// The first sender.
        from: Option<&'a str>,
        /// The first receiver.
        to: Option<&'a str>,
        /// Number of flows.
        flows: u16,
    },
    /// All cards between two.
    Row {
        /// The first card.
        from: Option<&'a str>,
        /// The last card.
        to: Option<&'a str>,
    },
}

/// Cards in an order, among which ends are looked up.
pub trait Cards {
    /// Returns their number.
    fn count(&self) -> usize;

    /// Returns the position of a card; `option` and `name` are as the user wrote them.
    ///
    /// # Errors
    /// A name of none of the cards.
    fn position(&self, option: &str, name: &str) -> Result<usize, CommandError>;

    /// Returns the sentence about too few cards for that many flows.
    fn too_few(&self, flows: u16) -> String;

    /// Returns the sentence about a single card where two are needed.
    fn single(&self) -> String;

    /// Returns the sentence about a card that would move data to itself.
    fn same(&self, at: usize) -> String;

    /// Returns the sentence about a last card that comes before the first one.
    fn reversed(&self, first: usize, last: usize) -> String;
}

impl Ends<'_> {
    /// Looks the names up. Returns the positions of each flow's cards, in the order of its data.
    fn chosen(&self, cards: &impl Cards) -> Result<Vec<Vec<usize>>, CommandError> {
        let count = cards.count();
        let named = |option: &str, name: Option<&str>, other: usize| {
            name.map_or(Ok(other), |name| cards.position(option, name))
        };
        let check_count = |flows: u16| match usize::from(flows) <= count {
            true => Ok(()),
            false => Err(usage(cards.too_few(flows))),
        };
        match *self {
            Self::WithHost { options, card, flows, .. } => {
                let first = named(options.1, card, 0)?;
                check_count(flows)?;
                Ok((0..usize::from(flows)).map(|flow| vec![(first + flow) % count]).collect())
            }
            Self::Pairs { from, to, flows } => {
                let first = named("--from", from, 0)?;
                let second = named("--to", to, first + 1)?;
                if count < 2 {
                    return Err(usage(cards.single()));
                }
                check_count(flows)?;
                if first % count == second % count {
                    return Err(usage(cards.same(first % count)));
                }
                let pair = |flow: usize| vec![(first + flow) % count, (second + flow) % count];
                Ok((0..usize::from(flows)).map(pair).collect())
            }
            Self::Row { from, to } => {
                let (first, last) = (named("--from", from, 0)?, named("--to", to, count - 1)?);
                if last < first {
                    return Err(usage(cards.reversed(first, last)));
                }
                Ok(vec![(first..=last).collect()])
            }
        }
    }

    /// Looks the names up in a lab. `first` and `last` are the cards that `--device` names.
    ///
    /// # Errors
    /// A name of nothing of the kind, more flows than cards, a card to itself, or an order that is
    /// not the lab file's.
    pub fn in_lab(
        &self,
        cards: &LabCards<'_>,
        first: Option<&str>,
        last: Option<&str>,
    ) -> Result<Vec<FlowEnds>, CommandError> {
        let (ends, option) = match *self {
            Self::WithHost { options, host, card, flows } => {
                let card = card.or(first);
                (Ends::WithHost { options, host, card, flows }, options.1)
            }
            Self::Pairs { from, to, flows } => {
                (Ends::Pairs { from: from.or(first), to: to.or(last), flows }, "--to")
            }
            Self::Row { from, to } => (Ends::Row { from: from.or(first), to: to.or(last) }, "--to"),
        };
        let flows = ends.chosen(cards)?;
        let flows = flows.iter().map(|flow| cards.flow(option, flow));
        let flows: Vec<FlowEnds> = flows.collect::<Result<_, _>>()?;
        if let Self::WithHost { options, host: Some(host), .. } = *self {
            flows.iter().try_for_each(|flow| cards.check_host(options.0, host, flow))?;
        }
        Ok(flows)
    }

    /// Looks the names up among cards that are opened by name: returns the places of each flow's
    /// cards among them, in the order of its data.
    ///
    /// # Errors
    /// A name of none of the cards, more flows than cards, a card to itself, or an order that is
    /// not that of `--device`.
    pub fn on_cards(&self, names: &[DeviceName]) -> Result<Vec<Vec<usize>>, CommandError> {
        match *self {
            Self::WithHost { host: Some(host), .. } if host != ONLY_HOST => {
                Err(usage(format!("{host} is not the host that the cards are in: `host` is")))
            }
            Self::WithHost { card, flows, .. } => {
                let options = ("", "--from or --to");
                Ends::WithHost { options, host: None, card, flows }.chosen(&names)
            }
            _ => self.chosen(&names),
        }
    }
}

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

impl Cards for &[DeviceName] {
    fn count(&self) -> usize {
        self.len()
    }

    fn position(&self, option: &str, name: &str) -> Result<usize, CommandError> {
        let wanted = name.parse::<DeviceName>().ok();
        let found = self.iter().position(|card| Some(card) == wanted.as_ref());
        found.ok_or_else(|| {
            let names: Vec<String> = self.iter().map(ToString::to_string).collect();
            usage(format!("{option} {name}: the cards are {}", names.join(", ")))
        })
    }

    fn too_few(&self, flows: u16) -> String {
        format!("--flows {flows}: --device names {}", self.len())
    }

    fn single(&self) -> String {
        "two cards are needed: --device names one".to_owned()
    }

    fn same(&self, at: usize) -> String {
        format!("--to {}: it cannot move data to itself", self[at])
    }

    fn reversed(&self, _first: usize, last: usize) -> String {
        format!("--to {}: it stands before --from", self[last])
    }
}

/// The endpoints with engines of a lab, in the order of the lab file.
pub struct LabCards<'a> {
    lab: &'a Lab,
    running: &'a RunningLab,
    names: Vec<&'a str>,
}

impl Cards for LabCards<'_> {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn position(&self, option: &str, name: &str) -> Result<usize, CommandError> {
        if let Some(position) = self.names.iter().position(|card| *card == name) {
            return Ok(position);
        }
        let is_only_host = name == ONLY_HOST && self.running.hosts.len() == 1;
        let node = self.running.find(name).filter(|_| !is_only_host);
        let what = match node.map(|node| self.running.fabric.node(node).kind) {
            None if is_only_host => "a host",
            None => "not in the lab",
            Some(NodeKind::RootComplex) => "a host",
            Some(NodeKind::Switch) => "a switch",
            Some(NodeKind::Endpoint) => {
                return Err(usage(format!(
                    "{option} {name}: {name} has no DMA engine: its part needs an `engine` \
                     table; `bench traffic` works with generic endpoints"
                )));
            }
        };
        let have = self.names.join(", ");
        Err(usage(format!(
            "{option} {name}: {name} is {what}; endpoints with a DMA engine are {have}"
        )))
    }

    fn too_few(&self, flows: u16) -> String {
        let (lab, count, names) = (self.lab.name(), self.names.len(), self.names.join(", "));
        format!("--flows {flows}: {lab} has {count} endpoints with a DMA engine: {names}")
    }

    fn single(&self) -> String {
        let (lab, only) = (self.lab.name(), self.names[0]);
        format!("--lab {lab}: two endpoints with a DMA engine are needed, and it has one, {only}")
    }

    fn same(&self, at: usize) -> String {
        let name = self.names[at];
        format!("--to {name}: {name} cannot move data to itself over PCI Express")
    }

    fn reversed(&self, first: usize, last: usize) -> String {
        let (from, to) = (self.names[first], self.names[last]);
        format!("--to {to}: the lab file has {to} before {from}")
    }
}

impl<'a> LabCards<'a> {
    /// Those of a lab.
    ///
    /// # Errors
    /// A lab without any.
    pub fn of(lab: &'a Lab, running: &'a RunningLab) -> Result<Self, CommandError> {
        let endpoints = lab.file().endpoints.iter();
        let with_engine = endpoints.filter(|endpoint| endpoint.part.engine.is_some());
        let names: Vec<&str> = with_engine.map(|endpoint| endpoint.name.as_str()).collect();
        if names.is_empty() {
            return Err(usage(format!(
                "--lab {}: no endpoint has a DMA engine: its part needs an `engine` table; \
                 `bench traffic` works with generic endpoints",
                lab.name()
            )));
        }
        Ok(Self { lab, running, names })
    }

    fn flow(&self, option: &str, cards: &[usize]) -> Result<FlowEnds, CommandError> {
        let names: Vec<&str> = cards.iter().map(|card| self.names[*card]).collect();
        let host = |name: &str| {
            let node = self.running.find(name).map(|node| self.running.fabric.node(node).host);
            let mut hosts = self.running.hosts.iter();
            hosts.find(|host| Some(host.id) == node).map_or("", |host| host.name.as_str())
        };
        if let Some(other) = names.iter().find(|name| host(name) != host(names[0])) {
            let (there, first, here) = (host(other), names[0], host(names[0]));
            return Err(usage(format!(
                "{option} {other}: it is in the tree of {there}, {first} in that of {here}"
            )));
        }
        Ok(FlowEnds::find(self.lab, self.running, &names)?)
    }

    fn check_host(&self, option: &str, host: &str, flow: &FlowEnds) -> Result<(), CommandError> {
        if host == flow.memory.name || (host == ONLY_HOST && self.running.hosts.len() == 1) {
            return Ok(());
        }
        let hosts: Vec<&str> = self.running.hosts.iter().map(|host| host.name.as_str()).collect();
        let card = &flow.cards[0].name;
        if hosts.contains(&host) {
            let own = &flow.memory.name;
            return Err(usage(format!("{option} {host}: {card} is in the tree of {own}")));
        }
        let hosts = hosts.join(", ");
        Err(usage(match self.running.find(host) {
            Some(_) => format!("{option} {host}: {host} is no host; the lab's are {hosts}"),
            None => format!("{option} {host}: {host} is not in the lab; its hosts are {hosts}"),
        }))
    }
}
