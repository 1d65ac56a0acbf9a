// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench link`: test of the cables of a torus by generators and checkers.

use std::sync::Arc;

use clap::{Args, ValueHint};
use crosslane::experiment::{Scenario, SoakOptions, soak_on};
use crosslane::lab::{EngineKind, Lab};
use crosslane::open::DeviceName;
use crosslane::pcie::units::Picoseconds;

use crate::arguments::ShownArguments;
use crate::bench::{Bench, Runs, opened};
use crate::completions::{self, Known};
use crate::error::Result;
use crate::files::Where;
use crate::place_argument::Named;
use crate::torus_argument::{TorusArguments, nodes};
use crate::values::{CARD_TIMEOUT, MAX_TIME, parse_time, whole};

/// Time of a test in a lab where none is given.
const LAB_TIME: Picoseconds = Picoseconds::from_us(100);
/// The same of cards.
const CARD_TIME: Picoseconds = Picoseconds::from_secs(1);
/// Time within which links of a lab come up, and data drain.
const TIMEOUT: Picoseconds = Picoseconds::from_ms(10);

/// Arguments of `bench link`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench link                                      the cable of lab nget, for 100 us
  crosslane bench link --time 1ms --bit-error-rate 1e-6
  crosslane bench link --time 500us --retrains 3 --json
  crosslane bench link --lab torus --nodes 2x2 --datagrams 10000
  crosslane bench link --lab nget:crosslane --engine rtl --time 20us

The generator of each end of each cable sends datagrams of a pattern without pause, all ends at
once, and the checker of the other end compares every word. Then the generators stop, and what is
on its way drains. A row has the registers of one end, counted over the test, but for `trainings`,
which count from the device's reset:
  sent           datagrams of the generator here
  right, wrong   datagrams of the other end, as the checker here found them
  lost           datagrams that the other end has sent and that did not come
  of the line    payload that came, as a share of the line bits of all lanes
  repeated       datagrams sent again, after a NACK of the other end or a time-out
  damaged        frames that came damaged
  losses         times that the link went down in the test, for --retrains as well
  skips          skip columns dropped/doubled between the clocks of both ends, and times that the
                 elastic buffer was empty or full; none in the model, which has one clock
  errors of lanes  symbols (64b/66b: sync headers) that came wrong on each lane, 0 to 7
  errors a bit   damaged frames for each line bit; if there are none, the rate that is excluded with
                 a confidence of 95 %

It fails if a datagram was wrong or lost, or a link is down at the end. A narrow terminal leaves
columns out; --json has all.

Cards of --device are the nodes in order, the first dimension counting fastest; their cables make
the torus of --nodes, its rings closed unless --open says otherwise. Times are this machine's, and
no other program may have messages on their way.")]
pub struct LinkArguments {
    /// A shipped lab's name, or a lab file; `:VARIANT` behind it chooses a variant
    /// [default: nget].
    #[arg(long, value_hint = ValueHint::AnyPath, value_parser = Known(completions::labs),
        hide_possible_values = true)]
    pub lab: Option<String>,
    #[command(flatten)]
    pub torus: TorusArguments,
    /// Time for which the generators run, as 100us, 2ms or 1s, up to 100s [default: 100us in a lab,
    /// 1s on cards].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Picoseconds>,
    /// Stop when each checker has seen so many datagrams; --time is then the longest time, 100s
    /// where none is given.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1_000_000_000))]
    pub datagrams: Option<u32>,
    /// Share of the bits that arrive wrong, up to 0.01 [default: as the lab has it].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "device")]
    pub bit_error_rate: Option<f64>,
    /// Times that each cable is trained anew, spread over --time.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "datagrams",
        value_parser = whole::<u32>(0..=1000))]
    pub retrains: u32,
    /// Random seed, of the wrong bits.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look for what limits each run, in a lab: that takes many more runs.
    #[arg(long, conflicts_with = "device")]
    pub why: bool,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Reads a rate of wrong bits.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=0.01).contains(rate));
    rate.ok_or_else(|| format!("{text} is not a share of bits from 0 to 0.01, such as 1e-6"))
}

/// Runs the test.
///
/// # Errors
/// A lab without a torus, an impossible size, cards that make none, a run that fails, or wrong or
/// lost data.
pub fn run(arguments: &LinkArguments) -> Result<()> {
    match Named::or_lab("nget", arguments.lab.as_deref(), &arguments.torus.device)? {
        Named::Cards(names) => on_cards(arguments, &names),
        named => in_lab(arguments, &named.whole_lab("all nodes of the torus take part")?),
    }
}

fn options(arguments: &LinkArguments, usual: Picoseconds, timeout: Picoseconds) -> SoakOptions {
    let usual = arguments.datagrams.map_or(usual, |_| MAX_TIME);
    SoakOptions::new(arguments.time.unwrap_or(usual))
        .with_datagrams(arguments.datagrams)
        .with_retrains(arguments.retrains)
        .with_timeout(timeout)
}

fn in_lab(arguments: &LinkArguments, lab: &str) -> Result<()> {
    let engines = arguments.torus.engines.kind()?;
    let mut lab = Lab::load(lab)?.with_engines(engines);
    if let Some(rate) = arguments.bit_error_rate {
        lab = lab.edited(|file| {
            file.tori.iter_mut().for_each(|torus| torus.parameters.bit_error_rate = rate);
        })?;
    }
    let labs = arguments.torus.labs(&lab)?;
    let options = options(arguments, LAB_TIME, TIMEOUT);
    let scenario = |lab| Scenario::new(Arc::new(lab), options).with_seed(arguments.seed);
    let runs = Runs {
        at_once: engines == EngineKind::Model,
        engines: Some(&arguments.torus.engines),
        ..Runs::new("tori", arguments.why)
    };
    let bench = Bench::new("link", Where::Lab(&lab), arguments.seed, &arguments.shown)?;
    bench.in_lab(labs.into_iter().map(scenario).collect(), runs)
}

/// Runs it between cards: all nodes in this program.
fn on_cards(arguments: &LinkArguments, names: &[DeviceName]) -> Result<()> {
    let sizes = arguments.torus.sizes_of_cards(names.len())?;
    let bench = Bench::new("link", Where::Cards(names), arguments.seed, &arguments.shown)?;
    let session = opened(names, None)?;
    let bus = session.bus();
    let nodes = nodes(&session);
    let options = options(arguments, CARD_TIME, CARD_TIMEOUT);
    bench.on_cards(&session, (&[options], "tori"), async |options| {
        let outcome = soak_on(bus, &nodes, &sizes, arguments.torus.open, *options).await?;
        Ok((format!("links of {} nodes", nodes.len()), outcome))
    })
}
