// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of a core that stores into a memory card.

use std::sync::Arc;

use crosslane_experiment::{Program, Scenario, StoreWork};
use crosslane_host::Mapping;
use crosslane_lab::LabFile;
use crosslane_pcie::units::Picoseconds;
use crosslane_results::LimitKind;

use super::choices::lever;
use super::ways::store_ways;
use super::{Spot, levers_of, of_lab};
use crate::error::ExplainError;
use crate::search::Lever;

/// Bytes of a store in the integer loop.
const INTEGER_BYTES: u32 = 4;

/// Lists the limits of stores.
pub(crate) fn of_stores(
    case: &Scenario<StoreWork>,
    first: &Scenario<StoreWork>,
) -> Result<Vec<Lever<Scenario<StoreWork>>>, ExplainError> {
    let ways = store_ways(case)?;
    let mut spots = of_lab(&case.lab, &first.lab, &ways);
    // Stores into combining buffers take another time and are a separate limit; the remedy for
    // slow uncached stores is combining.
    let cpu = case.lab.file().hosts.first().map(|host| host.part.parameters.cpu);
    if cpu.is_some_and(|cpu| cpu.combining.is_some()) {
        spots.retain(|spot| spot.kind != LimitKind::Processor);
    }
    spots.extend(processor(case));
    spots.extend(memory(case));
    let mut levers = levers_of(spots);
    levers.extend(choices(case));
    Ok(levers)
}

fn choices(case: &Scenario<StoreWork>) -> Vec<Lever<Scenario<StoreWork>>> {
    let Some(host) = case.lab.file().hosts.first() else { return Vec::new() };
    let cpu = &host.part.parameters.cpu;
    let name = host.name.as_str();
    let mut levers = Vec::new();
    if case.work.options.mapping == Mapping::Uncached && cpu.combining.is_some() {
        let words = format!("uncached stores of {name}, each of which is a write of its own");
        let said = (name, words, "write combining");
        levers.push(lever(LimitKind::UncachedStores, said, |run: &mut Scenario<StoreWork>| {
            run.work.options.mapping = Mapping::WriteCombined;
        }));
    }
    let widest = cpu.widest_store_bytes;
    let words = match case.work.options.program {
        Program::Copy => None,
        Program::Burst if widest <= INTEGER_BYTES => None,
        Program::Burst => Some(format!("stores of {INTEGER_BYTES} B")),
        Program::LibraryBurst(_) => Some(format!("the library's loop of {INTEGER_BYTES} B")),
        Program::Library(_) => Some("the stores of the library's copy".to_owned()),
    };
    if let Some(words) = words {
        let lifted = format!("stores of {widest} B, with no call");
        let said = (name, words, lifted.as_str());
        levers.push(lever(LimitKind::StoreWidth, said, |run: &mut Scenario<StoreWork>| {
            run.work.options.program = Program::Copy;
        }));
    }
    levers
}

/// Time of the core for a store into a combining buffer, and for a call of the library.
fn processor(case: &Scenario<StoreWork>) -> Option<Spot> {
    let host = case.lab.file().hosts.first()?;
    let combining = host.part.parameters.cpu.combining?;
    if case.work.options.mapping == Mapping::Uncached || combining.store == Picoseconds::ZERO {
        return None;
    }
    let words = format!("the {} for each store of a core of {{}}", combining.store);
    let edit = |file: &mut LabFile| {
        let cpu = &mut Arc::make_mut(&mut file.hosts[0].part).parameters.cpu;
        cpu.combining.iter_mut().for_each(|it| it.store = Picoseconds::ZERO);
    };
    Some(Spot::new(LimitKind::Processor, &host.name, words, "none", edit))
}

/// Rate at which the card's memory takes writes.
fn memory(case: &Scenario<StoreWork>) -> Option<Spot> {
    let file = case.lab.file();
    let index = file.endpoints.iter().position(|endpoint| endpoint.name == case.work.card)?;
    let memory = file.endpoints[index].part.memory_card?;
    let per_write = memory.write_interval;
    if per_write == Picoseconds::ZERO {
        return None;
    }
    let words = format!("the memory of {{}}, {per_write} for each write");
    let edit = move |file: &mut LabFile| {
        let part = Arc::make_mut(&mut file.endpoints[index].part);
        part.memory_card.iter_mut().for_each(|it| it.write_interval = Picoseconds::ZERO);
    };
    Some(Spot::new(LimitKind::SlowReader, &case.work.card, words, "any rate", edit))
}
