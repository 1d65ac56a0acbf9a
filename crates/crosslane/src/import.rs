// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as a lab: another one, from dumps of its PCI tree, or the way to a card of this one.
//! The library of parts has what no register says.

use std::path::PathBuf;
use std::sync::LazyLock;

use crosslane_host::kinds;
use crosslane_lab::file::parts::PartKind as LabPartKind;
use crosslane_lab::{Lab, LabError, LibraryConstant, LibraryPart, Match};
use crosslane_results::{ImportedEndpoint, ImportedPart, LabImport};
use crosslane_twin::{
    DumpError, Exported, Library, Machine, Part, PartConstant, PartKind, PciFunction, Tree,
    export_machine, read_texts,
};
use thiserror::Error;

/// The library of parts that the program has.
static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let parts = crosslane_lab::library().expect("a test reads the program's library");
    Library::new(parts.into_iter().filter_map(part).collect())
});

fn part(part: LibraryPart) -> Option<Part> {
    let kind = match part.kind {
        LabPartKind::RootComplex => PartKind::RootComplex,
        LabPartKind::Switch => PartKind::Switch,
        LabPartKind::Endpoint => PartKind::Endpoint,
        LabPartKind::Link | LabPartKind::Network | LabPartKind::TorusLink => return None,
    };
    let (mut devices, mut classes) = (Vec::new(), Vec::new());
    for found in part.matches {
        match found {
            Match::Devices { vendor, devices: ids } => devices.push((vendor, ids)),
            Match::Class(class) => classes.push(class),
        }
    }
    let constants = part.constants.iter().map(constant).collect();
    Some(Part { name: part.name, kind, summary: part.summary, devices, classes, constants })
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

/// Returns the way to some cards as a lab file, as [`crosslane_twin::export`] does, with the
/// program's library of parts.
///
/// # Errors
/// The reason for which the cards cannot be described as a lab, a sentence.
pub fn export(
    tree: &Tree,
    lab_name: &str,
    cards: &[&PciFunction],
    engine: bool,
) -> Result<Exported, String> {
    crosslane_twin::export(tree, lab_name, cards, engine, &LIBRARY)
}

/// Reason for which dumps make no lab.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A dump cannot be read.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The machine cannot be described as a lab; the sentence says why.
    #[error("cannot make a lab of this machine: {0}")]
    Unsupported(String),
    /// A lab of the machine cannot be built.
    #[error("cannot build the lab of this machine: {0}")]
    Lab(#[from] Box<LabError>),
}

kinds!(ImportError {
    Self::Dump(error) => error.kind(),
    Self::Unsupported(_) => Unsupported,
    Self::Lab(error) => error.kind(),
});

/// The lab of a machine, which can be built.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The lab file.
    pub text: String,
    /// Its endpoints, and what the dumps do not show.
    pub summary: LabImport,
}

/// Makes a lab with this name from dumps of one machine: see [`crosslane_twin::read`].
///
/// # Errors
/// Dumps that cannot be read or are of different machines, and a machine that no lab can be.
#[cfg(not(target_family = "wasm"))]
pub fn import(dumps: &[PathBuf], name: &str) -> Result<Imported, ImportError> {
    twin(&crosslane_twin::read(dumps)?, name)
}

/// Makes a lab with this name from dumps of one machine that are texts, each with the name that
/// errors have for it.
///
/// # Errors
/// Dumps that cannot be read or are of different machines, and a machine that no lab can be.
pub fn import_texts(dumps: &[(PathBuf, String)], name: &str) -> Result<Imported, ImportError> {
    twin(&read_texts(dumps)?, name)
}

/// Makes a lab with this name of a machine.
fn twin(machine: &Machine, name: &str) -> Result<Imported, ImportError> {
    let exported = export_machine(machine, name, &LIBRARY).map_err(ImportError::Unsupported)?;
    let build = || Lab::from_text(name, &exported.text)?.build(1);
    build().map_err(Box::new)?;
    let endpoints = exported.endpoints().filter_map(|(address, name)| {
        let function = machine.tree.function(address).ok()?;
        Some(ImportedEndpoint {
            name: name.to_owned(),
            address: match machine.is_shown(address) {
                true => address.to_string(),
                false => "not shown".to_owned(),
            },
            vendor: format!("{:04x}", function.vendor),
            device: format!("{:04x}", function.device),
            class_words: function.class_words().to_owned(),
            described: machine.names.get(&address).cloned(),
            link: function.link().map(|(now, _)| now.to_string()),
            best_link: function.link().map(|(_, best)| best.to_string()),
            numa_node: function.numa_node,
        })
    });
    let endpoints = endpoints.collect();
    let parts = exported.parts.into_iter().map(|taken| ImportedPart {
        part: taken.part,
        kind: taken.kind.word().to_owned(),
        summary: taken.summary,
        is_match: taken.is_match,
        devices: taken.devices.iter().map(ToString::to_string).collect(),
    });
    let parts = parts.collect();
    Ok(Imported {
        summary: LabImport { lab: name.to_owned(), endpoints, parts, gaps: exported.gaps },
        text: exported.text,
    })
}
