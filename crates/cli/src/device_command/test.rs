// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device test`: the steps by which cards are accepted.

use std::time::Duration;

use crosslane::machine::{TestError, TestOptions, test_cards};
use crosslane::open::{DeviceName, OpenError};
use crosslane_report::text;

use super::arguments::TestArguments;
use crate::error::CommandError;
use crate::output::{print, show};
use crate::workload::{card_failed, refused};

/// Tests the cards and prints each step as it ends.
///
/// # Errors
/// Cards that cannot be opened, and [`CommandError::Run`] where a step failed.
pub fn run(arguments: &TestArguments) -> Result<(), CommandError> {
    let names: Result<Vec<DeviceName>, OpenError> =
        arguments.names.iter().map(|name| name.parse()).collect();
    let options = TestOptions::default()
        .with_largest(arguments.largest)
        .with_timeout(Duration::from_secs(arguments.timeout.into()))
        .with_seed(arguments.seed);
    let mut printed = Ok(());
    let test = test_cards(&names.map_err(refused)?, &options, |step| {
        if !arguments.json && printed.is_ok() {
            printed = print(&text::test_step(step));
        }
    });
    let test = test.map_err(|error| match error {
        TestError::Open(error) => refused(error),
        TestError::Card(error) => card_failed(error),
        TestError::Stuck(error) => CommandError::Card(error.to_string()),
    })?;
    printed?;
    show(arguments.json, &test, |_| {
        format!("{} steps, {} failed\n", test.steps.len(), test.failed)
    })?;
    if test.failed > 0 { Err(CommandError::Run) } else { Ok(()) }
}
