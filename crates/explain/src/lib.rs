// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a run in a lab was not faster: where the time of the busiest link went, which constant or
//! choice holds the run at its rate, and what the same run gives without it.
//!
//! Read first: [`Explanation`], what is said; [`Account`], where the time went; then
//! [`Limit`], everything that can hold a run.
//!
//! Nothing is guessed from counters alone. A limit is named because the same run was made again
//! without it, in a lab that is the same in all else, and came out better.

#![forbid(unsafe_code)]

mod account;
mod explanation;
mod limit;

pub use account::{Account, TimeUse, Use};
pub use explanation::{Better, Explanation, Figure, Step, Trial};
pub use limit::{Limit, LimitKind};
