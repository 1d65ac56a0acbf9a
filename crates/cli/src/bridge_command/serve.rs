// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge serve`: a card, of this machine or of a lab, beside a real network.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crosslane::bridge::{Guard, Identity, Key, Policy, Report, Server, ServerEvent, ServerOptions};
use crosslane::host::{Rdma, RdmaListener};
use crosslane::network::{MachineClock, Network, SharedKey, Trust};
use crosslane::open::{AnyBus, AnyRdma, Device, Session};
use crosslane_report::output::OutputError;
use serde::Serialize;

use super::arguments::{RingArguments, ServeArguments};
use super::{open_network, random_key, read_key};
use crate::error::{CommandError, Result, usage};
use crate::output;

/// Name of a card without a given one.
pub const DEFAULT_NAME: &str = "fpga0";

/// Splits `NAME=DEVICE`; without a name, the card is fpga0.
fn card_name(text: &str) -> Result<(&str, &str)> {
    let (name, device) = text.split_once('=').unwrap_or((DEFAULT_NAME, text));
    if name.is_empty() || name.contains(['/', ':']) {
        let why = format!("--device {text}: a card's name has no / and no : in it");
        return Err(usage(why));
    }
    Ok((name, device))
}

/// Returns a server's settings, except its guard.
pub fn server_options(ring: &RingArguments) -> ServerOptions {
    ServerOptions::default()
        .with_slots(ring.buffers.into())
        .with_slot_bytes(ring.buffer_size)
        .with_least_chunk_bytes(ServerOptions::default().least_chunk_bytes.min(ring.buffer_size))
        .with_window_bytes(ring.window)
}

/// Runs a program beside a real network on the first card of a name; no other is opened.
///
/// # Errors
/// A name without a card, a card that cannot be opened, and the program's errors.
pub fn on_card<T>(name: &str, program: impl AsyncFnOnce(Device<AnyBus>) -> Result<T>) -> Result<T> {
    let session = Session::open(name)?;
    session.run_free(async {
        let device = session.device(0).await;
        let failed = |error| CommandError::Failed(format!("{}: {error}", session.cards()[0].name));
        program(device.map_err(failed)?).await
    })
}

/// Makes the server of a card on a real network; also returns the network's name.
async fn server(
    (network, clock): (&Network, &MachineClock),
    (name, card): (&str, Device<AnyBus>),
    options: ServerOptions,
    tell: impl Fn(&ServerEvent) + 'static,
) -> Result<(Server<AnyBus, AnyRdma, MachineClock>, String)> {
    let rdma = AnyRdma::new(network.clone(), card.bus());
    let words = rdma.name();
    let cards = vec![(name.to_owned(), card)];
    let server = Server::new(cards, rdma, clock.clone(), options, tell).await?;
    Ok((server, words))
}

/// `bridge serve`.
///
/// # Errors
/// Invalid arguments, a network that cannot be used, or a device that fails as a whole.
pub fn run(arguments: &ServeArguments) -> Result<()> {
    let (card, device_name) = card_name(&arguments.device)?;
    let guard = match &arguments.policy {
        Some(path) => Guard::Keys(Policy::read(path, random_key()?)?),
        None => Guard::Open,
    };
    let key = arguments.key.as_deref().map(read_key).transpose()?;
    let trust = trust(arguments, &guard, key.as_ref());
    let options = server_options(&arguments.ring)
        .with_guard(guard)
        .with_identity(Identity { name: arguments.name.clone(), key });
    let tell = teller(arguments.log.clone())?;
    let (listen, choice) = (&arguments.listen, arguments.network);
    on_card(device_name, async |device| {
        // After the card, so that a wrong name is reported first.
        let clock = MachineClock::new();
        let (network, why) = open_network(choice, listen, &clock, &trust)?;
        let (server, name) = server((&network, &clock), (card, device), options, tell).await?;
        let listener = server.listen(listen).await?;
        let address = listener.address();
        output::print(&format!(
            "serving {card} ({device_name}) at {address}\nnetwork: {name}, because {why}\n"
        ))?;
        server.serve(listener, std::future::pending()).await?;
        Ok(())
    })
}

/// The trust of the server's network: clients of the policy, and servers that know this one's key.
fn trust(arguments: &ServeArguments, guard: &Guard, key: Option<&Key>) -> Trust {
    let shared = |key: &Key| SharedKey(*key.bytes());
    let accept = match guard {
        Guard::Keys(policy) => policy.keys().map(shared).collect(),
        Guard::Open => Vec::new(),
    };
    Trust { accept, present: key.map(shared), everybody: arguments.trust_network }
}

/// An event as a line of the log.
#[derive(Serialize)]
struct LogLine<'a> {
    /// Time since 1970, ms.
    time_ms: u64,
    text: String,
    report: Option<&'a Report>,
}

/// Returns what is told of events: standard error, and the log if there is one.
fn teller(log: Option<PathBuf>) -> Result<impl Fn(&ServerEvent) + 'static> {
    // One that cannot be written is reported before anything is served.
    log.as_deref().map(opened).transpose()?;
    Ok(move |event: &ServerEvent| {
        let text = event.to_string();
        output::print_hint(&text);
        let Some(path) = &log else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let report = match event {
            ServerEvent::Done { report, .. } => Some(&**report),
            _ => None,
        };
        let time_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let line = serde_json::to_string(&LogLine { time_ms, text, report });
        // Opened for each event: it may have been moved away meanwhile.
        let written = opened(path).and_then(|mut file| {
            let line = line.map_err(CommandError::failed)? + "\n";
            file.write_all(line.as_bytes()).map_err(|error| OutputError::file(path, error).into())
        });
        if let Err(error) = written {
            output::print_error(&error.to_string());
        }
    })
}

/// Opens a log to write behind its end.
fn opened(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| OutputError::file(path, error).into())
}

/// Runs a program with the address of a server in the same process. Returns its result and the name
/// of the server's network.
///
/// # Errors
/// Errors of the program and of the server.
pub async fn beside<T>(
    (network, clock): (&Network, &MachineClock),
    card: Device<AnyBus>,
    options: ServerOptions,
    program: impl AsyncFnOnce(String) -> Result<T>,
) -> Result<(T, String)> {
    let named = (DEFAULT_NAME, card);
    let (server, name) = server((network, clock), named, options, |_| {}).await?;
    let listener = server.listen("127.0.0.1:0").await?;
    let address = listener.address();
    let (stop, stopped) = futures_channel::oneshot::channel::<()>();
    let serving = server.serve(listener, async {
        // Dropped is as good as sent.
        let _ = stopped.await;
    });
    let programming = async {
        let result = program(address).await;
        drop(stop);
        result
    };
    let (served, result) = futures_util::join!(serving, programming);
    served?;
    Ok((result?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_the_name_that_is_given() {
        assert_eq!(card_name("lab:kc705").ok(), Some(("fpga0", "lab:kc705")));
        assert_eq!(card_name("big=lab:sbdt/pac").ok(), Some(("big", "lab:sbdt/pac")));
        assert!(card_name("a/b=lab:kc705").is_err());
        assert!(card_name("=lab:kc705").is_err());
    }
}
