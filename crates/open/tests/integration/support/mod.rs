// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of networks between nodes stand on: a proxy that makes trouble, two nodes in
//! network namespaces, and a card that is no lab's. Tests of other crates take it by its path.
#![allow(dead_code)] // Each test needs a part of it.

pub mod namespaces;
pub mod proxy;
pub mod served;
