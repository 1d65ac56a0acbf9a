// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outcomes shown as pages, and two of them side by side.
//!
//! Read first: [`page`], then [`Comparison`].

mod comparison;
mod fits;
pub(crate) mod network;
pub(crate) mod rows_page;
pub(crate) mod run_page;
pub(crate) mod values;
mod what_if_page;

pub use comparison::Comparison;
pub use fits::{fits_page, fits_text};
pub(crate) use run_page::{SERVED, SERVED_LATENCY, limit_words, unlike_words};
pub use run_page::{explanation_blocks, page};
pub use values::values;
pub use what_if_page::{tuning_page, what_if_page};
