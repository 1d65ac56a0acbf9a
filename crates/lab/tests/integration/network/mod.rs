// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of labs: host code over the traits of `host`, between the two nodes of lab `sbdt`.

mod connections;
mod contract;
mod files;
mod nodes;
mod rates;
