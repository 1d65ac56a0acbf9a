// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane merge`: the results of all shards of a command, as those of one run.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::arguments::{BenchCommand, Command, ValidateArguments};
use crate::error::{CommandError, Result, usage};
use crate::items::{ItemsArguments, merged_command};
use crate::torture_command::TortureArguments;
use crate::{reproduce_command, sweep_command, torture_command};

/// Arguments of `merge`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane torture --seeds 0..8 --items seeds --shard 0/2
  crosslane torture --seeds 0..8 --items seeds --shard 1/2
  crosslane merge seeds
  crosslane merge seeds --json

The table, the JSON and the exit code are those of the same command in one run, without --items;
only the rate of `torture` is left out. Missing items are named, with the shards that have to be
run again; the exit code is then 1, and nothing is shown. A lab file and a file of measurements
are read again, where the command line of the shards names them, and have to be the same.
docs/shards.md has job scripts for Slurm and Kubernetes.")]
pub struct MergeArguments {
    /// The folder that `bench sweep`, `torture` or `validate` was given with --items.
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the points of a sweep into this file as comma-separated values.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write an HTML page of a sweep to FOLDER/index.html.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub report: Option<PathBuf>,
}

/// Shows the results.
///
/// # Errors
/// Files that are damaged or do not belong together, missing items, and those of the command.
pub fn run(arguments: &MergeArguments) -> Result<()> {
    let MergeArguments { folder, json, csv, report } = arguments;
    let json = *json;
    let merged = |items: &mut ItemsArguments| items.is_merge = true;
    let command = merged_command(folder)?.command;
    if let Command::Bench { command: BenchCommand::Sweep(mut sweep) } = command {
        merged(&mut sweep.items);
        (sweep.json, sweep.csv, sweep.report) = (json, csv.clone(), report.clone());
        return sweep_command::run(&sweep);
    }
    let options = [("csv", csv.is_some()), ("report", report.is_some())];
    if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
        let folder = folder.display();
        return Err(usage(format!("--{option} is for sweeps: the items of {folder} are of none")));
    }
    match command {
        Command::Torture(mut torture) => {
            merged(&mut torture.items);
            torture_command::run(&TortureArguments { json, ..torture })
        }
        Command::Validate(mut validate) => {
            merged(&mut validate.items);
            reproduce_command::run_validation(&ValidateArguments { json, ..validate })
        }
        _ => Err(CommandError::Failed(format!("{} has no items", folder.display()))),
    }
}
