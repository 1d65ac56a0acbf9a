// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference page of lab files, in Markdown.

use std::fmt::Write;

use strum::VariantArray;

use super::{Absent, INFINITE, Key, KeyTable, Kind, ROOT, or_words};
use crate::file::parts::PartKind;

/// Text above the tables.
const HEAD: &str = "\
<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
# Keys of lab files

Written by `crosslane lab keys`, from the declarations that the reader of lab files checks against.
`crosslane lab schema` prints the same as a JSON Schema, with which an editor completes keys and
marks mistakes: put `#:schema ./lab.schema.json` at the top of a lab file for Taplo and Even Better
TOML. `labs/minimal.toml` is the file to copy. `part.ENDPOINT` stands for any part of the kind
`endpoint`.

A constant is `{ value = ..., source = \"...\" }`, where the source begins with what kind it is:
`clause:` (of the specification), `data sheet:`, `document:` (a publication, such as the paper that
the lab reproduces), `sysfs:` (read from a machine), `fit:` (and to what) or `assumption:` (and
why). Names, sentences, lists and settings have no source. The unit is the end of the key: `_ns`,
`_bytes`, `_gb_per_s` (10^9 bytes). Times are at most 1000 s, rates 10^-6 to 10^6 GB/s.

A number that nobody publishes may have a range beside its value, within the same bounds:
`{ value = 132, low = 90, high = 250, source = \"assumption: ...\" }`. Runs use the value;
`topo --matrix` makes them at both ends too. Of times, shares and numbers of clocks the low end is
the fast one, of rates, credits, slots and all else the high one.

A variant's part may overrule any constant of the part with that name, and an instance any constant
of its part.
";

/// A table and the places that have it.
struct Section {
    table: &'static KeyTable,
    places: Vec<String>,
}

/// Returns the page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for Section { table, places } in sections() {
        let heading = match places.is_empty() {
            true if std::ptr::eq(table, &ROOT) => "Top of the file".to_owned(),
            true => format!("Every {}", table.name),
            false => places.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", "),
        };
        let _ = write!(page, "\n## {heading}\n\n{}", table.words.trim());
        match table.also {
            Some(part) if part.is_part() => page += " Beside these, any constant of its part.",
            Some(also) => {
                let _ = write!(page, " Beside these, the keys of every {}.", also.name);
            }
            None => {}
        }
        page += "\n\n| Key | Value | Left out | Meaning |\n|---|---|---|---|\n";
        for key in table.own() {
            let (value, absent, words) = (key.kind.words(), key.absent_words(), key.words.trim());
            let _ = writeln!(page, "| `{}` | {value} | {absent} | {words} |", key.name);
        }
    }
    page
}

/// Returns all tables, each once, in the order in which a reader meets them.
fn sections() -> Vec<Section> {
    let mut sections = Vec::new();
    visit(&ROOT, String::new(), &mut sections);
    sections
}

fn visit(table: &'static KeyTable, place: String, sections: &mut Vec<Section>) {
    let known = sections.iter_mut().find(|section| std::ptr::eq(section.table, table));
    let places = Vec::from_iter((!place.is_empty()).then(|| place.clone()));
    match known {
        Some(section) => return section.places.extend(places),
        None => sections.push(Section { table, places }),
    }
    let below = |name: &str| if place.is_empty() { name.into() } else { format!("{place}.{name}") };
    for key in table.own() {
        match key.kind {
            Kind::Table(inner) | Kind::Overrule(inner) => visit(inner, below(key.name), sections),
            Kind::Named(inner) => visit(inner, below(&format!("{}.NAME", key.name)), sections),
            Kind::List(inner) => visit(inner, format!("[[{}]]", key.name), sections),
            Kind::Parts => {
                for kind in PartKind::VARIANTS {
                    visit(kind.keys(), format!("part.{}", kind.word().to_uppercase()), sections);
                }
            }
            _ => {}
        }
    }
    if let Some(also) = table.also.filter(|also| !also.is_part()) {
        visit(also, String::new(), sections);
    }
}

impl KeyTable {
    /// Whether it is a part.
    pub fn is_part(&'static self) -> bool {
        self.own().iter().any(|key| matches!(key.kind, Kind::PartKind))
    }
}

impl Kind {
    /// Describes the values in words.
    pub fn words(self) -> String {
        let between = |what: &str, least, most| {
            format!("{what}, {} to {}", number_words(least), number_words(most))
        };
        match self {
            Self::Name => "name".into(),
            Self::Sentence => "sentence".into(),
            Self::Wish => "setting, true or false".into(),
            Self::Number => "number".into(),
            Self::Numbers(least, most) => between("list of whole numbers", least, most),
            Self::Ids => "list of PCI IDs, as `8086:2f02` and `8086:2f04-2f0b`".into(),
            Self::Table(_) | Self::Overrule(_) => "table".into(),
            Self::Named(_) | Self::Parts | Self::OverruleParts => "tables by name".into(),
            Self::List(_) => "list of tables".into(),
            Self::PartKind => "word".into(),
            Self::Whole(least, most) | Self::Cost(least, most) => {
                between("whole number", least, most)
            }
            Self::WholeOrInfinite(least, most) => {
                format!("{}, or `{INFINITE}`", between("whole number", least, most))
            }
            Self::PowerOfTwo(least, most) => between("power of two", least, most),
            Self::OneOf(numbers) => or_words(numbers.iter().map(u64::to_string).collect()),
            Self::Time => "time".into(),
            Self::Positive(most) => format!("number above 0, to {most}"),
            Self::Rate => "rate".into(),
            Self::RateOrInfinite => format!("rate, or `{INFINITE}`"),
            Self::Share(most) => format!("0 to {most}"),
            Self::Truth => "true or false".into(),
            Self::Choice(words) => or_words(words.iter().map(|word| format!("`{word}`")).collect()),
            Self::Identity => "as `10ee:7028`".into(),
        }
    }
}

impl Key {
    /// Describes what its absence means: `error`, `-`, or the value that holds then.
    pub fn absent_words(&self) -> String {
        let is_truth = matches!(self.kind, Kind::Truth | Kind::Wish);
        if let (Kind::Choice(words), Absent::Is(index)) = (&self.kind, self.absent) {
            return format!("`{}`", words[index as usize]);
        }
        match self.absent {
            Absent::Error => "error".into(),
            Absent::Is(value) if is_truth => (value != 0.0).to_string(),
            Absent::Is(value) if value.is_infinite() => format!("`{INFINITE}`"),
            Absent::Is(value) => value.to_string(),
            Absent::Nothing => "-".into(),
        }
    }
}

/// Writes a bound: large powers of two as such.
fn number_words(number: u64) -> String {
    match number.is_power_of_two() && number > 1 << 16 {
        true => format!("2^{}", number.trailing_zeros()),
        false => number.to_string(),
    }
}
