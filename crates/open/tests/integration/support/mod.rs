// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Support for tests of networks between nodes: a proxy that makes trouble, two nodes in network
//! namespaces, and a served card. Tests of other crates include it by its path.
#![allow(dead_code)] // Each test needs a part of it.

pub mod namespaces;
pub mod proxy;
pub mod served;
