// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab errors: a problem, and its position in the lab file.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use crosslane_cosim::CosimError;
use crosslane_fabric::BuildError;
use crosslane_host::{Reason, kinds};
use strum::IntoStaticStr;
use thiserror::Error;

use crate::enumerate::EnumerationError;

/// A position in a lab file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the file, or of the shipped lab.
    pub file: Arc<str>,
    /// The whole text of the file.
    pub text: Arc<str>,
    /// Bytes of the text at fault.
    pub span: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key or table, as a dotted path: `part.v7.requester.tags`. Empty for the file as a whole.
    pub key: String,
}

impl Position {
    /// Locates a span of a text. A span beyond the text is cut to it.
    pub fn new(file: Arc<str>, text: Arc<str>, span: Range<usize>, key: String) -> Self {
        let floor = |at: usize| {
            let at = at.min(text.len());
            (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
        };
        let span = floor(span.start)..floor(span.end.max(span.start));
        let before = &text[..span.start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self { file, span, line, column, key, text }
    }

    /// Shows the line at fault between its neighbours, numbered, with a mark under the fault and
    /// the key beside it. Rows of more than `columns` characters are folded.
    pub fn snippet(&self, columns: usize) -> String {
        let gutter = (self.line + 1).to_string().len();
        let margin = format!("{:gutter$} | ", "");
        let room = columns.saturating_sub(margin.len()).max(1);
        let mut text = String::new();
        let mut begin = 0;
        for (number, line) in (1..).zip(self.text.split('\n')) {
            let [start, end] = [self.span.start, self.span.end].map(|at| at.saturating_sub(begin));
            begin += line.len() + 1;
            if self.line.abs_diff(number) > 1 {
                continue;
            }
            // A fault at the end of the line has a blank to stand under.
            let line = line.replace(|c: char| c.is_ascii_control(), " ") + " ";
            let end = end.min(line.len());
            let mut numbered = number.to_string();
            for row in rows(&line, room) {
                let row_text = format!("{numbered:>gutter$} | {}", &line[row.clone()]);
                let _ = writeln!(text, "{}", row_text.trim_end());
                numbered.clear();
                if number != self.line || start >= row.end || end.max(start + 1) <= row.start {
                    continue;
                }
                let from = start.max(row.start);
                let parts = [row.start..from, from..end.clamp(from, row.end)];
                let [blanks, marks] = parts.map(|part| line[part].chars().count());
                let marks = " ".repeat(blanks) + &"^".repeat(marks.max(1));
                let _ = write!(text, "{margin}{marks}");
                if end <= row.end && !self.key.is_empty() {
                    let is_beside = marks.len() + 1 + self.key.chars().count() <= room;
                    let gap = if is_beside { " " } else { &*format!("\n{margin}") };
                    let _ = write!(text, "{gap}{}", self.key);
                }
                text.push('\n');
            }
        }
        text
    }
}

/// Divides a line that ends with a blank into rows of at most `room` characters, behind blanks
/// where there are any; the blank behind a row does not count.
fn rows(line: &str, room: usize) -> Vec<Range<usize>> {
    let (mut rows, mut from) = (Vec::new(), 0);
    while from < line.len() {
        let rest = &line[from..];
        let end = |count| rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
        let length = rest[..end(room + 1)].rfind(' ').map_or(end(room), |at| at + 1);
        rows.push(from..from + length);
        from += length;
    }
    rows
}

/// Prints the position as compilers do: `labs/rosta.toml:12:9`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Displays `; did you mean X?`, or nothing.
struct Hint<'a>(&'a Option<String>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(word) => write!(f, "; did you mean {word}?"),
            None => Ok(()),
        }
    }
}

/// Formats the names of variants: `its variants are A, B`.
fn variants(known: &[String]) -> String {
    match known {
        [] => "it has no variants".to_owned(),
        [only] => format!("its only variant is {only}"),
        several => format!("its variants are {}", several.join(", ")),
    }
}

/// Outcome of reading or building a lab.
pub(crate) type Result<T, E = LabError> = std::result::Result<T, E>;

/// A problem with a lab.
#[derive(Clone, Debug, PartialEq, Error, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Problem {
    /// The file is not TOML.
    #[error("this is not TOML: {message}")]
    Syntax {
        /// The parser's message.
        message: String,
    },
    /// The file is empty.
    #[error("the lab file is empty; copy the shipped lab `minimal` to begin")]
    Empty,
    /// A key unknown in its table.
    #[error("{table} has no key {key}{}", Hint(.suggestion))]
    UnknownKey {
        /// The key.
        key: String,
        /// The table it was written in.
        table: String,
        /// The nearest key that exists.
        suggestion: Option<String>,
        /// All keys of the table.
        known: Vec<&'static str>,
    },
    /// The gateware cannot serve as the engine of an endpoint.
    #[error("the engine of {name}: {source}")]
    Gateware {
        /// The endpoint.
        name: String,
        /// The gateware's reason.
        source: CosimError,
    },
    /// A required key that is missing.
    #[error("{table} needs the key {key}")]
    MissingKey {
        /// The key.
        key: String,
        /// The table that needs it.
        table: String,
    },
    /// A value of the wrong type.
    #[error("{key} is {found}, but it has to be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The expected type.
        expected: String,
        /// The type found.
        found: String,
    },
    /// A value that is not allowed.
    #[error("{key}: {problem}")]
    BadValue {
        /// The key.
        key: String,
        /// The reason, with the value.
        problem: String,
    },
    /// A constant without a valid source.
    #[error(
        "{key}: {problem}; a constant is written {{ value = ..., source = \"...\" }}, and the \
         source begins with clause:, data sheet:, document:, sysfs:, fit: or assumption:"
    )]
    Provenance {
        /// The key.
        key: String,
        /// The fault, with the source.
        problem: String,
    },
    /// A name that is not defined.
    #[error("there is no {what} named {name}{}", Hint(.suggestion))]
    UnknownName {
        /// The kind of thing looked for.
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest name that exists.
        suggestion: Option<String>,
    },
    /// A constant that the chosen variant replaces.
    #[error("cannot set {path}: variant {variant} replaces it; set {instead}")]
    Overruled {
        /// Path of the constant.
        path: String,
        /// The variant.
        variant: String,
        /// Path of the constant that is in force.
        instead: String,
    },
    /// A variant missing from the lab.
    #[error("lab {lab} has no variant {name} ({}){}", variants(.known), Hint(.suggestion))]
    NoSuchVariant {
        /// The lab.
        lab: String,
        /// The variant.
        name: String,
        /// The nearest variant.
        suggestion: Option<String>,
        /// All variants of the lab.
        known: Vec<String>,
    },
    /// A name used twice.
    #[error("the name {name} is taken: line {first_line} has it already")]
    DuplicateName {
        /// The name.
        name: String,
        /// The line that used it first.
        first_line: usize,
    },
    /// A part or node of the wrong kind.
    #[error("{name} is {found}, but {needed} is needed here")]
    WrongKind {
        /// Name of the part or node.
        name: String,
        /// The kind found.
        found: String,
        /// The kind needed.
        needed: &'static str,
    },
    /// A switch or an endpoint without a link above it.
    #[error("{name} is not connected: no link has it as its lower end")]
    NotLinked {
        /// Name of the switch or endpoint.
        name: String,
    },
    /// Links in a ring.
    #[error("links form a loop: {path}; a PCI Express hierarchy is a tree")]
    Loop {
        /// The names along the ring.
        path: String,
    },
    /// A port claimed by two links.
    #[error("port {port} is taken: the link of line {first_line} has it already")]
    PortTaken {
        /// The port.
        port: String,
        /// The line that claimed it first.
        first_line: usize,
    },
    /// A count above its limit.
    #[error("{what}: {count} is more than the {limit} that are possible")]
    TooMany {
        /// The things counted.
        what: String,
        /// Number of things in the file.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A lab that the fabric rejects.
    #[error("{source}")]
    Build {
        /// The fabric's error.
        source: BuildError,
    },
    /// A host that cannot be enumerated.
    #[error("{source}")]
    Enumeration {
        /// The error of the enumeration.
        source: EnumerationError,
    },
    /// No file and no shipped lab of this name.
    #[error("there is no file {name}, nor a shipped lab of that name; shipped are {shipped}")]
    NoSuchLab {
        /// The name or path asked for.
        name: String,
        /// The names of the shipped labs.
        shipped: String,
    },
    /// Another process that simulates a part of the lab is gone, or its part has failed.
    #[error("{who} {why}")]
    Process {
        /// The process and its machine.
        who: String,
        /// The rest of the sentence.
        why: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The operating system's error.
        #[source]
        reason: Reason,
    },
}

impl Problem {
    /// Returns a short stable word for machines: `unknown-key`.
    pub fn code(&self) -> &'static str {
        self.into()
    }
}

kinds!(Problem {
    Self::NoSuchLab { .. } | Self::NoSuchVariant { .. } => NotFound,
    Self::Unreadable { reason, .. } => reason.kind(),
    Self::Gateware { source, .. } => source.kind(),
    Self::Enumeration { source } => source.kind(),
    Self::Build { source } => source.kind(),
    Self::Process { .. } => LinkDown,
    Self::Syntax { .. } | Self::Empty | Self::UnknownKey { .. } | Self::MissingKey { .. }
    | Self::WrongType { .. } | Self::BadValue { .. } | Self::Provenance { .. }
    | Self::UnknownName { .. } | Self::Overruled { .. } | Self::DuplicateName { .. }
    | Self::WrongKind { .. } | Self::NotLinked { .. } | Self::Loop { .. } | Self::PortTaken { .. }
    | Self::TooMany { .. } => InvalidArgument,
});

/// An error of a lab: the problem and its position. Prints as one line that begins with the
/// position; [`Position::snippet`] shows the line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct LabError {
    /// The problem.
    pub problem: Box<Problem>,
    /// The position, if the problem is about part of a file.
    pub place: Option<Box<Position>>,
}

impl LabError {
    pub(crate) fn at(place: Position, problem: Problem) -> Self {
        Self { problem: Box::new(problem), place: Some(Box::new(place)) }
    }

    pub(crate) fn nowhere(problem: Problem) -> Self {
        Self { problem: Box::new(problem), place: None }
    }
}

kinds!(LabError {
    error => error.problem.kind(),
});

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.problem),
            None => write!(f, "{}", self.problem),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

impl LabError {
    /// Returns a sentence that helps, if there is more to say: the keys of a table.
    pub fn help(&self) -> Option<String> {
        match &*self.problem {
            Problem::UnknownKey { known, .. } => {
                Some(format!("the keys here are {}", known.join(", ")))
            }
            _ => None,
        }
    }
}

/// Returns the word nearest to `word` among `known`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(word.len()) / 4)
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use ErrorKind::{
        Cancelled, Denied, Failed, InvalidArgument, LinkDown, NotFound, Timeout, Unsupported,
    };
    use crosslane_pcie::units::Picoseconds;

    use crosslane_host::ErrorKind;

    use super::*;
    use crate::{Stuck, WhyStuck};

    #[test]
    fn every_error_has_its_kind() {
        let name = String::new;
        let names = || (name(), name(), Some(name()));
        let (key, table, suggestion) = names();
        let (lab, variant, near) = names();
        let (found, expected, problem) = (name(), name(), name());
        let kinds = [
            (Problem::Syntax { message: name() }, InvalidArgument),
            (Problem::Empty, InvalidArgument),
            (Problem::UnknownKey { key, table, suggestion, known: Vec::new() }, InvalidArgument),
            (Problem::Gateware { name: name(), source: CosimError::NotBuilt }, Unsupported),
            (Problem::MissingKey { key: name(), table: name() }, InvalidArgument),
            (Problem::WrongType { key: name(), expected, found }, InvalidArgument),
            (Problem::BadValue { key: name(), problem }, InvalidArgument),
            (Problem::Provenance { key: name(), problem: name() }, InvalidArgument),
            (Problem::UnknownName { what: "", name: name(), suggestion: None }, InvalidArgument),
            (
                Problem::NoSuchVariant { lab, name: variant, suggestion: near, known: Vec::new() },
                NotFound,
            ),
            (Problem::DuplicateName { name: name(), first_line: 1 }, InvalidArgument),
            (Problem::WrongKind { name: name(), found: name(), needed: "" }, InvalidArgument),
            (Problem::NotLinked { name: name() }, InvalidArgument),
            (Problem::Loop { path: name() }, InvalidArgument),
            (Problem::PortTaken { port: name(), first_line: 1 }, InvalidArgument),
            (Problem::TooMany { what: name(), count: 2, limit: 1 }, InvalidArgument),
            (
                Problem::Enumeration { source: EnumerationError::NoBusNumber { bridge: name() } },
                Unsupported,
            ),
            (
                Problem::Enumeration {
                    source: EnumerationError::NotKept { function: name(), offset: 0 },
                },
                Failed,
            ),
            (Problem::Process { who: name(), why: name() }, LinkDown),
            (Problem::NoSuchLab { name: name(), shipped: name() }, NotFound),
            (Problem::Unreadable { path: name(), reason: Reason::new(Denied, "no") }, Denied),
        ];
        for (problem, kind) in kinds {
            let error = LabError::nowhere(problem);
            assert_eq!(error.kind(), kind, "{error}");
        }
        for (why, kind) in [
            (WhyStuck::TimeLimit, Timeout),
            (WhyStuck::NothingLeft, Failed),
            (WhyStuck::NoProgress, Failed),
            (WhyStuck::Ended, Cancelled),
        ] {
            let stuck = Stuck { time: Picoseconds::ZERO, why, waiting: Vec::new() };
            assert_eq!(stuck.kind(), kind, "{stuck}");
        }
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("tag", ["tags", "clock_ns"]), Some("tags".into()));
        assert_eq!(nearest("colour", ["tags", "clock_ns"]), None);
    }

    #[test]
    fn long_lines_are_folded_and_marked_in_every_row() {
        let text = "[a]\r\nkey = \"one two three\"\nü = 1";
        let place = |span| Position::new("f".into(), text.into(), span, "a.key".to_owned());
        let value = place(text.find('"').unwrap()..text.rfind('\n').unwrap());
        let whole = "1 | [a]\n2 | key = \"one two three\"\n  |       ^^^^^^^^^^^^^^^ a.key\n\
                     3 | ü = 1\n";
        assert_eq!(value.snippet(usize::MAX), whole);
        let folded = "1 | [a]\n2 | key = \"one\n  |       ^^^^^\n  | two three\"\n  | ^^^^^^^^^^\n\
                      \x20 | a.key\n3 | ü = 1\n";
        assert_eq!(value.snippet(16), folded);
        let letters = place(text.len()..text.len()).snippet(5);
        assert!(letters.ends_with("\n3 | ü\n  | =\n  | 1\n  |  ^\n  | a.key\n"), "{letters}");
    }

    #[test]
    fn a_place_counts_lines_and_characters() {
        let place = Position::new("f".into(), "a\nüb = 1".into(), 4..5, String::new());
        assert_eq!((place.line, place.column), (2, 2));
        let beyond = Position::new("f".into(), "ü".into(), 1..9, String::new());
        assert_eq!(beyond.span, 0..2);
    }
}
