// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `crosslane-torture` from outside, in one program.

mod flaps;
mod mutations;
mod seeds;
mod tori;

use crosslane_torture::Summary;

fn assert_none_failed<S>(summary: &Summary<S>) {
    let failures: Vec<String> = summary.failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{} failed:\n{}", summary.failed, failures.join("\n"));
}
