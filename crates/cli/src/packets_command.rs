// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bench packets`: packets a second through a card's stream, by their size.

use std::time::Instant;

use clap::Args;
use crosslane::experiment::{PacketOptions, packets, parse_size};
use crosslane::open::{DeviceName, Session, SessionOptions};
use crosslane::results::{Outcome, Packets, SCHEMA};
use crosslane_report::text::Notes;

use crate::arguments::ShownArguments;
use crate::bench::{print_outcome, run_on};
use crate::completions::{self, Known};
use crate::engine_argument::EngineArguments;
use crate::error::{CommandError, Result};
use crate::files::{report_of, write_card_page};
use crate::values::whole;

/// Arguments of `bench packets`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  crosslane bench packets --device lab:minimal
  crosslane bench packets --device lab:minimal --size 64,1500 --packets 500 --report packets
  crosslane bench packets --device lab:minimal --size 64 --batch 1 --outstanding 1

NAME is lab:LAB/ENDPOINT, vfio-user:SOCKET of a server (`crosslane lab serve`), or vfio:ADDRESS of
this machine. Its engine must have a packet mode. Every packet goes from host memory into the card's
stream and back into host memory, and is compared; the time is from the first doorbell to the last
packet, by the clock of the card's bus, which is simulated in a lab.")]
pub struct PacketsArguments {
    /// The card.
    #[arg(long, value_name = "NAME", value_parser = Known(completions::devices),
        hide_possible_values = true)]
    pub device: String,
    /// Bytes of a packet, several separated by commas.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size,
        default_value = "64,128,256,512,1024,1500,4096,9000")]
    pub size: Vec<u64>,
    /// Packets of each size.
    #[arg(long, value_name = "N", default_value_t = 2000,
        value_parser = whole::<u64>(1..=10_000_000))]
    pub packets: u64,
    /// Packets on their way at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole::<u64>(1..=512))]
    pub outstanding: u64,
    /// Packets sent with one doorbell.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = whole::<u64>(1..=512))]
    pub batch: u64,
    /// Random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub engines: EngineArguments,
    #[command(flatten)]
    pub shown: ShownArguments,
}

/// Measures and prints.
///
/// # Errors
/// A card that cannot be opened, has no packets, or fails, wrong packets, and an output that cannot
/// be written.
pub fn run(arguments: &PacketsArguments) -> Result<()> {
    let name: DeviceName = arguments.device.parse()?;
    let file = report_of(arguments.shown.report.as_deref())?;
    let options = PacketOptions::default()
        .with_sizes(arguments.size.clone())
        .with_packets(arguments.packets)
        .with_outstanding(arguments.outstanding)
        .with_batch(arguments.batch)
        .with_seed(arguments.seed as u32);
    let engines = arguments.engines.kind()?;
    let opening = SessionOptions::default().with_seed(arguments.seed).with_engines(engines);
    let begun = Instant::now();
    let session = Session::open_all(std::slice::from_ref(&name), opening)?;
    let rows = run_on(&session, async {
        let cards = session.devices().await?;
        let rows = packets(&cards[0], &options).await;
        rows.map_err(|error| CommandError::failed(format!("{name}: {error}")))
    })?;
    session.finish()?;
    arguments.engines.print_speed(begun);
    let wrong: u64 = rows.iter().map(|row| row.wrong).sum();
    let outcome = Outcome::Packets(Packets {
        schema: SCHEMA,
        bench: "packets".to_owned(),
        device: name.to_string(),
        seed: arguments.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rows,
    });
    print_outcome(&outcome, arguments.shown.json, Notes::default())?;
    if let Some(file) = file {
        write_card_page(&outcome, &name, &file)?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(CommandError::failed(format!("{wrong} packets are not as they were sent"))),
    }
}
