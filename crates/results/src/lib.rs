// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes of runs as plain data: `--json` prints them, and text, pages, CSV and comparisons
//! render them. Only simple ratios are computed here.
//!
//! Read first: [`Outcome`], then [`Bench`] and [`Flow`]; [`Explanation`] for why a run was not
//! faster.
//!
//! Rates are in bytes per second, times in picoseconds unless the name says otherwise, shares are
//! fractions of one. Whatever the program prints with `--json`, lists excepted, contains the number
//! of its [schema](SCHEMA), which increases when a key changes its meaning or disappears; new keys
//! do not change it.

#![forbid(unsafe_code)]

/// Declares an enum that JSON spells in snake case, and its values in order as `ALL`.
macro_rules! listed {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$of_value:meta])* $value:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$of_value])* $value,)+ }

        impl $name {
            /// All values, in order.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];
        }
    };
}

mod bench;
mod bridge;
mod calibration;
mod comparison;
mod explanation;
mod fit;
mod flow;
mod lab;
mod links;
pub mod machine;
mod outcome;
pub mod quantity;
mod reproduction;
mod rows;
pub mod topology;
mod torture;
mod validation;
mod what_if;

pub use bench::{Bench, Interrupted, Latency, Platform, SCHEMA, ScenarioResult, Together};
pub use bridge::{
    Bridge, BridgeCopy, BridgeReport, BridgeStage, BridgeStep, BridgeTransfer, Overlap,
};
pub use calibration::{CalibratedConstant, CalibratedRow, Calibration};
pub use comparison::{Compared, ComparedBottleneck, ComparedFigure, SingleFigure};
pub use explanation::{
    Better, CLOSE, Consequence, Explanation, Figure, HasWhy, Limit, LimitKind, Step, Trial,
};
pub use fit::{BAD_RESIDUAL, Fit, FitResidual, Fits};
pub use flow::{
    Ceiling, Channel, Detail, Exchange, Flow, Gets, Hardware, Latencies, LinkSoak, PlanSummary,
    ReceiveQueue, Stores, Traffic, Transfers, WritesByLength,
};
pub use lab::{
    ImportedEndpoint, ImportedPart, LabCheck, LabConstant, LabConstants, LabFileCheck, LabImport,
    LabList, LabRemark, LabRemarkKind, LabSummary, VariantSummary,
};
pub use links::{Account, DirectionLoad, IDLE_REASONS, IommuUse, Link, LinkShares, TimeUse, Use};
pub use outcome::{MAX_OUTCOME_BYTES, Outcome, OutcomeError};
pub use reproduction::{Explained, Reproduction, Row};
pub use rows::{
    OperationRate, OperationRow, Operations, Overhead, OverheadRow, PacketRow, Packets, Parameter,
    PublishedTime, Sweep, SweepRow, Term,
};
pub use torture::{FailedSeed, Torture, TortureEvents};
pub use validation::{ComparedRow, Influence, RowErrors, ValidatedRow, ValidatedSet, Validation};
pub use what_if::{BeforeAfter, ChangedPairs, ExplainedPair, TuneStep, TuneTrial, Tuning, WhatIf};

/// Writes JSON as the program prints it: indented, keys sorted, with a newline at its end. An
/// object contains the number of its schema; a list stays a plain list.
///
/// # Errors
/// Data that JSON cannot have.
pub fn json_text(value: &impl serde::Serialize) -> serde_json::Result<String> {
    // By way of a value, which sorts the keys.
    let mut value = serde_json::to_value(value)?;
    if let serde_json::Value::Object(keys) = &mut value {
        keys.entry("schema").or_insert_with(|| SCHEMA.into());
    }
    let mut text = serde_json::to_string_pretty(&value)?;
    text.push('\n');
    Ok(text)
}

/// Returns each item once, in the order in which they come first.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
