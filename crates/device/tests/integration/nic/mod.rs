// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Model of the NIC between two hosts.

mod data;
mod endings;
mod fuzz;
mod rates;
pub mod stand;
