// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network processor's model between hosts that are joined by cables.

mod data;
mod endings;
mod fuzz;
mod rates;
mod stand;
