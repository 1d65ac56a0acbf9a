// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Support for tests of networks between nodes: a proxy that makes trouble, two nodes in network
//! namespaces, a served card, and the two ends of a connection. Tests of other crates include it by
//! its path.
#![allow(dead_code)] // Each test needs a part of it.

pub mod namespaces;
pub mod proxy;
pub mod scene;
#[path = "../../../../serve/tests/integration/support/mod.rs"]
pub mod served;
