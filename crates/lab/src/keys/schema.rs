// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON Schema of lab files (draft 7, which editors know).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use strum::VariantArray;

use super::{
    Absent, FASTEST_GB_PER_S, INFINITE, Key, KeyTable, Kind, LONGEST_NS, ROOT, SLOWEST_GB_PER_S,
};
use crate::file::constant::Provenance;
use crate::file::parts::PartKind;

/// Returns the schema: each table is a definition, and once more for where it overrules another and
/// need not be whole.
pub fn schema() -> Value {
    let mut definitions = BTreeMap::new();
    let root = Writer { definitions: &mut definitions }.table(&ROOT, true);
    let words: Vec<&str> = Provenance::ALL.iter().map(|kind| kind.word()).collect();
    let words = words.join("|");
    let source = json!({ "type": "string", "pattern": format!("^({words}): *\\S") });
    definitions.insert("source".to_owned(), source);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Lab file of Crosslane",
        "allOf": [root],
        "definitions": definitions,
    })
}

struct Writer<'a> {
    definitions: &'a mut BTreeMap<String, Value>,
}

impl Writer<'_> {
    /// Returns a reference to a table's definition.
    fn table(&mut self, table: &'static KeyTable, whole: bool) -> Value {
        let name = format!("{}{}", table.name, if whole { "" } else { ", in part" });
        if !self.definitions.contains_key(&name) {
            self.definitions.insert(name.clone(), Value::Null);
            let definition = self.definition(table, whole);
            self.definitions.insert(name.clone(), definition);
        }
        json!({ "$ref": format!("#/definitions/{}", name.replace(' ', "%20")) })
    }

    fn definition(&mut self, table: &'static KeyTable, whole: bool) -> Value {
        let is_instance = table.also.is_some_and(KeyTable::is_part);
        let is_own = |key: &Key| table.own().iter().any(|own| own.name == key.name);
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for key in table.all() {
            // An instance's keys are whole, those of its part are not.
            let whole = whole && (!is_instance || is_own(key));
            properties.insert(key.name.to_owned(), self.key(key, whole));
            if whole && key.absent == Absent::Error {
                required.push(key.name);
            }
        }
        json!({
            "type": "object",
            "description": table.words.trim(),
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Returns the schema of a key's value.
    fn key(&mut self, key: &Key, whole: bool) -> Value {
        let mut schema = match key.kind {
            Kind::Name | Kind::Sentence | Kind::PartKind => json!({ "type": "string" }),
            Kind::Wish => json!({ "type": "boolean" }),
            Kind::Number => json!({ "type": "integer" }),
            Kind::Numbers(least, most) => {
                json!({ "type": "array", "items": whole_number(least, most) })
            }
            Kind::Ids => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Table(inner) => return self.table(inner, whole),
            Kind::Overrule(inner) => return self.table(inner, false),
            Kind::Named(inner) => {
                json!({ "type": "object", "additionalProperties": self.table(inner, whole) })
            }
            Kind::List(inner) => json!({ "type": "array", "items": self.table(inner, whole) }),
            Kind::Parts | Kind::OverruleParts => {
                json!({ "type": "object", "additionalProperties": self.part(key) })
            }
            kind => constant(kind),
        };
        schema["description"] = key.words.trim().into();
        schema
    }

    /// Returns the schema of a part: by its kind, or of any where it overrules one.
    fn part(&mut self, key: &Key) -> Value {
        if matches!(key.kind, Kind::OverruleParts) {
            let any = PartKind::VARIANTS.iter().map(|kind| self.table(kind.keys(), false));
            return json!({ "anyOf": any.collect::<Vec<_>>() });
        }
        let is = |kind: &PartKind| json!({ "properties": { "kind": { "const": kind.word() } } });
        let kinds = PartKind::VARIANTS
            .iter()
            .map(|kind| json!({ "if": is(kind), "then": self.table(kind.keys(), true) }));
        let kinds: Vec<Value> = kinds.collect();
        json!({
            "properties": { "kind": { "enum": PartKind::words() } },
            "required": ["kind"],
            "allOf": kinds,
        })
    }
}

impl Kind {
    /// Returns the JSON Schema of a value: of a constant without its source. `None` for sentences,
    /// lists and tables.
    pub fn schema(self) -> Option<Value> {
        match self {
            Self::Name => Some(json!({ "type": "string" })),
            Self::Wish => Some(json!({ "type": "boolean" })),
            Self::Number => Some(json!({ "type": "integer" })),
            kind => kind.is_constant().then(|| kind.value_schema()),
        }
    }

    /// Whether it is a constant, which has a source.
    pub const fn is_constant(self) -> bool {
        self.is_number() || matches!(self, Self::Truth | Self::Choice(_) | Self::Identity)
    }

    /// Returns the schema of a constant's value.
    fn value_schema(self) -> Value {
        let number =
            |least: f64, most: f64| json!({ "type": "number", "minimum": least, "maximum": most });
        match self {
            Self::Whole(least, most) | Self::Cost(least, most) => whole_number(least, most),
            Self::WholeOrInfinite(least, most) => or_infinite(&whole_number(least, most)),
            Self::PowerOfTwo(least, most) => {
                let powers: Vec<u64> = (0..u64::BITS).map(|bit| 1 << bit).collect();
                let allowed = powers.into_iter().filter(|power| (least..=most).contains(power));
                json!({ "enum": allowed.collect::<Vec<_>>() })
            }
            Self::OneOf(numbers) => json!({ "enum": numbers }),
            Self::Time => number(0.0, LONGEST_NS),
            Self::Positive(most) => {
                json!({ "type": "number", "exclusiveMinimum": 0, "maximum": most })
            }
            Self::Rate => number(SLOWEST_GB_PER_S, FASTEST_GB_PER_S),
            Self::RateOrInfinite => or_infinite(&number(SLOWEST_GB_PER_S, FASTEST_GB_PER_S)),
            Self::Share(most) => number(0.0, most),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Choice(words) => json!({ "enum": words }),
            Self::Identity => {
                json!({ "type": "string", "pattern": "^[0-9a-fA-F]{4}:[0-9a-fA-F]{4}$" })
            }
            kind => unreachable!("{kind:?} is no constant"),
        }
    }
}

fn whole_number(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn or_infinite(number: &Value) -> Value {
    json!({ "anyOf": [number, { "const": INFINITE }] })
}

/// Returns the schema of a constant of a kind: of a number, with its range.
fn constant(kind: Kind) -> Value {
    let value = kind.value_schema();
    let end = match &value["anyOf"] {
        Value::Array(number_or_infinite) => number_or_infinite[0].clone(),
        _ => value.clone(),
    };
    let mut schema = json!({
        "type": "object",
        "properties": { "value": value, "source": { "$ref": "#/definitions/source" } },
        "required": ["value", "source"],
        "additionalProperties": false,
    });
    if kind.is_number() {
        schema["properties"]["low"] = end.clone();
        schema["properties"]["high"] = end;
        schema["dependencies"] = json!({ "low": ["high"], "high": ["low"] });
    }
    schema
}
