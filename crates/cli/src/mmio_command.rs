// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench mmio`: how fast the host stores into the memory of a card.

use std::sync::Arc;

use crosslane::driver::MemoryCard;
use crosslane::experiment::StoreRun;
use crosslane::experiment::{BenchError, MmioMeasured, MmioOptions, Program, mmio};
use crosslane::host::{Mapping, Routines};
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Better, Detail, Figure, Flow, Stores, WritesByLength};
use crosslane_report::text::Notes;

use crate::arguments::MmioArguments;
use crate::bench_outcome::Runs;
use crate::error::CommandError;
use crate::interrupt::kept;
use crate::output_file::OutputFile;
use crate::place_argument::{Named, one_endpoint};
use crate::progress::Steps;
use crate::report_file::{Where, report_of};
use crate::why::{Made, Why, explain_all};
use crate::workload::{refused, run_on};

/// Bytes of an integer.
const INTEGER_BYTES: u64 = 4;
/// The least and the largest block of `--all`, bytes: 17 sizes, powers of two.
const ALL: std::ops::RangeInclusive<u32> = 6..=22;
/// Each size of `--all` stores about so many bytes, in no more than `--passes` passes.
const ENOUGH_BYTES: u64 = 256 << 10;

/// One run that is asked for.
#[derive(Clone, Copy)]
struct Job {
    options: MmioOptions,
    custom: bool,
}

impl Job {
    /// `custom-wc`, as people call it.
    fn name(&self) -> &'static str {
        match (self.custom, self.options.mapping) {
            (false, Mapping::Uncached) => "burst",
            (false, Mapping::WriteCombined) => "burst-wc",
            (true, Mapping::Uncached) => "custom",
            (true, Mapping::WriteCombined) => "custom-wc",
        }
    }
}

/// A run, what came of it, and why it was not faster.
struct Stored {
    job: Job,
    run: MmioMeasured,
    why: Why,
}

/// Runs it.
///
/// # Errors
/// A lab without such a card, a card that is none, a window that cannot be, wrong data.
pub fn run(arguments: &MmioArguments) -> Result<(), CommandError> {
    match arguments.place.named()? {
        Named::Lab { lab, endpoints } => {
            let endpoints: Vec<String> = endpoints.into_iter().flatten().collect();
            in_lab(arguments, &lab, &endpoints)
        }
        Named::Cards(names) => on_card(arguments, &names),
    }
}

fn in_lab(arguments: &MmioArguments, lab: &str, endpoints: &[String]) -> Result<(), CommandError> {
    let lab = Arc::new(Lab::load(lab)?);
    let wanted = one_endpoint(endpoints, "--card", arguments.card.as_deref())?;
    let card = card_of(&lab, wanted)?;
    let routines = lab.file().hosts.first().and_then(|host| host.part.routines);
    let jobs = jobs(arguments, routines);
    let file = report_of(arguments.report.as_ref())?;
    let steps = Steps::new(jobs.len() as u64, "runs");
    let case = |job: &Job| {
        let (lab, card) = (lab.clone(), card.clone());
        StoreRun { lab, card, options: job.options, seed: arguments.seed }
    };
    let cases = jobs.into_iter().map(|job| (case(&job), job)).collect::<Vec<_>>();
    let measured = steps.watch.each(&cases, |(case, job)| {
        let failed = |why| CommandError::Usage(format!("bench mmio, {}: {why}", job.name()));
        let measured = case.run().map_err(failed)?;
        steps.shown(job.name(), measured.elapsed);
        Ok::<_, CommandError>(Some(measured))
    });
    steps.finish();
    let (cases, measured) = kept(cases, measured?);
    let (cases, jobs): (Vec<StoreRun>, Vec<Job>) = cases.into_iter().unzip();
    let whys = match arguments.no_why {
        true => vec![Why::LeftOut; cases.len()],
        false => explain_all(&made(&cases, &measured), arguments.json),
    };
    let runs = jobs.into_iter().zip(measured).zip(whys);
    let runs: Vec<Stored> = runs.map(|((job, run), why)| Stored { job, run, why }).collect();
    show(arguments, Where::Lab(&lab), runs, file, Some(&steps))
}

/// The same on a card of this machine, or of a server: nothing can be lifted there to see why it
/// is not faster, so the runs stand alone.
fn on_card(arguments: &MmioArguments, names: &[DeviceName]) -> Result<(), CommandError> {
    let usage = |sentence: &str| Err(CommandError::Usage(sentence.to_owned()));
    if names.len() > 1 {
        return usage("--device: one card is measured at a time");
    }
    if arguments.card.is_some() {
        return usage("--card names an endpoint of a lab; --device names the card here");
    }
    let file = report_of(arguments.report.as_ref())?;
    let session = Session::open_all(names, SessionOptions::default()).map_err(refused)?;
    let (bus, card) = (session.bus(), &session.cards()[0]);
    // Errors name the card.
    let failed = |error: BenchError| CommandError::Card(error.to_string());
    let runs = run_on(&session, async {
        let card = MemoryCard::open_by_name(bus.clone(), &card.endpoint).await;
        let card = card.map_err(|error| failed(error.into()))?;
        let mut runs = Vec::new();
        for job in jobs(arguments, None) {
            let run = mmio(bus, &card, &job.options).await.map_err(failed)?;
            runs.push(Stored { job, run, why: Why::LeftOut });
        }
        Ok(runs)
    })?;
    show(arguments, Where::Cards(names), runs, file, None)
}

/// Prints the runs, and writes their page. `steps` are those of runs that can be interrupted.
fn show(
    arguments: &MmioArguments,
    place: Where<'_>,
    runs: Vec<Stored>,
    file: Option<OutputFile>,
    steps: Option<&Steps>,
) -> Result<(), CommandError> {
    let is_right = runs.iter().all(|stored| stored.run.data_errors.words == 0);
    let details = match (&runs[..], arguments.verbose) {
        ([Stored { run, .. }], true) => {
            format!("\nfence behind it: {}\n{}", run.fence, run.metrics)
        }
        _ => String::new(),
    };
    let flows = runs.iter().map(flow).collect();
    let whys = runs.into_iter().map(|stored| stored.why).collect();
    let notes = Notes { details: &details, ..Notes::default() };
    let runs = Runs { bench: "mmio", place, seed: arguments.seed, flows, whys };
    runs.show(steps, arguments.json, notes, file)?;
    if is_right { Ok(()) } else { Err(CommandError::Run) }
}

/// The memory card that is meant: the lab's only one, or one by its name.
fn card_of(lab: &Lab, wanted: Option<&str>) -> Result<String, CommandError> {
    let endpoints = &lab.file().endpoints;
    let cards = endpoints.iter().filter(|endpoint| endpoint.part.memory_card.is_some());
    let cards: Vec<&str> = cards.map(|endpoint| endpoint.name.as_str()).collect();
    match (wanted, cards.first()) {
        (_, None) => Err(CommandError::Usage(format!(
            "lab {} has no memory card: no endpoint whose part has a table `memory_card`",
            lab.name()
        ))),
        (None, Some(first)) => Ok((*first).to_owned()),
        (Some(wanted), _) if cards.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), _) => {
            let known = cards.join(", ");
            Err(CommandError::Usage(format!("{wanted} is no memory card; there are {known}")))
        }
    }
}

fn jobs(arguments: &MmioArguments, routines: Option<Routines>) -> Vec<Job> {
    let job = |size_bytes, passes, custom, mapping| {
        let program = match (custom, routines) {
            (false, Some(routines)) => Program::LibraryBurst(routines),
            (false, None) => Program::Burst,
            (true, Some(routines)) if !arguments.own_copy => Program::Library(routines),
            (true, _) => Program::Copy,
        };
        let seed = arguments.seed as u32;
        Job { options: MmioOptions { size_bytes, passes, program, mapping, seed }, custom }
    };
    if !arguments.all {
        let mapping = match arguments.write_combined {
            true => Mapping::WriteCombined,
            false => Mapping::Uncached,
        };
        let size_bytes = arguments.size.unwrap_or(arguments.integers) * INTEGER_BYTES;
        let custom = arguments.custom || arguments.own_copy;
        return vec![job(size_bytes, arguments.passes.unwrap_or(1), custom, mapping)];
    }
    let modes = [false, true].into_iter().flat_map(|custom| {
        [Mapping::Uncached, Mapping::WriteCombined].map(|mapping| (custom, mapping))
    });
    let sizes = ALL.map(|power| 1_u64 << power);
    sizes
        .flat_map(|size| {
            let passes = (ENOUGH_BYTES / size).clamp(1, arguments.passes.unwrap_or(100));
            modes.clone().map(move |(custom, mapping)| (size, passes, custom, mapping))
        })
        .map(|(size, passes, custom, mapping)| job(size, passes, custom, mapping))
        .collect()
}

fn made<'a>(cases: &'a [StoreRun], measured: &[MmioMeasured]) -> Vec<Made<'a, StoreRun>> {
    let made = |(case, run): (&'a StoreRun, &MmioMeasured)| Made {
        case,
        measured: Some(Figure { value: run.bytes_per_second(), better: Better::Higher }),
        account: None,
        has_errors: run.data_errors.words > 0,
    };
    cases.iter().zip(measured).map(made).collect()
}

fn flow(Stored { job, run, .. }: &Stored) -> Flow {
    let sizes = run.metrics.writes_by_length();
    let sizes = sizes.map(|(up_to_bytes, writes)| WritesByLength { up_to_bytes, writes });
    Flow {
        name: job.name().to_owned(),
        bytes: job.options.size_bytes,
        iterations: job.options.passes,
        bytes_per_second: Some(run.bytes_per_second()),
        detail: Detail::Stores(Stores {
            elapsed_ns: run.elapsed.as_seconds() * 1e9,
            fence_ns: run.fence.as_seconds() * 1e9,
            wrong_words: run.data_errors.words,
            writes_by_length: sizes.collect(),
            beats_by_bank: run.metrics.beats.iter().map(|beats| beats.0).collect(),
        }),
        ..Flow::default()
    }
}
