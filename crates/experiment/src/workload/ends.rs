// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of a workload's flows, looked up by their names: in a lab, or among opened cards.

use crosslane_fabric::{NodeId, NodeKind};
use crosslane_lab::{Lab, RunningLab};

use crate::error::{ExperimentError, Result};

/// One end of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Name in the lab.
    pub name: String,
    /// The node.
    pub node: NodeId,
}

/// The ends of a flow, in the tree of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEnds {
    /// Index of the host.
    pub host: usize,
    /// The host's own end.
    pub memory: End,
    /// The endpoint that data leave, or which reads; of a chain, all of them in order.
    pub cards: Vec<End>,
}

impl FlowEnds {
    /// The ends with these endpoints, and the host in whose tree they are.
    ///
    /// # Errors
    /// A name that is not that of an endpoint with a DMA engine, no name at all, or endpoints that
    /// are in different trees.
    pub fn find(lab: &Lab, running: &RunningLab, cards: &[&str]) -> Result<Self> {
        let refused = |problem: String| ExperimentError::refused(cards.join(" -> "), problem);
        let mut found = Vec::new();
        for card in cards {
            let mut endpoints = lab.file().endpoints.iter();
            let endpoint = endpoints.find(|endpoint| endpoint.name == *card);
            let has_engine = endpoint.is_some_and(|endpoint| endpoint.part.engine.is_some());
            let node = running.find(card).filter(|_| has_engine);
            let node = node.ok_or_else(|| {
                refused(format!("{card} is no endpoint with a DMA engine of {}", lab.name()))
            })?;
            found.push(End { name: (*card).to_owned(), node });
        }
        let mut hosts = found.iter().map(|end| running.fabric.node(end.node).host);
        let Some(id) = hosts.next() else {
            return Err(refused("a flow needs an endpoint".to_owned()));
        };
        if hosts.any(|other| other != id) {
            return Err(refused("they are in the trees of different hosts".to_owned()));
        }
        let mut hosts = running.hosts.iter().enumerate();
        let (host, there) =
            hosts.find(|(_, host)| host.id == id).expect("every endpoint has its host");
        let memory = End { name: there.name.clone(), node: there.root_complex };
        Ok(Self { host, memory, cards: found })
    }
}

/// Name of the host of a lab that has only one, and of cards.
const ONLY_HOST: &str = "host";

/// Ends of a workload's flows, as they are named; errors call them by the options of `crosslane
/// bench`.
#[derive(Clone, Copy, Debug)]
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
        /// Number of flows, or of pairs of cards that move data both ways.
        flows: u16,
        /// Whether each flow has another one back beside it.
        both_ways: bool,
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
struct Cards<'a> {
    names: &'a [&'a str],
    /// Whether a card has a name.
    is_card: fn(&str, &str) -> bool,
    lab: Option<(&'a Lab, &'a RunningLab)>,
}

impl Ends<'_> {
    /// Looks the names up. Returns the positions of each flow's cards, in the order of its data.
    fn chosen(&self, cards: &Cards<'_>) -> Result<Vec<Vec<usize>>> {
        let count = cards.names.len();
        let named = |option: &str, name: Option<&str>, other: usize| {
            name.map_or(Ok(other), |name| cards.position(option, name))
        };
        let check_count = |flows: u16| match usize::from(flows) <= count {
            true => Ok(()),
            false => Err(cards.too_few(flows)),
        };
        match *self {
            Self::WithHost { options, card, flows, .. } => {
                let first = named(options.1, card, 0)?;
                check_count(flows)?;
                Ok((0..usize::from(flows)).map(|flow| vec![(first + flow) % count]).collect())
            }
            Self::Pairs { from, to, flows, both_ways } => {
                let first = named("--from", from, 0)?;
                let second = named("--to", to, first + 1)?;
                if count < 2 {
                    return Err(cards.single());
                }
                check_count(flows)?;
                if first % count == second % count {
                    let name = cards.names[first % count];
                    let problem = format!("{name} cannot move data to itself over PCI Express");
                    return Err(ExperimentError::refused(format!("--to {name}"), problem));
                }
                let pair = |flow: usize| [(first + flow) % count, (second + flow) % count];
                let there_and_back = |flow: usize| {
                    let [from, to] = pair(flow);
                    let back = both_ways.then(|| vec![to, from]);
                    std::iter::once(vec![from, to]).chain(back)
                };
                Ok((0..usize::from(flows)).flat_map(there_and_back).collect())
            }
            Self::Row { from, to } => {
                let (first, last) = (named("--from", from, 0)?, named("--to", to, count - 1)?);
                if last < first {
                    let (from, to) = (cards.names[first], cards.names[last]);
                    let order = cards.lab.map_or("--device names", |_| "the lab file has");
                    let problem = format!("{order} {to} before {from}");
                    return Err(ExperimentError::refused(format!("--to {to}"), problem));
                }
                Ok(vec![(first..=last).collect()])
            }
        }
    }

    /// Looks the names up in a lab. `devices` are the names of cards to be taken where the ends
    /// name none.
    ///
    /// # Errors
    /// A name that nothing of the kind has, more flows than cards, a card to itself, or an order
    /// that is not the lab file's.
    pub fn in_lab(
        self,
        (lab, running): (&Lab, &RunningLab),
        devices: &[Option<String>],
    ) -> Result<Vec<FlowEnds>> {
        let device = |at: usize| devices.get(at).and_then(Option::as_deref);
        let first = device(0);
        let last = (devices.len() > 1).then(|| device(devices.len() - 1)).flatten();
        let ends = match self {
            Self::WithHost { options, host, card, flows } => {
                Ends::WithHost { options, host, card: card.or(first), flows }
            }
            Self::Pairs { from, to, flows, both_ways } => {
                Ends::Pairs { from: from.or(first), to: to.or(last), flows, both_ways }
            }
            Self::Row { from, to } => Ends::Row { from: from.or(first), to: to.or(last) },
        };
        let (option, host) = match self {
            Self::WithHost { options, host, .. } => (options.1, host.map(|host| (options.0, host))),
            _ => ("--to", None),
        };
        let names = lab.endpoints_with(|part| part.engine.is_some());
        if names.is_empty() {
            let problem = "no endpoint has a DMA engine: its part needs an `engine` table; `bench \
                           traffic` works with generic endpoints";
            return Err(ExperimentError::refused(format!("--lab {}", lab.name()), problem));
        }
        let is_card = |card: &str, name: &str| card == name;
        let cards = Cards { names: &names, is_card, lab: Some((lab, running)) };
        let flow = |flow: Vec<usize>| {
            let names: Vec<&str> = flow.iter().map(|card| names[*card]).collect();
            check_tree(running, option, &names)?;
            let flow = FlowEnds::find(lab, running, &names)?;
            host.map_or(Ok(()), |(option, host)| check_host(running, option, host, &flow))?;
            Ok(flow)
        };
        ends.chosen(&cards)?.into_iter().map(flow).collect()
    }

    /// Looks the names up among cards that are opened by name: returns the places of each flow's
    /// cards among them, in the order of its data. `is_card` says whether a card has a name.
    ///
    /// # Errors
    /// A name that no card has, more flows than cards, a card to itself, or an order that is not
    /// theirs.
    pub fn on_cards(
        self,
        names: &[String],
        is_card: fn(&str, &str) -> bool,
    ) -> Result<Vec<Vec<usize>>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let cards = Cards { names: &names, is_card, lab: None };
        match self {
            Self::WithHost { host: Some(host), .. } if host != ONLY_HOST => {
                let problem = "this is not the host that the cards are in; `host` is";
                Err(ExperimentError::refused(host, problem))
            }
            Self::WithHost { card, flows, .. } => {
                let options = ("", "--from or --to");
                Ends::WithHost { options, host: None, card, flows }.chosen(&cards)
            }
            _ => self.chosen(&cards),
        }
    }
}

impl Cards<'_> {
    /// Returns the position of a card; `option` and `name` are as the user wrote them.
    fn position(&self, option: &str, name: &str) -> Result<usize> {
        let found = self.names.iter().position(|card| (self.is_card)(card, name));
        found.ok_or_else(|| {
            let problem = match self.lab {
                Some((_, running)) => no_engine(running, name, self.names),
                None => format!("the cards are {}", self.names.join(", ")),
            };
            ExperimentError::refused(format!("{option} {name}"), problem)
        })
    }

    fn too_few(&self, flows: u16) -> ExperimentError {
        let (count, names) = (self.names.len(), self.names.join(", "));
        let problem = match self.lab {
            Some((lab, _)) => {
                format!("{} has {count} endpoints with a DMA engine: {names}", lab.name())
            }
            None => format!("--device names {count}"),
        };
        ExperimentError::refused(format!("--flows {flows}"), problem)
    }

    fn single(&self) -> ExperimentError {
        let Some((lab, _)) = self.lab else {
            return ExperimentError::refused("two cards are needed", "--device names one");
        };
        let only = self.names[0];
        let problem = format!("two endpoints with a DMA engine are needed, and it has one, {only}");
        ExperimentError::refused(format!("--lab {}", lab.name()), problem)
    }
}

/// Returns the reason for which a name is not that of an endpoint with an engine.
fn no_engine(running: &RunningLab, name: &str, cards: &[&str]) -> String {
    let is_only_host = name == ONLY_HOST && running.hosts.len() == 1;
    let node = running.find(name).filter(|_| !is_only_host);
    let what = match node.map(|node| running.fabric.node(node).kind) {
        Some(NodeKind::Endpoint) => {
            return format!(
                "{name} has no DMA engine: its part needs an `engine` table; `bench traffic` works \
                 with generic endpoints"
            );
        }
        None if !is_only_host => "not in the lab",
        None | Some(NodeKind::RootComplex) => "a host",
        Some(NodeKind::Switch) => "a switch",
    };
    format!("{name} is {what}; endpoints with a DMA engine are {}", cards.join(", "))
}

/// Rejects endpoints of different trees.
fn check_tree(running: &RunningLab, option: &str, names: &[&str]) -> Result<()> {
    let host = |name: &str| {
        let id = running.find(name).map(|node| running.fabric.node(node).host);
        let mut hosts = running.hosts.iter();
        hosts.find(|host| Some(host.id) == id).map_or("", |host| host.name.as_str())
    };
    let (first, here) = (names[0], host(names[0]));
    match names.iter().find(|name| host(name) != here) {
        None => Ok(()),
        Some(other) => {
            let there = host(other);
            let problem = format!("it is in the tree of {there}, {first} in that of {here}");
            Err(ExperimentError::refused(format!("{option} {other}"), problem))
        }
    }
}

/// Rejects a host in whose tree a flow is not.
fn check_host(running: &RunningLab, option: &str, host: &str, flow: &FlowEnds) -> Result<()> {
    if host == flow.memory.name || (host == ONLY_HOST && running.hosts.len() == 1) {
        return Ok(());
    }
    let hosts: Vec<&str> = running.hosts.iter().map(|host| host.name.as_str()).collect();
    let problem = match running.find(host) {
        _ if hosts.contains(&host) => {
            format!("{} is in the tree of {}", flow.cards[0].name, flow.memory.name)
        }
        Some(_) => format!("{host} is no host; the lab's are {}", hosts.join(", ")),
        None => format!("{host} is not in the lab; its hosts are {}", hosts.join(", ")),
    };
    Err(ExperimentError::refused(format!("{option} {host}"), problem))
}
