// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a lab file with other values of its constants.

use std::cmp::Reverse;

use super::LabFile;
use super::constant::Constant;
use crate::error::{LabError, Problem, Result, nearest};

impl LabFile {
    /// Returns the text of the file with other values and sources of constants in force: path,
    /// value and source of each. All else stays as it is written, comments included.
    ///
    /// # Errors
    /// If no constant in force has such a path.
    pub fn rewritten(&self, changes: &[(String, f64, String)]) -> Result<String> {
        let mut pieces = Vec::new();
        for (path, value, source) in changes {
            let found = self.constants.iter().find(|constant| constant.path() == *path);
            let [whole, of_value, of_source] =
                found.ok_or_else(|| self.unknown(path))?.spans.clone();
            let source = source.replace('\\', "\\\\").replace('"', "\\\"");
            if self.text[whole.clone()].starts_with('{') {
                pieces.push((whole, format!("{{ value = {value}, source = \"{source}\" }}")));
            } else {
                pieces.push((of_value, value.to_string()));
                pieces.push((of_source, format!("\"{source}\"")));
            }
        }
        // From the end, so that the positions before stay what they are.
        pieces.sort_by_key(|(span, _)| Reverse(span.start));
        let mut text = self.text.to_string();
        pieces.into_iter().for_each(|(span, new)| text.replace_range(span, &new));
        Ok(text)
    }

    fn unknown(&self, path: &str) -> LabError {
        let paths: Vec<String> = self.constants.iter().map(Constant::path).collect();
        let suggestion = nearest(path, paths.iter().map(String::as_str));
        let (what, name) = ("constant", path.to_owned());
        LabError::nowhere(Problem::UnknownName { what, name, suggestion })
    }
}
