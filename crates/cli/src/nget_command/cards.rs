// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same benchmark on network processors that are opened by name: time is the machine's.

use crosslane_bench::{BenchError, NgetMeasured, nget};
use crosslane_driver::network_processor::{Modes, NetworkProcessor, Requests};
use crosslane_open::{AnyBus, DeviceName, Session, SessionOptions};
use crosslane_results::Platform;

use super::arguments::NgetArguments;
use super::{Job, MEASURED, SINK, SPARE, flow, jobs, measured_cells, options, report, scenario};
use crate::bench_outcome::bench_outcome;
use crate::error::CommandError;
use crate::output::{print, print_json};
use crate::place_argument::is_served;
use crate::report_file::{Where, report_of, write_page};
use crate::table::Table;
use crate::workload::{refused, run_on};

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
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let bus = session.bus();
    let who = session.cards().iter().map(|card| (card, Requests::fastest(bus, card.function)));
    let mut done = Vec::new();
    for (card, modes, in_flight, size) in jobs(arguments, who)? {
        let job = (card.endpoint.as_str(), modes, in_flight, size);
        let measured = run_on(&session, async {
            // Errors name the card.
            let measured = measure(arguments, bus, job).await;
            measured.map_err(|error| CommandError::Card(error.to_string()))
        })?;
        done.push(Done { card: card.name.clone(), modes, measured });
    }
    if let Some(file) = &file {
        let measured = done.iter().map(|one| (&one.card[..], one.modes, &one.measured));
        write_page(&report(Where::Cards(names), &measured.collect::<Vec<_>>()), file)?;
    }
    if arguments.json {
        let devices = names.iter().map(ToString::to_string).collect();
        let platform = Platform::Cards { devices, served: is_served(names) };
        let flows = done.iter().map(|one| flow(&one.card, one.modes, &one.measured));
        let scenarios = flows.map(scenario).collect();
        return print_json(&bench_outcome("nget", platform, arguments.seed, scenarios, None));
    }
    let mut table = Table::new(&MEASURED).least_first(&SPARE);
    for one in &done {
        table.row(measured_cells(&one.card, one.modes, &one.measured));
    }
    print(&format!("times are this machine's; {SINK}\n\n{table}"))
}

async fn measure(
    arguments: &NgetArguments,
    bus: &AnyBus,
    (function, modes, in_flight, size): Job<&str>,
) -> Result<NgetMeasured, BenchError> {
    let processor = NetworkProcessor::init(bus.clone(), function, modes).await?;
    let measured = nget(&processor, &options(arguments, size, in_flight)).await;
    let released = processor.release().await;
    let measured = measured?;
    released?;
    Ok(measured)
}
