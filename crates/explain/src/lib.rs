// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run in a lab was not faster: where the time of the busiest link went, which constant or
//! choice holds the run at its rate, and what the same run gives without it.
//!
//! Read first: [`WorkloadRun`], [`TrafficRun`] and [`StoreRun`], what can be run;
//! [`explain`], which finds what limits them.
//!
//! Nothing is guessed from counters alone. A limit is named because the same run was made again
//! without it, in a lab that is the same in all else, and came out better.

#![forbid(unsafe_code)]

mod account;
mod case;
mod consequence;
mod error;
mod iommu;
mod limits;
mod links;
mod network;
mod progress;
mod results;
mod route;
mod samples;
mod search;
mod stores;
mod traffic;
mod workload;

pub use case::{Case, Short};
pub use crosslane_bench::{kind_word, size_words};
pub use error::ExplainError;
pub use links::{DirectionOutcome, busiest_shared, direction_name, wire_share};
pub use progress::{NoProgress, Progress};
pub use results::latency;
pub use route::{Cargo, route};
pub use search::{CLEAR, Lever, Liftable, MAX_RUNS, SAME, SAME_SHARE, STEPS, THRESHOLD, explain};
pub use stores::StoreRun;
pub use traffic::{
    Choices, FlowRequest, PlannedFlow, TrafficCeiling, TrafficFlow, TrafficOutcome, TrafficRun,
    default_in_flight, default_operations,
};
pub use workload::{
    Brought, End, Expected, FlowEnds, Job, WorkloadCeiling, WorkloadFlow, WorkloadOutcome,
    WorkloadRun,
};
