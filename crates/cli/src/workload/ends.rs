// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of flows, looked up by their names on the command line.

use crosslane::experiment::{End, FlowEnds};
use crosslane::fabric::NodeKind;
use crosslane::lab::{Lab, RunningHost, RunningLab};
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

impl Ends<'_> {
    /// Looks the names up in a lab. `first` and `last` are the cards that `--device` names.
    ///
    /// # Errors
    /// A name of nothing of the kind, more flows than cards, a card to itself, or an order that is
    /// not the lab file's.
    pub fn in_lab(
        &self,
        cards: &Cards<'_>,
        first: Option<&str>,
        last: Option<&str>,
    ) -> Result<Vec<FlowEnds>, CommandError> {
        match *self {
            Self::WithHost { options, host, card, flows } => {
                cards.with_host(options, host, card.or(first), flows)
            }
            Self::Pairs { from, to, flows } => cards.pairs(from.or(first), to.or(last), flows),
            Self::Row { from, to } => Ok(vec![cards.row(from.or(first), to.or(last))?]),
        }
    }

    /// Looks the names up among cards that are opened by name: returns the places of each flow's
    /// cards among them, in the order of its data.
    ///
    /// # Errors
    /// A name of none of the cards, more flows than cards, a card to itself, or an order that is
    /// not that of `--device`.
    pub fn on_cards(&self, names: &[DeviceName]) -> Result<Vec<Vec<usize>>, CommandError> {
        let count = names.len();
        let position = |option: &str, name: &str| {
            let wanted = name.parse::<DeviceName>().ok();
            let found = names.iter().position(|card| Some(card) == wanted.as_ref());
            found.ok_or_else(|| {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                usage(format!("{option} {name}: the cards are {}", names.join(", ")))
            })
        };
        let from_or =
            |from: Option<&str>, other| from.map_or(Ok(other), |name| position("--from", name));
        let to_or = |to: Option<&str>, other| to.map_or(Ok(other), |name| position("--to", name));
        let check_count = |flows: u16| match usize::from(flows) <= count {
            true => Ok(()),
            false => Err(usage(format!("--flows {flows}: --device names {count}"))),
        };
        match *self {
            Self::WithHost { host, card, flows, .. } => {
                if let Some(host) = host.filter(|host| *host != ONLY_HOST) {
                    return Err(usage(format!(
                        "{host} is not the host that the cards are in: `host` is"
                    )));
                }
                let first = card.map_or(Ok(0), |name| position("--from or --to", name))?;
                check_count(flows)?;
                Ok((0..usize::from(flows)).map(|flow| vec![(first + flow) % count]).collect())
            }
            Self::Pairs { from, to, flows } => {
                if count < 2 {
                    return Err(usage("two cards are needed: --device names one".to_owned()));
                }
                let first = from_or(from, 0)?;
                let second = to_or(to, first + 1)?;
                check_count(flows)?;
                if first % count == second % count {
                    let name = &names[first % count];
                    return Err(usage(format!("--to {name}: it cannot move data to itself")));
                }
                let pair = |flow: usize| vec![(first + flow) % count, (second + flow) % count];
                Ok((0..usize::from(flows)).map(pair).collect())
            }
            Self::Row { from, to } => {
                let (first, last) = (from_or(from, 0)?, to_or(to, count - 1)?);
                if last < first {
                    return Err(usage(format!("--to {}: it stands before --from", names[last])));
                }
                Ok(vec![(first..=last).collect()])
            }
        }
    }
}

/// The endpoints with engines of a lab, in the order of the lab file.
pub struct Cards<'a> {
    lab: &'a Lab,
    running: &'a RunningLab,
    names: Vec<&'a str>,
}

fn usage(sentence: String) -> CommandError {
    CommandError::Usage(sentence)
}

impl<'a> Cards<'a> {
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

    /// Position of a card; `option` and `name` are as the user wrote them.
    fn position(&self, option: &str, name: &str) -> Result<usize, CommandError> {
        if let Some(position) = self.names.iter().position(|card| *card == name) {
            return Ok(position);
        }
        let have = self.names.join(", ");
        let is_only_host = name == ONLY_HOST && self.running.hosts.len() == 1;
        let Some(node) = self.running.find(name).filter(|_| !is_only_host) else {
            let what = if is_only_host { "a host" } else { "not in the lab" };
            return Err(usage(format!(
                "{option} {name}: {name} is {what}; endpoints with a DMA engine are {have}"
            )));
        };
        let what = match self.running.fabric.node(node).kind {
            NodeKind::RootComplex => "a host",
            NodeKind::Switch => "a switch",
            NodeKind::Endpoint => {
                return Err(usage(format!(
                    "{option} {name}: {name} has no DMA engine: its part needs an `engine` \
                     table; `bench traffic` works with generic endpoints"
                )));
            }
        };
        Err(usage(format!(
            "{option} {name}: {name} is {what}; endpoints with a DMA engine are {have}"
        )))
    }

    fn end(&self, position: usize) -> End {
        let name = self.names[position % self.names.len()];
        let node = self.running.find(name).expect("a lab that was built has its endpoints");
        End { name: name.to_owned(), node }
    }

    fn host_of(&self, card: &End) -> (usize, &RunningHost) {
        let host = self.running.fabric.node(card.node).host;
        let mut hosts = self.running.hosts.iter().enumerate();
        hosts.find(|(_, other)| other.id == host).expect("every endpoint has its host")
    }

    fn ends(&self, option: &str, cards: Vec<End>) -> Result<FlowEnds, CommandError> {
        let (index, host) = self.host_of(&cards[0]);
        for card in &cards[1..] {
            let (other, there) = self.host_of(card);
            if other != index {
                return Err(usage(format!(
                    "{option} {}: it is in the tree of {}, {} in that of {}",
                    card.name, there.name, cards[0].name, host.name
                )));
            }
        }
        let memory = End { name: host.name.clone(), node: host.root_complex };
        Ok(FlowEnds { host: index, memory, cards })
    }

    /// Flows between host memory and so many cards from one on; `options` are those of the host
    /// and of the card. Each card moves data with its own host; one that is named has to be it.
    ///
    /// # Errors
    /// A name that is not one of the kind, or more flows than cards.
    fn with_host(
        &self,
        options: (&str, &str),
        host: Option<&str>,
        card: Option<&str>,
        flows: u16,
    ) -> Result<Vec<FlowEnds>, CommandError> {
        let first = card.map_or(Ok(0), |name| self.position(options.1, name))?;
        self.check_count(flows)?;
        let mut ends = Vec::new();
        for offset in 0..usize::from(flows) {
            let flow = self.ends(options.1, vec![self.end(first + offset)])?;
            if let Some(host) = host {
                self.check_host(options.0, host, &flow)?;
            }
            ends.push(flow);
        }
        Ok(ends)
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

    fn check_count(&self, flows: u16) -> Result<(), CommandError> {
        if usize::from(flows) <= self.names.len() {
            return Ok(());
        }
        Err(usage(format!(
            "--flows {flows}: {} has {} endpoints with a DMA engine: {}",
            self.lab.name(),
            self.names.len(),
            self.names.join(", ")
        )))
    }

    /// So many flows from card to card, both going on in the order of the lab file.
    ///
    /// # Errors
    /// A name that is not a card's, a card to itself, or more flows than cards.
    fn pairs(
        &self,
        from: Option<&str>,
        to: Option<&str>,
        flows: u16,
    ) -> Result<Vec<FlowEnds>, CommandError> {
        let first = from.map_or(Ok(0), |name| self.position("--from", name))?;
        let target = to.map_or(Ok(first + 1), |name| self.position("--to", name))?;
        if let [only] = self.names[..] {
            return Err(usage(format!(
                "--lab {}: two endpoints with a DMA engine are needed, and it has one, {only}",
                self.lab.name()
            )));
        }
        self.check_count(flows)?;
        let (source, target_name) = (self.end(first), self.end(target));
        if source == target_name {
            let name = source.name;
            return Err(usage(format!(
                "--to {name}: {name} cannot move data to itself over PCI Express"
            )));
        }
        (0..usize::from(flows))
            .map(|offset| {
                self.ends("--to", vec![self.end(first + offset), self.end(target + offset)])
            })
            .collect()
    }

    /// The cards from one to another.
    ///
    /// # Errors
    /// A name that is not a card's, or an order that is not the lab file's.
    fn row(&self, from: Option<&str>, to: Option<&str>) -> Result<FlowEnds, CommandError> {
        let first = from.map_or(Ok(0), |name| self.position("--from", name))?;
        let last = to.map_or(Ok(self.names.len() - 1), |name| self.position("--to", name))?;
        if last < first {
            let (from, to) = (self.names[first], self.names[last]);
            return Err(usage(format!("--to {to}: the lab file has {to} before {from}")));
        }
        self.ends("--to", (first..=last).map(|position| self.end(position)).collect())
    }
}
