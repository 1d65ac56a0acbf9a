// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lab errors: a problem, and its position in the lab file.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crosslane_cosim::CosimError;
use crosslane_fabric::BuildError;
use crosslane_host::{Reason, kinds};
use miette::{Diagnostic, LabeledSpan, SourceCode};
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

/// `its variants are A, B`.
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
#[derive(Clone, Debug, PartialEq, Error)]
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
        /// Its name.
        name: String,
        /// The kind found.
        found: String,
        /// The kind needed.
        needed: &'static str,
    },
    /// A switch or an endpoint without a link above it.
    #[error("{name} is not connected: no link has it as its lower end")]
    NotLinked {
        /// Its name.
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
        /// Their number.
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
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "syntax",
            Self::Empty => "empty",
            Self::UnknownKey { .. } => "unknown-key",
            Self::MissingKey { .. } => "missing-key",
            Self::WrongType { .. } => "wrong-type",
            Self::BadValue { .. } => "bad-value",
            Self::Provenance { .. } => "provenance",
            Self::UnknownName { .. } => "unknown-name",
            Self::Overruled { .. } => "overruled",
            Self::NoSuchVariant { .. } => "no-such-variant",
            Self::DuplicateName { .. } => "duplicate-name",
            Self::WrongKind { .. } => "wrong-kind",
            Self::NotLinked { .. } => "not-linked",
            Self::Loop { .. } => "loop",
            Self::PortTaken { .. } => "port-taken",
            Self::TooMany { .. } => "too-many",
            Self::Build { .. } => "build",
            Self::Enumeration { .. } => "enumeration",
            Self::NoSuchLab { .. } => "no-such-lab",
            Self::Unreadable { .. } => "unreadable",
            Self::Gateware { .. } => "gateware",
        }
    }
}

kinds!(Problem {
    Self::NoSuchLab { .. } | Self::NoSuchVariant { .. } => NotFound,
    Self::Unreadable { reason, .. } => reason.kind(),
    Self::Gateware { source, .. } => source.kind(),
    Self::Enumeration { source } => source.kind(),
    Self::Build { source } => source.kind(),
    Self::Syntax { .. } | Self::Empty | Self::UnknownKey { .. } | Self::MissingKey { .. }
    | Self::WrongType { .. } | Self::BadValue { .. } | Self::Provenance { .. }
    | Self::UnknownName { .. } | Self::Overruled { .. } | Self::DuplicateName { .. }
    | Self::WrongKind { .. } | Self::NotLinked { .. } | Self::Loop { .. } | Self::PortTaken { .. }
    | Self::TooMany { .. } => InvalidArgument,
});

/// An error of a lab: the problem and its position. Prints as one line that begins with the
/// position; as a [`Diagnostic`] it shows the line of the file.
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

impl Diagnostic for LabError {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(format!("lab::{}", self.problem.code())))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match &*self.problem {
            Problem::UnknownKey { known, .. } => {
                Some(Box::new(format!("the keys here are {}", known.join(", "))))
            }
            _ => None,
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_deref().map(|place| place as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_deref()?;
        let label = (!place.key.is_empty()).then(|| place.key.clone());
        let span = LabeledSpan::new(label, place.span.start, place.span.len());
        Some(Box::new(std::iter::once(span)))
    }
}

/// Shows the text of the file under the file's name.
impl SourceCode for Position {
    fn read_span<'a>(
        &'a self,
        span: &miette::SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        let inner = self.text.read_span(span, lines_before, lines_after)?;
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.file.to_string(),
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        )))
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
    use ErrorKind::{Denied, Failed, InvalidArgument, NotFound, Timeout, Unsupported};
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
    fn a_place_counts_lines_and_characters() {
        let place = Position::new("f".into(), "a\nüb = 1".into(), 4..5, String::new());
        assert_eq!((place.line, place.column), (2, 2));
        let beyond = Position::new("f".into(), "ü".into(), 1..9, String::new());
        assert_eq!(beyond.span, 0..2);
    }
}
