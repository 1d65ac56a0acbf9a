// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench mmio`: how fast the host stores into the memory of a card.

use std::sync::Arc;

use crosslane::experiment::{MemoryCard, MmioOptions, Program, Scenario, StoreWork, mmio};
use crosslane::host::{Mapping, Routines};
use crosslane::lab::Lab;
use crosslane::open::DeviceName;

use crate::arguments::MmioArguments;
use crate::bench::{Bench, Runs, opened, run_on};
use crate::error::{CommandError, Result, usage};
use crate::files::Where;
use crate::place_argument::{Named, check_named, one_endpoint};

/// Bytes of an integer.
const INTEGER_BYTES: u64 = 4;
/// The least and the largest block of `--all`, bytes: 17 sizes, powers of two.
const ALL: std::ops::RangeInclusive<u32> = 6..=22;
/// Each size of `--all` stores about so many bytes, in no more than `--passes` passes.
const ENOUGH_BYTES: u64 = 256 << 10;

/// Runs it.
///
/// # Errors
/// A lab without such a card, an endpoint that is not a memory card, an impossible window, wrong
/// data.
pub fn run(arguments: &MmioArguments) -> Result<()> {
    match arguments.place.named()? {
        Named::Lab { lab, endpoints } => {
            let endpoints: Vec<String> = endpoints.into_iter().flatten().collect();
            in_lab(arguments, &lab, &endpoints)
        }
        Named::Cards(names) => on_card(arguments, &names),
    }
}

fn bench<'a>(arguments: &MmioArguments, place: Where<'a>) -> Result<Bench<'a>> {
    let mut bench = Bench::new("mmio", place, arguments.seed, &arguments.shown)?;
    bench.is_verbose = arguments.verbose;
    Ok(bench)
}

fn in_lab(arguments: &MmioArguments, lab: &str, endpoints: &[String]) -> Result<()> {
    let lab = Arc::new(Lab::load(lab)?);
    let wanted = one_endpoint(endpoints, "--card", arguments.card.as_deref())?;
    let cards = lab.endpoints_with(|part| part.memory_card.is_some());
    check_named(&lab, ("memory card", "memory_card"), &cards, wanted)?;
    let card = wanted.unwrap_or(cards[0]).to_owned();
    let routines = lab.file().hosts.first().and_then(|host| host.part.routines);
    let scenario = |options| {
        let work = StoreWork { card: card.clone(), options };
        Scenario::new(lab.clone(), work).with_seed(arguments.seed)
    };
    let scenarios = jobs(arguments, routines).into_iter().map(scenario).collect();
    let runs = Runs {
        failed: |work: &StoreWork, error| {
            usage(format!("bench mmio, {}: {error}", work.options.name()))
        },
        ..Runs::new("runs", !arguments.no_why)
    };
    bench(arguments, Where::Lab(&lab))?.in_lab(scenarios, runs)
}

/// Runs it on a card of this machine, or of a server: nothing can be lifted there to see why it is
/// not faster, so the runs stand alone.
fn on_card(arguments: &MmioArguments, names: &[DeviceName]) -> Result<()> {
    if names.len() > 1 {
        return Err(usage("--device: one card is measured at a time"));
    }
    if arguments.card.is_some() {
        return Err(usage("--card names an endpoint of a lab; --device names the card here"));
    }
    let bench = bench(arguments, Where::Cards(names))?;
    let session = opened(names, None)?;
    let (bus, endpoint) = (session.bus(), &session.cards()[0].endpoint);
    let card = run_on(&session, async {
        let card = MemoryCard::open_by_name(bus.clone(), endpoint).await;
        card.map_err(CommandError::failed)
    })?;
    bench.on_cards(&session, (&jobs(arguments, None), "runs"), async |options| {
        Ok((options.name().to_owned(), mmio(&card, options).await?))
    })
}

fn jobs(arguments: &MmioArguments, routines: Option<Routines>) -> Vec<MmioOptions> {
    let job = |(size_bytes, passes, custom, mapping)| {
        let program = match (custom, routines) {
            (false, Some(routines)) => Program::LibraryBurst(routines),
            (false, None) => Program::Burst,
            (true, Some(routines)) if !arguments.own_copy => Program::Library(routines),
            (true, _) => Program::Copy,
        };
        let seed = arguments.seed as u32;
        MmioOptions::new(size_bytes, program, mapping).with_passes(passes).with_seed(seed)
    };
    if !arguments.all {
        let mapping = match arguments.write_combined {
            true => Mapping::WriteCombined,
            false => Mapping::Uncached,
        };
        let size_bytes = arguments.size.unwrap_or(arguments.integers) * INTEGER_BYTES;
        let custom = arguments.custom || arguments.own_copy;
        return vec![job((size_bytes, arguments.passes.unwrap_or(1), custom, mapping))];
    }
    let mut jobs = Vec::new();
    for size in ALL.map(|power| 1_u64 << power) {
        let passes = (ENOUGH_BYTES / size).clamp(1, arguments.passes.unwrap_or(100));
        for custom in [false, true] {
            let mappings = [Mapping::Uncached, Mapping::WriteCombined];
            jobs.extend(mappings.map(|mapping| job((size, passes, custom, mapping))));
        }
    }
    jobs
}
