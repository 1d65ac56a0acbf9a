// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC's model between two hosts.

#[path = "../../../fabric/tests/support/mod.rs"]
mod fabric_support;

mod data;
mod endings;
mod fuzz;
mod rates;
mod stand;
