// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of lab files: name, type, bounds, value if left out, and meaning, each declared once.
//!
//! The reader of lab files takes bounds and defaults from here and rejects every other key; the
//! reference page (`docs/lab-keys.md`) and the JSON Schema (`crosslane lab schema`) are made of the
//! same declarations. Read first: [`ROOT`], the top of a lab file.

mod declared;
mod page;
mod schema;

use std::sync::LazyLock;

pub use crosslane_fabric::parameters::Absent;
use crosslane_fabric::parameters::{Parameter, ParameterKind, Parameters};

pub use declared::ROOT;
pub(crate) use declared::*;
pub use page::page;
pub use schema::schema;

use crate::file::constant::unit_of;

/// Longest time of a constant, nanoseconds: 1000 s.
pub const LONGEST_NS: f64 = 1e12;
/// Lowest finite rate of a constant, GB/s.
pub const SLOWEST_GB_PER_S: f64 = 1e-6;
/// Highest finite rate of a constant, GB/s.
pub const FASTEST_GB_PER_S: f64 = 1e6;
/// The word for a number without limit.
pub const INFINITE: &str = "infinite";

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key; it ends in its unit.
    pub name: &'static str,
    /// Type and bounds of its value.
    pub kind: Kind,
    /// Meaning of its absence.
    pub absent: Absent,
    /// Meaning of the key.
    pub words: &'static str,
}

/// Type and bounds of a key's value. Constants have a source, structure and settings have none.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A name, or a range of names.
    Name,
    /// A sentence.
    Sentence,
    /// True or false, as wished.
    Wish,
    /// A whole number.
    Number,
    /// A list of whole numbers between two.
    Numbers(u64, u64),
    /// A list of PCI IDs and classes.
    Ids,
    /// A table.
    Table(&'static KeyTable),
    /// A table that overrules another.
    Overrule(&'static KeyTable),
    /// Tables by name.
    Named(&'static KeyTable),
    /// A list of tables.
    List(&'static KeyTable),
    /// Parts by name: each has the keys of its kind.
    Parts,
    /// Tables by name that overrule parts.
    OverruleParts,
    /// The kind of a part: its word.
    PartKind,
    /// A constant: a whole number between two.
    Whole(u64, u64),
    /// A constant: a whole number between two, with less of which a lab is faster.
    Cost(u64, u64),
    /// A constant: a whole number between two, or without limit.
    WholeOrInfinite(u64, u64),
    /// A constant: a power of two between two.
    PowerOfTwo(u64, u64),
    /// A constant: one of these numbers.
    OneOf(&'static [u64]),
    /// A constant: a time, up to [`LONGEST_NS`].
    Time,
    /// A constant: a positive number up to this one.
    Positive(f64),
    /// A constant: a rate from [`SLOWEST_GB_PER_S`] to [`FASTEST_GB_PER_S`].
    Rate,
    /// A constant: a rate, or without limit.
    RateOrInfinite,
    /// A constant: a probability or a share, 0 up to this.
    Share(f64),
    /// A constant: true or false.
    Truth,
    /// A constant: one of these words.
    Choice(&'static [&'static str]),
    /// A constant: two numbers of four hexadecimal digits, as `10ee:7028`.
    Identity,
}

impl Kind {
    /// Whether it is a number, which may have a range.
    pub(crate) const fn is_number(self) -> bool {
        matches!(
            self,
            Self::Whole(..)
                | Self::Cost(..)
                | Self::WholeOrInfinite(..)
                | Self::PowerOfTwo(..)
                | Self::OneOf(_)
                | Self::Time
                | Self::Positive(_)
                | Self::Rate
                | Self::RateOrInfinite
                | Self::Share(_)
        )
    }
}

/// The keys of a table.
#[derive(Debug)]
pub struct KeyTable {
    /// Name of the table among all tables.
    pub name: &'static str,
    /// The subject of the table.
    pub words: &'static str,
    /// Keys of the table, in the order of the page.
    keys: LazyLock<Vec<Key>>,
    /// A table whose keys it has as well: all of a memory's, say, or those of the part that an
    /// instance may overrule.
    pub also: Option<&'static Self>,
}

impl KeyTable {
    /// Returns its own keys, without those of [`also`](Self::also).
    pub fn own(&'static self) -> &'static [Key] {
        &self.keys
    }

    /// Returns it and the tables whose keys it has as well.
    fn chain(&'static self) -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Some(self), |table| table.also)
    }

    /// Returns all of its keys. The kind and the summary of a part are not an instance's to change.
    pub fn all(&'static self) -> impl Iterator<Item = &'static Key> {
        let also = self.chain().skip(1).flat_map(Self::own);
        self.own().iter().chain(also.filter(|key| !key.is_of_part()))
    }

    /// Returns the key with a name.
    ///
    /// # Panics
    /// Panics if there is none: the reader asks only for what is declared.
    pub(crate) fn key(&'static self, name: &str) -> &'static Key {
        let found = self.chain().flat_map(Self::own).find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("table {} declares no key {name}", self.name))
    }
}

/// Joins words: `a, b or c`.
pub(crate) fn or_words(mut words: Vec<String>) -> String {
    let last = words.pop().unwrap_or_default();
    if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
}

impl Key {
    /// Whether the low end of its range makes a lab faster: that of times, of shares (of wrong
    /// bits, of rare reads) and of costs. Of all others it is the high end.
    pub(crate) const fn is_low_fast(&self) -> bool {
        matches!(self.kind, Kind::Time | Kind::Share(_) | Kind::Cost(..))
    }

    /// Returns the unit that the end of its name says; empty for a plain number or a word.
    pub fn unit(&self) -> &'static str {
        unit_of(self.name)
    }

    /// Whether it is a part's own: what an instance cannot overrule.
    const fn is_of_part(&self) -> bool {
        matches!(self.kind, Kind::PartKind | Kind::Sentence)
    }
}

/// Returns the keys of the parameters whose own are not `others`, which another table has.
fn keys_of<P: Parameters>(others: impl Fn(&'static str) -> bool) -> impl Iterator<Item = Key> {
    P::ALL.iter().filter(move |parameter| !others(parameter.key)).map(Key::of)
}

impl Key {
    /// Returns the key of a parameter.
    fn of(parameter: &Parameter) -> Self {
        let (kind, unit) = match parameter.kind {
            ParameterKind::Whole(least, most) => (Kind::Whole(least, most), 1.0),
            ParameterKind::Cost(least, most) => (Kind::Cost(least, most), 1.0),
            ParameterKind::WholeOrInfinite(least, most) => {
                (Kind::WholeOrInfinite(least, most), 1.0)
            }
            ParameterKind::PowerOfTwo(least, most) => (Kind::PowerOfTwo(least, most), 1.0),
            ParameterKind::OneOf(numbers) => (Kind::OneOf(numbers), 1.0),
            // Picoseconds there, nanoseconds here.
            ParameterKind::Time(..) => (Kind::Time, 1000.0),
            ParameterKind::Rate => (Kind::RateOrInfinite, 1e9),
            ParameterKind::Share(most) => (Kind::Share(most), 1.0),
            ParameterKind::Truth => (Kind::Truth, 1.0),
            ParameterKind::Choice(words) => (Kind::Choice(words), 1.0),
        };
        let absent = match parameter.absent {
            Absent::Is(number) => Absent::Is(number / unit),
            absent => absent,
        };
        Self { name: parameter.key, kind, absent, words: parameter.words }
    }
}

/// Declares tables: a docstring, a name, and keys as `name: kind` or `name: kind => absent`, each
/// with a docstring. `..parameters` among them has the keys of these, `without` those that a
/// function names.
macro_rules! tables {
    ($(
        $(#[doc = $words:literal])*
        $visibility:vis $table:ident $name:literal $(: $also:ident)? {
            $($(#[doc = $key_words:literal])* $key:ident: $kind:expr $(=> $absent:expr)?;)*
            $(
                ..$parameters:ty $(, without $others:path)?;
                $($(#[doc = $more_words:literal])* $more:ident: $more_kind:expr
                    $(=> $more_absent:expr)?;)*
            )?
        }
    )*) => {$(
        $(#[doc = $words])*
        $visibility static $table: KeyTable = KeyTable {
            name: $name,
            words: concat!($($words),*),
            keys: LazyLock::new(|| {
                let keys = [$(tables!(@key $key $kind, $($absent)?; $($key_words)*),)*];
                let keys = keys.into_iter();
                $(
                    let keys = keys.chain(keys_of::<$parameters>(tables!(@others $($others)?)));
                    let keys = keys.chain([$(
                        tables!(@key $more $more_kind, $($more_absent)?; $($more_words)*),
                    )*]);
                )?
                keys.collect()
            }),
            also: tables!(@also $($also)?),
        };
    )*};
    (@key $key:ident $kind:expr, $($absent:expr)?; $($words:literal)*) => {
        Key {
            name: stringify!($key),
            kind: $kind,
            absent: tables!(@absent $($absent)?),
            words: concat!($($words),*),
        }
    };
    (@absent) => { Absent::Error };
    (@absent $absent:expr) => { $absent };
    (@others) => { |_| false };
    (@others $others:path) => { $others };
    (@also) => { None };
    (@also $also:ident) => { Some(&$also) };
}
use tables;
