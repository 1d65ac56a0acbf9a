// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device test`: the steps by which cards are accepted.

use std::time::Duration;

use crosslane::machine::{TestError, TestOptions, test_cards};
use crosslane::open::{DeviceName, OpenError};
use crosslane::results::machine::TestStep;

use super::arguments::TestArguments;
use crate::error::CommandError;
use crate::output::{print, print_json};
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
            printed = print(&line(step));
        }
    });
    let test = test.map_err(|error| match error {
        TestError::Open(error) => refused(error),
        TestError::Card(error) => card_failed(error),
        TestError::Stuck(error) => CommandError::Card(error.to_string()),
    })?;
    printed?;
    match arguments.json {
        true => print_json(&test)?,
        false => print(&format!("{} steps, {} failed\n", test.steps.len(), test.failed))?,
    }
    if test.failed > 0 { Err(CommandError::Run) } else { Ok(()) }
}

/// Returns `ok      12.3 ms  0000:01:00.0  write of 64 B`, and below it why the step failed.
fn line(step: &TestStep) -> String {
    let word = if step.error.is_none() { "ok" } else { "FAILED" };
    let took = step.took_ps as f64 / 1e9;
    let mut text = format!("{word:6} {took:10.3} ms  {}  {}\n", step.place, step.what);
    if let Some(sentence) = &step.error {
        text.push_str(&format!("       {sentence}\n"));
    }
    text
}
