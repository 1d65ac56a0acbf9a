// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cards and links as SVG.

use crosslane_results::DirectionLoad;
use maud::{Markup, html};

use super::card::{Card, CardLink, MOST_CHARACTERS};
use super::layout::{CARD_PADDING, EMPTY_HEIGHT, EMPTY_WORD, LABEL_WIDTH};
use crate::number::{megabytes, percent, pixels, share};
use crate::text::shortened;

/// Upper bounds of the first four steps of load, as shares of time.
const STEPS: [f64; 4] = [0.005, 0.5, 0.75, 0.9];
/// Thickness of an idle direction, and the addition for a fully busy one, pixels.
const THIN: f64 = 1.5;
const THICKER: f64 = 5.5;
/// Half of the space between the two directions of a link.
const HALF_GAP: f64 = 1.0;

/// Returns the style sheet of drawings, also used on a page.
pub fn draw_style() -> &'static str {
    include_str!("../assets/tree.css")
}

/// Returns the step of load, of five, of a share of time.
fn step(busy: f64) -> usize {
    STEPS.iter().filter(|step| share(busy) >= **step).count()
}

/// Draws a card and everything linked to its right.
pub fn draw_card(card: &Card<'_>) -> Markup {
    let right = card.left + card.width;
    let x = pixels(card.left + CARD_PADDING);
    let has_detail = !card.detail.is_empty();
    html! {
        @for (index, (link, below)) in card.links.iter().enumerate() {
            (draw_link(link, below, (right, card.port_y(index))))
            (draw_card(below))
        }
        g class={ "card " (card.class) } data-node=[card.attribute()] {
            @if card.name != card.full_name || card.detail != card.full_detail {
                title { (card.full_name) "\n" (card.full_detail) }
            }
            rect x=(pixels(card.left)) y=(pixels(card.top)) width=(pixels(card.width))
                height=(pixels(card.height)) rx="7" {}
            text.name x=(x) y=(pixels(card.middle() + if has_detail { -3.0 } else { 5.0 })) {
                (card.name)
            }
            @if has_detail {
                text.detail x=(x) y=(pixels(card.middle() + 14.0)) { (card.detail) }
            }
        }
        @for (index, (link, _)) in card.links.iter().enumerate() {
            circle.pin cx=(pixels(right)) cy=(pixels(card.port_y(index))) r="4" {
                @if !link.upper.is_empty() { title { (link.upper) } }
            }
        }
        @for (index, port) in card.empty_ports.iter().enumerate() {
            (draw_empty(port, card, index))
        }
    }
}

/// Returns a curve from a port to the middle of a card's left edge, moved down by `shift`.
fn curve((x0, y0): (f64, f64), (x1, y1): (f64, f64), shift: f64) -> String {
    let straight = x1 - LABEL_WIDTH;
    let bend = pixels((x0 + straight) / 2.0);
    let (y0, y1) = (pixels(y0 + shift), pixels(y1 + shift));
    let (x0, x1, straight) = (pixels(x0), pixels(x1), pixels(straight));
    format!("M{x0} {y0}C{bend} {y0} {bend} {y1} {straight} {y1}H{x1}")
}

fn draw_link(link: &CardLink<'_>, below: &Card<'_>, from: (f64, f64)) -> Markup {
    let to = (below.left, below.middle());
    let (x, y) = (to.0 - LABEL_WIDTH + 4.0, to.1);
    let text = |class: &str, dy: f64, words: &str| {
        html! { text class=(class) x=(pixels(x)) y=(pixels(y + dy)) { (words) } }
    };
    if link.down.is_none() && link.up.is_none() {
        let thickness = rate_thickness(link.raw_bytes_per_second);
        return html! {
            path.link d=(curve(from, to, 0.0)) stroke-width=(pixels(thickness))
                data-below=[below.attribute()]
            {
                @if let Some(words) = ends(link) { title { (words) } }
            }
            (text("rate", -8.0, &link.rate))
            @if !link.note.is_empty() { (text("link-note", 17.0, &link.note)) }
        };
    }
    let (down, up) = (thickness(link.down), thickness(link.up));
    let way = |load, is_down, shift| {
        let words = (way_words(below, is_down), link.rate.as_str());
        draw_way(words, load, &curve(from, to, shift), below.attribute())
    };
    html! {
        (way(link.down, true, -down / 2.0 - HALF_GAP))
        (way(link.up, false, up / 2.0 + HALF_GAP))
        (text("rate", -9.0 - down - 13.0, &link.rate))
        @if let Some(load) = &link.down {
            (text(&load_class(load), -7.0 - down, &label('→', load)))
        }
        @if let Some(load) = &link.up {
            (text(&load_class(load), 14.0 + up, &label('←', load)))
        }
    }
}

/// Draws one direction of a link with its tooltip.
fn draw_way(
    words: (String, &str),
    load: Option<&DirectionLoad>,
    path: &str,
    below: Option<&str>,
) -> Markup {
    let step = load.map_or(0, |load| step(load.busy_share));
    html! {
        path class={ "way load" (step) } d=(path) stroke-width=(pixels(thickness(load)))
            data-below=[below]
        {
            @if let Some(load) = load { title { (tip(&words, load)) } }
        }
    }
}

/// Returns the tooltip of a direction: its ends and rate, its load, and the parts of its time.
fn tip((way, rate): &(String, &str), load: &DirectionLoad) -> String {
    let mut tip = format!("{way} ({rate})");
    tip += &format!("\nbusy {}", percent(load.busy_share));
    tip += &format!("\n{} of payload", megabytes(load.payload_bytes_per_second));
    for part in &load.uses {
        tip += &format!("\n{}: {}", part.what, percent(part.share));
    }
    tip
}

/// Returns the ends of a direction of the link to a card: `above → fpga1`.
pub fn way_words(below: &Card<'_>, is_down: bool) -> String {
    let name = &below.full_name;
    if is_down { format!("above → {name}") } else { format!("{name} → above") }
}

fn ends(link: &CardLink<'_>) -> Option<String> {
    let ends = match (link.upper.is_empty(), link.lower.is_empty()) {
        (false, false) => format!("{} to {}", link.upper, link.lower),
        _ => String::new(),
    };
    match (link.name.is_empty(), ends.is_empty()) {
        (true, true) => None,
        (false, true) => Some(link.name.clone()),
        (true, false) => Some(ends),
        (false, false) => Some(format!("{}: {ends}", link.name)),
    }
}

fn label(arrow: char, load: &DirectionLoad) -> String {
    let (busy, rate) = (percent(load.busy_share), megabytes(load.payload_bytes_per_second));
    format!("{arrow} {busy} · {rate}")
}

/// Returns the class of the label of a direction: bold if it is full.
fn load_class(load: &DirectionLoad) -> String {
    format!("load-words is-step{}", step(load.busy_share))
}

fn thickness(load: Option<&DirectionLoad>) -> f64 {
    load.map_or(THIN, |load| THIN + THICKER * share(load.busy_share))
}

/// Returns the thickness of a line, which grows with the link's rate.
fn rate_thickness(raw_bytes_per_second: f64) -> f64 {
    // 250 MB/s (Gen1 x1) is the thinnest line; each doubling adds a step.
    let doublings = (raw_bytes_per_second / 250e6).log2();
    if doublings.is_finite() { 1.6 + 0.55 * doublings.clamp(0.0, 10.0) } else { 1.6 }
}

/// Draws an empty port below its card.
fn draw_empty(port: &str, card: &Card<'_>, index: usize) -> Markup {
    let y = card.top + card.height + EMPTY_HEIGHT * (index as f64 + 0.5) + 2.0;
    html! {
        g.open {
            title { (port) (EMPTY_WORD) }
            circle cx=(pixels(card.left + 6.0)) cy=(pixels(y)) r="3.5" {}
            text.link-note x=(pixels(card.left + 16.0)) y=(pixels(y + 4.0)) {
                (shortened(port, MOST_CHARACTERS)) (EMPTY_WORD)
            }
        }
    }
}
