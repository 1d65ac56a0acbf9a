// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the C library from outside: the header against the sources, C and C++ programs against
//! the installed library.

mod header;
mod library;
mod programs;
