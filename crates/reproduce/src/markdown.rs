// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documents whose tables are written by a command.

/// The document with the text between `<!-- NAME: COMMAND -->` and `<!-- end -->` set anew; none
/// where it has no such block.
#[must_use]
pub fn with_block(document: &str, name: &str, command: &str, text: &str) -> Option<String> {
    let mark = format!("<!-- {name}: {command} -->\n");
    let (before, rest) = document.split_once(&mark)?;
    let (_, after) = rest.split_once("<!-- end -->")?;
    Some(format!("{before}{mark}\n{text}\n<!-- end -->{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_replaced_and_the_rest_stays() {
        let document = "a\n<!-- x: make it -->\nold\n<!-- end -->\nb\n";
        let fresh = with_block(document, "x", "make it", "new").unwrap();
        assert_eq!(fresh, "a\n<!-- x: make it -->\n\nnew\n<!-- end -->\nb\n");
        assert_eq!(with_block(document, "y", "make it", "new"), None);
        assert_eq!(with_block("<!-- x: make it -->\n", "x", "make it", "new"), None);
    }
}
