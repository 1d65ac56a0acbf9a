// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes shown as pages, and two of them side by side.
//!
//! Read first: [`page`], then [`Comparison`].

mod comparison;
mod comparison_page;
mod rows_page;
mod run_page;
mod values;

pub use comparison::{Comparison, Pair};
pub use run_page::{SERVED, SERVED_LATENCY, explanation_blocks, page};
pub use values::{Better, Value, values};
