// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Model of the network processor between hosts joined by cables.

mod data;
mod endings;
mod fuzz;
mod rates;
pub mod stand;
