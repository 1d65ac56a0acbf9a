// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run in a lab was not faster: how the busiest link spent its time, which constant or choice
//! limits the rate, and the result of the same run without it.
//!
//! Read first: [`Explainable`], work whose scenarios can be repeated with one thing changed, and
//! [`explain`], which finds the bottleneck.
//!
//! Nothing is guessed from counters alone. A limit is named because the same run was repeated
//! without it, in an otherwise identical lab, and came out better.

#![forbid(unsafe_code)]

mod error;
mod limits;
mod search;

pub use error::ExplainError;
pub use limits::{Explainable, Levers, Short};
pub use search::{
    CLEAR, Lever, MAX_RUNS, Ran, SAME, SAME_SHARE, STEPS, THRESHOLD, Why, explain, explain_all,
};
