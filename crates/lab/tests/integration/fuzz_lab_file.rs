// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab files at random: the shipped ones with some lines and bytes changed. Whatever the text,
//! there is a lab or an error with its place, never a panic.

use bolero::TypeGenerator;
use crosslane_lab::{Lab, LabError, RunningLab, shipped};

/// Most changes of one file.
const MOST_CHANGES: usize = 6;

/// One change of a text.
#[derive(Clone, Debug, TypeGenerator)]
enum Change {
    /// A byte becomes another character.
    Character { at: u16, character: char },
    /// A word of the file takes the place of another.
    Word { at: u16, from: u16 },
    /// A number takes another value.
    Number { at: u16, number: Number },
    /// A line goes.
    Remove { line: u16 },
    /// A line comes again, elsewhere.
    Copy { line: u16, to: u16 },
    /// Two lines change places.
    Swap { one: u16, other: u16 },
    /// The rest of the file goes.
    Cut { line: u16 },
}

/// Numbers that somebody may forget to think of.
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

/// Parts of a text between blanks, or only the numbers among them, as ranges of bytes.
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

/// Time of a plain run; `make fuzz` sets its own.
const TEST_TIME: std::time::Duration = std::time::Duration::from_millis(1500);

/// A lab that runs, or an error that says where; likewise with its engines.
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
            assert!(!error.problem.to_string().is_empty());
        }
    }
}
