// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores of a core into a memory card, and their limits.

use crosslane_experiment::{MmioOptions, Program, Scenario, StoreWork};
use crosslane_host::Mapping;
use crosslane_results::LimitKind;
use crosslane_results::quantity::size_words;

use super::ways::store_ways;
use super::{Explainable, Levers, NO_TIME, Short, Spots, lengthened, lever, levers_of, lift};
use crate::search::Lever;

/// Bytes of a store in the integer loop.
const INTEGER_BYTES: u32 = 4;
/// Most bytes of a shortened run, before it is lengthened: the bytes that fill queues ahead of the
/// rate then count for little.
const SHORT_BYTES: u64 = 256 << 10;

impl Explainable for StoreWork {
    fn shortened(scenario: &Scenario<Self>) -> Vec<Short<Scenario<Self>>> {
        let MmioOptions { size_bytes, passes, .. } = scenario.work.options;
        lengthened(|times| {
            let most = SHORT_BYTES * times;
            let (bytes, fewer) = (size_bytes.min(most), (most / size_bytes).clamp(1, passes));
            let mut short = scenario.clone();
            (short.work.options.size_bytes, short.work.options.passes) = (bytes, fewer);
            let [size, whole] = [bytes, size_bytes].map(size_words);
            let is_whole = (bytes, fewer) == (size_bytes, passes);
            let words = format!("{fewer} x {size} instead of {passes} x {whole}");
            (short, (!is_whole).then_some(words))
        })
    }

    fn levers(scenario: &Scenario<Self>, first: &Scenario<Self>) -> Levers<Self> {
        let ways = store_ways(scenario)?;
        let mut spots = Spots::of(&scenario.lab, &first.lab, &ways);
        // Stores into combining buffers take another time and are a separate limit; the remedy for
        // slow uncached stores is combining.
        let cpu = scenario.lab.file().hosts.first().map(|host| host.part.parameters.cpu);
        if cpu.is_some_and(|cpu| cpu.combining.is_some()) {
            spots.found.retain(|spot| spot.kind != LimitKind::Processor);
        }
        processor(&mut spots, &scenario.work);
        memory(&mut spots, &scenario.work);
        let mut levers = levers_of(spots);
        levers.extend(choices(scenario));
        Ok(levers)
    }
}

fn choices(case: &Scenario<StoreWork>) -> Vec<Lever<StoreWork>> {
    let Some(host) = case.lab.file().hosts.first() else { return Vec::new() };
    let cpu = &host.part.parameters.cpu;
    let name = host.name.as_str();
    let mut levers = Vec::new();
    if case.work.options.mapping == Mapping::Uncached && cpu.combining.is_some() {
        let words = format!("uncached stores of {name}, each of which is a write of its own");
        let said = (name, words, "write combining");
        levers.push(lever::<StoreWork>(LimitKind::UncachedStores, said, |run| {
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
        levers.push(lever::<StoreWork>(LimitKind::StoreWidth, said, |run| {
            run.work.options.program = Program::Copy;
        }));
    }
    levers
}

/// Time of the core for a store into a combining buffer.
fn processor(spots: &mut Spots<'_>, work: &StoreWork) {
    let host = spots.file.hosts.first();
    let Some(combining) = host.and_then(|host| host.part.parameters.cpu.combining) else { return };
    if work.options.mapping == Mapping::WriteCombined && combining.store > NO_TIME {
        let words = format!("the {} for each store of a core of {{}}", combining.store);
        spots.host(0, LimitKind::Processor, words, "none", |part| {
            part.parameters.cpu.combining.iter_mut().for_each(|p| lift!(p => store));
        });
    }
}

/// Rate at which the card's memory takes writes.
fn memory(spots: &mut Spots<'_>, work: &StoreWork) {
    let endpoints = &spots.file.endpoints;
    let Some(index) = endpoints.iter().position(|it| it.name == work.card) else { return };
    let memory = endpoints[index].part.memory_card;
    let Some(memory) = memory.filter(|memory| memory.write_interval > NO_TIME) else { return };
    let words = format!("the memory of {{}}, {} for each write", memory.write_interval);
    spots.endpoint(index, LimitKind::SlowReader, words, "any rate", |part| {
        part.memory_card.iter_mut().for_each(|p| lift!(p => write_interval));
    });
}
