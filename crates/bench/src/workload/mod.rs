// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs through the driver, on any lab whose endpoints have a DMA engine.
//!
//! Read first: [`WorkloadRun`], then [`WorkloadOutcome`].

mod ceiling;
mod ends;
mod gather;
mod job;
mod outcome;
mod run;
mod segments;
mod watch;

pub use ceiling::FlowCeiling as WorkloadCeiling;
pub use ends::{End, FlowEnds};
pub use job::{Brought, Job};
pub use outcome::{Expected, WorkloadFlow, WorkloadOutcome};
pub use run::WorkloadRun;
