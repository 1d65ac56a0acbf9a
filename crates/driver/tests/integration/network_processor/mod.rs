// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver of the network processor against its model, in simulated time: tests check every
//! byte, and times are exact.

mod endings;
mod links;
mod long_datagrams;
mod losses;
mod modes;
mod pages;
mod places;
mod programs;
mod puts;
mod routed;
pub mod small_torus;
mod stand;
