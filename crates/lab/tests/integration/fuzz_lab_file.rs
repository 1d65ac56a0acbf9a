// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random lab files: the shipped ones with some lines and bytes changed. Any text gives a lab or an
//! error with its position, never a panic.

use bolero::TypeGenerator;
use crosslane_lab::{Lab, LabError, RunningLab, shipped};

const MOST_CHANGES: usize = 6;

/// One change of a text.
#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    /// Replaces a byte by another character.
    Character { at: u16, character: char },
    /// Replaces a word by another one of the file.
    Word { at: u16, from: u16 },
    /// Gives a number another value.
    Number { at: u16, number: Number },
    /// Removes a line.
    Remove { line: u16 },
    /// Copies a line elsewhere.
    Copy { line: u16, to: u16 },
    /// Swaps two lines.
    Swap { one: u16, other: u16 },
    /// Removes the rest of the file.
    Cut { line: u16 },
}

/// Numbers that are easy to forget.
#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Number {
    Zero,
    MinusOne,
    Undefined,
    Infinity,
    PowerOfTwo(u8),
    Any(i64),
    Fraction(i16),
}

impl Number {
    fn text(self) -> String {
        match self {
            Self::Zero => "0".into(),
            Self::MinusOne => "-1".into(),
            Self::Undefined => "nan".into(),
            Self::Infinity => "inf".into(),
            Self::PowerOfTwo(bits) => (1_u128 << (bits % 100)).to_string(),
            Self::Any(number) => number.to_string(),
            Self::Fraction(number) => (f64::from(number) / 64.0).to_string(),
        }
    }
}

/// Returns the words of a text between blanks, or only the numbers among them, as byte ranges.
fn words(text: &str, numbers: bool) -> Vec<std::ops::Range<usize>> {
    let mut words = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        if character.is_whitespace() || ",\"{}[]=".contains(character) {
            let word = &text[start..at];
            let wanted = !numbers || word.starts_with(|c: char| c.is_ascii_digit());
            if !word.is_empty() && wanted {
                words.push(start..at);
            }
            start = at + character.len_utf8();
        }
    }
    words
}

fn pick<T: Clone>(list: &[T], at: u16) -> Option<T> {
    list.get(usize::from(at) % list.len().max(1)).cloned()
}

fn apply(text: &mut String, change: &Change) -> Option<()> {
    match change {
        Change::Character { at, character } => {
            let places: Vec<(usize, char)> = text.char_indices().collect();
            let (at, old) = pick(&places, *at)?;
            text.replace_range(at..at + old.len_utf8(), &character.to_string());
        }
        Change::Word { at, from } => {
            let words = words(text, false);
            let word = text[pick(&words, *from)?].to_owned();
            text.replace_range(pick(&words, *at)?, &word);
        }
        Change::Number { at, number } => {
            text.replace_range(pick(&words(text, true), *at)?, &number.text());
        }
        Change::Remove { .. } | Change::Copy { .. } | Change::Swap { .. } | Change::Cut { .. } => {
            change_lines(text, change);
        }
    }
    Some(())
}

fn change_lines(text: &mut String, change: &Change) {
    let mut lines: Vec<&str> = text.lines().collect();
    let count = lines.len().max(1);
    let index = |line: u16| usize::from(line) % count;
    if lines.is_empty() {
        return;
    }
    match *change {
        Change::Remove { line } => {
            lines.remove(index(line));
        }
        Change::Copy { line, to } => lines.insert(index(to), lines[index(line)]),
        Change::Swap { one, other } => lines.swap(index(one), index(other)),
        Change::Cut { line } => lines.truncate(index(line)),
        _ => {}
    }
    let changed = lines.join("\n");
    *text = changed;
}

#[test]
fn fuzz_lab_file() {
    bolero::check!().with_type::<(u8, Vec<Change>)>().with_test_time(TEST_TIME).for_each(
        |(lab, changes)| {
            let mut text = shipped()[usize::from(*lab) % shipped().len()].text.to_owned();
            for change in changes.iter().take(MOST_CHANGES) {
                let _ = apply(&mut text, change);
            }
            check(&text);
        },
    );
}

/// Time of a plain run; `make fuzz` sets another.
const TEST_TIME: std::time::Duration = std::time::Duration::from_millis(1500);

/// Checks that a text gives a running lab, also with its engines, or an error with a position.
fn check(text: &str) {
    check_built(text, |lab| lab.build(1));
    check_built(text, |lab| lab.build_engines(1));
}

fn check_built(text: &str, build: impl FnOnce(Lab) -> Result<RunningLab, LabError>) {
    match Lab::from_text("fuzz.toml", text).and_then(build) {
        Ok(running) => assert!(!running.hosts.is_empty()),
        Err(error) => {
            let place = error.place.as_deref().expect("an error of a file has a place");
            assert!(place.line >= 1 && place.line <= text.lines().count() + 1, "{error}");
            assert!(text.get(place.span.clone()).is_some(), "{error}");
            assert!(place.snippet(30).contains('^'), "{error}");
            assert!(!error.problem.to_string().is_empty());
        }
    }
}
