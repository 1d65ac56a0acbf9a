// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text without characters that HTML or XML forbid: control characters and non-characters become
//! U+FFFD. A document is cleaned once, when it is whole.

/// Returns whether HTML and XML both allow the character.
fn is_allowed(c: char) -> bool {
    let is_non_character = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    matches!(c, '\n' | '\t') || !(c.is_control() || is_non_character)
}

/// Returns the text with forbidden characters replaced.
pub fn text(text: &str) -> String {
    text.chars().map(|c| if is_allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_do_not_pass() {
        assert_eq!(
            super::text("a\0b\u{1b}[0m\tc\n\u{ffff}é"),
            "a\u{fffd}b\u{fffd}[0m\tc\n\u{fffd}é"
        );
    }
}
