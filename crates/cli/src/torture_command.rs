// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane torture`: random labs, workloads and faults by seed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueHint};
use crosslane::lab::{EngineKind, shipped};
use crosslane::results::{FailedSeed, Torture, TortureEvents};
use crosslane_report::Table;
use crosslane_report::output::Kind;
use crosslane_torture::{
    Check, Failure, Fault, LabText, SeedOutcome, Setup, Summary, campaign, lab_of, parse_seeds,
    torus_campaign,
};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result, usage};
use crate::files::output_of;
use crate::items::{Items, ItemsArguments, Work};
use crate::output::{print_error, print_hint, show};
use crate::progress::Steps;

/// Lab of the gateware where none is named.
const RTL_LAB: &str = "rosta:crosslane";

/// Arguments of `torture`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane torture
  crosslane torture --seeds 0..20000
  crosslane torture --seeds 17..18 --verbose
  crosslane torture --seeds 17 --write-lab seed-17.toml
  crosslane torture --lab rosta:crosslane --seeds 0..500
  crosslane torture --tori --seeds 0..200
  crosslane torture --tori --engine rtl --seeds 0..20
  crosslane torture --seeds 0..20000 --items seeds --shard 0/4

A seed makes up a lab, or changes a shipped one, opens some of its engines, moves data in every
way that the driver has, and meanwhile does something to links, memory and devices. Every word
says where it belongs; every error has to be explained by what was done; at the end all tags,
credits and buffers have to be back. docs/torture.md lists faults and checkers. The same seed is
the same run, bit for bit, on any machine. The exit code is 1 where a seed fails; the first
ones, by number, are printed with the command that runs them again.

With --tori each seed makes up a torus of hosts with network processors, which exchange messages
while bits on the cables arrive wrong, cables are cut and links are trained anew. On the gateware
(--engine rtl) a torus is a ring of two to four nodes.

With --items several machines share the seeds, and a run that was ended goes on where it was
(docs/shards.md). `crosslane merge` says which seeds have failed.")]
pub struct TortureArguments {
    /// Seeds from A on and before B: 17..18 is seed 17 alone, as is 17.
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = parse_seeds)]
    pub seeds: Range<u64>,
    /// Run every seed in this lab, as it is [default: each seed makes its own].
    #[arg(long, value_name = "LAB", value_hint = ValueHint::AnyPath,
        value_parser = Known(completions::labs), hide_possible_values = true)]
    pub lab: Option<String>,
    #[command(flatten)]
    pub engines: EngineArguments,
    /// Tori of network processors instead of trees of engines.
    #[arg(long, conflicts_with_all = ["lab", "write_lab"])]
    pub tori: bool,
    /// Say on standard error what happens in each seed, one seed after the other; of a single
    /// seed, the lab file too.
    #[arg(long, conflicts_with = "items")]
    pub verbose: bool,
    /// Write the lab file of a single seed, which `--lab` takes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with = "items")]
    pub write_lab: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, conflicts_with = "items")]
    pub json: bool,
    #[command(flatten)]
    pub items: ItemsArguments,
}

/// Runs seeds.
///
/// # Errors
/// A lab that cannot be loaded, a file that cannot be written, or a seed that fails.
pub fn run(arguments: &TortureArguments) -> Result<()> {
    if arguments.tori {
        return run_tori(arguments);
    }
    let seeds = arguments.seeds.clone();
    let mut setup = Setup { engines: arguments.engines.kind()?, ..Setup::default() };
    // The gateware is there for labs as they are shipped, not as a seed changes them.
    let of_rtl = (setup.engines == EngineKind::Rtl).then(|| RTL_LAB.to_owned());
    if let Some(lab) = arguments.lab.as_ref().or(of_rtl.as_ref()) {
        let lab = LabText::load(lab)?;
        if lab.lab()?.endpoints_with(|part| part.engine.is_some()).is_empty() {
            return Err(usage(format!("{} has no endpoint with an engine", lab.name)));
        }
        setup.lab = Some(lab);
    }
    let is_single = seeds.end - seeds.start == 1;
    if let Some(path) = &arguments.write_lab {
        if !is_single {
            return Err(usage("--write-lab takes a single seed, as in --seeds 17"));
        }
        write_lab(path, seeds.start, &setup)?;
    }
    if arguments.verbose {
        if is_single {
            print_hint(&lab_of(seeds.start, &setup).text);
        }
        setup.note = Some(Arc::new(print_hint));
    }
    let inputs = match &setup.lab {
        Some(lab) => vec![lab.text.clone()],
        None => shipped().iter().map(|lab| lab.text.to_owned()).collect(),
    };
    let name = name_of(arguments);
    let run = Campaign::begin(arguments, inputs, &name)?;
    let summary = campaign(seeds, &setup, false, &run.steps, &run.items);
    let faults = Fault::ALL.iter().map(|&fault| (fault, summary.all.faults.of(fault)));
    let faults: Vec<(Fault, u64)> = faults.collect();
    let events = TortureEvents::Trees {
        checks: Check::ALL.iter().map(|check| check.word().to_owned()).collect(),
        faults: faults.iter().map(|(fault, count)| (fault.word().to_owned(), *count)).collect(),
        counts: keyed(&summary),
    };
    run.show("seeds", summary, events, &faults)
}

/// Runs seeds as tori.
fn run_tori(arguments: &TortureArguments) -> Result<()> {
    let mut setup = Setup { engines: arguments.engines.kind()?, ..Setup::default() };
    if arguments.verbose {
        setup.note = Some(Arc::new(print_hint));
    }
    let name = name_of(arguments);
    let run = Campaign::begin(arguments, Vec::new(), &name)?;
    let seeds = arguments.seeds.clone();
    let summary = torus_campaign(seeds, &setup, false, &run.steps, &run.items);
    let events = TortureEvents::Tori { tori: keyed(&summary) };
    run.show("tori of seeds", summary, events, &[])
}

/// Returns the names of items.
fn name_of(arguments: &TortureArguments) -> impl Fn(u64) -> String + Sync {
    let first = arguments.seeds.start;
    move |item| format!("seed {}", first + item)
}

fn keyed<S: SeedOutcome>(summary: &Summary<S>) -> BTreeMap<String, u64> {
    let counts = summary.all.counts().into_iter();
    counts.map(|count| (count.key.to_owned(), count.value)).collect()
}

/// A campaign that has begun.
struct Campaign<'a> {
    arguments: &'a TortureArguments,
    begun: Instant,
    items: Items<'a>,
    steps: Steps,
}

impl<'a> Campaign<'a> {
    fn begin(
        arguments: &'a TortureArguments,
        inputs: Vec<String>,
        name: &'a (dyn Fn(u64) -> String + Sync),
    ) -> Result<Self> {
        let items = arguments.seeds.end - arguments.seeds.start;
        let open = Items::open(&arguments.items, Work { items, inputs, name })?;
        let steps = Steps::new(open.left(0..items), "seeds");
        Ok(Self { arguments, begun: Instant::now(), items: open, steps })
    }

    /// Prints the campaign, says which seeds have failed, and whether not all were run.
    fn show<S: SeedOutcome>(
        self,
        name: &str,
        summary: Summary<S>,
        events: TortureEvents,
        faults: &[(Fault, u64)],
    ) -> Result<()> {
        let Self { arguments, begun, items, steps } = self;
        steps.finish();
        if !items.is_merge() {
            arguments.engines.print_speed(begun);
        }
        if !items.end(&steps.watch)? {
            return Ok(());
        }
        let (Range { start, end }, Summary { seeds, all, failed, failures }) =
            (arguments.seeds.clone(), summary);
        let failed_seed = |failure: &Failure| FailedSeed {
            seed: failure.seed,
            check: failure.violation.check.word().to_owned(),
            what: failure.violation.what.clone(),
            replay: failure.replay(),
        };
        let torture = Torture {
            first_seed: start,
            end_seed: end,
            seeds,
            failed,
            failures: failures.iter().map(failed_seed).collect(),
            events,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            interrupted: steps.watch.interrupted(),
        };
        show(arguments.json, &torture, |columns| {
            let rate = seeds as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            // Other machines had the time.
            let rate = match items.is_merge() {
                true => String::new(),
                false => format!("; {rate:.1} a second"),
            };
            let mut table = Table::headed("what | count:");
            for count in all.counts() {
                table.row([count.words.to_owned(), count.shown.to_string()]);
            }
            for (fault, count) in faults {
                table.row([format!("fault: {fault}"), count.to_string()]);
            }
            let table = table.to_text(columns.tables);
            format!("{name} {start}..{end}: {seeds} run, {failed} failed{rate}\n{table}")
        })?;
        failures.iter().for_each(|failure| print_error(&failure.to_string()));
        let unsaid = failed - failures.len() as u64;
        if unsaid > 0 {
            print_hint(&format!("and {unsaid} more"));
        }
        steps.watch.end(&format!("; {failed} failed"))?;
        if failed > 0 { Err(CommandError::Run) } else { Ok(()) }
    }
}

fn write_lab(path: &Path, seed: u64, setup: &Setup) -> Result<()> {
    let lab = lab_of(seed, setup);
    let text = format!("# Written by `crosslane torture --seeds {seed}`.\n{}", lab.text);
    output_of(path, Kind::Lab)?.write(text.as_bytes())?;
    if let Some(variant) = lab.variant {
        let path = path.display();
        print_hint(&format!("the seed runs variant {variant} of it: --lab {path}:{variant}"));
    }
    Ok(())
}
