// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Colours by purpose, each for a light and for a dark page.
//!
//! The colours of series and parts differ in lightness as well as in hue, so that colour-blind
//! readers can tell them apart; marks, dashes and words repeat the distinction.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A colour: its purpose, and its value on a light and on a dark page.
pub struct Colour {
    /// Name of the CSS variable.
    pub name: &'static str,
    /// On a light page.
    pub light: &'static str,
    /// On a dark page.
    pub dark: &'static str,
}

const fn colour(name: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { name, light, dark }
}

/// Number of colours, which series and parts take in turn.
pub const TURNS: usize = 10;

/// All colours of a page.
pub const COLOURS: [Colour; 38] = [
    colour("page", "#ffffff", "#14181d"),
    colour("raised", "#f5f7f9", "#1c2229"),
    colour("ink", "#1a222b", "#e4e9ee"),
    colour("quiet", "#566371", "#a1adb9"),
    colour("line", "#d8dee4", "#343d47"),
    colour("grid", "#e6eaee", "#29313a"),
    colour("accent", "#0a58a8", "#7ab8ff"),
    colour("bad", "#a8200d", "#ff9c8a"),
    colour("bad-back", "#fdecea", "#3a1d1a"),
    colour("verdict-back", "#eef4fb", "#17283b"),
    // Series and parts.
    colour("c0", "#0b5cad", "#6cb0ff"),
    colour("c1", "#c8500a", "#ff9d5c"),
    colour("c2", "#0f7b5f", "#46d3a7"),
    colour("c3", "#8a3ba3", "#dba2f5"),
    colour("c4", "#8f6a00", "#e8c14e"),
    colour("c5", "#0e7f9b", "#63d4ea"),
    colour("c6", "#bf2c6d", "#ff96c1"),
    colour("c7", "#4b4fbf", "#a9adff"),
    colour("c8", "#5b7a12", "#b5d65c"),
    colour("c9", "#7d4a33", "#d9a58c"),
    colour("idle", "#65717d", "#8d99a6"),
    // Text within a bar, on the colours above.
    colour("on-c", "#ffffff", "#10151a"),
    // A ceiling, and the rest of a whole.
    colour("ceiling", "#4c5864", "#b4bfca"),
    colour("rest", "#dde3e9", "#333c46"),
    // Nodes of a tree.
    colour("host", "#3565ac", "#7ba6e6"),
    colour("host-back", "#eef3fb", "#1b2738"),
    colour("switch", "#75509f", "#b595de"),
    colour("switch-back", "#f5f0fa", "#261f33"),
    colour("endpoint", "#2f7d54", "#6dbf92"),
    colour("endpoint-back", "#edf7f1", "#182b22"),
    colour("link", "#8291a2", "#71808f"),
    colour("open", "#a3afbb", "#55616d"),
    // Load of a link: none, some, half, much, full.
    colour("load0", "#b3bdc7", "#4a5661"),
    colour("load1", "#6d9fcf", "#4878a8"),
    colour("load2", "#2f6fb0", "#6ba3dd"),
    colour("load3", "#b8720a", "#e0a545"),
    colour("load4", "#b5260f", "#ff7f68"),
    colour("ring", "#1a222b", "#ffffff"),
];

/// Returns the variables of a page that follows the reader's theme.
pub fn variables() -> String {
    let mut css = String::from(":root {\n");
    for Colour { name, light, dark } in &COLOURS {
        let _ = writeln!(css, "  --{name}: light-dark({light}, {dark});");
    }
    css.push_str("}\n");
    css
}

/// Returns a style sheet with each variable replaced, for a stand-alone drawing and programs
/// without CSS variables.
pub fn resolve(css: &str, is_dark: bool) -> String {
    COLOURS.iter().fold(css.to_owned(), |css, colour| {
        let value = if is_dark { colour.dark } else { colour.light };
        css.replace(&format!("var(--{})", colour.name), value)
    })
}

/// Parts of a link's time that nearly every page has, in lower case and singular. Their colours are
/// fixed, so that pages look alike.
const PARTS: [&str; 4] = ["payload", "header", "dllp", "skp"];
/// Idle time without a reason, which takes no colour of the palette.
const IDLE: &str = "nothing to send";

/// Colours by name: a name has the same colour everywhere on a page.
#[derive(Default)]
pub struct Palette(BTreeMap<String, usize>);

impl Palette {
    /// Returns the name's number and the class of its colour, `c0` and following. The first colours
    /// differ most.
    pub fn turn(&mut self, name: &str) -> (usize, String) {
        let next = self.0.len();
        let index = *self.0.entry(name.to_owned()).or_insert(next);
        (index, format!("c{}", index % TURNS))
    }

    /// Returns the class of the colour of a part of that name.
    pub fn part(&mut self, name: &str) -> String {
        let singular = name.to_lowercase();
        let singular = singular.strip_suffix('s').unwrap_or(&singular);
        if singular == IDLE {
            return "idle".to_owned();
        }
        for part in PARTS {
            self.turn(part);
        }
        self.turn(if PARTS.contains(&singular) { singular } else { name }).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, is_dark: bool) -> &'static str {
        let colour = COLOURS.iter().find(|colour| colour.name == name).expect(name);
        if is_dark { colour.dark } else { colour.light }
    }

    /// Relative luminance of WCAG 2.
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// AA: 4.5 for text, 3 for graphics.
    #[test]
    fn contrast_is_that_of_aa() {
        let mut pairs: Vec<(String, &str, f64)> = Vec::new();
        for back in ["page", "raised", "verdict-back", "bad-back"] {
            pairs.push(("ink".into(), back, 4.5));
        }
        for text in ["quiet", "accent", "bad"] {
            pairs.push((text.into(), "page", 4.5));
            pairs.push((text.into(), "raised", 4.5));
        }
        pairs.push(("bad".into(), "bad-back", 4.5));
        for node in ["host", "switch", "endpoint"] {
            pairs.push((node.into(), "page", 3.0));
        }
        for back in ["host-back", "switch-back", "endpoint-back"] {
            pairs.push(("ink".into(), back, 4.5));
            pairs.push(("quiet".into(), back, 4.5));
        }
        for turn in 0..TURNS {
            pairs.push((format!("c{turn}"), "page", 3.0));
            pairs.push((format!("c{turn}"), "on-c", 4.5));
        }
        pairs.push(("idle".into(), "on-c", 4.5));
        for drawn in ["idle", "ceiling", "link", "load2", "load3", "load4", "ring"] {
            pairs.push((drawn.into(), "page", 3.0));
        }
        for (name, back, least) in pairs {
            for is_dark in [false, true] {
                let found = contrast(value(&name, is_dark), value(back, is_dark));
                assert!(found >= least, "{name} on {back}, dark {is_dark}: {found:.2}");
            }
        }
    }

    #[test]
    fn a_name_keeps_its_colour() {
        let mut palette = Palette::default();
        assert_eq!(palette.part("no credit"), "c4");
        assert_eq!(palette.part("payload"), "c0");
        assert_eq!((palette.part("headers"), palette.part("header")), ("c1".into(), "c1".into()));
        assert_eq!(palette.part("no tag"), "c5");
        assert_eq!(palette.part("no credit"), "c4");
        assert_eq!(palette.part("nothing to send"), "idle");
    }

    #[test]
    fn no_variable_is_left() {
        let css = resolve("a { fill: var(--c0); stroke: var(--host-back); }", false);
        assert_eq!(css, "a { fill: #0b5cad; stroke: #eef3fb; }");
    }
}
