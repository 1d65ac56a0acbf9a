// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC's model between two hosts.

mod data;
mod endings;
mod fuzz;
mod rates;
mod stand;
