// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of machines, whole and broken, and the labs that they become.

mod dumps;
mod fuzz_dumps;
mod places;

use std::sync::LazyLock;

use crosslane_lab::file::parts::PartKind as LabPartKind;
use crosslane_lab::{LibraryConstant, Match};
use crosslane_twin::{Library, Part, PartConstant, PartKind};

/// The program's library of parts.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let parts = crosslane_lab::library().unwrap_or_else(|error| panic!("{error}"));
    let parts = parts.into_iter().map(|part| Part {
        kind: match part.kind {
            LabPartKind::RootComplex => PartKind::RootComplex,
            LabPartKind::Switch => PartKind::Switch,
            _ => PartKind::Endpoint,
        },
        devices: part.matches.iter().filter_map(devices).collect(),
        classes: part.matches.iter().filter_map(class).collect(),
        constants: part.constants.iter().map(constant).collect(),
        name: part.name,
        summary: part.summary,
    });
    Library::new(parts.collect())
});

fn devices(found: &Match) -> Option<(u16, std::ops::RangeInclusive<u16>)> {
    match found {
        Match::Devices { vendor, devices } => Some((*vendor, devices.clone())),
        Match::Class(_) => None,
    }
}

fn class(found: &Match) -> Option<u16> {
    match found {
        Match::Devices { .. } => None,
        Match::Class(class) => Some(*class),
    }
}

fn constant(found: &LibraryConstant) -> PartConstant {
    let LibraryConstant { part, table, constant } = found;
    PartConstant {
        part: part.clone(),
        table: table.clone(),
        key: constant.key.clone(),
        value: constant.written(),
        source: format!("{}: {}", constant.provenance, constant.source),
    }
}
