// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree as a drawing: hosts at the left, endpoints at the right, each link with its rate and
//! ceiling.
//!
//! The file stands alone: nothing is fetched, fonts are those of the reader's system, colours
//! follow the reader's choice of light or dark, and all text is escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

use crosslane_pcie::config::PortType;

use super::{Function, Host, Link, Tree};
use crosslane_explain::size_words;

use crate::quantity::{count_words, megabytes};

/// Space around the drawing, pixels.
const MARGIN: f64 = 32.0;
/// Height of the title above the trees.
const TITLE_HEIGHT: f64 = 76.0;
/// Width that a link has between two cards: a bend, and a straight part with its label.
const LINK_WIDTH: f64 = 236.0;
/// The straight part of that.
const LABEL_WIDTH: f64 = 138.0;
/// Height of a card that has no links to its right.
const CARD_HEIGHT: f64 = 52.0;
/// Space between two cards, one above the other.
const CARD_GAP: f64 = 14.0;
/// Space that each port takes on a card's right edge, at least.
const PORT_PITCH: f64 = 22.0;
/// Height of a port without a link.
const EMPTY_HEIGHT: f64 = 24.0;
/// Space between the trees of two hosts.
const HOST_GAP: f64 = 40.0;
/// Average width of a character of a card's text, pixels, and room at both sides.
const CHARACTER_WIDTH: f64 = 7.4;
const CARD_PADDING: f64 = 16.0;
/// Narrowest card.
const CARD_MIN_WIDTH: f64 = 118.0;

const STYLE: &str = "\
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
.page { fill: #ffffff; }
.title { font-size: 22px; font-weight: 600; fill: #14202e; }
.note { font-size: 12px; fill: #5b6875; }
.card { stroke-width: 1.25; }
.host { fill: #eef3fb; stroke: #3d6db5; }
.switch { fill: #f4effa; stroke: #7d56b0; }
.endpoint { fill: #edf7f1; stroke: #3a8a5f; }
.name { font-size: 14px; font-weight: 600; fill: #14202e; }
.detail { font-size: 11.5px; fill: #5b6875; }
.link { fill: none; stroke: #8796a8; stroke-linecap: round; }
.open { fill: none; stroke: #b5c0cc; stroke-dasharray: 3 4; }
.pin { fill: #ffffff; stroke: #8796a8; stroke-width: 1.5; }
.rate { font-size: 12px; font-weight: 600; fill: #2a3947; }
.ceiling { font-size: 11.5px; fill: #5b6875; }
@media (prefers-color-scheme: dark) {
  .page { fill: #12171e; }
  .title, .name { fill: #e8edf3; }
  .note, .detail, .ceiling { fill: #9aa7b5; }
  .rate { fill: #ccd5df; }
  .host { fill: #1b2738; stroke: #6f9ce0; }
  .switch { fill: #261f33; stroke: #ab88da; }
  .endpoint { fill: #182b22; stroke: #66b98c; }
  .link { stroke: #6a7a8c; }
  .open { stroke: #44505d; }
  .pin { fill: #12171e; stroke: #6a7a8c; }
}
";

/// Text that may stand in an element or an attribute.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A node of the drawing and what is linked to its right.
struct Card<'a> {
    class: &'static str,
    name: &'a str,
    detail: String,
    /// One for each port to the right.
    ports: Vec<Port<'a>>,
    /// Left, top and height; set by the layout.
    left: f64,
    top: f64,
    height: f64,
}

/// A port at a card's right edge: a link to the card at its other end, or nothing.
struct Port<'a> {
    name: &'a str,
    below: Option<(&'a Link, Card<'a>)>,
}

impl<'a> Card<'a> {
    fn of_host(host: &'a Host) -> Self {
        let detail = format!("{} of memory", size_words(host.memory_bytes));
        Self::new("host", &host.name, detail, host.functions.iter().map(Port::of).collect())
    }

    fn of_function(function: &'a Function) -> Self {
        if function.kind == PortType::Endpoint {
            let mut detail = function.address.to_string();
            for bar in &function.bars {
                let _ = write!(detail, ", BAR{} {}", bar.index, size_words(bar.size_bytes));
            }
            return Self::new("endpoint", &function.node, detail, Vec::new());
        }
        let buses = function.buses.map_or(String::new(), |(secondary, subordinate)| {
            format!("{}, buses {secondary:02x}-{subordinate:02x}", function.address)
        });
        let ports = function.children.iter().map(Port::of).collect();
        Self::new("switch", &function.node, buses, ports)
    }

    fn new(class: &'static str, name: &'a str, detail: String, ports: Vec<Port<'a>>) -> Self {
        Self { class, name, detail, ports, left: 0.0, top: 0.0, height: 0.0 }
    }

    fn middle(&self) -> f64 {
        self.top + self.height / 2.0
    }

    fn width(&self) -> f64 {
        // The detail is set smaller than the name, by about a sixth.
        let name = self.name.chars().count() as f64;
        let detail = self.detail.chars().count() as f64 * 0.84;
        (name.max(detail) * CHARACTER_WIDTH + 2.0 * CARD_PADDING).max(CARD_MIN_WIDTH)
    }

    /// Widest card of each column from here on.
    fn measure(&self, column: usize, widths: &mut Vec<f64>) {
        if widths.len() <= column {
            widths.push(0.0);
        }
        widths[column] = widths[column].max(self.width());
        for (_, card) in self.ports.iter().filter_map(|port| port.below.as_ref()) {
            card.measure(column + 1, widths);
        }
    }

    /// Places the card and all to its right, the topmost at `top`; returns where the next
    /// may begin.
    fn place(&mut self, column: usize, lefts: &[f64], top: f64) -> f64 {
        self.left = lefts[column];
        self.height = CARD_HEIGHT.max(PORT_PITCH * (self.ports.len() as f64 + 0.6));
        let mut next = top;
        let mut middles = Vec::new();
        for port in &mut self.ports {
            if let Some((_, card)) = &mut port.below {
                next = card.place(column + 1, lefts, next);
                middles.push(card.middle());
            } else {
                middles.push(next + EMPTY_HEIGHT / 2.0);
                next += EMPTY_HEIGHT + CARD_GAP;
            }
        }
        self.top = match (middles.first(), middles.last()) {
            (Some(first), Some(last)) => ((first + last - self.height) / 2.0).max(top),
            _ => top,
        };
        next.max(self.top + self.height + CARD_GAP)
    }

    fn draw(&self, widths: &[f64], column: usize, svg: &mut String) {
        let right = self.left + widths[column];
        let pitch = self.height / (self.ports.len() as f64 + 1.0);
        for (index, port) in self.ports.iter().enumerate() {
            let y = self.top + pitch * (index as f64 + 1.0);
            match &port.below {
                Some((link, card)) => {
                    draw_link(link, (right, y), (card.left, card.middle()), svg);
                    card.draw(widths, column + 1, svg);
                }
                None => draw_empty(port.name, (right, y), svg),
            }
        }
        let (left, top) = (self.left, self.top);
        let (width, height, class) = (widths[column], self.height, self.class);
        let place = format!(r#"x="{left:.1}" y="{top:.1}""#);
        let size = format!(r#"width="{width:.1}" height="{height:.1}""#);
        let _ = writeln!(svg, r#"<rect class="card {class}" {place} {size} rx="9"/>"#);
        for (index, port) in self.ports.iter().enumerate() {
            let y = self.top + pitch * (index as f64 + 1.0);
            let title = format!("<title>{}</title>", escape(port.name));
            let place = format!(r#"cx="{right:.1}" cy="{y:.1}""#);
            let _ = writeln!(svg, r#"<circle class="pin" {place} r="4">{title}</circle>"#);
        }
        let (x, y) = (left + CARD_PADDING, self.middle());
        text("name", (x, y - 3.0), self.name, svg);
        text("detail", (x, y + 14.0), &self.detail, svg);
    }
}

impl<'a> Port<'a> {
    fn of(function: &'a Function) -> Self {
        let below = function
            .children
            .first()
            .and_then(|child| Some((child.link.as_ref()?, Card::of_function(child))));
        Self { name: &function.port, below }
    }
}

fn text(class: &str, (x, y): (f64, f64), content: &str, svg: &mut String) {
    let content = escape(content);
    let _ = writeln!(svg, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{content}</text>"#);
}

/// A line as thick as the link is fast, from a port to the middle of a card's left edge.
fn draw_link(link: &Link, (x0, y0): (f64, f64), (x1, y1): (f64, f64), svg: &mut String) {
    // 250 MB/s (Gen1 x1) is the thinnest line; each doubling adds.
    let doublings = (link.rate.bytes_per_second() / 250e6).log2().max(0.0);
    let thickness = 1.6 + 0.55 * doublings;
    let straight = x1 - LABEL_WIDTH;
    let bend = (x0 + straight) / 2.0;
    let curve = format!("{bend:.1} {y0:.1} {bend:.1} {y1:.1} {straight:.1} {y1:.1}");
    let title = format!("{}: {} to {}", link.name, link.upper, link.lower);
    let path = format!("M{x0:.1} {y0:.1} C{curve} H{x1:.1}");
    let _ = writeln!(svg, r#"<path class="link" stroke-width="{thickness:.1}" d="{path}">"#);
    let _ = writeln!(svg, "<title>{}</title></path>", escape(&title));
    let ceiling = link.ceilings().payload_3dw_bytes_per_second;
    let under = format!("{} MB/s at {} B", megabytes(ceiling), link.payload_bytes);
    text("rate", (straight, y1 - 7.0), &link.rate.to_string(), svg);
    text("ceiling", (straight, y1 + 17.0), &under, svg);
}

fn draw_empty(port: &str, (x, y): (f64, f64), svg: &mut String) {
    let end = x + 40.0;
    let _ = writeln!(svg, r#"<path class="open" d="M{x:.1} {y:.1} H{end:.1}"/>"#);
    text("ceiling", (end + 6.0, y + 4.0), &format!("{port}, empty"), svg);
}

fn subtitle(tree: &Tree) -> String {
    let count = |kind| tree.functions().filter(|function| function.kind == kind).count();
    format!(
        "{}, {}, {}",
        count_words(tree.hosts.len(), "host", "hosts"),
        count_words(count(PortType::UpstreamPort), "switch", "switches"),
        count_words(count(PortType::Endpoint), "endpoint", "endpoints"),
    )
}

/// Draws the tree as one SVG file.
#[must_use]
pub fn draw(tree: &Tree) -> String {
    let mut cards: Vec<Card> = tree.hosts.iter().map(Card::of_host).collect();
    let mut widths = Vec::new();
    for card in &cards {
        card.measure(0, &mut widths);
    }
    let mut lefts = Vec::new();
    let mut left = MARGIN;
    for width in &widths {
        lefts.push(left);
        left += width + LINK_WIDTH;
    }
    // The note under the title is the widest text that is sure to be there.
    let width = (left - LINK_WIDTH + MARGIN).max(760.0);
    let mut top = MARGIN + TITLE_HEIGHT;
    for card in &mut cards {
        top = card.place(0, &lefts, top) + HOST_GAP;
    }
    let height = (top - HOST_GAP - CARD_GAP + MARGIN).max(MARGIN + TITLE_HEIGHT);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{} of lab {}</title>\n\
         <style>\n{STYLE}</style>\n",
        "PCI Express tree",
        escape(&tree.lab),
    );
    let _ = writeln!(svg, r#"<rect class="page" width="{width:.0}" height="{height:.0}"/>"#);
    text("title", (MARGIN, MARGIN + 20.0), &format!("Lab {}", tree.lab), &mut svg);
    text("note", (MARGIN, MARGIN + 42.0), &subtitle(tree), &mut svg);
    let note = "Under each link: payload ceiling of one direction with 3 DW headers, less SKP, \
                without DLLPs (1 MB/s = 1000000 bytes a second)";
    text("note", (MARGIN, MARGIN + 59.0), note, &mut svg);
    for card in &cards {
        card.draw(&widths, 0, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::small_tree;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("plain"), "plain");
        assert_eq!(escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
        let svg = draw(&small_tree());
        assert!(svg.contains("nic&lt;0&gt;") && svg.contains("nic&amp;1"));
        assert!(!svg.contains("nic<0>"));
    }

    #[test]
    fn every_node_and_link_is_drawn() {
        let svg = draw(&small_tree());
        assert_eq!(svg.matches("class=\"card ").count(), 5);
        assert_eq!(svg.matches("class=\"link\"").count(), 4);
        assert_eq!(svg.matches("class=\"open\"").count(), 1);
        assert!(svg.contains("Gen2 x8") && svg.contains("3450.5 MB/s at 128 B"));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        // Elements open and close as often.
        for element in ["text", "title", "path", "circle", "style", "svg"] {
            let closed = svg.matches(&format!("</{element}>")).count();
            let opened = svg.matches(&format!("<{element} ")).count()
                + svg.matches(&format!("<{element}>")).count();
            let self_closed = if element == "path" { 1 } else { 0 };
            assert_eq!(opened, closed + self_closed, "{element}");
        }
    }

    #[test]
    fn cards_do_not_overlap() {
        let tree = small_tree();
        let mut cards: Vec<Card> = tree.hosts.iter().map(Card::of_host).collect();
        let mut widths = Vec::new();
        cards[0].measure(0, &mut widths);
        assert_eq!(widths.len(), 3, "host, then switch and gpu, then the two network cards");
        cards[0].place(0, &[0.0, 300.0, 600.0], 10.0);
        let port = |index: usize| &cards[0].ports[index].below.as_ref().unwrap().1;
        let (switch, gpu) = (port(0), port(1));
        assert!(switch.top >= 10.0 && switch.top + switch.height < gpu.top);
    }
}
