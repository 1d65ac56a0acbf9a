// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Published measurements beside the same measurements in the lab, and one's own.
//!
//! Read first: [`comparison`], the worth of a pair of figures; [`study`], the available studies;
//! then [`rosta`]. For one's own: [`measured`], then [`calibration`].

#![forbid(unsafe_code)]

pub mod aws_f1;
pub mod calibration;
pub mod comparison;
mod context;
pub mod document;
mod error;
pub mod experiment;
pub mod explained;
pub mod kc705;
pub mod measured;
pub mod nget;
pub mod page;
pub mod pciebench;
mod plots;
mod published;
pub mod reproduction;
pub mod rosta;
pub mod sbdt;
pub mod study;
pub mod text;
pub mod validation;

pub use context::{Context, Explain};
pub use error::{ReproduceError, Result};
pub use published::{PublishedFigure, PublishedFigures};
