// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places the cards of a tree: columns from hosts to endpoints, each as wide as its widest card; a
//! card is centred on the cards that are linked to its right.

use super::card::{Card, CardLink, MOST_CHARACTERS};

/// Space around the drawing, pixels.
pub const MARGIN: f64 = 28.0;
/// Width of a link between two cards: a bend, and a straight part with its label.
pub const LINK_WIDTH: f64 = 212.0;
/// Width of that straight part.
pub const LABEL_WIDTH: f64 = 158.0;
/// Height of a card that has no links to its right.
const CARD_HEIGHT: f64 = 52.0;
/// Space between two cards, one above the other.
const CARD_GAP: f64 = 14.0;
/// Added between labels of three lines, and above the first.
const LOADED_GAP: f64 = 12.0;
/// Least height of each port on a card's right edge.
const PORT_PITCH: f64 = 22.0;
/// Space between the trees of two hosts.
const HOST_GAP: f64 = 36.0;
/// Average width of a character of a card's text, pixels, and margin at both sides.
const CHARACTER_WIDTH: f64 = 7.6;
pub const CARD_PADDING: f64 = 14.0;
/// Narrowest card.
const CARD_MIN_WIDTH: f64 = 96.0;
/// Height of a line below a card: an empty port.
pub const EMPTY_HEIGHT: f64 = 18.0;
/// Words after the port's name, and the average width of its characters.
pub const EMPTY_WORD: &str = ", empty";
const EMPTY_CHARACTER: f64 = 6.6;

impl Card<'_> {
    pub fn middle(&self) -> f64 {
        self.top + self.height / 2.0
    }

    /// Returns the position of a port, from the top of the drawing.
    pub fn port_y(&self, index: usize) -> f64 {
        self.top + self.height / (self.links.len() as f64 + 1.0) * (index as f64 + 1.0)
    }

    /// Returns the lower end of the card and of the empty ports below it.
    fn bottom(&self) -> f64 {
        self.top + self.height + EMPTY_HEIGHT * self.empty_ports.len() as f64
    }

    /// Returns the width of its text.
    fn own_width(&self) -> f64 {
        // The detail is about a sixth smaller than the name.
        let name = self.name.chars().count() as f64;
        let detail = self.detail.chars().count() as f64 * 0.84;
        (name.max(detail) * CHARACTER_WIDTH + 2.0 * CARD_PADDING).max(CARD_MIN_WIDTH)
    }

    /// Finds the widest card of each column from here on.
    fn measure(&self, column: usize, widths: &mut Vec<f64>) {
        if widths.len() <= column {
            widths.push(0.0);
        }
        widths[column] = widths[column].max(self.own_width());
        for (_, card) in &self.links {
            card.measure(column + 1, widths);
        }
    }

    /// Places the card and everything to its right, the topmost at `top`; returns the next free
    /// position.
    fn place(&mut self, column: usize, columns: &[(f64, f64)], gap: f64, top: f64) -> f64 {
        (self.left, self.width) = columns[column];
        self.height = CARD_HEIGHT.max(PORT_PITCH * (self.links.len() as f64 + 0.6));
        let mut next = top;
        let mut middles = Vec::new();
        for (_, card) in &mut self.links {
            next = card.place(column + 1, columns, gap, next);
            middles.push(card.middle());
        }
        let middle = match (middles.first(), middles.last()) {
            (Some(first), Some(last)) => (first + last) / 2.0,
            _ => top + self.height / 2.0,
        };
        self.top = middle - self.height / 2.0;
        // A card that is higher than everything to its right would reach above `top`.
        let above = top - self.top;
        if above > 0.0 {
            self.shift(above);
            next += above;
        }
        next.max(self.bottom() + gap)
    }

    fn shift(&mut self, down: f64) {
        self.top += down;
        for (_, card) in &mut self.links {
            card.shift(down);
        }
    }

    /// Returns the right end of the card and of everything to its right.
    fn right(&self) -> f64 {
        let own = self.left + self.width;
        let empty = self.empty_ports.iter().map(|name| {
            let characters = name.chars().count().min(MOST_CHARACTERS) + EMPTY_WORD.len();
            self.left + characters as f64 * EMPTY_CHARACTER
        });
        empty.chain(self.links.iter().map(|(_, card)| card.right())).fold(own, f64::max)
    }
}

/// Places the cards of all hosts, the first at `top`; returns the width and height of the drawing.
pub fn place(cards: &mut [Card<'_>], top: f64) -> (f64, f64) {
    let mut widths = Vec::new();
    for card in &*cards {
        card.measure(0, &mut widths);
    }
    // On a page the box around the drawing has its own space.
    let side = if top < MARGIN { 2.0 } else { MARGIN };
    let mut columns = Vec::new();
    let mut left = side;
    for width in widths {
        columns.push((left, width));
        left += width + LINK_WIDTH;
    }
    let is_loaded = has_loads(cards);
    let gap = if is_loaded { CARD_GAP + LOADED_GAP } else { CARD_GAP };
    let mut next = if is_loaded { top + LOADED_GAP } else { top };
    for card in &mut *cards {
        next = card.place(0, &columns, gap, next) + HOST_GAP;
    }
    let width = cards.iter().map(Card::right).fold(CARD_MIN_WIDTH, f64::max) + side;
    let height =
        (next - HOST_GAP - gap + side + if is_loaded { LOADED_GAP } else { 0.0 }).max(top + side);
    (width, height)
}

/// Returns whether the load of any link was counted.
pub fn has_loads(cards: &[Card<'_>]) -> bool {
    let is_loaded = |link: &CardLink<'_>| link.down.is_some() || link.up.is_some();
    let mut links = cards.iter().flat_map(|card| &card.links);
    links.any(|(link, below)| is_loaded(link) || has_loads(std::slice::from_ref(below)))
}
