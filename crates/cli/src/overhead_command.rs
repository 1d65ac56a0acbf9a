// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench overhead`: what single accesses and transfers cost on a card, wherever it is.

use clap::Args;
use crosslane::experiment::{OverheadOptions, overhead};
use crosslane::network::MachineClock;
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Outcome, Overhead, SCHEMA};
use crosslane_report::text::Notes;

use crate::arguments::ShownArguments;
use crate::bench::{print_outcome, run_on};
use crate::completions::{self, Known};
use crate::error::{CommandError, Result};
use crate::files::{report_of, write_card_page};
use crate::values::whole;
use crosslane::experiment::parse_size;

/// Arguments of `bench overhead`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench overhead --device lab:kc705:crosslane
  crosslane bench overhead --device lab:rosta:crosslane/fpga1 --rounds 20 --report overhead

NAME is lab:LAB/ENDPOINT, vfio-user:SOCKET of a server (`crosslane lab serve`), or vfio:ADDRESS of
this machine. Times are averages, by the clock of the card's bus, which is simulated in a lab, and
by this machine's. Transfers are made one at a time; the data of one of each kind are
compared.")]
pub struct OverheadArguments {
    /// The card.
    #[arg(long, value_name = "NAME", value_parser = Known(completions::devices),
        hide_possible_values = true)]
    pub device: String,
    /// Register accesses, and small transfers.
    #[arg(long, value_name = "N", default_value_t = 200,
        value_parser = whole::<u64>(1..=1_000_000))]
    pub rounds: u64,
    /// Bytes of a large transfer, a multiple of 4.
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_words)]
    pub large: u64,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// A length in whole words, up to 1 GiB.
pub fn parse_words(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes @ 4..=0x4000_0000 if bytes.is_multiple_of(4) => Ok(bytes),
        _ => Err(format!("{text} is not a multiple of 4 B from 4 B to 1 GiB")),
    }
}

/// Measures and prints.
///
/// # Errors
/// A card that cannot be opened, or fails, and an output that cannot be written.
pub fn run(arguments: &OverheadArguments) -> Result<()> {
    let name: DeviceName = arguments.device.parse()?;
    let file = report_of(arguments.shown.report.as_deref())?;
    let options = OverheadOptions::default()
        .with_rounds(arguments.rounds)
        .with_large_bytes(arguments.large)
        .with_seed(arguments.seed as u32);
    let opening = SessionOptions::default().with_seed(arguments.seed);
    let session = Session::open_all(std::slice::from_ref(&name), opening)?;
    let clock = MachineClock::new();
    let rows = run_on(&session, async {
        let cards = session.devices().await?;
        let rows = overhead(&cards[0], &clock, &options).await;
        rows.map_err(|error| CommandError::failed(format!("{name}: {error}")))
    })?;
    session.finish()?;
    let outcome = Outcome::Overhead(Overhead {
        schema: SCHEMA,
        bench: "overhead".to_owned(),
        device: name.to_string(),
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
    });
    print_outcome(&outcome, arguments.shown.json, Notes::default())?;
    let Some(file) = file else { return Ok(()) };
    write_card_page(&outcome, &name, &file)
}
