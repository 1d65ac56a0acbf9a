// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of creating or tracing a card.

use std::path::PathBuf;

use crosslane_pcie::kinds;
use thiserror::Error;

/// Error of using the gateware in place of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CosimError {
    /// The program was built without the feature `rtl`.
    #[error(
        "this program was built without the gateware: `make rtl` builds one that has it (cargo's \
         --features rtl, with Verilator and a C++ compiler)"
    )]
    NotBuilt,
    /// No model is built for these parameters.
    #[error("no such model of the gateware: {why}; available: {there}")]
    NoConfiguration {
        /// Differences from the nearest model.
        why: String,
        /// Models that are built.
        there: String,
    },
    /// The models were built without traces.
    #[error(
        "this program's gateware writes no traces: build it with `--features rtl-trace` instead \
         of `rtl`"
    )]
    NoTrace,
    /// The trace file cannot be written.
    #[error("the trace {} cannot be written", file.display())]
    TraceFile {
        /// Path of the trace file.
        file: PathBuf,
    },
}

kinds!(CosimError {
    Self::NotBuilt | Self::NoConfiguration { .. } | Self::NoTrace => Unsupported,
    Self::TraceFile { .. } => Failed,
});
