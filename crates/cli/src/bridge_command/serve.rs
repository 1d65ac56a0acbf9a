// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `crosslane bridge serve`: cards, of this machine or of a lab, beside a real network.

use std::rc::Rc;

use crosslane::bridge::{Guard, Identity, Key, Policy, Served, Server, ServerEvent, ServerOptions};
use crosslane::host::{Rdma, RdmaListener, RdmaResult};
use crosslane::network::{MachineClock, Network, SharedKey, Trust, TurnedAway};
use crosslane::open::{AnyRdma, Cards, DeviceName, Opened, SessionOptions};

use super::arguments::{RingArguments, ServeArguments};
use super::control::Control;
use super::monitor::{Monitor, ready_and_alive};
use super::reload::Devices;
use super::{certificates, name_of, open_network, random_key, read_key, reload};
use crate::error::{CommandError, Result, usage};
use crate::output;

/// Name of the first card without a given one.
pub const DEFAULT_NAME: &str = "fpga0";

/// Splits `NAME=DEVICE`; without a name, a card is fpga0, fpga1 and so on by its place, if it has
/// one. An equals sign behind the colon of a device belongs to a path.
pub fn card_name(text: &str, number: Option<usize>) -> Result<(String, DeviceName)> {
    let named = text.split_once('=').filter(|(name, _)| !name.contains(':'));
    let (name, device) = match (named, number) {
        (Some((name, device)), _) => (name.to_owned(), device),
        (None, Some(number)) => (format!("fpga{number}"), text),
        (None, None) => return Err(usage(format!("{text}: a card is named NAME=DEVICE"))),
    };
    if name.is_empty() || name.contains('/') {
        let why = format!("{text}: a card's name has no / and no : in it");
        return Err(usage(why));
    }
    Ok((name, device.parse()?))
}

/// Returns the names of cards and their devices.
fn card_names(texts: &[String]) -> Result<(Vec<String>, Vec<DeviceName>)> {
    let mut names: Vec<String> = Vec::new();
    let mut devices = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let (name, device) = card_name(text, Some(number))?;
        if names.contains(&name) {
            let why = "another card has this name: write NAME=DEVICE for one of them";
            return Err(usage(format!("--device {text}: {name}: {why}")));
        }
        names.push(name);
        devices.push(device);
    }
    Ok((names, devices))
}

/// Returns a server's settings, except its guard.
pub fn server_options(ring: &RingArguments) -> ServerOptions {
    ServerOptions::default()
        .with_slots(ring.buffers.into())
        .with_slot_bytes(ring.buffer_size)
        .with_least_chunk_bytes(ServerOptions::default().least_chunk_bytes.min(ring.buffer_size))
        .with_window_bytes(ring.window)
}

/// Cards to be served, with their names.
pub struct NamedCards<'a> {
    cards: &'a Cards,
    names: Vec<String>,
    /// Those that are opened alone, so that they can be let go, by their places among all.
    alone: Vec<(usize, String, DeviceName)>,
}

/// Returns an open card as a server takes it.
fn served(card: Opened) -> Served {
    match card {
        Opened::Engine(device) => Served::Engine(device),
        Opened::Memory(memory) => Served::Memory(memory),
        Opened::Null => Served::Null,
    }
}

/// Opens a card alone: it is closed when its server lets it go.
///
/// # Errors
/// The sentence of the error.
pub async fn opened(device: &DeviceName) -> Result<Served, String> {
    let cards = Cards::open(std::slice::from_ref(device), SessionOptions::default());
    let card = cards.map_err(|error| error.to_string())?.card(0).await;
    card.map(served).map_err(|error| error.to_string())
}

/// Runs a program beside a real network on a card of this name.
///
/// # Errors
/// A name without a card, and the program's errors.
pub fn on_card<T>(
    device: &str,
    program: impl AsyncFnOnce(NamedCards<'_>) -> Result<T>,
) -> Result<T> {
    let cards = Cards::open(&[device.parse()?], SessionOptions::default())?;
    let names = vec![DEFAULT_NAME.to_owned()];
    let named = NamedCards { cards: &cards, names, alone: Vec::new() };
    cards.run_free(program(named))
}

/// Makes the server of cards on a real network; also returns the network's name.
async fn server(
    (network, clock): (&Network, &MachineClock),
    NamedCards { cards, names, alone }: NamedCards<'_>,
    options: ServerOptions,
    tell: impl Fn(&ServerEvent) + 'static,
) -> Result<(Server<AnyRdma, MachineClock>, String)> {
    let rdma = cards.rdma(network.clone());
    let words = rdma.name();
    let mut all: Vec<(String, Served)> = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        all.push((name, served(cards.card(number).await.map_err(CommandError::failed)?)));
    }
    for (place, name, device) in alone {
        let card = opened(&device).await.map_err(CommandError::Failed)?;
        all.insert(place, (name, card));
    }
    let server = Server::new(all, rdma, clock.clone(), options, tell).await?;
    Ok((server, words))
}

/// `bridge serve`.
///
/// # Errors
/// Invalid arguments, a network that cannot be used, or a device that fails as a whole.
pub fn run(arguments: &ServeArguments) -> Result<()> {
    let (names, devices) = card_names(&arguments.device)?;
    // Each client has two sockets over tls.
    crosslane_serve::raise_limit_of_files();
    let guard = match &arguments.policy {
        Some(path) => Guard::Keys(Policy::read(path, random_key()?)?),
        None => Guard::Open,
    };
    let key = arguments.key.as_deref().map(read_key).transpose()?;
    let monitor = Monitor::new(arguments.log);
    let trust = trust(arguments, &guard, key.as_ref(), &monitor)?;
    let name = name_of(arguments.name.as_ref(), &arguments.certificates, "bridge");
    let options = server_options(&arguments.ring)
        .with_guard(guard)
        .with_certificate(trust.certificates.is_some())
        .with_identity(Identity { name, key });
    let (listen, choice) = (&arguments.listen, arguments.network);
    let clock = MachineClock::new();
    let by_name: Devices = Rc::default();
    by_name.borrow_mut().extend(names.iter().cloned().zip(devices.iter().cloned()));
    let programs = reload::programs(arguments, &by_name, &clock)?;
    let list = names.iter().zip(&devices).map(|(name, device)| format!("{name} ({device})"));
    let list = list.collect::<Vec<_>>().join(", ");
    let all = names.into_iter().zip(devices).enumerate();
    let (alone, shared): (Vec<_>, Vec<_>) = all.partition(|(_, (name, _))| programs.has(name));
    let alone = alone.into_iter().map(|(place, (name, device))| (place, name, device)).collect();
    let (names, devices): (Vec<_>, Vec<_>) = shared.into_iter().map(|(_, card)| card).unzip();
    let cards = Cards::open(&devices, SessionOptions::default())?;
    cards.run_free(async {
        // After the cards, so that a wrong name is reported first.
        let (network, why) = open_network(choice, listen, &clock, &trust)?;
        let cards = NamedCards { cards: &cards, names, alone };
        let metrics =
            arguments.metrics.map(|address| monitor.serve(address, &clock)).transpose()?;
        let tell = move |event: &ServerEvent| monitor.tell(event);
        let control = arguments.control.as_deref().map(Control::listen).transpose()?;
        let (server, name) = server((&network, &clock), cards, options, tell).await?;
        let server = server.with_reloader(programs);
        let listener = server.listen(listen).await?;
        let address = listener.address();
        let changes = server.changes();
        let metrics = metrics.map(|address| format!("counters: http://{address}/metrics\n"));
        output::print(&format!(
            "serving {list} at {address}\nnetwork: {name}, because {why}\n{}",
            metrics.unwrap_or_default()
        ))?;
        let beside = async {
            let obeying = async {
                if let Some(control) = control {
                    control.obey(&changes, &by_name).await;
                }
            };
            futures_util::join!(ready_and_alive(&clock, &address), obeying);
        };
        server.serve(listener, beside).await?;
        Ok(())
    })
}

/// The trust of the server's network: clients of the policy, and servers that know this one's key
/// or certificate.
///
/// # Errors
/// Certificates that cannot be read, or that the policy asks for and that are missing.
fn trust(
    arguments: &ServeArguments,
    guard: &Guard,
    key: Option<&Key>,
    monitor: &Monitor,
) -> Result<Trust> {
    let shared = |key: &Key| SharedKey(*key.bytes());
    let certificates = certificates(&arguments.certificates)?;
    if let Some(certificates) = &certificates {
        let monitor = monitor.clone();
        certificates.follow(move |outcome: RdmaResult<()>| {
            monitor.tell_certificates(outcome.err().as_ref());
        });
    }
    let accept = match guard {
        Guard::Keys(policy) => {
            if let Some(client) = policy.with_certificate().filter(|_| certificates.is_none()) {
                let why = "has a certificate in the policy: --tls-cert, --tls-key and --tls-ca \
                    are missing";
                return Err(usage(format!("client {client} {why}")));
            }
            policy.keys().map(shared).collect()
        }
        Guard::Open => Vec::new(),
    };
    let (present, everybody) = (key.map(shared), arguments.trust_network);
    let monitor = monitor.clone();
    let turned_away =
        TurnedAway::new(move |from, why, others| monitor.tell_turned_away(from, why, others));
    Ok(Trust { accept, present, certificates, everybody, turned_away: Some(turned_away) })
}

/// Runs a program with the address of a server in the same process. Returns its result and the name
/// of the server's network.
///
/// # Errors
/// Errors of the program and of the server.
pub async fn beside<T>(
    (network, clock): (&Network, &MachineClock),
    cards: NamedCards<'_>,
    options: ServerOptions,
    program: impl AsyncFnOnce(String) -> Result<T>,
) -> Result<(T, String)> {
    let (server, name) = server((network, clock), cards, options, |_| {}).await?;
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
        let read =
            |text| card_name(text, Some(3)).ok().map(|(name, device)| (name, device.to_string()));
        let is = |name: &str, device: &str| Some((name.to_owned(), device.to_owned()));
        assert_eq!(read("lab:kc705"), is("fpga3", "lab:kc705"));
        assert_eq!(read("big=lab:sbdt/pac"), is("big", "lab:sbdt/pac"));
        assert_eq!(read("file:/a=b"), is("fpga3", "file:/a=b"));
        assert_eq!(read("big=file:/a=b"), is("big", "file:/a=b"));
        for wrong in ["a/b=lab:kc705", "=lab:kc705", "kc705", "a=mem:5"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let names = |texts: &[&str]| {
            card_names(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["null:", "a=null:", "null:"]).unwrap().0, ["fpga0", "a", "fpga2"]);
        assert!(names(&["null:", "fpga0=null:"]).is_err());
        let error = card_name("mem:4K", None).unwrap_err().to_string();
        assert_eq!(error, "mem:4K: a card is named NAME=DEVICE");
    }
}
