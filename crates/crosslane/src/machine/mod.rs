// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This machine: its cards and the ports above them as a lab, and the rates that they reach.

mod lab_file;
mod measure;

pub use lab_file::{Exported, HOST, export};
pub use measure::{Rate, measure};
