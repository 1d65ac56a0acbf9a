// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards of a drawing: hosts, switches and endpoints with their texts, made from a topology.

use std::collections::HashMap;
use std::fmt::Write as _;

use crosslane_results::DirectionLoad;
use crosslane_results::quantity::size_words;
use crosslane_results::topology::{Function, FunctionKind, Host, Link, Topology};

use crate::number::megabytes;
use crate::text::shortened;

/// Most characters of a card's name and of its detail: a longer text ends with an ellipsis.
pub const MOST_CHARACTERS: usize = 56;

/// A host, switch or endpoint, and the cards that are linked to its right.
pub struct Card<'a> {
    /// Class of its style.
    pub class: &'static str,
    /// Name of the node in full.
    pub full_name: String,
    /// Detail of the node in full; may be empty.
    pub full_detail: String,
    /// Name of the node as drawn.
    pub name: String,
    /// Detail of the node as drawn.
    pub detail: String,
    /// Cards to its right, each with the link to it.
    pub links: Vec<(CardLink<'a>, Self)>,
    /// Names of ports with nothing below them.
    pub empty_ports: Vec<String>,
    /// Whether the drawing names nodes in attributes, for pages that act on it.
    pub is_named: bool,
    /// Left end, pixels.
    pub left: f64,
    /// Upper end, pixels.
    pub top: f64,
    /// Width, pixels.
    pub width: f64,
    /// Height, pixels.
    pub height: f64,
}

/// A link between two cards.
pub struct CardLink<'a> {
    /// Name of the link; empty, like those of its ports, if loads are drawn.
    pub name: String,
    /// The port at its upper end.
    pub upper: String,
    /// The port at its lower end.
    pub lower: String,
    /// `Gen2 x4`.
    pub rate: String,
    /// Rate of one direction after encoding: sets the thickness of a link without a load.
    pub raw_bytes_per_second: f64,
    /// Words under a link without a load; may be empty.
    pub note: String,
    /// Load towards the endpoint.
    pub down: Option<&'a DirectionLoad>,
    /// Load towards the host.
    pub up: Option<&'a DirectionLoad>,
}

/// Loads by their direction: `fpga1 -> sw1.p1`.
struct Loads<'a>(HashMap<&'a str, &'a DirectionLoad>);

/// Makes the cards of all hosts.
pub fn cards<'a>(topology: &Topology, loads: &'a [DirectionLoad]) -> Vec<Card<'a>> {
    let loads = loads.iter().rev().map(|load| (load.direction.as_str(), load)).collect();
    let loads = Loads(loads);
    topology.hosts.iter().map(|host| loads.host(host)).collect()
}

fn card(class: &'static str, name: &str, detail: &str) -> Card<'static> {
    Card {
        class,
        name: shortened(name, MOST_CHARACTERS),
        detail: shortened(detail, MOST_CHARACTERS),
        full_name: name.to_owned(),
        full_detail: detail.to_owned(),
        links: Vec::new(),
        empty_ports: Vec::new(),
        is_named: false,
        left: 0.0,
        top: 0.0,
        width: 0.0,
        height: 0.0,
    }
}

impl Card<'_> {
    /// Has the drawing name this node and those below it in attributes.
    pub fn with_names(mut self) -> Self {
        self.is_named = true;
        self.links = self.links.into_iter().map(|(link, it)| (link, it.with_names())).collect();
        self
    }

    /// Returns the name for an attribute, if the drawing has such.
    pub fn attribute(&self) -> Option<&str> {
        self.is_named.then_some(&*self.full_name)
    }
}

impl<'a> Loads<'a> {
    /// Returns whether names of ports, details and notes are drawn.
    fn is_detailed(&self) -> bool {
        self.0.is_empty()
    }

    fn host(&self, host: &Host) -> Card<'a> {
        let detail = format!("{} of memory", size_words(host.memory_bytes));
        self.with_ports(card("host", &host.name, &detail), &host.functions)
    }

    /// Adds the links of its ports to a card.
    fn with_ports(&self, mut card: Card<'a>, ports: &[Function]) -> Card<'a> {
        for port in ports {
            let below = port.children.first();
            match below.and_then(|child| Some((child, child.link.as_ref()?))) {
                Some((child, link)) => card.links.push((self.link(link), self.function(child))),
                None if self.is_detailed() => card.empty_ports.push(port.port.clone()),
                None => {}
            }
        }
        card
    }

    fn link(&self, link: &Link) -> CardLink<'a> {
        let load = |from: &str, to: &str| self.0.get(format!("{from} -> {to}").as_str()).copied();
        let payload = megabytes(link.ceiling.payload_3dw_bytes_per_second);
        let note = format!("{payload} at {} B", link.payload_bytes);
        let detail =
            |words: &str| if self.is_detailed() { words.to_owned() } else { String::new() };
        CardLink {
            name: detail(&link.name),
            upper: detail(&link.upper),
            lower: detail(&link.lower),
            rate: link.rate(),
            raw_bytes_per_second: link.ceiling.raw_bytes_per_second,
            note: detail(&note),
            down: load(&link.upper, &link.lower),
            up: load(&link.lower, &link.upper),
        }
    }

    fn function(&self, function: &Function) -> Card<'a> {
        let (node, mut detail) = (&function.node, function.address.clone());
        if function.kind == FunctionKind::Endpoint {
            for bar in &function.bars {
                let _ = write!(detail, ", BAR{} {}", bar.index, size_words(bar.size_bytes));
            }
            return card("endpoint", node, if self.is_detailed() { &detail } else { "" });
        }
        match (function.secondary_bus, function.subordinate_bus) {
            (Some(secondary), Some(subordinate)) if self.is_detailed() => {
                let _ = write!(detail, ", buses {secondary:02x}-{subordinate:02x}");
            }
            _ => detail.clear(),
        }
        self.with_ports(card("switch", node, &detail), &function.children)
    }
}
