// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-report` from outside, in one program.

mod fuzz_page;
mod fuzz_run;
mod page;
mod runs;
mod support;
