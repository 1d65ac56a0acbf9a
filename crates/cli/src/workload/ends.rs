// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of the command line, looked up: who moves data, and to whom.

use crosslane_bench::{End, FlowEnds};
use crosslane_fabric::NodeKind;
use crosslane_lab::{Lab, RunningHost, RunningLab};

use crate::error::CommandError;

/// What the host may be called in a lab that has only one.
const ONLY_HOST: &str = "host";

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
    /// Where it has none.
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
    pub fn with_host(
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
    pub fn pairs(
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
    pub fn row(&self, from: Option<&str>, to: Option<&str>) -> Result<FlowEnds, CommandError> {
        let first = from.map_or(Ok(0), |name| self.position("--from", name))?;
        let last = to.map_or(Ok(self.names.len() - 1), |name| self.position("--to", name))?;
        if last < first {
            let (from, to) = (self.names[first], self.names[last]);
            return Err(usage(format!("--to {to}: the lab file has {to} before {from}")));
        }
        self.ends("--to", (first..=last).map(|position| self.end(position)).collect())
    }
}
