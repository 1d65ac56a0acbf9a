// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver of the network processor against its model, in simulated time: every byte is looked
//! at, and times are exact.

mod endings;
mod links;
mod losses;
mod modes;
mod places;
mod programs;
mod puts;
mod routed;
mod stand;
