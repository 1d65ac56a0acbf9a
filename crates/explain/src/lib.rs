// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run in a lab was not faster: where the time of the busiest link went, which constant or
//! choice holds the run at its rate, and what the same run gives without it.
//!
//! Read first: [`Case`], a run that can be made again with something changed, and [`explain`],
//! which finds what limits it.
//!
//! Nothing is guessed from counters alone. A limit is named because the same run was made again
//! without it, in a lab that is the same in all else, and came out better.

#![forbid(unsafe_code)]

mod case;
mod consequence;
mod error;
mod limits;
mod network;
mod search;

pub use case::{Case, Short};
pub use error::ExplainError;
pub use search::{CLEAR, Lever, Liftable, MAX_RUNS, SAME, SAME_SHARE, STEPS, THRESHOLD, explain};
