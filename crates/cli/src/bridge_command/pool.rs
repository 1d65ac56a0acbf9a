// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge pool`: the cards of several servers, with their memory and load.

use std::time::Duration;

use crosslane::bridge::Client;
use crosslane::bridge::messages::CardState;
use crosslane::host::{Clock, Rdma};
use crosslane::network::MachineClock;
use crosslane::results::SCHEMA;
use crosslane_report::Table;
use futures_executor::block_on;
use futures_util::future::join_all;
use serde::Serialize;

use super::arguments::PoolArguments;
use super::{client_trust, identity, open_network};
use crate::error::{CommandError, Result, usage};
use crate::files::read_text;
use crate::output::{self, shown};

/// Longest list of servers, bytes.
const MOST_LIST_BYTES: usize = 1 << 20;
/// Longest time for a server to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A server, with its cards or the reason for which it has told none.
#[derive(Serialize)]
struct PoolServer {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    /// Time of the question and its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_us: Option<f64>,
    cards: Vec<CardState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// JSON of the command.
#[derive(Serialize)]
struct Pool<'a> {
    schema: u32,
    servers: &'a [PoolServer],
}

/// Reads a list of servers: one on each line, with remarks behind `#`.
fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Asks a server for its cards.
async fn ask(arguments: &PoolArguments, server: &str) -> Result<(String, f64, Vec<CardState>)> {
    let clock = MachineClock::new();
    let identity = identity(&arguments.client)?;
    let trust = client_trust(&arguments.client, &identity);
    let (network, _) = open_network(arguments.client.network, server, &clock, &trust)?;
    let client =
        Client::connect(network.clone(), clock.clone(), server, &identity, ANSWER_TIME).await?;
    let begun = clock.now();
    let cards = client.survey().await;
    let took = clock.now().since(begun);
    client.close().await;
    Ok((network.name(), took.as_seconds() * 1e6, cards?))
}

/// `bridge pool`.
///
/// # Errors
/// A list that cannot be read or is empty, and servers that do not answer: behind all that do.
pub fn run(arguments: &PoolArguments) -> Result<()> {
    let mut servers = arguments.server.clone();
    if let Some(path) = &arguments.servers {
        servers.extend(listed(&read_text(path, MOST_LIST_BYTES)?));
    }
    if servers.is_empty() {
        return Err(usage("no server is named"));
    }
    let asked = servers.iter().map(async |server| {
        let (server, empty) = (server.clone(), Vec::new());
        match ask(arguments, &server).await {
            Ok((network, answer_us, cards)) => {
                let (network, answer_us) = (Some(network), Some(answer_us));
                PoolServer { server, network, answer_us, cards, error: None }
            }
            Err(error) => {
                let error = Some(error.to_string());
                PoolServer { server, network: None, answer_us: None, cards: empty, error }
            }
        }
    });
    let pool: Vec<PoolServer> = block_on(join_all(asked));
    let is_whole = pool.iter().all(|server| server.error.is_none());
    if arguments.client.json {
        output::print_json(&Pool { schema: SCHEMA, servers: &pool })?;
    } else {
        output::print(&text(&pool))?;
    }
    match is_whole {
        true => Ok(()),
        false => Err(CommandError::Run),
    }
}

fn text(pool: &[PoolServer]) -> String {
    let head = "server | card | kind | memory B | transfers | moved B | slots to | from | of";
    let mut table = Table::headed(head);
    let mut errors = String::new();
    for PoolServer { server, cards, error, .. } in pool {
        for card in cards {
            let memory = card.memory_bytes.map_or_else(|| "-".to_owned(), |it| it.to_string());
            let [to, from] = card.free_slots;
            table.row([
                server.clone(),
                card.name.clone(),
                card.kind.to_string(),
                memory,
                card.transfers.to_string(),
                card.moved_bytes.to_string(),
                to.to_string(),
                from.to_string(),
                card.slots.to_string(),
            ]);
        }
        if let Some(error) = error {
            errors += &format!("{server}: {error}\n");
        }
    }
    format!("{}{errors}", shown(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_servers_has_remarks_and_blank_lines() {
        let text = "# ours\none:7471\n\n  10.0.0.2:7471   # the other rack\n";
        assert_eq!(listed(text), ["one:7471", "10.0.0.2:7471"]);
    }
}
