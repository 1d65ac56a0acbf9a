// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge bench --servers`: the rate from each card of several servers to each other.

use crosslane::bridge::{BridgeError, CardAddress, CardPlace, Client, TransferOptions};
use crosslane::experiment::BridgePlan;
use crosslane::host::{Clock, Rdma};
use crosslane::lab::Progress;
use crosslane::pcie::units::Picoseconds;
use crosslane::results::SCHEMA;
use crosslane_report::Table;
use futures_executor::block_on;
use serde::Serialize;

use super::arguments::{BenchArguments, ClientArguments};
use super::client::peer_of;
use super::servers::{connected, servers_of, survey_of};
use crate::error::{CommandError, Result, usage};
use crate::output::{self, shown};
use crate::progress::Steps;

/// A card of the matrix.
#[derive(Clone, Debug, Serialize)]
struct Place {
    server: String,
    card: String,
}

/// Copies from one card to another.
#[derive(Debug, Serialize)]
struct Pair {
    /// Places in the list of cards.
    from: usize,
    to: usize,
    /// Median of all copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A server that has told no cards.
#[derive(Serialize)]
struct Silent {
    server: String,
    error: String,
}

/// JSON of the command.
#[derive(Serialize)]
struct Matrix {
    schema: u32,
    bench: &'static str,
    /// Bytes of each copy, and the number of copies of each pair.
    bytes: u64,
    iterations: u64,
    cards: Vec<Place>,
    pairs: Vec<Pair>,
    silent: Vec<Silent>,
}

/// Measures all pairs, one after the other.
///
/// # Errors
/// A list of servers that cannot be read, and no two cards to measure. Servers that do not answer
/// and copies that fail are named behind the rates.
pub fn run(arguments: &BenchArguments, plan: &BridgePlan, list: &String) -> Result<()> {
    let &[bytes] = plan.sizes.as_slice() else {
        return Err(usage("--size with --servers: copies of one size are measured"));
    };
    let client = &arguments.client;
    let servers = servers_of([list])?;
    let (mut cards, mut silent) = (Vec::new(), Vec::new());
    for (server, answer) in servers.iter().zip(survey_of(client, &servers)) {
        match answer {
            Ok(answer) => cards.extend(
                answer
                    .survey
                    .cards
                    .into_iter()
                    .map(|card| Place { server: server.clone(), card: card.name }),
            ),
            Err(error) => silent.push(Silent { server: server.clone(), error: error.to_string() }),
        }
    }
    let all = (0..cards.len()).flat_map(|from| (0..cards.len()).map(move |to| (from, to)));
    let all: Vec<(usize, usize)> = all.filter(|(from, to)| from != to).collect();
    if all.is_empty() && silent.is_empty() {
        let why = "their only card is copied to no other one";
        return Err(usage(format!("--servers {list}: {why}")));
    }
    let steps = Steps::new(all.len() as u64, "pairs of cards");
    let mut pairs = Vec::new();
    for (from, to) in all {
        if steps.is_over() {
            break;
        }
        let options = TransferOptions::default().with_time(plan.timeout).with_checksum(true);
        let copied = block_on(copied(
            client,
            (&cards[from], &cards[to]),
            (bytes, plan.iterations),
            &options,
        ));
        let (times, error) = match copied {
            Ok(times) => (times, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let all = Picoseconds(times.iter().map(|time| time.0).sum());
        let bytes_per_second = median(times).map(|time| bytes as f64 / time.as_seconds());
        pairs.push(Pair { from, to, bytes_per_second, error });
        steps.done("copy", all);
    }
    steps.finish();
    let iterations = plan.iterations;
    let bench = "bridge servers";
    let matrix = Matrix { schema: SCHEMA, bench, bytes, iterations, cards, pairs, silent };
    match client.json {
        true => output::print_json(&matrix)?,
        false => output::print(&matrix.text())?,
    }
    steps.watch.end("")?;
    let is_whole = matrix.silent.is_empty() && matrix.pairs.iter().all(|pair| pair.error.is_none());
    if is_whole { Ok(()) } else { Err(CommandError::Run) }
}

/// Copies from the first byte of a card to the first of another; returns the time of each copy.
async fn copied(
    arguments: &ClientArguments,
    (from, to): (&Place, &Place),
    (bytes, iterations): (u64, u64),
    options: &TransferOptions,
) -> Result<Vec<Picoseconds>> {
    let client = connected(arguments, &from.server).await?;
    let times = copies(&client, (from, to), (bytes, iterations), options).await;
    client.close().await;
    Ok(times?)
}

async fn copies<R: Rdma, C: Clock>(
    client: &Client<R, C>,
    (from, to): (&Place, &Place),
    (bytes, iterations): (u64, u64),
    options: &TransferOptions,
) -> Result<Vec<Picoseconds>, BridgeError> {
    let place = CardPlace { card: from.card.clone(), address: 0 };
    let Place { server, card } = to.clone();
    let peer = peer_of(&from.server, CardAddress { server, card, address: 0 });
    let mut times = Vec::new();
    for _ in 0..iterations {
        let outcome = client.copy(&place, peer.clone(), bytes, options, |_| {}).await?;
        times.push(outcome.elapsed);
    }
    Ok(times)
}

/// Returns the middle one, the later of two.
fn median(mut times: Vec<Picoseconds>) -> Option<Picoseconds> {
    times.sort_unstable();
    times.get(times.len() / 2).copied().filter(|time| time.0 > 0)
}

impl Matrix {
    /// Formats it for people: numbered columns, and the errors below.
    fn text(&self) -> String {
        let numbers = (1..=self.cards.len()).map(|number| number.to_string());
        let head = [String::from("MB/s from \\ to")].into_iter().chain(numbers).collect::<Vec<_>>();
        let mut table = Table::headed(&head.join(" | "));
        for (from, place) in self.cards.iter().enumerate() {
            let mut row = vec![format!("{} {}/{}", from + 1, place.server, place.card)];
            row.extend((0..self.cards.len()).map(|to| self.cell(from, to)));
            table.row(row);
        }
        let (count, bytes) = (self.iterations, self.bytes);
        let copies = if count == 1 { "one copy".to_owned() } else { format!("{count} copies") };
        let mut text =
            format!("{}{copies} of {bytes} B for each pair, the median\n", shown(&table));
        for pair in &self.pairs {
            if let Some(error) = &pair.error {
                text += &format!("{} -> {}: {error}\n", pair.from + 1, pair.to + 1);
            }
        }
        for Silent { server, error } in &self.silent {
            text += &format!("{server}: {error}\n");
        }
        text
    }

    fn cell(&self, from: usize, to: usize) -> String {
        let pair = self.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
        match pair {
            Some(Pair { bytes_per_second: Some(rate), .. }) => format!("{:.1}", rate / 1e6),
            Some(_) => "failed".to_owned(),
            None => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_names_what_failed() {
        let place = |card: &str| Place { server: "a:1".to_owned(), card: card.to_owned() };
        let pair = |from, to, rate: Option<f64>| {
            let error = rate.is_none().then(|| "it is away".to_owned());
            Pair { from, to, bytes_per_second: rate, error }
        };
        let matrix = Matrix {
            schema: SCHEMA,
            bench: "bridge servers",
            bytes: 4096,
            iterations: 1,
            cards: vec![place("x"), place("y")],
            pairs: vec![pair(0, 1, Some(1.5e6)), pair(1, 0, None)],
            silent: vec![Silent { server: "b:1".to_owned(), error: "nobody".to_owned() }],
        };
        let text = matrix.text();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["1", "a:1/x", "-", "1.5"]), "{text}");
        assert!(lines.contains(&vec!["2", "a:1/y", "failed", "-"]), "{text}");
        assert!(text.ends_with("2 -> 1: it is away\nb:1: nobody\n"), "{text}");
        assert_eq!(median(vec![]), None);
        assert_eq!(median([3, 9, 1].map(Picoseconds).to_vec()), Some(Picoseconds(3)));
    }
}
