// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane torture`: random labs, workloads and faults by seed.

use std::num::IntErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueHint};
use crosslane::lab::EngineKind;
use crosslane::pcie::units::Picoseconds;
use crosslane_report::Table;
use crosslane_report::output::Kind;
use crosslane_torture::{
    Check, Failure, Fault, LabText, Note, Setup, Summary, TorusStory, Watch, campaign, lab_of,
    torus_campaign,
};
use serde_json::{Map, Value, json};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output::{print_error, print_hint, show};
use crate::progress::Steps;
use crate::report_file::output_of;

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

A seed makes up a lab, or changes a shipped one, opens some of its engines, moves data in every
way that the driver has, and meanwhile does something to links, memory and devices. Every word
says where it belongs; every error has to be explained by what was done; at the end all tags,
credits and buffers have to be back. docs/torture.md lists faults and checkers. The same seed is
the same run, bit for bit, on any machine. The exit code is 1 where a seed fails; the first
ones, by number, are printed with the command that runs them again.

With --tori each seed makes up a torus of hosts with network processors, which exchange messages
while bits on the cables arrive wrong, cables are cut and links are trained anew.")]
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
    #[arg(long, conflicts_with_all = ["lab", "engine", "write_lab"])]
    pub tori: bool,
    /// Say on standard error what happens in each seed, one seed after the other; of a single
    /// seed, the lab file too.
    #[arg(long)]
    pub verbose: bool,
    /// Write the lab file of a single seed, which `--lab` takes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write_lab: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Seeds from A on and before B, or one alone.
fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        let digits = text.replace('_', "");
        digits.parse::<u64>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => {
                format!("seed {text} is too large: the largest is {}", u64::MAX)
            }
            _ => format!("\"{text}\" is not a seed: seeds are whole numbers, as in 0..1000 or 17"),
        })
    };
    let (first, end) = match text.split_once("..") {
        Some((first, end)) => (number(first)?, number(end)?),
        None => {
            let seed = number(text)?;
            let end = seed.checked_add(1).ok_or("that seed has none behind it")?;
            (seed, end)
        }
    };
    if first >= end {
        return Err(format!("there is no seed in {first}..{end}: the second number is not run"));
    }
    Ok(first..end)
}

impl Watch for Steps {
    fn done(&self, seed: u64, simulated: Picoseconds) {
        Self::done(self, &seed.to_string(), simulated);
    }

    fn is_over(&self) -> bool {
        is_asked()
    }
}

/// Runs seeds.
///
/// # Errors
/// A lab that cannot be loaded, a file that cannot be written, or a seed that fails.
pub fn run(arguments: &TortureArguments) -> Result<(), CommandError> {
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
            let problem = format!("{} has no endpoint with an engine", lab.name);
            return Err(CommandError::Usage(problem));
        }
        setup.lab = Some(lab);
    }
    let is_single = seeds.end - seeds.start == 1;
    if let Some(path) = &arguments.write_lab {
        if !is_single {
            let problem = "--write-lab takes a single seed, as in --seeds 17".to_owned();
            return Err(CommandError::Usage(problem));
        }
        write_lab(path, seeds.start, &setup)?;
    }
    if arguments.verbose {
        if is_single {
            print_hint(&lab_of(seeds.start, &setup).text);
        }
        setup.note = Some(Arc::new(print_hint));
    }
    let begun = Instant::now();
    let steps = Steps::new(seeds.end - seeds.start, "seeds");
    let summary = campaign(seeds.clone(), &setup, &steps);
    steps.finish();
    arguments.engines.print_speed(begun);
    let faults: Map<String, Value> = Fault::ALL
        .map(|fault| (fault.word().to_owned(), summary.faults.of(fault).into()))
        .into_iter()
        .collect();
    let mut counts = counts(&summary);
    let document = json!({ "faults": faults, "checks": Check::ALL.map(Check::word) });
    let document = counts.iter().fold(document, |mut document, count| {
        document[count.key] = count.value.into();
        document
    });
    let faults =
        Fault::ALL.map(|fault| Count::new("", format!("fault: {fault}"), summary.faults.of(fault)));
    counts.extend(faults);
    let name = "seeds";
    Campaign {
        name,
        seeds,
        run: summary.seeds,
        failed: summary.failed,
        failures: &summary.failures,
    }
    .show(arguments.json, &steps, begun, document, &counts)
}

/// Seeds that were run.
struct Campaign<'a> {
    name: &'static str,
    seeds: Range<u64>,
    run: u64,
    failed: u64,
    failures: &'a [Failure],
}

/// A number of events, with its names for programs and for people.
struct Count {
    key: &'static str,
    words: String,
    value: u64,
    /// The value in the unit that people read.
    shown: u64,
}

impl Count {
    fn new(key: &'static str, words: impl Into<String>, value: u64) -> Self {
        Self { key, words: words.into(), value, shown: value }
    }
}

impl Campaign<'_> {
    /// Prints the campaign, says which seeds have failed, and whether not all were run. `document`
    /// has what is printed as JSON beside the seeds.
    fn show(
        self,
        is_json: bool,
        steps: &Steps,
        begun: Instant,
        mut document: Value,
        counts: &[Count],
    ) -> Result<(), CommandError> {
        let Self { name, seeds: Range { start, end }, run, failed, failures } = self;
        let failure = |failure: &Failure| {
            json!({
                "seed": failure.seed,
                "check": failure.violation.check.word(),
                "what": failure.violation.what,
                "replay": failure.replay(),
            })
        };
        for (key, value) in [
            ("first_seed", start.into()),
            ("end_seed", end.into()),
            ("seeds", run.into()),
            ("failed", failed.into()),
            ("failures", failures.iter().map(failure).collect()),
            ("version", env!("CARGO_PKG_VERSION").into()),
        ] {
            document[key] = value;
        }
        steps.watch.mark(&mut document);
        show(is_json, &document, |columns| {
            let rate = run as f64 / begun.elapsed().as_secs_f64().max(1e-3);
            let mut table = Table::headed("what | count:");
            counts.iter().for_each(|one| table.row([one.words.clone(), one.shown.to_string()]));
            let table = table.to_text(columns.tables);
            format!(
                "{name} {start}..{end}: {run} run, {failed} failed; {rate:.1} a second\n{table}"
            )
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

fn counts(summary: &Summary) -> Vec<Count> {
    let simulated = Count {
        shown: summary.simulated_us / 1_000,
        ..Count::new("simulated_us", "simulated time, ms", summary.simulated_us)
    };
    vec![
        Count::new("tlps", "TLPs on wires", summary.tlps),
        Count::new("translated", "requests that an IOMMU translated", summary.translated),
        Count::new("walks", "walks of its table", summary.walks),
        Count::new("spoilt", "TLPs poisoned, lost or doubled", summary.spoilt),
        Count::new("words", "words looked at", summary.words),
        Count::new("transfers", "transfers posted", summary.transfers),
        Count::new("restarts", "channels opened, cancelled, restarted, closed", summary.restarts),
        simulated,
    ]
}

/// Runs seeds as tori.
fn run_tori(arguments: &TortureArguments) -> Result<(), CommandError> {
    let seeds = arguments.seeds.clone();
    let note: Option<Note> = arguments.verbose.then(|| -> Note { Arc::new(print_hint) });
    let begun = Instant::now();
    let steps = Steps::new(seeds.end - seeds.start, "seeds");
    let summary = torus_campaign(seeds.clone(), note.as_ref(), false, &steps);
    steps.finish();
    let counts = torus_counts(&summary.all);
    let tori: Map<String, Value> =
        counts.iter().map(|count| (count.key.to_owned(), count.value.into())).collect();
    let document = json!({ "tori": tori });
    let name = "tori of seeds";
    Campaign {
        name,
        seeds,
        run: summary.seeds,
        failed: summary.failed,
        failures: &summary.failures,
    }
    .show(arguments.json, &steps, begun, document, &counts)
}

fn torus_counts(all: &TorusStory) -> [Count; 11] {
    [
        Count::new("nodes", "nodes", all.nodes),
        Count::new("messages", "messages", all.messages),
        Count::new("puts", "of them put", all.puts),
        Count::new("routed", "of them routed", all.routed),
        Count::new("cancels", "messages taken back, and credits for them", all.cancels),
        Count::new("bytes", "bytes compared", all.bytes),
        Count::new("datagrams", "datagrams delivered", all.datagrams),
        Count::new("repeated", "datagrams sent again", all.repeated),
        Count::new("damaged", "frames damaged", all.damaged),
        Count::new("cuts", "cables cut, links trained anew", all.cuts),
        Count::new("simulated_us", "simulated time, us", all.end_ps / 1_000_000),
    ]
}

fn write_lab(path: &Path, seed: u64, setup: &Setup) -> Result<(), CommandError> {
    let lab = lab_of(seed, setup);
    let text = format!("# Written by `crosslane torture --seeds {seed}`.\n{}", lab.text);
    output_of(path, Kind::Lab)?.write(text.as_bytes())?;
    if let Some(variant) = lab.variant {
        let path = path.display();
        print_hint(&format!("the seed runs variant {variant} of it: --lab {path}:{variant}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(parse_seeds("17..18"), Ok(17..18));
        assert_eq!(parse_seeds("17"), Ok(17..18));
        assert_eq!(parse_seeds("0..20_000"), Ok(0..20_000));
        for text in ["", "a", "3..", "..3", "3..3", "4..3", "-1", "18446744073709551615"] {
            assert!(parse_seeds(text).is_err(), "{text}");
        }
    }
}
