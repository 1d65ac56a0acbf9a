// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree as a drawing: hosts at the left, endpoints at the right, every link with its rate and,
//! where it was counted, with the load of each direction.
//!
//! Read first: [`layout`], then [`draw()`].

mod draw;
mod layout;

use maud::{Markup, PreEscaped, html};

use self::draw::draw_card;
pub use self::draw::{draw_style, way_words};
#[cfg(test)]
use self::layout::Card;
use self::layout::{MARGIN, place_all};
use crate::number::pixels;
use crate::palette;
use crate::topology::{Topology, TopologyNode};

/// Height of a line of the notes above a drawing that stands alone, pixels.
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

/// Draws the trees for a page; `id` begins the ids of this drawing.
pub fn draw(topology: &Topology, id: &str) -> Drawing {
    let (cards, width, height) = place_all(topology, 2.0);
    let title = format!("{id}-title");
    let description = format!("{id}-description");
    let svg = html! {
        svg.tree role="img" width=(pixels(width)) height=(pixels(height))
            viewBox={ "0 0 " (pixels(width)) " " (pixels(height)) }
            aria-labelledby={ (title) " " (description) }
        {
            title id=(title) { (tree_title(topology)) }
            desc id=(description) { (words(topology)) }
            @for card in &cards { (draw_card(card)) }
        }
    };
    Drawing { width, svg }
}

/// Whether any link's load was counted.
pub fn has_loads(topology: &Topology) -> bool {
    fn below(node: &TopologyNode) -> bool {
        node.links.iter().any(|link| link.down.is_some() || link.up.is_some() || below(&link.below))
    }
    topology.hosts.iter().any(below)
}

fn tree_title(topology: &Topology) -> &str {
    if topology.title.is_empty() { "PCI Express tree" } else { &topology.title }
}

/// Every link in words.
fn words(topology: &Topology) -> String {
    fn walk(node: &TopologyNode, words: &mut Vec<String>) {
        for link in &node.links {
            words.push(format!("{} to {}: {}", node.name, link.below.name, link.rate));
            walk(&link.below, words);
        }
    }
    let mut all = Vec::new();
    for host in &topology.hosts {
        walk(host, &mut all);
    }
    if all.is_empty() { "No links.".to_owned() } else { all.join("; ") }
}

impl Topology {
    /// The trees as one SVG file that stands alone: nothing is fetched, fonts are those of the
    /// reader's system, colours follow the reader's choice of light or dark, text is escaped.
    /// `heading` and `notes` stand above the trees.
    #[must_use]
    pub fn to_svg(&self, heading: &str, notes: &[String]) -> String {
        let topology = crate::clean::topology(self);
        let heading = crate::clean::text(heading);
        let notes: Vec<String> = notes.iter().map(|note| crate::clean::text(note)).collect();
        let top = MARGIN + TITLE_HEIGHT + NOTE_HEIGHT * notes.len() as f64 + 10.0;
        let (cards, width, height) = place_all(&topology, top);
        let widest = notes.iter().map(|note| note.chars().count()).max().unwrap_or(0);
        let width = width.max(2.0 * MARGIN + widest as f64 * NOTE_CHARACTER);
        let size = format!("0 0 {} {}", pixels(width), pixels(height));
        let markup = html! {
            svg xmlns="http://www.w3.org/2000/svg" class="tree" role="img" viewBox=(size)
                width=(pixels(width)) height=(pixels(height))
            {
                title { (heading) }
                desc { (words(&topology)) }
                style { (PreEscaped(standing_style())) }
                rect.page width=(pixels(width)) height=(pixels(height)) {}
                text.heading x=(MARGIN) y=(MARGIN + 18.0) { (heading) }
                @for (index, note) in notes.iter().enumerate() {
                    @let y = MARGIN + TITLE_HEIGHT + 6.0 + NOTE_HEIGHT * index as f64;
                    text.link-note x=(MARGIN) y=(y) { (note) }
                }
                @for card in &cards { (draw_card(card)) }
            }
        };
        let mut svg = markup.into_string();
        svg.push('\n');
        svg
    }
}

/// The style of a drawing that stands alone, for light pages and for dark ones.
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

/// The cards of a topology, for the tests of its layout.
#[cfg(test)]
fn cards(topology: &Topology) -> Vec<Card<'_>> {
    place_all(topology, 0.0).0
}

#[cfg(test)]
mod tests;
