// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unique anchors of sections, made of the words of their headings.

use std::collections::BTreeSet;

/// Most characters of an anchor, before the number that makes it unique.
const MOST_CHARACTERS: usize = 48;
/// Ids of the page itself.
const TAKEN: [&str; 2] = ["content", "theme"];

/// The anchors so far.
#[derive(Default)]
pub struct Anchors(BTreeSet<String>);

impl Anchors {
    /// Makes an anchor for a heading.
    pub fn make(&mut self, heading: &str) -> String {
        let mut words = String::new();
        for c in heading.chars() {
            if words.len() >= MOST_CHARACTERS {
                break;
            }
            if c.is_ascii_alphanumeric() {
                words.push(c.to_ascii_lowercase());
            } else if !words.is_empty() && !words.ends_with('-') {
                words.push('-');
            }
        }
        let words = words.trim_end_matches('-');
        // Ids of drawings begin in the same way but have other endings.
        let is_free = !words.is_empty() && !TAKEN.contains(&words);
        let base = if is_free { words.to_owned() } else { format!("section-{words}") };
        let base = base.trim_end_matches('-').to_owned();
        let mut anchor = base.clone();
        let mut number = 1;
        while !self.is_new(&anchor) {
            number += 1;
            anchor = format!("{base}-{number}");
        }
        self.0.insert(anchor.clone());
        anchor
    }

    /// Returns whether no other section has this anchor, or this id of its heading.
    fn is_new(&self, anchor: &str) -> bool {
        let heading = format!("{anchor}-heading");
        let is_heading_of = |other: &String| anchor.strip_suffix("-heading") == Some(other);
        let is_drawing = anchor.starts_with("drawing-");
        !is_drawing
            && !self.0.contains(anchor)
            && !self.0.contains(&heading)
            && !self.0.iter().any(is_heading_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_words_and_differ() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.make("Why not faster?"), "why-not-faster");
        assert_eq!(anchors.make("Why not  faster"), "why-not-faster-2");
        assert_eq!(anchors.make("…"), "section");
        assert_eq!(anchors.make("Content"), "section-content");
        assert_eq!(anchors.make("Why not faster heading"), "why-not-faster-heading-2");
        assert!(anchors.make(&"long ".repeat(100)).len() <= MOST_CHARACTERS);
    }
}
