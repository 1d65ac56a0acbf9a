// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library of parts: root complexes, switches and endpoints that machines have, with the PCI
//! IDs by which each is known. A file of it has parts as a lab file does.
//!
//! A part is whole, so that a lab can be built of it; what differs from machine to machine (links,
//! sizes, BARs) is only an example there.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::constant::Constant;
use super::parts::{self, PartKind};
use super::table::{Source, Table, Word};
use super::{check_name, parsed};
use crate::error::{Problem, Result, nearest};
use crate::keys::{KeyTable, LIBRARY, LIBRARY_ENDPOINT, LIBRARY_HOST, LIBRARY_SWITCH};
use crate::shipped::LIBRARY_FILES;

/// A part of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct LibraryPart {
    /// Its name: `intel-haswell-ep`.
    pub name: String,
    /// A root complex, switch or endpoint.
    pub kind: PartKind,
    /// Description of the part.
    pub summary: String,
    /// Devices that it stands for; none: every device of its kind that no other part matches.
    pub matches: Vec<Match>,
    /// Its constants, those of a part that it is like among them, in the order of the file.
    pub constants: Vec<LibraryConstant>,
}

/// A constant of a part of the library.
#[derive(Clone, Debug, PartialEq)]
pub struct LibraryConstant {
    /// Name of the part in which it stands: this one, or one that this one is like.
    pub part: String,
    /// Its table below the part: `memory`, or empty.
    pub table: String,
    /// The constant.
    pub constant: Constant,
}

/// Devices that a part stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// A vendor's devices.
    Devices {
        /// Vendor ID.
        vendor: u16,
        /// Device IDs.
        devices: RangeInclusive<u16>,
    },
    /// Devices of a class and subclass that no part matches by their IDs.
    Class(u16),
}

impl Match {
    /// Reads `8086:2f02`, `8086:2f04-2f0b` or `class 0108`.
    fn parse(text: &str) -> Option<Self> {
        let half = |text: &str| (text.len() == 4).then(|| u16::from_str_radix(text, 16).ok())?;
        if let Some(class) = text.strip_prefix("class ") {
            return half(class).map(Self::Class);
        }
        let (vendor, devices) = text.split_once(':')?;
        let (first, last) = devices.split_once('-').unwrap_or((devices, devices));
        let devices = half(first)?..=half(last)?;
        (!devices.is_empty()).then_some(Self::Devices { vendor: half(vendor)?, devices })
    }
}

impl PartKind {
    /// Returns the keys of such a part of the library.
    const fn library_keys(self) -> Option<&'static KeyTable> {
        match self {
            Self::RootComplex => Some(&LIBRARY_HOST),
            Self::Switch => Some(&LIBRARY_SWITCH),
            Self::Endpoint => Some(&LIBRARY_ENDPOINT),
            Self::Link | Self::Network | Self::TorusLink => None,
        }
    }
}

/// Reads the library of the program.
///
/// # Errors
/// As [`parts_of`]; the files of the program have no problem.
pub fn library() -> Result<Vec<LibraryPart>> {
    let mut parts = Vec::new();
    for (file, text) in LIBRARY_FILES {
        parts.extend(parts_of(file, text)?);
    }
    Ok(parts)
}

/// Reads a file of the library; `file` is its name for errors.
///
/// # Errors
/// The first problem of the file, with its position.
pub fn parts_of(file: &str, text: &str) -> Result<Vec<LibraryPart>> {
    let source = Source::new(file, text, &BTreeMap::new());
    let parsed = parsed(&source)?;
    let root = Table::root(&source, parsed.get_ref()).with_keys(&LIBRARY);
    root.only_known()?;
    let mut known: BTreeMap<String, (PartKind, Table<'_>)> = BTreeMap::new();
    let mut parts = Vec::new();
    for (name, table) in root.needed_table("part")?.children()? {
        check_name(&table, "", &name)?;
        let kind = PartKind::read(&table)?;
        let Some(keys) = kind.library_keys() else {
            let problem = format!("a library has no part of the kind {}", kind.word());
            return Err(table.bad("kind", problem));
        };
        let own = table.with_keys(keys);
        let table = match own.word("like")? {
            None => own.clone(),
            Some(like) => match known.get(&like.text) {
                Some((base, table)) if *base == kind => table.under(&own),
                Some((base, _)) => {
                    return Err(parts::wrong_kind(&own, "like", &like.text, *base, kind));
                }
                None => {
                    let suggestion = nearest(&like.text, known.keys().map(String::as_str));
                    let (what, name) = ("part above", like.text);
                    return Err(own.error("like", Problem::UnknownName { what, name, suggestion }));
                }
            },
        };
        source.constants.borrow_mut().clear();
        parts::check(kind, &table)?;
        parts.push(LibraryPart {
            name: name.text.clone(),
            kind,
            summary: own.needed_word("summary")?.text,
            matches: matches(&own)?,
            constants: source.constants.take().into_values().map(below_part).collect(),
        });
        known.insert(name.text, (kind, table));
    }
    Ok(parts)
}

fn matches(table: &Table<'_>) -> Result<Vec<Match>> {
    let parsed = |word: Word| {
        let problem = || {
            let key = table.path_of("matches");
            let problem = format!(
                "\"{}\" is not like \"8086:2f02\", \"8086:2f04-2f0b\" or \"class 0108\"",
                word.text
            );
            table.source.error(word.span.clone(), &key.clone(), Problem::BadValue { key, problem })
        };
        Match::parse(&word.text).ok_or_else(problem)
    };
    table.words("matches")?.into_iter().map(parsed).collect()
}

/// Returns a constant with its place below its part.
fn below_part(constant: Constant) -> LibraryConstant {
    let mut place = constant.place.splitn(3, '.').skip(1).map(str::to_owned);
    let (part, table) = (place.next().unwrap_or_default(), place.next().unwrap_or_default());
    drop(place);
    LibraryConstant { part, table, constant }
}
