// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of machines, whole and broken, and the labs that they become.

mod dumps;
mod fuzz_dumps;
