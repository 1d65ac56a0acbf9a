// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network processor's model between hosts that are joined by cables.

#[path = "../../../fabric/tests/support/mod.rs"]
mod fabric_support;

mod data;
mod endings;
mod fuzz;
mod rates;
mod stand;
