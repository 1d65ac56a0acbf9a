// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads tables of a lab file: every value with its position, every constant with its source.
//!
//! A [`Table`] has layers. A key is looked up in the uppermost layer that has it, so that a variant
//! overrules a part, an instance its part, and `upstream_port` overrules `port`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crosslane_pcie::units::Picoseconds;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::constant::{Constant, Provenance, ValueRange, unit_of};
use crate::error::{LabError, Position, Problem, Result, nearest};
use crate::keys::{
    Absent, FASTEST_GB_PER_S, INFINITE, KeyTable, Kind, LONGEST_NS, PART, ROOT, SLOWEST_GB_PER_S,
    or_words,
};

/// State shared by all tables of one file.
pub(super) struct Source {
    pub file: Arc<str>,
    pub text: Arc<str>,
    /// Constants read so far, by their position in the text.
    pub constants: RefCell<BTreeMap<usize, Constant>>,
    /// Numbers that replace the file's, by path.
    pub replaced: BTreeMap<String, f64>,
    /// Offset of each line's end in the text.
    line_ends: Vec<usize>,
}

impl Source {
    pub fn new(file: &str, text: &str, replaced: &BTreeMap<String, f64>) -> Self {
        Self {
            file: file.into(),
            text: text.into(),
            constants: RefCell::default(),
            replaced: replaced.clone(),
            line_ends: text.match_indices('\n').map(|(at, _)| at).collect(),
        }
    }

    pub fn place(&self, span: Range<usize>, key: &str) -> Position {
        Position::new(self.file.clone(), self.text.clone(), span, key.to_owned())
    }

    pub fn error(&self, span: Range<usize>, key: &str, problem: Problem) -> LabError {
        LabError::at(self.place(span, key), problem)
    }

    pub fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }

    /// Rejects any key of a layer that is not among `known`.
    fn only(&self, layer: &Layer<'_>, known: &[&'static str]) -> Result<()> {
        let unknown = layer.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let word = key.get_ref();
        let table = if layer.path.is_empty() { "the lab file" } else { &layer.path };
        let problem = Problem::UnknownKey {
            key: word.to_string(),
            table: table.to_owned(),
            suggestion: nearest(word, known.iter().copied()),
            known: known.to_vec(),
        };
        Err(self.error(key.span(), &join(&layer.path, word), problem))
    }
}

#[derive(Clone)]
struct Layer<'a> {
    path: String,
    table: &'a DeTable<'a>,
    span: Range<usize>,
}

/// A table, or several layers that overrule one another.
#[derive(Clone)]
pub(super) struct Table<'a> {
    pub source: &'a Source,
    /// Keys of the table: their bounds, and the value of one that is left out.
    pub keys: &'static KeyTable,
    /// Uppermost first; never empty.
    layers: Vec<Layer<'a>>,
}

/// A value and the path of its table.
struct Found<'a> {
    path: String,
    place: String,
    value: &'a Spanned<DeValue<'a>>,
}

/// A word or name with its position.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub text: String,
    pub span: Range<usize>,
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text \"{text}\""),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => integer(value).map(|number| number as f64),
    }
}

impl<'a> Table<'a> {
    /// Returns the table at the top of a file.
    pub fn root(source: &'a Source, table: &'a DeTable<'a>) -> Self {
        let span = 0..source.text.len().min(1);
        let layers = vec![Layer { path: String::new(), table, span }];
        Self { source, keys: &ROOT, layers }
    }

    /// Returns it with other keys.
    pub fn with_keys(self, keys: &'static KeyTable) -> Self {
        Self { keys, ..self }
    }

    /// Puts the layers of `upper` above this table's.
    pub fn under(&self, upper: &Table<'a>) -> Self {
        let layers = upper.layers.iter().chain(&self.layers).cloned().collect();
        Self { layers, ..*self }
    }

    /// Returns the path of the lowest layer, which is named when a key is missing.
    pub fn path(&self) -> &str {
        self.layers.last().map_or("", |layer| &layer.path)
    }

    pub fn span(&self) -> Range<usize> {
        self.layers.last().map_or(0..0, |layer| layer.span.clone())
    }

    fn find(&self, key: &str) -> Option<Found<'a>> {
        self.layers.iter().find_map(|layer| {
            let (_, value) = layer.table.get_key_value(key)?;
            let (place, path) = (layer.path.clone(), join(&layer.path, key));
            Some(Found { path, place, value })
        })
    }

    pub fn has(&self, key: &str) -> bool {
        self.layers.iter().any(|layer| layer.table.contains_key(key))
    }

    /// Returns the position of `key`'s value, or of the table if it has none.
    pub fn span_of(&self, key: &str) -> Range<usize> {
        self.find(key).map_or(self.span(), |found| found.value.span())
    }

    /// Returns the path of `key` in the layer that is in force, or in the lowest if none has it.
    pub fn path_of(&self, key: &str) -> String {
        self.find(key).map_or_else(|| join(self.path(), key), |found| found.path)
    }

    pub fn error(&self, key: &str, problem: Problem) -> LabError {
        self.source.error(self.span_of(key), &self.path_of(key), problem)
    }

    pub fn bad(&self, key: &str, problem: String) -> LabError {
        self.error(key, Problem::BadValue { key: self.path_of(key), problem })
    }

    /// Rejects more things than are possible, at the key that sets their number.
    pub fn limit(&self, key: &str, what: &str, count: usize, limit: usize) -> Result<()> {
        match count <= limit {
            true => Ok(()),
            false => Err(self.error(key, Problem::TooMany { what: what.into(), count, limit })),
        }
    }

    pub fn missing(&self, key: &str) -> LabError {
        let table = if self.path().is_empty() { "the lab" } else { self.path() };
        let problem = Problem::MissingKey { key: key.to_owned(), table: table.to_owned() };
        self.source.error(self.span(), self.path(), problem)
    }

    fn wrong_type(&self, found: &Found<'_>, expected: &str) -> LabError {
        let problem = Problem::WrongType {
            key: found.path.clone(),
            expected: expected.to_owned(),
            found: describe(found.value.get_ref()),
        };
        self.source.error(found.value.span(), &found.path, problem)
    }

    /// Rejects any key, in any layer, that the table cannot have.
    pub fn only_known(&self) -> Result<()> {
        let known: Vec<_> = self.keys.all().map(|key| key.name).collect();
        self.layers.iter().try_for_each(|layer| self.source.only(layer, &known))
    }

    /// Returns the layers of a subtable, from all layers of this one, with its keys checked.
    pub fn table(&self, key: &str) -> Result<Option<Table<'a>>> {
        let Some(table) = self.unchecked_table(key)? else { return Ok(None) };
        if let Kind::Table(_) | Kind::Overrule(_) = self.keys.key(key).kind {
            table.only_known()?;
        }
        Ok(Some(table))
    }

    /// Returns the same before its keys are checked.
    pub fn unchecked_table(&self, key: &str) -> Result<Option<Table<'a>>> {
        let keys = match self.keys.key(key).kind {
            Kind::Table(keys) | Kind::Overrule(keys) | Kind::Named(keys) => keys,
            _ => &PART,
        };
        self.subtable(key, keys)
    }

    fn subtable(&self, key: &str, keys: &'static KeyTable) -> Result<Option<Table<'a>>> {
        let mut layers = Vec::new();
        for layer in &self.layers {
            let Some((_, value)) = layer.table.get_key_value(key) else { continue };
            let path = join(&layer.path, key);
            let Some(table) = value.get_ref().as_table() else {
                let found = Found { place: layer.path.clone(), path, value };
                return Err(self.wrong_type(&found, "a table"));
            };
            layers.push(Layer { path, table, span: value.span() });
        }
        Ok((!layers.is_empty()).then_some(Table { source: self.source, keys, layers }))
    }

    pub fn needed_table(&self, key: &str) -> Result<Table<'a>> {
        self.table(key)?.ok_or_else(|| self.missing(key))
    }

    /// Returns the tables of a list `[[key]]`, from the uppermost layer that has one, in order, and
    /// checks their keys.
    pub fn list(&self, key: &str) -> Result<Vec<Table<'a>>> {
        let Kind::List(keys) = self.keys.key(key).kind else { unreachable!("{key} is a list") };
        let Some(found) = self.find(key) else { return Ok(Vec::new()) };
        let Some(list) = found.value.get_ref().as_array() else {
            return Err(self.wrong_type(&found, &format!("a list of tables [[{key}]]")));
        };
        let mut tables = Vec::new();
        for (index, value) in list.iter().enumerate() {
            let path = format!("{}[{}]", found.path, index + 1);
            let Some(table) = value.get_ref().as_table() else {
                let found = Found { place: path.clone(), path, value };
                return Err(self.wrong_type(&found, &format!("a table [[{key}]]")));
            };
            let name = table.get("name").and_then(|name| name.get_ref().as_str());
            let path = name.map_or(path, |name| join(&found.path, name));
            let layers = vec![Layer { path, table, span: value.span() }];
            tables.push(Table { source: self.source, keys, layers });
        }
        Ok(tables)
    }

    /// Returns the subtables, each with its name and the name's position, in the order of the file.
    pub fn children(&self) -> Result<Vec<(Word, Table<'a>)>> {
        let mut names: BTreeMap<usize, Word> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for key in self.layers.iter().rev().flat_map(|layer| layer.table.keys()) {
            if seen.insert(key.get_ref().to_string()) {
                let word = Word { text: key.get_ref().to_string(), span: key.span() };
                names.insert(key.span().start, word);
            }
        }
        let with_table = |name: Word| {
            let table = self.subtable(&name.text, self.keys)?;
            Ok((name.clone(), table.ok_or_else(|| self.missing(&name.text))?))
        };
        names.into_values().map(with_table).collect()
    }

    /// Reads a plain text without a source: a name or a sentence.
    pub fn word(&self, key: &str) -> Result<Option<Word>> {
        let Some(found) = self.find(key) else { return Ok(None) };
        match found.value.get_ref().as_str() {
            Some(text) => Ok(Some(Word { text: text.to_owned(), span: found.value.span() })),
            None => Err(self.wrong_type(&found, "a text in quotes")),
        }
    }

    pub fn needed_word(&self, key: &str) -> Result<Word> {
        self.word(key)?.ok_or_else(|| self.missing(key))
    }

    /// Reads a list of plain texts without a source; empty if the key is left out.
    pub fn words(&self, key: &str) -> Result<Vec<Word>> {
        let Some(found) = self.find(key) else { return Ok(Vec::new()) };
        let expected = "a list of texts in quotes";
        let list = found.value.get_ref().as_array();
        let list = list.ok_or_else(|| self.wrong_type(&found, expected))?;
        let word = |value: &Spanned<DeValue<'_>>| match value.get_ref().as_str() {
            Some(text) => Ok(Word { text: text.to_owned(), span: value.span() }),
            None => Err(self.wrong_type(&found, expected)),
        };
        list.iter().map(word).collect()
    }

    /// Reads a plain true or false without a source: a setting, not a constant.
    pub fn wish(&self, key: &str) -> Result<bool> {
        let Some(found) = self.find(key) else { return self.or_absent(key, None, is_true) };
        let truth = found.value.get_ref().as_bool();
        truth.ok_or_else(|| self.wrong_type(&found, "true or false"))
    }

    /// Reads a constant `{ value = ..., source = "..." }` and checks its source. Its range, where
    /// it may have one, is left to [`range`](Self::range).
    fn constant(&self, key: &str) -> Result<Option<Found<'a>>> {
        let Some(found) = self.find(key) else { return Ok(None) };
        let span = found.value.span();
        let provenance = |span: Range<usize>, problem: String| {
            let problem = Problem::Provenance { key: found.path.clone(), problem };
            self.source.error(span, &found.path, problem)
        };
        let Some(table) = found.value.get_ref().as_table() else {
            let problem = format!("{} has no source", describe(found.value.get_ref()));
            return Err(provenance(span, problem));
        };
        if let Some(value) = table.get("value")
            && self.source.constants.borrow().contains_key(&span.start)
        {
            // It has been read and checked before, as one of its part.
            return Ok(Some(Found { value, ..found }));
        }
        let layer = Layer { path: found.path.clone(), table, span: span.clone() };
        let with_range = self.keys.key(key).kind.is_number();
        let known: &[_] =
            if with_range { &["value", "low", "high", "source"] } else { &["value", "source"] };
        self.source.only(&layer, known)?;
        let Some(source) = table.get("source") else {
            return Err(provenance(span, "it has no source".into()));
        };
        let Some(text) = source.get_ref().as_str() else {
            let problem = format!("its source is {}", describe(source.get_ref()));
            return Err(provenance(source.span(), problem));
        };
        let (kind, text) =
            Provenance::parse(text).map_err(|problem| provenance(source.span(), problem))?;
        let Some(value) = table.get("value") else {
            let problem = Problem::MissingKey { key: "value".into(), table: found.path.clone() };
            return Err(self.source.error(span, &found.path, problem));
        };
        let written = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            other => number(other).map_or_else(|| describe(other), |number| number.to_string()),
        };
        let constant = Constant {
            place: found.place.clone(),
            key: key.to_owned(),
            value: self.replaced(&found.path).map_or(written, |number| number.to_string()),
            range: None,
            unit: unit_of(key),
            provenance: kind,
            source: text,
            line: self.source.line(span.start),
            is_number: number(value.get_ref()).is_some(),
            numbers: super::constant::Numbers::of(self.keys.key(key).kind),
            spans: [span.clone(), value.span(), source.span()],
        };
        self.source.constants.borrow_mut().insert(span.start, constant);
        Ok(Some(Found { value, ..found }))
    }

    /// Returns whether a constant that was read has its value from a register.
    pub fn is_register(&self, key: &str) -> bool {
        let constants = self.source.constants.borrow();
        let constant = self.find(key).and_then(|found| constants.get(&found.value.span().start));
        constant.is_some_and(|constant| constant.provenance == Provenance::Sysfs)
    }

    fn replaced(&self, path: &str) -> Option<f64> {
        self.source.replaced.get(path).copied()
    }

    /// Checks the range of a constant with a value, if it has one, and records it. `read` reads an
    /// end of it within the bounds of the key.
    fn range(&self, key: &str, value: f64, read: impl Fn(&Found<'a>) -> Result<f64>) -> Result<()> {
        let Some(found) = self.find(key) else { return Ok(()) };
        let Some(table) = found.value.get_ref().as_table() else { return Ok(()) };
        let end = |name: &str| {
            let path = join(&found.path, name);
            table.get(name).map(|value| read(&Found { path, place: found.path.clone(), value }))
        };
        let (low, high) = match (end("low").transpose()?, end("high").transpose()?) {
            (None, None) => return Ok(()),
            (Some(low), Some(high)) => (low, high),
            (low, _) => {
                let other = if low.is_some() { "high" } else { "low" };
                let problem =
                    Problem::MissingKey { key: other.to_owned(), table: found.path.clone() };
                return Err(self.error(key, problem));
            }
        };
        let is_replaced = self.replaced(&found.path).is_some();
        if table.get("value").is_some_and(|value| value.get_ref().is_str()) {
            let problem = format!("\"{INFINITE}\" cannot have a range");
            return Err(self.bad(key, problem));
        }
        if low > high {
            return Err(self.bad(key, format!("its low end, {low}, is above its high end, {high}")));
        }
        if !is_replaced && !(low..=high).contains(&value) {
            return Err(self.bad(key, format!("{value} is not within its range, {low} to {high}")));
        }
        let is_low_fast = self.keys.key(key).is_low_fast();
        let range = ValueRange { low, high, is_low_fast };
        if let Some(constant) =
            self.source.constants.borrow_mut().get_mut(&found.value.span().start)
        {
            constant.range = Some(range).filter(|_| !is_replaced);
        }
        Ok(())
    }

    /// Reads a number within limits; `None` if the key is left out.
    fn number(
        &self,
        key: &str,
        limits: RangeInclusive<f64>,
        infinite: bool,
    ) -> Result<Option<f64>> {
        let Some(found) = self.constant(key)? else { return Ok(None) };
        let allowed = |number: f64| match limits.contains(&number) {
            true => Ok(number),
            false => {
                let (low, high) = (limits.start(), limits.end());
                let or = if infinite { " or \"infinite\"" } else { "" };
                let unit = unit_of(key);
                let problem = format!("{number} {unit} is not between {low} and {high} {unit}{or}");
                Err(problem.replace("  ", " "))
            }
        };
        let value = found.value.get_ref();
        let expected = if infinite { "a number or \"infinite\"" } else { "a number" };
        let number = match infinite && value.as_str() == Some(INFINITE) {
            true => f64::INFINITY,
            false => {
                let number = number(value).ok_or_else(|| self.wrong_type(&found, expected))?;
                let number = self.replaced(&found.path).unwrap_or(number);
                allowed(number).map_err(|problem| self.bad(key, problem))?
            }
        };
        self.range(key, number, |end| {
            let number = self::number(end.value.get_ref());
            let number = number.ok_or_else(|| self.wrong_type(end, "a number"))?;
            allowed(number).map_err(|problem| self.bad_end(end, problem))
        })?;
        Ok(Some(number))
    }

    /// Returns the error for an end of a range.
    fn bad_end(&self, end: &Found<'_>, problem: String) -> LabError {
        let problem = Problem::BadValue { key: end.path.clone(), problem };
        self.source.error(end.value.span(), &end.path, problem)
    }

    /// Returns what a key that is left out stands for.
    fn or_absent<T>(&self, key: &str, value: Option<T>, of: impl Fn(f64) -> T) -> Result<T> {
        match (value, self.keys.key(key).absent) {
            (Some(value), _) => Ok(value),
            (None, Absent::Is(number)) => Ok(of(number)),
            (None, Absent::Error | Absent::Nothing) => Err(self.missing(key)),
        }
    }

    /// Reads a number: a positive one, or a probability or share.
    pub fn real(&self, key: &str) -> Result<f64> {
        let limits = match self.keys.key(key).kind {
            Kind::Positive(most) => f64::MIN_POSITIVE..=most,
            Kind::Share(most) => 0.0..=most,
            kind => unreachable!("{key} is {kind:?}"),
        };
        self.or_absent(key, self.number(key, limits, false)?, |number| number)
    }

    /// Reads a plain whole number without a source; `None` if the key is left out.
    pub fn plain_whole(&self, key: &str) -> Result<Option<i128>> {
        let Some(found) = self.find(key) else { return Ok(None) };
        let number = integer(found.value.get_ref());
        number.map(Some).ok_or_else(|| self.wrong_type(&found, "a whole number"))
    }

    /// Reads a list of plain whole numbers without a source: structure, not measurement.
    pub fn needed_wholes(&self, key: &str) -> Result<Vec<u64>> {
        let Kind::Numbers(low, high) = self.keys.key(key).kind else {
            unreachable!("{key} is a list of numbers")
        };
        let found = self.find(key).ok_or_else(|| self.missing(key))?;
        let expected = "a list of whole numbers";
        let list = found.value.get_ref().as_array();
        let list = list.ok_or_else(|| self.wrong_type(&found, expected))?;
        let mut numbers = Vec::new();
        for value in list.iter() {
            let number = integer(value.get_ref());
            let number = number.ok_or_else(|| self.wrong_type(&found, expected))?;
            match u64::try_from(number).ok().filter(|number| (low..=high).contains(number)) {
                Some(number) => numbers.push(number),
                None => {
                    return Err(self.bad(key, format!("{number} is not between {low} and {high}")));
                }
            }
        }
        Ok(numbers)
    }

    /// Reads a time in nanoseconds; `None` if the key is left out.
    pub fn optional_ns(&self, key: &str) -> Result<Option<Picoseconds>> {
        Ok(self.number(key, 0.0..=LONGEST_NS, false)?.map(Picoseconds::from_ns_f64))
    }

    /// Reads a time in nanoseconds.
    pub fn ns(&self, key: &str) -> Result<Picoseconds> {
        self.or_absent(key, self.optional_ns(key)?, Picoseconds::from_ns_f64)
    }

    /// Reads a rate in GB/s, as bytes per second.
    pub fn rate(&self, key: &str) -> Result<f64> {
        let infinite = matches!(self.keys.key(key).kind, Kind::RateOrInfinite);
        let rate = self.number(key, SLOWEST_GB_PER_S..=FASTEST_GB_PER_S, infinite)?;
        Ok(self.or_absent(key, rate, |gb_per_s| gb_per_s)? * 1e9)
    }

    /// Reads a whole number within its limits; `None` if the key is left out. The word "infinite",
    /// where it is allowed, gives the largest of 32 bits.
    pub fn optional_whole(&self, key: &str) -> Result<Option<u64>> {
        let kind = self.keys.key(key).kind;
        let Some(found) = self.constant(key)? else { return Ok(None) };
        let infinite = matches!(kind, Kind::WholeOrInfinite(..));
        let or = if infinite { " or \"infinite\"" } else { "" };
        let read = |found: &Found<'_>, or: &str| {
            let number = integer(found.value.get_ref());
            number.ok_or_else(|| self.wrong_type(found, &format!("a whole number{or}")))
        };
        let allowed = |number| allowed_whole(kind, number).map_err(|problem| problem + or);
        let number = match self.replaced(&found.path) {
            _ if infinite && found.value.get_ref().as_str() == Some(INFINITE) => u32::MAX.into(),
            replaced => {
                let number = replaced.map_or_else(|| read(&found, or), |it| Ok(it.round() as i128));
                allowed(number?).map_err(|problem| self.bad(key, problem))?
            }
        };
        self.range(key, number as f64, |end| {
            let number = allowed(read(end, "")?).map_err(|problem| self.bad_end(end, problem))?;
            Ok(number as f64)
        })?;
        Ok(Some(number))
    }

    /// Reads a whole number within its limits.
    pub fn whole(&self, key: &str) -> Result<u64> {
        self.or_absent(key, self.optional_whole(key)?, |number| number as u64)
    }

    /// Reads a constant that is true or false.
    pub fn truth(&self, key: &str) -> Result<bool> {
        let Some(found) = self.constant(key)? else { return self.or_absent(key, None, is_true) };
        let truth = found.value.get_ref().as_bool();
        truth.ok_or_else(|| self.wrong_type(&found, "true or false"))
    }

    /// Reads a constant that is a text; `None` if the key is left out.
    pub fn text(&self, key: &str) -> Result<Option<String>> {
        let Some(found) = self.constant(key)? else { return Ok(None) };
        let text = found.value.get_ref().as_str();
        let text = text.ok_or_else(|| self.wrong_type(&found, "a text in quotes"))?;
        Ok(Some(text.to_owned()))
    }

    /// Reads a constant that is one of a few words, and returns the choice in the word's place.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[T]) -> Result<T> {
        self.chosen(key).map(|index| choices[index])
    }

    /// Reads a constant that is one of a few words, and returns the word's index.
    pub fn chosen(&self, key: &str) -> Result<usize> {
        let Kind::Choice(words) = self.keys.key(key).kind else {
            unreachable!("{key} is a choice")
        };
        let Some(text) = self.text(key)? else {
            return self.or_absent(key, None, |number| number as usize);
        };
        if let Some(index) = words.iter().position(|word| **word == text) {
            return Ok(index);
        }
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        let nearest = nearest(&text, words.iter().copied());
        let hint = nearest.map(|word| format!("; did you mean \"{word}\"?")).unwrap_or_default();
        Err(self.bad(key, format!("\"{text}\" is not one of {}{hint}", quoted.join(", "))))
    }
}

/// Returns a whole number that a key of this kind may have, or why not.
fn allowed_whole(kind: Kind, number: i128) -> std::result::Result<u64, String> {
    let (low, high) = match kind {
        Kind::Whole(low, high) | Kind::Cost(low, high) => (low, high),
        Kind::WholeOrInfinite(low, high) | Kind::PowerOfTwo(low, high) => (low, high),
        Kind::OneOf(allowed) => {
            let found = allowed.iter().copied().find(|&allowed| i128::from(allowed) == number);
            let words = || or_words(allowed.iter().map(u64::to_string).collect());
            return found.ok_or_else(|| format!("{number} is not {}", words()));
        }
        kind => unreachable!("{kind:?} is not a whole number"),
    };
    match u64::try_from(number).ok().filter(|number| (low..=high).contains(number)) {
        None => Err(format!("{number} is not between {low} and {high}")),
        Some(number) if matches!(kind, Kind::PowerOfTwo(..)) && !number.is_power_of_two() => {
            Err(format!("{number} is not a power of two between {low} and {high}"))
        }
        Some(number) => Ok(number),
    }
}

fn is_true(number: f64) -> bool {
    number != 0.0
}
