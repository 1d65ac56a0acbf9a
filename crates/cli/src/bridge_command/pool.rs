// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge pool`: the cards of several servers, with their memory and load.

use crosslane::bridge::messages::{Survey, one_line};
use crosslane::results::SCHEMA;
use crosslane_report::Table;
use crosslane_report::text::without_error_numbers;
use serde::Serialize;

use super::arguments::PoolArguments;
use super::servers::{Answer, servers_of, survey_of};
use crate::error::{CommandError, Result};
use crate::output::{self, shown};

/// A server, with its cards or the reason for which it has told none.
#[derive(Serialize)]
struct PoolServer {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    /// Time of the question and its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_us: Option<f64>,
    /// Its cards and memory.
    #[serde(flatten)]
    survey: Option<Survey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// JSON of the command.
#[derive(Serialize)]
struct Pool<'a> {
    schema: u32,
    servers: &'a [PoolServer],
}

/// `bridge pool`.
///
/// # Errors
/// A list that cannot be read or is empty, and servers that do not answer: behind all that do.
pub fn run(arguments: &PoolArguments) -> Result<()> {
    let servers = servers_of(arguments.server.iter().chain(&arguments.client.servers))?;
    let answers = survey_of(&arguments.client, &servers);
    let described = |(server, answer): (String, Result<Answer>)| match answer {
        Ok(Answer { network, answer_us, survey }) => {
            let (network, answer_us, survey) = (Some(network), Some(answer_us), Some(survey));
            PoolServer { server, network, answer_us, survey, error: None }
        }
        Err(error) => {
            let error = Some(error.to_string());
            PoolServer { server, network: None, answer_us: None, survey: None, error }
        }
    };
    let pool: Vec<PoolServer> = servers.into_iter().zip(answers).map(described).collect();
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
    let head = "server | card | kind | memory B: | transfers: | moved B: | slots: | free to: | \
                free from: | free B:";
    let mut table =
        Table::headed(head).least_first(&["free from", "free to", "slots", "free B", "kind"]);
    let mut errors = String::new();
    for PoolServer { server, survey, error, .. } in pool {
        for card in survey.iter().flat_map(|survey| &survey.cards) {
            if let Some(why) = &card.outage {
                let (name, why) = (one_line(&card.name), one_line(why));
                errors += &format!("{server}/{name} is out of service: {why}\n");
            }
            let memory = card.memory_bytes.map_or_else(|| "-".to_owned(), |it| it.to_string());
            let [to, from] = card.free_slots;
            let free = survey.as_ref().map_or(0, |survey| survey.free_memory_bytes);
            table.row([
                server.clone(),
                card.name.clone(),
                card.kind.to_string(),
                memory,
                card.transfers.to_string(),
                card.moved_bytes.to_string(),
                card.slots.to_string(),
                to.to_string(),
                from.to_string(),
                free.to_string(),
            ]);
        }
        if let Some(error) = error {
            errors += &format!("{server}: {}\n", without_error_numbers(error));
        }
    }
    let cards = if table.rows.is_empty() { String::new() } else { shown(&table) };
    format!("{cards}{errors}")
}
