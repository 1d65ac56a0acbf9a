// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench mmio`: how fast the host stores into the memory of a card.

use std::collections::BTreeSet;
use std::sync::Arc;

use crosslane::driver::MemoryCard;
use crosslane::experiment::{
    ExperimentError, MmioMeasured, MmioOptions, NoProgress, Outcome as _, Program, Scenario as Run,
    StoreWork, mmio, size_words,
};
use crosslane::host::{Mapping, Routines};
use crosslane::lab::Lab;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Better, Figure, Platform, Scenario};
use crosslane_report::{Axis, Block, Page, Plot, Scale, Section, Series, SeriesKind};

use crate::arguments::MmioArguments;
use crate::bench_outcome::{bench_outcome, explained};
use crate::error::CommandError;
use crate::interrupt::kept;
use crate::output::{print, print_json};
use crate::output_file::{OutputFile, not_written};
use crate::place_argument::{Named, is_served, one_endpoint};
use crate::progress::Steps;
use crate::report_file::{Where, bench_page, report_of, write_page};
use crate::table::{Align, Table};
use crate::why::{Made, Why, explain_all, has_column};
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
        let work = StoreWork { card: card.clone(), options: job.options };
        Run::new(lab.clone(), work).with_seed(arguments.seed)
    };
    let cases = jobs.into_iter().map(|job| (case(&job), job)).collect::<Vec<_>>();
    let measured = steps.watch.each(&cases, |(case, job)| {
        let failed = |why| CommandError::Usage(format!("bench mmio, {}: {why}", job.name()));
        let measured = case.run(&NoProgress, None).map_err(failed)?;
        steps.shown(job.name(), measured.elapsed);
        Ok::<_, CommandError>(Some(measured))
    });
    steps.finish();
    let (cases, measured) = kept(cases, measured?);
    let (cases, jobs): (Vec<Run<StoreWork>>, Vec<Job>) = cases.into_iter().unzip();
    let whys = match arguments.no_why {
        true => vec![Why::LeftOut; cases.len()],
        false => explain_all(&made(&cases, &measured), arguments.json),
    };
    let runs = jobs.into_iter().zip(measured).zip(whys);
    let runs: Vec<Stored> = runs.map(|((job, run), why)| Stored { job, run, why }).collect();
    show(arguments, Where::Lab(&lab), &runs, file, Some(&steps))
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
    let failed = |error: ExperimentError| CommandError::Card(error.to_string());
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
    show(arguments, Where::Cards(names), &runs, file, None)
}

/// Prints the runs, and writes their page. `steps` are those of runs that can be interrupted.
fn show(
    arguments: &MmioArguments,
    place: Where<'_>,
    runs: &[Stored],
    file: Option<OutputFile>,
    steps: Option<&Steps>,
) -> Result<(), CommandError> {
    if arguments.json {
        let platform = match place {
            Where::Lab(lab) => Platform::Lab { lab: lab.name().to_owned() },
            Where::Cards(names) => {
                let devices = names.iter().map(ToString::to_string).collect();
                Platform::Cards { devices, served: is_served(names) }
            }
        };
        let scenarios = runs.iter().map(scenario).collect();
        let interrupted = steps.and_then(|steps| steps.watch.interrupted());
        print_json(&bench_outcome("mmio", platform, arguments.seed, scenarios, interrupted))?;
    } else {
        print(&page(runs, arguments.verbose))?;
    }
    if let Some(steps) = steps {
        steps.watch.end(&not_written([&file]))?;
    }
    if let Some(file) = file {
        write_page(&report(place, runs), &file)?;
    }
    match runs.iter().all(|stored| stored.run.data_errors.words == 0) {
        true => Ok(()),
        false => Err(CommandError::Run),
    }
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

fn made<'a>(
    cases: &'a [Run<StoreWork>],
    measured: &[MmioMeasured],
) -> Vec<Made<'a, Run<StoreWork>>> {
    let made = |(case, run): (&'a Run<StoreWork>, &MmioMeasured)| Made {
        case,
        measured: Some(Figure { value: run.bytes_per_second(), better: Better::Higher }),
        account: None,
        has_errors: run.data_errors.words > 0,
    };
    cases.iter().zip(measured).map(made).collect()
}

const WRITES: &str = "writes at the card, by length up to";

fn page(runs: &[Stored], verbose: bool) -> String {
    let whys: Vec<Why> = runs.iter().map(|stored| stored.why.clone()).collect();
    let mut columns = vec![
        ("mode", Align::Left),
        ("bytes", Align::Right),
        ("passes", Align::Right),
        ("us a pass", Align::Right),
        ("MB/s", Align::Right),
        ("MiB/s", Align::Right),
        ("wrong words", Align::Right),
        (WRITES, Align::Left),
    ];
    if has_column(&whys) {
        columns.push(("bottleneck", Align::Left));
    }
    let spare = ["MiB/s", "passes", WRITES, "us a pass"];
    let mut table = Table::new(&columns).least_first(&spare);
    for Stored { job, run, why } in runs {
        let rate = run.bytes_per_second();
        let mut row = vec![
            job.name().to_owned(),
            job.options.size_bytes.to_string(),
            job.options.passes.to_string(),
            format!("{:.3}", run.elapsed.as_seconds() * 1e6 / job.options.passes as f64),
            format!("{:.1}", rate / 1e6),
            format!("{:.1}", rate / f64::from(1 << 20)),
            run.data_errors.words.to_string(),
            run.metrics.writes_in_words(),
        ];
        row.extend(has_column(&whys).then(|| why.cell()));
        table.row(row);
    }
    let mut page = table.to_string();
    if let [Stored { run, why, .. }] = runs {
        if verbose {
            page.push_str(&format!("\nfence behind it: {}\n{}", run.fence, run.metrics));
        }
        let block = why.block();
        if !block.is_empty() {
            page.push_str(&format!("\n{}\n", block.trim_end()));
        }
    }
    page
}

fn scenario(Stored { run, why, .. }: &Stored) -> Scenario {
    explained(run.result(), why)
}

/// How long the writes were that came to the card, of the longest block of each mode.
fn lengths(runs: &[Stored]) -> Plot {
    let mut longest: Vec<&Stored> = Vec::new();
    for stored in runs {
        longest.retain(|other| other.job.name() != stored.job.name());
        longest.push(stored);
    }
    let writes = |stored: &Stored, bytes: u32| -> u32 {
        stored.run.metrics.writes_by_length().filter(|(it, _)| *it == bytes).map(|(_, n)| n).sum()
    };
    let used = longest.iter().flat_map(|stored| stored.run.metrics.writes_by_length());
    let bounds: BTreeSet<u32> = used.map(|(bytes, _)| bytes).collect();
    let names = bounds.iter().map(|bytes| format!("{bytes} B")).collect();
    let series = longest.into_iter().map(|stored| {
        let all: u32 = bounds.iter().map(|bytes| writes(stored, *bytes)).sum();
        let share = |bytes: &u32| f64::from(writes(stored, *bytes)) / f64::from(all.max(1)) * 1e2;
        let points = (0_u32..).map(f64::from).zip(bounds.iter().map(share)).collect();
        let name = format!("{}, {}", stored.job.name(), size_words(stored.job.options.size_bytes));
        Series { name, kind: SeriesKind::Ours, points }
    });
    Plot {
        title: "Writes at the card by their length".to_owned(),
        x: Axis {
            label: "payload, up to".to_owned(),
            unit: String::new(),
            scale: Scale::Categories(names),
        },
        y: Axis { label: "of all writes".to_owned(), unit: "%".to_owned(), scale: Scale::Linear },
        series: series.collect(),
    }
}

fn report(place: Where<'_>, runs: &[Stored]) -> Page {
    let mut names: Vec<&str> = Vec::new();
    for Stored { job, .. } in runs {
        if !names.contains(&job.name()) {
            names.push(job.name());
        }
    }
    let series = names.into_iter().map(|name| {
        let of_name = runs.iter().filter(|stored| stored.job.name() == name);
        let point = |Stored { job, run, .. }: &Stored| {
            (job.options.size_bytes as f64, run.bytes_per_second() / 1e6)
        };
        let (kind, points) = (SeriesKind::Ours, of_name.map(point).collect());
        Series { name: name.to_owned(), kind, points }
    });
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        scale: Scale::Logarithmic,
    };
    let title = "Stores into the card's memory".to_owned();
    let plot = Plot {
        title: title.clone(),
        x: axis("bytes of a pass", "B"),
        y: axis("rate", "MB/s"),
        series: series.collect(),
    };
    let mut blocks = vec![Block::Plot(plot)];
    // Stores into memory that a client maps itself bypass the card, which then counts nothing.
    if runs.iter().any(|stored| stored.run.metrics.writes_by_length().next().is_some()) {
        blocks.push(Block::Plot(lengths(runs)));
    }
    bench_page("mmio", place, vec![Section { title, blocks }])
}
