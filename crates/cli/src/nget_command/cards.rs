// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same benchmark on network processors that are opened by name: time is the machine's.

use crosslane_bench::{BenchError, NgetMeasured, nget};
use crosslane_driver::network_processor::{Modes, NetworkProcessor, Requests};
use crosslane_open::DeviceName;
use crosslane_vfio::{VfioBus, block_on};
use serde_json::{Value, json};

use super::arguments::NgetArguments;
use super::{Job, MEASURED, SINK, SPARE, jobs, measured_cells, measured_json, options, report};
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::place_argument::{NamedCard, open_named};
use crate::report_file::{Where, report_of, write_page};
use crate::table::Table;

struct Done {
    card: String,
    modes: Modes,
    measured: NgetMeasured,
}

/// Runs one after the other, and prints.
///
/// # Errors
/// Options that only labs have, cards that cannot be opened or are none of this kind, and what
/// fails.
pub fn run(arguments: &NgetArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    if !arguments.node.is_empty() {
        let sentence = "--node names endpoints of a lab; --device names the cards here";
        return Err(CommandError::Usage(sentence.to_owned()));
    }
    let file = report_of(arguments.report.as_ref())?;
    let cards = open_named(names)?;
    let bus = &cards.bus;
    let who = cards.cards.iter().map(|card| (card, Requests::fastest(bus, card.id)));
    let mut done = Vec::new();
    for (card, modes, in_flight, size) in jobs(arguments, who)? {
        let NamedCard { name, function, .. } = card;
        let job = (function.as_str(), modes, in_flight, size);
        let measured = block_on(measure(arguments, bus, job));
        // Errors name the card.
        let measured = measured.map_err(|error| CommandError::Card(error.to_string()))?;
        done.push(Done { card: name.to_string(), modes, measured });
    }
    if let Some(file) = &file {
        let measured = done.iter().map(|one| (&one.card[..], one.modes, &one.measured));
        write_page(&report(Where::Cards(names), &measured.collect::<Vec<_>>()), file)?;
    }
    if arguments.json {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        return print_json(&to_json(&names, &done, arguments.seed));
    }
    let mut table = Table::new(&MEASURED).least_first(&SPARE);
    for one in &done {
        table.row(measured_cells(&one.card, one.modes, &one.measured));
    }
    print(&format!("times are this machine's; {SINK}\n\n{table}"))
}

async fn measure(
    arguments: &NgetArguments,
    bus: &VfioBus,
    (function, modes, in_flight, size): Job<&str>,
) -> Result<NgetMeasured, BenchError> {
    let processor = NetworkProcessor::init(bus.clone(), function, modes).await?;
    let measured = nget(&processor, &options(arguments, size, in_flight)).await;
    let released = processor.release().await;
    let measured = measured?;
    released?;
    Ok(measured)
}

fn to_json(names: &[String], done: &[Done], seed: u64) -> Value {
    let scenario = |one: &Done| {
        let flow = measured_json(&one.card, one.modes, &one.measured);
        json!({ "bytes": one.measured.options.size_bytes, "flows": [flow] })
    };
    json!({
        "bench": "nget",
        "devices": names,
        "seed": seed,
        "scenarios": done.iter().map(scenario).collect::<Vec<_>>(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
