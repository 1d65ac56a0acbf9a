// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network links, to the right of the trees: from the adapter at one end to that at the other.

use std::collections::HashMap;

use crosslane_results::topology::Network;
use maud::{Markup, html};

use super::card::Card;
use super::layout::LABEL_WIDTH;
use crate::number::{latency_words, megabytes, pixels};

/// Space between the vertical lines of two links.
const PITCH: f64 = 14.0;
/// Radius of a corner.
const CORNER: f64 = 8.0;

/// Network links between cards that have been placed.
pub struct Networks<'a> {
    cables: Vec<Cable<'a>>,
    /// Place from which on there are no cards.
    left: f64,
}

/// A link, and the right ends of its two adapters.
struct Cable<'a> {
    network: &'a Network,
    ends: [(f64, f64); 2],
}

impl<'a> Networks<'a> {
    /// Finds the adapters of the links; `right` is the right end of all cards. A link without a
    /// card at both ends is left out.
    pub fn new(networks: &'a [Network], cards: &[Card<'_>], right: f64) -> Self {
        let mut places = HashMap::new();
        if !networks.is_empty() {
            cards.iter().for_each(|card| place(card, &mut places));
        }
        let end = |name: &str| places.get(name).copied();
        let cable = |network: &'a Network| {
            Some(Cable { network, ends: [end(&network.first)?, end(&network.second)?] })
        };
        Self { cables: networks.iter().filter_map(cable).collect(), left: right }
    }

    /// Returns the right end of the links, if there are any.
    pub fn right(&self) -> f64 {
        match self.cables.len() {
            0 => self.left,
            cables => self.left + LABEL_WIDTH + PITCH * cables as f64,
        }
    }

    /// Lists the links in words.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.cables.iter().map(|Cable { network, .. }| {
            format!("{} to {} by network: {}", network.first, network.second, rate(network))
        })
    }

    /// Draws the links.
    pub fn draw(&self) -> Markup {
        html! {
            @for (index, cable) in self.cables.iter().enumerate() {
                (self.cable(cable, self.left + LABEL_WIDTH + PITCH * index as f64))
            }
        }
    }

    /// Draws a link whose vertical line is at `x`.
    fn cable(&self, Cable { network, ends }: &Cable<'_>, x: f64) -> Markup {
        let [first, second] = *ends;
        let turn = CORNER.copysign(second.1 - first.1);
        let path = format!(
            "M{} {}H{}q{CORNER} 0 {CORNER} {}V{}q0 {} -{CORNER} {}H{}",
            pixels(first.0),
            pixels(first.1),
            pixels(x - CORNER),
            pixels(turn),
            pixels(second.1 - turn),
            pixels(turn),
            pixels(turn),
            pixels(second.0),
        );
        let title = format!(
            "{} to {}: payload {}, latency {}",
            network.first,
            network.second,
            megabytes(network.ceiling.payload_bytes_per_second),
            latency_words(network.latency_ns)
        );
        let label = |y: f64, far: &str| {
            html! {
                text.rate x=(pixels(self.left + 8.0)) y=(pixels(y - 6.0)) { "to " (far) }
                text.link-note x=(pixels(self.left + 8.0)) y=(pixels(y + 15.0)) { (rate(network)) }
            }
        };
        html! {
            path.network d=(path) { title { (title) } }
            (label(first.1, &network.second))
            (label(second.1, &network.first))
        }
    }
}

fn rate(network: &Network) -> String {
    format!("{}, {} B", megabytes(network.bytes_per_second), network.mtu_bytes)
}

/// Notes the right ends of a card and of all to its right, by their names.
fn place<'c>(card: &'c Card<'_>, places: &mut HashMap<&'c str, (f64, f64)>) {
    places.entry(&card.full_name).or_insert((card.left + card.width, card.middle()));
    card.links.iter().for_each(|(_, below)| place(below, places));
}
