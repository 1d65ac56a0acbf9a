// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device reload`: a card that is reconfigured while the machine runs.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crosslane_vfio::sysfs::{self, CardReady, ReloadOptions, Reloaded};
use serde_json::json;

use super::arguments::ReloadArguments;
use super::machine;
use crate::error::CommandError;
use crate::output;

/// Signals that end a program: what was masked is put back first.
const ENDING: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// `device reload`.
///
/// # Errors
/// What stands against it, a program that fails, or the deadline.
pub fn run(arguments: &ReloadArguments) -> Result<(), CommandError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| CommandError::Input(format!("signal {signal}: {error}")))?;
    }
    let (address, seconds) = (arguments.address, arguments.deadline);
    let ready = match arguments.now || !arguments.program.is_empty() {
        true => CardReady::LinkUp,
        false => CardReady::LinkDownAndUp,
    };
    let mut reconfigure = || {
        output::print_hint(&format!("{address} is removed; errors of the port above are masked"));
        match &arguments.program[..] {
            [program, rest @ ..] => run_program(program, rest),
            [] if arguments.now => Ok(()),
            [] => {
                output::print_hint(&format!("reconfigure the card now, within {seconds} s"));
                Ok(())
            }
        }
    };
    let mut options = ReloadOptions {
        deadline: Duration::from_secs(seconds),
        force: arguments.force,
        ready,
        reconfigure: &mut reconfigure,
        interrupted: &interrupted,
    };
    let reloaded = sysfs::reload(&machine(&arguments.output.root), address, &mut options)?;
    if arguments.output.json {
        return print_json(&reloaded);
    }
    output::print(&words(&reloaded))
}

/// Runs what reconfigures the card.
fn run_program(program: &str, arguments: &[String]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed: {status}")),
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}

fn words(reloaded: &Reloaded) -> String {
    let mut page = format!(
        "{} is back after {:.1} s, with {}\n",
        reloaded.now.address,
        reloaded.took.as_secs_f64(),
        reloaded.now.driver.as_deref().map_or("no driver".to_owned(), |it| format!("driver {it}")),
    );
    for note in &reloaded.notes {
        let _ = writeln!(page, "note: {note}");
    }
    if !reloaded.recorded.is_empty() {
        let (port, errors) = (reloaded.port, reloaded.recorded.join(", "));
        let _ = writeln!(page, "recorded by {port} meanwhile, and cleared: {errors}");
    }
    page
}

fn print_json(reloaded: &Reloaded) -> Result<(), CommandError> {
    output::print_json(&json!({
        "address": reloaded.now.address.to_string(),
        "port": reloaded.port.to_string(),
        "took_seconds": reloaded.took.as_secs_f64(),
        "driver": reloaded.now.driver,
        "notes": reloaded.notes,
        "recorded": reloaded.recorded,
    }))
}
