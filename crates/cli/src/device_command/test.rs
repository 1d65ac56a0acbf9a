// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane device test`: the steps by which cards are accepted.

use crosslane_bench::{AcceptanceOptions, Step, accept};
use crosslane_open::{DeviceName, OpenError, Session, SessionOptions};
use crosslane_pcie::units::Picoseconds;
use crosslane_vfio::BusOptions;
use serde_json::json;

use super::arguments::TestArguments;
use super::reset::reset_each;
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::workload::{card_failed, refused, run_on};

/// Makes the steps and prints each as it ends.
///
/// # Errors
/// Cards that cannot be opened, and [`CommandError::Run`] where a step failed.
pub fn run(arguments: &TestArguments) -> Result<(), CommandError> {
    let names: Result<Vec<DeviceName>, OpenError> =
        arguments.names.iter().map(|name| name.parse()).collect();
    let names = names.map_err(refused)?;
    let is_lab = matches!(names[0], DeviceName::Lab(_));
    let options = AcceptanceOptions {
        largest_bytes: arguments.largest,
        timeout: Picoseconds::from_ns(u64::from(arguments.timeout) * 1_000_000_000),
        seed: arguments.seed as u32,
        guarded: !is_lab,
    };
    // What is no longer pinned must be out of reach at once: nothing stays mapped.
    let bus = BusOptions { kept_bytes: 0, ..BusOptions::default() };
    let opening = SessionOptions::default().with_seed(arguments.seed).with_bus(bus);
    let (mut steps, mut printed) = (Vec::new(), Ok(()));
    let mut made = |step: &Step| {
        if !arguments.json && printed.is_ok() {
            printed = print(&line(step));
        }
        steps.push(step.clone());
    };
    {
        let session = Session::open_all(&names, opening).map_err(refused)?;
        run_on(&session, async {
            let cards = session.devices().await.map_err(card_failed)?;
            accept(&cards, &options, &mut made).await;
            Ok(())
        })?;
    }
    // Each card is opened once more, alone.
    for name in &names {
        reset_each(name, opening, &options, &mut made)?;
    }
    printed?;
    let failed = steps.iter().filter(|step| step.outcome.is_err()).count();
    if arguments.json {
        let steps: Vec<_> = steps.iter().map(step_json).collect();
        print_json(&json!({
            "devices": names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "seed": arguments.seed,
            "version": env!("CARGO_PKG_VERSION"),
            "steps": steps,
            "failed": failed,
        }))?;
    } else {
        print(&format!("{} steps, {failed} failed\n", steps.len()))?;
    }
    if failed > 0 { Err(CommandError::Run) } else { Ok(()) }
}

/// `ok      12.3 ms  0000:01:00.0  write of 64 B`, and what was wrong below it.
fn line(step: &Step) -> String {
    let word = if step.outcome.is_ok() { "ok" } else { "FAILED" };
    let took = step.took.0 as f64 / 1e9;
    let mut text = format!("{word:6} {took:10.3} ms  {}  {}\n", step.place, step.what);
    if let Err(sentence) = &step.outcome {
        text.push_str(&format!("       {sentence}\n"));
    }
    text
}

fn step_json(step: &Step) -> serde_json::Value {
    json!({
        "place": step.place,
        "what": step.what,
        "error": step.outcome.as_ref().err(),
        "took_ps": step.took.0,
    })
}
