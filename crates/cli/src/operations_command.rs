// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench operations`: how long one small operation takes, from the program's call to the
//! data.

use clap::Args;
use crosslane::experiment::{
    CardLink, OperationOptions, SizeRange, operation_rates, operations, published_read,
};
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Operations, Outcome, SCHEMA};
use crosslane_report::text::Notes;

use crate::arguments::ShownArguments;
use crate::bench::{print_outcome, run_on};
use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result};
use crate::files::{report_of, write_card_page};
use crate::values::whole;

/// Arguments of `bench operations`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench operations --device lab:kc705:crosslane
  crosslane bench operations --device lab:rosta:crosslane/fpga1 --size 8..4K --json
  crosslane bench operations --device lab:pciebench --report operations

NAME is lab:LAB/ENDPOINT, vfio-user:SOCKET of a server (`crosslane lab serve`), or vfio:ADDRESS of
this machine. Operations are made one at a time: DMA reads and writes by a ring, by the engine's
table and pushed with the doorbell (where the card can), stores into its first receive queue, and
register reads. `data` is the time from the program's call until the data are at the other end: in
the card's stream or receive queue (in labs only), or seen in host memory. `at the card` is the part
of it from the descriptor at the card on, what an operation takes that the card begins itself.
`known` ends when the program knows: by the status block, for a store by a read behind it. In a lab
the typical time is split by the packets on the card's link, as an analyzer in its slot would see
them. The data of DMA are compared. Last come rates, with many DMA writes or reads in flight by a
ring, and how much of the link TLPs take in the direction of the data.")]
pub struct OperationsArguments {
    /// The card.
    #[arg(long, value_name = "NAME", value_parser = Known(completions::devices),
        hide_possible_values = true)]
    pub device: String,
    /// Bytes of an operation, from 8 to 4096; 8..4K is a sweep over the powers of two.
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = parse_operations)]
    pub size: SizeRange,
    /// Operations of each kind and size.
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = whole::<u64>(1..=1_000_000))]
    pub rounds: u64,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub engines: EngineArguments,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Sizes of small operations.
fn parse_operations(text: &str) -> Result<SizeRange, String> {
    let range: SizeRange = text.parse()?;
    let is_impossible = |bytes: &u64| !(8..=4096).contains(bytes) || !bytes.is_multiple_of(8);
    let impossible = range.sizes().find(is_impossible);
    match impossible {
        Some(bytes) => Err(format!("{bytes} B is not a multiple of 8 B from 8 B to 4 KiB")),
        None => Ok(range),
    }
}

/// Measures and prints.
///
/// # Errors
/// A card that cannot be opened, or fails, and an output that cannot be written.
pub fn run(arguments: &OperationsArguments) -> Result<()> {
    let name: DeviceName = arguments.device.parse()?;
    let file = report_of(arguments.shown.report.as_deref())?;
    let options = OperationOptions::default()
        .with_sizes(arguments.size.sizes().collect::<Vec<_>>())
        .with_rounds(arguments.rounds)
        .with_seed(arguments.seed as u32);
    let engines = arguments.engines.kind()?;
    let opening = SessionOptions::default().with_seed(arguments.seed).with_engines(engines);
    let session = Session::open_all(std::slice::from_ref(&name), opening)?;
    let endpoint = &session.cards()[0].endpoint;
    let link = session.simulation().and_then(|simulation| CardLink::of(simulation, endpoint));
    let (rows, rates) = run_on(&session, async {
        let cards = session.devices().await?;
        let failed = |error| CommandError::failed(format!("{name}: {error}"));
        let rows = operations(&cards[0], link.as_ref(), &options).await.map_err(failed)?;
        let rates = operation_rates(&cards[0], link.as_ref(), &options).await.map_err(failed)?;
        Ok((rows, rates))
    })?;
    drop(link);
    session.finish()?;
    let outcome = Outcome::Operations(Operations {
        schema: SCHEMA,
        bench: "operations".to_owned(),
        device: name.to_string(),
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
        rates,
        published: published_read(),
    });
    print_outcome(&outcome, arguments.shown.json, Notes::default())?;
    let Some(file) = file else { return Ok(()) };
    write_card_page(&outcome, &name, &file)
}
