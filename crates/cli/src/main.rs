// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `crosslane` program: labs, their trees, and traffic in them.
//!
//! Read first: [`arguments`], the whole command line.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod bridge_command;
mod calibrate_command;
mod compare_command;
mod completions;
mod device_command;
mod engine_argument;
mod error;
mod files;
mod fit_command;
mod halo_command;
mod http;
mod interrupt;
mod items;
mod lab_command;
mod link_command;
mod manual_command;
mod merge_command;
mod mmio_command;
mod nget_command;
mod operations_command;
mod output;
mod overhead_command;
mod packets_command;
mod place_argument;
mod processes;
mod progress;
mod reproduce_command;
mod serve_command;
mod shard;
mod sweep_command;
mod torture_command;
mod torus_argument;
mod traffic_command;
mod ui_command;
mod values;
mod what_if_command;
mod workload;

use std::process::ExitCode;

use arguments::{BenchCommand, Cli, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use error::{CommandError, Result};

fn main() -> ExitCode {
    let cli = parsed().unwrap_or_else(|shown| match shown.kind() {
        ErrorKind::DisplayVersion => print_version(&shown),
        _ => shown.exit(),
    });
    output::measure(cli.wide);
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            error.exit_code()
        }
    }
}

/// Parses the command line. Paragraphs of help pages are one line each, so that they fill the
/// terminal, however wide it is.
fn parsed() -> Result<Cli, clap::Error> {
    let mut command = unfolded(Cli::command());
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Joins the lines of each paragraph behind the options of a command and of those below it, but of
/// lists, tables and examples.
fn unfolded(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        let joined = |paragraph: &str| match manual_command::is_laid_out(paragraph) {
            true => paragraph.to_owned(),
            false => paragraph.lines().collect::<Vec<_>>().join(" "),
        };
        let paragraphs: Vec<String> = text.split("\n\n").map(joined).collect();
        command = command.after_help(paragraphs.join("\n\n"));
    }
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, unfolded))
}

/// Prints the version, then the networks that are in the program: libfabric is looked for only here
/// and where one of its networks is used.
fn print_version(version: &clap::Error) -> ! {
    // The first line is out before a library of the machine is opened.
    let printed = version.print().is_ok()
        && output::print_unfolded(&format!("networks: {}\n", crosslane::network::summary()))
            .is_ok();
    std::process::exit(i32::from(!printed))
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Lab { command } => lab_command::run(command),
        Command::Topo(arguments) => lab_command::topo(arguments),
        Command::WhatIf(arguments) => what_if_command::what_if(arguments),
        Command::Tune(arguments) => what_if_command::tuned(arguments),
        Command::Ui(arguments) => ui_command::run(arguments),
        Command::Bench { command } => bench(command),
        Command::Reproduce(arguments) => reproduce_command::run(arguments),
        Command::Validate(arguments) => reproduce_command::run_validation(arguments),
        Command::Calibrate(arguments) => calibrate_command::run(arguments),
        Command::Torture(arguments) => torture_command::run(arguments),
        Command::Merge(arguments) => merge_command::run(arguments),
        Command::Compare(arguments) => compare_command::run(arguments),
        Command::Bridge { command } => bridge_command::run(command),
        Command::Device { command } => device_command::run(command),
        Command::Fit(arguments) => fit_command::run(arguments),
        Command::Manual(arguments) => manual_command::run(arguments),
        Command::Completions { shell } => output::print_unfolded(&completions::script(*shell)),
    }
}

fn bench(command: &BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Write(arguments) => workload::write(arguments),
        BenchCommand::Read(arguments) => workload::read(arguments),
        BenchCommand::P2p(arguments) => workload::peer(arguments),
        BenchCommand::Latency(arguments) => workload::latency(arguments),
        BenchCommand::Chain(arguments) => workload::chain(arguments),
        BenchCommand::Mmio(arguments) => mmio_command::run(arguments),
        BenchCommand::Nget(arguments) => nget_command::run(arguments),
        BenchCommand::Halo(arguments) => halo_command::run(arguments),
        BenchCommand::Link(arguments) => link_command::run(arguments),
        BenchCommand::Sweep(arguments) => sweep_command::run(arguments),
        BenchCommand::Operations(arguments) => operations_command::run(arguments),
        BenchCommand::Overhead(arguments) => overhead_command::run(arguments),
        BenchCommand::Packets(arguments) => packets_command::run(arguments),
        BenchCommand::Traffic(arguments) => traffic_command::run(arguments),
    }
}

/// Says on standard error why the command fails: a lab's problem with the line of its file.
fn report(error: &CommandError) {
    match error {
        CommandError::Lab(problem) => {
            output::print_error(&error.to_string());
            problem.place.iter().for_each(|place| output::print_snippet(place));
            problem.help().iter().for_each(|help| output::print_hint(help));
        }
        CommandError::Run | CommandError::SaidElsewhere { .. } => {}
        CommandError::Interrupted { sentence, .. } => output::print_hint(sentence),
        CommandError::Usage(_) => {
            output::print_error(&error.to_string());
            output::print_hint("add `--help` to the command to see its options");
        }
        _ => output::print_error(&error.to_string()),
    }
}
