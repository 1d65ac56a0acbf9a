// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists of servers, and cards that are found among them by name.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use crosslane::bridge::messages::{Survey, one_line};
use crosslane::bridge::{CardAddress, CardName, Client, is_loopback};
use crosslane::host::{Clock, Rdma};
use crosslane::network::{MachineClock, Network};
use futures_executor::block_on;
use futures_util::future::join_all;

use super::arguments::ClientArguments;
use super::{client_trust, identity, open_network};
use crate::error::{CommandError, Result, usage};
use crate::files::read_text;

/// Longest list of servers, bytes.
const MOST_LIST_BYTES: usize = 1 << 20;
/// Most servers of a list: each is asked at the same time as the others.
const MOST_SERVERS: usize = 256;
/// Longest time for a server to answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Addresses that a name stands for; none if it cannot be resolved.
type Resolve = fn(&str) -> Vec<SocketAddr>;

/// Asks the resolver of this machine.
fn resolver(server: &str) -> Vec<SocketAddr> {
    server.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
}

/// Whether a text is `HOST:PORT` rather than the path of a file.
fn is_server(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    port.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

/// Returns the servers of a name: each address that it resolves to, of one family, IPv4 if it has
/// any, as a server may have one of each. A name with one address, or none, stays as it is.
fn expanded(server: &str, resolve: Resolve) -> Vec<String> {
    let as_it_is = vec![server.to_owned()];
    if is_loopback(server) || server.parse::<SocketAddr>().is_ok() {
        return as_it_is;
    }
    let all = resolve(server);
    let has_v4 = all.iter().any(SocketAddr::is_ipv4);
    let of_family = all.into_iter().filter(|address| address.is_ipv4() == has_v4);
    let mut addresses: Vec<String> = of_family.map(|address| address.to_string()).collect();
    addresses.sort();
    addresses.dedup();
    if addresses.len() > 1 { addresses } else { as_it_is }
}

/// Reads the lines of a file: servers, separated by commas too, with remarks behind `#`.
fn listed(place: &str, text: &str) -> Result<Vec<String>> {
    let mut servers = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for item in line.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if !is_server(item) {
                let line = number + 1;
                let why = "a server is written like node:7471";
                return Err(usage(format!("{place}: line {line}: {item}: {why}")));
            }
            servers.push(item.to_owned());
        }
    }
    Ok(servers)
}

/// Returns the servers of lists, each once: `HOST:PORT`, several with commas, or files.
///
/// # Errors
/// A file that cannot be read, a line in it that is no server, no server at all, and too many.
pub fn servers_of<'a>(lists: impl IntoIterator<Item = &'a String>) -> Result<Vec<String>> {
    servers_by(lists, resolver)
}

fn servers_by<'a>(
    lists: impl IntoIterator<Item = &'a String>,
    resolve: Resolve,
) -> Result<Vec<String>> {
    let mut servers: Vec<String> = Vec::new();
    for item in lists.into_iter().flat_map(|list| list.split(',')).map(str::trim) {
        let named = match is_server(item) {
            true => vec![item.to_owned()],
            false if item.is_empty() => return Err(usage("a server without a name in the list")),
            false => listed(item, &read_text(Path::new(item), MOST_LIST_BYTES)?)?,
        };
        for server in named.iter().flat_map(|server| expanded(server, resolve)) {
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    match servers.len() {
        0 => Err(usage("no server is named")),
        1..=MOST_SERVERS => Ok(servers),
        many => Err(usage(format!("{many} servers: a list has at most {MOST_SERVERS}"))),
    }
}

/// A server's answer, of itself and its cards.
pub struct Answer {
    /// Name of the network to it.
    pub network: String,
    /// Time of the question and its answer, microseconds.
    pub answer_us: f64,
    /// The answer.
    pub survey: Survey,
}

/// Connects to a server.
///
/// # Errors
/// A network that cannot be used, a key that cannot be read, and a server that does not answer.
pub async fn connected(
    arguments: &ClientArguments,
    server: &str,
) -> Result<Client<Network, MachineClock>> {
    let clock = MachineClock::new();
    let identity = identity(arguments)?;
    let trust = client_trust(arguments, &identity)?;
    let (network, _) = open_network(arguments.network, server, &clock, &trust)?;
    Ok(Client::connect(network, clock, server, &identity, ANSWER_TIME).await?)
}

async fn ask(arguments: &ClientArguments, server: &str) -> Result<Answer> {
    let client = connected(arguments, server).await?;
    let begun = client.clock().now();
    let survey = client.survey().await;
    let answer_us = client.clock().now().since(begun).as_seconds() * 1e6;
    let network = client.rdma().name();
    client.close().await;
    let mut survey = survey?;
    for card in &mut survey.cards {
        // Names are shown, and may be anything.
        card.name = one_line(&card.name);
    }
    Ok(Answer { network, answer_us, survey })
}

/// Asks all servers at the same time; the answers are in their order.
pub fn survey_of(arguments: &ClientArguments, servers: &[String]) -> Vec<Result<Answer>> {
    block_on(join_all(servers.iter().map(|server| ask(arguments, server))))
}

/// Finds cards: those that are named with their server are there, the others are looked for at all
/// servers of `--servers`.
///
/// # Errors
/// A card that no server has or several have, and one whose name another server could have as well
/// that does not answer.
pub fn found(arguments: &ClientArguments, cards: &[&CardName]) -> Result<Vec<CardAddress>> {
    let is_looked_for = cards.iter().any(|card| card.server.is_none());
    let answers: Vec<(String, Result<Answer>)> = match &arguments.servers {
        _ if !is_looked_for => Vec::new(),
        Some(list) => {
            let servers = servers_of([list])?;
            let answers = survey_of(arguments, &servers);
            servers.into_iter().zip(answers).collect()
        }
        None => {
            let why = "at which server: write SERVER/CARD, or name the servers by --servers";
            let card = cards.iter().find(|card| card.server.is_none());
            return Err(usage(format!("{} {why}", card.map_or("", |card| &card.card))));
        }
    };
    cards.iter().map(|card| located(card, &answers)).collect()
}

fn located(name: &CardName, answers: &[(String, Result<Answer>)]) -> Result<CardAddress> {
    let CardName { server, card, address } = name;
    let at = |server: &str| CardAddress {
        server: server.to_owned(),
        card: card.clone(),
        address: *address,
    };
    if let Some(server) = server {
        return Ok(at(server));
    }
    let has = |answer: &Answer| answer.survey.cards.iter().any(|state| state.name == *card);
    let with = answers.iter().filter(|(_, answer)| answer.as_ref().is_ok_and(has));
    let with: Vec<&str> = with.map(|(server, _)| server.as_str()).collect();
    let silent =
        answers.iter().find_map(|(server, answer)| answer.as_ref().err().zip(Some(server)));
    let failed = |why: String| Err(CommandError::Failed(format!("{card}: {why}")));
    match (with.as_slice(), silent) {
        ([server], None) => Ok(at(server)),
        ([server], Some((error, silent))) => failed(format!(
            "{server} has it, and {silent}, which may have one of this name too, does not answer: \
             write {server}/{card} ({error})"
        )),
        ([], Some((error, silent))) => {
            failed(format!("no server that answers has it; {silent}: {error}"))
        }
        ([], None) => {
            let cards =
                answers.iter().filter_map(|(server, answer)| Some((server, answer.as_ref().ok()?)));
            let have = cards.flat_map(|(server, answer)| {
                answer.survey.cards.iter().map(move |state| format!("{server}/{}", state.name))
            });
            let have = have.collect::<Vec<_>>().join(", ");
            failed(format!("no server of the list has it; they have {have}"))
        }
        ([first, ..], _) => {
            let all = with.join(", ");
            failed(format!("several servers have one: {all}; write {first}/{card}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Vec<SocketAddr> {
        Vec::new()
    }

    fn rack(name: &str) -> Vec<SocketAddr> {
        let all = ["10.0.0.2:7471", "[fd00::2]:7471", "10.0.0.1:7471", "10.0.0.2:7471"];
        let of_name = if name == "rack:7471" { &all[..] } else { &all[..2] };
        of_name.iter().map(|address| address.parse().expect("an address")).collect()
    }

    #[test]
    fn a_list_of_servers_has_remarks_and_blank_lines() {
        let text = "# ours\none:7471\n\n  10.0.0.2:7471, [::1]:9   # the other rack\n";
        assert_eq!(listed("l", text).unwrap(), ["one:7471", "10.0.0.2:7471", "[::1]:9"]);
        let error = listed("list.txt", "one:7471\none\n").unwrap_err().to_string();
        assert_eq!(error, "list.txt: line 2: one: a server is written like node:7471");
    }

    #[test]
    fn a_name_stands_for_all_its_addresses_of_one_family() {
        let lists = |texts: &[&str], resolve| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            servers_by(&texts, resolve).map_err(|error| error.to_string())
        };
        assert_eq!(lists(&["rack:7471"], rack).unwrap(), ["10.0.0.1:7471", "10.0.0.2:7471"]);
        // One address of each family is one server, whose name policies know.
        assert_eq!(lists(&["one:7471"], rack).unwrap(), ["one:7471"]);
        assert_eq!(lists(&["b:1,a:1", "b:1"], none).unwrap(), ["b:1", "a:1"]);
        assert_eq!(lists(&["localhost:1,127.0.0.1:2"], rack).unwrap().len(), 2);
        assert_eq!(lists(&[], none).unwrap_err(), "no server is named");
        assert_eq!(lists(&["a:1,"], none).unwrap_err(), "a server without a name in the list");
        assert!(lists(&["nosuch.txt"], none).unwrap_err().contains("nosuch.txt"));
        let many = (0..=MOST_SERVERS).map(|port| format!("a:{port}")).collect::<Vec<_>>().join(",");
        assert_eq!(lists(&[&many], none).unwrap_err(), "257 servers: a list has at most 256");
    }
}
