// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device reload`: reconfigures a card while the machine runs.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crosslane::machine::{CardReady, ReloadOptions, reload};
use crosslane_report::text;

use super::arguments::ReloadArguments;
use super::machine;
use crate::error::{CommandError, Result};
use crate::output;

/// Signals that end the program, after errors that were masked are reported again.
const ENDING: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// `device reload`.
///
/// # Errors
/// A card that cannot be removed or restored, a program that fails, and the deadline.
pub fn run(arguments: &ReloadArguments) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| CommandError::Failed(format!("signal {signal}: {error}")))?;
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
    let mut options = ReloadOptions::new(&mut reconfigure, &interrupted)
        .with_deadline(Duration::from_secs(seconds))
        .with_force(arguments.force)
        .with_ready(ready);
    let reload = reload(&machine(&arguments.output.root), address, &mut options)?;
    output::show(arguments.output.json, &reload, |_| text::reload(&reload))
}

/// Runs the program that reconfigures the card.
fn run_program(program: &str, arguments: &[String]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}
