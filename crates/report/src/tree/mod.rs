// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree as a drawing: hosts at the left, endpoints at the right, every link with its rate and, if
//! counted, the load of each direction.
//!
//! Read first: [`card`], then [`layout`], [`draw()`] and [`network`].

mod card;
mod draw;
mod layout;
mod network;

use crosslane_results::DirectionLoad;
use crosslane_results::quantity::count_words;
use crosslane_results::topology::{FunctionKind, Network, Topology};
use maud::{Markup, PreEscaped, html};

pub use self::card::{Card, cards};
use self::draw::draw_card;
pub use self::draw::{draw_style, way_words};
pub use self::layout::has_loads;
use self::layout::{MARGIN, place};
use self::network::Networks;
use crate::clean;
use crate::number::pixels;
use crate::palette;

/// Height of a line of notes above a stand-alone drawing, pixels.
const NOTE_HEIGHT: f64 = 17.0;
/// Height of its title.
const TITLE_HEIGHT: f64 = 34.0;
/// Average width of a note's character.
const NOTE_CHARACTER: f64 = 6.1;

/// A drawing and its size, pixels.
pub struct Drawing {
    /// Width.
    pub width: f64,
    /// The SVG.
    pub svg: Markup,
}

/// Draws cards and the network links between them for a page; `id` begins the ids of this drawing.
pub fn draw(mut cards: Vec<Card<'_>>, networks: &[Network], heading: &str, id: &str) -> Drawing {
    let (width, height) = place(&mut cards, 2.0);
    let networks = Networks::new(networks, &cards, width);
    let width = networks.right();
    let heading = if heading.is_empty() { "PCI Express tree" } else { heading };
    let title = format!("{id}-title");
    let description = format!("{id}-description");
    let svg = html! {
        svg.tree role="img" width=(pixels(width)) height=(pixels(height))
            viewBox={ "0 0 " (pixels(width)) " " (pixels(height)) }
            aria-labelledby={ (title) " " (description) }
        {
            title id=(title) { (heading) }
            desc id=(description) { (words(&cards, &networks)) }
            @for card in &cards { (draw_card(card)) }
            (networks.draw())
        }
    };
    Drawing { width, svg }
}

/// Lists every link in words.
fn words(cards: &[Card<'_>], networks: &Networks<'_>) -> String {
    fn walk(card: &Card<'_>, words: &mut Vec<String>) {
        for (link, below) in &card.links {
            words.push(format!("{} to {}: {}", card.full_name, below.full_name, link.rate));
            walk(below, words);
        }
    }
    let mut all = Vec::new();
    cards.iter().for_each(|card| walk(card, &mut all));
    all.extend(networks.words());
    if all.is_empty() { "No links.".to_owned() } else { all.join("; ") }
}

/// Draws a topology as one stand-alone SVG file: nothing is fetched, fonts are those of the
/// reader's system, colours follow the reader's choice of light or dark, text is escaped.
pub fn topology_svg(topology: &Topology) -> String {
    loaded_svg(topology, &[])
}

/// Draws a topology like [`topology_svg`], with the loads of its links in a run.
pub fn loaded_svg(topology: &Topology, loads: &[DirectionLoad]) -> String {
    let heading = format!("Lab {}", topology.lab);
    let note = match loads {
        [] => {
            "Under each link: payload ceiling of one direction with 3 DW headers, less SKP, \
             without DLLPs (1 MB/s = 1000000 bytes a second)"
        }
        _ => "Beside each link: the time for which each direction was busy",
    };
    let notes = [counts(topology), note.to_owned()];
    let top = MARGIN + TITLE_HEIGHT + NOTE_HEIGHT * notes.len() as f64 + 10.0;
    let mut cards = cards(topology, loads);
    let (width, height) = place(&mut cards, top);
    let networks = Networks::new(&topology.networks, &cards, width);
    let widest = notes.iter().map(|note| note.chars().count()).max().unwrap_or(0);
    let width = networks.right().max(2.0 * MARGIN + widest as f64 * NOTE_CHARACTER);
    let size = format!("0 0 {} {}", pixels(width), pixels(height));
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="tree" role="img" viewBox=(size)
            width=(pixels(width)) height=(pixels(height))
        {
            title { (heading) }
            desc { (words(&cards, &networks)) }
            style { (PreEscaped(standing_style())) }
            rect.page width=(pixels(width)) height=(pixels(height)) {}
            text.heading x=(MARGIN) y=(MARGIN + 18.0) { (heading) }
            @for (index, note) in notes.iter().enumerate() {
                @let y = MARGIN + TITLE_HEIGHT + 6.0 + NOTE_HEIGHT * index as f64;
                text.link-note x=(MARGIN) y=(y) { (note) }
            }
            @for card in &cards { (draw_card(card)) }
            (networks.draw())
        }
    };
    let mut svg = clean::text(&markup.into_string());
    svg.push('\n');
    svg
}

/// Draws a topology for a page that has [`page_style`](crate::page_style) and acts on it: each card
/// has its node's name in `data-node`, and each link that of the node below in `data-below`. Loads
/// are drawn if there are any.
pub fn page_svg(topology: &Topology, loads: &[DirectionLoad]) -> String {
    let cards = cards(topology, loads).into_iter().map(Card::with_names).collect();
    let heading = format!("Lab {}", topology.lab);
    let drawing = draw(cards, &topology.networks, &heading, "tree");
    clean::text(&drawing.svg.into_string())
}

fn counts(topology: &Topology) -> String {
    let of = |kind| topology.functions().filter(|function| function.kind == kind).count();
    format!(
        "{}, {}, {}",
        count_words(topology.hosts.len(), "host", "hosts"),
        count_words(of(FunctionKind::UpstreamPort), "switch", "switches"),
        count_words(of(FunctionKind::Endpoint), "endpoint", "endpoints"),
    )
}

/// Returns the style of a stand-alone drawing, for light pages and for dark ones.
fn standing_style() -> String {
    let style = format!(
        "text {{ font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', \
         sans-serif; }}\n.page {{ fill: var(--page); }}\n\
         .heading {{ font-size: 20px; font-weight: 600; fill: var(--ink); }}\n{}",
        draw_style()
    );
    format!(
        "\n{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        palette::resolve(&style, false),
        palette::resolve(&style, true)
    )
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
