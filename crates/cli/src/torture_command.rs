// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane torture`: random labs, workloads and faults by seed.

use std::fmt::Write as _;
use std::num::IntErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueHint};
use crosslane::lab::EngineKind;
use crosslane::pcie::units::Picoseconds;
use crosslane_report::Table;
use crosslane_torture::{
    Check, Failure, Fault, LabText, Note, Setup, Summary, TorusStory, Watch, campaign, lab_of,
    torus_campaign,
};

use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::CommandError;
use crate::interrupt::is_asked;
use crate::output::{print, print_error, print_hint, print_json};
use crate::output_file::{Kind, OutputFile};
use crate::progress::Steps;
use crate::terminal::shown;

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
    /// The model, or the gateware, whose lab is `rosta:crosslane` unless `--lab` names another.
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
        let has_engine =
            |endpoint: &crosslane::lab::file::EndpointInstance| endpoint.part.engine.is_some();
        if !lab.lab()?.file().endpoints.iter().any(has_engine) {
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
    if arguments.json {
        let mut document = to_json(&seeds, &summary);
        steps.watch.mark(&mut document);
        print_json(&document)?;
    } else {
        print(&page(&seeds, &summary, begun.elapsed().as_secs_f64()))?;
    }
    end(&steps, summary.failed, &summary.failures)
}

/// Says which seeds have failed, and whether not all were run.
fn end(steps: &Steps, failed: u64, failures: &[Failure]) -> Result<(), CommandError> {
    for failure in failures {
        print_error(&failure.to_string());
    }
    let unsaid = failed - failures.len() as u64;
    if unsaid > 0 {
        print_hint(&format!("and {unsaid} more"));
    }
    steps.watch.end(&format!("; {failed} failed"))?;
    if failed > 0 { Err(CommandError::Run) } else { Ok(()) }
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
    if arguments.json {
        let counts: serde_json::Map<String, serde_json::Value> =
            counts.iter().map(|(key, _, count)| ((*key).to_owned(), (*count).into())).collect();
        let mut document = serde_json::json!({
            "first_seed": seeds.start,
            "end_seed": seeds.end,
            "seeds": summary.seeds,
            "failed": summary.failed,
            "failures": failures_to_json(&summary.failures),
            "tori": counts,
            "version": env!("CARGO_PKG_VERSION"),
        });
        steps.watch.mark(&mut document);
        print_json(&document)?;
    } else {
        let rate = summary.seeds as f64 / begun.elapsed().as_secs_f64().max(1e-3);
        let Range { start, end } = seeds;
        let (run, failed) = (summary.seeds, summary.failed);
        let mut page = format!(
            "tori of seeds {start}..{end}: {run} run, {failed} failed; {rate:.1} a second\n"
        );
        let mut table = Table::headed("what | count:");
        for (_, what, count) in counts {
            table.row([what.to_owned(), count.to_string()]);
        }
        page.push_str(&shown(&table));
        print(&page)?;
    }
    end(&steps, summary.failed, &summary.failures)
}

/// Returns the counts, each with its names for programs and for people.
fn torus_counts(all: &TorusStory) -> [(&'static str, &'static str, u64); 11] {
    [
        ("nodes", "nodes", all.nodes),
        ("messages", "messages", all.messages),
        ("puts", "of them put", all.puts),
        ("routed", "of them routed", all.routed),
        ("cancels", "messages taken back, and credits for them", all.cancels),
        ("bytes", "bytes compared", all.bytes),
        ("datagrams", "datagrams delivered", all.datagrams),
        ("repeated", "datagrams sent again", all.repeated),
        ("damaged", "frames damaged", all.damaged),
        ("cuts", "cables cut, links trained anew", all.cuts),
        ("simulated_us", "simulated time, us", all.end_ps / 1_000_000),
    ]
}

fn write_lab(path: &Path, seed: u64, setup: &Setup) -> Result<(), CommandError> {
    let lab = lab_of(seed, setup);
    let text = format!("# Written by `crosslane torture --seeds {seed}`.\n{}", lab.text);
    OutputFile::file(path, Kind::Lab)?.write(text.as_bytes())?;
    if let Some(variant) = lab.variant {
        let path = path.display();
        print_hint(&format!("the seed runs variant {variant} of it: --lab {path}:{variant}"));
    }
    Ok(())
}

/// A summary as people read it.
fn page(seeds: &Range<u64>, summary: &Summary, seconds: f64) -> String {
    let mut page = String::new();
    let rate = summary.seeds as f64 / seconds.max(1e-3);
    let Range { start, end } = seeds;
    let _ = writeln!(
        page,
        "seeds {start}..{end}: {} run, {} failed; {rate:.1} a second",
        summary.seeds, summary.failed
    );
    let mut table = Table::headed("what | count:");
    for (what, count) in [
        ("TLPs on wires", summary.tlps),
        ("requests that an IOMMU translated", summary.translated),
        ("walks of its table", summary.walks),
        ("TLPs poisoned, lost or doubled", summary.spoilt),
        ("words looked at", summary.words),
        ("transfers posted", summary.transfers),
        ("channels opened, cancelled, restarted, closed", summary.restarts),
        ("simulated time, ms", summary.simulated_us / 1_000),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    for fault in Fault::ALL {
        table.row([format!("fault: {fault}"), summary.faults.of(fault).to_string()]);
    }
    page.push_str(&shown(&table));
    page
}

fn to_json(seeds: &Range<u64>, summary: &Summary) -> serde_json::Value {
    let faults: serde_json::Map<String, serde_json::Value> = Fault::ALL
        .into_iter()
        .map(|fault| (fault.word().to_owned(), summary.faults.of(fault).into()))
        .collect();
    serde_json::json!({
        "first_seed": seeds.start,
        "end_seed": seeds.end,
        "seeds": summary.seeds,
        "failed": summary.failed,
        "failures": failures_to_json(&summary.failures),
        "tlps": summary.tlps,
        "translated": summary.translated,
        "walks": summary.walks,
        "spoilt": summary.spoilt,
        "words": summary.words,
        "transfers": summary.transfers,
        "restarts": summary.restarts,
        "simulated_us": summary.simulated_us,
        "faults": faults,
        "checks": Check::ALL.map(Check::word),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

fn failures_to_json(failures: &[Failure]) -> Vec<serde_json::Value> {
    let to_json = |failure: &Failure| {
        serde_json::json!({
            "seed": failure.seed,
            "check": failure.violation.check.word(),
            "what": failure.violation.what,
            "replay": failure.replay(),
        })
    };
    failures.iter().map(to_json).collect()
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
