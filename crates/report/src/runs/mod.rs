// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of the program as it prints them with `--json`: read back, shown as pages, and two of them
//! laid side by side.
//!
//! Read first: [`Run`], then [`Comparison`].

mod comparison;
mod comparison_page;
mod document;
mod rows;
mod run;
mod run_page;

pub use comparison::{Comparison, Pair};
pub use document::{
    AccountDocument, BenchDocument, CeilingDocument, ConsequenceDocument, ExplanationDocument,
    FigureDocument, FlowDocument, HardwareDocument, IommuDocument, LatencyDocument, LimitDocument,
    LinkDocument, ReproductionDocument, RowDocument, ScenarioDocument, StatisticsDocument,
    StepDocument, TrialDocument, UseDocument,
};
pub use rows::RowsRun;
pub use run::{Better, MAX_RUN_BYTES, Run, RunError, RunKind, Value};
pub use run_page::{SERVED, SERVED_LATENCY, explanation_blocks};
