// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of nodes as lab files have them, singly or in ranges such as `fpga{1..8}`, and copies of
//! tables.

use crosslane_fabric::MAX_NODES;
use toml_edit::{Decor, Item, Table, Value};

/// Names that a word stands for: `a{1..3}b`, or itself.
pub(crate) struct Names<'a> {
    head: &'a str,
    first: Option<u32>,
    tail: &'a str,
    /// Number of them.
    pub count: usize,
}

impl<'a> Names<'a> {
    /// Reads a word.
    pub fn of(word: &'a str) -> Self {
        let range = || {
            let (head, rest) = word.split_once('{')?;
            let (range, tail) = rest.split_once('}')?;
            let (first, last) = range.split_once("..")?;
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            // More are an error of the file.
            let count = (last.checked_sub(first)? as usize).checked_add(1)?;
            (count <= MAX_NODES).then_some(())?;
            Some(Self { head, first: Some(first), tail, count })
        };
        range().unwrap_or(Self { head: word, first: None, tail: "", count: 1 })
    }

    /// Returns one of them.
    pub fn name(&self, index: usize) -> String {
        let Self { head, first, tail, .. } = self;
        first.map_or_else(
            || (*head).to_owned(),
            |first| format!("{head}{}{tail}", first + index as u32),
        )
    }

    /// Returns the word for some of them.
    pub fn word(&self, first: usize, count: usize) -> String {
        let Self { head, tail, .. } = self;
        match self.first {
            Some(number) if count > 1 => {
                let number = number + first as u32;
                format!("{head}{{{number}..{}}}{tail}", number + count as u32 - 1)
            }
            _ => self.name(first),
        }
    }
}

/// Returns a copy of a table of a list, to stand behind it, without the comment above it.
pub(crate) fn further(table: &Table) -> Table {
    let mut copy = Item::Table(table.clone());
    forget_positions(&mut copy);
    let mut copy = copy.into_table().unwrap_or_default();
    *copy.decor_mut() = Decor::default();
    copy
}

/// Lets a table, and those in it, stand behind the one before it.
pub(crate) fn forget_positions(item: &mut Item) {
    let Some(table) = item.as_table_mut() else { return };
    table.set_position(None);
    table.iter_mut().for_each(|(_, item)| forget_positions(item));
}

/// Quotes a text as TOML does.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_names_and_names_for_words() {
        let names = Names::of("fpga{7..12}a");
        assert_eq!(
            (names.count, names.name(0), names.name(5)),
            (6, "fpga7a".into(), "fpga12a".into())
        );
        assert_eq!(names.word(1, 3), "fpga{8..10}a");
        assert_eq!(names.word(1, 1), "fpga8a");
        assert_eq!((Names::of("nic0").count, Names::of("nic0").word(0, 1)), (1, "nic0".into()));
    }
}
