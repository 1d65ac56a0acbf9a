// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the C library from outside: the header against the sources, C and C++ programs against
//! the installed library.

#[path = "../../../network/tests/integration/support/authority.rs"]
#[expect(dead_code, reason = "some is for the network's own tests")]
mod authority;
mod header;
mod languages;
mod library;
mod programs;
