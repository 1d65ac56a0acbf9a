// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane what-if` and `crosslane tune`: a lab beside itself with changes, and the levers that
//! make flows faster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use crosslane::experiment::{Choices, FlowArgument};
use crosslane::lab::Lab;
use crosslane::tune::{TuneOptions, tune};
use crosslane::what_if::{Change, Flows, apply, compare_flows, compare_pairs, written};
use crosslane_report::output::Kind;
use crosslane_report::runs::{tuning_page, what_if_page};
use crosslane_report::{Block, Section, text};
use crosslane_reproduce::page::topology;

use crate::arguments::{MAX_OPERATIONS, MAX_OUTSTANDING, ShownArguments};
use crate::bench::print_errors;
use crate::completions::{self, Known};
use crate::error::{CommandError, Result, usage};
use crate::files::{command_line, constants_of, output_of, report_of, write_page};
use crate::output::{print_hint, show};
use crate::traffic_command::expanded;
use crate::values::whole;

/// Arguments of `what-if`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane what-if my-lab.toml --link card0=3x8
  crosslane what-if my-lab.toml --set card0.mrrs=256 --set host0.iommu=on --flow card0:host0:read:4K
  crosslane what-if rosta --move fpga5=rc47a --flow fpga1:fpga5:write:64K --operations 8
  crosslane what-if rosta --move fpga5=swap:fpga2 --acs on --flow fpga1:fpga5:write:4K --json
  crosslane what-if my-lab.toml --set card0.mrrs=4096 --write changed.toml --report what-if

Without --flow every pair is compared, as `crosslane topo LAB --matrix` shows them; pairs that
change are listed, with what limits each. Changes are made in this order: constants, places,
links, redirection, settings. Settings, beside the constants of `crosslane lab show LAB`:
  HOST.mps, SWITCH.mps, ENDPOINT.mps     Max_Payload_Size of all below the host's root ports, or
                                         below the root port above the switch or endpoint
  HOST.mrrs, ENDPOINT.mrrs               Max_Read_Request_Size of all, or of one
  HOST.iommu=on|off                      translation
  ENDPOINT.tags                          reads in flight
  ENDPOINT.relaxed-ordering=on|off       of its flows
Values whose source in the lab is a register (`sysfs:`) change with the setting; what a part can
do at most does not. A new port takes the link as it was, or slower if it has to: --link says
another rate, and raises what the ports can do.")]
pub struct WhatIfArguments {
    /// A constant or a setting, such as host0.mps=256; may be repeated.
    #[arg(long, value_name = "PATH=VALUE", value_parser = Change::set)]
    pub set: Vec<Change>,
    /// An endpoint, or a switch with all below it, at another port: of a host or switch, HOST.numaN
    /// for that of a socket, HOST.PORT or SWITCH.PORT to name it, or swap:NODE.
    #[arg(long = "move", value_name = "NODE=PLACE", value_parser = Change::moved)]
    pub moved: Vec<Change>,
    /// Generation and lanes of the link above an endpoint or a switch.
    #[arg(long, value_name = "NODE=GxN", value_parser = Change::link)]
    pub link: Vec<Change>,
    /// Redirection of peer requests: on or off for all, or of one host or switch.
    #[arg(long, value_name = "[NODE=]on|off", value_parser = Change::acs)]
    pub acs: Vec<Change>,
    /// A flow to compare, as `bench traffic` has it; may be repeated [default: all pairs].
    #[arg(long = "flow", value_name = "FROM:TO:KIND:SIZE")]
    pub flows: Vec<FlowArgument>,
    /// Write the lab file with the changes to this file; comments stay.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub of: OfLab,
}

/// Arguments of `tune`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane tune my-lab.toml --flow card0:host0:read:16K
  crosslane tune rosta --flow fpga1:fpga5:write:16K --operations 8 --json
  crosslane tune my-lab.toml --flow card0:host0:read:16K --report tuned

Levers are payload and read request sizes, Extended Tags, relaxed ordering, redirection (ACS),
translation by the IOMMU, and the port of each endpoint of the flows. Each is tried alone; the best
stays, and the others are tried again beside it, until none gains 1 %. Gains within 1 % count as
equal: then a setting is taken rather than a card that is moved. The commands are printed,
to be run by root on the machine; nothing is changed. A lab that was imported knows the addresses
of functions; in others '<NAME>' stands for one. If a device has further functions, they are set
alike. Whether a port is free for a card, and keeps the rate of its link, is not known.")]
pub struct TuneArguments {
    /// A flow to make faster, as `bench traffic` has it; may be repeated.
    #[arg(long = "flow", value_name = "FROM:TO:KIND:SIZE", required = true)]
    pub flows: Vec<FlowArgument>,
    /// Leave every card at its port: search the settings alone.
    #[arg(long)]
    pub in_place: bool,
    #[command(flatten)]
    pub of: OfLab,
}

/// The lab and its runs.
#[derive(Args, Debug)]
pub struct OfLab {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: String,
    /// Operations of each flow [default: by size].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=MAX_OPERATIONS))]
    pub operations: Option<u64>,
    /// Operations in flight of each flow [default: by size].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_OUTSTANDING))]
    pub outstanding: Option<u32>,
    /// Skip the search for what limits.
    #[arg(long)]
    pub no_why: bool,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub shown: ShownArguments,
}

impl OfLab {
    fn flows(&self, lab: &Lab, arguments: &[FlowArgument]) -> Result<Flows> {
        let choices =
            Choices::default().with_operations(self.operations).with_outstanding(self.outstanding);
        let request = |flow: &FlowArgument| {
            let sizes: Vec<u64> = flow.sizes.sizes().collect();
            match sizes[..] {
                [size] => Ok(flow.requests(size)),
                _ => Err(usage(format!("--flow {flow}: one size is compared, not a range"))),
            }
        };
        let flows = expanded(arguments, &lab.build(self.seed)?)?;
        let requests = flows.iter().map(request).collect::<Result<Vec<_>>>()?.concat();
        Ok(Flows { requests, choices, seed: self.seed })
    }
}

/// Compares a lab with itself after changes.
///
/// # Errors
/// A lab, a change or a flow that is impossible, and [`CommandError::Run`] if the run in the
/// changed lab had errors.
pub fn what_if(arguments: &WhatIfArguments) -> Result<()> {
    let WhatIfArguments { of, set, moved, link, acs, flows, write } = arguments;
    let changes: Vec<Change> = [set, moved, link, acs].into_iter().flatten().cloned().collect();
    if changes.is_empty() {
        return Err(usage("nothing is changed: give --set, --move, --link or --acs"));
    }
    let output = write.as_deref().map(|path| output_of(path, Kind::Lab)).transpose()?;
    let report = report_of(of.shown.report.as_deref())?;
    let lab = Lab::load(&of.lab)?;
    let text = output.as_ref().map(|_| written(&lab, &changes, &command_line())).transpose()?;
    let compared = match flows.is_empty() {
        true if of.operations.is_some() || of.outstanding.is_some() => {
            return Err(usage("--operations and --outstanding are for --flow"));
        }
        true => compare_pairs(&lab, &changes, !of.no_why, &())?,
        false => compare_flows(&lab, &changes, &of.flows(&lab, flows)?, !of.no_why, &())?,
    };
    show(of.shown.json, &compared, |columns| text::what_if(&compared, columns))?;
    if let Some((output, text)) = output.zip(text) {
        output.write(text.as_bytes())?;
        let variant = lab.variant().map_or_else(String::new, |variant| format!(":{variant}"));
        print_hint(&format!("lab: {}{variant}", output.path().display()));
    }
    if let Some(file) = report {
        let mut page = what_if_page(&compared, &command_line(), env!("CARGO_PKG_VERSION"));
        let changed = apply(&lab, &changes)?.lab;
        let runs = compared.flows.as_ref().map(|both| [&both.before, &both.after]);
        let titles = ["As it is", "With the changes"];
        let mut trees = Vec::new();
        for (index, (title, lab)) in titles.into_iter().zip([&lab, &changed]).enumerate() {
            let loads = runs.map_or(&[][..], |runs| &runs[index].link_loads);
            trees.push(Block::Topology(topology(lab, title, loads)?));
        }
        let title = if runs.is_some() { "Load of every link" } else { "The trees" };
        page.sections.push(Section { title: title.to_owned(), blocks: trees });
        page.sections.push(constants_of(&lab));
        write_page(&page, &file)?;
    }
    let after = compared.flows.map(|both| both.after);
    match print_errors(after.as_slice(), &[]) {
        true => Err(CommandError::Run),
        false => Ok(()),
    }
}

/// Searches for settings and places that make flows faster.
///
/// # Errors
/// A lab or a flow that is impossible, and flows that fail.
pub fn tuned(arguments: &TuneArguments) -> Result<()> {
    let TuneArguments { of, flows, in_place } = arguments;
    let options = TuneOptions { in_place: *in_place, why: !of.no_why };
    let report = report_of(of.shown.report.as_deref())?;
    let lab = Lab::load(&of.lab)?;
    let tuning = tune(&lab, &of.flows(&lab, flows)?, options, &())?;
    show(of.shown.json, &tuning, |columns| text::tuning(&tuning, &of.lab, columns))?;
    let Some(file) = report else { return Ok(()) };
    let version = env!("CARGO_PKG_VERSION");
    let mut page = tuning_page(&tuning, &of.lab, &command_line(), version);
    page.sections.push(constants_of(&lab));
    write_page(&page, &file)
}
