// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages whose tables are written by a command.

use crate::error::ReproduceError;

/// Replaces the text between `<!-- NAME: COMMAND -->` and `<!-- end -->` of a page, for each name
/// and text; `page` is the page's own name.
///
/// # Errors
/// A page without such a block.
pub(crate) fn with_blocks<const N: usize>(
    document: &str,
    page: &str,
    command: &str,
    blocks: [(&str, String); N],
) -> Result<String, ReproduceError> {
    let mut document = document.to_owned();
    for (name, text) in blocks {
        document = with_block(&document, name, command, &text)
            .ok_or_else(|| ReproduceError::experiment(page, format!("no block {name}")))?;
    }
    Ok(document)
}

fn with_block(document: &str, name: &str, command: &str, text: &str) -> Option<String> {
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
