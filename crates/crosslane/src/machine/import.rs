// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab of another machine, from dumps of its PCI tree.

use std::path::PathBuf;

use crosslane_host::kinds;
use crosslane_lab::{Lab, LabError};
use crosslane_results::{ImportedEndpoint, LabImport};
use crosslane_twin::{DumpError, export_machine, read};
use thiserror::Error;

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
pub fn import(dumps: &[PathBuf], name: &str) -> Result<Imported, ImportError> {
    let machine = read(dumps)?;
    let exported = export_machine(&machine, name).map_err(ImportError::Unsupported)?;
    let build = || Lab::from_text(name, &exported.text)?.build(1);
    build().map_err(Box::new)?;
    let endpoints = exported.endpoints().filter_map(|(address, name)| {
        let function = machine.tree.function(address).ok()?;
        Some(ImportedEndpoint {
            name: name.to_owned(),
            address: address.to_string(),
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
    Ok(Imported {
        summary: LabImport { lab: name.to_owned(), endpoints, gaps: exported.gaps },
        text: exported.text,
    })
}
