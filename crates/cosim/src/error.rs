// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why there is no card.

use std::path::PathBuf;

use thiserror::Error;

/// Why the gateware cannot stand in the place of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CosimError {
    /// The program was built without the feature.
    #[error(
        "this program was built without the gateware: `make rtl` builds one that has it (cargo's \
         --features rtl, with Verilator and a C++ compiler)"
    )]
    NotBuilt,
    /// There is a model for other parameters only.
    #[error("no model of the gateware is built like that: {why}; there are {there}")]
    NoConfiguration {
        /// What is different from the nearest one.
        why: String,
        /// Those that there are.
        there: String,
    },
    /// The models cannot write traces.
    #[error(
        "this program's gateware writes no traces: build it with `--features rtl-trace` instead \
         of `rtl`"
    )]
    NoTrace,
    /// The file of a trace cannot be written.
    #[error("the trace {} cannot be written", file.display())]
    TraceFile {
        /// The file.
        file: PathBuf,
    },
}
