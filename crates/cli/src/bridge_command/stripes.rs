// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file over several cards: each has one range of it, and all are moved at once.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::iter::once;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crosslane::bridge::files::{FileClient, FileError, FileOutcome, Watch, stripes};
use crosslane::bridge::{BridgeError, CardAddress};
use crosslane::network::{MachineClock, Network};
use futures_executor::block_on;
use futures_util::future::try_join_all;

use super::arguments::ClientArguments;
use super::client::{Remote, failed, place};
use crate::error::{CommandError, Result, usage};
use crate::output;

/// A range of a file, read or written from its beginning on. Several share the file.
struct Part<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(into, self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl Write for Part<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let bytes = self.file.write_at(from, self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The progress of all parts together, as that of one file.
struct All<'a> {
    watch: &'a dyn Watch,
    arrived: RefCell<Vec<u64>>,
}

/// The progress of one part.
struct One<'a> {
    all: &'a All<'a>,
    number: usize,
    card: &'a CardAddress,
}

impl Watch for One<'_> {
    fn arrived(&self, bytes: u64) {
        let mut arrived = self.all.arrived.borrow_mut();
        arrived[self.number] = bytes;
        self.all.watch.arrived(arrived.iter().sum());
    }

    fn resumed(&self, error: &BridgeError) {
        output::print_hint(&format!("{}: {error}; trying again", self.card));
    }
}

/// Direction of the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToCards,
    FromCards,
}

/// A file that was moved, to be told of.
pub struct Striped<'a> {
    remote: Remote<'a>,
    what: String,
    outcome: FileOutcome,
}

impl Striped<'_> {
    /// Prints the outcome.
    ///
    /// # Errors
    /// Standard output that cannot be written.
    pub fn finish(self) -> Result<()> {
        self.remote.finish(&self.what, &self.outcome)
    }
}

/// Moves the ranges of a file to cards, or from them: the first one to the first card, and so on.
/// Each has a connection for itself.
///
/// # Errors
/// The first that fails, with its card; the others then end too.
pub fn run<'a>(
    way: Way,
    (path, file): (&Path, &File),
    bytes: u64,
    cards: &[CardAddress],
    arguments: &'a ClientArguments,
) -> Result<Striped<'a>> {
    if !file.metadata().map_err(CommandError::failed)?.is_file() {
        let why = "several cards use it at once, which takes a file";
        return Err(usage(format!("{}: {why}", path.display())));
    }
    let mut remote = Remote::open(&cards[0].server, arguments, bytes)?;
    let ranges = stripes(bytes, cards.len());
    let mut others = Vec::new();
    for card in &cards[1..] {
        others.push(Remote::client(&card.server, arguments)?);
    }
    let all = All { watch: &remote.shown, arrived: RefCell::new(vec![0; ranges.len()]) };
    let clients = once(&mut remote.files).chain(others.iter_mut().map(|(client, _)| client));
    let parts = ranges.iter().zip(cards).zip(clients).enumerate();
    let moving = parts.map(|(number, ((range, card), client))| {
        let watch = One { all: &all, number, card };
        async move {
            let moved = one(way, (file, range), card, client, &watch).await;
            // A file's error names the file by itself.
            moved.map_err(|error| match error {
                FileError::Bridge(error) => CommandError::Failed(format!("{card}: {error}")),
                error => failed(path, path)(error),
            })
        }
    });
    let moved = block_on(try_join_all(moving))?;
    let mut networks = vec![remote.network_name];
    for (client, network) in others {
        block_on(client.close());
        if !networks.contains(&network) {
            networks.push(network);
        }
    }
    let outcome = FileOutcome::joined(moved);
    let names: Vec<String> = cards.iter().take(ranges.len()).map(ToString::to_string).collect();
    let (names, path) = (names.join(","), path.display());
    let what = match way {
        Way::ToCards => format!("{path} -> {names}"),
        Way::FromCards => format!("{names} -> {path}"),
    };
    remote.network_name = networks.join(", ");
    Ok(Striped { remote, what, outcome })
}

/// Moves one range.
async fn one(
    way: Way,
    (file, range): (&File, &Range<u64>),
    card: &CardAddress,
    client: &mut FileClient<Network, MachineClock>,
    watch: &dyn Watch,
) -> Result<FileOutcome, FileError> {
    let mut part = Part { file, at: range.start };
    let length = range.end - range.start;
    match way {
        Way::ToCards => client.put(&mut part, 0..length, &place(card), watch).await,
        Way::FromCards => client.get(&place(card), length, &mut part, watch).await,
    }
}
