// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of generic requesters and processors, on any lab.
//!
//! Read first: [`TrafficWork`], then [`TrafficOutcome`].

mod argument;
mod plan;
mod run;
pub(crate) mod shape;

pub(crate) use argument::COPY;
pub use argument::{FlowArgument, at_once, kind_word};
pub use plan::{Choices, FlowRequest, PlannedFlow};
pub(crate) use plan::{Half, split_place};
pub use run::{TrafficFlow, TrafficOutcome, TrafficWork};
